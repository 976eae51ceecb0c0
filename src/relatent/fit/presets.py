"""Settings that rank the known benchmarks best, chosen on their validation facts; see docs/benchmarks.md for figures.

`-softmax` and `-logistic` differ in the likelihood: each answer competes with all entities, or every cell counts by
itself, as in the paper. Both have whole relation matrices, but for `codex-s-logistic`; `-complex` and `-blocks` are
softmax fits in batches, with a structure of this name. All are meant for a GPU; on a CPU they run as well, but slowly.
"""

from __future__ import annotations

from sklearn.base import clone

from ..errors import InputError
from ..model.structure import Blocks
from .estimators.rescal import Rescal
from .losses import Logistic, Softmax
from .optimisers import Adam
from .penalties import N3, Dura


def _ranking(loss: Logistic | Softmax, rank: int, dura: float, lr: float, rounds: int, power: float = 1.0) -> Rescal:
    """Small random start, Adam on exact gradients, no bias if it would cancel."""
    return Rescal(
        rank,
        loss=loss,
        bias=not loss.ranks_only,
        penalty=Dura(dura, power),
        optimiser=Adam(lr),
        max_iter=rounds,
        method="exact",
        init="small",
        device="cuda",
        structure="full",
    )


def _structured(loss: Softmax, rank: int, structure: str | Blocks, penalty: Dura | N3, steps: int) -> Rescal:
    """Batches of facts, a large rank, and relation matrices of few numbers; a round has four steps."""
    model = _ranking(loss, rank, 0.0, lr=0.01, rounds=steps // 4)
    model.set_params(structure=structure, penalty=penalty, method="sampled")
    return model


PRESETS = {
    "fb15k-237-softmax": _ranking(Softmax(relation_weight=2.0), 512, dura=0.08, lr=0.02, rounds=75),
    "fb15k-237-quick": _ranking(Softmax(), 256, dura=0.1, lr=0.03, rounds=50),
    "fb15k-237-logistic": _ranking(Logistic(), 256, dura=0.06, lr=0.03, rounds=60),
    "wn18rr-softmax": _ranking(
        Softmax(degree_weight=0.9, reciprocal=True), 512, dura=0.125, lr=0.04, rounds=75, power=0.5
    ),
    "wn18rr-logistic": _ranking(Logistic(), 256, dura=0.15, lr=0.03, rounds=50),
    "codex-s-softmax": _ranking(Softmax(), 256, dura=0.03, lr=0.02, rounds=100),
    "fb15k-237-blocks": _structured(
        Softmax(relation_weight=4.0, batch_size=4096, reciprocal=True, group_size=1),
        2048,
        Blocks(4),
        Dura(0.04),
        steps=3000,
    ),
    "codex-s-complex": _structured(
        Softmax(relation_weight=0.5, batch_size=1024, group_size=1), 2000, "complex", N3(0.02), steps=1920
    ),
    "codex-s-logistic": _ranking(Logistic(), 128, dura=0.02, lr=0.06, rounds=125).set_params(structure="complex"),
}


def preset(name: str, *, device: str = "cuda", random_state: int = 0) -> Rescal:
    """An estimator with the settings of this name; `set_params(rank=64)` and the like change them.

    >>> import relatent
    >>> relatent.preset("codex-s-softmax", device="cpu").set_params(rank=64).penalty
    Dura(weight=0.03, frequency_power=1.0)
    """
    if name not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    made: Rescal = clone(PRESETS[name]).set_params(device=device, random_state=random_state)
    return made
