"""Facts from Python objects: lists, arrays, matrices, graphs and tables, recognised without importing their library."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from ...errors import DataError
from ..facts import Facts
from .columns import EDGE_RELATION
from .frames import read_frame
from .reading import Reading
from .rows import facts_from_rows


def read_object(source: Any, reading: Reading) -> Facts:
    """Facts of an object that is no path."""
    if _is_a(source, "networkx", "Graph"):
        from .graphs import read_networkx

        return read_networkx(source, reading)
    if _is_a(source, "rdflib", "Graph"):
        from .graphs import read_rdflib

        return read_rdflib(source, reading)
    if sp.issparse(source):
        return _from_matrix(source, reading)
    if isinstance(source, np.ndarray):
        return _from_array(source, reading)
    if isinstance(source, (list, tuple, Iterator)) and not hasattr(source, "__arrow_c_stream__"):
        reading.understood["format"] = "list"
        return facts_from_rows(source, reading, "list", total=0 if isinstance(source, Iterator) else len(source))
    if _is_a(source, "polars", "LazyFrame"):
        source = source.collect()
    return read_frame(source, reading)


def _is_a(source: Any, library: str, name: str) -> bool:
    """Whether an object is an instance of a class of a library, which must have been imported then."""
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(source, kind)


def _from_matrix(matrix: sp.spmatrix, reading: Reading) -> Facts:
    """An edge from row i to column j for every stored value; values other than 1 are weights."""
    coo = matrix.tocoo()
    if coo.shape[0] != coo.shape[1]:
        raise DataError(
            f"a matrix of edges must be square, got shape {coo.shape}; for two kinds of entities pass a list"
        )
    if coo.dtype.kind not in "biuf":
        raise DataError(f"a matrix of edges must hold numbers, got values of type {coo.dtype}")
    coo.sum_duplicates()
    coo.eliminate_zeros()
    reading.understood["format"] = "SciPy matrix"
    return Facts.from_arrays(
        coo.row,
        np.zeros(coo.nnz, np.int64),
        coo.col,
        n_entities=coo.shape[0],
        relation_names=[reading.relation or EDGE_RELATION],
        weights=None if (coo.data == 1).all() else coo.data,
    )


def _from_array(array: np.ndarray[Any, Any], reading: Reading) -> Facts:
    """Rows (subject, relation, object), (subject, object), or either with a weight; (N, N, K) is a tensor."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise DataError("an array of facts must have no masked values; drop the rows with compress or fill them")
    if array.ndim == 3:
        return Facts.from_tensor(array)
    if array.dtype.names:
        return read_frame(pa.table({name: array[name] for name in array.dtype.names}), reading)
    if array.ndim != 2:
        raise DataError(f"an array of facts must have shape (n, 3), (n, 2) or (N, N, K), got {array.shape}")
    reading.understood["format"] = "NumPy array"
    if array.dtype.kind == "f" and array.shape[1] in (2, 3, 4) and (array[:, :2] == np.round(array[:, :2])).all():
        ids = [column.astype(np.int64).tolist() for column in array[:, :2].T]
        last = [
            (column.astype(np.int64) if (column == np.round(column)).all() else column).tolist()
            for column in array[:, 2:].T
        ]
        return facts_from_rows(list(zip(*ids, *last, strict=True)), reading, "array", total=len(array))
    return facts_from_rows(array.tolist(), reading, "array", total=len(array))
