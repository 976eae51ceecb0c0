"""Rows of subject, relation and object of which some may be empty, in the order of a file and block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pyarrow import parquet as arrow_parquet

from ...errors import DataError
from .columns import RELATION_NAMES, SUBJECT_AND_OBJECT_NAMES
from .file_content import File
from .file_formats import identify, naming_the_file
from .json_rows import json_lines
from .text_rows import TextFaultError, split_rows, text_lines

ROWS_PER_BLOCK = 1 << 16
FORMATS = ("csv", "tsv", "parquet", "jsonl")
Row = tuple[str | None, str | None, str | None]


def question_blocks(source: str | Path) -> Iterator[list[Row]]:
    """Blocks of rows of a CSV, TSV, Parquet or JSON lines file; empty values are None.

    Columns are found by their names in the first row; one of them may be missing. A text file without such names has
    three columns in this order.
    """
    file = identify(Path(source))
    if file.format not in FORMATS:
        raise DataError(f"{file.path}: must be one of {', '.join(FORMATS)}, got {file.format}")
    with naming_the_file(file):
        rows = _rows(file)
        while block := list(islice(rows, ROWS_PER_BLOCK)):
            yield block


def _rows(file: File) -> Iterator[Row]:
    if file.format in ("csv", "tsv"):
        yield from _text(file)
        return
    dicts = json_lines(file) if file.format == "jsonl" else _parquet(file)
    for number, row in enumerate(dicts, 1):
        if not isinstance(row, dict):
            raise DataError(f"{file.path}: row {number}: expected an object with subject, relation and object")
        places = _places(list(row))
        if places is None:
            raise DataError(f"{file.path}: row {number}: {_expected(row)}")
        values = list(row.values())
        yield _row([None if place is None else values[place] for place in places])


def _parquet(file: File) -> Iterator[dict[str, Any]]:
    if not file.is_plain:
        raise DataError(f"{file.path}: a compressed Parquet file cannot be read in blocks; decompress it")
    with arrow_parquet.ParquetFile(file.path) as opened:
        for batch in opened.iter_batches(ROWS_PER_BLOCK):
            yield from batch.to_pylist()


def _text(file: File) -> Iterator[Row]:
    with file.open() as stream:
        rows = split_rows(text_lines(stream), "\t" if file.format == "tsv" else ",", quoted=file.format == "csv")
        try:
            first = next(rows, None)
            if first is None:
                return
            places = _places(first.fields)
            if places is None:
                if len(first.fields) != 3:
                    raise DataError(f"{file.path}:{first.first_line}: {_expected(first.fields)}")
                places, rows = (0, 1, 2), chain([first], rows)
            for row in rows:
                if len(row.fields) != len(first.fields):
                    raise DataError(
                        f"{file.path}:{row.first_line}: has {len(row.fields)} fields, the first row {len(first.fields)}"
                    )
                yield _row([None if place is None else row.fields[place] for place in places])
        except TextFaultError as problem:
            raise DataError(f"{file.path}:{problem.line}: {problem}") from None


def _places(names: Sequence[str]) -> tuple[int | None, int | None, int | None] | None:
    """The positions of subject, relation and object by their names; None unless two are found."""
    lowered = [str(name).strip().lower() for name in names]
    relation = next((place for place, name in enumerate(lowered) if name in RELATION_NAMES), None)
    for pair in SUBJECT_AND_OBJECT_NAMES:
        subject, object_ = (lowered.index(name) if name in lowered else None for name in pair)
        if sum(place is not None for place in (subject, relation, object_)) >= 2:
            return subject, relation, object_
    return None


def _row(values: Iterable[Any]) -> Row:
    subject, relation, object_ = (None if value is None else str(value).strip() or None for value in values)
    return subject, relation, object_


def _expected(found: Iterable[str]) -> str:
    shown = ", ".join(map(repr, islice(found, 10)))
    return f"expected columns named subject, relation and object, or two of them, got {shown}"
