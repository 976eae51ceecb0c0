"""How a delimited file is laid out: separator, comments, header, and the roles of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from ...errors import DataError
from .column_evidence import Sample, header_evidence, occurs_again
from .columns import (
    MAX_SHOWN_COLUMNS,
    ColumnRoles,
    as_edges,
    chosen_roles,
    listed_columns,
    no_weights,
    possible_roles,
    recognised_roles,
    roles_by_position,
)
from .file_content import File
from .reading import N_SAMPLE_ROWS, SEPARATOR_NAMES, Reading
from .text_rows import TextFaultError, TextRow, split_rows
from .value_kinds import ANY_NUMBER, is_number
from .weights import with_notation

SEPARATORS = {"tsv": "\t", "csv": ",", "edges": " "}
OTHER_SEPARATORS = (";", "\t", ",", "|")  # taken if they give more rows the same number of fields
COMMENT_MARKS = ("#", "%")
MIN_SHARE_OF_WIDTH = 0.9  # of the first rows, which must have the same number of fields by an unusual separator
MIN_SHARE_WITHOUT_USUAL = 0.5  # of the same, if the usual separator occurs nowhere


class TextHead(NamedTuple):
    """The first lines of a file."""

    lines: list[bytes]

    def rows(self, sep: str, quoted: bool, n_skipped: int = 0) -> list[TextRow]:
        """The first rows below a number of lines."""
        texts = (line.decode(errors="surrogateescape") for line in self.lines[n_skipped:])
        found: list[TextRow] = []
        try:
            found.extend(islice(split_rows(texts, sep, quoted=quoted), N_SAMPLE_ROWS + 1))
        except TextFaultError:
            if not found:
                raise
        return found

    def first_row(self, sep: str, quoted: bool, n_skipped: int) -> list[str]:
        """The fields of the first row below a number of lines."""
        return self.rows(sep, quoted, n_skipped)[0].fields


class TextLayout(NamedTuple):
    """Where the facts of a delimited file are."""

    sep: str
    quoted: bool
    n_fields: int  # per row
    roles: ColumnRoles
    header: list[str] | None
    n_lines_before: int  # comments and header
    n_bytes_before: int
    sample: Sample  # the first values of the columns with roles


def text_layout(head: TextHead, reading: Reading, file: File) -> TextLayout:
    """The layout that the first rows imply."""
    quoted = file.format == "csv"
    n_comments = _n_comments(head, reading, file, quoted)
    sep = reading.sep or _separator(head, reading, file, quoted, n_comments)
    try:
        rows = head.rows(sep, quoted, n_comments)
    except TextFaultError as problem:
        raise DataError(f"{file.path}:{problem.line + n_comments}: {problem}") from None
    if not rows:
        raise DataError(f"{file.path}: contains no facts")
    where = f"{file.path}:{rows[0].first_line + n_comments}"
    first = [field.removeprefix("\ufeff") for field in rows[0].fields]
    below = [row.fields for row in rows[1:] if len(row.fields) == len(first) and any(map(str.strip, row.fields))]
    columns_below = [[fields[position] for fields in below] for position in range(len(first))]
    roles, has_header = _roles(first, columns_below, reading, file, where, sep)
    values = columns_below if has_header else _with_first(first, columns_below)
    roles = with_notation(
        roles, first if has_header else (), values, str(file.path), may_be_blank=reading.skip_bad_rows
    )
    n_before = n_comments + (rows[0].last_line if has_header else 0)
    shown = below if has_header else [first, *below]
    reading.understood |= {
        "format": f"{SEPARATOR_NAMES.get(sep, repr(sep))}-separated text",
        "header": "the first row" if has_header else "none",
    }
    reading.set_roles(roles, first if has_header else (), shown)
    sample = [[field.strip() for field in columns_below[position]] for position in roles.positions[: roles.n_names]]
    n_bytes = sum(map(len, head.lines[:n_before]))
    return TextLayout(sep, quoted, len(first), roles, first if has_header else None, n_before, n_bytes, sample)


def _n_comments(head: TextHead, reading: Reading, file: File, quoted: bool) -> int:
    """Number of comment lines at the start: they have another number of fields than the first line that is none."""
    texts = [line.decode(errors="surrogateescape") for line in head.lines]
    count = next((number for number, text in enumerate(texts) if not text.startswith(COMMENT_MARKS)), len(texts))
    if not 0 < count < len(texts):
        return 0
    for sep in (reading.sep,) if reading.sep else (SEPARATORS[file.format], *OTHER_SEPARATORS, " "):
        n_fields = texts[count].count(sep)
        if n_fields:
            if texts[0].count(sep) == n_fields:
                return 0
            reading.understood["comments"] = f"{count} lines"
            return count
    return 0


def _separator(head: TextHead, reading: Reading, file: File, quoted: bool, n_comments: int) -> str:
    """The usual separator of the format, or another one that gives more rows the same number of fields."""
    usual, others = SEPARATORS[file.format], ("\t", ",", ";", "|") if file.format == "edges" else OTHER_SEPARATORS
    widths = {sep: _common_width(_rows_or_none(head, sep, quoted, n_comments)) for sep in (usual, *others)}
    other = max((sep for sep in others if sep != usual), key=lambda sep: widths[sep].share)
    text = b"".join(head.lines[n_comments:N_SAMPLE_ROWS]).decode(errors="replace")
    min_share = MIN_SHARE_OF_WIDTH if usual in text else MIN_SHARE_WITHOUT_USUAL
    if widths[other].share < max(widths[usual].share, min_share):
        return usual
    if widths[other].share == widths[usual].share and not _is_in_names(text, usual, other, widths):
        return usual
    if file.format != "edges":
        name = SEPARATOR_NAMES[usual]
        reason = f"there is no {name}" if usual not in text else f"the {name}s are within fields"
        reading.notes.append(f"read as {SEPARATOR_NAMES[other]}-separated, as {reason}; sep={other!r} says so")
    return other


class _Width(NamedTuple):
    """The most common number of fields of rows, and how many rows have it; 0 if that is one field."""

    n_fields: int
    share: float


def _common_width(rows: list[TextRow]) -> _Width:
    numbers = Counter(len(row.fields) for row in rows)
    n_fields, n_rows = max(numbers.items(), key=itemgetter(1), default=(1, 0))
    return _Width(n_fields, n_rows / len(rows) if n_fields > 1 else 0.0)


def _is_in_names(text: str, usual: str, other: str, widths: Mapping[str, _Width]) -> bool:
    """Whether the usual separator is part of names, where another one gives as many rows the same number of fields.

    It is if it gives pairs and the other facts, or if a blank follows it everywhere, as in "Doe, Ann", and the other
    nowhere.
    """
    is_before_blanks = text.count(usual) == text.count(f"{usual} ") and f"{other} " not in text
    return is_before_blanks or (widths[usual].n_fields == 2 and widths[other].n_fields in (3, 4))


def _rows_or_none(head: TextHead, sep: str, quoted: bool, n_comments: int) -> list[TextRow]:
    try:
        return head.rows(sep, quoted, n_comments)
    except TextFaultError:
        return []


def _roles(
    first: list[str], below: Sample, reading: Reading, file: File, where: str, sep: str
) -> tuple[ColumnRoles, bool]:
    """The roles of the columns, and whether the first row is a header."""
    by_position = reading.columns is not None and all(isinstance(name, int) for name in reading.columns.values())
    if reading.columns is not None and reading.header is False and not by_position:
        raise DataError(
            f"header=False says that the first row of {file.path} has no column names, but columns= chooses by "
            "name; use positions, counted from 0, or leave one of the two out"
        )
    named = None if reading.header is False else _roles_by_header(first, below, reading)
    has_header = named is not None if reading.header is None else reading.header
    is_open = reading.header is None and named is None and (reading.columns is None or by_position)
    if is_open and (evidence := header_evidence(first, below)):
        has_header = True
        shown = ", ".join(map(repr, first[:MAX_SHOWN_COLUMNS]))
        reading.notes.append(
            f"took the first row ({shown}) as column names, because {evidence}; header=False reads it as a fact"
        )
    if reading.columns is not None:
        has_header = has_header if by_position else True
        names = first if has_header else []
        return chosen_roles(names, reading.columns, where, len(first), reading.relation), has_header
    if named is None and len(first) not in (2, 3, 4):
        raise DataError(_wrong_number(first, where, sep))
    names, sample = (first, below) if has_header else ([], _with_first(first, below))
    if (
        named is None
        and len(first) == 4
        and sample[3]
        and not any(ANY_NUMBER.fullmatch(value) or is_number(value) for value in sample[3])
    ):
        raise no_weights(first, sample[3], where)
    roles = named or roles_by_position(names, len(first), sample)
    return as_edges(roles, reading.relation, where), has_header


def _roles_by_header(first: list[str], below: Sample, reading: Reading) -> ColumnRoles | None:
    """The roles that the first row gives if it names columns in a usual way."""
    if found := recognised_roles(first):
        return found
    if reading.header is None and (not below[0] or occurs_again(first, below)):
        return None
    return possible_roles(first, below)


def _with_first(first: list[str], below: Sample) -> Sample:
    return [[field.strip(), *(value.strip() for value in values)] for field, values in zip(first, below, strict=True)]


def _wrong_number(first: list[str], where: str, sep: str) -> str:
    """The error for a row with one field, or with more than four."""
    message = (
        f"{where}: expected 3 {SEPARATOR_NAMES.get(sep, repr(sep))}-separated fields, or 4 with a weight, or 2 of an "
        f"edge list, got {len(first)}"
    )
    if len(first) > 4:
        return f"{message}; choose with columns=(0, 1, 2), which takes the first three; {listed_columns(first)}"
    other = next((other for other in (*OTHER_SEPARATORS, " ") if len(first[0].split(other)) > 1), None)
    return message if other is None else f"{message}; if a {SEPARATOR_NAMES[other]} separates them, pass sep={other!r}"
