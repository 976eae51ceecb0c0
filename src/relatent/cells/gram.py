"""Sums over all cells that close in r × r matrices: what makes least squares linear in the facts.

    Σ_ij θ_ij² = tr(R_kᵀ G R_k G),   G = AᵀA

Gram matrices and totals are float64 whatever A is: at millions of entities float32 loses the difference of two such sums.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..arrays import Ids, Matrix, Vector

ROWS = 1 << 15  # rows turned into float64 at a time


def product(A: Matrix, B: Matrix) -> Matrix:
    """AᵀB in float64, for long thin A and B."""
    if A.dtype == np.float64 and B.dtype == np.float64:
        return A.T @ B
    total = np.zeros((A.shape[1], B.shape[1]))
    for low in range(0, len(A), ROWS):
        total += A[low : low + ROWS].astype(np.float64).T @ B[low : low + ROWS].astype(np.float64)
    return total


def sum_of_squares(R_k: Matrix, G: Matrix) -> float:
    """Σ over all cells of relation k of θ²."""
    return float(np.sum((R_k.T @ G @ R_k) * G))


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def scores(Q, A, rows, columns, theta):  # type: ignore[no-untyped-def]
    """theta[c] ← q_i · a_j for the cells (rows[c], columns[c])."""
    r = A.shape[1]
    for c in range(len(rows)):
        q, a = Q[rows[c]], A[columns[c]]
        total = Q.dtype.type(0)
        for p in range(r):
            total += q[p] * a[p]
        theta[c] = total


def theta_at(Q: Matrix, A: Matrix, rows: Ids, columns: Ids) -> Vector:
    """q_i · a_j for some cells."""
    theta = np.empty(len(rows), A.dtype)
    scores(Q, A, rows, columns, theta)
    return theta
