"""Facts from TSV and CSV files.

Arrow parses the file in blocks of columns, so that neither the text nor a Python string per name is kept. A file with
a fault is read a second time, row by row, to find the line for the error message.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
from pyarrow import csv as arrow_csv

from ...errors import DataError, one_line
from ..facts import Facts
from .checked_rows import MAX_SHOWN_CHARACTERS
from .columns import ColumnRoles
from .fact_builder import facts_from_blocks
from .file_content import WHOLE_FILE, File, FilePart, byte_order_mark_length, line_range
from .first_row import suspicious_first_row, without_header
from .quotes import CheckedQuotes, CheckedUtf8
from .reading import SEPARATOR_NAMES, SKIPPING, Reading
from .text_layout import TextHead, TextLayout, text_layout
from .text_rows import HEAD_BYTES, MAX_LINE_BYTES, TextFaultError, TextRow, split_rows, text_lines, too_long
from .value_kinds import ANY_NUMBER, PLAIN
from .weights import count_fault, weight_fault

MAX_SHOWN_FIELDS = 5  # of a wrong row
BLOCK_BYTES = MAX_LINE_BYTES  # parsed at a time; no row may be longer
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class _Text(NamedTuple):
    """A delimited file, or a part of its lines, and how it is laid out."""

    file: File
    layout: TextLayout
    skip_bad_rows: bool
    is_lenient: bool  # rows with a wrong number of fields are left out if they are blank or to be skipped

    def fault(self, line: int, reason: object) -> DataError:
        return DataError(f"{self.file.path}:{line}: {reason}")

    def rows(self) -> Generator[TextRow, None, None]:
        """The rows below the header, with the numbers of their lines."""
        n_skipped = self.layout.n_lines_before if self.file.byte_range is None else 0
        n_before = n_skipped or self._n_lines_before()
        with closing(self.file.open()) as stream:
            lines = islice(text_lines(stream), n_skipped, None)
            try:
                for row in split_rows(lines, self.layout.sep, quoted=self.layout.quoted):
                    yield row._replace(first_line=row.first_line + n_before)
            except TextFaultError as problem:
                raise self.fault(problem.line + n_before, problem) from None

    def _n_lines_before(self) -> int:
        """Number of lines before the part of a file."""
        if self.file.byte_range is None:
            return 0
        with closing(self.file._replace(byte_range=(0, self.file.byte_range[0])).open()) as stream:
            return sum(1 for _ in text_lines(stream))

    def line_of(self, row: int) -> int:
        """The number of the first line of a row, of those that Arrow returns."""
        with closing(self.rows()) as rows:
            returned = (one for one in rows if not self.is_left_out(one.fields))
            return next(islice(returned, row, None)).first_line

    def is_left_out(self, fields: list[str]) -> bool:
        """Whether a row has a wrong number of fields and is left out for it."""
        is_wrong = self.is_lenient and len(fields) != self.layout.n_fields
        return is_wrong and (self.skip_bad_rows or not "".join(fields).strip())

    def faults(self, *, to_be_skipped: bool) -> Generator[tuple[int, str], None, None]:
        """Line and fault of the rows that are no facts, of all or of those that cannot be skipped."""
        with closing(self.rows()) as rows:
            for row in rows:
                fault = _fault(self.layout, row.fields)
                if fault and (to_be_skipped or SKIPPING not in fault):
                    yield row.first_line, fault

    def first_fault(self, *, to_be_skipped: bool) -> DataError | None:
        """The first of these rows as an error."""
        with closing(self.faults(to_be_skipped=to_be_skipped)) as faults:
            return next((self.fault(line, fault) for line, fault in faults), None)


def read_delimited(file: File, reading: Reading, part: FilePart = WHOLE_FILE) -> Facts:
    """Facts of a TSV or CSV file, or of a part of its lines, which may have none."""
    file = with_encoding(file, reading)
    head = _head(file)
    text = own = _Text(file, text_layout(head, reading, file), reading.skip_bad_rows, reading.skip_bad_rows)
    if part.n_parts > 1:
        first_byte = byte_order_mark_length(file) + text.layout.n_bytes_before
        own = text._replace(file=file._replace(byte_range=line_range(file, first_byte, part)))
    empty_message = None if part.n_parts > 1 else f"{file.path}: contains no facts"
    try:
        try:
            facts = _facts(own, reading, empty_message)
        except pa.ArrowInvalid:
            if text.is_lenient or text.first_fault(to_be_skipped=True):
                raise
            reading.n_stripped = reading.n_without_names = (
                0  # there are blank lines; they are rare, so a second attempt leaves them out
            )
            facts = _facts(own._replace(is_lenient=True), reading, empty_message)
    except pa.ArrowInvalid as problem:
        fault = text.first_fault(to_be_skipped=not text.skip_bad_rows)
        raise fault or DataError(f"{file.path}: {one_line(problem)}") from None
    except UnicodeError as problem:
        raise DataError(f"{file.path}: is not valid {file.encoding}: {one_line(problem)}") from None
    if reading.n_skipped:
        with closing(text.faults(to_be_skipped=True)) as faults:
            found = list(islice(faults, reading.max_skipped_lines))
        reading.skipped_lines = [line for line, _ in found]
        if found:
            reading.first_skipped = str(text.fault(*found[0])).removesuffix(f"; {SKIPPING}")
    first = suspicious_first_row(head, text.layout, reading)
    if part.n_parts > 1:
        reading.first_row = first  # judged when the facts of all parts are known
        return facts
    return without_header(facts, first, reading)


def _facts(text: _Text, reading: Reading, empty_message: str | None) -> Facts:
    with closing(_blocks(text, reading)) as blocks:
        return facts_from_blocks(
            blocks,
            text.layout.roles,
            reading,
            empty_message=empty_message,
            locate=lambda row: f"{text.file.path}:{text.line_of(row)}",
        )


def with_encoding(file: File, reading: Reading) -> File:
    """The file with the encoding that the caller or a byte order mark gives; UTF-8 needs none."""
    if reading.encoding is None:
        with file.open() as stream:
            encoding = "utf-16" if stream.read(2) in UTF16_MARKS else None
    else:
        encoding = None if reading.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else reading.encoding
    if encoding:
        reading.understood["encoding"] = encoding
    return file._replace(encoding=encoding)


def _head(file: File) -> TextHead:
    """The first lines of the file."""
    with file.open() as stream:
        text = b""
        try:
            while block := stream.read(HEAD_BYTES):
                text += block
                if len(text) >= HEAD_BYTES and (text.count(b"\n") > 1 or len(text) > MAX_LINE_BYTES):
                    break
        except UnicodeError as problem:
            raise DataError(f"{file.path}: is not valid {file.encoding}: {one_line(problem)}") from None
    if len(text) > MAX_LINE_BYTES and b"\n" not in text and b"\r" not in text:
        raise DataError(f"{file.path}:1: {too_long()}")
    lines = text.splitlines(keepends=True)
    if block:
        lines = lines[:-1]  # the last one may go on
    if not any(map(bytes.strip, lines)):
        where = f" in its first {len(text) >> 20} MB" if block else ""
        raise DataError(f"{file.path}: contains no facts{where}")
    return TextHead(lines)


def _blocks(text: _Text, reading: Reading) -> Generator[list[pa.Array], None, None]:
    """The subject, relation, object and perhaps weight columns, block by block."""
    file = text.file
    if file.byte_range is not None and file.byte_range[0] == file.byte_range[1]:
        return  # Arrow rejects empty text
    layout = text.layout
    names = [str(position) for position in range(layout.n_fields)]
    selected = [str(position) for position in layout.roles.positions]
    is_text = text.is_lenient or layout.roles.notation is not PLAIN
    types = [pa.large_string()] * layout.roles.n_names + [pa.large_string() if is_text else pa.float64()]
    n_facts = 0

    def skip_or_refuse(row: arrow_csv.InvalidRow) -> str:
        is_blank = not row.text.replace(layout.sep, "").strip()
        reading.n_without_names += is_blank and layout.sep in row.text
        reading.n_skipped += not is_blank and text.skip_bad_rows
        return "skip" if is_blank or text.skip_bad_rows else "error"

    with file.read_ahead(BLOCK_BYTES, 0 if file.byte_range is not None else layout.n_bytes_before) as stream:
        decodable = CheckedUtf8(stream) if text.is_lenient else stream  # Arrow passes decoded rows to the function
        checked = CheckedQuotes(decodable, layout.sep) if layout.quoted else decodable
        try:
            reader = arrow_csv.open_csv(
                checked,
                arrow_csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES),
                arrow_csv.ParseOptions(
                    delimiter=layout.sep,
                    quote_char='"' if layout.quoted else False,
                    newlines_in_values=layout.quoted,
                    invalid_row_handler=skip_or_refuse if text.is_lenient else None,
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict(zip(selected, types, strict=False)),
                    include_columns=selected,
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as problem:
            if "Empty CSV" in str(problem) and not any(
                getattr(one, "is_faulty", False) for one in (checked, decodable)
            ):
                return  # nothing below the header
            raise
        for batch in reader:
            yield _with_numbers(batch.columns, text)
            n_facts += len(batch)
            reading.report(stream.position, file.size, f"{n_facts:,} facts")
        if any(getattr(one, "is_faulty", False) for one in (checked, decodable)):
            raise pa.ArrowInvalid("wrong quotes, or text that is not UTF-8")


def _with_numbers(columns: list[pa.Array], text: _Text) -> list[pa.Array]:
    """The columns with weights or counts as numbers, null where a text that is to be skipped is no number."""
    roles = text.layout.roles
    if len(columns) == roles.n_names or pa.types.is_floating(columns[-1].type):
        return columns
    numbers = roles.notation.numbers(columns[-1])
    if numbers.null_count and not text.is_lenient:
        raise pa.ArrowInvalid("a weight is no number")
    return [*columns[:-1], numbers]


# --- row by row: the line of a fault


def _fault(layout: TextLayout, fields: list[str]) -> str | None:
    """What is wrong with a row, if anything."""
    if any("\udc80" <= character <= "\udcff" for field in fields for character in field):
        return "is not valid UTF-8; save the file as UTF-8, or name its encoding: encoding='latin-1' or 'cp1252'"
    if not "".join(fields).strip():
        return None  # a blank line
    if len(fields) != layout.n_fields:
        separated = f"{SEPARATOR_NAMES.get(layout.sep, repr(layout.sep))}-separated"
        shown = ", ".join(repr(field[:MAX_SHOWN_CHARACTERS]) for field in fields[:MAX_SHOWN_FIELDS])
        return f"expected {layout.n_fields} {separated} fields, got {len(fields)} ({shown}); {SKIPPING}"
    cells = [fields[position] for position in layout.roles.positions]
    if not "".join(cells[: layout.roles.n_names]).strip():
        return None  # a row without a fact
    names = [cell.strip() for cell in cells[: layout.roles.n_names]]
    for role, name in zip(layout.roles.names, names, strict=False):
        if not name:
            return (
                f"empty {role} in the row ({', '.join(repr(one[:MAX_SHOWN_CHARACTERS]) for one in names)}); {SKIPPING}"
            )
    return _number_fault(cells[-1], layout.roles) if len(cells) > layout.roles.n_names else None


def _number_fault(text: str, roles: ColumnRoles) -> str | None:
    is_plain = roles.notation is PLAIN
    if not (ANY_NUMBER.fullmatch(text) if is_plain else roles.notation.fits(text)):
        kind, place = ("count" if roles.is_count else "weight"), ("third" if roles.edge_relation else "fourth")
        found = f"expected a number as {kind} in the {place} column, got {text!r:.100}"
        found += "" if is_plain else f" below numbers with {roles.notation.title}"
        return f"{found}; columns=(…, …, …) chooses others; {SKIPPING}"
    fault = (count_fault if roles.is_count else weight_fault)(roles.notation.number(text))
    return fault and f"{fault}; {SKIPPING}"
