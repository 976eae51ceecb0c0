"""Products of sparse X_k with A for many facts: bound by memory, so arranged for memory.

A fact costs one row of A read from anywhere (a gather), and nothing else is as slow. Hence:

- no stored ones: a relation is its sorted subject and object columns, once by subject (a view of the facts) and once
  by object;
- rows of A are padded to whole cache lines and fetched AHEAD of their use, so that many are on their way at once;
- the rank is compiled in: sums stay in registers, and small products need no BLAS;
- rows of X_k without facts are skipped, and what is gathered for R_k is kept for A: one gather each way a sweep;
- A and the sums F for the next A are cut into blocks of entities that fit the cache. A block of F is filled by a group
  of relations in both directions before it leaves; a thread owns a block, so the sums have one order whatever the
  number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices
from ..data.facts import Facts

LINE = 64  # bytes of a cache line
AHEAD = 16  # facts: more than a core has loads in flight
CHUNK = 1024  # rows of X_k A that are multiplied at once: they are still in the cache
BLOCK_BYTES = 2 << 20  # of F: stays in the cache of a core while a group of relations adds to it
TOGETHER = 1 << 26  # numbers of X_k A kept for a group of relations
SMALL = 32  # up to this rank a product of a row is a few registers, and a call to BLAS costs more than it saves
PREFETCH = "llvm.prefetch.p0"


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
    """The facts of every relation, laid out for gathers, and the two visits of a sweep."""

    def __init__(self, facts: Facts, rank: int, dtype: Any = np.float32, n_threads: int | None = None):
        self.n, self.rank, self.dtype = facts.n_entities, rank, np.dtype(dtype)
        size = max(1, BLOCK_BYTES // (rank * self.dtype.itemsize))
        self.edges = np.append(np.arange(0, self.n, size), self.n)
        self.relations = [_relation(facts, k, self.edges) for k in range(facts.n_relations)]
        self.groups = self._groups()
        largest = max((sum(self._n_rows(k) for k in group) for group in self.groups), default=0)
        self._room = np.empty((largest, rank), self.dtype)  # kept: fresh pages cost more than what is written to them
        self._pool = ThreadPoolExecutor(n_threads or numba.get_num_threads())

    def _groups(self) -> list[list[int]]:
        """Relations whose X_k A are held together."""
        groups: list[list[int]] = []
        room = 0
        for k in range(len(self.relations)):
            numbers = self._n_rows(k) * self.rank
            if not groups or room + numbers > TOGETHER:
                groups.append([])
                room = 0
            groups[-1].append(k)
            room += numbers
        return groups

    def _n_rows(self, k: int) -> int:
        return self.relations[k].forward.firsts[-1]

    def room(self, group: list[int]) -> list[Matrix]:
        """Where `project` leaves X_k A for `pull`, its rows with facts only; the next group writes over it."""
        edges = np.cumsum([0, *(self._n_rows(k) for k in group)])
        return [self._room[low:high] for low, high in pairwise(edges.tolist())]

    def padded(self, A: Matrix) -> Matrix:
        """A with rows of whole cache lines, aligned."""
        width = -(-self.rank * self.dtype.itemsize // LINE) * LINE // self.dtype.itemsize
        raw = np.empty(self.n * width + LINE // self.dtype.itemsize, self.dtype)
        first = -raw.ctypes.data % LINE // self.dtype.itemsize
        wide = raw[first : first + self.n * width].reshape(self.n, width)
        wide[:, : self.rank] = A
        return wide

    def project(self, k: int, A: Matrix, Y: Matrix) -> Matrix:
        """AᵀX_kA in float64, (r, r); rows of X_k A go to Y. A: padded."""
        side = self.relations[k].forward
        products = np.zeros((len(self.edges) - 1, self.rank, self.rank))
        kernel = _kernels(self.rank).project

        def work(block: int) -> None:
            low, high = side.cuts[block], side.cuts[block + 1]
            if low < high:
                kernel(side.rows, side.columns, low, high, A, Y[side.firsts[block] :], products[block])

        list(self._pool.map(work, range(len(products))))
        total: Matrix = products.sum(axis=0)
        return total

    def pull(self, group: list[int], A: Matrix, Y: list[Matrix], R: Slices, F: Matrix) -> None:
        """F += X_k A R_kᵀ + X_kᵀ A R_k over a group of relations, from what `project` gave. A: padded. F: (N, r)."""
        kernels = _kernels(self.rank)
        R = R.astype(self.dtype)
        pairs = [(np.ascontiguousarray(R_k.T), np.ascontiguousarray(R_k)) for R_k in R]

        def work(block: int) -> None:
            for k, Y_k, (R_t, R_k) in zip(group, Y, pairs, strict=True):
                there, back = self.relations[k]
                kernels.spread(there.rows, there.cuts[block], there.cuts[block + 1], Y_k[there.firsts[block] :], R_t, F)
                kernels.pull(back.rows, back.columns, back.cuts[block], back.cuts[block + 1], A, R_k, F)

        list(self._pool.map(work, range(len(self.edges) - 1)))


def _relation(facts: Facts, k: int, edges: NDArray[np.int64]) -> Relation:
    at = slice(facts.starts[k], facts.starts[k + 1])
    s, o = facts.subjects[at], facts.objects[at]
    order = np.argsort(o, kind="stable")
    return Relation(_side(s, o, edges), _side(o[order], s[order], edges))


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


@intrinsic
def _prefetch(_, A, row, byte):  # type: ignore[no-untyped-def]
    """Ask for the cache line at a byte of a row of A, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(array.strides, 0)
        pointer = ir.IntType(8).as_pointer()
        offset = builder.add(builder.mul(arguments[1], stride), arguments[2])
        place = builder.gep(builder.bitcast(array.data, pointer), [offset])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.globals.get(PREFETCH) or ir.Function(builder.module, kind, PREFETCH)
        read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [place, read, keep, data])
        return context.get_dummy_value()

    return types.void(A, types.int64, types.int64), generate


FAST = {"contract", "nsz"}


@cache
def _kernels(rank: int) -> Kernels:
    """The three loops; Numba's cache on disk tells ranks apart by the closure."""
    small = rank <= SMALL

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
                    _prefetch(A, np.int64(coming), np.int64(byte))  # type: ignore[call-arg]
                a = A[columns[c]]
                for p in range(rank):
                    y[p] += a[p]
                c += 1
            ids[n] = i
            n += 1
        return n, c

    @njit(nogil=True, cache=True, fastmath=FAST, inline="always")
    def add_outer(A, ids, Y, own, part):  # type: ignore[no-untyped-def]
        """part ← Σ a_i y_iᵀ over some rows."""
        if small:
            part[:] = 0
            for row in range(len(Y)):
                a, y = A[ids[row]], Y[row]
                for p in range(rank):
                    for q in range(rank):
                        part[p, q] += a[p] * y[q]
        else:
            for row in range(len(Y)):
                a = A[ids[row]]
                for p in range(rank):
                    own[row, p] = a[p]
            np.dot(own[: len(Y)].T, Y, part)

    @njit(nogil=True, cache=True, fastmath=FAST, inline="always")
    def add_rows(F, ids, Y, R, made):  # type: ignore[no-untyped-def]
        """F_i += y_i R for some rows i."""
        if small:
            for row in range(len(Y)):
                f, y = F[ids[row]], Y[row]
                for p in range(rank):
                    for q in range(rank):
                        f[q] += y[p] * R[p, q]
        else:
            np.dot(Y, R, made[: len(Y)])
            for row in range(len(Y)):
                f, more = F[ids[row]], made[row]
                for q in range(rank):
                    f[q] += more[q]

    @njit(nogil=True, cache=True, fastmath=FAST)
    def project(rows, columns, low, high, A, Y, product):  # type: ignore[no-untyped-def]
        ids, own = np.empty(CHUNK, np.int64), np.empty((CHUNK, rank), A.dtype)
        part = np.empty((rank, rank), A.dtype)
        c, done = low, 0
        while c < high:
            n, c = gather(rows, columns, c, high, A, Y[done : done + CHUNK], ids)
            add_outer(A, ids, Y[done : done + n], own, part)
            for p in range(rank):
                for q in range(rank):
                    product[p, q] += part[p, q]
            done += n

    @njit(nogil=True, cache=True, fastmath=FAST)
    def spread(rows, low, high, Y, R, F):  # type: ignore[no-untyped-def]
        ids, made = np.empty(CHUNK, np.int64), np.empty((CHUNK, rank), F.dtype)
        c, done = low, 0
        while c < high:
            n = 0
            while c < high and n < CHUNK:
                ids[n] = rows[c]
                n += 1
                while c < high and rows[c] == ids[n - 1]:
                    c += 1
            add_rows(F, ids, Y[done : done + n], R, made)
            done += n

    @njit(nogil=True, cache=True, fastmath=FAST)
    def pull(rows, columns, low, high, A, R, F):  # type: ignore[no-untyped-def]
        ids, Y = np.empty(CHUNK, np.int64), np.empty((CHUNK, rank), A.dtype)
        made = np.empty((CHUNK, rank), A.dtype)
        c = low
        while c < high:
            n, c = gather(rows, columns, c, high, A, Y, ids)
            add_rows(F, ids, Y[:n], R, made)

    return Kernels(project, spread, pull)
