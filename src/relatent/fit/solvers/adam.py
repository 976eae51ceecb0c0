"""Adam (Kingma & Ba 2015) on an exact gradient, its learning rate falling to zero along a cosine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...arrays import Vector
from ...backend.protocol import Backend
from ...distributed.workers import ALONE, Workers
from .lbfgs import Objective

ROUND = 4  # gradients in a step of the loop: the objective itself is worked out with the last of them only


class DescentState(NamedTuple):
    """Where the descent is and what it remembers."""

    x: Vector  # (n,)
    objective: float  # before the last update
    mean: Vector  # (n,) of past gradients
    square: Vector  # (n,) of past gradients, squared
    rounds: int


class Descent:
    """Rounds of Adam; vectors are those of `backend`."""

    def __init__(
        self,
        objective: Objective,
        backend: Backend,
        *,
        lr: float,
        fades: tuple[float, float],
        rounds: int,
        workers: Workers = ALONE,
    ):
        self.objective, self.backend, self.lr, self.fades, self.rounds = objective, backend, lr, fades, rounds
        self.workers = workers
        self.window = rounds + 1  # the schedule ends the fit, not the change of the objective

    def start(self, x: Vector) -> DescentState:
        """The state before the first round."""
        x = self.workers.broadcast(x)
        return DescentState(x, np.inf, self.backend.zeros(x.shape, x), self.backend.zeros(x.shape, x), 0)

    def finished(self, state: DescentState) -> str | None:
        """The schedule's end."""
        ended = "the learning rate has come down to zero (a larger max_iter goes further)"
        return ended if state.rounds >= self.rounds else None

    def step(self, state: DescentState) -> DescentState:
        """One round. The memories of gradients are overwritten in place."""
        x, value = state.x + 0, np.nan
        for t in range(state.rounds * ROUND + 1, (state.rounds + 1) * ROUND + 1):
            value, gradient = self.objective(x, value=t % ROUND == 0)
            left = (1 + np.cos(np.pi * t / (self.rounds * ROUND))) / 2
            momentum, memory = self.fades
            rate = self.lr * left * np.sqrt(1 - memory**t) / (1 - momentum**t)
            self.backend.adam_step(x, state.mean, state.square, gradient, float(rate), self.fades)
        return state._replace(x=x, objective=value, rounds=state.rounds + 1)
