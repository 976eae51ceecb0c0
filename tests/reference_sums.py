"""Slow, plain versions of every sum of `relatent.cells`: N × N arrays in float64, which fast sums are compared with."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from relatent.arrays import Matrix, Slices, Vector
from relatent.cells.cell_sum import CellFunction, Reduction
from relatent.data.dense_tensors import dense_tensors
from relatent.data.facts import Facts


def logistic(facts: Facts, A: Matrix, R: Slices, b: Vector) -> Reduction:
    """Σ over observed cells w · [softplus(θ) − x θ], with its derivatives."""
    return cellwise(lambda x, t: (np.logaddexp(0, t) - x * t, expit(t) - x), facts, A, R, b)


def cellwise(loss: CellFunction, facts: Facts, A: Matrix, R: Slices, b: Vector) -> Reduction:
    """Σ over observed cells w · loss(x, θ), with its derivatives; x is how often a fact was seen."""
    A, R, b = (np.asarray(array, np.float64) for array in (A, R, b))
    X, W = dense_tensors(facts)
    if facts.times is not None:
        s, k, o = facts.triples.T
        X[k, s, o] = facts.times
    values, slopes = loss(X, _scores(A, R, b))
    return Reduction(float(np.sum(W * values)), *_gradient(W * slopes, A, R))


def softmax(
    facts: Facts,
    A: Matrix,
    R: Slices,
    b: Vector,
    relation_weight: float = 0.0,
    answer_weights: tuple[Vector, Vector] | None = None,
) -> Reduction:
    """Σ over facts −log of the softmax over objects, over subjects and, weighted, over relations."""
    A, R, b = (np.asarray(array, np.float64) for array in (A, R, b))
    _, W = dense_tensors(facts)
    T = _scores(A, R, np.zeros_like(b))
    rivals = np.where(W > 0, T, -np.inf)  # unobserved cells do not compete
    value, D = 0.0, np.zeros_like(T)
    objects, subjects = answer_weights or (np.ones(len(A)), np.ones(len(A)))
    for (s, k, o), w in zip(facts.triples.tolist(), facts.confidences.tolist(), strict=True):
        for weight, line in (
            (w * objects[o], (k, s, slice(None))),
            (w * subjects[s], (k, slice(None), o)),
            (w * relation_weight, (slice(None), s, o)),
        ):
            if weight:
                total = np.logaddexp.reduce(rivals[line])
                value += weight * (total - T[k, s, o])
                D[line] += weight * np.exp(rivals[line] - total)
                D[k, s, o] -= weight
    dA, dR, _ = _gradient(D, A, R)
    return Reduction(value, dA, dR, np.zeros_like(b))


def categorical(facts: Facts, A: Matrix, R: Slices, b: Vector) -> Reduction:
    """Σ over pairs −log of the softmax over relations and "none", pair by pair, with its derivatives."""
    A, R, b = (np.asarray(array, np.float64) for array in (A, R, b))
    X, W = dense_tensors(facts)
    T = _scores(A, R, b)
    value, D = 0.0, np.zeros_like(T)
    for i, j in np.ndindex(T.shape[1:]):
        t, x, w = T[:, i, j], X[:, i, j], W[:, i, j]
        total = np.logaddexp.reduce([0.0, *t])
        share = np.exp(t - total)
        if np.any(x * w):
            for k in np.flatnonzero(x * w):
                value += w[k] * (total - t[k])
                D[:, i, j] += w[k] * (share - np.eye(len(t))[k])
        else:
            possible = np.logaddexp.reduce([0.0, *t[w == 0]])
            value += total - possible
            D[:, i, j] = share - np.where(w == 0, np.exp(t - possible), 0)
    return Reduction(value, *_gradient(D, A, R))


def _scores(A: Matrix, R: Slices, b: Vector) -> Slices:
    """θ of every cell, (K, N, N)."""
    return A @ R @ A.T + b[:, None, None]


def _gradient(D: Slices, A: Matrix, R: Slices) -> tuple[Matrix, Slices, Vector]:
    """The derivatives in A, R and b from those in θ."""
    D_t, R_t = D.transpose(0, 2, 1), R.transpose(0, 2, 1)
    return (D @ A @ R_t + D_t @ A @ R).sum(axis=0), A.T @ D @ A, D.sum(axis=(1, 2))


def squared(facts: Facts, A: Matrix, R: Slices) -> float:
    """Σ over observed cells w · (x − θ)²."""
    slices = zip(*dense_tensors(facts), strict=True)
    return float(sum(np.sum(W * (X - A @ R[k] @ A.T) ** 2) for k, (X, W) in enumerate(slices)))
