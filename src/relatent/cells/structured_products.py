"""Products with R_k inside compiled kernels, by the structure of its parameters (`model.structure`).

Numba compiles the branch that the number of dimensions selects: a matrix R_k, or the r parameters of a complex one.
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

    return full if R_k.ndim == 2 else complex_


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

    return full if dR_k.ndim == 2 else complex_
