"""Rows of subject, relation and object of which some may be empty, in the order of a file and block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import parquet as arrow_parquet

from ...errors import DataError
from ..names import is_utf8
from .columns import RELATION_NAMES, SUBJECT_AND_OBJECT_NAMES
from .file_content import File
from .file_formats import identify, naming_the_file
from .frames import python_rows
from .json_rows import json_lines
from .text_rows import TextFaultError, split_rows, text_lines

ROWS_PER_BLOCK = 1 << 16
PLACES = ("subject", "relation", "object")
FORMATS = ("csv", "tsv", "parquet", "jsonl")
Row = tuple[str | None, str | None, str | None]


class QuestionColumns(NamedTuple):
    """How the columns of a file are understood, where they are not called subject, relation and object."""

    columns: Sequence[str | int] | Mapping[str, str | int] | None = None  # of subject, relation, object; or by role
    header: bool | None = None  # whether the first row of a text file has names
    sep: str | None = None
    relation: str | None = None  # of rows without one: the columns are subject and object

    def roles(self) -> dict[str, str | int] | None:
        """The column of each role; None if the columns are found by their names."""
        if self.columns is None:
            return None if self.relation is None else {"subject": 0, "object": 1}
        if isinstance(self.columns, Mapping):
            return dict(self.columns)
        names = PLACES if len(self.columns) == 3 else ("subject", "object")
        if len(self.columns) != len(names):
            raise DataError(f"columns must be two or three, got {', '.join(map(str, self.columns))}")
        return dict(zip(names, self.columns, strict=True))

    def places(self, names: Sequence[str]) -> tuple[int | None, int | None, int | None] | None:
        """The positions of subject, relation and object; None unless two are found."""
        found = _places(names)
        if self.columns is None and found is not None:
            return found
        roles = self.roles()
        if roles is None:
            return None
        listed = [str(name).strip() for name in names]
        for column in roles.values():
            if (isinstance(column, str) and column not in listed) or (
                isinstance(column, int) and column >= len(listed)
            ):
                raise DataError(f"there is no column {column!r}; there are {', '.join(map(repr, listed[:10]))}")
        at = {role: column if isinstance(column, int) else listed.index(column) for role, column in roles.items()}
        return at.get("subject"), at.get("relation"), at.get("object")

    def has_names(self, first: Sequence[str]) -> bool:
        """Whether the first row of a text file has the names of the columns."""
        if self.header is not None:
            return self.header
        if self.columns is None:
            return _places(first) is not None
        return any(isinstance(column, str) for column in (self.roles() or {}).values())


def question_blocks(source: str | Path, given: QuestionColumns | None = None) -> Iterator[list[Row]]:
    """Blocks of rows of a CSV, TSV, Parquet or JSON lines file; empty values are None.

    Columns are found by their names in the first row; one of them may be missing. A text file without such names has
    three columns in this order. `given` says otherwise.
    """
    file, given = identify(Path(source)), given or QuestionColumns()
    if file.format not in FORMATS:
        raise DataError(f"{file.path}: must be one of {', '.join(FORMATS)}, got {file.format}")
    with naming_the_file(file):
        rows = _rows(file, given)
        while block := list(islice(rows, ROWS_PER_BLOCK)):
            yield block


def _rows(file: File, given: QuestionColumns) -> Iterator[Row]:
    if file.format in ("csv", "tsv"):
        yield from _text(file, given)
        return
    dicts = json_lines(file) if file.format == "jsonl" else _parquet(file)
    for number, row in enumerate(dicts, 1):
        if not isinstance(row, dict):
            raise DataError(f"{file.path}: row {number}: expected an object with subject, relation and object")
        places = given.places(list(row))
        if places is None:
            raise DataError(f"{file.path}: row {number}: {_expected(row)}")
        values = list(row.values())
        where = f"{file.path}: row {number}"
        yield _row([None if place is None else values[place] for place in places], given.relation, where)


def _parquet(file: File) -> Iterator[dict[str, Any]]:
    if not file.is_plain:
        raise DataError(f"{file.path}: a compressed Parquet file cannot be read in blocks; decompress it")
    with arrow_parquet.ParquetFile(file.path) as opened:
        for batch in opened.iter_batches(ROWS_PER_BLOCK):
            yield from python_rows(batch, str(file.path))


def _text(file: File, given: QuestionColumns) -> Iterator[Row]:
    with file.open() as stream:
        sep = given.sep or ("\t" if file.format == "tsv" else ",")
        rows = split_rows(text_lines(stream), sep, quoted=file.format == "csv")
        try:
            first = next(rows, None)
            if first is None:
                return
            has_names = given.has_names(first.fields)
            places = given.places(first.fields if has_names or given.columns or given.relation else ())
            if places is None:
                if len(first.fields) != 3:
                    raise DataError(f"{file.path}:{first.first_line}: {_expected(first.fields)}")
                places = (0, 1, 2)
            if not has_names:
                rows = chain([first], rows)
            for row in rows:
                if len(row.fields) != len(first.fields):
                    raise DataError(
                        f"{file.path}:{row.first_line}: has {len(row.fields)} fields, the first row {len(first.fields)}"
                    )
                where = f"{file.path}:{row.first_line}"
                yield _row([None if place is None else row.fields[place] for place in places], given.relation, where)
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


def _row(values: Iterable[Any], relation_of_all: str | None, where: str) -> Row:
    subject, relation, object_ = (None if value is None else str(value).strip() or None for value in values)
    for name in (subject, relation, object_):
        if name is not None and not is_utf8(name):
            raise DataError(f"{where}: {name!r:.100} is not UTF-8")
    return subject, relation or relation_of_all, object_


def _expected(found: Iterable[str]) -> str:
    shown = ", ".join(map(repr, islice(found, 10)))
    return f"expected columns named subject, relation and object, or two of them, got {shown}"
