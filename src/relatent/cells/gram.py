"""Sums over all cells that close in r × r matrices: what makes least squares linear in the facts.

    Σ_ij θ_ij² = tr(R_kᵀ G R_k G),   G = AᵀA

Gram matrices and totals are float64 whatever A is: at millions of entities the difference of two such sums is lost
in float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices, Vector

ROWS = 1 << 15  # rows turned into float64 at a time
FAST = {"contract", "reassoc", "nsz"}


def product(A: Matrix, B: Matrix) -> Matrix:
    """AᵀB in float64: A (N, r) long and thin, B (N, s) or a stack (m, N, s)."""
    if A.dtype == np.float64 and B.dtype == np.float64:
        return np.matmul(A.T, B)  # type: ignore[no-any-return]
    total = np.zeros((*B.shape[:-2], A.shape[1], B.shape[-1]))
    for low in range(0, len(A), ROWS):
        total += np.matmul(A[low : low + ROWS].astype(np.float64).T, B[..., low : low + ROWS, :].astype(np.float64))
    return total


class Quadratic(NamedTuple):
    """What the products of a stack of R_k with G give."""

    sum_of_squares: float  # Σ_k Σ_ij θ_ijk²
    normal: Matrix  # Σ_k R_k G R_kᵀ + R_kᵀ G R_k, (r, r)


def quadratic(R: Slices, G: Matrix) -> Quadratic:
    """Σ θ² over all cells of the relations, and the matrix of the normal equations for A."""
    R_t = R.transpose(0, 2, 1)
    backward = (R_t @ G @ R).sum(axis=0)
    return Quadratic(float(np.sum(backward * G)), (R @ G @ R_t).sum(axis=0) + backward)


@njit(nogil=True, cache=True, fastmath=FAST)
def _scores(Q, A, rows, columns, theta):  # type: ignore[no-untyped-def]
    r = A.shape[1]
    for c in range(len(rows)):
        q, a = Q[rows[c]], A[columns[c]]
        total = Q.dtype.type(0)
        for p in range(r):
            total += q[p] * a[p]
        theta[c] = total


def scores(Q: Matrix, A: Matrix, rows: Ids, columns: Ids) -> Vector:
    """q_i · a_j for the cells (rows[c], columns[c])."""
    theta = np.empty(len(rows), A.dtype)
    _scores(np.ascontiguousarray(Q), A, rows, columns, theta)
    return theta


@njit(nogil=True, cache=True, fastmath=FAST)
def _sparse_product(starts, columns, places, values, A, Y):  # type: ignore[no-untyped-def]
    r = A.shape[1]
    for i in range(len(starts) - 1):
        y = Y[i]
        for c in range(starts[i], starts[i + 1]):
            a, v = A[columns[c]], values[places[c]]
            for p in range(r):
                y[p] += v * a[p]


def sparse_product(starts: NDArray[np.int64], columns: Ids, places: Ids, values: Vector, A: Matrix) -> Matrix:
    """X A for X in compressed rows; its value at position c is values[places[c]]."""
    Y = np.zeros((len(starts) - 1, A.shape[1]), A.dtype)
    _sparse_product(starts, columns, places, values, A, Y)
    return Y
