"""Facts and unobserved cells of tensors: an array (N, N, K), or K sparse N × N matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ..arrays import Triples
from ..errors import DataError


class TensorCells(NamedTuple):
    """The ones and the NaNs of a tensor."""

    n_entities: int
    n_relations: int
    facts: Triples  # (n, 3)
    unobserved: Triples  # (m, 3)


def cells_of_tensor(x: ArrayLike | Sequence[sp.spmatrix]) -> TensorCells:
    """The cells of a tensor of 0, 1 and NaN."""
    if isinstance(x, (list, tuple)) and any(sp.issparse(matrix) for matrix in x):
        return _sparse_cells(x)
    return _dense_cells(np.asarray(x))


def _dense_cells(x: NDArray[Any]) -> TensorCells:
    if x.ndim != 3 or x.shape[0] != x.shape[1]:
        raise DataError(f"a tensor must have shape (N, N, K), got {x.shape}")
    if x.dtype.kind not in "biuf":
        raise DataError(f"a tensor must hold numbers, got values of type {x.dtype}")
    unobserved = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    ones = x == 1
    wrong = ~(unobserved | ones | (x == 0))
    if wrong.any():
        i, j, k = np.argwhere(wrong)[0].tolist()
        raise _wrong_value(x[i, j, k], (i, j, k))
    return TensorCells(x.shape[0], x.shape[2], np.argwhere(ones)[:, [0, 2, 1]], np.argwhere(unobserved)[:, [0, 2, 1]])


def _sparse_cells(slices: Sequence[sp.spmatrix]) -> TensorCells:
    n = next(matrix.shape[0] for matrix in slices if sp.issparse(matrix))
    facts, unobserved = [], []
    for k, matrix in enumerate(slices):
        if not sp.issparse(matrix) or matrix.shape != (n, n):
            got = f"{type(matrix).__name__} {getattr(matrix, 'shape', '')}"
            raise DataError(f"slice {k} must be a sparse {n} × {n} matrix, got {got}")
        if matrix.dtype.kind not in "biuf":
            raise DataError(f"slice {k} must hold numbers, got values of type {matrix.dtype}")
        summed = matrix.tocsr(copy=True)
        summed.sum_duplicates()  # a CSR matrix may store a cell twice
        coo = summed.tocoo()
        values = coo.data
        is_nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        wrong = ~(is_nan | (values == 1) | (values == 0))
        if wrong.any():
            position = int(np.argmax(wrong))
            raise _wrong_value(values[position], (coo.row[position], coo.col[position], k))
        cells = np.stack([coo.row, np.full(len(values), k), coo.col], axis=1)
        facts.append(cells[values == 1])
        unobserved.append(cells[is_nan])
    return TensorCells(n, len(slices), np.concatenate(facts), np.concatenate(unobserved))


def _wrong_value(value: Any, place: tuple[int, int, int]) -> DataError:
    i, j, k = place
    return DataError(
        f"a tensor holds 0, 1 and NaN (unobserved), got {value} at [{i}, {j}, {k}]; "
        "pass weights to Facts.from_arrays(weights=…)"
    )
