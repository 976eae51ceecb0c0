"""Sums over all cells that reduce to products of r × r matrices and make least squares linear in the facts.

    Σ_ij θ_ij² = tr(R_kᵀ G R_k G),   G = AᵀA

Gram matrices and totals are float64 whatever the type of A: with millions of entities float32 loses the difference of
two such sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Matrix, Slices, product

__all__ = ["Quadratic", "inverse", "product", "quadratic"]


class Quadratic(NamedTuple):
    """Sums over all cells of a stack of relations."""

    sum_of_squares: float  # Σ_k Σ_ij θ_ijk²
    normal: Matrix  # Σ_k R_k G R_kᵀ + R_kᵀ G R_k, (r, r)


def quadratic(R: Slices, G: Matrix) -> Quadratic:
    """Σ θ² over all cells of the relations, and the matrix of the normal equations for A."""
    R_t = R.swapaxes(1, 2)  # a method of NumPy and of PyTorch
    backward = (R_t @ G @ R).sum(axis=0)
    return Quadratic(float((backward * G).sum()), (R @ G @ R_t).sum(axis=0) + backward)


def inverse(E: Matrix, l2: float) -> Matrix:
    """(E + l2 I)⁻¹ for symmetric E ≥ 0; the pseudo-inverse if that is singular."""
    values, U = np.linalg.eigh(E)
    values = np.maximum(values, 0) + l2
    usable = values > values.max(initial=0) * np.finfo(np.float64).eps * len(values)
    return U @ (np.divide(1, values, out=np.zeros_like(values), where=usable)[:, None] * U.T)  # type: ignore[no-any-return]
