"""Products of sparse X_k with A for many facts: bound by memory, so arranged for memory.

A fact costs one row of A read from anywhere (a gather), and nothing else is as slow. Hence:

- no stored ones: a relation is its sorted subject and object columns, once by subject (a view of the facts) and once
  by object;
- rows of A are padded to whole cache lines and fetched AHEAD of their use, so that many are on their way at once;
- rows of X_k without facts are skipped, and what is gathered for R_k is kept for A: one gather each way a sweep;
- gathered rows are multiplied by BLAS, a chunk at a time, while they are in the first cache: at rank 10 a row takes
  6 ns, where a compiled loop took 35 to 48;
- A and the sums F for the next A are cut into blocks of entities that fit the cache. A block of F is filled by a group
  of relations in both directions before it leaves; a thread owns a block, so the sums have one order whatever the
  number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arrays import Ids, Matrix, Slices
from ...data.facts import Facts
from ...data.shard import Shard
from .prefetch import AHEAD, LINE, prefetch

CHUNK_BYTES = 32 << 10  # rows of X_k A that are multiplied at once: they are still in the first cache
BLOCK_BYTES = 2 << 20  # of F: stays in the cache of a core while a group of relations adds to it
TOGETHER = 2  # X_k A kept for a group of relations, in sizes of A: F is then moved less often than they are


class Side(NamedTuple):
    """The facts of one relation sorted by row, and where each block of entities begins."""

    rows: Ids  # (m,) sorted
    columns: Ids  # (m,)
    cuts: list[int]  # (blocks + 1,) facts before each block
    firsts: list[int]  # (blocks + 1,) rows with facts before each block


class Relation(NamedTuple):
    """One X_k, by subject and by object."""

    forward: Side
    backward: Side


class Stream:
    """The facts of every relation, laid out for gathers, and the two visits of a sweep.

    With several workers rows are those of the entities that this one owns.
    """

    def __init__(self, facts: Facts | Shard, rank: int, dtype: Any = np.float32, n_threads: int | None = None):
        shard = Shard.of(facts)
        self.n, self.rank, self.dtype, self.own = facts.n_entities, rank, np.dtype(dtype), shard.entity_range
        size = max(1, BLOCK_BYTES // (rank * self.dtype.itemsize))
        height = self.own.stop - self.own.start
        self.edges = np.append(np.arange(0, height, size), height)
        self._all_edges = np.append(np.arange(0, self.n, size), self.n)
        self._pool = ThreadPoolExecutor(n_threads or numba.get_num_threads())
        rows, columns = np.empty((2, len(shard.facts_by_object)), np.int32)  # by object
        relation = partial(_relation, shard, self.edges, rows, columns)
        self.relations = list(self._pool.map(relation, range(facts.n_relations)))
        filled = np.array([relation.forward.firsts[-1] for relation in self.relations], np.int64)
        self.groups = _groups(shard.workers.sum(filled), TOGETHER * self.n)
        # kept from visit to visit: fresh pages cost more than what is written to them
        self._room: Matrix = np.empty((0, rank), self.dtype)
        self._wide = _aligned(self.n, padded_width(rank, self.dtype), self.dtype)

    def _n_rows(self, k: int) -> int:
        return self.relations[k].forward.firsts[-1]

    def room(self, group: list[int]) -> list[Matrix]:
        """Where `project` leaves X_k A for `pull`, its rows with facts only; the next group writes over it."""
        edges = np.cumsum([0, *(self._n_rows(k) for k in group)])
        if not len(self._room):
            largest = max(sum(self._n_rows(k) for k in each) for each in self.groups)
            self._room = np.empty((largest, self.rank), self.dtype)
        return [self._room[low:high] for low, high in pairwise(edges.tolist())]

    def padded(self, A: Matrix) -> Matrix:
        """A with rows of whole cache lines, aligned; the next call writes over it."""

        def work(block: int) -> None:
            at = slice(self._all_edges[block], self._all_edges[block + 1])
            self._wide[at, : self.rank] = _without_dust(A[at])

        list(self._pool.map(work, range(len(self._all_edges) - 1)))
        return self._wide

    def project(self, k: int, A: Matrix, Y: Matrix) -> Matrix:
        """AᵀX_kA in float64, (r, r); rows of X_k A go to Y. A: padded. With several workers: this one's part of it."""
        side, A_own = self.relations[k].forward, A[self.own]
        products = np.zeros((len(self.edges) - 1, self.rank, self.rank))
        kernel = _kernels(self.rank).project

        def work(block: int) -> None:
            low, high = side.cuts[block], side.cuts[block + 1]
            if low < high:
                kernel(side.rows, side.columns, low, high, A, A_own, Y[side.firsts[block] :], products[block])

        list(self._pool.map(work, range(len(products))))
        total: Matrix = products.sum(axis=0)
        return total

    def pull(self, group: list[int], A: Matrix, Y: list[Matrix], R: Slices, F: Matrix) -> None:
        """F += X_k A R_kᵀ + X_kᵀ A R_k over a group of relations, from what `project` gave. A: padded. F: own rows."""
        kernels = _kernels(self.rank)
        R = _without_dust(R.astype(self.dtype))
        pairs = [(np.ascontiguousarray(R_k.T), np.ascontiguousarray(R_k)) for R_k in R]

        def work(block: int) -> None:
            for k, Y_k, (R_t, R_k) in zip(group, Y, pairs, strict=True):
                there, back = self.relations[k]
                kernels.spread(there.rows, there.cuts[block], there.cuts[block + 1], Y_k[there.firsts[block] :], R_t, F)
                kernels.pull(back.rows, back.columns, back.cuts[block], back.cuts[block + 1], A, R_k, F)

        list(self._pool.map(work, range(len(self.edges) - 1)))

    def neighbours(self, A: Matrix, F: Matrix) -> None:
        """F += Σ_k (X_k + X_kᵀ) A. A: padded. F: own rows."""
        kernel = _kernels(self.rank).collect

        def work(block: int) -> None:
            for relation in self.relations:
                for side in relation:
                    kernel(side.rows, side.columns, side.cuts[block], side.cuts[block + 1], A, F)

        list(self._pool.map(work, range(len(self.edges) - 1)))


def _groups(n_rows: NDArray[np.int64], most: int) -> list[list[int]]:
    """Relations whose X_k A are held together."""
    groups: list[list[int]] = []
    taken = 0
    for k, filled in enumerate(n_rows.tolist()):
        if not groups or taken + filled > most:
            groups.append([])
            taken = 0
        groups[-1].append(k)
        taken += filled
    return groups


def needs(facts: Facts, rank: int, dtype: Any) -> int:
    """Bytes a Stream takes, about: facts by object, A padded, X_k A of a group; each relation sorted in a thread."""
    n, kind, counts = facts.n_entities, np.dtype(dtype), facts.counts()
    rows = n * -np.expm1(-counts / n)  # with facts, were they spread evenly
    room = min(max(TOGETHER * n, rows.max(initial=0)), rows.sum()) * rank
    by_object = 8 * len(facts)
    sorting = 24 * int(counts.max(initial=0)) * numba.get_num_threads()
    return int(by_object + max(sorting, kind.itemsize * (n * padded_width(rank, kind) + room)))


def padded_width(rank: int, dtype: np.dtype[Any]) -> int:
    """Numbers in the whole cache lines that hold a row."""
    return -(-rank * dtype.itemsize // LINE) * LINE // dtype.itemsize


def _aligned(n: int, width: int, dtype: np.dtype[Any]) -> Matrix:
    raw = np.empty(n * width + LINE // dtype.itemsize, dtype)
    first = -raw.ctypes.data % LINE // dtype.itemsize
    return raw[first : first + n * width].reshape(n, width)


def _without_dust(values: Slices) -> Slices:
    """Zero for numbers whose products are denormal: arithmetic on those is tens of times slower."""
    least = np.sqrt(np.finfo(values.dtype).tiny)
    return np.where(np.abs(values) < least, values.dtype.type(0), values)


def _relation(shard: Shard, edges: NDArray[np.int64], rows: Ids, columns: Ids, k: int) -> Relation:
    """One relation by subject, as it is, and by object: sorted into its part of rows and columns."""
    first = shard.entity_range.start
    s, o = _pairs(shard.facts, k)
    forward = _side(s - np.int32(first) if first else s, o, edges)
    at = slice(shard.facts_by_object.starts[k], shard.facts_by_object.starts[k + 1])
    s, o = _pairs(shard.facts_by_object, k)
    both = np.sort(((o.astype(np.int64) - first) << 32) | s)  # several times faster than argsort and two gathers
    rows[at] = both >> 32
    columns[at] = both & 0xFFFFFFFF
    return Relation(forward, _side(rows[at], columns[at], edges))


def _pairs(facts: Facts, k: int) -> tuple[Ids, Ids]:
    at = slice(facts.starts[k], facts.starts[k + 1])
    return facts.subjects[at], facts.objects[at]


def _side(rows: Ids, columns: Ids, edges: NDArray[np.int64]) -> Side:
    cuts = np.searchsorted(rows, edges)
    fresh = np.ones(len(rows), bool)
    np.not_equal(rows[1:], rows[:-1], out=fresh[1:])
    firsts = np.concatenate([[0], np.cumsum([np.count_nonzero(part) for part in np.split(fresh, cuts[1:-1])])])
    return Side(rows, columns, cuts.tolist(), firsts.tolist())


# --- the inner loops


class Kernels(NamedTuple):
    """Compiled for one rank."""

    project: Callable[..., None]
    spread: Callable[..., None]
    pull: Callable[..., None]
    collect: Callable[..., None]


FAST = {"contract", "nsz"}


@cache
def _kernels(rank: int) -> Kernels:
    """The loops; Numba's cache on disk tells ranks apart by the closure."""
    chunk = max(1, CHUNK_BYTES // (4 * rank))

    @njit(nogil=True, cache=True, fastmath=FAST, inline="always")
    def gather(rows, columns, c, high, A, Y, ids):  # type: ignore[no-untyped-def]
        """Rows of X A, up to len(Y) of them, from fact c on: how many, and the fact to go on with."""
        n = 0
        bytes_of_row = rank * A.itemsize
        while c < high and n < len(Y):
            i = rows[c]
            y = Y[n]
            for p in range(rank):
                y[p] = 0
            while c < high and rows[c] == i:
                coming = columns[min(c + AHEAD, high - 1)]
                for byte in range(0, bytes_of_row, LINE):
                    prefetch(A, np.int64(coming), np.int64(byte))  # type: ignore[call-arg]
                a = A[columns[c]]
                for p in range(rank):
                    y[p] += a[p]
                c += 1
            ids[n] = i
            n += 1
        return n, c

    @njit(nogil=True, cache=True, fastmath=FAST, inline="always")
    def add_rows(F, ids, more):  # type: ignore[no-untyped-def]
        """F_i += more_i for some rows i."""
        for row in range(len(more)):
            f, m = F[ids[row]], more[row]
            for q in range(rank):
                f[q] += m[q]

    @njit(nogil=True, cache=True, fastmath=FAST)
    def project(rows, columns, low, high, A, A_own, Y, product):  # type: ignore[no-untyped-def]
        ids, own = np.empty(chunk, np.int64), np.empty((chunk, rank), A.dtype)
        part = np.empty((rank, rank), A.dtype)
        c, done = low, 0
        while c < high:
            n, c = gather(rows, columns, c, high, A, Y[done : done + chunk], ids)
            for row in range(n):
                a = A_own[ids[row]]
                for p in range(rank):
                    own[row, p] = a[p]
            np.dot(own[:n].T, Y[done : done + n], part)
            for p in range(rank):
                for q in range(rank):
                    product[p, q] += part[p, q]
            done += n

    @njit(nogil=True, cache=True, fastmath=FAST)
    def spread(rows, low, high, Y, R, F):  # type: ignore[no-untyped-def]
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
            add_rows(F, ids, made[:n])
            done += n

    @njit(nogil=True, cache=True, fastmath=FAST)
    def pull(rows, columns, low, high, A, R, F):  # type: ignore[no-untyped-def]
        ids, Y = np.empty(chunk, np.int64), np.empty((chunk, rank), A.dtype)
        made = np.empty((chunk, rank), A.dtype)
        c = low
        while c < high:
            n, c = gather(rows, columns, c, high, A, Y, ids)
            np.dot(Y[:n], R, made[:n])
            add_rows(F, ids, made[:n])

    @njit(nogil=True, cache=True, fastmath=FAST)
    def collect(rows, columns, low, high, A, F):  # type: ignore[no-untyped-def]
        ids, Y = np.empty(chunk, np.int64), np.empty((chunk, rank), A.dtype)
        c = low
        while c < high:
            n, c = gather(rows, columns, c, high, A, Y, ids)
            add_rows(F, ids, Y[:n])

    return Kernels(project, spread, pull, collect)
