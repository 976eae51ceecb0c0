"""Tables in Parquet files, read in batches of rows.

A few bytes of such a file may stand for many rows of long names: by a dictionary, by runs of equal values, or by
prefixes that values share. So batches have as many rows as surely fit into memory, and what is read is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from ...errors import DataError, one_line
from .files import File, check_expansion, named
from .reading import Reading
from .table import MAX_COLUMNS, N_SAMPLE_ROWS, ROWS_PER_BATCH, Table, arrow_sample, reported

MAX_BATCH_BYTES = 1 << 26
MAX_ROWS_PER_BYTE = 100  # of the file: distinct facts are no longer runs
MIN_CHECKED_ROWS = 1 << 24
REMEDY = "if you trust it, save it as CSV"


def read_parquet(file: File, reading: Reading) -> Table:
    """The table of a Parquet file, or of a part of its row groups."""
    reading.understood["format"], part = "Parquet", reading.part
    opened = _Parquet(file)
    schema = opened.schema
    low, high = (len(opened.n_rows) * edge // part.n_parts for edge in (part.number, part.number + 1))
    # Arrow selects columns by name, where a dot means a nested field
    by_name = len(set(schema.names)) == len(schema) and not any("." in name for name in schema.names)

    def columns(positions: Sequence[int], n_names: int) -> Iterator[list[pa.Array]]:
        names = [schema.names[position] for position in positions] if by_name else schema.names
        batches = named(opened.batches(range(low, high), names), file.path)
        for batch in reported(batches, sum(opened.n_rows[low:high]), file.size // part.n_parts, reading):
            yield [batch.column(schema.names[position] if by_name else position) for position in positions]

    n_before = sum(opened.n_rows[:low])
    return Table(
        str(file.path),
        schema.names,
        opened.sample(by_name),
        columns,
        lambda row: f"{file.path}: row {n_before + row + 1}",
    )


class _Parquet:
    """A file, its schema, and its rows in batches that fit into memory."""

    def __init__(self, file: File):
        self._where, self._size = str(file.path), file.size
        self._source: Any = str(file.path) if file.is_plain else pa.BufferReader(file.document())
        try:
            with parquet.ParquetFile(self._source) as opened:
                self.schema, metadata = opened.schema_arrow, opened.metadata
                groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
                self.n_rows = [group.num_rows for group in groups]
                check_expansion(sum(group.total_byte_size for group in groups), file, REMEDY)
        except pa.ArrowException as problem:
            raise DataError(f"{file.path}: is not a valid Parquet file: {one_line(problem)}") from None
        if len(self.schema) > MAX_COLUMNS:
            raise DataError(f"{file.path}: has {len(self.schema):,} columns, at most {MAX_COLUMNS:,} are read")
        if sum(self.n_rows) > max(MIN_CHECKED_ROWS, MAX_ROWS_PER_BYTE * self._size):
            raise DataError(f"{file.path}: has {sum(self.n_rows):,} rows in {self._size:,} bytes, so they repeat")
        self._texts = [field.name for field in self.schema if _is_text(field.type)]
        self._file = file

    def batches(self, groups: Sequence[int], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of these groups, with these columns."""
        n_bytes = 0
        for group in groups:
            with parquet.ParquetFile(self._source) as opened:
                n_rows = self._rows_per_batch(opened, group, names)
                for batch in opened.iter_batches(n_rows, row_groups=[group], columns=names):
                    n_bytes += sum(map(_n_bytes, batch.columns))
                    check_expansion(n_bytes, self._file, REMEDY)
                    yield batch

    def sample(self, by_name: bool) -> list[list[str]]:
        """The first values of each column as text; none of columns of lists, which have no role."""
        empty = pa.RecordBatch.from_pylist([], self.schema)
        flat = [field.name for field in self.schema if not by_name or _is_flat(field.type)]
        first = empty.select(flat) if by_name else empty
        if groups := [group for group, n_rows in enumerate(self.n_rows) if n_rows][:1]:
            try:
                with parquet.ParquetFile(self._source) as opened:
                    n_rows = min(N_SAMPLE_ROWS, self._rows_per_batch(opened, groups[0], flat))
                    first = next(opened.iter_batches(n_rows, row_groups=groups, columns=flat), first)
            except pa.ArrowException as problem:
                raise DataError(f"{self._where}: is not a valid Parquet file: {one_line(problem)}") from None
        found = arrow_sample(pa.Table.from_batches([first]))
        if not by_name:
            return found
        values = dict(zip(flat, found, strict=True))
        return [values.get(name, [""] * len(first)) for name in self.schema.names]

    def _rows_per_batch(self, opened: parquet.ParquetFile, group: int, names: Sequence[str]) -> int:
        """How many rows surely fit into memory, whatever the names of a group are."""
        longest = max((self._longest(opened, group, name) for name in self._texts if name in names), default=1)
        return int(min(ROWS_PER_BATCH, max(1, MAX_BATCH_BYTES // max(1, longest))))

    def _longest(self, opened: parquet.ParquetFile, group: int, name: str) -> int:
        """The bytes that the longest value of a column of texts may have."""
        rows = {"batch_size": 1, "row_groups": [group], "columns": [name]}
        next(opened.iter_batches(**rows), None)  # raises where Arrow would end the process: at damaged metadata
        places = [place for place in range(len(opened.schema)) if opened.schema.column(place).path == name]
        found = [opened.metadata.row_group(group).column(place) for place in places if self.n_rows[group]]
        n_bytes = sum(column.total_uncompressed_size for column in found)
        if any("DELTA_BYTE_ARRAY" in column.encodings for column in found):
            return int(n_bytes)  # a value may repeat all before it
        try:
            with parquet.ParquetFile(self._source, read_dictionary=[name]) as by_dictionary:
                first = next(by_dictionary.iter_batches(**rows), None)
        except (OSError, pa.ArrowException):  # there is no dictionary in this encoding
            return int(n_bytes)
        if first is None or not first.num_columns:
            return 1
        values = first.column(0).dictionary if pa.types.is_dictionary(first.column(0).type) else first.column(0)
        return int(pc.max(pc.binary_length(values.cast(pa.large_binary()))).as_py() or 1)


def _n_bytes(column: pa.Array) -> int:
    """The bytes of a column; those of the values of a dictionary as often as they occur."""
    if not (pa.types.is_dictionary(column.type) and _is_text(column.type)):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary.cast(pa.large_binary()))
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(name in str(kind) for name in ("string", "binary")) and not pa.types.is_nested(kind)


def _is_flat(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_fixed_size_binary(kind))
