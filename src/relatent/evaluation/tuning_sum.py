"""The last step of `tune`: whether the sum of the best fits is better than the best of them.

Members are chosen greedily (Caruana et al. 2004): the best fit, then whichever of the others the mean score gains most
by, while it gains. Fits that `tune` has made to the same facts are added, so that nothing is fitted for it. Scores are
added with equal weights that sum to 1, so that the sum stays on the scale of its parts.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import FitError, InputError
from ..fit.estimators.base import Estimator
from ..fit.estimators.summed import equal_weights
from ..model.direct_sum import direct_sum
from ..model.factors import Factors
from .search_space import Candidate
from .tuning_judge import Judge
from .tuning_report import Trial, noise, sign_of

MAX_MEMBERS = 3  # of a sum: its memory, its file and its fit to all facts are those of all its members
MAX_POOL = 5  # fits that are tried as members

FoldFactors = Mapping[int, Factors]  # fold → the model that was fitted without it


class BestSum(NamedTuple):
    """The trial of a sum, and the trials of its members."""

    trial: Trial
    members: list[Trial]

    def fitted(self, models: Sequence[Estimator], random_state: int) -> Estimator:
        """The estimator of the sum with the models of its members, which are fitted."""
        made = self.trial.candidate.estimator(random_state)
        weights = equal_weights(len(models))
        made.factors_ = direct_sum([model.factors_ for model in models], weights)
        made.n_iter_ = sum(model.n_iter_ for model in models)
        return made


def best_sum(
    pool: Sequence[tuple[Trial, FoldFactors]], judge: Judge, is_affordable: Callable[[list[Trial]], bool], ends: float
) -> BestSum | None:
    """The best sum of complete fits, the first of which is the best; None if no sum is better than it by more than
    noise, however many sums were judged. Until `ends` further members are tried.
    """
    search = _SumSearch(pool, judge)
    best, members = pool[0][0], [0]
    while len(members) < MAX_MEMBERS:
        found: tuple[Trial, int] | None = None
        for other in range(1, len(pool)):
            if other in members or not is_affordable([pool[place][0] for place in (*members, other)]):
                continue
            if clock.monotonic() >= ends:
                break
            trial = search.judged([*members, other])
            if trial is not None and search.gain(trial, found[0] if found else best) > 0:
                found = trial, other
        if found is None:
            break
        best = found[0]
        members.append(found[1])
    if len(members) == 1 or not search.gain(best, pool[0][0]) > noise(best, pool[0][0], search.n_judged):
        return None
    return BestSum(best, [pool[place][0] for place in members])


class _SumSearch:
    """Sums of some fits, judged by the folds that the best of them has."""

    def __init__(self, pool: Sequence[tuple[Trial, FoldFactors]], judge: Judge):
        self.pool, self.judge, self.n_judged = pool, judge, 0

    def gain(self, trial: Trial, other: Trial) -> float:
        """How much better a trial is, on the folds that both have."""
        return sign_of(self.judge.metric) * trial.advantage(other)

    def judged(self, places: Sequence[int]) -> Trial | None:
        """The trial of a sum; None if its scores cannot be added or measured."""
        trials, models = zip(*(self.pool[place] for place in places), strict=True)
        found, began = Trial(Candidate.sum_of([trial.candidate for trial in trials])), clock.monotonic()
        for fold in self.pool[0][1]:
            if any(fold not in of_folds for of_folds in models):
                return None
            try:
                factors = direct_sum([of_folds[fold] for of_folds in models], equal_weights(len(models)))
                value, parts = self.judge.score(factors, fold)
            except (InputError, FitError, MemoryError):
                return None
            if np.isnan(value):
                return None
            found.record(3, fold, value, parts)
        self.n_judged += 1
        found.seconds = clock.monotonic() - began
        found.longest = sum(trial.longest for trial in trials)
        return found
