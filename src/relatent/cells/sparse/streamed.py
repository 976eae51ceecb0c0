"""Sparse products of large relations, one relation after another; memory access decides the speed.

Reading one row of A from a random place (a gather) per fact is the dominant cost. Hence:

- values are not stored: a relation is its sorted subject and object columns, once by subject (a view of the facts)
  and once by object;
- rows of A are padded to whole cache lines and prefetched PREFETCH_ROWS ahead, so that many loads are in flight;
- rows of X_k without facts are skipped, and the rows gathered for R_k are kept for A: one gather per direction and
  sweep;
- BLAS multiplies the gathered rows in chunks that are still in the first-level cache: 6 ns per row at rank 10, where a
  compiled loop took 35 to 48;
- A and the sums F for the next A are cut into blocks of entities that fit the cache. A group of relations adds to a
  block of F in both directions before the next block; one thread owns a block, so the order of the sums does not
  depend on the number of threads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from ...arrays import Ids, Matrix, Slices, Vector
from ...data.facts import Facts
from ...data.shard import Shard
from ...distributed.workers import Workers
from .prefetch import LINE, PREFETCH_ROWS, prefetch
from .products import CellValues

CHUNK_BYTES = 32 << 10  # of the rows of X_k A multiplied at once: they fit the first-level cache
BLOCK_BYTES = 2 << 20  # of F: stays in a core's cache while a group of relations adds to it
MAX_KEPT_PRODUCTS = 2  # of X_k A for a group of relations, in multiples of the size of A


class SortedFacts(NamedTuple):
    """The facts of one relation sorted by row, and where each block of entities begins."""

    rows: Ids  # (m,) sorted
    columns: Ids  # (m,)
    cuts: list[int]  # (blocks + 1,) facts before each block
    firsts: list[int]  # (blocks + 1,) rows with facts before each block


class StreamedRelation(NamedTuple):
    """One X_k, by subject and by object."""

    forward: SortedFacts
    backward: SortedFacts


class StreamedLayout:
    """The facts of every relation, laid out for gathers; rows are those of the entities that this worker owns."""

    def __init__(self, shard: Shard, rank: int, dtype: DTypeLike = np.float32, n_threads: int | None = None):
        self.n, self.rank, self.dtype, self.own = shard.n_entities, rank, np.dtype(dtype), shard.entity_range
        size = max(1, BLOCK_BYTES // (rank * self.dtype.itemsize))
        height = self.own.stop - self.own.start
        self.edges = np.append(np.arange(0, height, size), height)
        self._chunk = max(1, CHUNK_BYTES // (4 * rank))  # rows
        self._all_edges = np.append(np.arange(0, self.n, size), self.n)
        self._pool = ThreadPoolExecutor(n_threads or numba.get_num_threads())
        rows, columns = np.empty((2, len(shard.facts_by_object)), np.int32)  # by object
        relation = partial(_relation, shard, self.edges, rows, columns)
        self.relations = list(self._pool.map(relation, range(shard.n_relations)))
        filled = np.array([relation.forward.firsts[-1] for relation in self.relations], np.int64)
        groups = _groups(shard.workers.sum(filled), MAX_KEPT_PRODUCTS * self.n)
        self.blocks = [StreamedBlock(self, group, shard.workers) for group in groups]
        # buffers are reused between sweeps: fresh memory pages cost more than writing to them
        self._buffer: Matrix = np.empty((0, rank), self.dtype)
        self._padded = _aligned(self.n, padded_width(rank, self.dtype), self.dtype)

    def _n_rows(self, k: int) -> int:
        return self.relations[k].forward.firsts[-1]

    def buffers(self, group: range) -> list[Matrix]:
        """Memory for the non-empty rows of X_k A of each relation; the next group overwrites it."""
        edges = np.cumsum([0, *(self._n_rows(k) for k in group)])
        if not len(self._buffer):
            largest = max(sum(self._n_rows(k) for k in block.group) for block in self.blocks)
            self._buffer = np.empty((largest, self.rank), self.dtype)
        return [self._buffer[low:high] for low, high in pairwise(edges.tolist())]

    def prepare(self, A: Matrix) -> Matrix:
        """A with rows padded to whole cache lines; the next call overwrites it."""

        def work(block: int) -> None:
            at = slice(self._all_edges[block], self._all_edges[block + 1])
            self._padded[at, : self.rank] = _flush_tiny(A[at])

        list(self._pool.map(work, range(len(self._all_edges) - 1)))
        return self._padded

    def project(self, k: int, A: Matrix, Y: Matrix) -> Matrix:
        """This worker's part of AᵀX_kA in float64, (r, r), for prepared A; writes the rows of X_k A to Y."""
        side, A_own = self.relations[k].forward, A[self.own]
        products = np.zeros((len(self.edges) - 1, self.rank, self.rank))

        def work(block: int) -> None:
            low, high = side.cuts[block], side.cuts[block + 1]
            if low < high:
                part = low, high, self._chunk
                _project(side.rows, side.columns, part, A, A_own, Y[side.firsts[block] :], products[block])

        list(self._pool.map(work, range(len(products))))
        total: Matrix = products.sum(axis=0)
        return total

    def add_right_side(self, group: range, F: Matrix, A: Matrix, R: Slices, Y: list[Matrix]) -> None:
        """F += X_k A R_kᵀ + X_kᵀ A R_k over a group of relations, for prepared A and the Y from `project`."""
        R = _flush_tiny(R.astype(self.dtype))
        pairs = [(np.ascontiguousarray(R_k.T), np.ascontiguousarray(R_k)) for R_k in R]

        def work(block: int) -> None:
            for k, Y_k, (R_t, R_k) in zip(group, Y, pairs, strict=True):
                there, back = self.relations[k]
                part = there.cuts[block], there.cuts[block + 1], self._chunk
                _spread(there.rows, part, Y_k[there.firsts[block] :], R_t, F)
                part = back.cuts[block], back.cuts[block + 1], self._chunk
                _pull(back.rows, back.columns, part, A, R_k, F)

        list(self._pool.map(work, range(len(self.edges) - 1)))

    def neighbours(self, A: Matrix, F: Matrix) -> None:
        """F += Σ_k (X_k + X_kᵀ) A, for prepared A and the rows of F that this worker owns."""

        def work(block: int) -> None:
            for relation in self.relations:
                for side in relation:
                    part = side.cuts[block], side.cuts[block + 1], self._chunk
                    _collect(side.rows, side.columns, part, A, F)

        list(self._pool.map(work, range(len(self.edges) - 1)))


class StreamedBlock:
    """Relations whose products X_k A are kept together."""

    weighted = None  # every cell has weight 1

    def __init__(self, layout: StreamedLayout, group: range, workers: Workers):
        self.layout, self.group, self._workers = layout, group, workers
        self.relations = slice(group.start, group.stop)
        self.updates = [slice(place, place + 1) for place in range(len(group))]

    def project(self, A: Matrix, values: Vector | None) -> tuple[Slices, list[Matrix]]:
        """AᵀX_kA in float64, over all workers, and the non-empty rows of X_k A."""
        XA = self.layout.buffers(self.group)
        M = np.stack([self.layout.project(k, A, Y) for k, Y in zip(self.group, XA, strict=True)])
        return self._workers.sum(M), XA

    def add_right_side(
        self, F: Matrix, A: Matrix, R: Slices, SA: list[Matrix], values: CellValues, low_rank: Matrix | None
    ) -> None:
        """F += Σ_k X_k A R_kᵀ + X_kᵀ A R_k."""
        self.layout.add_right_side(self.group, F, A, R, SA)


def _groups(n_rows: NDArray[np.int64], max_rows: int) -> list[range]:
    """Consecutive relations that together have at most this many non-empty rows."""
    firsts: list[int] = []
    taken = 0
    for k, filled in enumerate(n_rows.tolist()):
        if not firsts or taken + filled > max_rows:
            firsts.append(k)
            taken = 0
        taken += filled
    return [range(first, stop) for first, stop in pairwise([*firsts, len(n_rows)])]


def layout_bytes(facts: Facts, rank: int, dtype: DTypeLike) -> int:
    """Approximate memory: facts by object, padded A, X_k A of a group; each relation is sorted in a thread."""
    n, kind, counts = facts.n_entities, np.dtype(dtype), facts.counts()
    rows = n * -np.expm1(-counts / n)  # non-empty rows if facts are spread evenly
    products = min(max(MAX_KEPT_PRODUCTS * n, rows.max(initial=0)), rows.sum()) * rank
    by_object = 8 * len(facts)
    sorting = 24 * int(counts.max(initial=0)) * numba.get_num_threads()
    return int(by_object + max(sorting, kind.itemsize * (n * padded_width(rank, kind) + products)))


def padded_width(rank: int, dtype: np.dtype[Any]) -> int:
    """Elements in the whole cache lines that hold a row."""
    return -(-rank * dtype.itemsize // LINE) * LINE // dtype.itemsize


def _aligned(n: int, width: int, dtype: np.dtype[Any]) -> Matrix:
    raw = np.empty(n * width + LINE // dtype.itemsize, dtype)
    first = -raw.ctypes.data % LINE // dtype.itemsize
    return raw[first : first + n * width].reshape(n, width)


def _flush_tiny(values: Slices) -> Slices:
    """Replace numbers whose products are denormal by zero: denormal arithmetic is tens of times slower."""
    least = np.sqrt(np.finfo(values.dtype).tiny)
    return np.where(np.abs(values) < least, values.dtype.type(0), values)


def _relation(shard: Shard, edges: NDArray[np.int64], rows: Ids, columns: Ids, k: int) -> StreamedRelation:
    """One relation by subject, as the facts are sorted, and by object, sorted into its part of rows and columns."""
    first = shard.entity_range.start
    s, o = _pairs(shard.facts, k)
    forward = _side(s - np.int32(first) if first else s, o, edges)
    at = slice(shard.facts_by_object.starts[k], shard.facts_by_object.starts[k + 1])
    s, o = _pairs(shard.facts_by_object, k)
    both = np.sort(((o.astype(np.int64) - first) << 32) | s)  # several times faster than argsort and two gathers
    rows[at] = both >> 32
    columns[at] = both & 0xFFFFFFFF
    return StreamedRelation(forward, _side(rows[at], columns[at], edges))


def _pairs(facts: Facts, k: int) -> tuple[Ids, Ids]:
    at = slice(facts.starts[k], facts.starts[k + 1])
    return facts.subjects[at], facts.objects[at]


def _side(rows: Ids, columns: Ids, edges: NDArray[np.int64]) -> SortedFacts:
    cuts = np.searchsorted(rows, edges)
    is_new = np.ones(len(rows), bool)
    np.not_equal(rows[1:], rows[:-1], out=is_new[1:])
    firsts = np.concatenate([[0], np.cumsum([np.count_nonzero(part) for part in np.split(is_new, cuts[1:-1])])])
    return SortedFacts(rows, columns, cuts.tolist(), firsts.tolist())


# --- the inner loops, over a part (first fact, end, rows of a chunk); compiled for one rank they are no faster

FAST = {"contract", "nsz"}


@njit(inline="always")
def _gather(rows, columns, c, high, A, Y, ids):  # type: ignore[no-untyped-def]
    """Up to len(Y) rows of X A from fact c on; returns their number and the next fact."""
    rank = Y.shape[1]
    n = 0
    bytes_of_row = rank * A.itemsize
    while c < high and n < len(Y):
        i = rows[c]
        y = Y[n]
        for p in range(rank):
            y[p] = 0
        while c < high and rows[c] == i:
            coming = columns[min(c + PREFETCH_ROWS, high - 1)]
            for byte in range(0, bytes_of_row, LINE):
                prefetch(A, np.int64(coming), np.int64(byte))  # type: ignore[call-arg]
            a = A[columns[c]]
            for p in range(rank):
                y[p] += a[p]
            c += 1
        ids[n] = i
        n += 1
    return n, c


@njit(inline="always")
def _add_rows(F, ids, more):  # type: ignore[no-untyped-def]
    """F_i += more_i for the rows i in ids."""
    rank = F.shape[1]
    for row in range(len(more)):
        f, m = F[ids[row]], more[row]
        for q in range(rank):
            f[q] += m[q]


@njit(nogil=True, cache=True, fastmath=FAST)
def _project(rows, columns, part, A, A_own, Y, product):  # type: ignore[no-untyped-def]
    (low, high, chunk), rank = part, len(product)
    ids, own = np.empty(chunk, np.int64), np.empty((chunk, rank), A.dtype)
    added = np.empty((rank, rank), A.dtype)
    c, done = low, 0
    while c < high:
        n, c = _gather(rows, columns, c, high, A, Y[done : done + chunk], ids)
        for row in range(n):
            a = A_own[ids[row]]
            for p in range(rank):
                own[row, p] = a[p]
        np.dot(own[:n].T, Y[done : done + n], added)
        for p in range(rank):
            for q in range(rank):
                product[p, q] += added[p, q]
        done += n


@njit(nogil=True, cache=True, fastmath=FAST)
def _spread(rows, part, Y, R, F):  # type: ignore[no-untyped-def]
    (low, high, chunk), rank = part, F.shape[1]
    ids, made = np.empty(chunk, np.int64), np.empty((chunk, rank), F.dtype)
    c, done = low, 0
    while c < high:
        n = 0
        while c < high and n < chunk:
            ids[n] = rows[c]
            n += 1
            while c < high and rows[c] == ids[n - 1]:
                c += 1
        np.dot(Y[done : done + n], R, made[:n])
        _add_rows(F, ids, made[:n])
        done += n


@njit(nogil=True, cache=True, fastmath=FAST)
def _pull(rows, columns, part, A, R, F):  # type: ignore[no-untyped-def]
    (low, high, chunk), rank = part, F.shape[1]
    ids, Y = np.empty(chunk, np.int64), np.empty((chunk, rank), A.dtype)
    made = np.empty((chunk, rank), A.dtype)
    c = low
    while c < high:
        n, c = _gather(rows, columns, c, high, A, Y, ids)
        np.dot(Y[:n], R, made[:n])
        _add_rows(F, ids, made[:n])


@njit(nogil=True, cache=True, fastmath=FAST)
def _collect(rows, columns, part, A, F):  # type: ignore[no-untyped-def]
    (low, high, chunk), rank = part, F.shape[1]
    ids, Y = np.empty(chunk, np.int64), np.empty((chunk, rank), A.dtype)
    c = low
    while c < high:
        n, c = _gather(rows, columns, c, high, A, Y, ids)
        _add_rows(F, ids, Y[:n])
