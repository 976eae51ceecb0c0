"""Calibrated probabilities for any model, by a map from scores to probabilities learned on held-out cells."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from sklearn.base import clone

from ..backend.memory import MemoryEstimate
from ..data.facts import Facts
from ..data.facts_union import union
from ..data.heldout import HeldOut, log_loss
from ..errors import InputError
from ..fit.estimators.base import Estimator, FitArguments
from ..json_values import to_json
from ..model.factors import Factors
from ..model.links import Link
from ..model.score_maps import MAPS
from ..model.unlisted_scores import MIN_SCORE_RANGE
from ..progress import Progress, silent
from ..random_state import RandomState, to_seed
from .cross_validation import cross_predict
from .metrics import Predicted, pooled
from .reliability import ABOVE, expected_calibration_error
from .stored_estimator import stored_estimator
from .unlisted_calibration import fit_unlisted, heldout_ranks, ranks_among_unlisted

ASSUMED_MISSING = 0.1  # share of true facts that are not listed, where it is not given
UNLISTED_FOLDS = 20  # a twentieth is held out: fits to fewer facts rank worse
UNOBSERVED_FOLDS = 5


class Calibrated(Estimator):
    """An estimator whose probabilities agree with the fraction of true cells.

    Parts of the facts are held out, fits without them score them, and an increasing map from scores to probabilities is
    learned from the result. It becomes the link of the fit to all facts. Scores, and so all rankings, stay as they are.

    The probabilities are those of **unlisted** cells. How many of these are true cannot be learned from listed facts:
    it is a prior, `missing`. With a share of .1, nine tenths of the true facts are listed and the others missing at
    random; a relation with 900 facts is expected to have 100 more among its unlisted cells. See
    `evaluation.unlisted_calibration`.
    If the data has **unobserved** cells, as training data has in a cross-validation, and `missing` is not given, the
    probabilities are those of unobserved cells, which are true as often as observed ones.

    Parameters
    ----------
    estimator : RescalALS, RescalLogit, …; its settings are `estimator__rank` and so on
    method : "isotonic", any increasing map; or "platt", log-odds linear in the score, for few facts
    folds : each calibration fit holds out one part in so many; None: 20 for unlisted cells, 5 for unobserved ones
    heldout_folds : the number of calibration fits, at most `folds`; None: for unlisted cells as many as hold out 1,500
        facts, for unobserved cells all
    random_state : seed of the folds
    missing : share of the true facts that are not listed, between 0 and 1; None assumes .1, or calibrates for
        unobserved cells if the data has any

    >>> import relatent
    >>> from relatent.evaluation.calibration import Calibrated
    >>> facts = relatent.load_dataset("kinships")
    >>> model = Calibrated(relatent.RescalALS(rank=10), heldout_folds=1, missing=0.2).fit(facts).factors_
    >>> round(model.about["calibration"]["expected"] / len(facts), 2)  # .2 missing of .8 listed
    0.25
    """

    _unsupported = ("workers",)

    def __init__(
        self,
        estimator: Estimator | None = None,
        method: str = "isotonic",
        folds: int | None = None,
        random_state: RandomState = 0,
        *,
        heldout_folds: int | None = None,
        missing: float | None = None,
    ):
        self.estimator = estimator
        self.method = method
        self.folds = folds
        self.random_state = random_state
        self.heldout_folds = heldout_folds
        self.missing = missing

    def estimate_memory(self, facts: Facts) -> MemoryEstimate:
        """Memory and model file of the estimator inside."""
        return self._inner().estimate_memory(facts)

    def _inner(self) -> Estimator:
        if self.estimator is None:
            raise InputError("estimator must be given, for example Calibrated(RescalLogit(rank=10))")
        return self.estimator

    def _check_settings(self, facts: Facts) -> None:
        self._inner()
        self.check_options()
        super()._check_settings(facts)

    def check_options(self) -> None:
        """Raise InputError for a method or a share that does not exist."""
        if self.method not in MAPS:
            raise InputError(f"method must be {' or '.join(map(repr, MAPS))}, got {self.method!r}")
        is_number = isinstance(self.missing, (int, float, np.integer, np.floating))
        if self.missing is not None and not (is_number and 0 < self.missing < 1):
            raise InputError(f"missing must be a share between 0 and 1, got {self.missing!r}")

    def _fit(self, arguments: FitArguments) -> None:
        """Fit to all facts, then calibrate. What there is when an interrupt comes is kept, uncalibrated."""
        shard, validation, progress, checkpoint = arguments
        report = None if progress is silent else progress
        given = {"validation": validation, "progress": report, "checkpoint": checkpoint}
        options = {name: value for name, value in given.items() if value is not None}  # an estimator may lack others
        self.estimator_ = clone(self.estimator)
        try:
            self.estimator_.fit(shard.facts, **options)
        finally:
            if hasattr(self.estimator_, "factors_"):
                self.factors_, self.trace_ = self.estimator_.factors_, self.estimator_.trace_
                self.n_iter_ = len(self.trace_)
        link, record = self._calibrate(shard.facts, validation, progress)
        about = {**self.factors_.about, "calibration": record}
        self.factors_ = dataclasses.replace(self.factors_, R=self.factors_.relation_matrices, link=link, about=about)

    def _calibrate(
        self, facts: Facts, validation: Facts | HeldOut | None, progress: Progress
    ) -> tuple[Link, dict[str, Any]]:
        """The link, and what the model file says about it."""
        is_unlisted = self.missing is not None or not len(facts.unobserved)
        default = UNLISTED_FOLDS if is_unlisted else UNOBSERVED_FOLDS
        folds = default if self.folds is None else self.folds
        learn = heldout_ranks if is_unlisted else cross_predict
        heldout: Any = learn(
            self._inner(),
            facts,
            folds,
            self.seed_,
            heldout_folds=self.heldout_folds,
            validation=validation,
            progress=progress,
        )
        if is_unlisted:
            link, figures = _unlisted(self.factors_, facts, heldout, self.missing, self.method, self.seed_)
        else:
            link, figures = self._unobserved(pooled(heldout))
        return link, {
            "method": self.method,
            "calibrated_for": "unlisted" if is_unlisted else "unobserved",
            "folds": int(folds),
            "heldout_folds": len(heldout),
            "random_state": self.seed_,
            **figures,
        }

    def _unobserved(self, predicted: Predicted) -> tuple[Link, dict[str, Any]]:
        """The link for unobserved cells, and its quality on the cells it was learned from."""
        scores, truth, weights = predicted.scores, predicted.heldout.truth, predicted.heldout.weights
        if np.ptp(scores) < MIN_SCORE_RANGE:  # the factors have shrunk to zero: only the base rate is left to learn
            scores = np.zeros_like(scores)
        link = MAPS[self.method](scores, truth, weights)
        after = link.probability(predicted.scores)
        return link, {
            "cells": len(scores),
            "log_loss_before": log_loss(truth, predicted.probabilities, weights),
            "log_loss": log_loss(truth, after, weights),
            "ece_before": to_json(expected_calibration_error(truth, predicted.probabilities, weights, above=ABOVE)),
            "ece": to_json(expected_calibration_error(truth, after, weights, above=ABOVE)),
        }


def calibrate(
    factors: Factors,
    known: Facts,
    *,
    validation: Facts | None = None,
    missing: float | None = None,
    method: str = "isotonic",
    random_state: RandomState = 0,
    progress: bool | Progress | None = None,
) -> Factors:
    """A model that exists with calibrated probabilities of unlisted cells; scores and rankings stay as they are.

    The facts that the model was fitted to cannot tell how it ranks others. `validation`, facts that it was not fitted
    to, can, without another fit. Otherwise fits with the settings of the model, each without a twentieth of the known
    facts, are made until 1,500 facts have been held out, as `Calibrated` does.

    Parameters
    ----------
    factors : the model
    known : the facts that it was fitted to
    validation : facts that it was not fitted to
    missing, method : as in `Calibrated`
    random_state : seed of the facts that are held out, and of samples of cells
    progress : True for a progress bar, or a callback (done, total, note)

    >>> import relatent
    >>> train, valid = relatent.split(relatent.load_dataset("kinships"), test_size=0.1)
    >>> model = relatent.RescalALS(rank=10).fit(train).factors_
    >>> relatent.calibrate(model, train, validation=valid).about["calibration"]["missing"]
    0.1
    """
    estimator = Calibrated(stored_estimator(factors) if validation is None else None, method, missing=missing)
    estimator.check_options()
    seed = to_seed(random_state)
    facts = known.over(factors.entities, factors.relations)
    if validation is None:
        ranks = heldout_ranks(estimator._inner(), facts, UNLISTED_FOLDS, seed, progress=progress)
    else:
        unseen = validation.over(factors.entities, factors.relations)
        unseen = unseen.subset(~facts.contains(unseen.triples))
        if not len(unseen):
            raise InputError(f"none of the {len(validation):,} validation facts is new to the model; give others")
        both = union([facts, unseen], entities=factors.entities, relations=factors.relations)
        ranks = [ranks_among_unlisted(factors, both, unseen, seed)]
    link, figures = _unlisted(factors, facts, ranks, missing, method, seed)
    record = {
        "method": method,
        "calibrated_for": "unlisted",
        "heldout_folds": len(ranks),
        "random_state": seed,
        **figures,
    }
    about = {**factors.about, "calibration": record}
    return dataclasses.replace(factors, R=factors.relation_matrices, link=link, about=about)


def _unlisted(
    factors: Factors, facts: Facts, ranks: Any, missing: float | None, method: str, seed: int
) -> tuple[Link, dict[str, Any]]:
    """The link for unlisted cells, and what the model file says about it."""
    share = ASSUMED_MISSING if missing is None else float(missing)
    link, expected = fit_unlisted(factors, facts, ranks, share, method, seed)
    return link, {
        "missing": share,
        "missing_is_assumed": missing is None,
        "heldout_facts": sum(len(relation) for fit in ranks for relation in fit),
        "unlisted_cells": int(facts.n_observed().sum() - len(facts)),
        "expected": expected,
    }
