"""Logistic regression with coefficients per group, drawn towards their mean over the groups.

    minimise  Σ −w₁ log s σ(η) − w₀ log(1 − s σ(η))
              +  ½ Σ_g precision |β_g − mean|²  +  ½ mean_precision |mean − centre|²

with η = X β_g. s = 1 is ordinary logistic regression. s < 1: only the share s of the true cases is labelled true, and
the others are among the cases that are not (Elkan and Noto, "Learning classifiers from only positive and unlabeled
data", 2008).

How much groups differ is learned, too, where the prior says which coefficients vary alike (`alike`): their precisions
are multiplied by the factor that maximises the evidence, in Laplace's approximation (MacKay, "Bayesian interpolation",
1992). If it was not, the likeliest cases of all groups would be those of groups whose coefficients chance has raised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..arrays import Ids, Matrix, Vector

MAX_STEPS, SMALLEST_STEP, EVIDENCE_STEPS = 100, 1e-6, 12  # budgets
TOLERANCE, EVIDENCE_TOLERANCE = 1e-7, 0.05  # nats; relative change of the factors
FACTOR_WEIGHT = 0.2  # prior: coefficients that a stated precision counts as, so that it decides where data say nothing
MAX_FACTOR = 1e3  # of a precision: groups are the same, and the minimum is still found well


@dataclass(frozen=True)
class CoefficientPrior:
    """What is known of the coefficients before any data, each (P,)."""

    centre: Vector  # of the mean over groups
    mean_precision: Vector  # 1 / variance of the mean about the centre
    precision: Vector  # 1 / variance of a group's coefficients about the mean
    nonnegative: NDArray[np.bool_]
    smooth: Matrix | None = None  # (P, P) further precision of the mean about the centre
    alike: Ids | None = None  # (P,) number of those whose precision has one learned factor; None: it is as stated

    @property
    def of_mean(self) -> Matrix:
        """The precision of the mean about the centre, (P, P)."""
        return np.diag(self.mean_precision) + (0.0 if self.smooth is None else self.smooth)


@dataclass(frozen=True)
class PooledCoefficients:
    """The coefficients of each group, and their mean."""

    mean: Vector  # (P,)
    of_group: Matrix  # (G, P)
    log_likelihood: float = 0.0  # of the cases


class _Cases(NamedTuple):
    """Rows that stand for many cases, in the order of their groups."""

    X: Matrix  # (n, P)
    starts: Ids  # first row of each group that has any
    true: Vector  # (n,) weights
    false: Vector
    labelled: float

    @property
    def n_groups(self) -> int:
        """Groups that have cases."""
        return len(self.starts)

    def eta(self, own: Matrix) -> Vector:
        """Log-odds of each row."""
        beta = np.repeat(own, np.diff(np.append(self.starts, len(self.X))), axis=0)
        found: Vector = np.einsum("np,np->n", self.X, beta)
        return found

    def loss(self, own: Matrix) -> tuple[float, Matrix]:
        """−log likelihood, and its gradient per group."""
        eta = self.eta(own)
        p = expit(eta)
        sp = self.labelled * p
        value = self.true @ np.logaddexp(0, -eta)
        slope = -self.true * (1 - p)
        if self.labelled == 1.0:
            value += self.false @ np.logaddexp(0, eta)
            slope += self.false * p
        else:
            value -= self.false @ np.log1p(-sp)
            slope += self.false * sp * (1 - p) / (1 - sp)
        return float(value), np.add.reduceat(self.X * slope[:, None], self.starts, axis=0)

    def information(self, own: Matrix) -> NDArray[np.float64]:
        """Fisher's expected curvature of the loss per group, (groups, P, P)."""
        p = expit(self.eta(own))
        weight = (self.true + self.false) * self.labelled * p * (1 - p) ** 2 / (1 - self.labelled * p + 1e-12)
        ends = np.append(self.starts[1:], len(self.X))
        return np.array(
            [(self.X[a:b] * weight[a:b, None]).T @ self.X[a:b] for a, b in zip(self.starts, ends, strict=True)]
        )


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
    if not len(X):
        return PooledCoefficients(prior.centre, np.tile(prior.centre, (n_groups, 1)))
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    cases = _Cases(X[order], starts, true_weights[order], false_weights[order], labelled)
    start = np.tile(prior.centre, (1 + len(starts), 1))
    found = _likeliest(cases, prior, start)
    factors: Vector = np.ones(X.shape[1])
    for _ in range(EVIDENCE_STEPS if prior.alike is not None and len(starts) > 1 else 0):
        before, factors = factors, _precision_factors(cases, prior, factors, found)
        found = _likeliest(cases, replace(prior, precision=prior.precision * factors), found)
        if np.abs(np.log(factors / before)).max() < EVIDENCE_TOLERANCE:
            break
    of_group = np.tile(found[0], (n_groups, 1))
    of_group[groups[order][starts]] = found[1:]
    return PooledCoefficients(found[0], of_group, -cases.loss(found[1:])[0])


def _likeliest(cases: _Cases, prior: CoefficientPrior, start: Matrix) -> Matrix:
    """The mean, and the coefficients of each group, (1 + groups, P).

    Newton steps with Fisher's information, which couple groups by the mean alone. Coefficients at the bound that would
    go beyond it stay there, and the others are projected to it (Bertsekas, "Projected Newton methods", 1982).
    """
    coefficients = start
    value, gradient = _objective(cases, prior, coefficients)
    for _ in range(MAX_STEPS):
        is_free = ~(prior.nonnegative & (coefficients <= 0.0) & (gradient > 0.0))
        step, size = _newton_step(cases, prior, coefficients, np.where(is_free, gradient, 0.0), is_free), 1.0
        while size > SMALLEST_STEP:
            moved = coefficients + size * step
            moved = np.where(prior.nonnegative, np.maximum(moved, 0.0), moved)
            after, gradient_after = _objective(cases, prior, moved)
            if after < value:
                break
            size /= 2
        else:
            break
        gained, coefficients, value, gradient = value - after, moved, after, gradient_after
        if gained < TOLERANCE:
            break
    return coefficients


def _objective(cases: _Cases, prior: CoefficientPrior, coefficients: Matrix) -> tuple[float, Matrix]:
    """What is minimised, in nats, and its gradient."""
    mean, own = coefficients[0], coefficients[1:]
    value, gradient = cases.loss(own)
    away, from_centre = prior.precision * (own - mean), mean - prior.centre
    of_mean = prior.of_mean @ from_centre
    value += float((away * (own - mean)).sum() + from_centre @ of_mean) / 2
    return value, np.concatenate([(of_mean - away.sum(axis=0))[None], gradient + away])


def _newton_step(
    cases: _Cases, prior: CoefficientPrior, coefficients: Matrix, gradient: Matrix, is_free: NDArray[np.bool_]
) -> Matrix:
    """The step of the free coefficients; groups are eliminated, and the mean is solved for first."""
    eye, free, free_mean = np.eye(len(prior.precision)), is_free[1:, :, None] & is_free[1:, None], is_free[0]
    of_groups = np.where(free, cases.information(coefficients[1:]) + np.diag(prior.precision), eye)
    S = np.linalg.inv(of_groups)
    coupling = np.where(is_free[1:] & free_mean, prior.precision, 0.0)
    of_mean = prior.of_mean + np.diag(cases.n_groups * prior.precision)
    of_mean = np.where(free_mean[:, None] & free_mean, of_mean, eye)
    reduced = of_mean - np.einsum("gp,gpq,gq->pq", coupling, S, coupling)
    pulled = np.einsum("gpq,gq->gp", S, gradient[1:])
    mean = np.linalg.solve(reduced, -gradient[0] - (coupling * pulled).sum(axis=0))
    return np.concatenate([mean[None], np.einsum("gpq,gq->gp", S, coupling * mean) - pulled])


def _precision_factors(cases: _Cases, prior: CoefficientPrior, factors: Vector, found: Matrix) -> Vector:
    """What the precision of each coefficient is multiplied by: effective number of coefficients / Σ squares.

    Both by the stated precision, and beside `FACTOR_WEIGHT` coefficients of which it is true.
    """
    assert prior.alike is not None
    precision = prior.precision * factors
    S = np.linalg.inv(cases.information(found[1:]) + np.diag(precision))  # given the mean
    pull = S * precision  # of a group by the mean
    of_mean = np.linalg.inv(prior.of_mean + np.diag(cases.n_groups * precision) - precision[:, None] * pull.sum(axis=0))
    away = pull - np.eye(len(precision))
    variance = np.einsum("gpp->gp", S) + np.einsum("gpq,qr,gpr->gp", away, of_mean, away)
    effective = np.clip(1.0 - precision * variance, 0.0, 1.0).sum(axis=0)
    squares = prior.precision * ((found[1:] - found[0]) ** 2).sum(axis=0)
    alike = prior.alike
    known, spread = (np.bincount(alike, part)[alike] for part in (effective, squares))
    return np.clip((known + FACTOR_WEIGHT) / (spread + FACTOR_WEIGHT), 1.0 / MAX_FACTOR, MAX_FACTOR)
