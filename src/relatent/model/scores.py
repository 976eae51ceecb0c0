"""θ of cells, by the letters of the paper, and the best of many scores."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np

from ..arrays import Ids, Matrix, Slices, Vector
from ..backend.compact_matrices import times
from ..data.undirected import has_relation
from .patterns import Patterns
from .relation_matrices import RelationMatrices

CELLS_PER_BLOCK = 1 << 16  # cells scored together: two (cells, r) arrays of gathered rows stay in the cache
NUMBERS_PER_BLOCK = 1 << 24  # of such an array, at a large rank


class Scored(Protocol):
    """What scores are made of."""

    @property
    def A(self) -> Matrix:
        """Entity vectors, (N, r)."""

    @property
    def relation_matrices(self) -> RelationMatrices:
        """R_1 … R_K."""

    @property
    def bias(self) -> Vector:
        """One bias per relation, (K,)."""

    @property
    def exclusive(self) -> bool:
        """Whether relations of a pair compete."""

    @property
    def undirected(self) -> frozenset[int]:
        """Ids of the undirected relations."""

    @property
    def patterns(self) -> Patterns | None:
        """Observed patterns, which add to the score by factors."""


def cell_scores(model: Scored, s: Ids, k: Ids, o: Ids, *, exact: bool = False) -> Vector:
    """θ of each cell, for ids of one shape; the log-odds against all other relations if relations are exclusive.

    `exact`: in double precision, so that a cell has the same score in whatever company it is asked for.
    """
    if model.exclusive:
        theta = _exclusive_scores(model, s, k, o, exact)
        both = has_relation(model.undirected, k)  # other relations may have one direction
        if both.any():
            theta[both] = (theta[both] + _exclusive_scores(model, o[both], k[both], s[both], exact)) / 2
    else:
        theta = scores(model.A, model.relation_matrices, model.bias, s, k, o, exact=exact)
    return theta if model.patterns is None else model.patterns.joined(theta, s, k, o)


def _exclusive_scores(model: Scored, s: Ids, k: Ids, o: Ids, exact: bool) -> Vector:
    """Log-odds of each cell against no relation and the other relations of its pair."""
    n, K = len(model.A), len(model.bias)
    pairs, pair_of_cell = np.unique(s.astype(np.int64).ravel() * n + o.ravel(), return_inverse=True)
    pair_of_cell = pair_of_cell.reshape(-1)
    relations, result = k.ravel(), np.empty(k.size)
    order = np.argsort(pair_of_cell, kind="stable")
    block_size = max(1, CELLS_PER_BLOCK // K)
    for low in range(0, len(pairs), block_size):
        block = pairs[low : low + block_size]
        cells = np.broadcast_arrays((block // n)[:, None], np.arange(K), (block % n)[:, None])
        theta = scores(model.A, model.relation_matrices, model.bias, *cells, exact=exact)
        here = order[slice(*np.searchsorted(pair_of_cell[order], [low, low + len(block)]))]
        result[here] = against_others(theta[pair_of_cell[here] - low].T, relations[here])
    return result.reshape(k.shape)


def best_first(theta: Vector, k: int) -> Ids:
    """Indices of the k highest scores, best first; scores of −∞ are left out, ties go to the lower index."""
    k = min(k, int(np.count_nonzero(theta > -np.inf)))
    if not k:
        return np.empty(0, np.int64)
    last = np.partition(theta, len(theta) - k)[len(theta) - k]
    best = np.flatnonzero(theta >= last)  # includes all ties for the last place, so that the order does not depend on k
    return best[np.lexsort((best, -theta[best]))][:k]


def scores(
    A: Matrix, R: RelationMatrices | Slices, b: Vector, s: Ids, k: Ids, o: Ids, *, exact: bool = False
) -> Vector:
    """θ of the cells with these ids, in the shape of the ids; R may be the parameters of a compact structure."""
    dtype = np.dtype(np.float64) if exact else np.result_type(A, b)
    theta = np.empty(s.shape, dtype)
    flat, s, k, o = theta.reshape(-1), s.reshape(-1), k.reshape(-1), o.reshape(-1)
    order, step = np.argsort(k, kind="stable"), max(1, min(CELLS_PER_BLOCK, NUMBERS_PER_BLOCK // max(1, A.shape[1])))
    edges = np.searchsorted(k[order], np.arange(len(R) + 1))
    for relation, (start, stop) in enumerate(pairwise(edges.tolist())):
        if start == stop:
            continue
        for low in range(start, stop, step):
            rows = order[low : min(low + step, stop)]
            subjects, objects = A[s[rows]], A[o[rows]]
            if exact:
                subjects, objects = subjects.astype(dtype, copy=False), objects.astype(dtype, copy=False)
            Q = times(subjects, R[relation]) if isinstance(R, np.ndarray) else R.times(subjects, relation)
            flat[rows] = np.einsum("nr,nr->n", Q, objects) + b[relation]
    return theta


def against_others(theta: Matrix, own: Ids) -> Vector:
    """Log-odds of relation own[j] in column j: θ_own − log(1 + Σ exp θ of the others). theta: (K, m). own: (m,)."""
    columns = np.arange(theta.shape[1])
    others = np.array(theta, np.float64)
    chosen = others[own, columns]
    others[own, columns] = -np.inf
    top = np.maximum(others.max(axis=0), 0)
    return chosen - top - np.log(np.exp(others - top).sum(axis=0) + np.exp(-top))  # type: ignore[no-any-return]
