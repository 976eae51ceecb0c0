"""One clustering of entities and relations: a local maximum of Σ G² / (H + λ) over pairs of clusters (see mrc.py)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Triples, Vector
from .partitions import CellOrder

MAX_SWEEPS = 5  # over entities and relations; most clusterings have settled by then


class ResidualCells(NamedTuple):
    """Observed cells, their truth and weight, and their order by subject and by object."""

    n_entities: int
    n_relations: int
    triples: Triples  # (n, 3)
    x: Vector
    w: Vector
    rows: CellOrder
    columns: CellOrder


class Clustering(NamedTuple):
    """Clusters of entities and of relations, and G and H of each combination."""

    z: Ids  # (N,)
    q: Ids  # (K,)
    sums: NDArray[np.float64]  # (Q, C, C, 2)


def cluster(
    cells: ResidualCells,
    gh: Matrix,
    n_clusters: int,
    n_relation_clusters: int,
    smoothing: float,
    rng: np.random.Generator,
) -> Clustering:
    """A local maximum of Σ G² / (H + λ), from a random start; gh: (n, 2) residual and variance of each cell."""
    n, k = cells.n_entities, cells.n_relations
    z = rng.integers(0, n_clusters, n)
    q = np.arange(k) if n_relation_clusters == k else rng.integers(0, n_relation_clusters, k)
    rows, columns = cells.rows.with_values(gh), cells.columns.with_values(gh)
    of_relations = _block_sums(cells.triples, gh, z, k, n_clusters)
    for _ in range(MAX_SWEEPS):
        sums = _by_cluster(of_relations, q, n_relation_clusters)
        moved = _move_entities(rows, columns, z, q, sums, rng.permutation(n), smoothing)
        of_relations = _block_sums(cells.triples, gh, z, k, n_clusters)
        if n_relation_clusters < k:
            sums = _by_cluster(of_relations, q, n_relation_clusters)
            moved += _move_relations(of_relations, q, sums, rng.permutation(k), smoothing)
        if not moved:
            break
    return Clustering(z, q, _by_cluster(of_relations, q, n_relation_clusters))


def _by_cluster(of_relations: NDArray[np.float64], q: Ids, n_relation_clusters: int) -> NDArray[np.float64]:
    sums = np.zeros((n_relation_clusters, *of_relations.shape[1:]))
    np.add.at(sums, q, of_relations)
    return sums


@njit(cache=True, nogil=True)
def _block_sums(triples, gh, z, n_relations, n_clusters):  # type: ignore[no-untyped-def]
    """G and H for each relation and pair of clusters, (K, C, C, 2)."""
    sums = np.zeros((n_relations, n_clusters, n_clusters, 2))
    for c in range(len(triples)):
        k, a, b = triples[c, 1], z[triples[c, 0]], z[triples[c, 2]]
        sums[k, a, b, 0] += gh[c, 0]
        sums[k, a, b, 1] += gh[c, 1]
    return sums


@njit(cache=True, nogil=True)
def add_clustering(theta, triples, z, q, W):  # type: ignore[no-untyped-def]
    """θ with one more clustering added."""
    new = np.empty_like(theta)
    for c in range(len(theta)):
        new[c] = theta[c] + W[q[triples[c, 1]], z[triples[c, 0]], z[triples[c, 2]]]
    return new


@njit(cache=True, nogil=True)
def _gain(G, H, g, h, smoothing):  # type: ignore[no-untyped-def]
    """The gain of adding cells with sums g and h to a block with sums G and H."""
    return (G + g) * (G + g) / (H + h + smoothing) - G * G / (H + smoothing)


@njit(cache=True, nogil=True)
def _sum_cells(cells, i, z, q, line, loop):  # type: ignore[no-untyped-def]
    """Add G and H of the cells of i, by relation cluster and cluster of the other entity; loop: the cells (i, k, i)."""
    gh = cells.values
    for e in range(cells.starts[i], cells.starts[i + 1]):
        u, j = q[cells.relations[e]], cells.others[e]
        if j == i:
            loop[u, 0] += gh[e, 0]
            loop[u, 1] += gh[e, 1]
        else:
            line[u, z[j], 0] += gh[e, 0]
            line[u, z[j], 1] += gh[e, 1]


@njit(cache=True, nogil=True)
def _shift(sums, s, row, column, loop, sign):  # type: ignore[no-untyped-def]
    """Put an entity into cluster s (sign 1) or take it out (sign −1)."""
    for u in range(sums.shape[0]):
        for d in range(2):
            for c in range(sums.shape[1]):
                sums[u, s, c, d] += sign * row[u, c, d]
                sums[u, c, s, d] += sign * column[u, c, d]
            sums[u, s, s, d] += sign * loop[u, d]


@njit(cache=True, nogil=True)
def _join_gain(sums, a, row, column, loop, smoothing):  # type: ignore[no-untyped-def]
    """The gain if the entity joins cluster a."""
    total = 0.0
    for u in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            if c != a:
                total += _gain(sums[u, a, c, 0], sums[u, a, c, 1], row[u, c, 0], row[u, c, 1], smoothing)
                total += _gain(sums[u, c, a, 0], sums[u, c, a, 1], column[u, c, 0], column[u, c, 1], smoothing)
        g = row[u, a, 0] + column[u, a, 0] + loop[u, 0]
        h = row[u, a, 1] + column[u, a, 1] + loop[u, 1]
        total += _gain(sums[u, a, a, 0], sums[u, a, a, 1], g, h, smoothing)
    return total


@njit(cache=True, nogil=True)
def _move_entities(rows, columns, z, q, sums, order, smoothing):  # type: ignore[no-untyped-def]
    """Move each entity to the cluster of highest gain; changes z and sums. Returns the number moved."""
    n_relation_clusters, n_clusters = sums.shape[:2]
    loop, unused = np.empty((n_relation_clusters, 2)), np.empty((n_relation_clusters, 2))
    row = np.empty((n_relation_clusters, n_clusters, 2))
    column = np.empty_like(row)
    moved = 0
    for i in order:
        row[:], column[:], loop[:] = 0.0, 0.0, 0.0
        _sum_cells(rows, i, z, q, row, loop)
        _sum_cells(columns, i, z, q, column, unused)
        _shift(sums, z[i], row, column, loop, -1)
        best, most = z[i], _join_gain(sums, z[i], row, column, loop, smoothing)
        for a in range(n_clusters):
            gain = _join_gain(sums, a, row, column, loop, smoothing)
            if gain > most + 1e-9:  # ties do not move
                best, most = a, gain
        moved += best != z[i]
        z[i] = best
        _shift(sums, best, row, column, loop, 1)
    return moved


@njit(cache=True, nogil=True)
def _transfer(sums, u, of_relations, k, sign):  # type: ignore[no-untyped-def]
    """Put relation k into cluster u (sign 1) or take it out (sign −1)."""
    for a in range(sums.shape[1]):
        for b in range(sums.shape[1]):
            sums[u, a, b, 0] += sign * of_relations[k, a, b, 0]
            sums[u, a, b, 1] += sign * of_relations[k, a, b, 1]


@njit(cache=True, nogil=True)
def _move_relations(of_relations, q, sums, order, smoothing):  # type: ignore[no-untyped-def]
    """Move each relation to the cluster of highest gain; changes q and sums. Returns the number moved."""
    n_clusters = sums.shape[1]
    moved = 0
    for k in order:
        _transfer(sums, q[k], of_relations, k, -1)
        best, most = q[k], -np.inf
        for u in range(sums.shape[0]):
            gain = 0.0
            for a in range(n_clusters):
                for b in range(n_clusters):
                    g, h = of_relations[k, a, b, 0], of_relations[k, a, b, 1]
                    gain += _gain(sums[u, a, b, 0], sums[u, a, b, 1], g, h, smoothing)
            if gain > most + 1e-9 or (gain >= most and u == q[k]):
                best, most = u, gain
        moved += best != q[k]
        q[k] = best
        _transfer(sums, best, of_relations, k, 1)
    return moved
