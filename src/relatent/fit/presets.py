"""Settings that rank the known benchmarks best, chosen on their validation facts; docs/benchmarks.md has the figures.

`-softmax` and `-logistic` differ in the likelihood: who else could stand there, or every cell by itself, as in the
paper. All are for a GPU and run on a CPU as well, with patience.
"""

from __future__ import annotations

from sklearn.base import clone

from ..errors import InputError
from .estimators.rescal import Rescal
from .losses import Logistic, Loss, Softmax
from .optimisers import Adam
from .penalties import Dura


def _ranking(loss: Loss, rank: int, dura: float, lr: float, rounds: int) -> Rescal:
    """From small random numbers, by Adam on exact gradients; no bias where it would cancel."""
    return Rescal(
        rank,
        loss=loss,
        bias=isinstance(loss, Logistic),
        penalty=Dura(dura),
        optimiser=Adam(lr),
        max_iter=rounds,
        method="exact",
        init="small",
        device="cuda",
    )


PRESETS = {
    "fb15k-237-softmax": _ranking(Softmax(relations=2.0), 512, dura=0.08, lr=0.02, rounds=75),
    "fb15k-237-quick": _ranking(Softmax(), 256, dura=0.1, lr=0.03, rounds=50),
    "fb15k-237-logistic": _ranking(Logistic(), 256, dura=0.06, lr=0.03, rounds=60),
    "wn18rr-softmax": _ranking(Softmax(hubs=0.9), 512, dura=0.2, lr=0.05, rounds=50),
    "wn18rr-logistic": _ranking(Logistic(), 256, dura=0.15, lr=0.03, rounds=50),
    "codex-s-softmax": _ranking(Softmax(), 256, dura=0.03, lr=0.02, rounds=100),
    "codex-s-logistic": _ranking(Logistic(), 128, dura=0.02, lr=0.06, rounds=125),
}


def preset(name: str, *, device: str = "cuda", random_state: int = 0) -> Rescal:
    """An estimator with the settings of this name; `set_params(rank=64)` and the like change them.

    >>> import relatent
    >>> relatent.preset("codex-s-softmax", device="cpu").set_params(rank=64).penalty
    Dura(weight=0.03)
    """
    if name not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    made: Rescal = clone(PRESETS[name]).set_params(device=device, random_state=random_state)
    return made
