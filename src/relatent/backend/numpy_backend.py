"""The backend of NumPy arrays; loops are compiled by Numba."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any, TypeVar

import numba
import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from ..arrays import ROWS_PER_BLOCK, Array, Ids, Matrix, Slices, Vector, product
from . import compact_matrices as compact
from . import memory
from .protocol import ADAM_EPSILON

MAX_SCORES = 1 << 25  # scores held at once
BLOCK_NUMBERS = 1 << 17  # updated at once
MIN_PARALLEL_NUMBERS = 1 << 21  # fewer are updated before a second thread has started
FAST = {"contract", "reassoc", "nsz"}

T = TypeVar("T")


def dot(a: Vector, b: Vector) -> float:
    """a · b in float64: a line search compares objectives that differ in the seventh digit."""
    return float(_dot64(a.reshape(-1), b.reshape(-1)))


class NumpyRelationProducts:
    """Rows sorted by relation, multiplied by the matrix of their relation."""

    def __init__(self, bounds: Ids):
        edges = pairwise(bounds.tolist())  # (K + 1,) where the rows of each relation begin
        self._filled = [(k, slice(low, high)) for k, (low, high) in enumerate(edges) if high > low]

    def times(self, X: Matrix, R: Slices, transposed: bool) -> Matrix:
        out = np.empty_like(X)
        R = compact.transposed(R) if transposed else R
        for k, rows in self._filled:
            out[rows] = compact.times(X[rows], R[k])
        return out

    def add_outer(self, X: Matrix, Y: Matrix, dR: Slices) -> None:
        for k, rows in self._filled:
            dR[k] += compact.outer(X[rows], Y[rows], dR[k])


class NumpySegmentSums:
    """Weighted sums of rows of a matrix over the segments of an index."""

    def __init__(self, starts: Ids, index: Ids, weights: Vector):
        self.starts, self.index, self.weights = starts, index, weights  # (g + 1,), (n,), (n,)

    def __call__(self, X: Matrix, weights: Vector | None = None) -> Matrix:
        out = np.zeros((len(self.starts) - 1, X.shape[1]), X.dtype)
        _add_sums(X, self.starts, self.index, self.weights if weights is None else weights, out)
        return out

    def add_to(self, out: Matrix, X: Matrix, scale: float = 1.0) -> None:
        out += self(X) if scale == 1 else scale * self(X)


class NumpyBackend:
    """NumPy and Numba. `Backend` documents the methods."""

    column_multiple = 1

    def __init__(self, dtype: DTypeLike = np.float32):
        self.dtype = np.dtype(dtype)

    def free_memory(self) -> int | None:
        return memory.available()

    def memory_guard(self) -> AbstractContextManager[Any]:
        """Nothing to guard: a fit that is too large for this machine is refused before it begins."""
        return nullcontext()

    def from_numpy(self, x: NDArray[Any]) -> Array:
        return np.ascontiguousarray(x, self.dtype) if np.issubdtype(x.dtype, np.floating) else x

    def from_numpy_float64(self, x: NDArray[Any]) -> Array:
        return np.asarray(x, np.float64)

    def to_numpy(self, x: Array) -> NDArray[Any]:
        return x

    def to_dtype(self, x: Array) -> Array:
        return x.astype(self.dtype, copy=False)

    def to_float64(self, x: Array) -> Array:
        return x.astype(np.float64)

    def zeros(self, shape: tuple[int, ...], like: Array) -> Array:
        return np.zeros(shape, like.dtype)

    def eps(self, x: Array) -> float:
        return float(np.finfo(x.dtype).eps)

    def contiguous(self, x: Array) -> Array:
        return np.ascontiguousarray(x)

    def relation_products(self, bounds: Ids) -> NumpyRelationProducts:
        return NumpyRelationProducts(bounds)

    def segment_sums(self, starts: Ids, index: Ids, weights: Vector) -> NumpySegmentSums:
        return NumpySegmentSums(starts, index, self.from_numpy(weights))

    def dot(self, a: Array, b: Array) -> float:
        return dot(a, b)

    def deferred_dot(self, a: Array, b: Array) -> float:
        return dot(a, b)

    def rows_times(self, X: Matrix, P: Slices, *, back: bool = False) -> Array:
        return np.asarray(compact.rows_times(X, P, back=back))

    def row_products(self, X: Matrix, Y: Matrix, like: Array) -> Array:
        return np.asarray(compact.row_products(X, Y, like))

    def add_cubes(self, x: Matrix, counts: Matrix, weight: float, dx: Matrix, *, paired: bool) -> float:
        return float(compact.add_cubes(x, counts, weight, dx, dot, paired=paired))

    def matmul(self, x: Matrix, y: Matrix) -> Matrix:
        return x @ y

    def tall_product(self, x: Matrix, y: Matrix) -> Matrix:
        out = np.empty((len(x), y.shape[1]), np.result_type(x, y))
        _in_blocks(lambda block: np.matmul(x[block], y, out=out[block]), len(x), x.shape[1])
        return out

    def gram(self, A: Matrix) -> NDArray[Any]:
        parts = _in_blocks(lambda block: product(A[block], A[block]), len(A), A.shape[1], ROWS_PER_BLOCK)
        return sum(parts, np.zeros((A.shape[1], A.shape[1])))  # in this order, whatever the number of threads

    def softmax(self, S: Matrix) -> tuple[Matrix, Vector]:
        """Softmax along the last axis, overwriting S, and log Σ exp along it in float64."""
        most = S.max(axis=-1, keepdims=True)
        S -= most
        np.exp(S, out=S)
        sums = S.sum(axis=-1, dtype=np.float64)
        S /= sums[..., None].astype(S.dtype)
        return S, most[..., 0] + np.log(sums)

    def softmax_sums(
        self, Q: Matrix, A: Matrix, c: Matrix, excluded: tuple[Ids, Ids], *, accurate: bool = True
    ) -> tuple[float, Matrix, Matrix]:
        logs, dQ, dA = np.empty(len(Q)), np.empty_like(Q), np.zeros_like(A)
        step = max(1, MAX_SCORES // len(A))
        for low in range(0, len(Q), step):
            here = slice(low, low + step)
            S = Q[here] @ A.T
            first, last = np.searchsorted(excluded[0], (low, low + len(S)))
            S[excluded[0][first:last] - low, excluded[1][first:last]] = -np.inf
            P, logs[here] = self.softmax(S)
            np.matmul(P, A, out=dQ[here])
            dA += P.T @ (c[here] * Q[here])
        return self.dot(c[:, 0], logs), dQ, dA

    def lbfgs_direction(self, S: Matrix, Y: Matrix, curvature: Vector, newest_first: Ids, q: Vector) -> None:
        number, newest, oldest = q.dtype.type, newest_first[0], newest_first[-1]
        alphas: list[float] = []
        product = _dot64(S[newest], q)
        for pair, following in zip(newest_first, [*newest_first[1:], oldest], strict=True):
            alphas.append(product / curvature[pair])
            product = _add_and_dot(q, number(-alphas[-1]), Y[pair], S[following])
        q *= number(curvature[newest] / _dot64(Y[newest], Y[newest]))
        product = _dot64(Y[oldest], q)
        for pair, following in zip(newest_first[::-1], [*newest_first[-2::-1], newest], strict=True):
            product = _add_and_dot(q, number(alphas.pop() - product / curvature[pair]), S[pair], Y[following])

    def adam_step(
        self, x: Vector, mean: Vector, square: Vector, g: Vector, rate: float, betas: tuple[float, float]
    ) -> None:
        numbers = np.array([rate, *betas, ADAM_EPSILON], x.dtype)
        _in_blocks(lambda block: _adam_step(x[block], mean[block], square[block], g[block], *numbers), len(x), 1)

    def add_scaled(self, y: Array, c: float, x: Array) -> None:
        def add(block: slice) -> None:
            y[block] += c * x[block]

        _in_blocks(add, len(x), x[:1].size)


def _in_blocks(update: Callable[[slice], T], length: int, width: int, rows: int = 0) -> list[T]:
    """Update arrays of `length` rows in blocks whose temporary arrays fit the cache; large arrays by all threads."""
    rows = rows or max(1, BLOCK_NUMBERS // max(width, 1))
    blocks = [slice(low, low + rows) for low in range(0, length, rows)]
    if length * width < MIN_PARALLEL_NUMBERS:
        return [update(block) for block in blocks]
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        return list(pool.map(update, blocks))


NUMPY_BACKEND = NumpyBackend()  # float32


@njit(nogil=True, cache=True)
def _add_sums(X, starts, index, weights, out):  # type: ignore[no-untyped-def]
    for g in range(len(out)):
        for f in range(starts[g], starts[g + 1]):
            for p in range(X.shape[1]):  # an array expression would take three times as long to compile
                out[g, p] += weights[f] * X[index[f], p]


@njit(nogil=True, cache=True, fastmath=FAST)
def _dot64(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def _add_and_dot(q, c, y, s):  # type: ignore[no-untyped-def]
    """q ← q + c y, and s · q of the new q, in one pass: the vectors are larger than the cache."""
    total = 0.0
    for i in range(len(q)):
        q[i] += c * y[i]
        total += np.float64(s[i]) * np.float64(q[i])
    return total


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp"})
def _adam_step(x, mean, square, gradient, rate, beta1, beta2, epsilon):  # type: ignore[no-untyped-def]
    """One step of Adam in one pass: the arrays are larger than the cache."""
    one = x.dtype.type(1)
    for i in range(len(x)):
        g = gradient[i]
        mean[i] = beta1 * mean[i] + (one - beta1) * g
        square[i] = beta2 * square[i] + (one - beta2) * g * g
        x[i] -= rate * mean[i] / (np.sqrt(square[i]) + epsilon)
