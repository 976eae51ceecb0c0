"""The exact categorical loss over all pairs: a pair has one relation, or none.

    p(k | i, j) = exp θ_ijk / Z_ij,    Z_ij = 1 + Σ_k exp θ_ijk        (1 is "none")

    value = Σ over all pairs log Z + Σ over facts [w log Z − w θ] − Σ over pairs with facts log Z
            − Σ over pairs without facts but with unobserved cells U:  log(1 + Σ_{k in U} exp θ_k)

A block of subjects has all its relations together: Q = A_I [R_1 … R_K], T = Q A_Jᵀ + b is (I, K, J), and softmax runs
along its middle axis. 6·N²·K·r flop like every exact sum, in tiles of TILE_CELLS numbers.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np

from ..arrays import Ids, Matrix, Slices, Vector
from ..data.facts import Facts
from ..data.shard import Shard
from .cell_sum import CellMemory, ModelSize, Reduction, n_listed_cells
from .tiling import even_ranges

TILE_CELLS = 1 << 18  # a tile stays in the cache between the passes over it
COLUMNS = 512


class PairCells(NamedTuple):
    """Listed cells of one tile, sorted by pair."""

    rows: Ids  # i within the tile
    relations: Ids
    columns: Ids  # j within the tile
    weights: Vector
    starts: Ids  # where each pair's cells begin


class PairTile(NamedTuple):
    """A block of subjects and objects with its listed cells."""

    subjects: slice
    objects: slice
    facts: PairCells
    unobserved: PairCells  # of pairs that have no fact


class CategoricalSum:
    """Value and gradient of the categorical loss over all pairs of some facts.

    Each of several workers sums the pairs whose subject it owns.
    """

    def __init__(self, facts: Facts | Shard, dtype: Any = np.float32, n_threads: int | None = None):
        self.n, self.k = facts.n_entities, facts.n_relations
        self.dtype = np.dtype(dtype)
        shard = Shard.of(facts)
        tiles = _tiles(shard.facts, shard.entity_range, self.dtype)
        n_threads = min(n_threads or numba.get_num_threads(), len(tiles))
        # Each thread gets a run of tiles in a fixed order: the same sums at every call.
        self.parts = [tiles[low:high] for low, high in even_ranges(len(tiles), n_threads)]
        self._pool = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """The listed cells while they are sorted, or sorted with three tiles per thread; R and a gradient for each."""
        item, n_threads, cells = size.itemsize, numba.get_num_threads(), n_listed_cells(facts)
        tiles = 3 * item * n_threads * TILE_CELLS
        per_thread = size.gradient + item * size.relation_numbers
        return CellMemory(0, max(80 * cells, 40 * cells + tiles) + n_threads * per_thread)

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives; the value takes next to no extra time."""
        A, R, b = (np.ascontiguousarray(array, self.dtype) for array in (A, R, b))
        others = [self._pool.submit(_reduce, part, A, R, b) for part in self.parts[1:]] if self._pool else []
        total, dA, dR, db = _reduce(self.parts[0], A, R, b)
        for other in others:
            reduction = other.result()
            total += reduction.value
            dA += reduction.dA
            dR += reduction.dR
            db += reduction.db
        return Reduction(total, dA, dR, db)


def _reduce(tiles: list[PairTile], A: Matrix, R: Slices, b: Vector) -> Reduction:
    K, r, _ = R.shape
    wide = R.transpose(1, 0, 2).reshape(r, K * r)  # [R_1 … R_K]
    dA, dwide, db = np.zeros_like(A), np.zeros_like(wide), np.zeros(K)
    total = 0.0
    for tile in tiles:
        A_I, A_J = A[tile.subjects], A[tile.objects]
        Q = (A_I @ wide).reshape(-1, r)  # (I · K, r)
        T = (Q @ A_J.T).reshape(len(A_I), K, len(A_J))
        T += b[:, None]
        value, P = _softmax(T, tile)
        total += value
        D = P.reshape(-1, len(A_J))
        dQ = (D @ A_J).reshape(len(A_I), K * r)
        dA[tile.objects] += D.T @ Q
        dA[tile.subjects] += dQ @ wide.T
        dwide += A_I.T @ dQ
        db += P.sum(axis=(0, 2), dtype=np.float64)
    return Reduction(total, dA, dwide.reshape(r, K, r).transpose(1, 0, 2), db)


def _softmax(T: Matrix, tile: PairTile) -> tuple[float, Matrix]:
    """The loss of a tile, and its slope in θ: (I, K, J)."""
    top = np.maximum(T.max(axis=1), 0)  # (I, J), never below "none"
    facts, masked = tile.facts, tile.unobserved
    theta = T[facts.rows, facts.relations, facts.columns].astype(np.float64)
    possible = T[masked.rows, masked.relations, masked.columns].astype(np.float64)
    P = np.subtract(T, top[:, None], out=T)
    np.exp(P, out=P)
    Z = P.sum(axis=1) + np.exp(-top)
    P *= (1 / Z)[:, None]
    log_Z = top + np.log(Z)
    value = float(log_Z.sum(dtype=np.float64))
    if len(facts.rows):
        i, j = facts.rows[facts.starts], facts.columns[facts.starts]
        times = np.add.reduceat(facts.weights, facts.starts)  # a pair counts once per fact
        value += float(np.sum((times - 1.0) * log_Z[i, j]) - np.sum(facts.weights * theta))
        several = times != 1
        P[i[several], :, j[several]] *= times[several, None]
        P[facts.rows, facts.relations, facts.columns] -= facts.weights
    if len(masked.rows):
        highest = np.maximum(np.maximum.reduceat(possible, masked.starts), 0)
        lengths = np.diff(masked.starts, append=len(possible))
        e = np.exp(possible - np.repeat(highest, lengths))
        sums = np.add.reduceat(e, masked.starts) + np.exp(-highest)
        value -= float(np.sum(highest + np.log(sums)))
        P[masked.rows, masked.relations, masked.columns] -= (e / np.repeat(sums, lengths)).astype(P.dtype)
    return value, P


def _tiles(facts: Facts, own: slice, dtype: Any) -> list[PairTile]:
    """All pairs of these subjects, in tiles; a fact of weight 0 is an unobserved cell."""
    n, k, height = facts.n_entities, facts.n_relations, own.stop - own.start
    columns = min(n, COLUMNS)
    rows = min(max(1, TILE_CELLS // (columns * k)), -(-height // 2))  # at least two blocks, for two threads
    weights = facts.confidences
    known = weights > 0
    ones, w = facts.triples[known], weights[known].astype(dtype)
    unobserved = np.concatenate([facts.unobserved, facts.triples[~known]])
    pairs = ones[:, 0].astype(np.int64) * n + ones[:, 2]
    unobserved = unobserved[~np.isin(unobserved[:, 0].astype(np.int64) * n + unobserved[:, 2], pairs)]
    edges_I, edges_J = [*range(own.start, own.stop, rows), own.stop], [*range(0, n, columns), n]
    width = len(edges_J) - 1
    by_tile = [
        _by_tile(cells - [own.start, 0, 0], values, rows, columns, (len(edges_I) - 1) * width, width)
        for cells, values in ((ones, w), (unobserved, np.ones(len(unobserved), dtype)))
    ]
    return [
        PairTile(slice(*rows_), slice(*columns_), by_tile[0][a * width + c], by_tile[1][a * width + c])
        for a, rows_ in enumerate(pairwise(edges_I))
        for c, columns_ in enumerate(pairwise(edges_J))
    ]


def _by_tile(cells: Ids, w: Vector, rows: int, columns: int, count: int, width: int) -> list[PairCells]:
    s, relation, o = cells.T.astype(np.int64)
    tile = (s // rows) * width + o // columns
    order = np.lexsort((relation, o, s, tile))
    edges = np.searchsorted(tile[order], np.arange(count + 1))
    result = []
    for low, high in pairwise(edges.tolist()):
        at = order[low:high]
        i, j = s[at] % rows, o[at] % columns
        first = np.flatnonzero(np.diff(i * columns + j, prepend=-1))
        result.append(PairCells(i, relation[at], j, w[at], first))
    return result
