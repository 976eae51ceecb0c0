"""The result of a search for settings: each trial with its scores, and why one of them was chosen."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from ..data.facts import Facts
from ..errors import InputError
from ..fit.estimators.base import Estimator
from ..json_values import to_json_object
from ..model.factors import Factors
from ..progress import Progress, reporting
from ..result_tables import Result, html_table
from .search_space import FOLD_IN_MODELS, Candidate

METRICS = {"auc_pr": "AUC-PR", "log_loss": "log loss", "mrr": "filtered MRR"}
NOTHING_HELD_OUT = "there are too few facts to hold any out"
ERROR_RATE = 0.05  # probability that a setting no better than the defaults is chosen, over all settings together
REFIT_MARGIN = 1.25  # seconds reserved for the last fit, relative to those of the fit without options
FITS_TO_COMPARE = 5  # the time of so many complete fits: of the defaults, two comparisons on two folds, the best again
ONE_KIND = "held-out folds need true and false cells"


def sign_of(metric: str) -> int:
    """1 if larger is better, −1 if smaller is."""
    return -1 if metric == "log_loss" else 1


@dataclass(repr=False)
class Trial(Result):
    """Settings and their scores on held-out folds.

    >>> trial = Trial(Candidate("als", {"rank": 5}), round=2, scores={0: 0.5, 1: 0.75})
    >>> trial.score, trial.to_dict()["folds"]
    (0.625, 2)
    """

    candidate: Candidate
    round: int = 0  # the last round it completed, from 1 (from 2 on by complete fits); 0: none, for lack of time
    scores: dict[int, float] = field(default_factory=dict)  # fold → score, in that round
    seconds: float = 0.0  # of all its fits
    longest: float = 0.0  # seconds of its longest fit
    note: str = ""  # what went wrong
    parts: dict[int, tuple[float, ...]] = field(default_factory=dict)  # fold → scores of parts of the fold
    steps: int | None = None  # after which the time was over in a fit; None: the fits ended by themselves

    @property
    def score(self) -> float:
        """The mean score over folds; NaN if no fold has one."""
        return float(np.mean(self._finite_scores)) if self._finite_scores else float("nan")

    @property
    def spread(self) -> float:
        """The standard deviation over folds; NaN if there is only one."""
        return float(np.std(self._finite_scores)) if len(self._finite_scores) > 1 else float("nan")

    @property
    def complete_seconds(self) -> float:
        """The seconds that a complete fit would take, from those of a short one."""
        complete = self.candidate.settings.get("max_iter")
        return self.longest * (complete / self.candidate.first_round_steps if complete and self.round == 1 else 1.0)

    @property
    def judged(self) -> bool:
        """Whether the trial has a score that can be compared."""
        return self.round > 0 and not self.note and not np.isnan(self.score)

    def record(self, round: int, fold: int, value: float, parts: tuple[float, ...]) -> None:
        """Add the score of a fold; those of the first round, whose fits have few steps, do not count on."""
        if self.round < min(round, 2):
            self.scores, self.parts = {}, {}
        self.round = round
        self.scores[fold], self.parts[fold] = value, parts or (value,)
        self.scores = dict(sorted(self.scores.items()))

    def advantage(self, other: Trial) -> float:
        """The mean difference of the scores on the folds that both have; NaN if there are none."""
        differences = [self.scores[fold] - other.scores[fold] for fold in self.scores.keys() & other.scores.keys()]
        finite = [value for value in differences if not np.isnan(value)]
        return float(np.mean(finite)) if finite else float("nan")

    def standard_error(self, other: Trial) -> float:
        """The standard error of `advantage`, over parts of the folds; NaN if there is only one."""
        common = self.parts.keys() & other.parts.keys()
        differences = np.concatenate([np.subtract(self.parts[fold], other.parts[fold]) for fold in common] or [[]])
        differences = differences[np.isfinite(differences)]
        n = len(differences)
        return float(np.std(differences, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """The trial as JSON values."""
        found = {
            **self.candidate.to_dict(),
            "round": self.round,
            "folds": len(self.scores),
            "score": self.score,
            "spread": self.spread,
            "seconds": self.seconds,
            **({"note": self.note} if self.note else {}),
        }
        return to_json_object(found)

    def __repr__(self) -> str:
        return f"Trial({self.candidate}: {self.score:.4f}, {len(self.scores)} folds)"

    @property
    def _finite_scores(self) -> list[float]:
        return [value for value in self.scores.values() if not np.isnan(value)]


def noise(trial: Trial, other: Trial, n_compared: int) -> float:
    """What the best of so many trials that are no better than another one exceeds with a probability of `ERROR_RATE`,
    at most.
    """
    return NormalDist().inv_cdf(1 - ERROR_RATE / n_compared) * trial.standard_error(other)


@dataclass(repr=False)
class Tuned(Result):
    """The result of `tune`: all trials, the chosen one, and after `fit` the model. `to_pandas` has one row per trial.

    >>> trial = Trial(Candidate("als", {"rank": 5}), round=2, scores={0: 0.5, 1: 0.75})
    >>> found = Tuned([trial], "auc_pr", "2 folds", random_state=0, seconds=1.0)
    >>> print(found.chosen_candidate, found.unfitted_estimator.rank)
    als, rank 5 5
    """

    trials: list[Trial]  # best first
    metric: str
    protocol: str
    random_state: int
    seconds: float  # of the search
    stopped: bool = False  # interrupted by Ctrl-C
    estimator_: Estimator | None = None  # fitted to all facts
    default: Trial | None = None  # the settings of a fit without options
    fallback: str = ""  # why the defaults are chosen although another trial is better
    by_validation: bool = False  # measured on the user's own validation data
    calibrate: bool = True  # the model of the choice gets probabilities of unlisted cells
    further: float = 0.0  # time that they take in the search, relative to that of the fit to all facts

    @property
    def chosen_trial(self) -> Trial:
        """The best trial if it is better than the defaults by more than noise; otherwise the defaults.

        A trial within the best one's fold-to-fold spread, or the standard error on a single fold, is preferred if it
        can fold in and the best cannot.
        """
        default = self.default
        if default is None or default.note:
            return self._best_trial
        return default if self.fallback or not self._beats(self.trials[0], default) else self._best_trial

    @property
    def _best_trial(self) -> Trial:
        first = self.trials[0]
        if not first.judged or first.candidate.folds_in:
            return first
        near = (trial for trial in self.judged if trial.candidate.folds_in and self._is_near(trial))
        return next(near, first)

    def _beats(self, trial: Trial, default: Trial) -> bool:
        """Whether a trial is better than complete fits of the defaults, however many trials there were.

        Validation data that the user gave is taken at its word: the number of trials does not count.
        """
        if trial.round < 2 or default.round < 2 or default.steps is not None:
            return False
        n_compared = 1 if self.by_validation else max(1, len(self.judged))
        return sign_of(self.metric) * trial.advantage(default) > noise(trial, default, n_compared)

    @property
    def chosen_candidate(self) -> Candidate:
        """The model and settings of the chosen trial; the first model's defaults if no trial has a score."""
        return self.chosen_trial.candidate

    @property
    def unfitted_estimator(self) -> Estimator:
        """A new, unfitted estimator with the chosen settings."""
        return self.chosen_candidate.estimator(self.random_state)

    @property
    def judged(self) -> list[Trial]:
        """Trials with a score, best first."""
        return [trial for trial in self.trials if trial.judged]

    @property
    def factors_(self) -> Factors:
        """The model fitted to all facts."""
        if self.estimator_ is None:
            raise InputError("the chosen estimator is not fitted to all facts yet; call fit(facts)")
        return self.estimator_.factors_

    def fit(self, facts: Facts, *, progress: bool | Progress | None = None) -> Tuned:
        """Fit the chosen settings to all facts. After Ctrl-C `factors_` is the model so far, as after any fit."""
        self.estimator_ = self.unfitted_estimator.set_params(calibrate=self.calibrate)
        with reporting(progress, "fitting", at_most=True) as report:
            self.estimator_.fit(facts, progress=report)
        return self

    @property
    def sentence(self) -> str:
        """What was chosen and why."""
        if not self.judged:
            return f"Chosen: {self.chosen_candidate}, because {self._why_no_score()}."
        best, chosen = self.judged[0], self.chosen_trial
        if chosen is self.default and chosen is not self.trials[0]:
            return self._why_default()
        if len(self.judged) == 1 and chosen is self.default:
            steps = "" if chosen.steps is None else f" after {chosen.steps} steps, for which there was time,"
            metric = METRICS[self.metric]
            return (
                f"Chosen: {chosen.candidate}, because there was no time to compare other settings"
                f"{self._enough_time()}; its {metric} on held-out data{steps} is {chosen.score:.4f}."
            )
        score = f"{chosen.score:.4f}"
        if not np.isnan(chosen.spread):
            score += f" ± {chosen.spread:.4f}"
        text = f"Chosen: {chosen.candidate}, because its {METRICS[self.metric]} on held-out data, {score}, is "
        if chosen is not best:
            return (
                f"{text}within {self._noise_name} of {best.candidate} with {best.score:.4f}, the best of "
                f"{self._n_compared()}, and {chosen.candidate.model} can explain predictions and fold in new entities, "
                f"which {best.candidate.model} cannot."
            )
        text += f"the best of {self._n_compared()}"
        rivals = [trial for trial in self.judged[1:] if self._same_fits(trial, best)]
        if rivals:
            text += f"; next is {rivals[0].candidate} with {rivals[0].score:.4f}"
            text += f", within {self._noise_name}" if self._is_near(rivals[0]) else ""
        return text + "."

    def _enough_time(self) -> str:
        """How many seconds would be enough, if the fit without options was complete."""
        chosen = self.chosen_trial
        seconds = 0 if chosen.steps is not None else self._enough(chosen.longest)
        return f" (about {seconds} s would be enough)" if seconds else ""

    def _why_default(self) -> str:
        """Why the defaults are chosen although another trial is better."""
        best, chosen, metric = self.trials[0], self.chosen_trial, METRICS[self.metric]
        text = f"Chosen: {chosen.candidate}, because "
        if self.fallback:
            return f"{text}{self.fallback}."
        shared = best.scores.keys() & chosen.scores.keys()
        if not chosen.judged or not shared or best.round < 2:
            return f"{text}no other setting was compared with it in a complete fit."
        theirs = np.mean([best.scores[fold] for fold in shared])
        is_all = best.scores.keys() == chosen.scores.keys()  # otherwise the table has means over other parts
        where = (
            "held-out data" if is_all else f"the {len(shared)} held-out part{'s' * (len(shared) > 1)} that both have"
        )
        return (
            f"{text}none of {self._n_compared()} is better by more than noise: its {metric} on {where} is "
            f"{theirs - best.advantage(chosen):.4f}, that of {best.candidate} is {theirs:.4f}."
        )

    @property
    def caveat(self) -> str | None:
        """What a model with the chosen settings cannot do, and which models can."""
        if self.chosen_candidate.folds_in:
            return None
        options = " ".join(f"--model {name}" for name in FOLD_IN_MODELS)
        return (
            f"{self.chosen_candidate.model} cannot explain predictions or fold in new entities; to do so use {options}"
        )

    @property
    def _noise_name(self) -> str:
        return "the standard error" if np.isnan(self.judged[0].spread) else "the fold-to-fold spread"

    def _same_fits(self, trial: Trial, best: Trial) -> bool:
        """Whether two trials were fitted alike: in the same round, or on validation data both completely."""
        return trial.round == best.round or (self.by_validation and min(trial.round, best.round) > 1)

    def _is_near(self, trial: Trial) -> bool:
        """Whether a trial is within the best trial's spread, on the folds that both have, or the standard error."""
        best = self.judged[0]
        if trial.round < min(2, best.round):  # a fit of few steps is not compared with complete ones
            return False
        behind = [
            sign_of(self.metric) * (best.scores[fold] - trial.scores[fold])
            for fold in best.scores.keys() & trial.scores.keys()
        ]
        finite = [value for value in behind if not np.isnan(value)]
        noise = best.standard_error(trial) if np.isnan(best.spread) else best.spread
        return bool(finite) and float(np.mean(finite)) <= np.nan_to_num(noise)

    def _n_compared(self) -> str:
        """How many settings have a score, and how many were tried that have none."""
        n = len(self.judged)
        notes = [trial.note or ONE_KIND for trial in self.trials if trial.round and not trial.judged]
        text = f"{n} settings" if n > 1 else "1 setting"
        if not notes:
            return text
        reasons = Counter(notes).most_common()
        mostly = "mostly because " if len(reasons) > 1 else ""
        return f"{text} ({len(notes)} more were tried without a score: {mostly}{reasons[0][0]})"

    def _why_no_score(self) -> str:
        notes = [trial.note for trial in self.trials if trial.note]
        if self.protocol == NOTHING_HELD_OUT or notes:
            return f"no other setting has a score ({notes[0] if notes else self.protocol})"
        if any(trial.round for trial in self.trials):
            return f"no other setting has a score ({ONE_KIND})"
        if self.stopped:
            return "the search was stopped too early"
        if self.default is not None and self.default.steps is not None:
            return f"there was time for {self.default.steps} step{'s' * (self.default.steps != 1)} of a single fit only"
        enough = self._enough(self.seconds)
        return f"there was no time to compare it with other settings; about {enough} s would be enough"

    def _enough(self, seconds: float) -> int:
        """The seconds that would suffice to compare settings, where a fit to all facts takes so many."""
        return math.ceil((FITS_TO_COMPARE + REFIT_MARGIN * self.further) * seconds)

    def to_dict(self) -> dict[str, Any]:
        """Everything except the model, as JSON values."""
        return {
            "chosen": self.chosen_trial.to_dict(),
            "why": self.sentence,
            "caveat": self.caveat,
            "metric": self.metric,
            "protocol": self.protocol,
            "random_state": self.random_state,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "trials": [trial.to_dict() for trial in self.trials],
        }

    def _table(self) -> list[dict[str, Any]]:
        """One row per trial, best first."""
        return [trial.to_dict() for trial in self.trials]

    def _repr_html_(self) -> str:
        return html_table(self.sentence, self._table())

    def __repr__(self) -> str:
        return f"Tuned({len(self.trials)} settings by {METRICS[self.metric]}; {self.sentence})"
