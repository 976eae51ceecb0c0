"""L-BFGS for a smooth function of one long vector, in the vector's own precision.

SciPy's L-BFGS-B works in float64 with copies of everything; this one keeps 2·m + 5 vectors of the given type
(docs/design.md has the comparison). Dot products and the objective are float64 all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from ..arrays import Matrix, Vector
from ..workers import ALONE, Workers

Objective = Callable[[Vector], tuple[float, Vector]]

SUFFICIENT, CURVATURE = 1e-4, 0.9  # Wolfe's two constants (Nocedal & Wright, section 3.1)
PAIRS = 10  # of steps and changes of the gradient that are remembered
TRIALS = 20  # evaluations in one line search
FAST = {"contract", "reassoc", "nsz"}


class LbfgsState(NamedTuple):
    """Where the search is and what it remembers."""

    x: Vector  # (n,)
    objective: float
    gradient: Vector  # (n,)
    S: Matrix  # (m, n) past steps, a ring
    Y: Matrix  # (m, n) past changes of the gradient
    curvature: Vector  # (m,) s · y of each pair, float64
    kept: int  # pairs ever stored
    evaluations: int
    failures: int  # line searches in a row that found nothing lower


class Lbfgs:
    """Limited-memory BFGS with a line search that ends at the weak Wolfe conditions."""

    window = 10  # steps: single steps of a quasi-Newton method vary too much to judge by

    def __init__(self, objective: Objective, *, memory: int = PAIRS, workers: Workers = ALONE):
        self.objective = objective
        self.memory = memory
        self.workers = workers  # all go through the same steps, so they agree on every number that decides

    def start(self, x: Vector) -> LbfgsState:
        """The state before the first step."""
        value, gradient = self.objective(self.workers.broadcast(x))
        (value,) = self.workers.agreed(value)
        empty = np.zeros((self.memory, len(x)), x.dtype)
        return LbfgsState(x, value, gradient, empty, empty.copy(), np.zeros(self.memory), 0, 1, 0)

    def finished(self, state: LbfgsState) -> str | None:
        """Two line searches in a row, the second from the gradient alone, found nothing lower."""
        return "no step lowers the objective at this precision" if state.failures >= 2 else None

    def step(self, state: LbfgsState) -> LbfgsState:
        """One quasi-Newton step. The ring of pairs is overwritten in place."""
        d = _direction(state)
        (slope,) = self.workers.agreed(_dot(state.gradient, d))
        if not slope < 0:  # rounding has spoilt the memory: forget it
            state = state._replace(kept=0)
            d = _direction(state)
            (slope,) = self.workers.agreed(_dot(state.gradient, d))
        first = 1.0 if state.kept else min(1.0, 1.0 / max(float(np.abs(state.gradient).sum()), 1e-30))
        (first,) = self.workers.agreed(first)
        found = _line_search(self.objective, state, d, slope, first, self.workers)
        if found is None:
            return state._replace(kept=0, failures=state.failures + 1)
        x, value, gradient, evaluations = found
        pair = state.kept % self.memory
        s = np.subtract(x, state.x, out=state.S[pair])
        y = np.subtract(gradient, state.gradient, out=state.Y[pair])
        state.curvature[pair], y_squared = self.workers.agreed(_dot(s, y), _dot(y, y))
        usable = state.curvature[pair] > np.finfo(x.dtype).eps * y_squared
        return state._replace(
            x=x,
            objective=value,
            gradient=gradient,
            kept=state.kept + 1 if usable else 0,  # a pair that is rounding only has taken the place of the oldest
            evaluations=state.evaluations + evaluations,
            failures=0,
        )


def _dot(a: Vector, b: Vector) -> float:
    return float(_dot64(a, b))


def _direction(state: LbfgsState) -> Vector:
    """−H g by the two loops over the pairs, newest first, then oldest first (Nocedal & Wright, algorithm 7.4)."""
    q = -state.gradient
    kept = min(state.kept, len(state.S))
    if kept:
        newest_first = (state.kept - 1 - np.arange(kept)) % len(state.S)
        _two_loops(state.S, state.Y, state.curvature, newest_first, q)
    return q


@njit(inline="always", fastmath=FAST)
def _dot_inlined(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def _dot64(a, b):  # type: ignore[no-untyped-def]
    return _dot_inlined(a, b)


@njit(inline="always", fastmath=FAST)
def _add_and_dot(q, factor, y, s):  # type: ignore[no-untyped-def]
    """q ← q + factor · y, and s · q of the new q, in one pass: the vectors are longer than the cache."""
    c = q.dtype.type(factor)
    total = 0.0
    for i in range(len(q)):
        q[i] += c * y[i]
        total += np.float64(s[i]) * np.float64(q[i])
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def _two_loops(S, Y, curvature, newest_first, q):  # type: ignore[no-untyped-def]
    m = len(newest_first)
    alpha = np.empty(m)
    newest, oldest = newest_first[0], newest_first[m - 1]
    product = _dot_inlined(S[newest], q)
    for place in range(m):
        pair = newest_first[place]
        alpha[place] = product / curvature[pair]
        following = S[newest_first[place + 1]] if place + 1 < m else q
        product = _add_and_dot(q, -alpha[place], Y[pair], following)
    q *= q.dtype.type(curvature[newest] / _dot_inlined(Y[newest], Y[newest]))
    product = _dot_inlined(Y[oldest], q)
    for place in range(m - 1, -1, -1):
        pair = newest_first[place]
        following = Y[newest_first[place - 1]] if place > 0 else q
        product = _add_and_dot(q, alpha[place] - product / curvature[pair], S[pair], following)


def _line_search(
    objective: Objective, state: LbfgsState, d: Vector, slope: float, first: float, workers: Workers
) -> tuple[Vector, float, Vector, int] | None:
    """A point low enough and flat enough, found by widening, then narrowing a bracket (Lewis & Overton 2013)."""
    low, low_value, low_slope = 0.0, state.objective, slope
    high: float | None = None
    t = first
    best: tuple[Vector, float, Vector, int] | None = None
    for trial in range(1, TRIALS + 1):
        x = state.x + d.dtype.type(t) * d
        value, gradient = objective(x)
        value, here = workers.agreed(value, _dot(gradient, d))
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
