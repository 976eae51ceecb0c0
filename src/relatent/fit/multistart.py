"""Several starts for tiny problems: there a fit ends in a poor local minimum more often, and a trial costs little.

On two camps of ten people (rank 4) one random start in ten ends at the saddle A = 0, and two spectral starts in five
3 to 6 % above the lowest minimum known; the lowest of six starts after 80 steps does so in none of 40 fits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..arrays import Vector
from ..cells.cell_sum import Parameters
from ..data.shard import Shard
from . import init
from .penalised_likelihood import Layout, PenalisedLikelihood
from .solvers.lbfgs import LbfgsSearch

MAX_TRIAL_FLOP = 1e6  # of one sum over all cells: beyond, an evaluation costs more than its overhead
RANDOM_STARTS = 5  # tried beside the start that was asked for
TRIAL_STEPS = 80  # L-BFGS steps after which starts are compared
MIN_GAIN = 1e-3  # relative: two starts on the way to one minimum differ by less, and rounding must not choose
MIN_PROGRESS = 1e-2 * MIN_GAIN  # relative, in `LbfgsSearch.window` steps: a trial that gains less is at its end


def is_tiny(layout: Layout) -> bool:
    """Whether trying several starts costs a fraction of a second."""
    return 6.0 * layout.k * layout.n**2 * layout.r <= MAX_TRIAL_FLOP


def lowest_start(objective: PenalisedLikelihood, begin: Parameters, facts: Shard, random_state: int) -> Parameters:
    """Of `begin` and a few random starts with its bias, the one with the lowest objective after `TRIAL_STEPS` steps."""
    search = LbfgsSearch(objective, backend=objective.backend, workers=objective.workers)
    layout, backend = objective.layout, objective.backend
    lowest, value = begin, np.inf
    for start in (begin, *_random_starts(layout, begin.b, facts, random_state)):
        reached = _after_trial(search, backend.from_numpy(layout.pack(*start, backend.dtype)))
        if not np.isfinite(value) or reached < value - MIN_GAIN * abs(value):
            lowest, value = start, reached
    return lowest


def _random_starts(layout: Layout, b: Vector, facts: Shard, random_state: int) -> Iterator[Parameters]:
    for trial in range(RANDOM_STARTS):
        yield Parameters(*init.normal(facts, layout.r, [random_state, trial], layout.structure), b)


def _after_trial(search: LbfgsSearch, x: Vector) -> float:
    state = search.start(x)
    before = state.objective
    for step in range(1, TRIAL_STEPS + 1):
        state = search.step(state)
        if search.finished(state):
            break
        if step % search.window == 0:
            if before - state.objective < MIN_PROGRESS * abs(before):
                break
            before = state.objective
    return state.objective
