"""The non-empty rows (relation, entity) of the sparse tensor, and sums along them, on a CPU or a GPU.

By subject, a row is a subject with a relation and its cells are the objects; by object, a row is an object with a
relation and its cells are the subjects. Rows are sorted by relation, so that one product per relation gives x R_k of
all rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...arrays import Array, Ids, Matrix, Slices, Triples, Vector
from ...backend.protocol import Backend
from ...data.facts import Facts
from ...data.listed_cells import listed_cells
from ...data.shard import Shard
from ..cell_sum import CellMemory, n_listed_cells
from .products import CellValues

MAX_SCORED_CELLS = 1 << 20  # cells whose scores are computed at once
MAX_ROW_NUMBERS = 1 << 25  # of a matrix of rows, unless A has more


class RowIndex(NamedTuple):
    """Cells sorted by row: by (relation, subject), or by (relation, object)."""

    by_object: bool
    order: Ids  # (n,) permutation that sorts the cells
    bounds: Ids  # (K + 1,) first row of each relation
    keys: Ids  # (m,) k · N + entity of each row
    entity: Ids  # (m,) entity of each row
    starts: Ids  # (m + 1,) first cell of each row
    row: Ids  # (n,) row of each cell
    target: Ids  # (n,) the other entity of each cell

    def between(self, low: int, high: int) -> RowIndex:
        """The rows from `low` to `high`, with their cells."""
        cells = slice(self.starts[low], self.starts[high])
        return RowIndex(
            self.by_object,
            self.order[cells],
            np.clip(self.bounds, low, high) - low,
            self.keys[low:high],
            self.entity[low:high],
            self.starts[low : high + 1] - self.starts[low],
            self.row[cells] - low,
            self.target[cells],
        )


def row_index(cells: Triples, n: int, k: int, by_object: bool) -> RowIndex:
    """The rows of cells among n entities and k relations."""
    keys, target = _row_keys(cells, n, by_object)
    order = np.lexsort((target, keys))
    rows, starts, row = np.unique(keys[order], return_index=True, return_inverse=True)
    bounds = np.searchsorted(rows // n, np.arange(k + 1))
    return RowIndex(by_object, order, bounds, rows, rows % n, np.append(starts, len(keys)), row, target[order])


def _row_keys(cells: Triples, n: int, by_object: bool) -> tuple[Ids, Ids]:
    """The key of each cell's row, and the cell's other entity."""
    s, k, o = cells.T.astype(np.int64)
    return (k * n + o, s) if by_object else (k * n + s, o)


class RelationRows:
    """Sums along the non-empty rows by subject, or by object; arrays are those of `backend`."""

    def __init__(self, side: RowIndex, weights: Vector, n: int, backend: Backend):
        """`weights`: of the cells, in the order of the index."""
        m = len(side.entity)
        self.index, self.backend, self.n = side, backend, n
        self.entity = backend.from_numpy(side.entity)
        totals = np.bincount(side.row, weights=weights, minlength=m).astype(np.float64)
        self.totals = backend.from_numpy(totals[:, None])  # (m, 1) sum of the weights of each row's cells
        self._products = backend.relation_products(side.bounds)
        self._by_row = backend.segment_sums(side.starts, side.target, weights)
        self._by_target = backend.segment_sums(*sorted_into_segments(side.target, n, side.row, weights))
        self._by_entity = backend.segment_sums(*sorted_into_segments(side.entity, n, np.arange(m), np.ones(m)))

    @classmethod
    def of_facts(
        cls,
        facts: Facts | Shard,
        backend: Backend,
        of_targets: tuple[Vector, Vector] | None = None,
        *,
        rank: int | None = None,
    ) -> list[RelationRows]:
        """Rows by subject, then by object, of the facts with a weight above 0.

        `of_targets` multiplies the weights by one factor per object, and one per subject. With `rank`, the rows of each
        side come in pieces, so that no matrix of rows has more numbers than A or MAX_ROW_NUMBERS. Each worker has the
        rows of the entities that it owns.
        """
        shard, targets = Shard.of(facts), of_targets or (None, None)
        height = None if rank is None else max_rows(shard.n_entities, rank)
        return [
            *cls._of_side(shard.facts, False, backend, targets[0], height),
            *cls._of_side(shard.facts_by_object, True, backend, targets[1], height),
        ]

    @classmethod
    def _of_side(
        cls, facts: Facts, by_object: bool, backend: Backend, of_target: Vector | None, height: int | None
    ) -> list[RelationRows]:
        known = facts.confidences > 0
        cells, weights = facts.triples[known], facts.confidences[known]
        if of_target is not None:
            weights = weights * of_target[cells[:, 0 if by_object else 2]]
        index, n = row_index(cells, facts.n_entities, facts.n_relations, by_object), facts.n_entities
        m, weights = len(index.entity), weights[index.order]
        if height is None or m <= height:
            return [cls(index, weights, n, backend)]
        edges = [*range(0, m, height), m]
        return [
            cls(index.between(low, high), weights[index.starts[low] : index.starts[high]], n, backend)
            for low, high in pairwise(edges)
        ]

    def own(self, A: Matrix) -> Matrix:
        """The vector of each row's entity, (m, r)."""
        return A[self.entity]

    def times(self, X: Matrix, R: Slices, *, back: bool = False) -> Matrix:
        """Each row times R_k (by object: R_kᵀ); `back`: times the transpose of that."""
        return self._products.times(X, R, self.index.by_object != back)

    def add_outer(self, X: Matrix, dQ: Matrix, dR: Slices) -> None:
        """Add Σ x dqᵀ over the rows of each relation (by object: its transpose) to dR_k."""
        self._products.add_outer(*((dQ, X) if self.index.by_object else (X, dQ)), dR)

    def gathered(self, A: Matrix, values: Vector | None = None) -> Matrix:
        """Σ w a over the cells of each row, (m, r); `values`, in the order of the index, replaces w."""
        return self._by_row(A, values)

    def add_scattered(self, out: Matrix, Q: Matrix, scale: float) -> None:
        """Add scale · Σ w q over the cells whose other entity is i to each row i of `out` (N, r)."""
        self._by_target.add_to(out, Q, scale)

    def add_spread(self, out: Matrix, X: Matrix) -> None:
        """Add the sum of each entity's rows to `out` (N, r)."""
        self._by_entity.add_to(out, X)

    def spread(self, X: Matrix) -> Matrix:
        """The sum of each entity's rows, (N, r)."""
        return self._by_entity(X)

    def unobserved(self, facts: Facts | Shard) -> tuple[Array, Array]:
        """Row and other entity of each unobserved cell in one of the rows, sorted by row."""
        shard = Shard.of(facts)
        facts = shard.facts_by_object if self.index.by_object else shard.facts
        weightless = facts.triples[facts.confidences == 0]
        keys, target = _row_keys(np.concatenate([facts.unobserved, weightless]), self.n, self.index.by_object)
        inside = np.isin(keys, self.index.keys)
        order = np.argsort(keys[inside], kind="stable")
        rows = np.searchsorted(self.index.keys, keys[inside][order])
        return self.backend.from_numpy(rows), self.backend.from_numpy(target[inside][order])


def sorted_into_segments(key: Ids, n: int, index: Ids, weights: Vector) -> tuple[Ids, Ids, Vector]:
    """An index sorted into segments, one for each of n keys."""
    order = np.argsort(key, kind="stable")
    return np.searchsorted(key[order], np.arange(n + 1)), index[order], weights[order]


def max_rows(n: int, rank: int) -> int:
    """The most rows of a piece: never fewer than the entities, as the sums by entity of a piece cost as much as A."""
    return max(n, MAX_ROW_NUMBERS // rank)


def rows_memory(facts: Facts, rank: int, itemsize: int) -> CellMemory:
    """Bytes of the rows of some facts: indices by subject and by object, and five matrices of a piece of them."""
    rows = min(len(facts), facts.n_entities * facts.n_relations, max_rows(facts.n_entities, rank))
    return CellMemory(0, 100 * n_listed_cells(facts), 5 * itemsize * rows * rank)


class ListedRows(RelationRows):
    """The rows of facts and unobserved cells, with the truth and the weight of each cell in the order of the index."""

    def __init__(self, facts: Facts, by_object: bool, shard: Shard, backend: Backend):
        cells, truth, weights = listed_cells(facts)
        index = row_index(cells, facts.n_entities, facts.n_relations, by_object)
        order = index.order
        super().__init__(index, truth[order], facts.n_entities, backend)
        self.truth, self.weights = backend.from_numpy(truth[order]), backend.from_numpy(weights[order])
        self.row, self.target = backend.from_numpy(self.index.row), backend.from_numpy(self.index.target)
        self._workers = shard.workers

    def scores(self, A: Matrix, R: Slices) -> Vector:
        """θ of each cell."""
        Q = self.times(self.own(A), self.backend.to_dtype(R))
        theta = self.backend.zeros(self.truth.shape, A)
        for low in range(0, len(theta), MAX_SCORED_CELLS):
            here = slice(low, low + MAX_SCORED_CELLS)
            theta[here] = (Q[self.row[here]] * A[self.target[here]]).sum(1)
        return theta

    def squared_error_change(self, theta: Vector) -> float:
        """Σ of w (x − θ)² − θ² over all workers."""
        off = self.truth - theta
        return self._workers.sum_float(self.backend.dot(self.weights * off, off) - self.backend.dot(theta, theta))


class RowLayout:
    """Sparse products along the non-empty rows, all relations at once; arrays are those of `backend`.

    M_k = AᵀS_kA = Σ over rows a_s y_sᵀ with y_s = Σ s a_o over the cells of the row; the rows y_s R_kᵀ and z_o R_k,
    summed by entity, give Σ_k S_k A R_kᵀ + S_kᵀ A R_k.
    """

    def __init__(self, shard: Shard, backend: Backend):
        self.backend, self.own, self._workers = backend, shard.entity_range, shard.workers
        self.relations, self.uniform = slice(0, shard.n_relations), shard.has_uniform_weights
        self.by_subject = ListedRows(shard.facts, False, shard, backend)
        self.by_object = ListedRows(shard.facts_by_object, True, shard, backend)

    @property
    def blocks(self) -> list[RowLayout]:
        """One block of all relations."""
        return [self]

    @property
    def weighted(self) -> tuple[ListedRows, ListedRows] | None:
        """Listed cells by subject and by object; None if every cell has weight 1."""
        return None if self.uniform else (self.by_subject, self.by_object)

    def product_and_gram(self, F: Matrix, T: Matrix) -> tuple[Matrix, Matrix]:
        """A = F T, and AᵀA in float64."""
        A = self.backend.tall_product(F, self.backend.from_numpy(T))
        return A, self.backend.gram(A)

    def prepare(self, A: Matrix, U: Matrix) -> Matrix:
        """A U."""
        return self.backend.tall_product(A, self.backend.to_dtype(U))

    def project(self, A: Matrix, values: Vector | None) -> tuple[Slices, Matrix]:
        """AᵀS_kA in float64, over all workers, and the rows of S_k A."""
        X, SA = self.by_subject.own(A), self.by_subject.gathered(A, values)
        M = self.backend.zeros((self.relations.stop, A.shape[1], A.shape[1]), A)
        self.by_subject.add_outer(X, SA, M)
        return self._workers.sum(self.backend.to_float64(M)), SA

    def add_right_side(
        self, F: Matrix, A: Matrix, R: Slices, SA: Matrix | None, values: CellValues, low_rank: Matrix | None
    ) -> None:
        """F += Σ_k S_k A R_kᵀ + S_kᵀ A R_k + A low_rank."""
        R, (there, back) = self.backend.to_dtype(R), (None, None) if values is None else values
        SA = self.by_subject.gathered(A, there) if SA is None else SA
        F += self.by_subject.spread(self.by_subject.times(SA, R, back=True))[self.own]
        SA = self.by_object.gathered(A, back)  # the rows of S_kᵀ A
        F += self.by_object.spread(self.by_object.times(SA, R, back=True))[self.own]
        if low_rank is not None:
            F += A[self.own] @ self.backend.from_numpy(low_rank)
