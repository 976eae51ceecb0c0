"""A world of groups whose true facts are known, and what a model says of those that are not listed."""

from __future__ import annotations

import numpy as np

import relatent
from relatent.data.cell_keys import cells_of

ALS = relatent.RescalALS(rank=12, l2_entities=0.5, l2_relations=0.5, tol=1e-3)


def grouped_world(seed: int = 0, n: int = 150) -> relatent.Facts:
    """Ten groups; a fact between a group and its successor has probability .5, .2 and .05 in three relations."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 10
    near = (group[:, None] + 1) % 10 == group[None, :]
    p = np.where(near[:, :, None], (0.5, 0.2, 0.05), 0.002)
    return relatent.Facts.from_tensor((rng.random((n, n, 3)) < p).astype(float))


def births(seed: int = 0, n: int = 300) -> relatent.Facts:
    """Everyone is born in one of twelve towns, mostly in that of his family, and has visited it and some others."""
    rng = np.random.default_rng(seed)
    home = np.where(rng.random(n) < 0.7, np.arange(n) % 12, rng.integers(0, 12, n))
    rows = [(f"p{i}", "born in", f"town{home[i]}") for i in range(n)]
    rows += [(f"p{i}", "visited", f"town{j}") for i in range(n) for j in {home[i], *rng.integers(0, 12, 3).tolist()}]
    return relatent.read(rows)


def judged(factors, listed, hidden):
    """Probabilities of all cells that are not listed, their truth, and the cells."""
    cells = cells_of(np.setdiff1d(np.arange(listed.n_cells), listed.keys), listed.n_entities)
    return np.asarray(factors.probability(*cells.T)), hidden.contains(cells), cells
