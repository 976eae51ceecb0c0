"""A search for the settings that a user would otherwise have to choose: model, rank, penalty, structure and bias.

Successive halving. Round one tries many settings with a tenth of the cells held out and few steps per fit; the best
third goes on to complete fits on two folds, the best third of those to five. The settings of a fit without options are
in every round of complete fits, and are replaced only by settings that are better by more than noise. Candidates follow
a Halton sequence, so they cover the space evenly however many there is time for.

On validation data, which is a single fold, the third round is a local search: complete fits around the best one, each
with one change, and on from there if it is better (`refinement`).

In the end the best fit competes with its sums with one or two others (`tuning_sum`).

With a time limit the fit without options to all facts comes first: it is the result unless the search finds better
settings in time, and it tells how long complete fits take. With `trials` there is no time limit, and the seed alone
determines the result.
"""

from __future__ import annotations

import itertools
import time as clock
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from ..data.facts import Facts
from ..data.heldout import HeldOut
from ..data.read.read import read_if_table
from ..fit import calibration
from ..fit.automatic_settings import HELDOUT_ROUNDS
from ..fit.estimators.base import Estimator
from ..fit.estimators.summed import Summed
from ..model.factors import Factors
from ..progress import Progress, reporting
from ..random_state import RandomState, to_seed
from .model_names import stored_estimator
from .neighbours import Neighbour, kind_of
from .parallel import n_processes, run_tasks, threads_for
from .refinement import FITS_AT_ONCE, MIN_SCHEDULE_SHARE, JudgedNeighbour, LocalSearch, climb, n_refined
from .search_space import candidates
from .trial_fit import FitTimer, TrialOutcome, TrialTask, compile_time, fit_in_time, has_schedule, run_trial
from .tuning_arguments import default_metric, models_to_try
from .tuning_judge import Judge
from .tuning_report import REFIT_MARGIN, Trial, Tuned, sign_of
from .tuning_rounds import ROUNDS, Round, max_fits, n_entering, round_ends
from .tuning_sum import MAX_MEMBERS, MAX_POOL, best_sum

MAX_TRIALS = 300  # candidates of the first round: more would only select for luck
MIN_SECONDS_PROCESSES = 60.0  # a shorter search runs in one process: to start others takes several seconds
MIN_COMPLETE_SHARE = 0.6  # of the seconds of a complete fit that must be left to start one
SUMS_JUDGED, SUMS_SHARE = 14, 0.1  # of fits on validation data: scores computed for all; share of the time, at most
MIN_HELDOUT_SHARE = 0.5  # of the time of the fits without held-out facts, below which they are left out
SLOW_SHARE = 0.1  # of the time, from which on the fit without options is slow


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
    calibrate: bool = True,
    device: str = "cpu",
) -> Tuned:
    """Choose model, rank, penalty and bias on held-out cells, and fit the choice to all facts.

    In the end the best fit competes with its sums with one or two others (`combine`): a sum is the choice if it is
    better by more than noise, and if there is time to fit its parts.

    Ctrl-C ends the search: the best so far is fitted, and `stopped` is true. A second Ctrl-C ends that fit.

    Parameters
    ----------
    time : seconds for search, fit and probabilities together. If they do not suffice for a fit without options, it
        gets fewer steps. Compiling, in the first fit after an installation, does not count
    metric : "auc_pr", "log_loss", or "mrr" of held-out facts among all entities (filtered); None: "mrr" if the data is
        sparse, otherwise "auc_pr"
    models : some of "logit", "als", "categorical" (pairs have at most one relation), "softmax" (for "mrr"); None:
        all that suit the facts and the metric, "softmax" only if "mrr" is given
    validation : facts or cells to measure on, over the same vocabulary; None: tenths of the cells, masked in the fit
        (mirrored cells of symmetric relations together; facts and sampled zeros where there are very many cells; for
        "mrr" the facts alone, which then count as false, as in the usual benchmarks). With validation data the last
        half of the time is for fits near the best settings
    known : true facts, such as test facts, that are neither learned from nor measured on: with "mrr" they do not
        compete with held-out facts, as in the usual benchmarks
    trials : the number of settings to begin with; there is then no time limit, and the seed determines the result. With
        validation data a quarter as many fits near the best settings follow, at least 4 (none if `trials` is 1)
    n_jobs : processes; None chooses
    progress : True for a bar, or a function called with (done, total, note)
    fit : False leaves out the fit to all facts, which `Tuned.fit` then does
    calibrate : whether the chosen model gets probabilities of unlisted cells, from the validation data or else from
        facts that further fits do not have; where these have less than half of the time they need, nothing is learned
        from facts, and only the number of missing facts is right. Fits of the search are not calibrated
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
        search = _TuningSearch(judge, started, seed, jobs, began, None if trials else time, report, fit, calibrate)
        try:
            if fit and not trials:
                search.fit_default()
            search.run_rounds()
        except KeyboardInterrupt:
            search.stopped = True
        return search.result(fit=fit)


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
    calibrates: bool = True  # and gets probabilities
    stopped: bool = False
    n_fits: int = 0
    n_started: int = 0  # candidates of the first round
    whole_seconds: float = 0.0  # of the fit without options to all facts
    choice_seconds: float = 0.0  # of the fit of the choice to all facts
    models: dict[int, Estimator] = field(default_factory=dict)  # fitted to all facts, by the identity of their trial
    fold_models: dict[int, dict[int, Factors]] = field(default_factory=dict)  # complete fits without a fold, likewise
    score_seconds: float = 0.0  # of judging the fit without options

    def __post_init__(self) -> None:
        self.n_started = len(self.trials)

    @property
    def default(self) -> Trial:
        return self.trials[0]

    @property
    def ends(self) -> float | None:
        return None if self.time is None else self.began + self.time

    @cached_property
    def further(self) -> float:
        """The time of the fits that calibrate the choice, relative to that of its own fit."""
        judge = self.judge
        if not self.calibrates or judge.is_validation:
            return 0.0
        is_scheduled = has_schedule(self.default.candidate.estimator(self.random_state), judge.facts)
        return len(calibration.heldout_facts(judge.facts, self.random_state)) * (
            HELDOUT_ROUNDS if is_scheduled else 1.0
        )

    # --- the fit without options

    def fit_default(self) -> None:
        """The fit without options to all facts, of fewer steps if time is short; compiling does not count."""
        started, estimator = clock.monotonic(), self.default.candidate.estimator(self.random_state)
        with compile_time() as compiled:
            try:
                report, facts = self._report_step, self.judge.facts
                fitted = fit_in_time(estimator, facts, self.ends, report, further=self.further, compiled=compiled)
            finally:
                if "factors_" in vars(estimator):  # also after Ctrl-C
                    self.models[id(self.default)] = estimator
        self.began += compiled()
        self.whole_seconds = clock.monotonic() - started - compiled()
        if fitted.shortened:
            self.default.steps = estimator.n_iter_
        if self.judge.is_validation:
            began = clock.monotonic()
            outcome = TrialOutcome(self.judge.score(estimator.factors_, 0), clock.monotonic() - started)
            self.score_seconds = clock.monotonic() - began
            self._record(self.default, 3, 0, outcome)

    # --- rounds

    def run_rounds(self) -> None:
        """All rounds that there is time for."""
        if not self.judge.n_folds:
            return
        limits = self._round_limits()
        for number, limit in enumerate(limits, start=1):
            if number == 3 and self.judge.is_validation:
                self._refine(limit)
            elif number < 3 or self.judge.n_folds > ROUNDS[1].folds:
                self._run_round(number, limit)
        self._try_sums()

    def _round_limits(self) -> list[float | None]:
        """When each round ends; none if there is no time to compare complete fits and to fit the best."""
        if self.ends is None:
            return [None] * len(ROUNDS)
        again = REFIT_MARGIN * (1 + self.further) * self.whole_seconds
        reserved = again if self.refits and not self.judge.is_validation else 0.0
        comparison = self.whole_seconds * (1 if self.judge.is_validation else 2)
        now, ends = clock.monotonic(), self.ends - reserved
        if self.judge.is_validation:
            ends -= min(SUMS_JUDGED * self.score_seconds, SUMS_SHARE * max(ends - now, 0.0))
        return [*round_ends(now, ends, comparison, validation=self.judge.is_validation)]

    def _run_round(self, number: int, ends: float | None) -> None:
        """Fit the candidates that reached this round on the held-out folds that they have no score for."""
        round_ = ROUNDS[number - 1]
        trials = self._entered(number, ends)
        if number == 3 and ends is not None and self.refits and not self.judge.is_validation:
            longest = sorted((trial.longest for trial in trials), reverse=True)
            again = REFIT_MARGIN * (1 + self.further)  # the best may take longest
            now, last = clock.monotonic(), self.began + (self.time or 0.0)
            ends = min(ends, last - again * sum(longest[:1]))
            ends = min(ends, max(last - again * sum(longest[:2]), (now + ends) / 2))  # of a sum, two are fitted
        n_folds = min(round_.folds, self.judge.n_folds)
        # One fold after the other: if time runs out, trials have scores on the same folds.
        tasks = [
            (place, self._task(trial, fold, round_, ends))
            for fold in range(n_folds)
            for place, trial in enumerate(trials)
            if trial.round < 2 or fold not in trial.scores
        ]
        calls = ((*task, self.judge) for task in tasks)
        for place, fold, outcome in run_tasks(run_trial, calls, min(self.jobs, max(1, len(tasks))), in_order=False):
            if outcome is not None:
                self._record(trials[place], number, fold, outcome)

    def _task(self, trial: Trial, fold: int, round_: Round, ends: float | None) -> TrialTask:
        """A fit of a round that ends then; on validation data a complete fit that began in time may end later."""
        task = TrialTask(trial.candidate, fold, round_.complete, self.random_state, self._threads(), ends)
        if ends is None or not round_.complete:
            return task
        task = task._replace(last_start=ends - MIN_COMPLETE_SHARE * self.whole_seconds)
        if not self.judge.is_validation or trial is self.default:
            return task
        return task._replace(ends=self.ends, min_share=MIN_SCHEDULE_SHARE)

    def _entered(self, number: int, ends: float | None) -> list[Trial]:
        """The trials of a round: the best of the last one, and from the second on the defaults.

        On validation data, where a round is short, slow fits do not take the time of others: in the first round those
        like the defaults come last if these are slow, and in the second a fit that would outlast the round is left out.
        """
        others = [trial for trial in self.ranked() if trial is not self.default and trial.round == number - 1]
        short = self.judge.is_validation and ends is not None
        if number == 1:
            is_slow = short and self.whole_seconds > SLOW_SHARE * (self.time or 0.0)
            model = self.default.candidate.model
            return sorted(others, key=lambda trial: trial.candidate.model == model) if is_slow else others
        judged = [trial for trial in others if trial.judged]
        n_entered = n_entering(len(judged))
        if short and ends is not None:
            left = ends - clock.monotonic()
            judged = [trial for trial in judged if trial.complete_seconds <= left] or judged[:1]
        first = [] if self.default.note else [self.default]
        return first + judged[:n_entered]

    # --- the third round on validation data

    def _refine(self, ends: float | None) -> None:
        """Complete fits around the best one; where nothing is left to try, around the best of another kind."""
        at_once, n_fits = (FITS_AT_ONCE, n_refined(self.n_started)) if ends is None else (self.jobs, MAX_TRIALS)
        kinds: set[Hashable] = set()
        while n_fits > 0 and (start := self._next_centre(kinds)):
            kinds.add(kind_of(start.candidate, self.judge.facts))
            tried = [trial.candidate for trial in self.trials if trial.round]
            value, seconds = sign_of(self.judge.metric) * start.score, self._seconds_of(start)
            search = LocalSearch.around(self.judge.facts, start.candidate, value, seconds, tried)
            n_fits -= climb(search, partial(self._judge_neighbours, ends=ends), at_once, n_fits, ends)

    def _next_centre(self, kinds: set[Hashable]) -> Trial | None:
        """The best complete trial of a kind that was not refined yet."""
        complete = (trial for trial in self.ranked() if trial.judged and trial.round > 1 and trial.steps is None)
        return next((trial for trial in complete if kind_of(trial.candidate, self.judge.facts) not in kinds), None)

    def _seconds_of(self, trial: Trial) -> float:
        """Of a fit in one of the processes; the fit without options to all facts had all cores."""
        is_whole = trial is self.default and self.whole_seconds > 0
        return self.jobs * self.whole_seconds if is_whole else trial.longest

    def _judge_neighbours(self, batch: list[Neighbour], ends: float | None) -> list[JudgedNeighbour]:
        """Fit some neighbours of the best settings; they become trials of the third round."""
        trials = [Trial(neighbour.candidate) for neighbour in batch]
        tasks = [self._task(trial, 0, ROUNDS[2], ends)._replace(last_start=None) for trial in trials]
        calls = [(place, task, self.judge) for place, task in enumerate(tasks)]
        judged = []
        for place, fold, outcome in run_tasks(run_trial, calls, min(self.jobs, len(calls)), in_order=True):
            if outcome is not None:
                trial = trials[place]
                self.trials.append(trial)
                self._record(trial, 3, fold, outcome)
                value = sign_of(self.judge.metric) * trial.score
                judged.append(JudgedNeighbour(batch[place]._replace(candidate=trial.candidate), value, outcome.seconds))
        return judged

    # --- sums

    def _try_sums(self) -> None:
        """The best sum as a further trial, if it is better than the best fit."""
        pool = self._pool()
        if not pool or pool[0] is not self.ranked()[0]:
            return
        if self.judge.is_validation:
            of_folds = [{0: self.models[id(trial)].factors_} for trial in pool if id(trial) in self.models]
        else:
            of_folds = [self.fold_models.get(id(trial), {}) for trial in pool]
        if len(of_folds) < len(pool) or not of_folds[0]:
            return
        ends = np.inf if self.ends is None else self.ends
        found = best_sum(list(zip(pool, of_folds, strict=True)), self.judge, self._can_be_fitted, ends)
        if found is not None:
            self.trials.append(found.trial)
            if self.judge.is_validation:
                models = [self.models[id(trial)] for trial in found.members]
                self.models[id(found.trial)] = found.fitted(models, self.random_state)

    def _can_be_fitted(self, trials: list[Trial]) -> bool:
        """Whether there is time to fit the settings of some trials to all facts, where that is still to do."""
        if self.judge.is_validation or self.ends is None or not self.refits:
            return True
        expected = (1 + self.further) * sum(trial.longest for trial in trials) / self.jobs
        return self.ends - clock.monotonic() >= REFIT_MARGIN * expected

    def _pool(self) -> list[Trial]:
        """Complete fits that may be parts of a sum, best first: the best ones, and the best of other kinds."""
        complete = [trial for trial in self.ranked() if trial.judged and trial.round > 1 and trial.steps is None]
        kinds = [(trial.candidate.model, str(trial.candidate.settings.get("structure"))) for trial in complete]
        first_of_kind = [kinds.index(kind) == place for place, kind in enumerate(kinds)]
        chosen = [place for place in range(len(complete)) if place < MAX_MEMBERS or first_of_kind[place]]
        return [complete[place] for place in chosen[:MAX_POOL]]

    # --- scores

    def _threads(self) -> int | None:
        """The threads of a fit: one, so that the number of processes does not matter; a short search uses all."""
        return None if self.jobs == 1 and self.time is not None else threads_for(self.judge.facts)

    def _record(self, trial: Trial, number: int, fold: int, outcome: TrialOutcome) -> None:
        trial.seconds += outcome.seconds
        if outcome.steps is not None and (trial is self.default or trial.round >= 2):
            return  # an unfinished fit is worth less than the complete ones that it would be averaged with
        if trial.round == 1:
            trial.steps = None  # those of a short fit
        trial.record(number, fold, *outcome.score)
        trial.longest = max(trial.longest, outcome.seconds)
        trial.note = outcome.note or trial.note
        trial.steps = outcome.steps or trial.steps
        if outcome.max_iter is not None:
            trial.candidate = trial.candidate.changed(max_iter=outcome.max_iter)
        if outcome.estimator is not None:
            self.models[id(trial)] = outcome.estimator
        if outcome.factors is not None:
            self.fold_models.setdefault(id(trial), {})[fold] = outcome.factors
        self._forget_models()
        self.n_fits += 1
        best = self.ranked()[0]
        note = f"{self.n_fits} fits" + (f", best {best.candidate}: {best.score:.4f}" if best.judged else "")
        if self.time is None:
            self.progress(self.n_fits, max_fits(self.n_started, validation=self.judge.is_validation), note)
        else:
            self._report_seconds(note)

    def _forget_models(self) -> None:
        """Keep the models that may be chosen: the defaults, the best, the best that folds in, and parts of sums."""
        best = self.ranked()
        folding = next((trial for trial in best if trial.judged and trial.candidate.folds_in), self.default)
        pool = self._pool()
        kept = {id(trial) for trial in (self.default, best[0], folding, *pool)}
        self.models = {key: model for key, model in self.models.items() if key in kept}
        parts = {id(trial) for trial in pool}
        self.fold_models = {key: models for key, models in self.fold_models.items() if key in parts}

    def ranked(self) -> list[Trial]:
        """The last round first, then the best score; trials without a score last, in the order of the candidates.

        The defaults, which are in every round, count as of the last round that another trial has a score of. On
        validation data all complete fits have the same fold, so they count as of one round.
        """
        judged = [trial for trial in self.trials if trial.judged]
        most = 2 if self.judge.is_validation else 3
        last = max((min(trial.round, most) for trial in judged if trial is not self.default), default=0)
        sign = sign_of(self.judge.metric)

        def order(trial: Trial) -> tuple[float, float]:
            advantage = trial.advantage(self.default)  # on common folds
            round_ = last if trial is self.default else min(trial.round, most)
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
            calibrate=self.calibrates,
            further=self.further if self.refits else 0.0,
        )
        if fit:
            self._fit_choice(found)
            if self.calibrates and not self.stopped and not found.stopped:
                self._calibrate(found)
        return found

    def _calibrate(self, found: Tuned) -> None:
        """Probabilities of the chosen model; what an interrupt leaves has none."""
        assert found.estimator_ is not None
        factors, facts = found.factors_, self.judge.facts
        self._report_calibration(0, 1, "")
        try:
            if self.judge.is_validation and (unseen := self._unseen_facts()):
                completed = stored_estimator(factors).completed(factors, facts, self.random_state, unseen=unseen)
            elif (estimator := self._for_heldout_facts(factors)) is None:
                learned = calibration.learn(factors, facts, random_state=self.random_state)
                completed = replace(factors, R=factors.relation_matrices, calibration=learned)
            else:
                timer = FitTimer(self.ends, report=self._report_calibration)
                completed = estimator.completed(factors, facts, self.random_state, progress=timer)
        except KeyboardInterrupt:
            found.stopped = True
        else:
            found.estimator_.factors_ = completed

    def _unseen_facts(self) -> Facts:
        """The validation facts that are not among those of the fit."""
        judge = self.judge
        given = judge.folds[0].facts(judge.facts)
        return given.subset(~judge.facts.contains(given.triples))

    def _for_heldout_facts(self, factors: Factors) -> Estimator | None:
        """The estimator of the fits without held-out facts, of fewer steps if time is short; None without time."""
        estimator = stored_estimator(factors)
        if self.ends is None or not self.further:
            return estimator
        share = (self.ends - clock.monotonic()) / max(self.further * self.choice_seconds, 1e-9)
        if share < MIN_HELDOUT_SHARE:
            return None
        for part in estimator.estimators if isinstance(estimator, Summed) else [estimator]:
            if share < 1 and has_schedule(part, self.judge.facts):
                part.set_params(max_iter=max(1, int(share * part.get_params()["max_iter"])))
        return estimator

    def _fit_choice(self, found: Tuned) -> None:
        """Fit the choice to all facts, unless that is done; in place of a fit that cannot end in time, the defaults."""
        trial, default_model = found.chosen_trial, self.models.get(id(self.default))
        self.choice_seconds = self.whole_seconds
        if model := self.models.get(id(trial)):
            found.estimator_ = model
            return
        needed = f"the time left did not suffice to fit {trial.candidate} to all facts"
        began = clock.monotonic()
        left = None if self.ends is None else self.ends - began
        expected = (1 + self.further) * trial.longest / self.jobs
        if default_model is not None and left is not None and left < expected:
            found.estimator_, found.fallback = default_model, needed
            return
        ends = None
        if default_model is not None and self.ends is not None:
            ends = self.ends - self.further * self.whole_seconds  # in which the defaults could be calibrated
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
            found.estimator_, self.choice_seconds = estimator, clock.monotonic() - began

    def _report_step(self, done: int, total: int, note: str) -> None:
        text = f"fitting to all facts: {done} of at most {total} steps"
        self.progress(done, total, text) if self.time is None else self._report_seconds(text)

    def _report_calibration(self, done: int, total: int, _: str) -> None:
        text = "learning probabilities"
        self.progress(done, total, text) if self.time is None else self._report_seconds(text)

    def _report_seconds(self, note: str) -> None:
        total = int(self.time or 0)
        self.progress(min(int(clock.monotonic() - self.began), total), max(1, total), note)
