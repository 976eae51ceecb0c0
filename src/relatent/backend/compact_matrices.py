"""Relation matrices R_k by the numbers that make them up, with NumPy or PyTorch arrays.

The number of dimensions of the parameters P of all relations tells what they are:

    (K, r, r)         whole matrices
    (K, r)            complex: R_k = [[diag x, diag y], [−diag y, diag x]] for the halves x and y of a row
    (K, r/b, b, b)    blocks of b × b on the diagonal

Products cost what the parameters cost: nothing of size K·r² is held, and no zero is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MAX_NUMBERS = 1 << 26  # of products of rows that are held at once
MAX_ROW_NUMBERS = 1 << 25  # of rows whose cubes are held at once


def expanded(P: Any, zeros: Any = None) -> Any:
    """Whole matrices (K, r, r); `zeros` makes an array of a shape on the device of P, by default with NumPy."""
    if P.ndim == 3:
        return P
    make = (lambda shape: np.zeros(shape, P.dtype)) if zeros is None else zeros
    if P.ndim == 4:
        k, m, b, _ = P.shape
        R, at = make((k, m, b, m, b)), np.arange(m)
        R[:, at, :, at, :] = P.swapaxes(0, 1)
        return R.reshape(k, m * b, m * b)
    k, r = P.shape
    d, R = r // 2, make((k, r, r))
    first, second = np.arange(d), np.arange(d, r)
    R[:, first, first] = R[:, second, second] = P[:, :d]
    R[:, first, second] = P[:, d:]
    R[:, second, first] = -P[:, d:]
    return R


def contracted(dR: Any, out: Any) -> Any:
    """The derivatives in the parameters, in `out`, from those in whole matrices."""
    if out.ndim == 3:
        out[:] = dR
    elif out.ndim == 4:
        k, m, b, _ = out.shape
        at = np.arange(m)
        out[:] = dR.reshape(k, m, b, m, b)[:, at, :, at, :].swapaxes(0, 1)
    else:
        d = out.shape[1] // 2
        first, second = np.arange(d), np.arange(d, 2 * d)
        out[:, :d] = dR[:, first, first] + dR[:, second, second]
        out[:, d:] = dR[:, first, second] - dR[:, second, first]
    return out


def transposed(P: Any) -> Any:
    """The parameters of R_kᵀ."""
    if P.ndim > 2:
        return P.swapaxes(-2, -1)
    P = P + 0
    P[:, P.shape[1] // 2 :] *= -1
    return P


def make_symmetric(P: Any, relations: Sequence[int]) -> Any:
    """The parameters with (R_k + R_kᵀ) / 2 in place of some R_k; changes P."""
    if len(relations):
        part = P[list(relations)]
        P[list(relations)] = (part + transposed(part)) / 2
    return P


def times(X: Any, p: Any) -> Any:
    """The rows of X times R_k, for the parameters p of one relation."""
    if p.ndim == 2:
        return X @ p
    if p.ndim == 1:
        return rows_times(X, p[None])
    m, b, _ = p.shape
    return (X.reshape(-1, m, b).swapaxes(0, 1) @ p).swapaxes(0, 1).reshape(-1, m * b)


def outer(X: Any, Y: Any, like: Any) -> Any:
    """Σ x yᵀ over rows, as the derivatives in parameters such as `like`, those of one relation."""
    if like.ndim == 2:
        return X.T @ Y
    if like.ndim == 3:
        m, b, _ = like.shape
        X, Y = (rows.reshape(-1, m, b) for rows in (X, Y))
        return X.swapaxes(0, 1).swapaxes(1, 2) @ Y.swapaxes(0, 1)
    return row_products(X, Y, like).sum(0)


def rows_times(X: Any, p: Any, *, back: bool = False) -> Any:
    """Each row times its own compact matrix, or its transpose; p has the parameters per row, or those of one matrix."""
    if p.ndim == 2:
        d = p.shape[1] // 2
        x, y = p[:, :d], -p[:, d:] if back else p[:, d:]
        a, b, out = X[:, :d], X[:, d:], 0 * X
        out[:, :d] = a * x - b * y
        out[:, d:] = a * y + b * x
        return out
    m, b = p.shape[1:3]
    return (X.reshape(-1, m, b)[..., None] * (transposed(p) if back else p)).sum(2).reshape(-1, m * b)


def row_products(X: Any, Y: Any, like: Any) -> Any:
    """φ(x, y) of each pair of rows: xᵀ R_k y = φ · p for the compact parameters p; in the shape of `like`, per row."""
    if like.ndim == 3:
        m, b, _ = like.shape
        return X.reshape(-1, m, b)[..., None] * Y.reshape(-1, m, b)[:, :, None]
    d, out = like.shape[0] // 2, 0 * X
    a, b, u, v = X[:, :d], X[:, d:], Y[:, :d], Y[:, d:]
    out[:, :d] = a * u + b * v
    out[:, d:] = a * v - b * u
    return out


def times_each(X: Any, P: Any) -> Any:
    """Each row times each R_k, (n, K, r)."""
    n, r = X.shape
    if P.ndim == 3:
        return (X @ _side_by_side(P)).reshape(n, -1, r)
    if P.ndim == 4:
        k, m, b, _ = P.shape
        together = X.reshape(n, m, b).swapaxes(0, 1) @ P.transpose(1, 2, 0, 3).reshape(m, b, k * b)
        return together.reshape(m, n, k, b).transpose(1, 2, 0, 3).reshape(n, k, r)
    d, out = r // 2, np.empty((n, *P.shape), X.dtype)
    a, b, x, y = X[:, None, :d], X[:, None, d:], P[:, :d], P[:, d:]
    out[..., :d] = a * x - b * y
    out[..., d:] = a * y + b * x
    return out


def times_each_back(Y: Any, P: Any) -> Any:
    """Σ_k y_k R_kᵀ of each row of Y, (n, K, r), which is (n, r)."""
    n, k, r = Y.shape
    if P.ndim == 3:
        return Y.reshape(n, -1) @ _side_by_side(P).T
    if P.ndim == 4:
        m, b = P.shape[1:3]
        by_block = Y.reshape(n, k, m, b).transpose(2, 0, 1, 3).reshape(m, n, k * b)
        return (by_block @ P.transpose(1, 0, 3, 2).reshape(m, k * b, b)).swapaxes(0, 1).reshape(n, r)
    d = r // 2
    u, v, x, y = Y[..., :d], Y[..., d:], P[:, :d], P[:, d:]
    return np.concatenate([(u * x + v * y).sum(1), (v * x - u * y).sum(1)], axis=1)


def outer_each(X: Any, Y: Any, like: Any) -> Any:
    """Σ x y_kᵀ over rows, as the derivatives in parameters such as `like`, those of all relations."""
    n, k, r = Y.shape
    if like.ndim == 3:
        return (X.T @ Y.reshape(n, -1)).reshape(r, k, r).transpose(1, 0, 2)
    if like.ndim == 4:
        m, b = like.shape[1:3]
        by_block = Y.reshape(n, k, m, b).transpose(2, 0, 1, 3).reshape(m, n, k * b)
        found = X.reshape(n, m, b).transpose(1, 2, 0) @ by_block
        return found.reshape(m, b, k, b).transpose(2, 0, 1, 3)
    d = r // 2
    a, b, u, v = X[:, None, :d], X[:, None, d:], Y[..., :d], Y[..., d:]
    return np.concatenate([(a * u + b * v).sum(0), (a * v - b * u).sum(0)], axis=1)


def _side_by_side(R: Any) -> Any:
    """Whole matrices as one, (r, K r)."""
    k, r, _ = R.shape
    return R.transpose(1, 0, 2).reshape(r, k * r)


def squared_moduli(X: Any) -> Any:
    """|x|² of the complex numbers whose real and imaginary parts are the halves of each row."""
    d = X.shape[1] // 2
    return X[:, :d] ** 2 + X[:, d:] ** 2


def add_cubes(x: Any, counts: Any, weight: float, dx: Any, dot: Callable[[Any, Any], Any], *, paired: bool) -> Any:
    """Add the derivatives of weight Σ count |x|³ to dx, and return the sum; see `Backend.add_cubes`."""
    total, step = 0.0, max(1, MAX_ROW_NUMBERS // x.shape[1])
    for here in (slice(low, low + step) for low in range(0, len(x), step)):
        size = _moduli(x[here]) if paired else abs(x[here])
        slope = 3 * weight * counts[here] * x[here] * size
        dx[here] += slope
        total += dot(x[here], slope) / 3
    return total


def _moduli(X: Any) -> Any:
    """|x| of the complex numbers of each row, in both halves of it."""
    squared, d = 0 * X, X.shape[1] // 2
    squared[:, :d] = squared[:, d:] = squared_moduli(X)
    return squared**0.5
