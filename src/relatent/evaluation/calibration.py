"""Calibrated probabilities for any model, by a map from scores to probabilities learned on held-out cells.

Platt, "Probabilistic outputs for support vector machines", 1999. Zadrozny and Elkan, "Transforming classifier scores
into accurate multiclass probability estimates", 2002.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.isotonic import isotonic_regression

from ..arrays import Mask, Matrix, Vector
from ..backend.memory import MemoryEstimate
from ..data.facts import Facts
from ..data.heldout import log_loss
from ..deprecation import renamed_arguments, renamed_property
from ..errors import InputError
from ..fit.estimators.base import Estimator, FitArguments
from ..json_values import to_json
from ..model.links import IsotonicLink, Link, PlattLink
from ..progress import silent
from ..random_state import RandomState
from .cross_validation import cross_predict
from .metrics import Predicted, pooled
from .reliability import ABOVE, expected_calibration_error

MIN_SCORE_RANGE = 1e-6  # smaller differences between scores are rounding errors
MAX_KNOTS = 200  # of an isotonic map, which is stored in the header of the model file


class Calibrated(Estimator):
    """An estimator whose probabilities agree with the fraction of true cells.

    Observed cells are divided into folds; fits with one fold masked score its cells, and an increasing map from those
    scores to probabilities is learned from their truth. It becomes the link of the fit to all facts. Scores, and so all
    rankings, stay as they are.

    Parameters
    ----------
    estimator : RescalALS, RescalLogit, …; its settings are `estimator__rank` and so on
    method : "isotonic", any increasing map; or "platt", σ(slope·θ + intercept), for few facts
    folds : the number of folds; a calibration fit uses all but one of them
    heldout_folds : how many of the folds are held out in turn, one fit each; None: all of them
    random_state : seed of the folds

    >>> import relatent
    >>> from relatent.evaluation.calibration import Calibrated
    >>> facts = relatent.load_dataset("kinships")
    >>> model = Calibrated(relatent.RescalALS(rank=10), heldout_folds=1).fit(facts).factors_
    >>> model.link.name, model.about["model"]
    ('isotonic', 'RescalALS')
    >>> found = model.about["calibration"]
    >>> found["log_loss"] < found["log_loss_before"]
    True
    """

    _unsupported = ("workers",)

    @renamed_arguments(parts="heldout_folds")
    def __init__(
        self,
        estimator: Estimator | None = None,
        method: str = "isotonic",
        folds: int = 5,
        random_state: RandomState = 0,
        *,
        heldout_folds: int | None = None,
    ):
        self.estimator = estimator
        self.method = method
        self.folds = folds
        self.random_state = random_state
        self.heldout_folds = heldout_folds

    parts = renamed_property("parts", "heldout_folds")

    @renamed_arguments(parts="heldout_folds")
    def set_params(self, **params: Any) -> Calibrated:
        """Set settings by name, as in scikit-learn."""
        return super().set_params(**params)  # type: ignore[no-any-return]

    def estimate_memory(self, facts: Facts) -> MemoryEstimate:
        """Memory and model file of the estimator inside."""
        return self._inner().estimate_memory(facts)

    def _inner(self) -> Estimator:
        if self.estimator is None:
            raise InputError("estimator must be given, for example Calibrated(RescalLogit(rank=10))")
        return self.estimator

    def _check_settings(self, facts: Facts) -> None:
        self._inner()
        if self.method not in MAPS:
            raise InputError(f"method must be {' or '.join(map(repr, MAPS))}, got {self.method!r}")
        super()._check_settings(facts)

    def _fit(self, arguments: FitArguments) -> None:
        shard, validation, progress, checkpoint = arguments
        facts = shard.facts
        predicted = pooled(
            cross_predict(
                self._inner(),
                facts,
                self.folds,
                self.seed_,
                heldout_folds=self.heldout_folds,
                validation=validation,
                progress=progress,
            )
        )
        scores = predicted.scores
        if np.ptp(scores) < MIN_SCORE_RANGE:  # the factors have shrunk to zero: only the base rate is left to learn
            scores = np.zeros_like(scores)
        link = MAPS[self.method](scores, predicted.heldout.truth, predicted.heldout.weights)
        report = None if progress is silent else progress
        given = {"validation": validation, "progress": report, "checkpoint": checkpoint}
        options = {name: value for name, value in given.items() if value is not None}  # an estimator may lack others
        self.estimator_ = clone(self.estimator).fit(facts, **options)
        factors = self.estimator_.factors_
        about = {**factors.about, "calibration": self._about(predicted, link)}
        self.factors_ = dataclasses.replace(factors, link=link, about=about)
        self.trace_ = self.estimator_.trace_
        self.n_iter_ = len(self.trace_)

    def _about(self, predicted: Predicted, link: Link) -> dict[str, Any]:
        """What the model file says about the calibration, measured on the cells the map was learned from."""
        cells, truth, weights = predicted.heldout.cells, predicted.heldout.truth, predicted.heldout.weights
        after = link.probability(predicted.scores)
        return {
            "method": self.method,
            "folds": int(self.folds),
            "heldout_folds": int(self.folds if self.heldout_folds is None else self.heldout_folds),
            "random_state": self.seed_,
            "cells": len(cells),
            "log_loss_before": log_loss(truth, predicted.probabilities, weights),
            "log_loss": log_loss(truth, after, weights),
            "ece_before": to_json(expected_calibration_error(truth, predicted.probabilities, weights, above=ABOVE)),
            "ece": to_json(expected_calibration_error(truth, after, weights, above=ABOVE)),
        }


# --- the maps


def fit_platt(scores: Vector, truth: Mask, weights: Vector | None = None) -> PlattLink:
    """Minimise Σ w [softplus(z) − t z], z = slope·θ + intercept, slope ≥ 0.

    t is not 1 and 0 but Platt's (n₁ + 1)/(n₁ + 2) and 1/(n₀ + 2), so that perfectly separated cells do not need an
    infinite slope.
    """
    theta, x, w = _checked(scores, truth, weights)
    n1, n0 = int(x.sum()), int((~x).sum())
    target = np.where(x, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    centre, spread = np.average(theta, weights=w), theta.std() or 1.0
    w = w / w.sum()
    U = np.stack([(theta - centre) / spread, np.ones(len(theta))])  # (2, n)
    rate = float(w @ target)
    start = np.array([0.0, np.log(rate / (1 - rate))])  # the best constant map

    def loss(ab: Vector) -> tuple[float, Vector]:
        z = ab @ U
        return float(w @ (np.logaddexp(0, z) - target * z)), U @ (w * (expit(z) - target))

    def curvature(ab: Vector) -> Matrix:
        p = expit(ab @ U)
        return (U * (w * p * (1 - p))) @ U.T  # type: ignore[no-any-return]

    found = minimize(loss, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-9}).x
    a, b = found if found[0] > 0 else start
    return PlattLink(float(a / spread), float(b - a * centre / spread))


def fit_isotonic(scores: Vector, truth: Mask, weights: Vector | None = None) -> IsotonicLink:
    """The increasing steps that minimise both squared error and log loss, joined by lines through their centres.

    Half a true and half a false cell are added to each step, so that no probability is 0 or 1.
    """
    theta, x, w = _checked(scores, truth, weights)
    values, same = np.unique(theta, return_inverse=True)
    mass, ones = np.bincount(same, w), np.bincount(same, w * x)
    step = np.cumsum(np.diff(isotonic_regression(ones / mass, sample_weight=mass), prepend=-1) > 0) - 1
    first = np.flatnonzero(np.diff(step, prepend=-1))
    last = np.append(first[1:], len(step)) - 1
    moment, mass, ones = (np.bincount(step, column) for column in (mass * values, mass, ones))
    centres = np.clip(moment / mass, values[first], values[last])  # rounding must not move a centre into the next step
    # Half a cell is half the mean weight of its kind: a sample without zeros does not mean that there are none.
    true, false = w[x].mean() / 2, w[~x].mean() / 2
    p = isotonic_regression((ones + true) / (mass + true + false), sample_weight=mass)
    kept = np.unique(np.linspace(0, len(p) - 1, min(len(p), MAX_KNOTS)).round().astype(np.int64))
    return IsotonicLink(tuple(centres[kept].tolist()), tuple(p[kept].tolist()))


MAPS: dict[str, Callable[[Vector, Mask, Vector | None], Link]] = {"isotonic": fit_isotonic, "platt": fit_platt}


def _checked(scores: Vector, truth: Mask, weights: Vector | None) -> tuple[Vector, Mask, Vector]:
    theta, x = np.asarray(scores, np.float64), np.asarray(truth, bool)
    if not np.isfinite(theta).all():
        raise InputError(f"scores must be finite, got {np.sum(~np.isfinite(theta))} that are not; did the fit diverge?")
    if x.all() or not x.any():
        kind = "true" if len(x) and x.all() else "false"
        raise InputError(
            f"calibration needs true and false cells, but all {len(x)} held out are {kind}; use fewer folds"
        )
    return theta, x, np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
