"""Optimisers of the penalised likelihood, as small objects for `Rescal(optimiser=…)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ..backend.protocol import Backend
from ..errors import InputError
from .penalised_likelihood import PenalisedLikelihood
from .solvers.adam import AdamSearch
from .solvers.lbfgs import PAIRS, LbfgsSearch


class Optimiser(Protocol):
    """The settings of an optimiser, and the solver that they make.

    Two members are optional. `redraws`: whether the solver draws other cells as it goes (`objective.sample`); for any
    other one a sampled sum draws its zeros once, so that it sees a fixed objective. `solver_memory(numbers, itemsize)`:
    the bytes that the solver takes for a model of so many numbers.
    """

    def solver(self, objective: PenalisedLikelihood, backend: Backend, max_iter: int) -> Any:
        """The solver of this objective, with vectors of `backend`."""


@dataclass(frozen=True)
class Lbfgs:
    """L-BFGS: no learning rate and no schedule, and it stops when it has converged. `pairs`: past steps that it uses.

    A line search needs a fixed objective. With `method="sampled"` the zeros are therefore drawn once per fit, and all
    facts are summed in every step: what is minimised is an estimate of the objective, and `Adam`, which draws other
    zeros in every step, comes closer to the minimum of the objective itself.

    >>> import relatent
    >>> relatent.RescalLogit(rank=5, optimiser=relatent.Lbfgs(pairs=20)).optimiser
    Lbfgs(pairs=20)
    """

    pairs: int = PAIRS
    redraws: ClassVar[bool] = False

    def solver(self, objective: PenalisedLikelihood, backend: Backend, max_iter: int) -> LbfgsSearch:
        """A search that stops when the objective hardly changes."""
        return LbfgsSearch(objective, memory=self.pairs, backend=backend, workers=objective.workers)

    def solver_memory(self, numbers: int, itemsize: int) -> int:
        """Bytes of 2m + 5 vectors, and two more of a line search."""
        return (2 * self.pairs + 7) * numbers * itemsize


@dataclass(frozen=True)
class Adam:
    """Adam: steps of about `lr` in each number, falling to zero along a cosine over the whole fit.

    Without a learning rate (`lr=None`) the first steps are a tenth of the root mean square of A, and of R: what sampled
    fits use unless they are given an optimiser. `beta1` and `beta2` are the decay rates of the gradient's moments.
    Each step of the fit is a round of four updates, so `max_iter=60` takes 240 gradients.

    >>> import relatent
    >>> relatent.RescalLogit(rank=5, optimiser=relatent.Adam(0.05), max_iter=60).optimiser.lr
    0.05
    """

    lr: float | None = 0.03
    beta1: float = 0.9
    beta2: float = 0.99
    redraws: ClassVar[bool] = True

    def solver(self, objective: PenalisedLikelihood, backend: Backend, max_iter: int) -> AdamSearch:
        """A search over this many rounds."""
        return AdamSearch(objective, lr=self.lr, betas=(self.beta1, self.beta2), rounds=max_iter)

    def solver_memory(self, numbers: int, itemsize: int) -> int:
        """Bytes of the vector before and after a round, and of two moments."""
        return 4 * numbers * itemsize


SAMPLED_ADAM = Adam(lr=None, beta2=0.95)  # a short memory forgets a rare, large draw soon


def check(optimiser: Optimiser) -> None:
    """Refuse objects that are no optimiser, and settings out of range."""
    if isinstance(optimiser, type) or not hasattr(optimiser, "solver"):
        raise InputError(
            f"optimiser must be an object such as relatent.Adam(0.03) or relatent.Lbfgs(), got {optimiser!r}"
        )
    if isinstance(optimiser, Lbfgs) and not (type(optimiser.pairs) is int and optimiser.pairs >= 1):
        raise InputError(f"pairs of Lbfgs must be a whole number of at least 1, got {optimiser.pairs!r}")
    if isinstance(optimiser, Adam):
        if optimiser.lr is not None and not 0 < optimiser.lr < np.inf:
            raise InputError(f"lr of Adam must be a finite number above 0 or None, got {optimiser.lr!r}")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(optimiser, name) < 1:
                raise InputError(f"{name} of Adam must be from 0 to below 1, got {getattr(optimiser, name)!r}")


def solver_memory(optimiser: Optimiser, numbers: int, itemsize: int) -> int:
    """Bytes that the solver of an optimiser takes; for one that does not say, as much as L-BFGS."""
    return int(getattr(optimiser, "solver_memory", Lbfgs().solver_memory)(numbers, itemsize))
