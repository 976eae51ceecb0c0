"""Fits that end in time, and the scores of one fit on a held-out fold."""

from __future__ import annotations

import multiprocessing
import signal
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from numba.core.event import TimingListener, install_listener

from ..data.facts import Facts
from ..errors import FitError, InputError, StopFitError, VanishedWarning
from ..fit.estimators.base import Estimator
from ..fit.estimators.rescal import Rescal
from ..fit.optimisers import SAMPLED_ADAM, Adam
from ..model.factors import Factors
from ..progress import Progress, silent
from .parallel import captured_warnings, fit_threads
from .search_space import Candidate
from .tuning_judge import Judge, Score

VANISHED = "the factors shrank to zero"
OUT_OF_TIME = "the time is over"
PROBE_STEPS = 4  # after which the remaining time of a fit is predicted
SHORTENING_MARGIN = 0.85  # share of the time left that a shortened fit is planned for


class TooSlowError(Exception):
    """Raised after the first steps of a fit that cannot end in time; `steps`: how many of its `total` can."""

    def __init__(self, steps: int, total: int):
        super().__init__(steps, total)
        self.steps, self.total = steps, total


class FitTimer:
    """A progress callback that ends a fit before `ends` (seconds since the epoch), keeping the model so far.

    `compiled` says how many seconds were spent on compiling, which do not count; `max_steps` ends the fit after so many
    steps. With `steps_after`, TooSlowError is raised if the time does not suffice for all steps and, for each of them,
    so many more that follow without a report.
    """

    def __init__(
        self,
        ends: float | None,
        *,
        max_steps: int | None = None,
        steps_after: float | None = None,
        report: Progress = silent,
        compiled: Callable[[], float] = lambda: 0.0,
    ):
        self.compiled = compiled
        self.ends, self.max_steps, self.steps_after, self.report = ends, max_steps, steps_after, report
        self.out_of_time, self.steps = False, 0
        self._first = 0.0

    def __call__(self, done: int, total: int, note: str) -> None:
        """Report a step; raise StopFitError if the next one would end too late."""
        now, self.steps = clock.monotonic(), done
        if done == 1:
            self._first = now
        seconds_per_step = (now - self._first) / max(1, done - 1)
        self.report(done, total, note)
        if done >= total:
            return
        if self.ends is not None:
            left = self.ends + self.compiled() - now
            if self.steps_after is not None and done == PROBE_STEPS:
                step_and_more = seconds_per_step * (1 + self.steps_after)
                if step_and_more * total - seconds_per_step * done > left:
                    raise TooSlowError(max(1, int(SHORTENING_MARGIN * left / step_and_more)), total)
            if seconds_per_step > left:
                self.out_of_time = True
                raise StopFitError(OUT_OF_TIME)
        if done == self.max_steps:
            raise StopFitError("as many steps as on held-out data")


@contextmanager
def compile_time() -> Iterator[Callable[[], float]]:
    """Count the seconds in which Numba compiles; it does so in the first fits after an installation."""
    with install_listener("numba:compile", TimingListener()) as listener:  # type: ignore[no-untyped-call]
        yield lambda: float(listener.duration) if listener.done else 0.0


class TimedFit(NamedTuple):
    """How a fit in limited time ended."""

    shortened: bool  # it was planned with fewer steps, or stopped
    out_of_time: bool  # it was stopped
    max_iter: int | None = None  # the steps that it was planned anew with


def fit_in_time(
    estimator: Estimator,
    facts: Facts,
    ends: float | None,
    report: Progress,
    *,
    max_steps: int | None = None,
    shorten: bool = True,
    min_share: float = 0.0,
    further: float = 0.0,
    compiled: Callable[[], float] = lambda: 0.0,
) -> TimedFit:
    """Fit to these facts until `ends`; a schedule that is too long begins again with fewer steps, if `shorten`.

    TooSlowError is raised if that would be a smaller share of its steps than `min_share`. `further`: time that must be
    left in the end, relative to that of the fit.
    """
    steps_after = further if shorten and has_schedule(estimator, facts) else None
    if ends is not None and steps_after is None:
        ends -= (ends - clock.monotonic()) * further / (1 + further)
    timer = FitTimer(ends, max_steps=max_steps, steps_after=steps_after, report=report, compiled=compiled)
    try:
        estimator.fit(facts, progress=timer)
    except TooSlowError as problem:
        if problem.steps < min_share * problem.total:
            raise
        estimator.set_params(max_iter=problem.steps)
        timer = FitTimer(ends, report=report, compiled=compiled)
        estimator.fit(facts, progress=timer)
        return TimedFit(True, timer.out_of_time, problem.steps)
    return TimedFit(timer.out_of_time, timer.out_of_time)


def has_schedule(estimator: Estimator, facts: Facts) -> bool:
    """Whether the learning rate of a fit falls from its first step to its last."""
    if not isinstance(estimator, Rescal) or (chosen := estimator.choose_settings(facts)) is None:
        return False
    settings = {**estimator.get_params(deep=False), **chosen.values}
    optimiser = settings["optimiser"] or (SAMPLED_ADAM if settings["method"] == "sampled" else None)
    return isinstance(optimiser, Adam)


class TrialOutcome(NamedTuple):
    """The result of one fit."""

    score: Score
    seconds: float
    note: str = ""  # what went wrong
    steps: int | None = None  # after which the time was over; None: the fit ended by itself
    estimator: Estimator | None = None  # fitted to all facts
    max_iter: int | None = None  # the steps of a schedule that was shortened for lack of time
    factors: Factors | None = None  # of a complete fit without the fold


class TrialTask(NamedTuple):
    """One fit: a candidate and the fold that is held out."""

    candidate: Candidate
    fold: int
    complete: bool  # the fit runs until it converges
    random_state: int
    threads: int | None
    ends: float | None  # seconds since the epoch
    last_start: float | None = None  # after which the fit is not started
    min_share: float | None = None  # a schedule is shortened to end in time, but not to a smaller share of its steps


def run_trial(place: int, task: TrialTask, judge: Judge) -> tuple[int, int, TrialOutcome | None]:
    """One fit and its score on a fold; None if there is no time for it. A fit that time ends is judged as it is."""
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the process that started this one
    started = clock.monotonic()
    limits = [limit for limit in (task.ends, task.last_start) if limit is not None]
    if limits and started >= min(limits):
        return place, task.fold, None
    estimator, fitted = task.candidate.estimator(task.random_state), None
    if not task.complete:
        estimator.set_params(max_iter=task.candidate.first_round_steps)
    try:
        with captured_warnings() as categories, fit_threads(task.threads):
            fitted = fit_in_time(
                estimator,
                judge.training(task.fold),
                task.ends,
                silent,
                shorten=task.min_share is not None,
                min_share=task.min_share or 0.0,
            )
            score, note = judge.score(estimator.factors_, task.fold), ""
        if judge.metric != "log_loss" and any(issubclass(category, VanishedWarning) for category in categories):
            score, note = Score(float("nan"), ()), VANISHED  # a constant, whose ties the trapezoid would reward
    except TooSlowError:
        return place, task.fold, None
    except (FitError, InputError, MemoryError) as problem:  # these settings do not work; others may
        score, note = Score(float("nan"), ()), " ".join(str(problem).split())
    steps_done = estimator.n_iter_ if fitted and fitted.out_of_time else None
    of_all_facts = estimator if judge.is_validation and task.complete and not note else None
    is_part = task.complete and not (judge.is_validation or note or steps_done)
    of_fold = replace(estimator.factors_, R=estimator.factors_.relation_matrices, facts=None) if is_part else None
    max_iter = fitted.max_iter if fitted else None
    seconds = clock.monotonic() - started
    return place, task.fold, TrialOutcome(score, seconds, note, steps_done, of_all_facts, max_iter, of_fold)
