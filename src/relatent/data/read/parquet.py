"""Facts from Parquet files, read in batches of rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import parquet as arrow_parquet

from ...errors import DataError, one_line
from ...progress import Progress
from ..facts import Facts
from . import frames
from .columns import table_roles
from .file_content import WHOLE_FILE, File, FilePart


def read_parquet(file: File, columns: Sequence[str] | None, report: Progress, part: FilePart = WHOLE_FILE) -> Facts:
    """Facts of a Parquet file, or of a part of its row groups, which may have none."""
    where = str(file.path)
    try:
        with file.open() as stream:
            source = pa.BufferReader(stream.read()) if file.compression else where
        with arrow_parquet.ParquetFile(source) as opened:
            names = opened.schema_arrow.names
            positions, is_count = table_roles(names, columns, where)
            # Arrow selects columns by name, where a dot means a nested field
            by_name = len(set(names)) == len(names) and not any("." in name for name in names)
            selected = [names[position] for position in positions] if by_name else None
            low, high = (opened.num_row_groups * edge // part.n_parts for edge in (part.number, part.number + 1))
            n_rows = [opened.metadata.row_group(group).num_rows for group in range(high)]
            batches = opened.iter_batches(frames.ROWS_PER_BATCH, row_groups=list(range(low, high)), columns=selected)
            reported = frames.report_batches(batches, sum(n_rows[low:]), file.size // part.n_parts, report)
            return frames.facts_from_columns(
                ([batch.column(names[i] if by_name else i) for i in positions] for batch in reported),
                [opened.schema_arrow.field(position) for position in positions],
                is_count,
                where,
                n_rows_before=sum(n_rows[:low]),
                may_be_empty=part.n_parts > 1,
            )
    except pa.ArrowException as problem:
        raise DataError(f"{file.path}: is not a valid Parquet file: {one_line(problem)}") from None
