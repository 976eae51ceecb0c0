"""The exact sum of a loss over all cells on a CPU, in tiles that fit the cache.

    value = Σ over all cells ℓ(0, θ) + Σ over facts [w ℓ(1, θ) − ℓ(0, θ)] − Σ over unobserved ℓ(0, θ)

The logistic loss has a compiled kernel; any other is a function of arrays, and its tiles are NumPy's.

For a block of rows (i, k) with Q = A_I R_k and a block of columns J: T = Q A_Jᵀ + b, D = ℓ'(T), corrected in place at
the facts and unobserved cells, then dQ += D A_J and dA_J += Dᵀ Q. At the end of the rows dR_k += A_Iᵀ dQ and
dA_I += dQ R_kᵀ. 6·N²·K·r flop, O(N·r) memory; nothing N × N and no (K·N) × r array is ever held.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices, Triples, Vector
from ..data.facts import Facts
from ..data.shard import Shard
from . import sigmoid
from .cell_sum import CellLoss, Reduction

ROWS, COLUMNS = 512, 512  # a float32 tile of 1 MB: fits the second cache, and the three products run at full rate


class TileCells(NamedTuple):
    """Cells sorted by the tile they lie in, with their place inside it."""

    starts: NDArray[np.int64]  # (blocks × column tiles + 1,)
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    weights: Vector


class Share(NamedTuple):
    """The blocks low to high that one thread works on, and the rows of the stack of dR_k that it fills."""

    low: int
    high: int
    stack: slice


class Tiled:
    """Value and gradient of a loss, logistic if none is given, over all observed cells of some facts.

    With several workers: over the cells whose subject this one owns.
    """

    def __init__(
        self,
        facts: Facts | Shard,
        dtype: Any = np.float32,
        n_threads: int | None = None,
        *,
        loss: CellLoss | None = None,
    ):
        shard = Shard.of(facts)
        facts = shard.facts
        self.n, self.k = facts.n_entities, facts.n_relations
        self.dtype = np.dtype(dtype)
        n_threads = n_threads or numba.get_num_threads()
        self.blocks = row_blocks(shard.entity_range.stop - shard.entity_range.start, self.k, n_threads)
        self.blocks[:, 2:] += shard.entity_range.start
        self.shares = shares(self.blocks, n_threads)
        self.facts = self._by_tile(facts.triples, facts.confidences)
        self.unobserved = self._by_tile(facts.unobserved, np.zeros(len(facts.unobserved)))
        self._reduce: Callable[..., float] = _reduce_blocks
        if loss is not None:
            times = np.ones(len(facts)) if facts.times is None else facts.times
            self._reduce = partial(_reduce_blocks_by, loss, self._by_tile(facts.triples, times).weights)
        self._pool = ThreadPoolExecutor(len(self.shares) - 1) if len(self.shares) > 1 else None
        self._scratch = [
            (_page_aligned(ROWS * COLUMNS, self.dtype), _page_aligned(sigmoid.FOLD_LENGTH + COLUMNS, self.dtype))
            for _ in self.shares
        ]

    def _by_tile(self, cells: Triples, weights: Vector) -> TileCells:
        column_tiles = -(-self.n // COLUMNS)
        block, row = block_and_row(self.blocks, self.n, cells[:, 1], cells[:, 0])
        tile = block * column_tiles + cells[:, 2] // COLUMNS
        order = np.argsort(tile, kind="stable")
        starts = np.searchsorted(tile[order], np.arange(len(self.blocks) * column_tiles + 1))
        columns = (cells[:, 2] % COLUMNS).astype(np.int32)
        return TileCells(starts, row[order].astype(np.int32), columns[order], weights[order].astype(self.dtype))

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives; without `value` the sum is left out (NaN) and time is saved.

        BLAS should run on one thread a call (see `threads.one_blas_thread`): the tiles are spread over threads here.
        """
        A, R, b = (np.ascontiguousarray(array, self.dtype) for array in (A, R, b))
        r, height = A.shape[1], self.shares[-1].stack.stop
        dR, db = np.empty((height, r, r), self.dtype), np.empty(height)
        parts = [np.empty_like(A) for _ in self.shares]
        jobs = [self._job(A, R, b, value, dA, dR, db, share) for share, dA in enumerate(parts)]
        # Fixed shares, summed in a fixed order: the same numbers at every call. The caller works on the first, and
        # nothing but compiled code runs from here on: threads that wait for the interpreter lose a tenth of the time.
        others = [self._pool.submit(self._reduce, *job) for job in jobs[1:]] if self._pool else []
        total = self._reduce(*jobs[0])
        dA = parts[0]
        for other, part in zip(others, parts[1:], strict=True):
            total += other.result()
            dA += part
        return Reduction(total if value else np.nan, dA, *self._merged(dR, db))

    def _job(
        self, A: Matrix, R: Slices, b: Vector, value: bool, dA: Matrix, dR: Slices, db: Vector, share: int
    ) -> tuple[Any, ...]:
        """What the kernel is called with for one thread's share of the blocks."""
        low, high, stack = self.shares[share]
        cells = (*self.facts, *self.unobserved[:3])
        return A, R, b, self.blocks[low:high], low, *cells, value, dA, dR[stack], db[stack], *self._scratch[share]

    def _merged(self, dR: Slices, db: Vector) -> tuple[Slices, Vector]:
        """One dR_k and db_k a relation, also where several shares have rows of it."""
        if len(db) == self.k:
            return dR, db
        relations = np.concatenate([_relations(self.blocks[low:high]) for low, high, _ in self.shares])
        firsts = np.searchsorted(relations, np.arange(self.k))
        return np.add.reduceat(dR, firsts, axis=0), np.add.reduceat(db, firsts)


@njit(nogil=True, cache=True, fastmath=sigmoid.FAST, error_model="numpy")
def _reduce_blocks(  # type: ignore[no-untyped-def]
    A,
    R,
    b,
    blocks,
    first_block,
    fact_starts,
    fact_rows,
    fact_columns,
    fact_weights,
    hidden_starts,
    hidden_rows,
    hidden_columns,
    value,
    dA,
    dR,
    db,
    scratch,
    e,
):
    """Work through blocks of rows: fills dA, dR and db, returns the loss. dR and db begin at the first block's k."""
    dA[:], dR[:], db[:] = 0, 0, 0
    n, r = A.shape
    k_first = blocks[0, 0]
    column_tiles = (n + COLUMNS - 1) // COLUMNS
    total = 0.0
    for number in range(len(blocks)):
        k_low, k_high, i_low, i_high = blocks[number]
        A_I, height, width = A[i_low:i_high], i_high - i_low, k_high - k_low
        rows = height * width
        R_I = _side_by_side(R[k_low:k_high])  # (r, width · r)
        Q = np.dot(A_I, R_I).reshape(rows, r)
        dQ, sums = np.zeros((rows, r), A.dtype), np.zeros(rows, A.dtype)
        bias = np.empty((height, width), A.dtype)
        bias[:] = b[k_low:k_high]
        bias_rows = bias.reshape(rows)
        for tile in range(column_tiles):
            A_J = A[tile * COLUMNS : (tile + 1) * COLUMNS]
            dA_J = dA[tile * COLUMNS : (tile + 1) * COLUMNS]
            at = (first_block + number) * column_tiles + tile
            f = slice(fact_starts[at], fact_starts[at + 1])
            h = slice(hidden_starts[at], hidden_starts[at + 1])
            D = scratch[: rows * len(A_J)].reshape(rows, len(A_J))
            np.dot(Q, A_J.T, D)
            if value:
                total += sigmoid.prepare_facts(D, bias_rows, fact_rows[f], fact_columns[f], fact_weights[f])
            sigmoid.hide(D, hidden_rows[h], hidden_columns[h])
            total += sigmoid.pass_over_tile(D, bias_rows, sums, e, value)
            sigmoid.finish_facts(D, sums, fact_rows[f], fact_columns[f], fact_weights[f])
            dQ += np.dot(D, A_J)
            dA_J += np.dot(D.T, Q)
        dQ_I = dQ.reshape(height, width * r)
        dR_I = np.dot(A_I.T, dQ_I)
        dA[i_low:i_high] += np.dot(dQ_I, R_I.T)
        for k in range(width):
            dR[k_low - k_first + k] += dR_I[:, k * r : (k + 1) * r]
        for row in range(rows):
            db[k_low - k_first + row % width] += sums[row]
    return total


@np.errstate(over="ignore", invalid="ignore")
def _reduce_blocks_by(
    loss: CellLoss,
    x: Vector,
    A: Matrix,
    R: Slices,
    b: Vector,
    blocks: NDArray[np.int64],
    first_block: int,
    fact_starts: Ids,
    fact_rows: Ids,
    fact_columns: Ids,
    fact_weights: Vector,
    hidden_starts: Ids,
    hidden_rows: Ids,
    hidden_columns: Ids,
    value: bool,
    dA: Matrix,
    dR: Slices,
    db: Vector,
    scratch: Vector,
    _: Vector,
) -> float:
    """As `_reduce_blocks`, for a loss of arrays; x: what was observed at each fact.

    Beyond a float's range the value is infinite and the gradient of no use: a line search comes back from there.
    """
    dA[:], dR[:], db[:] = 0, 0, 0
    n, r = A.shape
    zero = np.zeros((), A.dtype)
    column_tiles = -(-n // COLUMNS)
    total = 0.0
    for number, (k_low, k_high, i_low, i_high) in enumerate(blocks.tolist(), first_block):
        A_I, width = A[i_low:i_high], k_high - k_low
        R_I = np.concatenate(list(R[k_low:k_high]), axis=1)  # (r, width · r)
        Q = (A_I @ R_I).reshape(-1, r)
        bias = np.tile(b[k_low:k_high], len(A_I))[:, None]
        dQ, sums = np.zeros_like(Q), np.zeros(len(Q))
        for tile in range(column_tiles):
            J = slice(tile * COLUMNS, (tile + 1) * COLUMNS)
            at = number * column_tiles + tile
            f = slice(fact_starts[at], fact_starts[at + 1])
            h = slice(hidden_starts[at], hidden_starts[at + 1])
            facts, hidden = (fact_rows[f], fact_columns[f]), (hidden_rows[h], hidden_columns[h])
            T = scratch[: len(Q) * len(A[J])].reshape(len(Q), -1)
            np.matmul(Q, A[J].T, out=T)
            T += bias
            values, D = loss(zero, T)
            true_values, true_slopes = loss(x[f], T[facts])
            values[facts], D[facts] = fact_weights[f] * true_values, fact_weights[f] * true_slopes
            values[hidden], D[hidden] = 0, 0
            total += float(values.sum(dtype=np.float64)) if value else 0.0
            sums += D.sum(axis=1, dtype=np.float64)
            dQ += D @ A[J]
            dA[J] += D.T @ Q
        dQ_I, k = dQ.reshape(len(A_I), -1), k_low - blocks[0, 0]
        dR[k : k + width] += (A_I.T @ dQ_I).reshape(r, width, r).transpose(1, 0, 2)
        dA[i_low:i_high] += dQ_I @ R_I.T
        db[k : k + width] += sums.reshape(-1, width).sum(axis=0)
    return total


@njit(inline="always")
def _side_by_side(R):  # type: ignore[no-untyped-def]
    """[R_1 … R_m], (r, m · r): products with all of them are one product."""
    m, r, _ = R.shape
    wide = np.empty((r, m * r), R.dtype)
    for k in range(m):
        wide[:, k * r : (k + 1) * r] = R[k]
    return wide


def _page_aligned(length: int, dtype: np.dtype[Any]) -> Vector:
    """An array that starts on a page: an unlucky start made the sigmoid pass 1.5 times slower."""
    page = 4096
    raw = np.empty(length * dtype.itemsize + page, np.uint8)
    start = -raw.ctypes.data % page
    return raw[start : start + length * dtype.itemsize].view(dtype)


def row_blocks(n: int, k: int, n_threads: int) -> NDArray[np.int64]:
    """Blocks (k_low, k_high, i_low, i_high) of at most ROWS rows (i, k): whole relations, or a range of one's rows.

    Few blocks are made a multiple of the threads, so that each has the same work.
    """
    if n > ROWS // 2:
        parts = _even(n, max(-(-n // ROWS), n_threads if k < n_threads else 1))
        blocks = [(relation, relation + 1, low, high) for relation in range(k) for low, high in parts]
    else:
        count = -(-k // (ROWS // n))
        blocks = [(low, high, 0, n) for low, high in _even(k, min(k, -(-count // n_threads) * n_threads))]
    return np.array(blocks, dtype=np.int64).reshape(-1, 4)


def shares(blocks: NDArray[np.int64], n_threads: int) -> list[Share]:
    """Blocks in as many even shares as there are threads, or blocks if those are fewer."""
    result: list[Share] = []
    top = 0
    for low, high in _even(len(blocks), min(n_threads, len(blocks))):
        bottom = top + len(_relations(blocks[low:high]))
        result.append(Share(low, high, slice(top, bottom)))
        top = bottom
    return result


def _relations(blocks: NDArray[np.int64]) -> Ids:
    """The relations that consecutive blocks have rows of."""
    return np.arange(blocks[0, 0], blocks[-1, 1])


def _even(length: int, parts: int) -> list[tuple[int, int]]:
    edges = [length * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))


def block_and_row(blocks: NDArray[np.int64], n: int, relations: Ids, subjects: Ids) -> tuple[Ids, Ids]:
    """For each (relation, subject) the block it lies in, and its row there."""
    firsts = blocks[:, 0] * n + blocks[:, 2]
    block = np.searchsorted(firsts, relations.astype(np.int64) * n + subjects, side="right") - 1
    k_low, k_high, i_low, _ = blocks[block].T
    return block, (subjects - i_low) * (k_high - k_low) + relations - k_low
