"""A search for the settings that a user would otherwise have to choose: model, rank, λ and bias.

Successive halving. Round one tries many settings with a tenth of the cells held out and few steps per fit; the best
third goes on to complete fits on two folds, the best third of those to five. Candidates follow a Halton sequence, so
they cover the space evenly however many there is time for; the defaults of every model are among the first. When time
runs out in a round, the candidates at the end of its list are left out. With `trials` there is no time limit, and the
seed alone determines the result.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..data.facts import Facts
from ..data.heldout import HeldOut
from ..errors import FitError, InputError, VanishedWarning
from ..model.factors import Factors
from ..progress import Progress, reporting
from ..random_state import RandomState, to_seed
from .cross_validation import EvaluationProtocol
from .folds import stratified_folds
from .metrics import measure
from .parallel import captured_warnings, fit_threads, n_processes, run_tasks, threads_for
from .ranking import evaluate
from .search_space import SPACES, Candidate, candidates, why_unsuitable
from .tuning_report import METRICS, NOTHING_HELD_OUT, Trial, Tuned, sign_of

N_FOLDS = 10
MAX_TRIALS = 300  # candidates of the first round: more would only select for luck
REDUCTION_FACTOR = 3  # one candidate in 3 goes on to the next round
VANISHED = "the factors shrank to zero"
NOT_TRIED = "no setting was tried to the end"


class Round(NamedTuple):
    """One round of successive halving."""

    folds: int  # held out one after the other
    complete: bool  # fits run until they converge
    time_share: float  # the fraction of the time by which the round ends


ROUNDS = (Round(1, False, 0.35), Round(2, True, 0.7), Round(5, True, 0.95))


def tune(
    facts: Facts,
    time: float = 120.0,
    *,
    metric: str = "auc_pr",
    models: Sequence[str] | None = None,
    validation: Facts | HeldOut | None = None,
    trials: int | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    progress: bool | Progress | None = None,
    fit: bool = True,
) -> Tuned:
    """Choose model, rank, λ and bias on held-out cells, then fit the choice to all facts.

    Ctrl-C ends the search: the best so far is fitted, and `stopped` is true.

    Parameters
    ----------
    time : seconds for search and fit together; part of it is reserved for the fit, which is not interrupted
    metric : "auc_pr", "log_loss", or "mrr" of held-out facts among all entities (filtered)
    models : some of "logit", "als", "categorical" (pairs have at most one relation), "softmax" (for "mrr"); None:
        all that suit the facts and the metric
    validation : facts or cells to measure on, over the same vocabulary; None: tenths of the cells, masked in the fit
        (mirrored cells of symmetric relations together; facts and sampled zeros where there are very many cells; for
        "mrr" the facts alone, which then count as false, as in the usual benchmarks)
    trials : the number of settings to begin with; there is then no time limit, and the seed determines the result
    n_jobs : processes; None chooses
    progress : True for a bar, or a function called with (done, total, note)
    fit : False leaves out the fit to all facts, which `Tuned.fit` then does

    >>> import relatent
    >>> found = relatent.tune(relatent.load_dataset("kinships"), trials=1, models=["als"], n_jobs=1)
    >>> found.chosen_candidate.model, found.factors_.rank > 0
    ('als', True)
    """
    began, seed = clock.time(), to_seed(random_state)
    chosen_models = models_to_try(facts, time, metric, models, trials)
    judge = _make_judge(facts, metric, validation, seed)
    sequence = candidates(facts, chosen_models, seed)
    started = [Trial(candidate) for candidate in itertools.islice(sequence, trials or MAX_TRIALS)]
    jobs = n_processes(n_jobs, facts)
    stopped = False
    with reporting(progress, "searching", at_most=True) as report:
        state = _SearchState(started, metric, began, None if trials else time, report)
        try:
            for number in range(1, len(ROUNDS) + 1):
                if judge.n_folds >= 1 and (number < 3 or judge.n_folds > ROUNDS[1].folds):
                    _run_round(number, state, judge, seed, jobs)
        except KeyboardInterrupt:
            stopped = True
    protocol = judge.protocol(max(len(trial.scores) for trial in started))
    found = Tuned(state.ranked(), metric, protocol, seed, clock.time() - began, stopped)
    return found.fit(facts) if fit else found


def models_to_try(
    facts: Facts, time: float, metric: str, models: Sequence[str] | None, trials: int | None
) -> list[str]:
    """Check the arguments of `tune` and return the models to try."""
    if not isinstance(facts, Facts):
        raise InputError(f"tune takes Facts, got {type(facts).__name__}; see relatent.read and Facts.from_arrays")
    if not len(facts):
        raise InputError("there are no facts to learn from")
    if metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not time > 0:
        raise InputError(f"time must be a number of seconds above 0, got {time!r}")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise InputError(f"trials must be a whole number of at least 1, got {trials!r}")
    for model in models or ():
        if model not in SPACES:
            raise InputError(f"models must be among {', '.join(SPACES)}, got {model!r}")
        if reason := why_unsuitable(model, facts, metric, requested=True):
            raise InputError(f"{model} cannot be tried: {reason}")
    suitable = [model for model in SPACES if not why_unsuitable(model, facts, metric, requested=False)]
    return list(dict.fromkeys(models or suitable))


# --- held-out data


@dataclass(frozen=True)
class _Judge:
    """The held-out folds, and the training facts that belong to each."""

    facts: Facts
    metric: str
    folds: tuple[HeldOut, ...]
    is_validation: bool  # the user's validation data, which is not among the facts

    @property
    def n_folds(self) -> int:
        return len(self.folds)

    def protocol(self, n_used: int) -> str:
        """How settings were measured, with at most so many folds each."""
        if not self.folds:
            return NOTHING_HELD_OUT
        if not n_used:
            return NOT_TRIED
        if self.is_validation:
            return "measured on validation data"
        prefix = f"{'up to ' if n_used > 1 else ''}{n_used} of {self.n_folds} folds of the"
        if self.metric == "mrr":
            return f"{prefix} facts held out"
        sampled = ", zeros sampled and re-weighted" if self.folds[0].weights is not None else ""
        return f"{prefix} cells held out, masked{sampled}"

    def training(self, fold: int) -> Facts:
        if self.is_validation:
            return self.facts
        protocol = EvaluationProtocol(self.facts, masked=self.metric != "mrr", scores="raw", with_mirrors=True)
        return protocol.training([self.folds[fold]])

    def score(self, factors: Factors, fold: int) -> float:
        """The metric on a fold, in its own direction."""
        heldout = self.folds[fold]
        if self.metric == "mrr":
            test = heldout.facts(self.facts)
            return evaluate(factors, test, known=[self.facts, test]).mrr if len(test) else float("nan")
        theta = np.asarray(factors.score(*heldout.cells.T), np.float64)
        probabilities = np.asarray(factors.link.probability(theta), np.float64)
        return float(getattr(measure(heldout.truth, theta, probabilities, heldout.weights), self.metric))


def _make_judge(facts: Facts, metric: str, validation: Facts | HeldOut | None, random_state: int) -> _Judge:
    if validation is not None:
        return _Judge(facts, metric, (HeldOut.of(validation, facts, random_state),), is_validation=True)
    folds = stratified_folds(facts, N_FOLDS, random_state, facts_only=metric == "mrr")
    return _Judge(facts, metric, tuple(folds), is_validation=False)


# --- rounds


@dataclass
class _SearchState:
    """All trials, the clock and the progress callback."""

    trials: list[Trial]
    metric: str
    began: float
    time: float | None
    progress: Progress
    n_fits: int = 0

    def deadline(self, time_share: float, reserved: float = 0.0) -> float | None:
        return None if self.time is None else self.began + max(0.0, min(time_share * self.time, self.time - reserved))

    def ranked(self) -> list[Trial]:
        """The last round first, then the best score; trials without a score last, in the order of the candidates."""
        judged = [trial for trial in self.trials if trial.judged]
        others = [trial for trial in self.trials if not trial.judged]
        return sorted(judged, key=lambda trial: (-trial.round, -sign_of(self.metric) * trial.score)) + others

    def report_fit(self) -> None:
        self.n_fits += 1
        best = self.ranked()[0]
        note = f"{self.n_fits} fits" + (f", best {best.candidate}: {best.score:.4f}" if best.judged else "")
        if self.time is None:
            self.progress(self.n_fits, _max_fits(len(self.trials)), note)
        else:
            self.progress(min(int(clock.time() - self.began), int(self.time)), max(1, int(self.time)), note)


def _max_fits(n: int) -> int:
    """The number of fits that n candidates lead to, at most."""
    second = -(-n // REDUCTION_FACTOR)
    return n + second * ROUNDS[1].folds + -(-second // REDUCTION_FACTOR) * (ROUNDS[2].folds - ROUNDS[1].folds)


def _run_round(number: int, state: _SearchState, judge: _Judge, random_state: int, jobs: int) -> None:
    """Fit the candidates that reached this round on the held-out folds that they have no score for."""
    round_ = ROUNDS[number - 1]
    n_folds = min(round_.folds, judge.n_folds)
    entered = [trial for trial in state.ranked() if trial.round == number - 1 and (number == 1 or trial.judged)]
    kept = len(entered) if number == 1 else -(-len(entered) // REDUCTION_FACTOR)
    # The settings of a fit without options stay in every round: its whole fit competes with the others' whole fits.
    trials = entered[:kept] + [trial for trial in entered[kept:] if trial is state.trials[0]]
    longest = max((trial.longest for trial in trials), default=0.0)
    deadline = state.deadline(round_.time_share, reserved=1.5 * longest if number == len(ROUNDS) else 0.0)
    # The scores of complete fits count on in the next round; round one runs few steps, so its scores do not.
    scores = [dict(trial.scores) if number > 2 else {} for trial in trials]
    tasks = [(place, fold) for place in range(len(trials)) for fold in range(n_folds) if fold not in scores[place]]
    calls = (
        (place, fold, trials[place].candidate, round_.complete, judge, random_state, deadline) for place, fold in tasks
    )
    for place, fold, outcome in run_tasks(_try, calls, min(jobs, max(1, len(tasks))), in_order=False):
        if outcome is None:
            continue
        trial = trials[place]
        trial.seconds += outcome.seconds
        trial.longest = max(trial.longest, outcome.seconds)
        trial.note = outcome.note or trial.note
        scores[place][fold] = outcome.score
        if len(scores[place]) == n_folds:
            trial.round, trial.scores = number, dict(sorted(scores[place].items()))
        state.report_fit()


class TrialOutcome(NamedTuple):
    """The result of one fit."""

    score: float
    seconds: float
    note: str  # what went wrong


class _OutOfTimeError(Exception):
    """Raised during a fit when its time is over."""


def _try(
    place: int,
    fold: int,
    candidate: Candidate,
    complete: bool,
    judge: _Judge,
    random_state: int,
    deadline: float | None,
) -> tuple[int, int, TrialOutcome | None]:
    """One fit and its score on a fold; None if time ran out before it ended."""
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the process that started this one
    started = clock.time()

    def check_time(*_: Any) -> None:
        if deadline is not None and clock.time() > deadline:
            raise _OutOfTimeError

    estimator = candidate.estimator(random_state)
    if not complete:
        steps = SPACES[candidate.model].first_round_steps
        estimator.set_params(max_iter=min(candidate.settings.get("max_iter", steps), steps))
    try:
        check_time()
        with captured_warnings() as categories, fit_threads(threads_for(judge.facts)):
            estimator.fit(judge.training(fold), progress=check_time)
            score, note = judge.score(estimator.factors_, fold), ""
        if judge.metric != "log_loss" and any(issubclass(category, VanishedWarning) for category in categories):
            score, note = float("nan"), VANISHED  # a constant, whose ties the trapezoid would reward
    except _OutOfTimeError:
        return place, fold, None
    except (FitError, InputError, MemoryError) as problem:  # these settings do not work; others may
        score, note = float("nan"), " ".join(str(problem).split())
    return place, fold, TrialOutcome(score, clock.time() - started, note)
