"""Checks and conversions of the arrays that `Facts` is built from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ..arrays import Ids, Matrix, Triples, Vector
from ..errors import DataError, one_line
from .cell_keys import is_first
from .names import Names

Attributes: TypeAlias = "ArrayLike | sp.spmatrix"


MAX_WEIGHT = 1e18  # of a fact: single precision holds its square
WEIGHTS = f"numbers from 0 to {MAX_WEIGHT:g}"


class TwoWeightsError(DataError):
    """The same fact is given with different weights."""

    def __init__(self, row: int, earlier: int, weights: tuple[float, float]):
        super().__init__(
            f"a fact is given twice with different weights, {weights[0]} at position {row} and {weights[1]} at "
            f"position {earlier}; keep one of them"
        )
        self.row, self.earlier, self.weights = row, earlier, weights  # weights: at `row`, at `earlier`


def stack(s: Ids, k: Ids, o: Ids) -> Triples:
    """Cells (n, 3) from their three columns."""
    return np.stack([s, k, o], axis=1) if len(s) else np.empty((0, 3), np.int64)


def id_or_name_column(values: ArrayLike, what: str) -> NDArray[Any]:
    """A one-dimensional array of ids or of names."""
    if np.ma.is_masked(values):
        position = int(np.argmax(np.ma.getmaskarray(np.ma.asarray(values))))
        raise DataError(f"{what} must not have masked values, got one at position {position}; drop those facts")
    array = _array(values, what)
    if array.ndim != 1:
        raise DataError(f"{what} must be one-dimensional, got an array of shape {array.shape}")
    if not array.size:
        return array.astype(np.int64)  # NumPy makes an empty list an array of floats
    if array.dtype.kind not in "iuUOT":
        raise DataError(f"{what} must be whole numbers or names, got values of type {array.dtype}")
    if array.dtype.kind == "O":
        for position, value in enumerate(array.tolist()):
            if not isinstance(value, str):
                raise DataError(f"{what} must be all ids or all names, got {value!r} at position {position}")
    return array


def _array(values: ArrayLike, what: str) -> NDArray[Any]:
    """An array; strings of a list are kept as objects, as NumPy's own strings lose final null characters."""
    try:
        if isinstance(values, (list, tuple)) and any(isinstance(value, str) for value in values):
            array = np.empty(len(values), object)
            array[:] = values
            return array
        return np.asarray(values)
    except ValueError as problem:
        raise DataError(f"{what} must be a list or an array with one value per fact: {one_line(problem)}") from None


def cell_columns(cells: ArrayLike | None) -> tuple[NDArray[Any], ...]:
    """Subjects, relations and objects of unobserved cells, from an (m, 3) array or a tuple of three arrays."""
    if cells is None or np.size(cells) == 0:
        return tuple(np.empty(0, np.int64) for _ in range(3))
    if isinstance(cells, tuple) and len(cells) == 3:
        columns = list(cells)
    else:
        array = np.asarray(cells)
        if array.ndim != 2 or array.shape[1] != 3:
            raise DataError(f"unobserved must be an (m, 3) array of cells, got shape {array.shape}")
        columns = list(array.T)
    return tuple(id_or_name_column(column, "unobserved cells") for column in columns)


def vocabulary(names: Sequence[str] | None, count: int | None, columns: Iterable[NDArray[Any]], what: str) -> Names:
    """The given names, or else the sorted names or the highest id of the columns."""
    if names is not None:
        given = names if isinstance(names, Names) else Names(names, what=what)
        if count is not None and count != len(given):
            raise DataError(f"{what}_names has {len(given)} names, but the number asked for is {count}")
        return given
    filled = [column for column in columns if column.size]
    if any(column.dtype.kind in "UOT" for column in filled):
        if any(column.dtype.kind in "iu" for column in filled):
            raise DataError(f"give every {what} by name or every {what} by id, got both; or pass {what}_names")
        unique = sorted({str(name) for column in filled for name in set(column.tolist())})
        if count is not None and count != len(unique):
            raise DataError(f"found {len(unique)} distinct {what} names, expected {count}; pass {what}_names")
        return Names(unique, what=what)
    n_needed = 1 + max((int(column.max()) for column in filled), default=-1)
    if count is not None and count < n_needed:
        raise DataError(f"{what} id {n_needed - 1} does not fit in n = {count}: ids run from 0 to {count - 1}")
    return Names(n_needed if count is None else count, what=what)


def _numbers(values: ArrayLike, what: str) -> NDArray[np.float64]:
    """An array of numbers without masked values."""
    if np.ma.is_masked(values):
        raise DataError(f"{what} must not have masked values; drop them, or fill them in")
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise DataError(f"{what} must be numbers: {one_line(problem, 200)}") from None


def checked_weights(weights: ArrayLike | None, n: int) -> Vector | None:
    """Confidences of n facts, (n,) float64."""
    if weights is None:
        return None
    w = _numbers(weights, "weights")
    if w.shape != (n,):
        raise DataError(f"weights must be one for each of the {n} facts, got shape {w.shape}")
    wrong = ~((w >= 0) & (w <= MAX_WEIGHT))
    if wrong.any():
        raise DataError(f"weights are confidences: {WEIGHTS}, got {w[wrong][0]}")
    return w


def checked_times(times: ArrayLike | None, n: int) -> Vector | None:
    """How often each of n facts was seen, (n,) float64."""
    if times is None:
        return None
    seen = _numbers(times, "times")
    if seen.shape != (n,):
        raise DataError(f"times must be one for each of the {n} facts, got shape {seen.shape}")
    wrong = ~((seen > 0) & (seen <= MAX_WEIGHT) & (seen == np.round(seen)))
    if wrong.any():
        raise DataError(f"times count how often a fact was seen: whole numbers of at least 1, got {seen[wrong][0]:g}")
    return seen


def checked_attributes(attributes: Attributes | None, n: int) -> Matrix | None:
    """Attributes of n entities, (n, M) float64, NaN where unknown."""
    if attributes is None:
        return None
    dense = attributes.toarray() if sp.issparse(attributes) else attributes  # type: ignore[union-attr]
    d = _numbers(dense, "attributes").copy()
    if d.ndim != 2 or d.shape[0] != n:
        raise DataError(f"attributes must have one row for each of the {n} entities, got shape {d.shape}")
    if np.isinf(d).any():
        raise DataError("attributes must be finite, or NaN where unknown, got an infinite value")
    return d


def rows_at(matrix: Matrix, places: Ids, n: int) -> Matrix:
    """n rows: row i of the matrix at places[i], unless that is negative, and NaN where there is none."""
    rows = np.full((n, matrix.shape[1]), np.nan)
    rows[places[places >= 0]] = matrix[places >= 0]
    return rows


def check_size(n_entities: int, n_relations: int) -> None:
    """Raise if a vocabulary is too large."""
    if n_entities >= 2**31 or n_entities**2 * max(n_relations, 1) >= 2**63:
        raise DataError(
            f"{n_entities} entities and {n_relations} relations are more than 32-bit ids or 64-bit cell keys can hold"
        )


def check_ids(cells: Triples, n_entities: int, n_relations: int) -> None:
    """Raise if an id of a cell is outside the vocabulary."""
    for column, count, what in ((0, n_entities, "subject"), (1, n_relations, "relation"), (2, n_entities, "object")):
        ids = cells[:, column]
        if len(ids) and (ids.min() < 0 or ids.max() >= count):
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise DataError(f"{what} id {wrong} is out of range: ids run from 0 to {count - 1}")


def merge_duplicates(
    keys: NDArray[np.int64], w: Vector | None, seen: Vector | None
) -> tuple[NDArray[np.int64], Vector | None, Vector | None]:
    """Distinct facts in order, the weight of each, and how often each was seen in total; sorts `keys` in place."""
    if w is None and seen is None:
        keys.sort()
        first = is_first(keys)
        return (keys if first.all() else keys[first]), None, None
    order = np.argsort(keys)
    ordered = keys[order]
    starts = np.flatnonzero(is_first(ordered))
    if w is not None:
        given = w[order]
        if (given != np.repeat(given[starts], np.diff(starts, append=len(given)))).any():
            raise _two_weights(keys, w)
        w = given[starts]
    if seen is not None:
        seen = np.add.reduceat(seen[order], starts) if len(starts) else seen
    return ordered[starts], w, seen


def _two_weights(keys: NDArray[np.int64], w: Vector) -> TwoWeightsError:
    """The first row that gives a fact another weight than an earlier row."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    row = int(np.argmax(w != w[first[inverse]]))
    earlier = int(first[inverse[row]])
    return TwoWeightsError(row, earlier, (float(w[row]), float(w[earlier])))
