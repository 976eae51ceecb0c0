"""Arrays in this machine's memory, and the few operations on them that are no operators.

`Host` and `device.Device` have the same members, so that what is said in terms of them runs on either.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices, Vector, product

ROOM = 1 << 25  # scores that are held at once
FAST = {"contract", "reassoc", "nsz"}


def dot(a: Vector, b: Vector) -> float:
    """a · b in float64: a line search compares objectives that differ in the seventh digit."""
    return float(_dot64(a.reshape(-1), b.reshape(-1)))


class Products:
    """Rows sorted by relation, times the matrix of their relation."""

    def __init__(self, bounds: Ids):
        self.bounds = bounds  # (K + 1,) where the rows of each relation begin

    def times(self, X: Matrix, R: Slices, turned: bool) -> Matrix:
        """Each row times R_k, or R_kᵀ."""
        out = np.empty_like(X)
        _times(X, R, self.bounds, turned, out)
        return out

    def add_outer(self, X: Matrix, Y: Matrix, dR: Slices) -> None:
        """Add Σ x yᵀ over the rows of each relation to dR_k."""
        _add_outer(X, Y, self.bounds, dR)


class Sums:
    """Weighted sums of rows of a matrix, by segments of an index: a sparse matrix times a dense one."""

    def __init__(self, starts: Ids, index: Ids, weights: Vector):
        self.starts, self.index, self.weights = starts, index, weights  # (g + 1,), (n,), (n,)

    def __call__(self, X: Matrix, weights: Vector | None = None) -> Matrix:
        """Σ w x over each segment, (g, r); with other weights, if given."""
        out = np.zeros((len(self.starts) - 1, X.shape[1]), X.dtype)
        _add_sums(X, self.starts, self.index, self.weights if weights is None else weights, out)
        return out


class Host:
    """NumPy and Numba."""

    def __init__(self, dtype: Any = np.float32):
        self.dtype = np.dtype(dtype)

    def guarded(self) -> AbstractContextManager[Any]:
        """What is too large for this machine is refused before it begins."""
        return nullcontext()

    def place(self, x: NDArray[Any]) -> Any:
        """An array where the work is done: numbers in the type of the work, indices as they are."""
        return np.ascontiguousarray(x, self.dtype) if np.issubdtype(x.dtype, np.floating) else x

    def fetch(self, x: Any) -> NDArray[Any]:
        """The array in this machine's memory."""
        return x  # type: ignore[no-any-return]

    def zeros(self, shape: tuple[int, ...], like: Vector) -> Any:
        """Zeros of the type of another array."""
        return np.zeros(shape, like.dtype)

    def eps(self, x: Vector) -> float:
        """The spacing of its numbers at 1."""
        return float(np.finfo(x.dtype).eps)

    def contiguous(self, x: Any) -> Any:
        """The array in one piece."""
        return np.ascontiguousarray(x)

    def products(self, bounds: Ids) -> Products:
        """Products by relation, for rows in this order."""
        return Products(bounds)

    def sums(self, starts: Ids, index: Ids, weights: Vector) -> Sums:
        """Sums by segments of this index."""
        return Sums(starts, index, self.place(weights))

    def dot(self, a: Vector, b: Vector) -> float:
        """a · b in float64."""
        return dot(a, b)

    def product(self, x: Matrix, y: Matrix) -> Matrix:
        """x y."""
        return x @ y

    def narrow(self, x: Any) -> Any:
        """An array of the work in the type of the work."""
        return x.astype(self.dtype, copy=False)

    def widened(self, x: Any) -> Any:
        """An array of the work in float64."""
        return x.astype(np.float64)

    def wide(self, x: NDArray[Any]) -> Any:
        """An array of float64 where the work is done."""
        return np.asarray(x, np.float64)

    def gram(self, A: Matrix) -> Matrix:
        """AᵀA in float64, in this machine's memory."""
        return product(A, A)

    def softmax(self, S: Matrix) -> tuple[Matrix, Vector]:
        """The softmax along the last axis, S being used up, and log Σ exp there, in float64."""
        most = S.max(axis=-1, keepdims=True)
        S -= most
        np.exp(S, out=S)
        sums = S.sum(axis=-1, dtype=np.float64)
        S /= sums[..., None].astype(S.dtype)
        return S, most[..., 0] + np.log(sums)

    def attend(self, Q: Matrix, A: Matrix, c: Matrix, hidden: tuple[Ids, Ids]) -> tuple[float, Matrix, Matrix]:
        """With P = softmax(Q Aᵀ) along rows, hidden cells left out: Σ c log Σ exp, P A and Pᵀ diag(c) Q."""
        logs, dQ, dA = np.empty(len(Q)), np.empty_like(Q), np.zeros_like(A)
        step = max(1, ROOM // len(A))
        for low in range(0, len(Q), step):
            here = slice(low, low + step)
            S = Q[here] @ A.T
            first, last = np.searchsorted(hidden[0], (low, low + len(S)))
            S[hidden[0][first:last] - low, hidden[1][first:last]] = -np.inf
            P, logs[here] = self.softmax(S)
            np.matmul(P, A, out=dQ[here])
            dA += P.T @ (c[here] * Q[here])
        return self.dot(c[:, 0], logs), dQ, dA

    def two_loops(self, S: Matrix, Y: Matrix, curvature: Vector, newest_first: Ids, q: Vector) -> None:
        """L-BFGS: turn a gradient into a direction in place (Nocedal & Wright, algorithm 7.4)."""
        _two_loops(S, Y, curvature, newest_first, q)

    def adam(self, x: Vector, mean: Vector, square: Vector, g: Vector, rate: float, fades: tuple[float, float]) -> None:
        """Adam's update in place; fades: of the memories of g and of its square."""
        numbers = np.array([0.0, rate, *fades, TINY], x.dtype)
        adam_update(x, mean, square, g[None], *numbers)


TINY = 1e-8


@njit(nogil=True, cache=True)
def _times(X, R, bounds, turned, out):  # type: ignore[no-untyped-def]
    for k in range(len(R)):
        low, high = bounds[k], bounds[k + 1]
        if high > low:
            R_k = np.ascontiguousarray(R[k].T) if turned else np.ascontiguousarray(R[k])
            out[low:high] = np.dot(X[low:high], R_k)


@njit(nogil=True, cache=True)
def _add_outer(X, Y, bounds, dR):  # type: ignore[no-untyped-def]
    for k in range(len(dR)):
        low, high = bounds[k], bounds[k + 1]
        if high > low:
            dR[k] += np.dot(np.ascontiguousarray(X[low:high].T), Y[low:high])


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_sums(X, starts, index, weights, out):  # type: ignore[no-untyped-def]
    for g in range(len(out)):
        for f in range(starts[g], starts[g + 1]):
            out[g] += weights[f] * X[index[f]]


@njit(inline="always", fastmath=FAST)
def _dot_inlined(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def _dot64(a, b):  # type: ignore[no-untyped-def]
    return _dot_inlined(a, b)


@njit(inline="always", fastmath=FAST)
def _add_and_dot(q, factor, y, s):  # type: ignore[no-untyped-def]
    """q ← q + factor · y, and s · q of the new q, in one pass: the vectors are longer than the cache."""
    c = q.dtype.type(factor)
    total = 0.0
    for i in range(len(q)):
        q[i] += c * y[i]
        total += np.float64(s[i]) * np.float64(q[i])
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def _two_loops(S, Y, curvature, newest_first, q):  # type: ignore[no-untyped-def]
    m = len(newest_first)
    alpha = np.empty(m)
    newest, oldest = newest_first[0], newest_first[m - 1]
    product = _dot_inlined(S[newest], q)
    for place in range(m):
        pair = newest_first[place]
        alpha[place] = product / curvature[pair]
        following = S[newest_first[place + 1]] if place + 1 < m else q
        product = _add_and_dot(q, -alpha[place], Y[pair], following)
    q *= q.dtype.type(curvature[newest] / _dot_inlined(Y[newest], Y[newest]))
    product = _dot_inlined(Y[oldest], q)
    for place in range(m - 1, -1, -1):
        pair = newest_first[place]
        following = Y[newest_first[place - 1]] if place > 0 else q
        product = _add_and_dot(q, alpha[place] - product / curvature[pair], S[pair], following)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"})
def adam_update(x, mean, square, parts, l2, rate, momentum, memory, tiny):  # type: ignore[no-untyped-def]
    """One pass over everything: the arrays are longer than the cache."""
    one = x.dtype.type(1)
    for i in range(len(x)):
        g = l2 * x[i]
        for part in range(len(parts)):
            g += parts[part, i]
            parts[part, i] = 0
        mean[i] = momentum * mean[i] + (one - momentum) * g
        square[i] = memory * square[i] + (one - memory) * g * g
        x[i] -= rate * mean[i] / (np.sqrt(square[i]) + tiny)
