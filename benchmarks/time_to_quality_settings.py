"""Settings and budgets of `time_to_quality`.

Guides are the published settings: LibKGE's best models (RESCAL, ComplEx, DistMult) and ComplEx with N3 and relation
prediction of Chen et al. (2021). Those are for hours on a GPU: ranks are smaller here, and the second setting of a peer
differs in what seems to matter most on two cores. Every peer has two settings; the one with the better validation MRR
is reported. Ours without options has none.
"""

from __future__ import annotations

from typing import Any

BUDGETS = {"codex-s": 60.0, "wn18rr": 180.0, "fb15k-237": 380.0}  # seconds of training
Settings = dict[str, Any]
ROUNDS = [100, 50, 25, 12, 6, 200]  # of fits without options, the default first


def _plain(n3: float, relation_weight: float, *variants: Settings) -> list[Settings]:
    common = {"rank": 256, "lr": 0.1, "batch_size": 500, "n3": n3, "relation_weight": relation_weight}
    return [common | variant for variant in variants]


def _pykeen(model: str, rank: int, lr: float, *variants: Settings, **changes: Any) -> list[Settings]:
    """Cross-entropy and reciprocal relations ("inverse triples") in all of them."""
    common = {"model": model, "rank": rank, "optimiser": "Adagrad", "lr": lr, "batch_size": 512, "n3": 0.0}
    common |= {
        "negatives": None,
        "label_smoothing": 0.0,
        "dropout": [0.0, 0.0],  # of entities and of relations
        "std": 0.1,
    }
    return [common | changes | variant for variant in variants]


ALL, SOME = {"candidates": None}, {"candidates": 4096}  # entities that an answer competes with

ADAM: Settings = {"optimiser": "Adam"}
SAMPLED: Settings = {"negatives": 64, "batch_size": 1024}  # RESCAL would gather a matrix per negative
SMALL: Settings = {"batch_size": 64}  # this model holds batch size × entities × rank numbers

SETTINGS: dict[str, dict[str, list[Settings]]] = {
    "relatent": {graph: [{"rounds": ROUNDS}] for graph in BUDGETS},
    "plain ComplEx": {
        "codex-s": _plain(0.01, 0.125, {"rank": 512}, {"rank": 256}),
        "wn18rr": _plain(0.1, 0.05, ALL, SOME),
        "fb15k-237": _plain(0.05, 4.0, ALL, SOME),
    },
    "PyKEEN ComplEx": {  # its complex numbers have no dropout
        "codex-s": _pykeen("ComplEx", 512, 0.1, {"n3": 0.01}, {"n3": 0.002}),
        "wn18rr": _pykeen("ComplEx", 128, 0.5, {"n3": 0.1}, {"n3": 0.02} | SAMPLED),
        "fb15k-237": _pykeen("ComplEx", 256, 0.18, {"n3": 0.05}, {"n3": 0.01} | SAMPLED),
    },
    "PyKEEN DistMult": {
        "codex-s": _pykeen("DistMult", 256, 0.16, {"n3": 0.01}, {"dropout": [0.42, 0.41]}),
        "wn18rr": _pykeen("DistMult", 128, 0.33, {}, SAMPLED, **SMALL, dropout=[0.37, 0.5]),
        "fb15k-237": _pykeen("DistMult", 256, 0.16, {}, SAMPLED, **SMALL, dropout=[0.42, 0.41]),
    },
    "PyKEEN RESCAL": {
        "codex-s": _pykeen(
            "RESCAL", 128, 0.045, {}, {"optimiser": "Adam", "lr": 0.005, "dropout": [0.4, 0.15]}, std=0.06
        ),
        "wn18rr": _pykeen("RESCAL", 128, 0.00085, {}, {"lr": 0.003}, **ADAM, std=0.2, dropout=[0.0, 0.24]),
        "fb15k-237": _pykeen("RESCAL", 128, 0.00074, {}, {"lr": 0.003}, **ADAM, std=0.12, dropout=[0.43, 0.16]),
    },
}
