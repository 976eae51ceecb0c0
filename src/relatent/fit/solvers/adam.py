"""Adam (Kingma & Ba 2015) on exact or sampled gradients, with a learning rate that falls to zero along a cosine.

On sampled gradients every step sees other cells. The falling rate averages their noise out, and the end of the schedule
is the only criterion for convergence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...arrays import Vector
from ...cells.cell_sum import CellKeys, Parameters
from ...data.cell_keys import cells_of
from ..penalised_likelihood import PenalisedLikelihood

STEPS_PER_ROUND = 4  # a round is one step of the loop; an exact objective is evaluated in its last step only
RELATIVE_STEP = 0.1  # without a learning rate: the first steps, relative to the root mean square of A, and of R
BIAS_STEP = 0.05  # log-odds


class AdamState(NamedTuple):
    """Where the search is and what it remembers."""

    x: Vector  # (n,)
    objective: float  # before the last update of the round; sampled: the mean over the round
    mean: Vector  # (n,) first moment of the gradient; of A each worker keeps the rows that it updates
    square: Vector  # (n,) second moment
    listed: CellKeys  # zeros that a sampled sum lists; a worker has those whose subject it owns
    found: CellKeys  # zeros that are to be listed
    rounds: int


class AdamSearch:
    """Rounds of Adam. `lr`: the size of the first steps; None chooses it relative to the sizes of A and R."""

    growing = ("listed", "found")  # fields of the state that have more rows after each step

    def __init__(self, objective: PenalisedLikelihood, *, lr: float | None, betas: tuple[float, float], rounds: int):
        self.objective, self.lr, self.betas, self.rounds = objective, lr, betas, rounds
        self.backend, self.layout, self.workers = objective.backend, objective.layout, objective.workers
        self.window = rounds + 1  # the schedule ends the fit, not the change of the objective

    def start(self, x: Vector) -> AdamState:
        """The state before the first round."""
        x = self.workers.broadcast(x)
        mean, square = (self.backend.zeros(x.shape, x) for _ in range(2))  # pages never written take no memory
        no_zeros = np.empty(0, np.int64)
        return AdamState(x, np.inf, mean, square, no_zeros, no_zeros, 0)

    def whole(self, state: AdamState) -> AdamState:
        """The state with the moments, which change in place, and the zeros of all workers."""
        for moment in (state.mean, state.square):
            self.workers.gather_rows(self.layout.views(moment).A)
        listed, found = (np.sort(np.concatenate(self.workers.gather(keys))) for keys in (state.listed, state.found))
        return state._replace(listed=listed, found=found)

    def own_part(self, state: AdamState) -> AdamState:
        """The part of a whole state that this worker continues from."""
        own = self.objective.own_entities
        subjects = (cells_of(keys, self.layout.n)[:, 0] for keys in (state.listed, state.found))
        listed, found = ((own.start <= s) & (s < own.stop) for s in subjects)
        return state._replace(listed=state.listed[listed], found=state.found[found])

    def is_valid(self, state: AdamState) -> bool:
        """Whether the zeros of a state that was read are cells, in order, and each of them once."""
        n_cells = self.layout.k * self.layout.n**2
        keys = ((zeros, np.diff(zeros)) for zeros in (state.listed, state.found) if len(zeros))
        return state.rounds >= 0 and all(
            zeros[0] >= 0 and zeros[-1] < n_cells and steps.min(initial=1) > 0 for zeros, steps in keys
        )

    def finished(self, state: AdamState) -> str | None:
        """Whether the schedule has ended."""
        ended = "the schedule of the learning rate is complete"
        return ended if state.rounds >= self.rounds else None

    def step(self, state: AdamState) -> AdamState:
        """One round. The moments are overwritten in place."""
        sample = self.objective.sample
        if sample is not None:
            sample.restore(state.listed, state.found)  # has an effect when a fit begins or is resumed
        x, values = state.x + 0, []
        rates = self._rates(x)
        for t in range(state.rounds * STEPS_PER_ROUND + 1, (state.rounds + 1) * STEPS_PER_ROUND + 1):
            if sample is not None:
                sample.draw(t)
            value = self._descend(x, state, rates, t, value=sample is not None or t % STEPS_PER_ROUND == 0)
            values.append(value)
        objective = float(values[-1] if sample is None else sum(values) / len(values))
        zeros = (state.listed, state.found) if sample is None else sample.update(*self.layout.parameters(x))
        return state._replace(x=x, objective=objective, listed=zeros[0], found=zeros[1], rounds=state.rounds + 1)

    def _rates(self, x: Vector) -> tuple[float, float, float]:
        """The learning rates of A, R and b."""
        if self.lr is not None:
            return self.lr, self.lr, self.lr
        A, R, _ = self.layout.views(x)
        sizes = [np.sqrt(self.backend.dot(part, part) / math.prod(part.shape)) for part in (A, R)]
        return RELATIVE_STEP * sizes[0], RELATIVE_STEP * sizes[1], BIAS_STEP

    def _descend(self, x: Vector, state: AdamState, rates: tuple[float, ...], t: int, *, value: bool) -> float:
        """Step t, from 1 on, of x and the moments in place; returns the objective before the step."""
        total, *gradient = self.objective.own_rows(x, value=value)
        beta1, beta2 = self.betas
        schedule = (1 + np.cos(np.pi * t / (self.rounds * STEPS_PER_ROUND))) / 2
        own_parts = (self._own(vector) for vector in (x, state.mean, state.square))
        for rate, derivative, *arrays in zip(rates, gradient, *own_parts, strict=True):
            g = self.backend.to_dtype(derivative).reshape(-1)
            rate_now = float(rate * schedule * np.sqrt(1 - beta2**t) / (1 - beta1**t))
            values, mean, square = (array.reshape(-1) for array in arrays)
            self.backend.adam_step(values, mean, square, g, rate_now, self.betas)
        self.workers.gather_rows(self.layout.views(x).A)
        return total

    def _own(self, vector: Vector) -> Parameters:
        """A, R and b of a vector; of A the rows that this worker updates."""
        A, R, b = self.layout.views(vector)
        return Parameters(A[self.objective.own_entities], R, b)
