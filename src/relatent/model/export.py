"""Export the vectors to other programs: Parquet with names, and plain NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..arrays import Matrix
from ..atomic_write import replacing
from ..errors import InputError
from .factors import Factors
from .patterns import check_has_vectors


def export(factors: Factors, folder: str | Path) -> list[Path]:
    """Write entities.parquet, relations.parquet, A.npy, R.npy and bias.npy; returns the paths written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_has_vectors(factors.A)
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder")
    folder.mkdir(parents=True, exist_ok=True)
    matrices = factors.R.reshape(len(factors.relations), -1)  # each matrix row by row
    tables = {
        "entities": pa.table({"name": list(factors.entities), "vector": _list_column(factors.A)}),
        "relations": pa.table(
            {"name": list(factors.relations), "bias": factors.bias, "matrix": _list_column(matrices)}
        ),
    }
    arrays = {name: getattr(factors, name) for name in ("A", "R", "bias")}
    writers: dict[str, Callable[[BinaryIO], None]] = {
        **{f"{name}.parquet": partial(pq.write_table, table) for name, table in tables.items()},
        **{f"{name}.npy": partial(np.save, arr=array, allow_pickle=False) for name, array in arrays.items()},
    }
    for name, write in writers.items():
        try:
            with replacing(folder / name) as part, open(part, "wb") as file:
                write(file)
        except OSError as error:
            raise InputError(f"{folder / name} could not be written: {error.strerror or error}") from error
    return [folder / name for name in writers]


def _list_column(rows: Matrix) -> Any:
    """A Parquet column with one list of fixed length per row."""
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).reshape(-1)), rows.shape[1])
