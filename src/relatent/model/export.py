"""Vectors for other programs: Parquet with names, and plain NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..atomic_write import replacing
from ..errors import InputError
from .factors import Factors


def export(factors: Factors, folder: str | Path) -> list[Path]:
    """Write entities.parquet, relations.parquet, A.npy, R.npy and bias.npy; the paths written."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder")
    folder.mkdir(parents=True, exist_ok=True)
    import pyarrow.parquet as pq

    written = [
        _written(folder / "entities.parquet", lambda path: pq.write_table(_entities(factors), path)),
        _written(folder / "relations.parquet", lambda path: pq.write_table(_relations(factors), path)),
    ]
    for name, array in (("A", factors.A), ("R", factors.R), ("bias", factors.bias)):
        written.append(_written(folder / f"{name}.npy", _array_writer(array)))
    return written


def _array_writer(array: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with open(path, "wb") as file:
            np.save(file, array, allow_pickle=False)

    return write


def _entities(factors: Factors) -> Any:
    import pyarrow as pa

    return pa.table({"name": list(factors.entities), "vector": _lists(factors.A)})


def _relations(factors: Factors) -> Any:
    """One row a relation; its matrix row by row."""
    import pyarrow as pa

    flat = factors.R.reshape(len(factors.relations), -1)
    return pa.table({"name": list(factors.relations), "bias": factors.bias, "matrix": _lists(flat)})


def _lists(rows: Any) -> Any:
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).reshape(-1)), rows.shape[1])


def _written(path: Path, write: Callable[[Path], None]) -> Path:
    with replacing(path) as part:
        write(part)
    return path
