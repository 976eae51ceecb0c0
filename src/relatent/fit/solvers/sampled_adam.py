"""Adam (Kingma & Ba 2015) on estimates of the penalised likelihood, and the list of zeros worth summing one by one.

Every step sees other cells, so a step is short and there are many. The learning rate falls to zero along a cosine
over the whole fit: noise then averages out, and there is nothing to judge convergence by but the schedule's end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arrays import Matrix, Slices, Vector
from ...backend.numpy_backend import NumpyBackend, adam_update, dot
from ...backend.protocol import ADAM_EPSILON
from ...cells.cell_sum import Reduction
from ...cells.logistic_sampled import Sampled
from ...data.cell_keys import cells_of, sorted_unique
from ...data.facts import Facts
from ...data.shard import Shard
from ...distributed.workers import Workers
from ...model.factors import scores
from ..objective import Layout, Parameters, over_workers

ROUND = 4  # steps of Adam in a step of the loop
RATE = 0.1  # a step at the start, in sizes of A, or of R: with many entities the one is small and the other large
RATE_OF_BIAS = 0.05  # log-odds
MOMENTUM, MEMORY = 0.9, 0.95  # of the gradient and of its square: a short one forgets a rare, large draw soon
LEAST_BATCH = 8192  # facts
AT_ONCE = 1 << 16  # numbers that are updated sooner than threads are woken
FOUND_A_STEP = 1 << 16  # zeros that may be found worth listing, a thread
RELIST = 50  # list again when one in so many listed cells would be new
FORGET = -5.0  # θ below which a listed zero is given back to chance
ACTIVE_A_FACT = 1  # listed zeros at most


def n_batches(facts: Facts | Shard) -> int:
    """Into how many batches the facts are cut: one costs about as much as the update of all entities."""
    shard = Shard.of(facts)
    return max(1, round(shard.n_facts / max(LEAST_BATCH, 2 * shard.n_entities)))


class AdamState(NamedTuple):
    """Where the search is and what it remembers."""

    x: Vector  # (n,)
    objective: float  # estimated, the mean over a round
    mean: Vector  # (n,) of past gradients; of several workers each keeps the rows of A that it owns
    square: Vector  # (n,) of past gradients, squared
    active: NDArray[np.int64]  # zeros that are listed, as sorted cell numbers; a worker has those whose subject it owns
    found: NDArray[np.int64]  # zeros that should be, likewise
    rounds: int


class SampledAdam:
    """Rounds of Adam with a cosine schedule; each step draws its own cells."""

    def __init__(
        self,
        cells: Sampled,
        layout: Layout,
        *,
        l2_entities: float,
        l2_relations: float,
        bias: bool,
        max_iter: int,
        random_state: int,
    ):
        self.cells, self.layout, self.bias, self.workers = cells, layout, bias, cells.workers
        self.lambdas = (l2_entities, l2_relations)
        self.max_iter, self.random_state = max_iter, random_state
        self.window = max_iter + 1  # estimates are too noisy to judge a change by
        self._dA: Slices = np.zeros((cells.n_threads, layout.n, layout.r), cells.dtype)
        self._found = np.empty((cells.n_threads, FOUND_A_STEP), np.int64)

    def start(self, x: Vector) -> AdamState:
        """The state before the first round."""
        nothing = np.empty(0, np.int64)
        x = self.workers.broadcast(x)
        mean, square = (np.zeros(len(x), x.dtype) for _ in range(2))  # pages that a worker never uses it never takes
        return AdamState(x, np.inf, mean, square, nothing, nothing, 0)

    def whole(self, state: AdamState) -> AdamState:
        """The state with the zeros, and in place with the memories, of all workers."""
        for memory in (state.mean, state.square):
            self.workers.gather_rows(self.layout.views(memory).A)
        active, found = (np.sort(np.concatenate(self.workers.gather(keys))) for keys in (state.active, state.found))
        return state._replace(active=active, found=found)

    def own_part(self, state: AdamState) -> AdamState:
        """Of a whole state, what this worker goes on from."""
        own = self.cells.own
        subjects = (cells_of(keys, self.layout.n)[:, 0] for keys in (state.active, state.found))
        owned = [(own.start <= s) & (s < own.stop) for s in subjects]
        return state._replace(active=state.active[owned[0]], found=state.found[owned[1]])

    def finished(self, state: AdamState) -> str | None:
        """The schedule's end."""
        ended = "the learning rate has come down to zero (a larger max_iter goes further)"
        return ended if state.rounds >= self.max_iter else None

    def step(self, state: AdamState) -> AdamState:
        """One round. The memories of gradients are overwritten in place."""
        self.cells.activate(state.active)  # in force already, but at the start and when a fit is taken up again
        x, found = state.x.copy(), [state.found]
        A, R, b = self.layout.views(x)
        rates = (*(RATE * np.sqrt(dot(part, part) / part.size) for part in (A, R)), RATE_OF_BIAS)
        losses = [
            self._descend(x, state.mean, state.square, rates, t, found)
            for t in range(state.rounds * ROUND + 1, (state.rounds + 1) * ROUND + 1)
        ]
        penalties = (l2 * dot(part, part) for l2, part in zip(self.lambdas, (A, R), strict=True))
        objective = float(np.mean(losses)) + sum(penalties)
        active, fresh = state.active, sorted_unique(np.concatenate(found))
        if self.workers.sum_int(len(fresh)) * RELIST > self.workers.sum_int(len(self.cells.listed.subjects)):
            active, fresh = self._renewed(A, R, b, active, fresh), fresh[:0]
            self.cells.activate(active)
        return state._replace(x=x, objective=objective, active=active, found=fresh, rounds=state.rounds + 1)

    def _descend(
        self,
        x: Vector,
        mean: Vector,
        square: Vector,
        rates: tuple[float, ...],
        t: int,
        found: list[NDArray[np.int64]],
    ) -> float:
        """Step t, from 1 on; x and the memories change in place. The estimated loss before it."""
        A, R, b = self.layout.views(x)
        rng = np.random.default_rng([self.random_state, t])  # of its own: a fit taken up again draws the same
        loss, dR, db, counts = self.cells(
            A,
            R,
            b,
            batch=t % self.cells.n_batches,
            uniforms=rng.random((2, 2, self.layout.k)),
            parts=self._dA,
            found=self._found,
        )
        found += [self._found[share, :count].copy() for share, count in enumerate(counts)]
        left = (1 + np.cos(np.pi * t / (self.max_iter * ROUND))) / 2
        corrected = left * np.sqrt(1 - MEMORY**t) / (1 - MOMENTUM**t)
        loss, dA, dR, db = self._over_workers(loss, dR, db)
        gradients = (dA, dR[None], (db if self.bias else np.zeros_like(db))[None])
        parts = (self._owned(vector) for vector in (x, mean, square))
        for l2, rate, gradient, *arrays in zip((*self.lambdas, 0.0), rates, gradients, *parts, strict=True):
            self._update(gradient, arrays, 2 * l2, rate * corrected)
        self.workers.gather_rows(A)
        return loss

    def _owned(self, vector: Vector) -> Parameters:
        """A, R and b of a vector; of A the rows that this worker owns."""
        A, R, b = self.layout.views(vector)
        return Parameters(A[self.cells.own], R, b)

    def _over_workers(self, loss: float, dR: Slices, db: Vector) -> tuple[float, Slices, Slices, Vector]:
        """The estimate that all workers have made together; dA of own rows, as parts that are still to be added."""
        if self.workers.size == 1:
            return loss, self._dA, dR, db
        dA = self._dA[0]
        for part in self._dA[1:]:
            dA += part
        own = self.workers.sum_rows(dA)
        self._dA[:] = 0
        loss, _, dR, db = over_workers(Reduction(loss, dA[:0], dR, db), self.workers, NumpyBackend(dA.dtype))
        return loss, own[None], dR, db

    def _update(self, gradient: NDArray[Any], arrays: list[Vector], l2: float, rate: float) -> None:
        """Adam's update of some parameters; the gradient, in several parts, is used up."""
        flat = [array.reshape(-1) for array in arrays]
        parts = gradient.astype(flat[0].dtype, copy=False).reshape(len(gradient), -1)
        edges = [len(flat[0]) * share // len(self._dA) for share in range(len(self._dA) + 1)]
        numbers = np.array([l2, rate, MOMENTUM, MEMORY, ADAM_EPSILON], flat[0].dtype)

        def work(share: int) -> None:
            here = slice(edges[share], edges[share + 1])
            adam_update(*(array[here] for array in flat), parts[:, here], *numbers)  # type: ignore[call-arg]

        if len(flat[0]) < AT_ONCE:
            adam_update(*flat, parts, *numbers)  # type: ignore[call-arg]
        else:
            list(self.cells.pool.map(work, range(len(self._dA))))

    def _renewed(
        self, A: Matrix, R: Slices, b: Vector, active: NDArray[np.int64], found: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The zeros, listed or found, that are likely; not more than memory is meant for."""
        zeros = sorted_unique(np.concatenate([active, found]))
        s, k, o = cells_of(zeros, self.layout.n).T
        theta = scores(A, R, b, s, k, o)
        most = ACTIVE_A_FACT * self.cells.n_facts
        return zeros[theta > max(FORGET, _above_most(theta, most, self.workers))]


def _above_most(theta: Vector, most: int, workers: Workers) -> float:
    """A number that so many of all workers' numbers, or fewer, lie above."""
    if workers.sum_int(len(theta)) <= most:
        return -np.inf
    if workers.size == 1:
        return float(np.partition(theta, -most - 1)[-most - 1])
    ordered = np.sort(theta)
    low, high = -workers.max(-float(ordered[0]) if len(theta) else -np.inf), workers.max(ordered.max(initial=-np.inf))
    for _ in range(np.finfo(np.float64).nmant + 10):  # halves until no number lies between
        middle = (low + high) / 2
        above = workers.sum_int(len(ordered) - int(np.searchsorted(ordered, middle, side="right")))
        low, high = (middle, high) if above > most else (low, middle)
    return high
