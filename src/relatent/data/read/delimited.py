"""Tables in delimited text, such as TSV and CSV.

The csv module shows the first rows, which decide the separator, the header and the roles, and finds the line of a
fault. Arrow parses the data in blocks of columns, so that neither the text nor a Python string per name is kept.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from pyarrow import csv as arrow_csv

from ...errors import DataError, one_line
from ..names import is_utf8
from .files import MAX_LINE_BYTES, File, ReadAhead, text_lines, too_long
from .reading import Reading
from .roles import FACTS, HeaderRule, header_rule
from .table import MAX_COLUMNS, MAX_SHOWN_CHARACTERS, N_SAMPLE_ROWS, Table, sample_of

SEPARATORS = {"tsv": "\t", "csv": ",", "edges": " "}
SEPARATOR_NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar", " ": "space"}
OTHER_SEPARATORS = (";", "\t", ",", "|")  # taken if they give more rows the same number of fields
COMMENT_MARKS = ("#", "%")
MIN_SHARE_OF_WIDTH = 0.9  # of the first rows, which must have the same number of fields by an unusual separator
MIN_SHARE_WITHOUT_USUAL = 0.5  # of the same, if the usual separator occurs nowhere
MAX_SHOWN_FIELDS = 5  # of a wrong row
HEAD_BYTES = 1 << 20  # of a file, to find out what its columns hold
BLOCK_BYTES = MAX_LINE_BYTES  # parsed at a time; no row may be longer
_EXCEL_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_FIELD_START, _PLAIN, _QUOTED, _AFTER_QUOTE = 0, 1, 2, 3
_LINE_FEED, _RETURN, _QUOTE = 10, 13, 34

csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))


class TextRow(NamedTuple):
    """The fields of a row, and its first and last line."""

    line: int
    last_line: int
    fields: list[str]


class TextLayout(NamedTuple):
    """Where the rows of a text are."""

    sep: str
    quoted: bool
    n_fields: int  # per row
    n_lines_before: int = 0  # comments and header
    n_bytes_before: int = 0


def read_text(file: File, reading: Reading) -> Table:
    """The table that a text is, or a part of its lines, which may have none."""
    file = file.decoded(reading.encoding)
    if file.encoding:
        reading.understood["encoding"] = file.encoding
    lines = _head(file, "facts" if reading.wanted == FACTS else "rows")
    quoted = file.format == "csv"
    n_before, sep = _preamble(lines, reading, file)
    sep = reading.sep or sep or _separator(lines[n_before:], reading, file)
    rows = list(_rows_of(lines[n_before:], sep, quoted, file, n_before))
    if not rows:
        raise DataError(f"{file.path}: contains no facts")
    for row in rows:
        _check_utf8(row, file)
    if file.format == "edges" and any(field.startswith("{'") for field in rows[0].fields):
        raise DataError(f"{file.path}:{rows[0].line}: has a dict per edge; write it with data=False or data=['weight']")
    first = [field.removeprefix("\ufeff") for field in rows[0].fields]
    if len(first) > MAX_COLUMNS:
        raise DataError(
            f"{file.path}:{rows[0].line}: has {len(first):,} columns, at most {MAX_COLUMNS:,} are read; write "
            "one fact per row, or choose another separator with sep="
        )
    below = [row.fields for row in rows[1:] if len(row.fields) == len(first) and any(map(str.strip, row.fields))]
    sample = sample_of(below, len(first))
    rule = _header(first, sample, reading)
    if rule.is_header:
        n_before = rows[0].last_line
    else:
        sample = sample_of([first, *below], len(first))
    reading.notes.extend(filter(None, [rule.note]))
    reading.lints.extend(filter(None, [rule.lint]))
    reading.understood |= {
        "format": f"{SEPARATOR_NAMES.get(sep, repr(sep))}-separated text",
        "header": "the first row" if rule.is_header else "none",
    }
    layout = TextLayout(sep, quoted, len(first), n_before, sum(map(len, lines[:n_before])))
    text = _Text(file.part(reading.part, layout.n_bytes_before), file, layout, reading)
    return Table(
        f"{file.path}:{rows[0].line}",
        first if rule.is_header else [],
        sample,
        text.blocks,
        text.place,
        what=f"{SEPARATOR_NAMES.get(sep, repr(sep))}-separated fields",
        hint=_other_separator(first),
        source=str(file.path),
        bad_lines=text.bad_lines,
        header=tuple(first) if rule.is_header else None,
    )


def _header(first: list[str], below: Sequence[Sequence[str]], reading: Reading) -> HeaderRule:
    """Whether the first row names the columns: as the caller says, as in another file of the call, or by its values."""
    if reading.header is False and reading.columns and any(isinstance(c, str) for c in reading.columns.values()):
        raise DataError(
            "header=False says that the first row has no column names, but columns= chooses by name; use positions, "
            "counted from 0, or leave one of the two out"
        )
    if reading.header is not None:
        return HeaderRule(reading.header)
    if tuple(first) in reading.headers:
        return HeaderRule(True)
    return header_rule(first, below, reading.wanted, reading.columns)


def _head(file: File, what: str) -> list[bytes]:
    """The first lines of a file, with their line breaks; `what` it should hold."""
    with file.open() as stream:
        text = b""
        while block := stream.read(HEAD_BYTES):
            text += block
            if len(text) >= HEAD_BYTES and (text.count(b"\n") > 1 or len(text) > MAX_LINE_BYTES):
                break
    if len(text) > MAX_LINE_BYTES and b"\n" not in text and b"\r" not in text:
        raise DataError(f"{file.path}:1: {too_long('row')}")
    lines = text.splitlines(keepends=True)
    if block:
        lines = lines[:-1]  # the last one may go on
    if not any(map(bytes.strip, lines)):
        where = f" in its first {len(text) >> 20} MB" if block else ""
        raise DataError(f"{file.path}: contains no {what}{where}")
    return lines


def _rows_of(lines: Sequence[bytes], sep: str, quoted: bool, file: File, n_before: int = 0) -> list[TextRow]:
    """The first rows of the head of a file; DataError if there is none."""
    texts = (line.decode(errors="surrogateescape") for line in lines)
    found: list[TextRow] = []
    try:
        found.extend(islice(_split(texts, sep, quoted, file, n_before), N_SAMPLE_ROWS + 1))
    except DataError:
        if not found:
            raise
    return found


def _split(lines: Iterator[str], sep: str, quoted: bool, file: File, n_before: int = 0) -> Iterator[TextRow]:
    """The rows that are not empty, with their lines; with `quoted`, by RFC 4180."""
    rows = csv.reader(lines, delimiter=sep, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, strict=True)
    last = n_before
    try:
        for fields in rows:
            before, last = last, n_before + rows.line_num
            if fields:
                yield TextRow(before + 1, last, fields)
    except csv.Error as problem:
        line = n_before + rows.line_num
        if "unexpected end" in str(problem):
            line, reason = last + 1, "a quote opens in this line and is never closed; double it if it is text"
        elif "expected after" in str(problem):
            reason = "has text after a closing quote; double a quote that is text"
        else:
            reason = too_long("row") if "limit" in str(problem) else one_line(problem)
        raise DataError(f"{file.path}:{line}: {reason}") from None


def _preamble(lines: Sequence[bytes], reading: Reading, file: File) -> tuple[int, str | None]:
    """The number of lines before the table, and the separator that such a line names.

    Comment lines have another number of fields than the first line that is none.
    """
    texts = [line.decode(errors="surrogateescape").removeprefix("\ufeff") for line in lines[: N_SAMPLE_ROWS * 10]]
    if named := _EXCEL_SEPARATOR.fullmatch(texts[0].rstrip("\r\n")):
        reading.understood["comments"] = "1 line, which names the separator"
        return 1, named[1]
    count = next((number for number, text in enumerate(texts) if not text.startswith(COMMENT_MARKS)), len(texts))
    if not 0 < count < len(texts):
        return 0, None
    for sep in (reading.sep,) if reading.sep else (SEPARATORS[file.format], *OTHER_SEPARATORS, " "):
        if n_fields := texts[count].count(sep):
            if texts[0].count(sep) == n_fields:
                return 0, None
            reading.understood["comments"] = f"{count} lines"
            return count, None
    return 0, None


def _check_utf8(row: TextRow, file: File) -> None:
    """Raise if a row is not UTF-8."""
    if not all(map(is_utf8, row.fields)):
        raise DataError(
            f"{file.path}:{row.line}: is not valid UTF-8; save the file as UTF-8, or name its encoding: "
            "encoding='latin-1' or 'cp1252'"
        )


def _separator(lines: Sequence[bytes], reading: Reading, file: File) -> str:
    """The usual separator of the format, or another one that gives more rows the same number of fields."""
    usual, others = SEPARATORS[file.format], ("\t", ",", ";", "|") if file.format == "edges" else OTHER_SEPARATORS
    widths = {sep: _common_width(lines, sep, file) for sep in (usual, *others)}
    other = max((sep for sep in others if sep != usual), key=lambda sep: widths[sep].share)
    text = b"".join(lines[:N_SAMPLE_ROWS]).decode(errors="replace")
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


def _common_width(lines: Sequence[bytes], sep: str, file: File) -> _Width:
    try:
        rows = _rows_of(lines, sep, file.format == "csv", file)
    except DataError:
        return _Width(1, 0.0)
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


def _other_separator(first: Sequence[str]) -> str:
    """What to try if a row has one field."""
    other = next((other for other in (*OTHER_SEPARATORS, " ") if len(first[0].split(other)) > 1), None)
    return (
        "" if other is None or len(first) > 1 else f"; if a {SEPARATOR_NAMES[other]} separates them, pass sep={other!r}"
    )


class _Text:
    """The rows of a text: the columns that are asked for, and the lines of faults."""

    def __init__(self, own: File, whole: File, layout: TextLayout, reading: Reading):
        self._own, self._whole, self._layout, self._reading = own, whole, layout, reading

    def blocks(self, positions: Sequence[int], n_names: int = 0) -> Iterator[list[pa.Array]]:
        """These columns as texts, block by block; rows that are blank or to be skipped are left out."""
        own, layout = self._own, self._layout
        if own.byte_range is not None and own.byte_range[0] == own.byte_range[1]:
            return  # Arrow rejects empty text
        content = own.open()
        if own.byte_range is None:
            content.read(layout.n_bytes_before)
        with ReadAhead(content, BLOCK_BYTES) as stream:
            checked = _Checked(stream, layout)
            try:
                n_rows = 0
                for batch in self._parsed(checked, positions):
                    yield batch.columns
                    n_rows += len(batch)
                    self._reading.report(stream.position, own.size, f"{n_rows:,} facts")
            except (pa.ArrowInvalid, _TextFaultError) as problem:
                raise self._first_fault() or DataError(f"{own.path}: {one_line(problem)}") from None

    def _parsed(self, stream: _Checked, positions: Sequence[int]) -> Iterator[pa.RecordBatch]:
        layout, reading = self._layout, self._reading
        names = [str(position) for position in positions]

        def skip_or_refuse(row: arrow_csv.InvalidRow) -> str:
            is_blank = not row.text.replace(layout.sep, "").strip()
            reading.n_without_names += is_blank and layout.sep in row.text
            reading.n_skipped += not is_blank and reading.skip_bad_rows
            return "skip" if is_blank or reading.skip_bad_rows else "error"

        try:
            reader = arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(column_names=list(map(str, range(layout.n_fields))), block_size=BLOCK_BYTES),
                arrow_csv.ParseOptions(
                    delimiter=layout.sep,
                    quote_char='"' if layout.quoted else False,
                    newlines_in_values=layout.quoted,
                    invalid_row_handler=skip_or_refuse,
                ),
                arrow_csv.ConvertOptions(
                    check_utf8=False,
                    column_types=dict.fromkeys(names, pa.large_string()),
                    include_columns=names,
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as problem:
            if "Empty CSV" in str(problem):
                return  # nothing below the header
            raise
        yield from reader

    def _rows(self) -> Iterator[TextRow]:
        """The rows of the whole text below the header that are not blank, with their lines."""
        with closing(self._whole.open()) as stream:
            lines = text_lines(stream, self._whole.path)
            n_before = self._layout.n_lines_before
            texts = islice(lines, n_before, None)
            yield from _split(texts, self._layout.sep, self._layout.quoted, self._whole, n_before)

    def _ragged(self, row: TextRow) -> str | None:
        """What is wrong with the number of fields of a row; empty if the row is blank."""
        if len(row.fields) == self._layout.n_fields:
            return None
        if not "".join(row.fields).strip():
            return ""
        separated = f"{SEPARATOR_NAMES.get(self._layout.sep, repr(self._layout.sep))}-separated"
        shown = ", ".join(repr(field[:MAX_SHOWN_CHARACTERS]) for field in row.fields[:MAX_SHOWN_FIELDS])
        place, wanted = f"{self._whole.path}:{row.line}", f"expected {self._layout.n_fields} {separated} fields"
        return f"{place}: {wanted}, got {len(row.fields)} ({shown})"

    def _first_fault(self) -> DataError | None:
        """The first row that cannot be read at all, or that has too few or too many fields."""
        for row in self._rows():
            _check_utf8(row, self._whole)
            if (fault := self._ragged(row)) and not self._reading.skip_bad_rows:
                return DataError(f"{fault}; {self._reading.bad_rows}")
        return None

    def place(self, number: int) -> str:
        """The line of a row, of those that Arrow returns in the parts before and in this one."""
        low = 0 if self._own.byte_range is None else self._own.byte_range[0]
        n_before = 0
        if low:  # Arrow counts the rows of this part, each of them a line
            with closing(self._whole._replace(byte_range=(0, low)).open()) as stream:
                n_before = sum(1 for _ in text_lines(stream, self._whole.path))
        rows = (row for row in self._rows() if self._ragged(row) is None and row.line > n_before)
        return f"{self._whole.path}:{next(islice(rows, number, None)).line}"

    def bad_lines(self, bad: Sequence[int], limit: int) -> Iterator[tuple[int, str | None]]:
        """The first lines that are skipped, with what is wrong with the number of fields, if that is it.

        `bad`: rows, of those that Arrow returns.
        """
        wrong, number, found = set(bad), 0, 0
        for row in self._rows():
            fault = self._ragged(row)
            if fault or (fault is None and number in wrong):
                yield row.line, fault
                found += 1
            number += fault is None
            if found == limit:
                return


class _TextFaultError(ValueError):
    """A block of text with a wrong quote, or that is not UTF-8."""


class _Checked:
    """A stream of text that raises where Arrow accepts a fault: a quote that is never closed, or text after a quote."""

    def __init__(self, stream: ReadAhead, layout: TextLayout):
        self._stream, self._quoted = stream, layout.quoted
        self._sep, self._state = np.uint8(ord(layout.sep)), _FIELD_START
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int | None = None) -> bytes:
        """The next block; empty at the end."""
        block = self._stream.read(size)
        try:
            if not block.isascii() or self._decoder.getstate()[0] or not block:
                self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as problem:
            raise _TextFaultError(str(problem)) from None
        if self._quoted and self._is_wrong(block):
            raise _TextFaultError("a wrong quote")
        return block

    def _is_wrong(self, block: bytes) -> bool:
        """Whether the next block is wrong; it is empty at the end."""
        if not block:
            return self._state == _QUOTED
        if self._state in (_QUOTED, _AFTER_QUOTE) or b'"' in block:
            self._state = int(_scan(np.frombuffer(block, np.uint8), self._sep, self._state))
        else:
            is_start = block[-1] in (_LINE_FEED, _RETURN, int(self._sep))
            self._state = _FIELD_START if is_start else _PLAIN
        return self._state < 0

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed

    def close(self) -> None:
        """Stop reading."""
        self._stream.close()


@njit(nogil=True, cache=True)
def _scan(data, sep, state):  # type: ignore[no-untyped-def]
    """The state after a block, −1 if text follows a closing quote."""
    for character in data:
        if state == _QUOTED:
            if character == _QUOTE:
                state = _AFTER_QUOTE
        elif character == sep or character == _LINE_FEED or character == _RETURN:  # noqa: SIM109  # Numba
            state = _FIELD_START
        elif character == _QUOTE and state != _PLAIN:  # opens a field, or is the second of two
            state = _QUOTED
        elif state == _AFTER_QUOTE:
            return -1
        else:
            state = _PLAIN
    return state
