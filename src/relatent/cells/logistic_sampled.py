"""An unbiased estimate of the logistic sum over all cells, linear in the facts.

    Σ over facts w softplus(−θ)   +   Σ over zeros softplus(θ)

Facts are listed, and so are *active* zeros, which the model considers likely. Listed cells are summed one by one, one
batch per call: every P-th cell of the sorted list, so that a batch has its share of each relation and needs no list of
its own. There are too many other zeros to list, and nearly all of them contribute nothing. For each relation a few
subjects I and objects J are drawn (`logistic_sampled_zeros`), and the dense block I × J is summed with weights
1 / (π_i π_j), without its listed and unobserved cells. Each zero is in the block with probability π_i π_j > 0, so that
the sum and its gradient are right on average, for any factors. A zero in a block that adds much to the variance,
(1 / (π_i π_j) − 1) σ(θ)², is reported, so that it can be listed from then on.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix, Slices, Vector
from ..backend.compact_matrices import transposed
from ..data.cell_keys import cells_of, sorted_unique
from ..data.facts import Facts
from ..data.shard import Shard
from ..distributed.workers import Workers
from ..model.scores import scores
from .cell_sum import CellKeys, CellMemory, ModelSize, PartialGradient, Reduction, n_listed_cells
from .logistic_sampled_cell_list import ACTIVE_ZERO, global_firsts, listed_facts, with_cells
from .logistic_sampled_kernels import (
    LISTED_CELL_COST,
    STRIP,
    FoundZeros,
    SampledCells,
    SampledModel,
    divide_into_tasks,
    sum_tasks,
)
from .logistic_sampled_zeros import DrawnSide, draw_side, of_all_workers, populations, side_columns, side_sizes
from .tiling import even_ranges

ZEROS_PER_FACT = 64  # the zeros of a batch then cost about as much as its facts
MIN_BATCH_FACTS = 8192
MIN_PARALLEL_DRAWS = 1 << 12  # entities: fewer are drawn faster by one thread
MIN_PARALLEL_CELLS = 1 << 16  # fewer are summed faster by one thread
MAX_FOUND_PER_CALL = 1 << 16  # zeros per thread
RELIST_FRACTION = 50  # list again when one in so many listed cells would be new
MIN_LISTED_SCORE = -5.0  # θ below which a listed zero is left to the draw again
MAX_ACTIVE_PER_FACT = 1  # listed zeros


def default_batches(facts: Facts | Shard) -> int:
    """The number of batches of facts: the sum over one costs about as much as the update of all entities."""
    shard = Shard.of(facts)
    return max(1, round(shard.n_facts / max(MIN_BATCH_FACTS, 2 * shard.n_entities)))


class SampledLogisticSum:
    """Estimates of the logistic loss and its gradient over all observed cells of some facts.

    Several workers draw what one process alone draws: each draws the subjects and the objects that it owns, and sums
    the cells, listed or in a block, whose subject it owns. Their estimates differ from its by rounding only.
    """

    def __init__(
        self,
        facts: Facts | Shard,
        dtype: Any = np.float32,
        *,
        n_batches: int = 1,
        zeros_per_fact: float = ZEROS_PER_FACT,
        typed: bool = False,
        n_threads: int | None = None,
        random_state: int = 0,
    ):
        shard = Shard.of(facts)
        self.n, self.k, self.dtype = shard.n_entities, shard.n_relations, np.dtype(dtype)
        self.n_batches, self.n_facts, self.random_state = n_batches, shard.n_facts, random_state
        self.workers = shard.workers
        self.populations = populations(shard, typed=typed)
        self.columns = side_columns(shard)
        self.sizes = side_sizes(shard, self.columns, zeros_per_fact / n_batches)
        self._facts = self.listed = listed_facts(shard.facts, self.dtype)
        self._firsts = global_firsts(self.listed.starts, self.workers)
        self._active: CellKeys = np.empty(0, np.int64)
        self._found = [self._active]
        self.n_threads = n_threads or (numba.get_num_threads() if self._cost() > MIN_PARALLEL_CELLS else 1)
        self._pool = ThreadPoolExecutor(self.n_threads)
        self._dA: Slices = np.empty((self.n_threads, 0, 0), self.dtype)
        self._keys = np.empty((self.n_threads, 0), np.int64)
        self._batch, self.drawn = 0, (self._side(0, np.zeros((2, self.k))),) * 2

    def _cost(self) -> float:
        """Of one call, in cells of a block."""
        blocks = (self.sizes.by_degree + self.sizes.uniform).prod(axis=0, dtype=float).sum()
        return float(blocks) + LISTED_CELL_COST * len(self.listed.subjects) / self.n_batches

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """R transposed, a gradient and a tile per thread; the sorted objects, the list, and zeros added to it."""
        item, n_threads = size.itemsize, numba.get_num_threads()
        listed = (4 + 12 * (1 + MAX_ACTIVE_PER_FACT) + 24 * MAX_ACTIVE_PER_FACT) * n_listed_cells(facts)
        tiles = item * (size.relation_numbers + n_threads * STRIP * STRIP)
        return CellMemory(0, n_threads * size.gradient + tiles + listed)

    # --- the sample

    def draw(self, number: int, *, find: bool = True) -> None:
        """Choose the cells that later calls sum; with `find`, they report zeros that are worth listing."""
        rng = np.random.default_rng([self.random_state, number])  # a resumed fit draws the same cells again
        self.draw_by(number % self.n_batches, rng.random((2, 2, self.k)), find=find)

    def draw_by(self, batch: int, uniforms: NDArray[np.float64], *, find: bool = True) -> None:
        """Choose this batch of listed cells, and blocks by numbers in [0, 1): (2 sides, 2 strata, K)."""
        n_draws = int(self.sizes.by_degree.sum() + self.sizes.uniform.sum())
        subjects, objects = (self._pool.map if n_draws > MIN_PARALLEL_DRAWS else map)(self._side, (0, 1), uniforms)
        self._batch, self.drawn = batch, (subjects, of_all_workers(objects, self.workers))
        capacity = MAX_FOUND_PER_CALL if find else 0
        if self._keys.shape[1] != capacity:
            self._keys = np.empty((self.n_threads, capacity), np.int64)

    def _side(self, side: int, uniforms: NDArray[np.float64]) -> DrawnSide:
        return draw_side(self.columns[side], self.populations[side], self.sizes.of(side), uniforms, self.dtype)

    def restore(self, listed: CellKeys, found: CellKeys) -> None:
        """Continue from these zeros; each worker has those whose subject it owns."""
        self._found = [found]
        if self._active is listed:  # the list is in use already
            return
        self._active = listed
        active = cells_of(listed, self.n)
        self.listed = with_cells(self._facts, active, ACTIVE_ZERO) if len(listed) else self._facts
        self._firsts = global_firsts(self.listed.starts, self.workers)

    def update(self, A: Matrix, R: Slices, b: Vector) -> tuple[CellKeys, CellKeys]:
        """List found zeros if they are many, drop listed zeros that became unlikely; return listed and found zeros."""
        found = sorted_unique(np.concatenate(self._found))
        if self.workers.sum_int(len(found)) * RELIST_FRACTION > self.workers.sum_int(len(self.listed.subjects)):
            self.restore(self._likely(A, R, b, sorted_unique(np.concatenate([self._active, found]))), found[:0])
        else:
            self._found = [found]
        return self._active, self._found[0]

    def _likely(self, A: Matrix, R: Slices, b: Vector, zeros: CellKeys) -> CellKeys:
        """The likely ones of these zeros, as many as the memory estimate allows."""
        s, k, o = cells_of(zeros, self.n).T
        theta = scores(A, R, b, s, k, o)
        limit = score_above(theta, MAX_ACTIVE_PER_FACT * self.n_facts, self.workers)
        return zeros[theta > max(MIN_LISTED_SCORE, limit)]

    # --- the sum

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """An estimate from the batch and the blocks of the last draw; the value takes no extra time."""
        A, R, b = (np.ascontiguousarray(array, self.dtype) for array in (A, R, b))
        rows, columns = self.drawn
        tasks, costs = divide_into_tasks(self.listed, self._firsts, self.n_batches, self._batch, rows, columns)
        shares = costs[-1] * np.arange(self.n_threads) / self.n_threads  # threads get about equal work
        edges = [*np.searchsorted(costs, shares), len(tasks)]
        model = SampledModel(A, R, np.ascontiguousarray(transposed(R)), b)
        cells = SampledCells(self.listed, self.n_batches, rows, columns)
        if self._dA.shape[1:] != A.shape:
            self._dA = np.empty((self.n_threads, *A.shape), self.dtype)

        def work(thread: int) -> tuple[float, PartialGradient, FoundZeros]:
            self._dA[thread] = 0
            gradient = PartialGradient(self._dA[thread], np.zeros_like(R), np.zeros(self.k))
            found = FoundZeros(self._keys[thread], np.zeros(1, np.int64), self.n)
            return sum_tasks(tasks[edges[thread] : edges[thread + 1]], model, cells, gradient, found), gradient, found

        others = [self._pool.submit(work, thread) for thread in range(1, self.n_threads)]
        parts = [work(0), *(other.result() for other in others)]
        values, gradients, founds = zip(*parts, strict=True)
        self._found += [found.keys[: found.filled[0]].copy() for found in founds if found.filled[0]]
        _, dRs, dbs = zip(*gradients, strict=True)
        return Reduction(sum(values), self._merged_dA(), sum(dRs[1:], dRs[0]), sum(dbs[1:], dbs[0]))

    def _merged_dA(self) -> Matrix:
        """The sum of the threads' parts, in place of the first."""
        parts = self._dA.reshape(self.n_threads, -1)

        def merge(bounds: tuple[int, int]) -> None:
            for part in parts[1:]:
                parts[0, slice(*bounds)] += part[slice(*bounds)]

        if self.n_threads > 1:
            list(self._pool.map(merge, even_ranges(parts.shape[1], self.n_threads)))
        dA: Matrix = self._dA[0]
        return dA


def score_above(theta: Vector, count: int, workers: Workers) -> float:
    """A number that at most `count` of all workers' numbers exceed."""
    if workers.sum_int(len(theta)) <= count:
        return -np.inf
    if workers.size == 1:
        return float(np.partition(theta, -count - 1)[-count - 1])
    ordered = np.sort(theta)
    low, high = -workers.max(-float(ordered[0]) if len(theta) else -np.inf), workers.max(ordered.max(initial=-np.inf))
    for _ in range(np.finfo(np.float64).nmant + 10):  # bisect until no number lies between
        middle = (low + high) / 2
        above = workers.sum_int(len(ordered) - int(np.searchsorted(ordered, middle, side="right")))
        low, high = (middle, high) if above > count else (low, middle)
    return high
