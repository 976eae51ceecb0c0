"""Partitions of entities: cells sorted by entity, clusters numbered by size, and sums of block models as factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Ids, Matrix, Slices, Triples, Vector


class SortedCells(NamedTuple):
    """The cells of each entity with a value: those of entity i are at starts[i] to starts[i + 1]."""

    starts: Ids  # (N + 1,)
    relations: Ids  # (n,)
    others: Ids  # (n,) the entity at the other end
    values: Vector | Matrix  # (n,) or (n, d)


class CellOrder(NamedTuple):
    """Cells sorted by one of their entities, as in `SortedCells`."""

    starts: Ids
    relations: Ids
    others: Ids
    positions: Ids  # (n,) of each cell in the unsorted list

    def with_values(self, values: Vector | Matrix) -> SortedCells:
        """The sorted cells with the values of the unsorted ones."""
        return SortedCells(self.starts, self.relations, self.others, values[self.positions])


def sort_by_entity(cells: Triples, n_entities: int, column: int) -> CellOrder:
    """Cells sorted by their subject (column 0) or object (column 2)."""
    positions = np.lexsort((cells[:, 2 - column], cells[:, 1], cells[:, column]))
    own, relations, others = (cells[positions, at].astype(np.int64) for at in (column, 1, 2 - column))
    return CellOrder(np.searchsorted(own, np.arange(n_entities + 1)).astype(np.int64), relations, others, positions)


class Bilinear(NamedTuple):
    """A sum of block models: a_iᵀ R_k a_j = Σ_m T_m[k, z_mi, z_mj]."""

    A: Matrix  # (N, r)
    R: Slices  # (K, r, r)


def bilinear(z: Ids, tables: Sequence[Slices], dtype: Any) -> Bilinear:
    """The sum of block models with partitions z (M, N) and tables (K, C_m, C_m), with the fewest components.

    A component is a set of entities that no partition separates, or a cluster of one partition, whichever are fewer.
    """
    classes, member_of = np.unique(z, axis=1, return_inverse=True)  # (M, r), (N,)
    r, n_relations = n_components(z), len(tables[0])
    R = np.zeros((n_relations, r, r), dtype)
    if r == classes.shape[1]:
        for c, table in zip(classes, tables, strict=True):
            R += table.astype(dtype)[:, c[:, None], c[None, :]]
        return Bilinear(np.eye(r, dtype=dtype)[member_of.reshape(-1)], R)
    A = np.zeros((z.shape[1], r), dtype)
    first = 0
    for c, table in zip(z, tables, strict=True):
        last = first + int(c.max()) + 1
        A[np.arange(len(c)), first + c] = 1
        R[:, first:last, first:last] = table[:, : last - first, : last - first]
        first = last
    return Bilinear(A, R)


def n_components(z: Ids) -> int:
    """The number of components of `bilinear`."""
    return min(int(np.unique(z, axis=1).shape[1]), int((z.max(axis=1) + 1).sum()))


def by_size(z: Ids) -> Ids:
    """Clusters numbered from the largest; clusters of equal size by their first entity."""
    _, firsts, cluster, sizes = np.unique(z, return_index=True, return_inverse=True, return_counts=True)
    number = np.empty(len(sizes), np.int64)
    number[np.lexsort((firsts, -sizes))] = np.arange(len(sizes))
    return number[cluster.reshape(-1)]
