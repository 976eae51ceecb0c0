"""Exact sums over all cells on a CPU, in tiles that fit the cache, spread over threads.

    value = Σ over all cells ℓ(0, θ) + Σ over facts [w ℓ(1, θ) − ℓ(0, θ)] − Σ over unobserved ℓ(0, θ)

For a block of rows (i, k) with Q = A_I R_k and a tile of columns J: T = Q A_Jᵀ + b, D = ℓ'(T), corrected in place at
the facts and unobserved cells, then dQ += D A_J and dA_J += Dᵀ Q. At the end of the rows dR_k += A_Iᵀ dQ and
dA_I += dQ R_kᵀ. This takes 6·N²·K·r flop and O(N·r) memory; no N × N and no (K·N) × r array is ever held.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices, Triples, Vector
from ..backend.compact_matrices import outer_each, times_each, times_each_back
from ..data.facts import Facts
from ..data.shard import Shard
from . import sigmoid
from .cell_sum import CellMemory, ModelSize, Parameters, PartialGradient, Reduction, n_listed_cells

ROWS, COLUMNS = 512, 512  # a float32 tile of 1 MB fits the second-level cache, and the three products run at full rate
MIN_PARALLEL_CELLS = 1 << 14  # fewer are summed before a second thread has started
SORTING_BYTES = 66  # per listed cell, while cells are sorted by tile


class TileCells(NamedTuple):
    """Cells sorted by the tile they lie in, with their position inside it."""

    starts: NDArray[np.int64]  # (blocks × column tiles + 1,)
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    weights: Vector

    def of(self, tile: int) -> tuple[slice, tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Where the cells of a tile are in the list, and their rows and columns in the tile."""
        here = slice(self.starts[tile], self.starts[tile + 1])
        return here, (self.rows[here], self.columns[here])


class ThreadPart(NamedTuple):
    """The blocks low to high of one thread, and the rows of the stack of dR_k that it fills."""

    low: int
    high: int
    stack: slice


class TileScratch(NamedTuple):
    """Work space of one thread."""

    scores: Vector  # (ROWS · COLUMNS,)
    exponentials: Vector  # (FOLD_LENGTH + COLUMNS,)


class TiledSum:
    """Value and gradient of a loss over all observed cells whose subject this worker owns."""

    def __init__(self, facts: Facts | Shard, dtype: Any, n_threads: int | None):
        shard = Shard.of(facts)
        facts = shard.facts
        self.n, self.k = facts.n_entities, facts.n_relations
        self.dtype = np.dtype(dtype)
        n_threads = n_threads or _threads_for(facts)
        self.blocks = row_blocks(shard.entity_range.stop - shard.entity_range.start, self.k, n_threads)
        self.blocks[:, 2:] += shard.entity_range.start
        self.parts = thread_parts(self.blocks, n_threads)
        self.facts = self.by_tile(facts.triples, facts.confidences)
        self.unobserved = self.by_tile(facts.unobserved, np.zeros(len(facts.unobserved)))
        self._pool = ThreadPoolExecutor(len(self.parts) - 1) if len(self.parts) > 1 else None
        self._scratch = [
            TileScratch(
                _page_aligned(ROWS * COLUMNS, self.dtype), _page_aligned(sigmoid.FOLD_LENGTH + COLUMNS, self.dtype)
            )
            for _ in self.parts
        ]

    def pass_over_tile(
        self, T: Matrix, bias: Vector, tile: int, sums: Vector, scratch: TileScratch, value: bool
    ) -> tuple[float, Matrix]:
        """The loss of a tile, if the value is wanted, and its slopes D; T = Q A_Jᵀ is overwritten.

        `bias` is that of each row, `tile` the number of the tile in `facts` and `unobserved`; row sums of D are added
        to `sums`.
        """
        raise NotImplementedError

    def by_tile(self, cells: Triples, weights: Vector) -> TileCells:
        """These cells in the order of the tiles."""
        column_tiles = -(-self.n // COLUMNS)
        block, row = block_and_row(self.blocks, self.n, cells[:, 1], cells[:, 0])
        tile = block * column_tiles + cells[:, 2] // COLUMNS
        order = np.argsort(tile, kind="stable")
        starts = np.searchsorted(tile[order], np.arange(len(self.blocks) * column_tiles + 1))
        columns = (cells[:, 2] % COLUMNS).astype(np.int32)
        return TileCells(starts, row[order].astype(np.int32), columns[order], weights[order].astype(self.dtype))

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives; without `value` the sum is NaN, which saves time.

        BLAS should run on one thread per call (see `backend.blas_threads`), as the blocks are spread over threads here.
        """
        parameters = Parameters(*(np.ascontiguousarray(array, self.dtype) for array in (A, R, b)))
        height = self.parts[-1].stack.stop
        dR, db = np.empty((height, *R.shape[1:]), self.dtype), np.empty(height)
        gradients = [PartialGradient(np.empty_like(parameters.A), dR[p.stack], db[p.stack]) for p in self.parts]
        jobs = list(zip(self.parts, self._scratch, gradients, strict=True))

        def work(job: tuple[ThreadPart, TileScratch, PartialGradient]) -> float:
            return self._sum_blocks(parameters, *job, value)

        # fixed parts, summed in a fixed order, give the same numbers at every call; this thread works on the first part
        others = [self._pool.submit(work, job) for job in jobs[1:]] if self._pool else []
        total = work(jobs[0])
        dA = gradients[0].dA
        with np.errstate(over="ignore", invalid="ignore"):  # beyond a float's range, where a line search turns back
            for other, gradient in zip(others, gradients[1:], strict=True):
                total += other.result()
                dA += gradient.dA
        return Reduction(total if value else np.nan, dA, *self._merged(dR, db))

    @np.errstate(over="ignore", invalid="ignore")
    def _sum_blocks(
        self, parameters: Parameters, part: ThreadPart, scratch: TileScratch, gradient: PartialGradient, value: bool
    ) -> float:
        """Overwrite the gradient of one thread's blocks, whose dR and db begin at the first k, and return the loss.

        Beyond the range of a float the value is infinite, the gradient useless, and a line search shortens its step.
        """
        A, R, b = parameters
        dA, dR, db = gradient
        dA[:], dR[:], db[:] = 0, 0, 0
        n, r = A.shape
        first_k, column_tiles = self.blocks[part.low, 0], -(-n // COLUMNS)
        total = 0.0
        for block in range(part.low, part.high):
            k_low, k_high, i_low, i_high = self.blocks[block].tolist()
            A_I, width = A[i_low:i_high], k_high - k_low
            R_I = R[k_low:k_high]
            Q = times_each(A_I, R_I).reshape(-1, r)
            bias = np.empty((len(A_I), width), A.dtype)
            bias[:] = b[k_low:k_high]
            dQ, sums = np.zeros(Q.shape, Q.dtype), np.zeros(len(Q))
            for tile in range(column_tiles):
                J = slice(tile * COLUMNS, (tile + 1) * COLUMNS)
                T = scratch.scores[: len(Q) * len(A[J])].reshape(len(Q), -1)
                np.matmul(Q, A[J].T, out=T)
                loss, D = self.pass_over_tile(T, bias.reshape(-1), block * column_tiles + tile, sums, scratch, value)
                total += loss
                dQ += D @ A[J]
                dA[J] += D.T @ Q
            dQ_I, k = dQ.reshape(len(A_I), width, r), k_low - first_k
            dR[k : k + width] += outer_each(A_I, dQ_I, R_I)
            dA[i_low:i_high] += times_each_back(dQ_I, R_I)
            db[k : k + width] += sums.reshape(-1, width).sum(axis=0)
        return total

    def _merged(self, dR: Slices, db: Vector) -> tuple[Slices, Vector]:
        """One dR_k and db_k per relation, also where several threads have rows of it."""
        if len(db) == self.k:
            return dR, db
        relations = np.concatenate([_relations(self.blocks[low:high]) for low, high, _ in self.parts])
        firsts = np.searchsorted(relations, np.arange(self.k))
        return np.add.reduceat(dR, firsts, axis=0), np.add.reduceat(db, firsts)


def tiled_memory(facts: Facts, size: ModelSize, *, tiles: int) -> CellMemory:
    """Bytes of a tiled sum that holds so many tiles of scores per thread, and products with R_k of a block."""
    item, n_threads, cells = size.itemsize, _threads_for(facts), n_listed_cells(facts)
    n, k, r = size.entities, size.relations, size.rank
    starts = 16 * k * -(-n // COLUMNS) * -(-n // ROWS)  # of facts and of unobserved cells, 8 bytes per tile
    is_whole = size.relation_numbers == k * r * r
    block = 4 * ROWS * r + 3 * min(k, max(1, ROWS // n)) * r * r if is_whole else 8 * ROWS * r  # numbers
    held = starts + (8 + 2 * item) * cells + n_threads * item * tiles * ROWS * COLUMNS + size.gradient
    call = (n_threads - 1) * size.gradient + n_threads * item * block
    return CellMemory(SORTING_BYTES * cells + starts, held, call)


def _threads_for(facts: Facts) -> int:
    return numba.get_num_threads() if facts.n_cells > MIN_PARALLEL_CELLS else 1


def _page_aligned(length: int, dtype: np.dtype[Any]) -> Vector:
    """An array that starts on a page: other starts have made the sigmoid pass up to 1.5 times slower."""
    page = 4096
    raw = np.empty(length * dtype.itemsize + page, np.uint8)
    start = -raw.ctypes.data % page
    return raw[start : start + length * dtype.itemsize].view(dtype)


def row_blocks(n: int, k: int, n_threads: int) -> NDArray[np.int64]:
    """Blocks (k_low, k_high, i_low, i_high) of at most ROWS rows (i, k): whole relations, or a range of one's rows.

    If there are few blocks, their number is a multiple of the threads, so that each thread has the same work.
    """
    if n > ROWS // 2:
        parts = even_ranges(n, max(-(-n // ROWS), n_threads if k < n_threads else 1))
        blocks = [(relation, relation + 1, low, high) for relation in range(k) for low, high in parts]
    else:
        count = -(-k // (ROWS // n))
        blocks = [(low, high, 0, n) for low, high in even_ranges(k, min(k, -(-count // n_threads) * n_threads))]
    return np.array(blocks, dtype=np.int64).reshape(-1, 4)


def thread_parts(blocks: NDArray[np.int64], n_threads: int) -> list[ThreadPart]:
    """Blocks in as many even parts as there are threads, or as there are blocks if those are fewer."""
    result: list[ThreadPart] = []
    top = 0
    for low, high in even_ranges(len(blocks), min(n_threads, len(blocks))):
        bottom = top + len(_relations(blocks[low:high]))
        result.append(ThreadPart(low, high, slice(top, bottom)))
        top = bottom
    return result


def _relations(blocks: NDArray[np.int64]) -> Ids:
    """The relations that consecutive blocks have rows of."""
    return np.arange(blocks[0, 0], blocks[-1, 1])


def even_ranges(length: int, parts: int) -> list[tuple[int, int]]:
    """The range 0 to `length` in this many parts of about the same size."""
    edges = [length * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))


def block_and_row(blocks: NDArray[np.int64], n: int, relations: Ids, subjects: Ids) -> tuple[Ids, Ids]:
    """For each (relation, subject) its block, and its row inside the block."""
    firsts = blocks[:, 0] * n + blocks[:, 2]
    block = np.searchsorted(firsts, relations.astype(np.int64) * n + subjects, side="right") - 1
    k_low, k_high, i_low, _ = blocks[block].T
    return block, (subjects - i_low) * (k_high - k_low) + relations - k_low
