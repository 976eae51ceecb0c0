"""Increasing maps from scores to probabilities, learned from cells with their truth.

Platt, "Probabilistic outputs for support vector machines", 1999. Zadrozny and Elkan, "Transforming classifier scores
into accurate multiclass probability estimates", 2002.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.isotonic import isotonic_regression

from ..arrays import Mask, Matrix, Vector
from ..errors import InputError
from ..model.links import IsotonicLink, Link, PlattLink

MAX_KNOTS = 200  # of an isotonic map, which is stored in the header of the model file


def fit_platt(
    scores: Vector, truth: Mask, weights: Vector | None = None, *, usual_slope: float = 0.0, precision: float = 0.0
) -> PlattLink:
    """Minimise Σ w [softplus(z) − t z] + precision (slope − usual_slope)² / 2, z = slope·θ + intercept, slope ≥ 0.

    t is not 1 and 0 but Platt's (n₁ + 1)/(n₁ + 2) and 1/(n₀ + 2), so that perfectly separated cells do not need an
    infinite slope.
    """
    theta, x, w = _checked(scores, truth, weights)
    n1, n0 = w[x].sum(), w[~x].sum()  # the cells that they stand for
    target = np.where(x, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    centre, spread = np.average(theta, weights=w), theta.std() or 1.0
    prior, w = precision / w.sum() / spread**2, w / w.sum()
    U = np.stack([(theta - centre) / spread, np.ones(len(theta))])  # (2, n)
    rate = float(w @ target)
    start = np.array([0.0, np.log(rate / (1 - rate))])  # the best constant map

    def loss(ab: Vector) -> tuple[float, Vector]:
        z, excess = ab @ U, np.array([ab[0] - usual_slope * spread, 0.0])
        value = w @ (np.logaddexp(0, z) - target * z) + prior / 2 * excess @ excess
        return float(value), U @ (w * (expit(z) - target)) + prior * excess

    def curvature(ab: Vector) -> Matrix:
        p = expit(ab @ U)
        return (U * (w * p * (1 - p))) @ U.T + np.diag([prior, 0.0])  # type: ignore[no-any-return]

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
