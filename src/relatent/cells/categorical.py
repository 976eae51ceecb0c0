"""The exact categorical loss over all pairs: a pair has one relation, or none.

    p(k | i, j) = exp θ_ijk / Z_ij,    Z_ij = 1 + Σ_k exp θ_ijk        (1 is "none")

    value = Σ over all pairs log Z + Σ over facts [w log Z − w θ] − Σ over pairs with facts log Z
            − Σ over pairs without facts but with unobserved cells U:  log(1 + Σ_{k in U} exp θ_k)

A block of subjects has all its relations together: Q = A_I [R_1 … R_K], T = Q A_Jᵀ + b is (I, K, J), and softmax runs
along its middle axis. 6·N²·K·r flop like every exact sum, in tiles of CELLS numbers.
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
from .cell_sum import Reduction

CELLS = 1 << 18  # of a tile: what the passes over it read again is still in the cache
COLUMNS = 512


class PairCells(NamedTuple):
    """Listed cells of one tile, sorted by pair."""

    rows: Ids  # i within the tile
    relations: Ids
    columns: Ids  # j within the tile
    weights: Vector
    starts: Ids  # where each pair's cells begin


class Tile(NamedTuple):
    """A block of subjects and objects with what is listed there."""

    subjects: slice
    objects: slice
    facts: PairCells
    open: PairCells  # unobserved cells of pairs that have no fact


class Exclusive:
    """Value and gradient of the categorical loss over all pairs of some facts.

    With several workers: over the pairs whose subject this one owns.
    """

    def __init__(self, facts: Facts | Shard, dtype: Any = np.float32, n_threads: int | None = None):
        self.n, self.k = facts.n_entities, facts.n_relations
        self.dtype = np.dtype(dtype)
        shard = Shard.of(facts)
        tiles = _tiles(shard.facts, shard.entity_range, self.dtype)
        n_threads = min(n_threads or numba.get_num_threads(), len(tiles))
        # Tiles are dealt in runs, and a run keeps its order: the same sums at every call.
        self.shares = [tiles[len(tiles) * t // n_threads : len(tiles) * (t + 1) // n_threads] for t in range(n_threads)]
        self._pool = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives; the value costs next to nothing here."""
        A, R, b = (np.ascontiguousarray(array, self.dtype) for array in (A, R, b))
        others = [self._pool.submit(_reduce, share, A, R, b) for share in self.shares[1:]] if self._pool else []
        total, dA, dR, db = _reduce(self.shares[0], A, R, b)
        for other in others:
            part = other.result()
            total += part.value
            dA += part.dA
            dR += part.dR
            db += part.db
        return Reduction(total, dA, dR, db)


def _reduce(tiles: list[Tile], A: Matrix, R: Slices, b: Vector) -> Reduction:
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


def _softmax(T: Matrix, tile: Tile) -> tuple[float, Matrix]:
    """The tile's share of the loss, and its slope in θ: (I, K, J)."""
    top = np.maximum(T.max(axis=1), 0)  # (I, J), never below "none"
    facts, open_ = tile.facts, tile.open
    theta = T[facts.rows, facts.relations, facts.columns].astype(np.float64)
    unknown = T[open_.rows, open_.relations, open_.columns].astype(np.float64)
    P = np.subtract(T, top[:, None], out=T)
    np.exp(P, out=P)
    Z = P.sum(axis=1) + np.exp(-top)
    P *= (1 / Z)[:, None]
    log_Z = top + np.log(Z)
    value = float(log_Z.sum(dtype=np.float64))
    if len(facts.rows):
        i, j = facts.rows[facts.starts], facts.columns[facts.starts]
        times = np.add.reduceat(facts.weights, facts.starts)  # a pair counts once for each of its facts
        value += float(np.sum((times - 1.0) * log_Z[i, j]) - np.sum(facts.weights * theta))
        several = times != 1
        P[i[several], :, j[several]] *= times[several, None]
        P[facts.rows, facts.relations, facts.columns] -= facts.weights
    if len(open_.rows):
        highest = np.maximum(np.maximum.reduceat(unknown, open_.starts), 0)
        lengths = np.diff(open_.starts, append=len(unknown))
        e = np.exp(unknown - np.repeat(highest, lengths))
        sums = np.add.reduceat(e, open_.starts) + np.exp(-highest)
        value -= float(np.sum(highest + np.log(sums)))
        P[open_.rows, open_.relations, open_.columns] -= (e / np.repeat(sums, lengths)).astype(P.dtype)
    return value, P


def _tiles(facts: Facts, own: slice, dtype: Any) -> list[Tile]:
    """All pairs of these subjects in tiles; a fact of weight 0 is an unobserved cell."""
    n, k, height = facts.n_entities, facts.n_relations, own.stop - own.start
    columns = min(n, COLUMNS)
    rows = min(max(1, CELLS // (columns * k)), -(-height // 2))  # two blocks at least, for two threads
    weights = facts.confidences
    known = weights > 0
    ones, w = facts.triples[known], weights[known].astype(dtype)
    hidden = np.concatenate([facts.unobserved, facts.triples[~known]])
    pairs = ones[:, 0].astype(np.int64) * n + ones[:, 2]
    hidden = hidden[~np.isin(hidden[:, 0].astype(np.int64) * n + hidden[:, 2], pairs)]
    edges_I, edges_J = [*range(own.start, own.stop, rows), own.stop], [*range(0, n, columns), n]
    width = len(edges_J) - 1
    by_tile = [
        _by_tile(cells - [own.start, 0, 0], values, rows, columns, (len(edges_I) - 1) * width, width)
        for cells, values in ((ones, w), (hidden, np.ones(len(hidden), dtype)))
    ]
    return [
        Tile(slice(*rows_), slice(*columns_), by_tile[0][a * width + c], by_tile[1][a * width + c])
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
