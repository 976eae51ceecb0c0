"""A search for the settings that a user would otherwise have to choose: model, rank, penalty, structure and bias.

Successive halving. Round one tries many settings with a tenth of the cells held out and few steps per fit; the best
third goes on to complete fits on two folds, the best third of those to five. The settings of a fit without options are
in every round of complete fits, and are replaced only by settings that are better by more than noise. Candidates follow
a Halton sequence, so they cover the space evenly however many there is time for.

With a time limit the fit without options to all facts comes first: it is the result unless the search finds better
settings in time, and it tells how long complete fits take. With `trials` there is no time limit, and the seed alone
determines the result.
"""

from __future__ import annotations

import itertools
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..data.facts import Facts
from ..data.heldout import HeldOut
from ..data.read.read import read_if_table
from ..errors import InputError
from ..fit.automatic_settings import DataSummary
from ..fit.estimators.base import Estimator
from ..progress import Progress, reporting
from ..random_state import RandomState, to_seed
from .parallel import n_processes, run_tasks, threads_for
from .search_space import SPACES, candidates, why_unsuitable
from .trial_fit import TrialOutcome, TrialTask, compile_time, fit_in_time, run_trial
from .tuning_judge import Judge
from .tuning_report import METRICS, Trial, Tuned, sign_of

MAX_TRIALS = 300  # candidates of the first round: more would only select for luck
REDUCTION_FACTOR = 3  # one candidate in 3 goes on to the next round
MIN_SECONDS_PROCESSES = 60.0  # a shorter search runs in one process: to start others takes several seconds
REFIT_MARGIN = 1.25  # seconds reserved for the last fit, relative to those of the fit without options
MIN_COMPLETE_SHARE = 0.6  # of the seconds of a complete fit that must be left to start one


class Round(NamedTuple):
    """One round of successive halving."""

    folds: int  # held out one after the other
    complete: bool  # fits run until they converge
    time_share: float  # the fraction of the search time by which the round ends


ROUNDS = (Round(1, False, 0.35), Round(2, True, 0.75), Round(5, True, 1.0))


def tune(
    facts: Facts,
    time: float = 120.0,
    *,
    metric: str | None = None,
    models: Sequence[str] | None = None,
    validation: Facts | HeldOut | None = None,
    known: Facts | Sequence[Facts] = (),
    trials: int | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    progress: bool | Progress | None = None,
    fit: bool = True,
    device: str = "cpu",
) -> Tuned:
    """Choose model, rank, penalty and bias on held-out cells, and fit the choice to all facts.

    Ctrl-C ends the search: the best so far is fitted, and `stopped` is true. A second Ctrl-C ends that fit.

    Parameters
    ----------
    time : seconds for search and fit together. If they do not suffice for a fit without options, it gets fewer steps.
        Compiling, in the first fit after an installation, does not count
    metric : "auc_pr", "log_loss", or "mrr" of held-out facts among all entities (filtered); None: "mrr" if the data is
        sparse, otherwise "auc_pr"
    models : some of "logit", "als", "categorical" (pairs have at most one relation), "softmax" (for "mrr"); None:
        all that suit the facts and the metric, "softmax" only if "mrr" is given
    validation : facts or cells to measure on, over the same vocabulary; None: tenths of the cells, masked in the fit
        (mirrored cells of symmetric relations together; facts and sampled zeros where there are very many cells; for
        "mrr" the facts alone, which then count as false, as in the usual benchmarks)
    known : true facts, such as test facts, that are neither learned from nor measured on: with "mrr" they do not
        compete with held-out facts, as in the usual benchmarks
    trials : the number of settings to begin with; there is then no time limit, and the seed determines the result
    n_jobs : processes; None chooses
    progress : True for a bar, or a function called with (done, total, note)
    fit : False leaves out the fit to all facts, which `Tuned.fit` then does
    device : "cpu", or "cuda" for fits on a GPU, one after the other; "softmax" is then tried with more structures

    >>> import relatent
    >>> found = relatent.tune(relatent.load_dataset("kinships"), trials=1, models=["als"], n_jobs=1)
    >>> found.chosen_candidate.model, found.factors_.rank > 0
    ('als', True)
    """
    began, seed = clock.monotonic(), to_seed(random_state)
    facts = read_if_table(facts)
    chosen_models = models_to_try(facts, time, metric, models, trials, device)
    metric = metric or default_metric(facts)
    known = read_if_table(known)
    judge = Judge.of(facts, metric, validation, seed, [known] if isinstance(known, Facts) else known)
    sequence = candidates(facts, chosen_models, seed, device)
    started = [Trial(candidate) for candidate in itertools.islice(sequence, trials or MAX_TRIALS)]
    one_process = device != "cpu" or (n_jobs is None and not trials and time < MIN_SECONDS_PROCESSES)
    jobs = 1 if one_process else n_processes(n_jobs, facts)
    with reporting(progress, "searching", at_most=True) as report:
        search = _TuningSearch(judge, started, seed, jobs, began, None if trials else time, report, refits=fit)
        try:
            if fit and not trials:
                search.fit_default()
            search.run_rounds()
        except KeyboardInterrupt:
            search.stopped = True
        return search.result(fit=fit)


def default_metric(facts: Facts) -> str:
    """The metric that users compare: of sparse data the rank of the right answer, of dense data all cells."""
    return "mrr" if DataSummary.of(facts).is_sparse else "auc_pr"


def models_to_try(
    facts: Facts,
    time: float,
    metric: str | None,
    models: Sequence[str] | None,
    trials: int | None,
    device: str = "cpu",
) -> list[str]:
    """Check the arguments of `tune` and return the models to try."""
    if not isinstance(facts, Facts):
        raise InputError(f"tune takes Facts, got {type(facts).__name__}; see relatent.read and Facts.from_arrays")
    if not len(facts):
        raise InputError("there are no facts to learn from")
    if metric is not None and metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not time > 0:
        raise InputError(f"time must be a number of seconds above 0, got {time!r}")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise InputError(f"trials must be a whole number of at least 1, got {trials!r}")
    for model in models or ():
        if model not in SPACES:
            raise InputError(f"models must be among {', '.join(SPACES)}, got {model!r}")
        if reason := why_unsuitable(model, facts, metric or default_metric(facts), requested=True, device=device):
            raise InputError(f"{model} cannot be tried: {reason}")
    suitable = [
        model for model in SPACES if not why_unsuitable(model, facts, metric or "", requested=False, device=device)
    ]
    return list(dict.fromkeys(models or suitable))


@dataclass
class _TuningSearch:
    """All trials and models, the clock and the progress callback."""

    judge: Judge
    trials: list[Trial]  # the first one has the settings of a fit without options
    random_state: int
    jobs: int
    began: float
    time: float | None
    progress: Progress
    refits: bool  # the choice is fitted to all facts in the end
    stopped: bool = False
    n_fits: int = 0
    whole_seconds: float = 0.0  # of the fit without options to all facts
    models: dict[int, Estimator] = field(default_factory=dict)  # fitted to all facts, by the identity of their trial

    @property
    def default(self) -> Trial:
        return self.trials[0]

    @property
    def ends(self) -> float | None:
        return None if self.time is None else self.began + self.time

    # --- the fit without options

    def fit_default(self) -> None:
        """The fit without options to all facts, of fewer steps if time is short; compiling does not count."""
        started, estimator = clock.monotonic(), self.default.candidate.estimator(self.random_state)
        with compile_time() as compiled:
            try:
                fitted = fit_in_time(estimator, self.judge.facts, self.ends, self._report_step, compiled=compiled)
            finally:
                if "factors_" in vars(estimator):  # also after Ctrl-C
                    self.models[id(self.default)] = estimator
        self.began += compiled()
        self.whole_seconds = clock.monotonic() - started - compiled()
        if fitted.shortened:
            self.default.steps = estimator.n_iter_
        if self.judge.is_validation:
            outcome = TrialOutcome(self.judge.score(estimator.factors_, 0), clock.monotonic() - started)
            self._record(self.default, 3, 0, outcome)

    # --- rounds

    def run_rounds(self) -> None:
        """All rounds that there is time for."""
        if not self.judge.n_folds:
            return
        limits = self._round_limits()
        for number, round_ends in enumerate(limits, start=1):
            if number < 3 or self.judge.n_folds > ROUNDS[1].folds:
                self._run_round(number, round_ends)

    def _round_limits(self) -> list[float | None]:
        """When each round ends; none if there is no time to compare complete fits and to fit the best."""
        if self.ends is None:
            return [None] * len(ROUNDS)
        now, reserved = clock.monotonic(), 0.0
        if self.refits and not self.judge.is_validation:
            reserved = REFIT_MARGIN * self.whole_seconds
        window = self.ends - reserved - now
        comparison = self.whole_seconds * (1 if self.judge.is_validation else 2)
        if window < 1.2 * comparison or window <= 0:
            return []
        shares = [now + round_.time_share * window for round_ in ROUNDS]
        if self.judge.is_validation:  # there is one fold, so the second round is the last
            shares[1] = now + window
        shares[0] = min(shares[0], now + window - 1.1 * comparison)
        shares[1] = max(shares[1], shares[0] + 1.1 * comparison)
        return [min(end, now + window) for end in shares]

    def _run_round(self, number: int, ends: float | None) -> None:
        """Fit the candidates that reached this round on the held-out folds that they have no score for."""
        round_ = ROUNDS[number - 1]
        trials = self._entered(number)
        if number == 3 and ends is not None and self.refits and not self.judge.is_validation:
            longest = max(trial.longest for trial in trials) if trials else 0.0
            ends = min(ends, self.began + (self.time or 0.0) - REFIT_MARGIN * longest)  # the best may take longest
        n_folds = min(round_.folds, self.judge.n_folds)
        min_seconds = MIN_COMPLETE_SHARE * self.whole_seconds if round_.complete else 0.0
        # One fold after the other: if time runs out, trials have scores on the same folds.
        tasks = [
            (
                place,
                TrialTask(
                    trial.candidate, fold, round_.complete, self.random_state, self._threads(), ends, min_seconds
                ),
            )
            for fold in range(n_folds)
            for place, trial in enumerate(trials)
            if trial.round < 2 or fold not in trial.scores
        ]
        calls = ((*task, self.judge) for task in tasks)
        for place, fold, outcome in run_tasks(run_trial, calls, min(self.jobs, max(1, len(tasks))), in_order=False):
            if outcome is not None:
                self._record(trials[place], number, fold, outcome)

    def _entered(self, number: int) -> list[Trial]:
        """The trials of a round: the best of the last one, and from the second on the defaults."""
        others = [trial for trial in self.ranked() if trial is not self.default and trial.round == number - 1]
        if number == 1:
            return others
        judged = [trial for trial in others if trial.judged]
        first = [] if self.default.note else [self.default]
        return first + judged[: -(-len(judged) // REDUCTION_FACTOR)]

    def _threads(self) -> int | None:
        """The threads of a fit: one, so that the number of processes does not matter; a short search uses all."""
        return None if self.jobs == 1 and self.time is not None else threads_for(self.judge.facts)

    def _record(self, trial: Trial, number: int, fold: int, outcome: TrialOutcome) -> None:
        trial.seconds += outcome.seconds
        if outcome.steps is not None and (trial is self.default or trial.round >= 2):
            return  # an unfinished fit is worth less than the complete ones that it would be averaged with
        trial.record(number, fold, *outcome.score)
        trial.longest = max(trial.longest, outcome.seconds)
        trial.note = outcome.note or trial.note
        trial.steps = outcome.steps or trial.steps
        if outcome.estimator is not None:
            self.models[id(trial)] = outcome.estimator
            kept = {id(self.default), id(self.ranked()[0])}
            self.models = {key: model for key, model in self.models.items() if key in kept}
        self.n_fits += 1
        best = self.ranked()[0]
        note = f"{self.n_fits} fits" + (f", best {best.candidate}: {best.score:.4f}" if best.judged else "")
        if self.time is None:
            self.progress(self.n_fits, _max_fits(len(self.trials)), note)
        else:
            self._report_seconds(note)

    def ranked(self) -> list[Trial]:
        """The last round first, then the best score; trials without a score last, in the order of the candidates.

        The defaults, which are in every round, count as of the last round that another trial has a score of.
        """
        judged = [trial for trial in self.trials if trial.judged]
        last = max((trial.round for trial in judged if trial is not self.default), default=0)
        sign = sign_of(self.judge.metric)

        def order(trial: Trial) -> tuple[float, float]:
            advantage = trial.advantage(self.default)  # on common folds
            round_ = last if trial is self.default else trial.round
            return -round_, -sign * (trial.score if np.isnan(advantage) else advantage)

        return sorted(judged, key=order) + [trial for trial in self.trials if not trial.judged]

    # --- the result

    def result(self, *, fit: bool) -> Tuned:
        """The trials, best first, and the model of the chosen one."""
        protocol = self.judge.protocol(max(len(trial.scores) for trial in self.trials))
        seconds = clock.monotonic() - self.began
        found = Tuned(
            self.ranked(),
            self.judge.metric,
            protocol,
            self.random_state,
            seconds,
            self.stopped,
            default=self.default,
            by_validation=self.judge.is_validation,
        )
        if fit:
            self._fit_choice(found)
        return found

    def _fit_choice(self, found: Tuned) -> None:
        """Fit the choice to all facts, unless that is done; in place of a fit that cannot end in time, the defaults."""
        trial, default_model = found.chosen_trial, self.models.get(id(self.default))
        if model := self.models.get(id(trial)):
            found.estimator_ = model
            return
        needed = f"the time left did not suffice to fit {trial.candidate} to all facts"
        left = None if self.ends is None else self.ends - clock.monotonic()
        if default_model is not None and left is not None and left < trial.longest / self.jobs:
            found.estimator_, found.fallback = default_model, needed
            return
        ends = self.ends if default_model is not None else None
        estimator = trial.candidate.estimator(self.random_state)
        try:
            fitted = fit_in_time(
                estimator, self.judge.facts, ends, self._report_step, max_steps=trial.steps, shorten=False
            )
        except KeyboardInterrupt:
            if "factors_" not in vars(estimator) and default_model is None:
                raise
            found.stopped, fitted = True, None
        if default_model is not None and (fitted is None or fitted.out_of_time):
            found.estimator_, found.fallback = default_model, needed
        else:
            found.estimator_ = estimator

    def _report_step(self, done: int, total: int, note: str) -> None:
        text = f"fitting to all facts: {done} of at most {total} steps"
        self.progress(done, total, text) if self.time is None else self._report_seconds(text)

    def _report_seconds(self, note: str) -> None:
        total = int(self.time or 0)
        self.progress(min(int(clock.monotonic() - self.began), total), max(1, total), note)


def _max_fits(n: int) -> int:
    """The number of fits that n candidates lead to, at most."""
    second = -(-(n - 1) // REDUCTION_FACTOR)
    third = -(-second // REDUCTION_FACTOR)
    return n - 1 + (second + 1) * ROUNDS[1].folds + (third + 1) * (ROUNDS[2].folds - ROUNDS[1].folds)
