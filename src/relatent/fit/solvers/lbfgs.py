"""L-BFGS for a smooth function of one long vector, in the precision of the vector.

SciPy's L-BFGS-B works in float64 and copies every vector; this one keeps 2·m + 5 vectors of the given type (see
docs/design.md for a comparison). Dot products and the objective are float64 in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Matrix, Vector
from ...backend.numpy_backend import NUMPY_BACKEND
from ...backend.protocol import Backend
from ...distributed.workers import ALONE, Workers

Objective = Callable[..., tuple[float, Any]]  # x, and whether the value is wanted

SUFFICIENT, CURVATURE = 1e-4, 0.9  # Wolfe's two constants (Nocedal & Wright, section 3.1)
PAIRS = 10  # past steps and changes of the gradient
MAX_TRIALS = 20  # evaluations per line search


class LbfgsState(NamedTuple):
    """Where the search is and what it remembers."""

    x: Vector  # (n,)
    objective: float
    gradient: Vector  # (n,)
    S: Matrix  # (m, n) past steps, a ring buffer
    Y: Matrix  # (m, n) past changes of the gradient
    curvature: Vector  # (m,) s · y of each pair, float64
    kept: int  # pairs ever stored
    evaluations: int
    failures: int  # consecutive line searches that found no lower objective


class LbfgsSearch:
    """Limited-memory BFGS with a line search that ends at the weak Wolfe conditions.

    Vectors are those of `backend`. Several workers take the same steps, as they agree on every number that decides.
    """

    window = 10  # steps: single steps of a quasi-Newton method vary too much to judge convergence

    def __init__(
        self, objective: Objective, *, memory: int = PAIRS, backend: Backend = NUMPY_BACKEND, workers: Workers = ALONE
    ):
        self.objective = objective
        self.memory = memory
        self.workers = workers
        self.backend = backend

    def start(self, x: Vector) -> LbfgsState:
        """The state before the first step."""
        value, gradient = self.objective(self.workers.broadcast(x))
        (value,) = self.workers.agree(value)
        S, Y = (self.backend.zeros((self.memory, len(x)), x) for _ in range(2))
        return LbfgsState(x, value, gradient, S, Y, np.zeros(self.memory), 0, 1, 0)

    def is_valid(self, state: LbfgsState) -> bool:
        """Whether the counts of a state that was read are possible."""
        return min(state.kept, state.evaluations, state.failures) >= 0

    def finished(self, state: LbfgsState) -> str | None:
        """Whether two consecutive line searches, the second along the gradient, found no lower objective."""
        return "no step lowers the objective at this precision" if state.failures >= 2 else None

    def step(self, state: LbfgsState) -> LbfgsState:
        """One quasi-Newton step. The ring buffer of pairs is overwritten in place."""
        d = self._direction(state)
        (slope,) = self.workers.agree(self.backend.dot(state.gradient, d))
        if not slope < 0:  # no descent direction because of rounding errors: drop the pairs
            state = state._replace(kept=0)
            d = self._direction(state)
            (slope,) = self.workers.agree(self.backend.dot(state.gradient, d))
        first = 1.0 if state.kept else min(1.0, 1.0 / max(float(abs(state.gradient).sum()), 1e-30))
        (first,) = self.workers.agree(first)
        found = self._line_search(state, d, slope, first)
        if found is None:
            return state._replace(kept=0, failures=state.failures + 1)
        x, value, gradient, evaluations = found
        pair = state.kept % self.memory
        s, y = state.S[pair], state.Y[pair]
        s[:], y[:] = x, gradient
        s -= state.x
        y -= state.gradient
        state.curvature[pair], y_squared = self.workers.agree(self.backend.dot(s, y), self.backend.dot(y, y))
        usable = state.curvature[pair] > max(self.backend.eps(x) * y_squared, np.finfo(np.float64).tiny)
        return state._replace(
            x=x,
            objective=value,
            gradient=gradient,
            kept=state.kept + 1 if usable else 0,  # a pair of rounding errors has overwritten the oldest one
            evaluations=state.evaluations + evaluations,
            failures=0,
        )

    def _direction(self, state: LbfgsState) -> Vector:
        """−H g by two loops over the pairs, newest first, then oldest first."""
        q = -state.gradient
        kept = min(state.kept, len(state.S))
        if kept:
            newest_first = (state.kept - 1 - np.arange(kept)) % len(state.S)
            self.backend.lbfgs_direction(state.S, state.Y, state.curvature, newest_first, q)
        return q

    def _line_search(
        self, state: LbfgsState, d: Vector, slope: float, first: float
    ) -> tuple[Vector, float, Vector, int] | None:
        """A point low enough and flat enough, found by widening, then narrowing a bracket (Lewis & Overton 2013)."""
        low, low_value, low_slope = 0.0, state.objective, slope
        high: float | None = None
        t = first
        best: tuple[Vector, float, Vector, int] | None = None
        for trial in range(1, MAX_TRIALS + 1):
            x = state.x + float(t) * d
            value, gradient = self.objective(x)
            value, here = self.workers.agree(value, self.backend.dot(gradient, d))
            if not value <= state.objective + SUFFICIENT * t * slope:
                t, high = _between(low, low_value, low_slope, t, value), t
            elif here < CURVATURE * slope:
                best = (x, value, gradient, trial)
                low, low_value, low_slope = t, value, here
                t = 2 * t if high is None else (low + high) / 2
            else:
                return x, value, gradient, trial
        return best


def _between(low: float, low_value: float, low_slope: float, high: float, high_value: float) -> float:
    """The minimum of the parabola through the bracket's ends, kept away from both."""
    width = high - low
    if not np.isfinite(high_value):
        return low + 0.1 * width
    bend = high_value - low_value - low_slope * width
    guess = -low_slope * width / (2 * bend) if bend > 0 else 0.5
    return low + min(max(guess, 0.1), 0.9) * width
