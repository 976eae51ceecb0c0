"""How data was read, as a record for later files with the same columns; and whether a file has these columns."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ...errors import DataError
from .columns import recognised_roles
from .file_content import File
from .file_formats import identify
from .reading import Reading
from .text_layout import SEPARATORS, first_fields

MAX_NOTES = 100  # in a record
MAX_NOTE_CHARACTERS = 1000


def reading_record(reading: Reading, format_: str | None = None) -> dict[str, Any]:
    """How to read other files like this one.

    "options": arguments of `read`, where they differ from the defaults; "columns": the names of the columns, or their
    number; "relation": of an edge list whose relation was not given; "notes": what was said about the file.
    """
    options: dict[str, Any] = {
        "columns": None if reading.columns is None else dict(reading.columns),
        "header": reading.header,
        "sep": reading.unusual_sep or reading.sep,
        "relation": reading.relation,
        "encoding": reading.encoding,
        "strip": None if reading.strip else False,
        "format": format_,
        "skip_bad_rows": reading.skip_bad_rows or None,
    }
    is_text = "header" in reading.understood
    if is_text and reading.column_names and recognised_roles(reading.column_names) is None:
        options["header"] = True
    record: dict[str, Any] = {
        "options": {name: value for name, value in options.items() if value is not None},
        "columns": reading.column_names or reading.n_columns,
    }
    if reading.edge_relation is not None and reading.relation is None:
        record["relation"] = reading.edge_relation
    notes = dict.fromkeys([*reading.all_notes(""), *reading.notes_of_other_files])
    if short := [note for note in notes if len(note) <= MAX_NOTE_CHARACTERS][:MAX_NOTES]:
        record["notes"] = short
    return record


def has_columns_of(record: Mapping[str, Any], path: str) -> bool:
    """Whether a text, Parquet or JSON lines file has the columns of the data of a record."""
    options, columns = record.get("options", {}), record["columns"]
    try:
        file = identify(Path(path), options.get("format"))
        found = _columns(file, Reading.of(sep=options.get("sep"), encoding=options.get("encoding")))
    except (DataError, OSError):
        return False  # reading the file says what is wrong
    if isinstance(columns, int):
        return len(found) == columns and recognised_roles(found) is None
    by_name = all(isinstance(column, str) for column in options.get("columns", {0: 0}).values())
    return sorted(found) == sorted(columns) if by_name else found == columns


def _columns(file: File, reading: Reading) -> list[str]:
    """The fields of the first row, or the names of the columns."""
    if file.format in SEPARATORS:
        from .delimited import head_of, with_encoding

        file = with_encoding(file, reading)
        return [field.removeprefix("\ufeff") for field in first_fields(head_of(file), reading, file)]
    if file.format == "parquet" and file.is_plain:
        from pyarrow import parquet as arrow_parquet

        with arrow_parquet.ParquetFile(file.path) as opened:
            return list(opened.schema_arrow.names)
    if file.format == "jsonl":
        from .json_rows import json_lines

        return [str(name) for row in islice(json_lines(file), 1) if isinstance(row, dict) for name in row]
    return []
