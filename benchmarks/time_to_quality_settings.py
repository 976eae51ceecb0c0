"""Settings and budgets of `time_to_quality`.

Guides are the published settings: LibKGE's best models (RESCAL, ComplEx, DistMult) and ComplEx with N3 and relation
prediction of Chen et al. (2021). Those are for hours on a GPU: ranks are smaller here, and the second setting of a peer
differs in what seems to matter most on two cores. Every peer has two or three settings; the one with the best
validation MRR is reported. Ours without options has none; `Rescal(loss="softmax")` without others is for small graphs.
"""

from __future__ import annotations

from typing import Any

BUDGETS = {"codex-s": 60.0, "wn18rr": 150.0, "fb15k-237": 380.0}  # seconds of training
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


ALL: Settings = {"candidates": None}  # entities that an answer competes with
SOME: Settings = {"candidates": 4096, "batch_size": 250}

ADAM: Settings = {"optimiser": "Adam"}
ADAGRAD: Settings = {"optimiser": "Adagrad", "lr": 0.1, "std": 0.06, "dropout": [0.0, 0.0]}
SAMPLED: Settings = {"negatives": 64, "batch_size": 1024}  # RESCAL would gather a matrix per negative
SMALL: Settings = {"batch_size": 64}  # this model holds batch size × entities × rank numbers

SETTINGS: dict[str, dict[str, list[Settings]]] = {
    "relatent": {graph: [{"rounds": ROUNDS}] for graph in BUDGETS},
    "relatent softmax": {"codex-s": [{"rounds": [80, 40, 20, 160]}], "wn18rr": [], "fb15k-237": []},
    "plain ComplEx": {
        "codex-s": _plain(0.01, 0.125, {"rank": 512}, {"rank": 256}, {"rank": 1024, "n3": 0.02}),
        "wn18rr": _plain(0.1, 0.05, ALL, SOME | {"batch_size": 500}),
        "fb15k-237": _plain(0.05, 4.0, ALL, SOME),
    },
    "PyKEEN ComplEx": {  # its complex numbers have no dropout
        "codex-s": _pykeen("ComplEx", 512, 0.1, {"n3": 0.01}, {"n3": 0.002}, {"n3": 0.01, "lr": 0.25}),
        "wn18rr": _pykeen("ComplEx", 128, 0.5, {"n3": 0.1}, {"n3": 0.02, "negatives": 16, "batch_size": 4096}),
        "fb15k-237": _pykeen("ComplEx", 256, 0.18, {"n3": 0.05}, {"n3": 0.05, "lr": 0.1, "batch_size": 100}),
    },
    "PyKEEN DistMult": {
        "codex-s": _pykeen("DistMult", 256, 0.16, {"n3": 0.01}, {"dropout": [0.42, 0.41]}),
        "wn18rr": _pykeen("DistMult", 128, 0.33, {}, SAMPLED, **SMALL, dropout=[0.37, 0.5]),
        "fb15k-237": _pykeen("DistMult", 256, 0.16, {}, SAMPLED, **SMALL, dropout=[0.42, 0.41]),
    },
    "PyKEEN RESCAL": {
        "codex-s": _pykeen(
            "RESCAL",
            128,
            0.045,
            {},
            {"optimiser": "Adam", "lr": 0.005, "dropout": [0.4, 0.15]},
            {"lr": 0.1, "dropout": [0.3, 0.1]},
            std=0.06,
        ),
        "wn18rr": _pykeen("RESCAL", 128, 0.1, ADAGRAD, {"lr": 0.003, "std": 0.2, "dropout": [0.0, 0.24]} | ADAM),
        "fb15k-237": _pykeen("RESCAL", 128, 0.00074, ADAM, ADAGRAD, std=0.12, dropout=[0.43, 0.16]),
    },
}
