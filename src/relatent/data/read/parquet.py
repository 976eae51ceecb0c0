"""Facts from Parquet files, read in batches of rows."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import parquet as arrow_parquet

from ...errors import DataError, one_line
from ..facts import Facts
from . import frames
from .file_content import WHOLE_FILE, File, FilePart
from .reading import N_SAMPLE_ROWS, Reading


def read_parquet(file: File, reading: Reading, part: FilePart = WHOLE_FILE) -> Facts:
    """Facts of a Parquet file, or of a part of its row groups, which may have none."""
    where = str(file.path)
    reading.understood["format"] = "Parquet"
    try:
        with file.open() as stream:
            source = where if file.is_plain else pa.BufferReader(stream.read())
        with arrow_parquet.ParquetFile(source) as opened:
            schema, names = opened.schema_arrow, opened.schema_arrow.names
            first = next(opened.iter_batches(N_SAMPLE_ROWS), pa.RecordBatch.from_pylist([], schema))
            roles = frames.decide_roles(schema, pa.Table.from_batches([first]), reading, where)
            # Arrow selects columns by name, where a dot means a nested field
            by_name = len(set(names)) == len(names) and not any("." in name for name in names)
            selected = [names[position] for position in roles.positions] if by_name else None
            low, high = (opened.num_row_groups * edge // part.n_parts for edge in (part.number, part.number + 1))
            n_rows = [opened.metadata.row_group(group).num_rows for group in range(high)]
            batches = opened.iter_batches(frames.ROWS_PER_BATCH, row_groups=list(range(low, high)), columns=selected)
            reported = frames.report_batches(batches, sum(n_rows[low:]), file.size // part.n_parts, reading.report)
            return frames.facts_from_columns(
                ([batch.column(names[i] if by_name else i) for i in roles.positions] for batch in reported),
                [schema.field(position) for position in roles.positions],
                roles,
                reading,
                where,
                n_rows_before=sum(n_rows[:low]),
                may_be_empty=part.n_parts > 1,
            )
    except pa.ArrowException as problem:
        raise DataError(f"{file.path}: is not a valid Parquet file: {one_line(problem)}") from None
