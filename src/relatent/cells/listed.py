"""The cells that are not ordinary zeros, facts and unobserved ones, laid out for products with A."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices, Vector
from ..data.facts import Facts
from . import sparse

AT_ONCE = 1 << 22  # elements of the (m, N, r) array of a group of m relations


@dataclass(frozen=True)
class Rows:
    """Sparse N × N matrices X_k, or their transposes, one below the other in compressed rows."""

    starts: NDArray[np.int64]
    columns: Ids
    places: Ids  # where the value of each entry stands in a list of cells

    def times(self, A: Matrix, values: Vector) -> Matrix:
        """X_k A of each k, (m, N, r)."""
        return sparse.product(self.starts, self.columns, self.places, values, A).reshape(-1, *A.shape)


@dataclass(frozen=True)
class Group:
    """Relations visited together, and their listed cells."""

    relations: slice
    rows: Ids  # (k − first) · N + i
    columns: Ids
    x: Vector  # 1 for facts, 0 where unobserved
    w: Vector  # 0 where unobserved
    forward: Rows
    backward: Rows

    def scores(self, A: Matrix, R: Slices) -> Vector:
        """a_iᵀ R_k a_j of the listed cells, R holding the group's relations."""
        Q = np.matmul(A, R.astype(A.dtype, copy=False)).reshape(-1, A.shape[1])
        return sparse.scores(Q, A, self.rows, self.columns)


def listed(facts: Facts, rank: int, dtype: Any) -> list[Group]:
    """Groups of consecutive relations, few enough that (m, N, rank) arrays stay small."""
    weights = facts.confidences
    together = max(1, AT_ONCE // (facts.n_entities * rank))
    return [
        _group(facts, weights, slice(k, min(k + together, facts.n_relations)), dtype)
        for k in range(0, facts.n_relations, together)
    ]


def _group(facts: Facts, weights: Vector, relations: slice, dtype: Any) -> Group:
    n, first, stop = facts.n_entities, relations.start, relations.stop
    ones = slice(facts.starts[first], facts.starts[stop])
    hidden = facts.unobserved[slice(*np.searchsorted(facts.unobserved[:, 1], [first, stop]))]
    cells = np.concatenate([facts.triples[ones], hidden])
    n_ones = ones.stop - ones.start
    s, k, o = cells[:, 0].astype(np.int64), cells[:, 1].astype(np.int64) - first, cells[:, 2].astype(np.int64)
    return Group(
        relations=relations,
        rows=k * n + s,
        columns=o,
        x=np.repeat([1.0, 0.0], [n_ones, len(hidden)]).astype(dtype),
        w=np.concatenate([weights[ones], np.zeros(len(hidden))]).astype(dtype),
        forward=_rows(k * n + s, o, (stop - first) * n),
        backward=_rows(k * n + o, s, (stop - first) * n),
    )


def _rows(rows: Ids, columns: Ids, height: int) -> Rows:
    order = np.lexsort((columns, rows))
    starts = np.searchsorted(rows[order], np.arange(height + 1)).astype(np.int64)
    return Rows(starts, columns[order].astype(np.int32), order)
