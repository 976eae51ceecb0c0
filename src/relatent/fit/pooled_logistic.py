"""Logistic regression with coefficients per group, drawn towards their mean over the groups.

    minimise  Σ −w₁ log s σ(η) − w₀ log(1 − s σ(η))
              +  ½ Σ_g precision |β_g − mean|²  +  ½ mean_precision |mean − centre|²

with η = X β_g. s = 1 is ordinary logistic regression. s < 1: only the share s of the true cases is labelled true, and
the others are among the cases that are not (Elkan and Noto, "Learning classifiers from only positive and unlabeled
data", 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ..arrays import Ids, Matrix, Vector

MAX_STEPS = 500


@dataclass(frozen=True)
class CoefficientPrior:
    """What is known of the coefficients before any data, each (P,)."""

    centre: Vector  # of the mean over groups
    mean_precision: Vector  # 1 / variance of the mean about the centre
    precision: Vector  # 1 / variance of a group's coefficients about the mean
    nonnegative: NDArray[np.bool_]
    smooth: Matrix | None = None  # (P, P) further precision of the mean about the centre


@dataclass(frozen=True)
class PooledCoefficients:
    """The coefficients of each group, and their mean."""

    mean: Vector  # (P,)
    of_group: Matrix  # (G, P)
    log_posterior: float  # of both and the cases, up to a constant of the prior


def pooled_logistic(
    X: Matrix,
    groups: Ids,
    n_groups: int,
    true_weights: Vector,
    false_weights: Vector,
    prior: CoefficientPrior,
    *,
    labelled: float = 1.0,
) -> PooledCoefficients:
    """The most probable coefficients; rows may stand for many cases by their two weights."""
    P = X.shape[1]
    order = np.argsort(groups, kind="stable")
    X, groups, n1, n0 = X[order], groups[order], true_weights[order], false_weights[order]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    present = groups[starts]
    scale = 1.0 / max(n1.sum(), 1.0)  # L-BFGS works on numbers of about 1
    Q = np.diag(prior.mean_precision) + (0.0 if prior.smooth is None else prior.smooth)

    def loss(flat: Vector) -> tuple[float, Vector]:
        mean, own = flat[:P], flat[P:].reshape(len(present), P)
        beta = own[np.repeat(np.arange(len(present)), np.diff(np.append(starts, len(groups))))]
        eta = np.einsum("np,np->n", X, beta)
        p = expit(eta)
        sp = labelled * p
        value = n1 @ np.logaddexp(0, -eta)
        slope = -n1 * (1 - p)
        if labelled == 1.0:
            value += n0 @ np.logaddexp(0, eta)
            slope += n0 * p
        else:
            value -= n0 @ np.log1p(-sp)
            slope += n0 * sp * (1 - p) / (1 - sp)
        away, from_centre = own - mean, mean - prior.centre
        value += (prior.precision * away**2).sum() / 2 + from_centre @ Q @ from_centre / 2
        gradient = np.add.reduceat(X * slope[:, None], starts, axis=0) + prior.precision * away
        of_mean = Q @ from_centre - prior.precision * away.sum(axis=0)
        return float(value * scale), np.concatenate([of_mean, gradient.ravel()]) * scale

    start = np.tile(prior.centre, 1 + len(present))
    bounds = [(0.0, None) if low else (None, None) for low in np.tile(prior.nonnegative, 1 + len(present))]
    options = {"maxiter": MAX_STEPS, "maxfun": 2 * MAX_STEPS, "ftol": 1e-10, "gtol": 1e-7}
    result = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    found = result.x
    of_group = np.tile(found[:P], (n_groups, 1))
    of_group[present] = found[P:].reshape(len(present), P)
    return PooledCoefficients(found[:P], of_group, -float(result.fun) / scale)
