"""Facts from TSV and CSV files.

Arrow parses the file in blocks of columns, so that neither the text nor a Python string per name is kept. A file with
a fault is read a second time, row by row, to find the line for the error message.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from ...errors import DataError, one_line
from ..facts import Facts
from .column_evidence import may_be_header
from .columns import ColumnRoles, count_fault, weight_fault
from .fact_builder import facts_from_blocks
from .file_content import WHOLE_FILE, File, FilePart, byte_order_mark_length, line_range
from .quotes import CheckedQuotes
from .reading import SEPARATOR_NAMES, Reading
from .text_layout import TextHead, TextLayout, text_layout
from .text_rows import HEAD_BYTES, MAX_LINE_BYTES, TextFaultError, TextRow, split_rows, text_lines, too_long

BLOCK_BYTES = MAX_LINE_BYTES  # parsed at a time; no row may be longer
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class _Text(NamedTuple):
    """A delimited file and how it is laid out."""

    file: File
    layout: TextLayout

    def fault(self, line: int, reason: object) -> DataError:
        return DataError(f"{self.file.path}:{line}: {reason}")

    def rows(self) -> Generator[TextRow, None, None]:
        """The rows below the header, with the numbers of their lines."""
        with self.file.open() as stream:
            lines = islice(text_lines(stream), self.layout.n_lines_before, None)
            try:
                for row in split_rows(lines, self.layout.sep, quoted=self.layout.quoted):
                    yield row._replace(first_line=row.first_line + self.layout.n_lines_before)
            except TextFaultError as problem:
                raise self.fault(problem.line + self.layout.n_lines_before, problem) from None

    def line_of(self, row: int) -> int:
        """The number of the first line of a row."""
        with closing(self.rows()) as rows:
            return next(islice(rows, row, None)).first_line


def read_delimited(file: File, reading: Reading, part: FilePart = WHOLE_FILE) -> Facts:
    """Facts of a TSV or CSV file, or of a part of its lines, which may have none."""
    file = with_encoding(file, reading)
    head = _head(file)
    text = _Text(file, text_layout(head, reading, file))
    own, first_byte = file, 0
    if part.n_parts > 1:
        first_byte = byte_order_mark_length(file) + text.layout.n_bytes_before
        own = file._replace(byte_range=line_range(file, first_byte, part))
    try:
        with closing(_blocks(text, own, reading)) as blocks:
            facts = facts_from_blocks(
                blocks,
                text.layout.roles,
                reading,
                empty_message=None if part.n_parts > 1 else f"{file.path}: contains no facts",
                locate=lambda row: f"{file.path}:{text.line_of(row + _n_rows_before(own, first_byte))}",
            )
    except pa.ArrowInvalid as problem:
        _raise_first_fault(text)
        raise DataError(f"{file.path}: {one_line(problem)}") from None
    except UnicodeError as problem:
        raise DataError(f"{file.path}: is not valid {file.encoding}: {one_line(problem)}") from None
    _note_header(facts, head, text.layout, reading, part)
    return facts


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


def _note_header(facts: Facts, head: TextHead, layout: TextLayout, reading: Reading, part: FilePart) -> None:
    """Say so if the first row, which was read as a fact, looks like a header in the file as a whole."""
    if reading.header is not None or layout.header is not None or reading.columns is not None:
        return
    first = head.first_row(layout.sep, layout.quoted, layout.n_lines_before)
    values = [first[position].strip() for position in layout.roles.positions[: layout.roles.n_names]]
    if not may_be_header(values, layout.sample):
        return
    if part.n_parts == 1 and reading.strip:
        subject, object_ = (facts.entities.id(values[position]) for position in (0, -1))
        is_again = np.isin(facts.triples[:, ::2], [subject, object_]).sum() > 2
        relation = facts.relations.id(values[1]) if len(values) == 3 else None
        if is_again or (relation is not None and (facts.triples[:, 1] == relation).sum() > 1):
            return
    shown = ", ".join(map(repr, values))
    reading.notes.append(
        f"the first row ({shown}) was read as a fact, but none of its values occurs again; header=True reads it as "
        "column names, header=False as a fact"
    )


def _n_rows_before(file: File, first_byte: int) -> int:
    """Number of facts before the part of a file that is read; each line is a row, as files with quotes are not cut."""
    if file.byte_range is None:
        return 0
    count = 0
    with open(file.path, "rb") as stream:
        stream.seek(first_byte)
        while stream.tell() < file.byte_range[0]:
            count += bool(stream.readline().strip(b"\r\n"))
    return count


def _blocks(text: _Text, file: File, reading: Reading) -> Generator[list[pa.Array], None, None]:
    """The subject, relation, object and perhaps weight columns, block by block."""
    if file.byte_range is not None and file.byte_range[0] == file.byte_range[1]:
        return  # Arrow rejects empty text
    layout = text.layout
    names = [str(position) for position in range(layout.n_fields)]
    selected = [str(position) for position in layout.roles.positions]
    types = [pa.large_string()] * layout.roles.n_names + [pa.float64()]
    n_facts = 0
    with file.read_ahead(BLOCK_BYTES, 0 if file.byte_range is not None else layout.n_bytes_before) as stream:
        checked = CheckedQuotes(stream, layout.sep) if layout.quoted else stream
        try:
            reader = arrow_csv.open_csv(
                checked,
                arrow_csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES),
                arrow_csv.ParseOptions(
                    delimiter=layout.sep, quote_char='"' if layout.quoted else False, newlines_in_values=layout.quoted
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict(zip(selected, types, strict=False)),
                    include_columns=selected,
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as problem:
            if "Empty CSV" in str(problem) and not getattr(checked, "is_faulty", False):
                return  # nothing below the header
            raise
        for batch in reader:
            yield batch.columns
            n_facts += len(batch)
            reading.report(stream.position, file.size, f"{n_facts:,} facts")
        if isinstance(checked, CheckedQuotes) and checked.is_faulty:
            raise pa.ArrowInvalid("wrong quotes")


# --- row by row: the line of a fault


def _raise_first_fault(text: _Text) -> None:
    for row in text.rows():
        if fault := _fault(text.layout, row.fields):
            raise text.fault(row.first_line, fault)


def _fault(layout: TextLayout, fields: list[str]) -> str | None:
    """What is wrong with a row, if anything."""
    if any("\udc80" <= character <= "\udcff" for field in fields for character in field):
        return "is not valid UTF-8; save the file as UTF-8, or name its encoding: encoding='latin-1' or 'cp1252'"
    if len(fields) != layout.n_fields:
        separated = f"{SEPARATOR_NAMES.get(layout.sep, repr(layout.sep))}-separated"
        return f"expected {layout.n_fields} {separated} fields, got {len(fields)}"
    cells = [fields[position] for position in layout.roles.positions]
    for role, cell in zip(layout.roles.names, cells[: layout.roles.n_names], strict=False):
        if not cell and not layout.roles.may_be_nodes:
            return f"empty {role}"
    return _number_fault(cells[-1], layout.roles) if len(cells) > layout.roles.n_names else None


def _number_fault(text: str, roles: ColumnRoles) -> str | None:
    try:
        number = float(text)
    except ValueError:
        kind, place = ("count" if roles.is_count else "weight"), ("third" if roles.edge_relation else "fourth")
        return f"expected a number as {kind} in the {place} column, got {text!r:.100}; columns=(…, …, …) chooses others"
    return count_fault(number) if roles.is_count else weight_fault(number)
