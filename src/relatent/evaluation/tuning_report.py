"""What a search for settings found: settings, how each did on held-out cells, and why one of them was chosen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..data.facts import Facts
from ..errors import InputError
from ..fit.estimators.als import RescalALS
from ..fit.estimators.rescal import Rescal, RescalLogit
from ..model.factors import Factors
from ..progress import Progress

METRICS = {"auc_pr": "AUC-PR", "log_loss": "log loss", "mrr": "filtered MRR"}
FOLDING = ("logit", "als")  # models that give reasons and fold in newcomers (`model.folding.can_fold`)
NOTHING_HELD_OUT = "there are too few facts to hold any out"
ONE_KIND = "held-out parts need true and false cells"


def sign_of(metric: str) -> int:
    """1 if more of it is better, −1 if less is."""
    return -1 if metric == "log_loss" else 1


class Candidate(NamedTuple):
    """Settings to be tried."""

    model: str
    settings: dict[str, Any]

    def estimator(self, random_state: int) -> Any:
        """The estimator that has them, not fitted."""
        kind = {"als": RescalALS, "logit": RescalLogit}.get(self.model)
        made = Rescal(loss=self.model) if kind is None else kind()
        return made.set_params(random_state=random_state, **self.settings)

    def __str__(self) -> str:
        words = {"l2_entities": "λ", "rank": "rank", "penalty": "DURA"}
        shown = {**self.settings, "penalty": getattr(self.settings.get("penalty"), "weight", None)}
        told = [f"{word} {shown[name]:g}" for name, word in words.items() if shown.get(name) is not None]
        if "bias" in self.settings:
            told.append("bias" if self.settings["bias"] else "no bias")
        return ", ".join([self.model, *(told or ["default settings"])])


@dataclass
class Trial:
    """Settings and how they did on held-out cells."""

    candidate: Candidate
    round: int = 0  # the last one it took part in, from 1; 0: there was no time to end one
    scores: dict[int, float] = field(default_factory=dict)  # held-out part → figure, of that round
    seconds: float = 0.0  # of all its fits
    longest: float = 0.0  # of one of them
    note: str = ""  # what went wrong

    @property
    def score(self) -> float:
        """Mean of the figure over held-out parts; NaN if no part could be judged."""
        return float(np.mean(self._figures)) if self._figures else float("nan")

    @property
    def spread(self) -> float:
        """Standard deviation over held-out parts; NaN if there is only one."""
        return float(np.std(self._figures)) if len(self._figures) > 1 else float("nan")

    @property
    def judged(self) -> bool:
        """Whether its figure may be compared."""
        return self.round > 0 and not self.note and not np.isnan(self.score)

    def to_dict(self) -> dict[str, Any]:
        """The trial as JSON has it."""
        settings = self.candidate.settings.items()
        plain = {name: v if isinstance(v, (bool, int, float, str)) else repr(v) for name, v in settings}
        return {
            "model": self.candidate.model,
            "settings": plain,
            "round": self.round,
            "parts": len(self.scores),
            "score": _known(self.score),
            "spread": _known(self.spread),
            "seconds": self.seconds,
            **({"note": self.note} if self.note else {}),
        }

    @property
    def _figures(self) -> list[float]:
        return [value for value in self.scores.values() if not np.isnan(value)]


@dataclass
class Tuned:
    """What a search found; after `fit` also the model."""

    trials: list[Trial]  # best first
    metric: str
    protocol: str
    random_state: int
    seconds: float  # of the search
    stopped: bool = False  # by Ctrl-C
    estimator_: Any = None  # fitted to all facts

    @property
    def choice(self) -> Trial:
        """The best, or one no farther away than parts differ if that one folds in and the best does not."""
        first = self.trials[0]
        if not first.judged or first.candidate.model in FOLDING:
            return first
        near = (trial for trial in self.judged if trial.candidate.model in FOLDING and self._is_near(trial))
        return next(near, first)

    @property
    def chosen(self) -> Candidate:
        """The settings of the choice; the first model's defaults if none could be judged."""
        return self.choice.candidate

    @property
    def judged(self) -> list[Trial]:
        """Trials with a figure, best first."""
        return [trial for trial in self.trials if trial.judged]

    @property
    def best(self) -> Any:
        """An estimator with the chosen settings, not fitted."""
        return self.chosen.estimator(self.random_state)

    @property
    def factors_(self) -> Factors:
        """The model fitted to all facts."""
        if self.estimator_ is None:
            raise InputError("the chosen estimator has not been fitted to all facts; call fit")
        factors: Factors = self.estimator_.factors_
        return factors

    def fit(self, facts: Facts, *, progress: Progress | None = None) -> Tuned:
        """Fit the chosen settings to all facts; after Ctrl-C `factors_` are those so far, as in any fit."""
        self.estimator_ = self.best
        self.estimator_.fit(facts, progress=progress)
        return self

    @property
    def sentence(self) -> str:
        """What was chosen and why."""
        if not self.judged:
            return f"Chosen: {self.chosen}, because {self._why_none()}."
        first, choice = self.judged[0], self.choice
        figure, told = METRICS[self.metric], f"{choice.score:.4f}"
        if not np.isnan(choice.spread):
            told += f" ± {choice.spread:.4f}"
        text = f"Chosen: {self.chosen}, because its {figure} on held-out data, {told}, is "
        if choice is not first:
            return (
                f"{text}no farther away than parts differ from {first.candidate} with {first.score:.4f}, the best of "
                f"{self._compared()}, and {choice.candidate.model} gives reasons and folds in newcomers, which "
                f"{first.candidate.model} does not."
            )
        text += f"the best of {self._compared()}"
        rivals = [trial for trial in self.judged[1:] if trial.round == first.round]
        if rivals:
            text += f"; next is {rivals[0].candidate} with {rivals[0].score:.4f}"
            text += ", no farther away than parts differ" if self._is_near(rivals[0]) else ""
        return text + "."

    @property
    def caveat(self) -> str | None:
        """What a model with the chosen settings cannot do, and what to ask for instead."""
        if self.chosen.model in FOLDING:
            return None
        instead = " ".join(f"--model {name}" for name in FOLDING)
        return f"{self.chosen.model} gives no reasons and folds in no newcomers; for these: {instead}"

    def _is_near(self, trial: Trial) -> bool:
        """Whether a trial is no farther from the best than the best's parts differ, on parts both were judged by."""
        best = self.judged[0]
        if trial.round < min(2, best.round):  # a fit of few steps beside whole ones
            return False
        behind = [
            sign_of(self.metric) * (best.scores[part] - trial.scores[part])
            for part in best.scores.keys() & trial.scores.keys()
        ]
        known = [value for value in behind if not np.isnan(value)]
        return bool(known) and float(np.mean(known)) <= np.nan_to_num(best.spread)

    def _compared(self) -> str:
        """How many settings have a figure, and how many were tried that have none."""
        n = len(self.judged)
        others = [trial.note or ONE_KIND for trial in self.trials if trial.round and not trial.judged]
        told = f"{n} settings" if n > 1 else "1 setting"
        if not others:
            return told
        reasons = Counter(others).most_common()
        mostly = "mostly because " if len(reasons) > 1 else ""
        return f"{told} ({len(others)} more were tried and could not be judged: {mostly}{reasons[0][0]})"

    def _why_none(self) -> str:
        """Why no setting has a figure."""
        notes = [trial.note for trial in self.trials if trial.note]
        if self.protocol == NOTHING_HELD_OUT or notes:
            return f"no other could be judged ({notes[0] if notes else self.protocol})"
        if any(trial.round for trial in self.trials):
            return f"no other could be judged ({ONE_KIND})"
        return "the search was stopped too early" if self.stopped else "there was no time to try a single setting"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model, ready for JSON."""
        return {
            "chosen": self.choice.to_dict(),
            "why": self.sentence,
            "caveat": self.caveat,
            "metric": self.metric,
            "protocol": self.protocol,
            "random_state": self.random_state,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "trials": [trial.to_dict() for trial in self.trials],
        }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
