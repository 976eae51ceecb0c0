"""Sparse products of relations without weights; memory access decides the speed.

Reading one row of A from a random place (a gather) per fact is the dominant cost. Hence:

- values are not stored: the facts are their sorted subject and object columns, once by subject (a view of the facts)
  and once by object;
- rows of A begin where they touch the fewest cache lines and are prefetched long before they are used, so that many
  loads are in flight;
- rows of X_k without facts are skipped, and the rows gathered for R_k are kept for A: one gather per direction and
  sweep;
- gathered rows are multiplied in chunks that are still in the first-level cache, and the products added to their place
  at once, by loops over registers (`vectors`);
- A and the sums F for the next A are cut into blocks of entities that fit the cache. One compiled call adds a group of
  relations to a block of F in both directions; one thread owns a block, so the order of the sums does not depend on the
  number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from ...arrays import Ids, Matrix, Slices, Vector, read_only
from ...data.facts import Facts
from ...data.shard import Shard
from ...distributed.workers import Workers
from .prefetch import LINE, PREFETCH_ROWS, prefetch
from .products import CellValues
from .vectors import REGISTER_BYTES, TILE_ROWS, add_outer_products, add_products, add_row, take_next

CHUNK_BYTES = 32 << 10  # of the rows of X_k A multiplied at once: they fit the first-level cache
PREFETCH_BYTES = 12 << 10  # of rows of A on their way: a part of the first-level cache
MAX_PREFETCH_ROWS = 64  # of them
BLOCK_BYTES = 512 << 10  # of F: stays in a core's cache while a group of relations adds to it
MIN_BLOCKS = 16  # where entities suffice, so that threads end together
MIN_BLOCK_ROWS = 32  # fewer rows are multiplied slowly
MAX_KEPT_PRODUCTS = 2  # of X_k A for a group of relations, in multiples of the size of A
MIN_GROUP_ELEMENTS = 1 << 22  # of X_k A that a group may have in any case


class SortedFacts(NamedTuple):
    """The facts of all relations sorted by relation and row, and where each block of entities begins."""

    rows: Ids  # (m,)
    columns: Ids  # (m,)
    cuts: NDArray[np.int64]  # (K, blocks + 1) facts before each block
    firsts: NDArray[np.int64]  # (K, blocks + 1) rows with facts before each block, those of relations before k included


class KeptRows(NamedTuple):
    """The non-empty rows of X_k A of a group of relations."""

    ids: Ids  # (m,) entity of each row
    rows: Matrix  # (m, r)


class StreamedLayout:
    """The facts of every relation, laid out for gathers; rows are those of the entities that this worker owns."""

    def __init__(self, shard: Shard, rank: int, dtype: DTypeLike = np.float32, n_threads: int | None = None):
        self.n, self.rank, self.dtype, self.own = shard.n_entities, rank, np.dtype(dtype), shard.entity_range
        self.edges = _block_edges(self.own.stop - self.own.start, rank, self.dtype)
        self._all_edges = _block_edges(self.n, rank, self.dtype)
        tile = max(TILE_ROWS.values())
        self.chunk = max(1, CHUNK_BYTES // (tile * rank * self.dtype.itemsize)) * tile  # rows
        self._n_threads = n_threads or numba.get_num_threads()
        self._pool = ThreadPoolExecutor(self._n_threads)
        self.forward, self.backward = (_sorted_facts(shard, by, self.edges, self._pool) for by in (False, True))
        filled = np.diff(self.forward.firsts[:, [0, -1]]).ravel()
        most = max(MAX_KEPT_PRODUCTS * self.n, MIN_GROUP_ELEMENTS // rank)
        self.blocks = [StreamedBlock(self, group, shard.workers) for group in _groups(shard.workers.sum(filled), most)]
        # buffers are reused between sweeps: fresh memory pages cost more than writing to them
        self._kept = KeptRows(np.empty(0, np.int32), np.empty((0, rank), self.dtype))
        self._padded = _room(self.n, padded_width(rank, self.dtype), self.dtype)

    def kept(self) -> KeptRows:
        """Memory for the non-empty rows of X_k A of any group; the next group overwrites it."""
        if not len(self._kept.ids):
            largest = max(block.n_rows for block in self.blocks)
            self._kept = KeptRows(np.empty(largest, np.int32), _room(largest, self.rank, self.dtype))
            self._kept.rows[:] = 0
        return self._kept

    def each_block(self, work: Callable[..., None], *arguments: Any) -> None:
        """Call a compiled function on all threads; they take the numbers of blocks from a counter that they share."""
        counter = np.zeros(1, np.int64)
        n = min(self._n_threads, len(self._all_edges) - 1)
        others = [self._pool.submit(work, counter, *arguments) for _ in range(n - 1)]
        try:
            work(counter, *arguments)
        finally:
            wait(others)
        for other in others:
            other.result()

    def product_and_gram(self, F: Matrix, T: Matrix) -> tuple[Matrix, Matrix]:
        """A = F T and AᵀA in float64 of the rows that this worker owns."""
        A, grams = np.empty(F.shape, self.dtype), np.zeros((len(self.edges) - 1, self.rank, self.rank))
        self.each_block(_multiply, self.edges, self.chunk, F, self._with_room(T), A, grams)
        return A, grams.sum(axis=0)

    def prepare(self, A: Matrix, U: Matrix | None = None) -> Matrix:
        """A U, or A, with rows that touch few cache lines; the next call overwrites it."""
        turn = self._with_room(np.eye(self.rank) if U is None else U)
        self.each_block(_multiply, self._all_edges, self.chunk, A, turn, self._padded, np.zeros((0, 0, 0)))
        return self._padded

    def _with_room(self, X: Slices) -> Slices:
        """Matrices as the inner loops read them."""
        room = _room(X.size // self.rank, self.rank, self.dtype).reshape(X.shape)
        room[:] = X
        return room

    def neighbours(self, A: Matrix, F: Matrix) -> None:
        """F += Σ_k (X_k + X_kᵀ) A, for prepared A and the rows of F that this worker owns."""
        self.each_block(_collect, (self.forward, self.backward), (0, len(self.forward.cuts), self.chunk), A, F)


class StreamedBlock:
    """Relations whose products X_k A are kept together."""

    weighted = None  # every cell has weight 1

    def __init__(self, layout: StreamedLayout, group: range, workers: Workers):
        self.layout, self._workers = layout, workers
        self.relations = slice(group.start, group.stop)
        firsts = layout.forward.firsts[self.relations]
        self.n_rows = int(firsts[-1, -1] - firsts[0, 0])

    @property
    def _part(self) -> tuple[int, int, int]:
        return self.relations.start, self.relations.stop, self.layout.chunk

    def project(self, A: Matrix, values: Vector | None) -> tuple[Slices, KeptRows]:
        """AᵀX_kA in float64, over all workers, and the non-empty rows of X_k A."""
        layout, kept = self.layout, self.layout.kept()
        n, r = self.relations.stop - self.relations.start, layout.rank
        products = np.zeros((len(layout.edges) - 1, n, r, r))
        layout.each_block(_project, layout.forward, self._part, A, A[layout.own], kept, products)
        return self._workers.sum(products[0] if len(products) == 1 else products.sum(axis=0)), kept

    def add_right_side(
        self, F: Matrix, A: Matrix, R: Slices, SA: KeptRows, values: CellValues, low_rank: Matrix | None
    ) -> None:
        """F += Σ_k X_k A R_kᵀ + X_kᵀ A R_k."""
        layout, R = self.layout, _flush_tiny(R.astype(self.layout.dtype))
        both = layout._with_room(R.swapaxes(1, 2)), layout._with_room(R)
        layout.each_block(_add_right_side, (layout.forward, layout.backward), self._part, A, SA, both, F)


def _block_edges(n: int, rank: int, dtype: np.dtype[Any]) -> NDArray[np.int64]:
    """Where blocks of n entities begin, and n; blocks have at least r / 2 rows, as each one has a sum of r × r."""
    by_memory = -(-n * rank * dtype.itemsize // BLOCK_BYTES)
    least = max(1, rank // 2)  # rows
    count = max(min(by_memory, n // least), min(MIN_BLOCKS, n // max(MIN_BLOCK_ROWS, least)), 1)
    return np.linspace(0, n, count + 1).astype(np.int64)


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
    """Approximate memory: facts by object; A, X_k A and AᵀX_kA of a group; each relation is sorted in a thread."""
    n, kind, counts = facts.n_entities, np.dtype(dtype), facts.counts()
    rows = n * -np.expm1(-counts / n)  # non-empty rows if facts are spread evenly
    kept = min(max(MAX_KEPT_PRODUCTS * n, MIN_GROUP_ELEMENTS // rank, rows.max(initial=0)), rows.sum())
    sums = 8 * len(_block_edges(n, rank, kind)) * rank * rank * len(rows) * kept / max(rows.sum(), 1)
    sweep = kind.itemsize * n * padded_width(rank, kind) + (kind.itemsize * rank + 4) * kept + sums
    sorting = 24 * int(counts.max(initial=0)) * numba.get_num_threads()
    return int(8 * len(facts) + max(sorting, sweep))


def padded_width(rank: int, dtype: np.dtype[Any]) -> int:
    """The least number of elements per row, from the rank on, for which every row touches the fewest cache lines."""
    width = rank
    while (width * dtype.itemsize - 1) % LINE + 1 > gcd(width * dtype.itemsize, LINE):
        width += 1
    return width


def _room(n: int, width: int, dtype: np.dtype[Any]) -> Matrix:
    """Memory for a matrix that begins with a cache line, with REGISTER_BYTES behind it."""
    raw = np.empty(n * width + (LINE + REGISTER_BYTES) // dtype.itemsize, dtype)
    first = -raw.ctypes.data % LINE // dtype.itemsize
    return raw[first : first + n * width].reshape(n, width)


def _flush_tiny(values: Slices) -> Slices:
    """Replace numbers whose products are denormal by zero: denormal arithmetic is tens of times slower."""
    is_tiny = np.abs(values) < np.sqrt(np.finfo(values.dtype).tiny)
    return np.where(is_tiny, values.dtype.type(0), values) if is_tiny.any() else values


def _sorted_facts(shard: Shard, by_object: bool, edges: NDArray[np.int64], pool: ThreadPoolExecutor) -> SortedFacts:
    """All relations by subject, as the facts are sorted, or by object."""
    facts, first = (shard.facts_by_object if by_object else shard.facts), shard.entity_range.start
    rows, columns = facts.subjects, facts.objects
    if by_object:
        rows, columns = np.empty((2, len(facts)), np.int32)
        list(pool.map(partial(_sort_by_object, facts, first, rows, columns), range(facts.n_relations)))
    elif first:
        rows = rows - np.int32(first)
    bounds = [slice(*bound) for bound in pairwise(facts.starts.tolist())]
    marks = list(pool.map(lambda at: _marks(rows[at], edges), bounds))
    cuts, firsts = (np.array(part, np.int64).reshape(len(bounds), len(edges)) for part in zip(*marks, strict=True))
    before = np.concatenate([[0], np.cumsum(firsts[:-1, -1])])[:, None]
    cuts += np.array([at.start for at in bounds])[:, None]
    return SortedFacts(read_only(rows), read_only(columns), cuts, firsts + before)


def _sort_by_object(facts: Facts, first: int, rows: Ids, columns: Ids, k: int) -> None:
    """Sort one relation into its part of rows and columns."""
    at = slice(facts.starts[k], facts.starts[k + 1])
    o, s = facts.objects[at].astype(np.int64), facts.subjects[at]
    both = np.sort(((o - first) << 32) | s)  # several times faster than argsort and two gathers
    rows[at] = both >> 32
    columns[at] = both & 0xFFFFFFFF


def _marks(rows: Ids, edges: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Facts, and rows with facts, before each block."""
    cuts = np.searchsorted(rows, edges)
    is_new = np.ones(len(rows), bool)
    np.not_equal(rows[1:], rows[:-1], out=is_new[1:])
    counts = [np.count_nonzero(part) for part in np.split(is_new, cuts[1:-1])]
    return cuts, np.concatenate([[0], np.cumsum(counts)])


# --- the inner loops; compiled for one rank no faster. Each thread takes blocks of entities until none is left

FAST = {"contract", "nsz"}


@njit(inline="always")
def _gather(side, c, high, A, Y, ids):  # type: ignore[no-untyped-def]
    """Up to len(Y) rows of X A from fact c on; returns their number and the next fact. What is in Y must be finite.

    Whether a fact begins a row is a factor and not a branch: one that cannot be predicted costs as much as a gather.
    """
    rows, columns = side.rows, side.columns
    n, last, bytes_of_row = np.int64(0), np.int64(-1), Y.shape[1] * A.itemsize
    ahead = min(max(PREFETCH_BYTES // bytes_of_row, PREFETCH_ROWS), MAX_PREFETCH_ROWS)
    while c < high:
        i = np.int64(rows[c])
        is_new = np.int64(i != last)
        if n + is_new > len(Y):
            break
        n += is_new
        coming = columns[min(c + ahead, high - 1)]
        for byte in range(0, bytes_of_row, LINE):
            prefetch(A, np.int64(coming), np.int64(byte))  # type: ignore[call-arg]
        add_row(Y, n - 1, A, np.int64(columns[c]), A.dtype.type(1 - is_new))  # type: ignore[call-arg]
        ids[n - 1] = last = i
        c += 1
    return n, c


@njit(inline="always")
def _zeros(n, like):  # type: ignore[no-untyped-def]
    """Zeros for n rows as wide as a matrix."""
    rank = like.shape[1]
    return np.zeros(n * rank + REGISTER_BYTES, like.dtype)[: n * rank].reshape(n, rank)


@njit(nogil=True, cache=True, fastmath=FAST)
def _project(counter, side, part, A, A_own, kept, products):  # type: ignore[no-untyped-def]
    first, stop, chunk = part
    block = take_next(counter)  # type: ignore[call-arg, var-annotated]
    while block < len(products):
        for k in range(first, stop):
            product = products[block, k - first]
            c, high = side.cuts[k, block], side.cuts[k, block + 1]
            done = side.firsts[k, block] - side.firsts[first, 0]
            while c < high:
                Y, ids = kept.rows[done : done + chunk], kept.ids[done : done + chunk]
                n, c = _gather(side, c, high, A, Y, ids)
                add_outer_products(product, A_own, ids, Y, n)
                done += n
        block = take_next(counter)


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_right_side(counter, sides, part, A, kept, factors, F):  # type: ignore[no-untyped-def]
    (first, stop, chunk), (forward, backward), (R_t, R) = part, sides, factors
    ids, Y = np.empty(chunk, np.int32), _zeros(chunk, F)
    block = take_next(counter)  # type: ignore[call-arg, var-annotated]
    while block < forward.cuts.shape[1] - 1:
        for k in range(first, stop):
            low = forward.firsts[k, block] - forward.firsts[first, 0]
            high = forward.firsts[k, block + 1] - forward.firsts[first, 0]
            for done in range(low, high, chunk):
                n = min(chunk, high - done)
                add_products(F, kept.ids[done : done + n], kept.rows[done : done + n], n, R_t[k - first])
            c, high = backward.cuts[k, block], backward.cuts[k, block + 1]
            while c < high:
                n, c = _gather(backward, c, high, A, Y, ids)
                add_products(F, ids, Y, n, R[k - first])
        block = take_next(counter)


@njit(nogil=True, cache=True, fastmath=FAST)
def _collect(counter, sides, part, A, F):  # type: ignore[no-untyped-def]
    first, stop, chunk = part
    ids, Y, one = np.empty(chunk, np.int32), _zeros(chunk, F), A.dtype.type(1)
    block = take_next(counter)  # type: ignore[call-arg, var-annotated]
    while block < sides[0].cuts.shape[1] - 1:
        for side in sides:
            for k in range(first, stop):
                c, high = side.cuts[k, block], side.cuts[k, block + 1]
                while c < high:
                    n, c = _gather(side, c, high, A, Y, ids)
                    for row in range(n):
                        add_row(F, np.int64(ids[row]), Y, row, one)
        block = take_next(counter)


@njit(nogil=True, cache=True, fastmath=FAST)
def _multiply(counter, edges, chunk, A, T, B, grams):  # type: ignore[no-untyped-def]
    """B = A T and, in `grams`, BᵀB of each block; without `grams`, numbers whose products are denormal are zero."""
    rank, tiny = T.shape[1], T.dtype.type(np.sqrt(np.finfo(T.dtype).tiny))
    ids, wide = np.empty(chunk, np.int32), np.empty((chunk + REGISTER_BYTES // 8, rank))
    for row in range(chunk):
        ids[row] = row
    block = take_next(counter)  # type: ignore[call-arg, var-annotated]
    while block < len(edges) - 1:
        for low in range(edges[block], edges[block + 1], chunk):
            n = min(chunk, edges[block + 1] - low)
            b = B[low : low + n]
            for row in range(n):  # an array expression takes seconds to compile
                for p in range(rank):
                    b[row, p] = 0
            add_products(b, ids, A[low : low + n], n, T)
            for row in range(n):
                for p in range(rank):
                    wide[row, p] = b[row, p]
                    if len(grams) == 0 and abs(b[row, p]) < tiny:
                        b[row, p] = 0
            if len(grams):
                add_outer_products(grams[block], wide, ids, wide, n)
        block = take_next(counter)
