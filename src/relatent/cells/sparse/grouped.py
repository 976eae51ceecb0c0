"""Sparse products of several small relations at once: their matrices in compressed rows, one below the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...arrays import Ids, Matrix, Slices, Vector
from ...backend import gram_matrix as gram
from ...backend.numpy_backend import NUMPY_BACKEND
from ...data.facts import Facts
from ...data.listed_cells import listed_cells
from ...data.shard import Shard
from ...distributed.workers import ALONE, Workers
from . import products as sparse
from .products import CellValues

MAX_GROUP_ELEMENTS = 1 << 22  # of the (m, N, r) array of a group of m relations


@dataclass(frozen=True)
class CompressedRows:
    """Sparse N × N matrices X_k, or their transposes, one below the other in compressed rows."""

    starts: NDArray[np.int64]
    columns: Ids
    places: Ids  # position of each entry's value in the list of cells
    height: int  # rows per matrix: N, or the number of entities that this worker owns

    def times(self, A: Matrix, values: Vector) -> Matrix:
        """X_k A of each k, (m, N, r)."""
        Y = sparse.product(self.starts, self.columns, self.places, values, A)
        return Y.reshape(-1, self.height, A.shape[1])


@dataclass(frozen=True)
class GroupCells:
    """Listed cells of a group whose subject this worker owns; transposed: whose object it owns."""

    own: slice  # the entities that have rows
    transposed: bool
    rows: Ids  # (k − first) · height + entity − own.start
    columns: Ids  # the other entity
    truth: Vector
    weights: Vector
    workers: Workers

    def scores(self, A: Matrix, R: Slices) -> Vector:
        """a_iᵀ R_k a_j of each cell."""
        R = R.transpose(0, 2, 1) if self.transposed else R
        Q = np.matmul(A[self.own], R.astype(A.dtype, copy=False)).reshape(-1, A.shape[1])
        return sparse.scores(Q, A, self.rows, self.columns)

    def squared_error_change(self, theta: Vector) -> float:
        """Σ of w (x − θ)² − θ² over all workers."""
        t, x, w = (values.astype(np.float64) for values in (theta, self.truth, self.weights))
        return self.workers.sum_float(float(np.sum(w * (x - t) ** 2) - np.sum(t * t)))


@dataclass(frozen=True)
class RelationGroup:
    """A block of consecutive relations and their listed cells."""

    relations: slice
    uniform: bool  # every cell has weight 1
    by_subject: GroupCells
    by_object: GroupCells  # in a fit by one process the same as by_subject
    forward: CompressedRows  # S_k
    backward: CompressedRows  # S_kᵀ

    @property
    def weighted(self) -> tuple[GroupCells, GroupCells] | None:
        """Listed cells by subject and by object; None if every cell has weight 1."""
        return None if self.uniform else (self.by_subject, self.by_object)

    def project(self, A: Matrix, values: Vector | None) -> tuple[Slices, Matrix]:
        """AᵀS_kA in float64, over all workers, and S_k A."""
        SA = self.forward.times(A, self.by_subject.truth if values is None else values)
        return self.by_subject.workers.sum(gram.product(A[self.by_subject.own], SA)), SA

    def add_right_side(
        self, F: Matrix, A: Matrix, R: Slices, SA: Matrix | None, values: CellValues, low_rank: Matrix | None
    ) -> None:
        """F += Σ_k S_k A R_kᵀ + S_kᵀ A R_k + A low_rank."""
        R = R.astype(A.dtype)
        there, back = (self.by_subject.truth, self.by_object.truth) if values is None else values
        SA = self.forward.times(A, there) if SA is None else SA
        total: Matrix = (np.matmul(SA, R.transpose(0, 2, 1)) + np.matmul(self.backward.times(A, back), R)).sum(axis=0)
        if low_rank is not None:
            total = total + A[self.by_subject.own] @ low_rank.astype(A.dtype)
        F += total


class GroupedLayout:
    """Groups of consecutive relations, few enough that (m, N, rank) arrays stay small."""

    def __init__(self, shard: Shard, rank: int, dtype: DTypeLike):
        together = max(1, MAX_GROUP_ELEMENTS // (shard.n_entities * rank))
        k = shard.n_relations
        self.blocks = [_group(shard, slice(first, min(first + together, k)), dtype) for first in range(0, k, together)]

    def product_and_gram(self, F: Matrix, T: Matrix) -> tuple[Matrix, Matrix]:
        """A = F T, and AᵀA in float64."""
        A = NUMPY_BACKEND.tall_product(F, T.astype(F.dtype))
        return A, NUMPY_BACKEND.gram(A)

    def prepare(self, A: Matrix, U: Matrix) -> Matrix:
        """A U."""
        return A @ U.astype(A.dtype)


def _group(shard: Shard, relations: slice, dtype: DTypeLike) -> RelationGroup:
    own, workers = shard.entity_range, shard.workers
    by_subject = _group_cells(shard.facts, relations, own, False, dtype, workers)
    uniform, forward = shard.has_uniform_weights, _compressed(by_subject, relations)
    if workers.size == 1:
        k, i = np.divmod(by_subject.rows, own.stop)
        turned = _compressed_rows(k * own.stop + by_subject.columns, i, forward.height, relations)
        return RelationGroup(relations, uniform, by_subject, by_subject, forward, turned)
    by_object = _group_cells(shard.facts_by_object, relations, own, True, dtype, workers)
    return RelationGroup(relations, uniform, by_subject, by_object, forward, _compressed(by_object, relations))


def relation_groups(facts: Facts, rank: int, dtype: DTypeLike) -> list[RelationGroup]:
    """The groups of facts in one process."""
    return GroupedLayout(Shard.of(facts, ALONE), rank, dtype).blocks


def _group_cells(
    facts: Facts, relations: slice, own: slice, transposed: bool, dtype: DTypeLike, workers: Workers
) -> GroupCells:
    cells, truth, weights = listed_cells(facts, relations)
    s, k, o = (cells[:, column].astype(np.int64) for column in range(3))
    k -= relations.start
    entity, other = (o, s) if transposed else (s, o)
    rows = k * (own.stop - own.start) + entity - own.start
    return GroupCells(own, transposed, rows, other, truth.astype(dtype), weights.astype(dtype), workers)


def _compressed(cells: GroupCells, relations: slice) -> CompressedRows:
    return _compressed_rows(cells.rows, cells.columns, cells.own.stop - cells.own.start, relations)


def _compressed_rows(rows: Ids, columns: Ids, height: int, relations: slice) -> CompressedRows:
    order = np.lexsort((columns, rows))
    total = (relations.stop - relations.start) * height
    starts = np.searchsorted(rows[order], np.arange(total + 1)).astype(np.int64)
    return CompressedRows(starts, columns[order].astype(np.int32), order, height)


def layout_bytes(facts: Facts, rank: int, dtype: DTypeLike) -> int:
    """Approximate memory of the layout and of the products of one group."""
    n, k, item = facts.n_entities, facts.n_relations, int(np.dtype(dtype).itemsize)
    together = min(max(1, MAX_GROUP_ELEMENTS // (n * rank)), k)
    cells = len(facts) + len(facts.unobserved)
    laid_out = cells * (40 + 2 * item) + 16 * n * k  # ids, x, w; columns and places both ways; starts
    return laid_out + cells * 34 * together // k + 4 * item * together * n * rank
