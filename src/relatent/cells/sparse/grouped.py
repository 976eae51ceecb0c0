"""The cells that are not ordinary zeros, facts and unobserved ones, laid out for products with A."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Ids, Matrix, Slices, Vector
from ...data.facts import Facts
from ...data.shard import Shard
from . import products as sparse

AT_ONCE = 1 << 22  # elements of the (m, N, r) array of a group of m relations


@dataclass(frozen=True)
class Rows:
    """Sparse N × N matrices X_k, or their transposes, one below the other in compressed rows."""

    starts: NDArray[np.int64]
    columns: Ids
    places: Ids  # where the value of each entry stands in a list of cells
    height: int  # rows of each matrix: N, or as many as this worker owns

    def times(self, A: Matrix, values: Vector) -> Matrix:
        """X_k A of each k, (m, N, r)."""
        Y = sparse.product(self.starts, self.columns, self.places, values, A)
        return Y.reshape(-1, self.height, A.shape[1])


@dataclass(frozen=True)
class Group:
    """Relations visited together, and their listed cells.

    With several workers, those whose subject this one owns, and as `mirror` those whose object it owns, with subject
    and object in each other's place.
    """

    relations: slice
    own: slice  # the entities that have rows
    rows: Ids  # (k − first) · N + i
    columns: Ids
    x: Vector  # 1 for facts, 0 where unobserved
    w: Vector  # 0 where unobserved
    forward: Rows
    backward: Rows
    mirror: Group | None = None  # None: its cells are these

    def scores(self, A: Matrix, R: Slices) -> Vector:
        """a_iᵀ R_k a_j of the listed cells, R holding the group's relations."""
        Q = np.matmul(A[self.own], R.astype(A.dtype, copy=False)).reshape(-1, A.shape[1])
        return sparse.scores(Q, A, self.rows, self.columns)


def listed(facts: Facts | Shard, rank: int, dtype: Any) -> list[Group]:
    """Groups of consecutive relations, few enough that (m, N, rank) arrays stay small."""
    shard = Shard.of(facts)
    together = max(1, AT_ONCE // (facts.n_entities * rank))
    relations = [slice(k, min(k + together, facts.n_relations)) for k in range(0, facts.n_relations, together)]
    if shard.facts_by_object is shard.facts:
        weights = shard.facts.confidences
        return [_group(shard.facts, weights, each, dtype) for each in relations]
    there, back = ((side, side.confidences) for side in (shard.facts, shard.facts_by_object))
    return [_two_sides(there, back, shard.entity_range, each, dtype) for each in relations]


Side = tuple[Facts, Vector]  # facts and their weights


def _group(facts: Facts, weights: Vector, relations: slice, dtype: Any) -> Group:
    n, height = facts.n_entities, (relations.stop - relations.start) * facts.n_entities
    s, k, o, x, w = _cells(facts, weights, relations, dtype)
    forward, backward = _rows(k * n + s, o, height, n), _rows(k * n + o, s, height, n)
    return Group(relations, slice(0, n), k * n + s, o, x, w, forward, backward)


def _two_sides(by_subject: Side, by_object: Side, own: slice, relations: slice, dtype: Any) -> Group:
    n = own.stop - own.start

    def side(i: Ids, k: Ids, j: Ids, x: Vector, w: Vector) -> tuple[Ids, Ids, Vector, Vector, Rows]:
        rows = k * n + i - own.start
        return rows, j, x, w, _rows(rows, j, (relations.stop - relations.start) * n, n)

    s, k, o, *values = _cells(*by_object, relations, dtype)
    there, back = side(*_cells(*by_subject, relations, dtype)), side(o, k, s, *values)
    mirror = Group(relations, own, *back, backward=there[-1])
    return Group(relations, own, *there, backward=back[-1], mirror=mirror)


def _cells(facts: Facts, weights: Vector, relations: slice, dtype: Any) -> tuple[Ids, Ids, Ids, Vector, Vector]:
    """Subjects, relations from the group's first on, objects, x and w of the facts and the unobserved cells."""
    first, stop = relations.start, relations.stop
    ones = slice(facts.starts[first], facts.starts[stop])
    hidden = facts.unobserved[slice(*np.searchsorted(facts.unobserved[:, 1], [first, stop]))]
    cells = np.concatenate([facts.triples[ones], hidden])
    n_ones = ones.stop - ones.start
    s, k, o = cells[:, 0].astype(np.int64), cells[:, 1].astype(np.int64) - first, cells[:, 2].astype(np.int64)
    x = np.repeat([1.0, 0.0], [n_ones, len(hidden)]).astype(dtype)
    return s, k, o, x, np.concatenate([weights[ones], np.zeros(len(hidden))]).astype(dtype)


def _rows(rows: Ids, columns: Ids, total: int, height: int) -> Rows:
    order = np.lexsort((columns, rows))
    starts = np.searchsorted(rows[order], np.arange(total + 1)).astype(np.int64)
    return Rows(starts, columns[order].astype(np.int32), order, height)
