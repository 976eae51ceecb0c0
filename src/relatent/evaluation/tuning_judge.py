"""The held-out data that `tune` compares settings on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..arrays import Ids, Vector
from ..data.facts import Facts
from ..data.heldout import HeldOut, log_loss
from ..errors import FitError
from ..model.factors import Factors
from .cross_validation import EvaluationProtocol
from .folds import stratified_folds
from .metrics import auc_pr
from .ranking import evaluate
from .tuning_report import NOTHING_HELD_OUT

N_FOLDS = 10
N_PARTS = 20  # of a fold: the standard error of a difference is that of the mean over parts
NOT_TRIED = "no setting was tried to the end"


class Score(NamedTuple):
    """A metric on one fold, and on parts of the fold."""

    value: float
    parts: tuple[float, ...]


@dataclass(frozen=True)
class Judge:
    """The held-out folds, and the training facts that belong to each."""

    facts: Facts
    metric: str
    folds: tuple[HeldOut, ...]
    is_validation: bool  # the user's validation data, which is not among the facts
    known: tuple[Facts, ...] = ()  # true facts that do not compete with held-out ones, beside those to learn from

    @classmethod
    def of(
        cls,
        facts: Facts,
        metric: str,
        validation: Facts | HeldOut | None,
        random_state: int,
        known: Sequence[Facts] = (),
    ) -> Judge:
        """A judge by validation data, or by tenths of the cells; for "mrr" by tenths of the facts."""
        if validation is not None:
            heldout = HeldOut.of(validation, facts, random_state)
            return cls(facts, metric, (heldout,), is_validation=True, known=tuple(known))
        folds = stratified_folds(facts, N_FOLDS, random_state, facts_only=metric == "mrr")
        return cls(facts, metric, tuple(folds), is_validation=False, known=tuple(known))

    @property
    def n_folds(self) -> int:
        """The number of folds; none if there is only one fact."""
        return len(self.folds)

    def protocol(self, n_used: int) -> str:
        """How settings were measured, with at most so many folds each."""
        if not self.folds:
            return NOTHING_HELD_OUT
        if not n_used:
            return NOT_TRIED
        if self.is_validation:
            filtered = ", without other known facts as rivals" if self.known and self.metric == "mrr" else ""
            return f"measured on validation data{filtered}"
        prefix = f"{'up to ' if n_used > 1 else ''}{n_used} of {self.n_folds} folds of the"
        if self.metric == "mrr":
            return f"{prefix} facts held out"
        sampled = ", zeros sampled and re-weighted" if self.folds[0].weights is not None else ""
        return f"{prefix} cells held out, masked{sampled}"

    def training(self, fold: int) -> Facts:
        """The facts to fit to when this fold is held out."""
        if self.is_validation:
            return self.facts
        protocol = EvaluationProtocol(self.facts, masked=self.metric != "mrr", scores="raw", with_mirrors=True)
        return protocol.training([self.folds[fold]])

    def score(self, factors: Factors, fold: int) -> Score:
        """The metric on a fold, in its own direction."""
        heldout = self.folds[fold]
        if self.metric == "mrr":
            test = heldout.facts(self.facts)
            if not len(test):
                return Score(float("nan"), ())
            reciprocal = (1 / evaluate(factors, test, known=[self.facts, test, *self.known]).ranks).mean(axis=1)
            return Score(
                float(reciprocal.mean()), tuple(float(reciprocal[i::N_PARTS].mean()) for i in _places(len(test)))
            )
        theta = np.asarray(factors.score(*heldout.cells.T), np.float64)
        if not np.isfinite(theta).all():
            raise FitError("some scores are not finite")
        values = theta if self.metric == "auc_pr" else np.asarray(factors.link.probability(theta), np.float64)
        strata = [np.flatnonzero(heldout.truth), np.flatnonzero(~heldout.truth)]
        parts = [np.concatenate([cells[i::N_PARTS] for cells in strata]) for i in _places(len(strata[0]))]
        value, *others = (self._measured(heldout, values, cells) for cells in (np.arange(len(theta)), *parts))
        return Score(value, tuple(others))

    def _measured(self, heldout: HeldOut, values: Vector, cells: Ids) -> float:
        weights = None if heldout.weights is None else heldout.weights[cells]
        return (auc_pr if self.metric == "auc_pr" else log_loss)(heldout.truth[cells], values[cells], weights)


def _places(n: int) -> range:
    """The first of n items in each part."""
    return range(min(N_PARTS, n))
