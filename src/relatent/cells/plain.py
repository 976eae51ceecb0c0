"""The slow, obvious twin of every evaluator: N × N arrays, float64, no cleverness. Tests compare with it."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..arrays import Matrix, Slices, Vector
from ..data.facts import Facts
from .reduction import Reduction


def logistic(facts: Facts, A: Matrix, R: Slices, b: Vector) -> Reduction:
    """Σ over observed cells w · [softplus(θ) − x θ], with its derivatives."""
    A, R, b = (np.asarray(array, np.float64) for array in (A, R, b))
    value, dA, dR, db = 0.0, np.zeros_like(A), np.zeros_like(R), np.zeros_like(b)
    for k, (X, W) in enumerate(zip(*dense_tensors(facts), strict=True)):
        T = A @ R[k] @ A.T + b[k]
        D = W * (expit(T) - X)
        value += float(np.sum(W * (np.logaddexp(0, T) - X * T)))
        dA += D @ A @ R[k].T + D.T @ A @ R[k]
        dR[k] = A.T @ D @ A
        db[k] = D.sum()
    return Reduction(value, dA, dR, db)


def squared(facts: Facts, A: Matrix, R: Slices) -> float:
    """Σ over observed cells w · (x − θ)²."""
    slices = zip(*dense_tensors(facts), strict=True)
    return float(sum(np.sum(W * (X - A @ R[k] @ A.T) ** 2) for k, (X, W) in enumerate(slices)))


def dense_tensors(facts: Facts) -> tuple[Matrix, Matrix]:
    """The tensor X of facts and the tensor W of weights (0 where unobserved), both (K, N, N)."""
    X = np.zeros((facts.n_relations, facts.n_entities, facts.n_entities))
    W = np.ones_like(X)
    s, k, o = facts.triples.T
    X[k, s, o] = 1
    if facts.weights is not None:
        W[k, s, o] = facts.weights
    s, k, o = facts.unobserved.T
    W[k, s, o] = 0
    return X, W
