"""Products of sparse X_k with A for many facts: bound by memory, so arranged for memory.

A fact costs one row of A read from anywhere (a gather), and nothing else is as slow. Hence:

- no stored ones: a relation is its sorted subject and object columns, once by subject (a view of the facts) and once
  by object;
- rows of A are padded to whole cache lines and fetched AHEAD of their use, so that many are on their way at once;
- the width of a row is compiled in: sums stay in registers;
- rows of X_k without facts are skipped, and what is gathered for R_k is kept for A: one gather each way a sweep;
- dense products run in BLAS on chunks of ROWS that stay in the cache; each thread owns a range of rows.
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

from ..arrays import Ids, Matrix
from ..data.facts import Facts

LINE = 64  # bytes of a cache line
AHEAD = 16  # facts: more than a core has loads in flight
PREFETCH = "llvm.prefetch.p0"
ROWS = 1024  # of a chunk: its three blocks of 64 floats a row fit the second cache


class Side(NamedTuple):
    """The facts of one relation sorted by row, and where each thread's range begins."""

    rows: Ids  # (m,) sorted
    columns: Ids  # (m,)
    cuts: list[int]  # (threads + 1,), never inside a row
    firsts: list[int]  # (threads + 1,) rows with facts before each cut


class Relation(NamedTuple):
    """One X_k, by subject and by object."""

    forward: Side
    backward: Side


class Stream:
    """The facts of every relation, laid out for gathers, and the two visits of a sweep."""

    def __init__(self, facts: Facts, n_threads: int | None = None):
        self.n = facts.n_entities
        self.n_threads = n_threads or numba.get_num_threads()
        self.relations = [_relation(facts, k, self.n_threads) for k in range(facts.n_relations)]
        self._most_rows = max((relation.forward.firsts[-1] for relation in self.relations), default=0)
        self._pool = ThreadPoolExecutor(self.n_threads)

    def padded(self, A: Matrix) -> Matrix:
        """A with rows of whole cache lines, aligned."""
        width = _width(A)
        raw = np.empty(len(A) * width + LINE // A.itemsize, A.dtype)
        first = -raw.ctypes.data % LINE // A.itemsize
        wide = raw[first : first + len(A) * width].reshape(len(A), width)
        wide[:, : A.shape[1]] = A
        wide[:, A.shape[1] :] = 0
        return wide

    def room(self, A: Matrix) -> Matrix:
        """Where `project` keeps X_k A for `pull`, its rows with facts only."""
        return np.empty((self._most_rows, _width(A)), A.dtype)

    def project(self, k: int, A: Matrix, Y: Matrix, r: int) -> Matrix:
        """AᵀX_kA in float64, (r, r); rows of X_k A go to Y. A: padded."""
        side = self.relations[k].forward
        width = A.shape[1]
        products = np.zeros((self.n_threads, width, width))
        kernel = _kernels(width).project

        def work(t: int) -> None:
            low, high, first = side.cuts[t], side.cuts[t + 1], side.firsts[t]
            kernel(side.rows, side.columns, low, high, A, Y[first:], products[t])

        list(self._pool.map(work, range(self.n_threads)))
        total: Matrix = products.sum(axis=0)[:r, :r]
        return total

    def pull(self, k: int, A: Matrix, Y: Matrix, R_k: Matrix, F: Matrix) -> None:
        """F += X_k A R_kᵀ + X_kᵀ A R_k, from what `project` left in Y. A and F: padded."""
        relation = self.relations[k]
        width, r = A.shape[1], len(R_k)
        wide, wide_t = np.zeros((2, width, width), A.dtype)
        wide[:r, :r], wide_t[:r, :r] = R_k, R_k.T
        kernels = _kernels(width)

        def forward(t: int) -> None:
            side = relation.forward
            kernels.spread(side.rows, side.cuts[t], side.cuts[t + 1], Y[side.firsts[t] :], wide_t, F)

        def backward(t: int) -> None:
            side = relation.backward
            kernels.pull(side.rows, side.columns, side.cuts[t], side.cuts[t + 1], A, wide, F)

        list(self._pool.map(forward, range(self.n_threads)))
        list(self._pool.map(backward, range(self.n_threads)))


def needed_bytes(facts: Facts, rank: int, itemsize: int = 4) -> int:
    """What a sweep holds beside the facts: the second order of the facts, A twice, F, and X_k A."""
    width = -(-rank * itemsize // LINE) * LINE
    rows = min(int(facts.counts().max(initial=0)), facts.n_entities)
    return 8 * len(facts) + facts.n_entities * (2 * rank * itemsize + width) + rows * width


def _width(A: Matrix) -> int:
    return int(-(-A.shape[1] * A.itemsize // LINE) * LINE // A.itemsize)


def _relation(facts: Facts, k: int, n_threads: int) -> Relation:
    at = slice(facts.starts[k], facts.starts[k + 1])
    s, o = facts.subjects[at], facts.objects[at]
    order = np.argsort(o, kind="stable")
    return Relation(_side(s, o, n_threads), _side(o[order], s[order], n_threads))


def _side(rows: Ids, columns: Ids, n_threads: int) -> Side:
    """Cut into equal ranges of facts, each cut moved to the beginning of its row."""
    even = [len(rows) * t // n_threads for t in range(n_threads)]
    cuts = [int(np.searchsorted(rows, rows[cut])) if cut < len(rows) else len(rows) for cut in even]
    cuts = [0, *cuts[1:], len(rows)]
    changes = [_distinct(rows[low:high]) for low, high in pairwise(cuts)]
    return Side(rows, columns, cuts, [0, *np.cumsum(changes).tolist()])


def _distinct(rows: Ids) -> int:
    return int(np.count_nonzero(rows[1:] != rows[:-1])) + 1 if len(rows) else 0


class Kernels(NamedTuple):
    """The inner loops for one width of A's rows."""

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
def _kernels(width: int) -> Kernels:
    """Compiled for one width; Numba's cache on disk tells widths apart by the closure."""

    @njit(nogil=True, cache=True, fastmath=FAST, inline="always")
    def gather(rows, columns, c, high, A, Y, ids):  # type: ignore[no-untyped-def]
        """Rows of X A, up to len(Y) of them, from fact c on: how many, and the fact to go on with."""
        n = 0
        bytes_of_row = width * A.itemsize
        while c < high and n < len(Y):
            i = rows[c]
            y = Y[n]
            y[:] = 0
            while c < high and rows[c] == i:
                coming = columns[min(c + AHEAD, high - 1)]
                for byte in range(0, bytes_of_row, LINE):
                    _prefetch(A, np.int64(coming), np.int64(byte))  # type: ignore[call-arg]
                a = A[columns[c]]
                for p in range(width):
                    y[p] += a[p]
                c += 1
            ids[n] = i
            n += 1
        return n, c

    @njit(nogil=True, cache=True, fastmath=FAST, inline="always")
    def add_rows(F, ids, part):  # type: ignore[no-untyped-def]
        for row in range(len(part)):
            f, more = F[ids[row]], part[row]
            for p in range(width):
                f[p] += more[p]

    @njit(nogil=True, cache=True, fastmath=FAST)
    def project(rows, columns, low, high, A, Y, product):  # type: ignore[no-untyped-def]
        ids, own = np.empty(ROWS, np.int64), np.empty((ROWS, width), A.dtype)
        c, done = low, 0
        while c < high:
            n, c = gather(rows, columns, c, high, A, Y[done : done + ROWS], ids)
            for row in range(n):
                a = A[ids[row]]
                for p in range(width):
                    own[row, p] = a[p]
            part = np.dot(own[:n].T, Y[done : done + n])
            for p in range(width):
                for q in range(width):
                    product[p, q] += part[p, q]
            done += n

    @njit(nogil=True, cache=True, fastmath=FAST)
    def spread(rows, low, high, Y, R, F):  # type: ignore[no-untyped-def]
        c, done = low, 0
        ids = np.empty(ROWS, np.int64)
        while c < high:
            n = 0
            while c < high and n < ROWS:
                ids[n] = rows[c]
                n += 1
                while c < high and rows[c] == ids[n - 1]:
                    c += 1
            add_rows(F, ids, np.dot(Y[done : done + n], R))
            done += n

    @njit(nogil=True, cache=True, fastmath=FAST)
    def pull(rows, columns, low, high, A, R, F):  # type: ignore[no-untyped-def]
        ids, Y = np.empty(ROWS, np.int64), np.empty((ROWS, width), A.dtype)
        c = low
        while c < high:
            n, c = gather(rows, columns, c, high, A, Y, ids)
            add_rows(F, ids, np.dot(Y[:n], R))

    return Kernels(project, spread, pull)
