"""The distribution of a model's entity vectors: a prior for the vector of a new entity.

A mixture of Gaussians with one covariance: entities often form groups (types, camps), and between two groups there is
nobody, so one Gaussian would expect most newcomers where no entity is. The number of groups is chosen by the Bayesian
information criterion. The covariance is shrunk towards a multiple of I as if r further entities had been drawn from
that, and has a floor, so that it is well conditioned if there are few entities or if those of a group are equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ..arrays import Ids, Matrix, Vector

MAX_ENTITIES = 4000  # entities the prior is estimated from; of more, a sample
MAX_GROUPS = 8
ENTITIES_PER_COMPONENT = 2  # entities per group and latent component needed to estimate a group's mean
RESTARTS = 4
KMEANS_STEPS = 10
EM_STEPS = 10
MIN_VARIANCE = 0.01  # within a group and in every direction, as a fraction of the mean variance of all entities


class EntityPrior(NamedTuple):
    """Groups with their means and weights, and the precision within every group."""

    means: Matrix  # (G, r)
    log_weights: Vector  # (G,)
    precision: Matrix  # (r, r), Σ⁻¹


class _Mixture(NamedTuple):
    log_likelihood: float
    means: Matrix
    weights: Vector
    covariance: Matrix


def entity_prior(A: Matrix, leave_out: Ids | tuple[()] = ()) -> EntityPrior | None:
    """The prior from the rows of A, some left out; None if they do not differ or are fewer than two."""
    rng = np.random.default_rng(0)
    rows = np.setdiff1d(np.arange(len(A)), leave_out)
    if len(rows) > MAX_ENTITIES:
        rows = np.sort(rng.choice(rows, MAX_ENTITIES, replace=False))
    X = A[rows].astype(np.float64)
    n, r = X.shape
    if n < 2 or not np.ptp(X, axis=0).any():
        return None
    best, lowest = None, np.inf
    for n_groups in range(1, max(1, min(MAX_GROUPS, n // (ENTITIES_PER_COMPONENT * r))) + 1):
        mixture = _fit_mixture(X, n_groups, rng)
        criterion = (n_groups * r + n_groups - 1) * np.log(n) - 2 * mixture.log_likelihood
        if criterion >= lowest:
            break
        best, lowest = mixture, criterion
    assert best is not None
    return EntityPrior(best.means, np.log(best.weights), np.linalg.inv(best.covariance))


def _fit_mixture(X: Matrix, n_groups: int, rng: np.random.Generator) -> _Mixture:
    """Expectation maximisation from k-means."""
    responsibility: Matrix = np.eye(n_groups)[_kmeans(X, n_groups, rng)]
    for _ in range(EM_STEPS if n_groups > 1 else 1):
        mixture, responsibility = _em_step(X, responsibility)
    return mixture


def _em_step(X: Matrix, responsibility: Matrix) -> tuple[_Mixture, Matrix]:
    n, r = X.shape
    counts = responsibility.sum(axis=0) + np.finfo(np.float64).tiny
    means = responsibility.T @ X / counts[:, None]
    scatter = X.T @ X - (means * counts[:, None]).T @ means
    floor = MIN_VARIANCE * X.var(axis=0).mean()
    covariance = (scatter + np.trace(scatter) / n * np.eye(r)) / (n + r) + floor * np.eye(r)
    L = np.linalg.cholesky(covariance)
    Z, M = (solve_triangular(L, rows.T, lower=True).T for rows in (X, means))
    distances = _squared_distances(Z, M)
    weights = np.maximum(counts / n, 1e-12)
    joint = np.log(weights) - distances / 2 - np.log(np.diag(L)).sum() - r / 2 * np.log(2 * np.pi)
    total = np.logaddexp.reduce(joint, axis=1)
    return _Mixture(float(total.sum()), means, weights, covariance), np.exp(joint - total[:, None])


def _kmeans(X: Matrix, n_groups: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The group of each row: the best of a few runs of Lloyd's algorithm from k-means++ starts."""
    best, lowest = np.zeros(len(X), np.int64), np.inf
    for _ in range(RESTARTS if n_groups > 1 else 0):
        centres = X[rng.integers(len(X), size=1)]
        while len(centres) < n_groups:
            nearest = _squared_distances(X, centres).min(axis=1)
            if not nearest.any():
                break
            centres = np.vstack([centres, X[rng.choice(len(X), p=nearest / nearest.sum())]])
        for _ in range(KMEANS_STEPS):
            distances = _squared_distances(X, centres)
            labels = distances.argmin(axis=1)
            centres = np.stack([X[labels == label].mean(axis=0) for label in np.unique(labels)])
        if (inertia := float(distances.min(axis=1).sum())) < lowest:
            best, lowest = labels, inertia
    return best


def _squared_distances(X: Matrix, centres: Matrix) -> Matrix:
    """Squared distance of each row to each centre, (n, G)."""
    products = X @ centres.T
    distances: Matrix = np.sum(X * X, axis=1)[:, None] - 2 * products + np.sum(centres * centres, axis=1)
    return np.maximum(distances, 0)
