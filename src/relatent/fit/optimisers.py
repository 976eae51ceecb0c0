"""How the penalised likelihood is minimised, as small objects for `Rescal(optimiser=…)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..backend.protocol import Backend
from ..errors import InputError
from .objective import PenalisedLikelihood
from .solvers.adam import Descent
from .solvers.lbfgs import PAIRS, LbfgsSearch


class Optimiser(Protocol):
    """Settings of a search, and the solver that they make."""

    def solver(self, objective: PenalisedLikelihood, backend: Backend, max_iter: int) -> Any:
        """The solver of this objective, with vectors of `backend`."""


@dataclass(frozen=True)
class Lbfgs:
    """L-BFGS: no learning rate and no schedule, and it can tell when it is done. `pairs`: steps it remembers."""

    pairs: int = PAIRS

    def solver(self, objective: PenalisedLikelihood, backend: Backend, max_iter: int) -> LbfgsSearch:
        """A search that stops where the objective hardly changes."""
        return LbfgsSearch(objective, memory=self.pairs, backend=backend, workers=objective.workers)


@dataclass(frozen=True)
class Adam:
    """Adam: steps of about `lr` in each number, falling to zero along a cosine over the whole fit.

    `momentum` and `memory` say how long gradients and their squares are remembered. A step of the fit is a round of
    four, so `max_iter` = 60 are 240 gradients.
    """

    lr: float = 0.03
    momentum: float = 0.9
    memory: float = 0.99

    def solver(self, objective: PenalisedLikelihood, backend: Backend, max_iter: int) -> Descent:
        """A descent with this many rounds."""
        return Descent(
            objective,
            backend,
            lr=self.lr,
            fades=(self.momentum, self.memory),
            rounds=max_iter,
            workers=objective.workers,
        )


def check(optimiser: Optimiser) -> None:
    """Refuse what is no optimiser, or has settings that lead nowhere."""
    if isinstance(optimiser, type) or not hasattr(optimiser, "solver"):
        raise InputError(
            f"optimiser must be an object such as relatent.Adam(0.03) or relatent.Lbfgs(), got {optimiser!r}"
        )
    if isinstance(optimiser, Lbfgs) and not (type(optimiser.pairs) is int and optimiser.pairs >= 1):
        raise InputError(f"pairs of Lbfgs must be a whole number of at least 1, got {optimiser.pairs!r}")
    if isinstance(optimiser, Adam):
        if not 0 < optimiser.lr < np.inf:
            raise InputError(f"lr of Adam must be a finite number above 0, got {optimiser.lr!r}")
        for name in ("momentum", "memory"):
            if not 0 <= getattr(optimiser, name) < 1:
                raise InputError(f"{name} of Adam must be from 0 to below 1, got {getattr(optimiser, name)!r}")
