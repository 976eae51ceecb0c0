"""Calibration of unlisted cells: facts withheld from sparse graphs, and how many of them the model expects where."""

from __future__ import annotations

from typing import Any

import numpy as np

import relatent
from relatent.analysis.known_facts import KnownFacts
from relatent.analysis.probabilities import cell_probabilities
from sparse_graphs import KINDS, sparse_graph

SEEDS = 1  # graphs of each kind
SHARES = (0.1, 0.2)  # withheld
EDGES = (0, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1)
MIN_EXPECTED = 50  # facts in a bin, for its ratio to count
MAX_RATIO = 1.5


def calibration(seed: int) -> dict[str, Any]:
    """Each kind, seed and share: said and true numbers by bins, with calibration and without."""
    results: dict[str, Any] = {"bins": list(EDGES)}
    ratios = []
    for kind in KINDS:
        for graph_seed in range(seed, seed + SEEDS):
            for share in SHARES:
                found = _judge(kind, graph_seed, share)
                results[f"{kind}, seed {graph_seed}, {share:.0%} withheld"] = found
                ratios += found["told the share"]["ratios"]
    far = [ratio for ratio in ratios if not 1 / MAX_RATIO <= ratio <= MAX_RATIO]
    results["summary"] = {
        f"bins with {MIN_EXPECTED} expected facts": len(ratios),
        f"of them beyond a factor {MAX_RATIO}": len(far),
        "lowest and highest ratio": [min(ratios), max(ratios)],
    }
    return results


def _judge(kind: str, seed: int, share: float) -> dict[str, Any]:
    train, test = relatent.split(sparse_graph(kind, seed), test_size=share, random_state=seed)
    share_missing = len(test) / (len(train) + len(test))
    model = relatent.Calibrated(relatent.RescalLogit(), missing=share_missing).fit(train)
    plain = relatent.Factors(*(getattr(model.factors_, name) for name in ("A", "R", "bias", "entities", "relations")))
    return {
        "missing facts": len(test),
        "told the share": _bins(model.factors_, train, test),
        "not calibrated": _bins(plain, train, test),
    }


def _bins(factors: relatent.Factors, train: relatent.Facts, test: relatent.Facts) -> dict[str, Any]:
    """Expected and true numbers of facts among the unlisted cells."""
    said, true = np.zeros(len(EDGES) - 1), np.zeros(len(EDGES) - 1)
    known, everyone = KnownFacts(train, factors), np.arange(train.n_entities)
    s, o = (ids.ravel() for ids in np.meshgrid(everyone, everyone, indexing="ij"))
    for k in range(train.n_relations):
        cells, theta = np.stack([s, np.full(len(s), k), o], axis=1), factors.scores_of_all(everyone, k).ravel()
        unlisted = ~train.contains(cells)
        p = cell_probabilities(factors, known, cells[unlisted], theta[unlisted])
        true += np.histogram(p[test.contains(cells[unlisted])], EDGES)[0]
        said += np.histogram(p, EDGES, weights=p)[0]
    large = said >= MIN_EXPECTED
    return {
        "expected / missing": float(said.sum() / true.sum()),
        "expected": said.round(1).tolist(),
        "true": true.astype(int).tolist(),
        "ratios": (said[large] / np.maximum(true[large], 0.5)).round(3).tolist(),
    }
