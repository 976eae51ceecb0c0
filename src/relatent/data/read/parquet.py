"""Tables in Parquet files, read in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import parquet

from ...errors import DataError, one_line
from .files import File
from .reading import Reading
from .table import MAX_COLUMNS, N_SAMPLE_ROWS, ROWS_PER_BATCH, Table, arrow_sample, reported


def read_parquet(file: File, reading: Reading) -> Table:
    """The table of a Parquet file, or of a part of its row groups."""
    reading.understood["format"], part = "Parquet", reading.part
    source = str(file.path) if file.is_plain else pa.BufferReader(file.document())
    try:
        with parquet.ParquetFile(source) as opened:
            schema, metadata = opened.schema_arrow, opened.metadata
            if len(schema) > MAX_COLUMNS:
                raise DataError(f"{file.path}: has {len(schema):,} columns, at most {MAX_COLUMNS:,} are read")
            first = next(opened.iter_batches(N_SAMPLE_ROWS), pa.RecordBatch.from_pylist([], schema))
            low, high = (opened.num_row_groups * edge // part.n_parts for edge in (part.number, part.number + 1))
            n_rows = [metadata.row_group(group).num_rows for group in range(high)]
    except pa.ArrowException as problem:
        raise DataError(f"{file.path}: is not a valid Parquet file: {one_line(problem)}") from None
    # Arrow selects columns by name, where a dot means a nested field
    by_name = len(set(schema.names)) == len(schema) and not any("." in name for name in schema.names)

    def columns(positions: Sequence[int], n_names: int) -> Iterator[list[pa.Array]]:
        selected = [schema.names[position] for position in positions] if by_name else None
        with parquet.ParquetFile(source) as opened:
            batches = opened.iter_batches(ROWS_PER_BATCH, row_groups=list(range(low, high)), columns=selected)
            for batch in reported(batches, sum(n_rows[low:]), file.size // part.n_parts, reading):
                yield [batch.column(schema.names[position] if by_name else position) for position in positions]

    n_before = sum(n_rows[:low])
    return Table(
        str(file.path),
        schema.names,
        arrow_sample(pa.Table.from_batches([first])),
        columns,
        lambda row: f"{file.path}: row {n_before + row + 1}",
    )
