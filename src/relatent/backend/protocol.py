"""`Backend`: the array operations that NumPy and PyTorch share, so that one solver runs on a CPU or on a GPU.

An array of a backend is a NumPy array or a PyTorch tensor; `Array` and the types of `relatent.arrays` stand for both,
and code written against a backend uses only the operators and methods that both have.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Ids, Matrix, Slices, Vector

ADAM_EPSILON = 1e-8  # added to the root of the second moment (Kingma & Ba, 2015)


class RelationProducts(Protocol):
    """Rows sorted by relation, multiplied by the matrix of their relation."""

    def times(self, X: Matrix, R: Slices, transposed: bool) -> Matrix:
        """Each row times R_k, or times R_kᵀ."""

    def add_outer(self, X: Matrix, Y: Matrix, dR: Slices) -> None:
        """Add Σ x yᵀ over the rows of each relation to dR_k."""


class SegmentSums(Protocol):
    """Weighted sums of rows of a matrix over the segments of an index: a sparse matrix times a dense one."""

    def __call__(self, X: Matrix, weights: Vector | None = None) -> Matrix:
        """Σ w x over each segment, (g, r); `weights` replaces the stored weights."""

    def add_to(self, out: Matrix, X: Matrix, scale: float = 1.0) -> None:
        """Add scale · Σ w x of each segment to a row of `out`."""


class Backend(Protocol):
    """Array operations in one floating-point type."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The floating-point type of the arrays."""

    @property
    def column_multiple(self) -> int:
        """Products are fast if the number of columns is a multiple of this."""

    def free_memory(self) -> int | None:
        """Bytes that are free where the arrays are; None if the system does not tell."""

    def memory_guard(self) -> AbstractContextManager[Any]:
        """Within it, running out of device memory raises a FitError that says what to do."""

    def from_numpy(self, x: NDArray[Any]) -> Array:
        """An array of this backend: floating-point numbers in its dtype, indices as integers."""

    def from_numpy_float64(self, x: NDArray[Any]) -> Array:
        """An array of this backend in float64."""

    def to_numpy(self, x: Array) -> NDArray[Any]:
        """The array in this machine's memory."""

    def to_dtype(self, x: Array) -> Array:
        """The array in the dtype of this backend."""

    def to_float64(self, x: Array) -> Array:
        """The array in float64."""

    def zeros(self, shape: tuple[int, ...], like: Array) -> Array:
        """Zeros of the same type as `like`."""

    def eps(self, x: Array) -> float:
        """Machine epsilon of the array's type."""

    def contiguous(self, x: Array) -> Array:
        """The array in contiguous memory."""

    def relation_products(self, bounds: Ids) -> RelationProducts:
        """Products by relation; bounds (K + 1,) says where the rows of each relation begin."""

    def segment_sums(self, starts: Ids, index: Ids, weights: Vector) -> SegmentSums:
        """Sums over the segments starts (g + 1,) of index (n,), with weights (n,)."""

    def dot(self, a: Array, b: Array) -> float:
        """a · b of two arrays of one shape, in float64."""

    def deferred_dot(self, a: Array, b: Array) -> Any:
        """`dot`, as a number that a GPU may not have computed yet: float() waits for it."""

    def rows_times(self, X: Matrix, P: Slices, *, back: bool = False) -> Matrix:
        """Each row times a compact matrix of its own, or the transpose; P has the parameters of each row."""

    def row_products(self, X: Matrix, Y: Matrix, like: Array) -> Slices:
        """φ(x, y) of each pair of rows: xᵀ R_k y = φ · p for compact parameters p, in the shape of `like`, per row."""

    def add_cubes(self, x: Matrix, counts: Matrix, weight: float, dx: Matrix, *, paired: bool) -> Any:
        """Add the derivatives of weight Σ count |x|³ to dx, and return the sum, as `deferred_dot` does.

        counts (m, 1) has a number per row. `paired`: of complex numbers, whose parts are the halves of each row.
        """

    def matmul(self, x: Matrix, y: Matrix) -> Matrix:
        """x y, at the precision of scores."""

    def tall_product(self, x: Matrix, y: Matrix) -> Matrix:
        """x y for x of many rows, in the precision of the arrays."""

    def gram(self, A: Matrix) -> NDArray[Any]:
        """AᵀA in float64, in this machine's memory."""

    def softmax(self, S: Matrix) -> tuple[Matrix, Vector]:
        """Softmax along the last axis, and log Σ exp along it in float64. May overwrite S."""

    def softmax_sums(
        self, Q: Matrix, A: Matrix, c: Matrix, excluded: tuple[Ids, Ids], *, accurate: bool = True
    ) -> tuple[Any, Matrix, Matrix]:
        """With P = softmax(Q Aᵀ) along rows without the excluded (row, column): Σ c log Σ exp, P A and Pᵀ diag(c) Q.

        The first is a number as `deferred_dot` gives it; with `accurate` it is that of unrounded factors.
        """

    def lbfgs_direction(self, S: Matrix, Y: Matrix, curvature: Vector, newest_first: Ids, q: Vector) -> None:
        """Turn the gradient q into the L-BFGS direction in place (Nocedal & Wright, algorithm 7.4)."""

    def adam_step(
        self, x: Vector, mean: Vector, square: Vector, g: Vector, rate: float, betas: tuple[float, float]
    ) -> None:
        """Update x and both moments in place by one step of Adam; betas: decay of the first and second moment."""

    def add_scaled(self, y: Array, c: float, x: Array) -> None:
        """Add c x to y in place, without a temporary array of their size on a CPU."""
