"""Products with R_k inside compiled kernels, by the dimensions of its parameters (`backend.compact_matrices`).

Numba compiles the branch that the number of dimensions selects: a matrix R_k (2), a complex one (1) or blocks (3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload


def times(X: Any, R_k: Any, Y: Any) -> None:
    """Y = X R_k."""
    raise NotImplementedError("for kernels only")


def add_outer(X: Any, dQ: Any, dR_k: Any, product: Any) -> None:
    """Add the derivatives in R_k, Xᵀ dQ, or those in its parameters; `product` is work space like dR_k."""
    raise NotImplementedError("for kernels only")


@overload(times, jit_options={"fastmath": True})
def _times(X, R_k, Y):  # type: ignore[no-untyped-def]
    def full(X, R_k, Y):  # type: ignore[no-untyped-def]
        np.dot(X, R_k, Y)

    def complex_(X, R_k, Y):  # type: ignore[no-untyped-def]
        d = X.shape[1] // 2
        for row in range(len(X)):
            for p in range(d):
                a, b, x, y = X[row, p], X[row, p + d], R_k[p], R_k[p + d]
                Y[row, p] = a * x - b * y
                Y[row, p + d] = a * y + b * x

    def blocks(X, R_k, Y):  # type: ignore[no-untyped-def]
        m, size, _ = R_k.shape
        for row in range(len(X)):
            for block in range(m):
                low = block * size
                for q in range(size):
                    total = X.dtype.type(0)
                    for p in range(size):
                        total += X[row, low + p] * R_k[block, p, q]
                    Y[row, low + q] = total

    return {1: complex_, 2: full, 3: blocks}[R_k.ndim]


@overload(add_outer, jit_options={"fastmath": True})
def _add_outer(X, dQ, dR_k, product):  # type: ignore[no-untyped-def]
    def full(X, dQ, dR_k, product):  # type: ignore[no-untyped-def]
        np.dot(X.T, dQ, product)
        dR_k += product

    def complex_(X, dQ, dR_k, product):  # type: ignore[no-untyped-def]
        d = X.shape[1] // 2
        for row in range(len(X)):
            for p in range(d):
                a, b, u, v = X[row, p], X[row, p + d], dQ[row, p], dQ[row, p + d]
                dR_k[p] += a * u + b * v
                dR_k[p + d] += a * v - b * u

    def blocks(X, dQ, dR_k, product):  # type: ignore[no-untyped-def]
        m, size, _ = dR_k.shape
        for row in range(len(X)):
            for block in range(m):
                low = block * size
                for p in range(size):
                    for q in range(size):
                        dR_k[block, p, q] += X[row, low + p] * dQ[row, low + q]

    return {1: complex_, 2: full, 3: blocks}[dR_k.ndim]
