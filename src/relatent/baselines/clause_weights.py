"""Weights of clauses: the logistic likelihood of atoms and its minimum with penalties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..arrays import Ids, Vector

MIN_WEIGHT = 0.01  # clauses that change the odds by less than 1 % are dropped


class Features(NamedTuple):
    """The Δ of the clauses that touch one relation, at the atoms that are looked at."""

    columns: Ids  # (m,) which clauses
    F: Any  # (m, n), an array or a sparse matrix
    x: Vector  # (n,) truth
    c: Vector  # (n,) confidence, 0 for validation cells


def loss_and_gradient(features: Sequence[Features], weights: Vector) -> tuple[float, Vector]:
    """−WPLL = Σ c [softplus(θ) − x θ], and its derivatives by the weights."""
    value, gradient = 0.0, np.zeros(len(weights))
    for part in features:
        theta = weights[part.columns].astype(part.F.dtype) @ part.F
        small = np.exp(-np.abs(theta))
        p = np.where(theta >= 0, 1, small) / (1 + small)
        softplus = np.maximum(theta, 0) + np.log1p(small)
        value += float(np.sum(part.c * (softplus - part.x * theta), dtype=np.float64))
        gradient[part.columns] += part.F @ (part.c * (p - part.x))
    return value, gradient


def learn_weights(
    features: Sequence[Features], weights: Vector, n_units: int, l1: float, l2: float, *, steps: int
) -> tuple[Vector, float]:
    """The best weights from the given ones on, and the penalised objective.

    |w| is smooth where w = v⁺ − v⁻ with v⁺, v⁻ ≥ 0. The unit clauses come first and have no l1 penalty.
    """

    def joined(v: Vector) -> Vector:
        up, down = np.split(v[n_units:], 2)
        w: Vector = np.concatenate([v[:n_units], up - down])
        return w

    def objective(v: Vector) -> tuple[float, Vector]:
        w = joined(v)
        value, gradient = loss_and_gradient(features, w)
        gradient += 2 * l2 * w
        units, rest = gradient[:n_units], gradient[n_units:]
        value += l2 * float(w @ w) + l1 * float(v[n_units:].sum())
        return value, np.concatenate([units, l1 + rest, l1 - rest])

    units, rest = weights[:n_units], weights[n_units:]
    start = np.concatenate([units, np.maximum(rest, 0), np.maximum(-rest, 0)])
    bounds = [(None, None)] * n_units + [(0, None)] * (2 * len(rest))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
    return joined(found.x), float(found.fun)
