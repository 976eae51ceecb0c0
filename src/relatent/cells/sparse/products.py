"""Scores at listed cells, and sparse times dense products in compressed rows."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arrays import Ids, Matrix, Vector

CellValues: TypeAlias = tuple[Vector, Vector] | None  # values at the listed cells, by subject and by object

FAST = {"contract", "reassoc", "nsz"}


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
def _product(starts, columns, places, values, A, Y):  # type: ignore[no-untyped-def]
    r = A.shape[1]
    for i in range(len(starts) - 1):
        y = Y[i]
        for c in range(starts[i], starts[i + 1]):
            a, v = A[columns[c]], values[places[c]]
            for p in range(r):
                y[p] += v * a[p]


def product(starts: NDArray[np.int64], columns: Ids, places: Ids, values: Vector, A: Matrix) -> Matrix:
    """X A for X in compressed rows; its value at position c is values[places[c]]."""
    Y = np.zeros((len(starts) - 1, A.shape[1]), A.dtype)
    _product(starts, columns, places, values, A, Y)
    return Y
