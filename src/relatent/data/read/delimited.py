"""Facts from TSV and CSV files.

Arrow parses the file in blocks of columns, so that neither the text nor a Python string per name is kept. A file with
a fault is read a second time, row by row, to find the line for the error message.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Literal, NamedTuple

import pyarrow as pa
from pyarrow import csv as arrow_csv

from ...errors import DataError, one_line
from ...progress import Progress
from ..facts import Facts
from .columns import ROLES, ColumnRoles, chosen_roles, count_fault, recognised_roles, roles_by_position, weight_fault
from .fact_builder import facts_from_blocks
from .file_content import WHOLE_FILE, File, FilePart, byte_order_mark_length, line_range

SEPARATORS = {"tsv": "\t", "csv": ","}
SEPARATOR_NAMES = {"tsv": "tab-separated", "csv": "comma-separated"}
BLOCK_BYTES = 16 << 20  # parsed at a time; no row may be longer


class _TextLayout(NamedTuple):
    n_fields: int  # per row
    roles: ColumnRoles
    header_line: int  # 0 if there is none


def read_delimited(
    file: File,
    columns: Sequence[str] | None,
    header: bool | None,
    report: Progress,
    part: FilePart = WHOLE_FILE,
) -> Facts:
    """Facts of a TSV or CSV file, or of a part of its lines, which may have none."""
    layout = _layout(file, columns, header)
    own, first_byte = file, 0
    if part.n_parts > 1:
        first_byte = _first_fact_byte(file, layout)
        own = file._replace(byte_range=line_range(file, first_byte, part))
    try:
        with closing(_blocks(own, layout, report)) as blocks:
            return facts_from_blocks(
                blocks,
                is_count=layout.roles.is_count,
                empty_message=None if part.n_parts > 1 else f"{file.path}: contains no facts",
                locate=lambda row: f"{file.path}:{_line_of(file, layout, row + _n_rows_before(own, first_byte))}",
            )
    except pa.ArrowInvalid as problem:
        _raise_first_fault(file, layout)
        raise DataError(f"{file.path}: {one_line(problem)}") from None


def _layout(file: File, columns: Sequence[str] | None, header: bool | None) -> _TextLayout:
    """The layout that the first row implies."""
    line, fields = next(_rows(file), (0, []))
    if not line:
        raise DataError(f"{file.path}: contains no facts")
    if columns is not None:
        if header is False:
            raise DataError(
                f"header=False says that the first row of {file.path} has no column names, but columns= chooses by "
                "name; leave one of the two out"
            )
        return _TextLayout(len(fields), chosen_roles(fields, columns, f"{file.path}:{line}"), line)
    recognised = None if header is False else recognised_roles(fields)
    if recognised is None and len(fields) not in (3, 4):
        raise DataError(
            f"{file.path}:{line}: expected 3 {SEPARATOR_NAMES[file.format]} fields, or 4 with a weight, "
            f"got {len(fields)}"
        )
    has_header = recognised is not None if header is None else header
    roles = recognised or roles_by_position(fields if has_header else (), len(fields))
    return _TextLayout(len(fields), roles, line if has_header else 0)


def _first_fact_byte(file: File, layout: _TextLayout) -> int:
    """The position of the byte after the header."""
    with open(file.path, "rb") as stream:
        for _ in range(layout.header_line):
            stream.readline()
        return stream.tell() or byte_order_mark_length(file)


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


def _blocks(file: File, layout: _TextLayout, report: Progress) -> Generator[list[pa.Array], None, None]:
    """The subject, relation, object and perhaps weight columns, block by block."""
    if file.byte_range is not None and file.byte_range[0] == file.byte_range[1]:
        return  # Arrow rejects empty text
    is_csv = file.format == "csv"
    names = [str(position) for position in range(layout.n_fields)]
    selected = [str(position) for position in layout.roles.positions]
    types = [pa.large_string()] * 3 + [pa.float64()]
    n_skipped = 0 if file.byte_range is not None else layout.header_line
    n_facts = 0
    with file.read_ahead(BLOCK_BYTES) as stream:
        reader = arrow_csv.open_csv(
            stream,
            arrow_csv.ReadOptions(column_names=names, skip_rows=n_skipped, block_size=BLOCK_BYTES),
            arrow_csv.ParseOptions(
                delimiter=SEPARATORS[file.format], quote_char='"' if is_csv else False, newlines_in_values=is_csv
            ),
            arrow_csv.ConvertOptions(
                column_types=dict(zip(selected, types, strict=False)),
                include_columns=selected,
                null_values=[],
                strings_can_be_null=False,
            ),
        )
        for batch in reader:
            yield batch.columns
            n_facts += len(batch)
            report(stream.position, file.size, f"{n_facts:,} facts")


# --- row by row: the first row, and the line of a fault


def _rows(file: File) -> Generator[tuple[int, list[str]], None, None]:
    """Each row with the number of its first line; bytes that are not UTF-8 become lone surrogates."""
    is_csv = file.format == "csv"
    newline = "" if is_csv else None  # RFC 4180 allows line breaks within quotes
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if is_csv else csv.QUOTE_NONE
    with io.TextIOWrapper(file.open(), encoding="utf-8", errors="surrogateescape", newline=newline) as text:
        reader = csv.reader(text, delimiter=SEPARATORS[file.format], quoting=quoting, strict=True)
        line = 1
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as problem:
            raise DataError(f"{file.path}:{line}: {problem}") from None


def _fact_rows(file: File, layout: _TextLayout) -> Iterator[tuple[int, list[str]]]:
    return islice(_rows(file), 1 if layout.header_line else 0, None)


def _line_of(file: File, layout: _TextLayout, row: int) -> int:
    with closing(_rows(file)) as rows:
        return next(islice(rows, row + (1 if layout.header_line else 0), None))[0]


def _raise_first_fault(file: File, layout: _TextLayout) -> None:
    for line, fields in _fact_rows(file, layout):
        fault = _fault(file, layout, fields)
        if fault:
            raise DataError(f"{file.path}:{line}: {fault}")


def _fault(file: File, layout: _TextLayout, fields: list[str]) -> str | None:
    """What is wrong with a row, if anything."""
    if any("\udc80" <= character <= "\udcff" for field in fields for character in field):
        return "is not valid UTF-8; save the file as UTF-8"
    if len(fields) != layout.n_fields:
        return f"expected {layout.n_fields} {SEPARATOR_NAMES[file.format]} fields, got {len(fields)}"
    cells = [fields[position] for position in layout.roles.positions]
    for role, cell in zip(ROLES, cells[:3], strict=False):
        if not cell:
            return f"empty {role}"
    return _number_fault(cells[3], layout.roles.is_count) if len(cells) == 4 else None


def _number_fault(text: str, is_count: bool) -> str | None:
    try:
        number = float(text)
    except ValueError:
        return f"expected a number as {'count' if is_count else 'weight'} in the fourth column, got {text!r}"
    return count_fault(number) if is_count else weight_fault(number)
