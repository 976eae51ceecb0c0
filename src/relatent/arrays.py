"""Array types for signatures, and a matrix product that accumulates in float64."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.floating[Any]]  # (N, r), or any floating array
Vector: TypeAlias = NDArray[np.floating[Any]]  # (n,)
Slices: TypeAlias = NDArray[np.floating[Any]]  # (K, r, r)
Ids: TypeAlias = NDArray[np.integer[Any]]  # (n,)
Triples: TypeAlias = NDArray[np.integer[Any]]  # (n, 3): subject, relation, object
Mask: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]  # of a backend: NumPy's, or a PyTorch tensor where only what both have is used

ROWS_PER_BLOCK = 1 << 15  # rows converted to float64 at a time


def product(A: Matrix, B: Matrix) -> Matrix:
    """AᵀB in float64: A (N, r) tall and thin, B (N, s) or a stack (m, N, s)."""
    if A.dtype == np.float64 and B.dtype == np.float64:
        return np.matmul(A.T, B)  # type: ignore[no-any-return]
    total = np.zeros((*B.shape[:-2], A.shape[1], B.shape[-1]))
    for low in range(0, len(A), ROWS_PER_BLOCK):
        rows = slice(low, low + ROWS_PER_BLOCK)
        total += np.matmul(A[rows].astype(np.float64).T, B[..., rows, :].astype(np.float64))
    return total


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view, like the arrays of `Facts` and Arrow, so that kernels are compiled for one array type only."""
    view = array.view()
    view.flags.writeable = False
    return view
