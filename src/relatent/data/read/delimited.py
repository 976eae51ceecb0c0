"""Read facts from files and tables.

Text and Parquet are read by column in blocks, never row by row, and names become numbers block by block: neither the
text nor a string for each name is ever held. Only a file that turns out to be faulty is read a second time, slowly, to
name the line at fault.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...arrays import Vector
from ...distributed.workers import Workers
from ...errors import DataError, one_line
from ...progress import Progress
from ..array_checks import TwoWeightsError
from ..facts import Facts
from .files import WHOLE, File, Part, byte_order_mark, identify, line_cut
from .rdf import read_rdf

_ROLES = ("subject", "relation", "object", "weight")
_ENDS = (
    ("subject", "object"),
    ("subj", "obj"),
    ("s", "o"),
    ("head", "tail"),
    ("h", "t"),
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("start", "end"),
)
_WEIGHTS = {"weight", "weights", "confidence", "w"}
_COUNTS = {"count", "counts", "times", "frequency"}  # how often a fact was seen
_MIDDLES = {"relation", "predicate", "rel", "r", "p", "property", "relationship", "edge", "type", "label"}

_BLOCK = 16 << 20  # bytes parsed at a time; no row may be longer
_ROWS = 1 << 18  # rows of a table taken at a time


def read(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> Facts:
    """Facts from a file, or from a pandas, polars or Arrow table.

    Names are taken as they stand: there is no missing-value marker, and TSV knows no quotes. Entities and relations are
    numbered in the order of their sorted names. RDF facts whose object is a literal are left out, with a `DataWarning`.

    Parameters
    ----------
    source : path or table
        TSV (`.tsv`, `.txt`), CSV, Parquet, N-Triples (`.nt`) or Turtle (`.ttl`), plain or compressed (`.gz`, `.zst`,
        `.bz2`). A table may be anything that speaks the Arrow C stream protocol.
    columns : sequence of str, optional
        Names of the columns that hold subject, relation, object and, if there are four, weight. Otherwise columns
        with usual names (subject, relation, object; head, relation, tail; source, type, target; … and weight) are
        taken, in any order, and others left out; without such names there must be three columns, or four with weights.
        A fourth column named count, counts, times or frequency says how often a fact was seen (`Facts.times`).
    header : bool, optional
        Whether row one of a TSV or CSV file names the columns; by default it does if the names are usual ones.
    progress : function (done, total, note), optional
        Called after each block with the bytes read of a file as it stands, compressed or not (the rows of a table), and
        a note that counts the facts.
    workers : Workers, optional
        Several processes that read the file together, each a part of the rows: a range of bytes of a plain text file
        or of N-Triples, of row groups of Parquet. A file that cannot be cut (compressed, Turtle, CSV with quotes) is
        read by the first and sent on. Each gets the facts of the subjects it owns, over the vocabulary of all.
    """
    _check_columns(columns)
    report = progress or _silent
    if workers is not None and workers.size > 1:
        from .parallel import read_together

        return read_together(source, columns, header, report, workers)
    if not isinstance(source, (str, os.PathLike)):
        return _read_table(_arrow_table(source), columns, report)
    file = identify(Path(source))
    with readable(file):
        if file.kind in ("nt", "ttl"):
            facts = read_rdf(file, columns, report)
        elif file.kind == "parquet":
            facts = read_parquet(file, columns, report)
        else:
            facts = read_text(file, columns, header, report)
    return facts


@contextmanager
def readable(file: File) -> Iterator[None]:
    """Within it, what a system or Arrow says of a file that cannot be read becomes an error that names the file."""
    try:
        yield
    except OSError as problem:  # also what Arrow raises for a compressed stream that is cut short or damaged
        raise DataError(f"{file.path}: cannot be read: {one_line(problem)}") from None


def parse_tsv(content: bytes, name: str) -> Facts:
    """Facts from the bytes of a tab-separated file without a header; errors call it `name`."""
    return read_text(File(Path(name), "tsv", None, content), None, False, _silent)


def _silent(done: int, total: int, note: str) -> None:
    """Nobody asked for reports."""


# --- which columns


def _check_columns(columns: Sequence[str] | None) -> None:
    if columns is None:
        return
    if isinstance(columns, str) or len(columns) not in (3, 4) or len(set(columns)) != len(columns):
        raise DataError(f"columns must be 3 or 4 different column names, got {columns!r}")


def _chosen(names: Sequence[str], columns: Sequence[str], where: str) -> tuple[int, ...]:
    for column in columns:
        if names.count(column) != 1:
            fault = "no column" if column not in names else "more than one column"
            raise DataError(f"{where}: {fault} {column!r}; there are {', '.join(map(repr, names))}")
    return tuple(names.index(column) for column in columns)


def _recognised(names: Sequence[str]) -> tuple[int, ...] | None:
    """Positions of subject, relation, object (and weight) if their columns have usual names; others are left out."""
    known = [name.strip().lower() for name in names]
    for subject, object_ in _ENDS:
        middles = [place for place, name in enumerate(known) if name in _MIDDLES]
        if known.count(subject) == known.count(object_) == len(middles) == 1:
            weights = [place for place, name in enumerate(known) if name in _WEIGHTS | _COUNTS][:1]
            kinds = {name in _COUNTS for name in known if name in _WEIGHTS | _COUNTS}
            if len(kinds) > 1:
                raise DataError("there are weights and counts; choose one with columns=(…, …, …, …)")
            return (known.index(subject), middles[0], known.index(object_), *weights)
    return None


# --- TSV and CSV


class _Layout(NamedTuple):
    width: int  # fields of a row
    order: tuple[int, ...]  # which of them are subject, relation, object and perhaps weight
    header_line: int  # 0 where there is none
    counted: bool = False  # the fourth says how often a fact was seen


def _is_count(names: Sequence[str], order: Sequence[int]) -> bool:
    return len(order) == 4 and names[order[3]].strip().lower() in _COUNTS


def read_text(
    file: File, columns: Sequence[str] | None, header: bool | None, report: Progress, part: Part = WHOLE
) -> Facts:
    """Facts of a TSV or CSV file, or of a part of its lines, which may have none."""
    layout = _layout(file, columns, header)
    own, first = file, layout.header_line
    if part.of > 1:
        first = _begin(file, layout)
        own = file._replace(cut=line_cut(file, first, part))
    try:
        with closing(_parsed(own, layout, report)) as blocks:
            return _facts(
                blocks,
                counted=layout.counted,
                empty=None if part.of > 1 else f"{file.path}: holds no facts",
                place=lambda row: f"{file.path}:{_line_of(file, layout, row + _rows_before(own, first))}",
            )
    except pa.ArrowInvalid as problem:
        _raise_first_fault(file, layout)
        raise DataError(f"{file.path}: {one_line(problem)}") from None


def _layout(file: File, columns: Sequence[str] | None, header: bool | None) -> _Layout:
    line, fields = next(_rows(file), (0, []))
    if not line:
        raise DataError(f"{file.path}: holds no facts")
    if columns is not None:
        if header is False:
            raise DataError("columns are picked by their names in row one, but header=False says it has none")
        chosen = _chosen(fields, columns, f"{file.path}:{line}")
        return _Layout(len(fields), chosen, line, _is_count(fields, chosen))
    recognised = None if header is False else _recognised(fields)
    if recognised is None and len(fields) not in (3, 4):
        raise DataError(
            f"{file.path}:{line}: expected 3 {_separated(file)} fields, or 4 with a weight, got {len(fields)}"
        )
    has_header = recognised is not None if header is None else header
    order = recognised or tuple(range(len(fields)))
    return _Layout(len(fields), order, line if has_header else 0, has_header and _is_count(fields, order))


def _begin(file: File, layout: _Layout) -> int:
    """The byte that the first fact begins with, or a blank line before it."""
    with open(file.path, "rb") as stream:
        for _ in range(layout.header_line):
            stream.readline()
        return stream.tell() or byte_order_mark(file)


def _rows_before(file: File, first: int) -> int:
    """Facts before the part of a file that is read; lines are rows, as files with quotes are not cut."""
    if file.cut is None:
        return 0
    count = 0
    with open(file.path, "rb") as stream:
        stream.seek(first)
        while stream.tell() < file.cut[0]:
            count += bool(stream.readline().strip(b"\r\n"))
    return count


def _parsed(file: File, layout: _Layout, report: Progress) -> Generator[list[pa.Array], None, None]:
    """The chosen columns, block by block."""
    from pyarrow import csv as arrow_csv

    is_csv = file.kind == "csv"
    names = [str(position) for position in range(layout.width)]
    types = [pa.large_string()] * 3 + [pa.float64()]
    chosen = [str(position) for position in layout.order]
    n_facts = 0
    if file.cut is not None and file.cut[0] == file.cut[1]:
        return  # Arrow takes no text without rows
    skipped = 0 if file.cut is not None else layout.header_line
    with file.read_ahead(_BLOCK) as stream:
        reader = arrow_csv.open_csv(
            stream,
            arrow_csv.ReadOptions(column_names=names, skip_rows=skipped, block_size=_BLOCK),
            arrow_csv.ParseOptions(
                delimiter=file.separator, quote_char='"' if is_csv else False, newlines_in_values=is_csv
            ),
            arrow_csv.ConvertOptions(
                column_types=dict(zip(chosen, types, strict=False)),
                include_columns=chosen,
                null_values=[],
                strings_can_be_null=False,
            ),
        )
        for batch in reader:
            yield batch.columns
            n_facts += len(batch)
            report(stream.position, file.size, f"{n_facts:,} facts")


def _rows(file: File) -> Generator[tuple[int, list[str]], None, None]:
    """Each row with the number of its first line; bytes that are not UTF-8 come as lone surrogates."""
    newline = "" if file.kind == "csv" else None  # RFC 4180 allows line breaks in quotes
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if file.kind == "csv" else csv.QUOTE_NONE
    with io.TextIOWrapper(file.open(), encoding="utf-8", errors="surrogateescape", newline=newline) as text:
        reader = csv.reader(text, delimiter=file.separator, quoting=quoting, strict=True)
        line = 1
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as problem:
            raise DataError(f"{file.path}:{line}: {problem}") from None


def _fact_rows(file: File, layout: _Layout) -> Iterator[tuple[int, list[str]]]:
    return islice(_rows(file), 1 if layout.header_line else 0, None)


def _line_of(file: File, layout: _Layout, row: int) -> int:
    with closing(_rows(file)) as rows:
        return next(islice(rows, row + (1 if layout.header_line else 0), None))[0]


def _raise_first_fault(file: File, layout: _Layout) -> None:
    for line, fields in _fact_rows(file, layout):
        fault = _fault(file, layout, fields)
        if fault:
            raise DataError(f"{file.path}:{line}: {fault}")


def _fault(file: File, layout: _Layout, fields: list[str]) -> str | None:
    if any("\udc80" <= character <= "\udcff" for field in fields for character in field):
        return "is not valid UTF-8; save the file as UTF-8"
    if len(fields) != layout.width:
        return f"expected {layout.width} {_separated(file)} fields, got {len(fields)}"
    cells = [fields[position] for position in layout.order]
    for role, cell in zip(_ROLES, cells[:3], strict=False):
        if not cell:
            return f"empty {role}"
    return _number_fault(cells[3], layout.counted) if len(cells) == 4 else None


def _number_fault(text: str, counted: bool) -> str | None:
    try:
        number = float(text)
    except ValueError:
        return f"expected a number as {'count' if counted else 'weight'} in the fourth column, got {text!r}"
    if counted:
        return None if number >= 1 and number.is_integer() else _wrong_count(number)
    return None if 0 <= number < float("inf") else _wrong_weight(number)


def _wrong_count(count: float) -> str:
    return f"counts are whole numbers of at least 1, got {count:g}"


def _wrong_weight(weight: float) -> str:
    return f"weights are confidences, finite and at least 0, got {weight}"


def _separated(file: File) -> str:
    return "comma-separated" if file.kind == "csv" else "tab-separated"


# --- tables


def _arrow_table(source: Any) -> pa.Table:
    pandas = sys.modules.get("pandas")
    try:
        if pandas is not None and isinstance(source, pandas.DataFrame):
            return pa.Table.from_pandas(source, preserve_index=False)
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
        if hasattr(source, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(source)])
    except (pa.ArrowException, ValueError, TypeError) as problem:
        raise DataError(f"table: cannot be read: {one_line(problem)}") from None
    raise DataError(
        f"cannot read facts from {type(source).__name__!r}; pass a path, or a pandas, polars or Arrow table "
        "(arrays go through Facts.from_arrays)"
    )


def read_parquet(file: File, columns: Sequence[str] | None, report: Progress, part: Part = WHOLE) -> Facts:
    """Facts of a Parquet file, or of a part of its row groups, which may have none."""
    from pyarrow import parquet

    try:
        with file.open() as stream:
            source = pa.BufferReader(stream.read()) if file.codec else str(file.path)
        with parquet.ParquetFile(source) as opened:
            names = opened.schema_arrow.names
            plain = len(set(names)) == len(names) and not any("." in name for name in names)  # else no name picks one
            order = _order(names, columns, str(file.path))
            wanted = [names[position] for position in order] if plain else None
            low, high = (opened.num_row_groups * number // part.of for number in (part.number, part.number + 1))
            n_rows = [opened.metadata.row_group(group).num_rows for group in range(high)]
            batches = opened.iter_batches(_ROWS, row_groups=list(range(low, high)), columns=wanted)
            picked = (
                [batch.column(names[position] if plain else position) for position in order]
                for batch in _reported(batches, sum(n_rows[low:]), file.size // part.of, report)
            )
            kinds = [opened.schema_arrow.field(position) for position in order]
            return _of_columns(picked, kinds, str(file.path), sum(n_rows[:low]), part.of > 1)
    except pa.ArrowException as problem:
        raise DataError(f"{file.path}: is not a sound Parquet file: {one_line(problem)}") from None


def _read_table(table: pa.Table, columns: Sequence[str] | None, report: Progress) -> Facts:
    order = _order(table.column_names, columns, "table")
    batches = _reported(table.to_batches(_ROWS), len(table), len(table), report)
    picked = ([batch.column(position) for position in order] for batch in batches)
    return _of_columns(picked, [table.schema.field(position) for position in order], "table")


def _reported(batches: Iterable[pa.RecordBatch], n_rows: int, total: int, report: Progress) -> Iterator[pa.RecordBatch]:
    """The same batches, with a report after each; `total` is what all the rows come to."""
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        report(total * done // max(n_rows, 1), total, f"{done:,} facts")


def _order(names: Sequence[str], columns: Sequence[str] | None, where: str) -> tuple[int, ...]:
    """Positions of subject, relation, object and perhaps weight among the columns of a table."""
    if columns is not None:
        return _chosen(names, columns, where)
    if found := _recognised(names):
        return found
    if len(names) == 3 or (len(names) == 4 and names[3].strip().lower() in _WEIGHTS | _COUNTS):
        return tuple(range(len(names)))
    raise DataError(f"{where}: expected 3 columns, or 4 with a weight, got {len(names)}; choose with columns=(…, …, …)")


def _of_columns(
    picked: Iterable[list[pa.Array]], fields: list[pa.Field], where: str, before: int = 0, may_be_empty: bool = False
) -> Facts:
    """Facts of batches of the picked columns; `before`: rows of the table that are left out before them."""

    def converted(columns: list[pa.Array]) -> list[pa.Array]:
        return [
            (_weight_column if role == "weight" else _name_column)(column, field.name, where)
            for role, column, field in zip(_ROLES, columns, fields, strict=False)
        ]

    converted([pa.nulls(0, field.type) for field in fields])  # types are refused even where there are no rows
    return _facts(
        map(converted, picked),
        counted=len(fields) == 4 and fields[3].name.strip().lower() in _COUNTS,
        empty=None if may_be_empty else f"{where}: holds no facts",
        place=lambda row: f"{where}: row {before + row + 1}",
    )


def _name_column(column: pa.Array, name: str, where: str) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        values, kind = column.dictionary, kind.value_type
        if _is_text(kind) and "view" in str(kind):  # Arrow takes no rows of these
            values = values.cast(pa.large_string())
        column = values.take(column.indices)
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise DataError(f"{where}: column {name!r} must hold names, got values of type {kind}")
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid as problem:
        raise DataError(f"{where}: column {name!r}: {one_line(problem)}") from None


def _is_text(kind: pa.DataType) -> bool:
    checks = ("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view")
    return any(getattr(pa.types, check)(kind) for check in checks)


def _weight_column(column: pa.Array, name: str, where: str) -> pa.Array:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"{where}: the fourth column {name!r} must hold numbers, got values of type {kind}")
    return column.cast(pa.float64())


# --- from columns of names to facts


def _facts(blocks: Iterable[list[pa.Array]], *, counted: bool, empty: str | None, place: Callable[[int], str]) -> Facts:
    """Facts of blocks of three columns of strings and perhaps weights or counts.

    `empty`: what is said if there are none, unless that is well; `place` says where a row stands.
    """
    from .gathering import Gathering  # imports Numba, which takes a while
    from .string_table import Spans

    gathering = Gathering()
    for columns in blocks:
        before = gathering.n_facts
        for role, column in zip(_ROLES, columns, strict=False):
            if column.null_count:
                raise DataError(f"{place(before + pc.index(column.is_null(), True).as_py())}: missing {role}")
        names = [Spans.of(column) for column in columns[:3]]
        for role, spans in zip(_ROLES, names, strict=False):
            row = spans.first_empty()
            if row is not None:
                raise DataError(f"{place(before + row)}: empty {role}")
        values = columns[3].to_numpy() if len(columns) == 4 else None
        if values is not None and (fault := (_wrong_counts if counted else _wrong_weights)(values)):
            raise DataError(f"{place(before + fault.row)}: {fault.text}")
        gathering.add(names, values)
    if not gathering.n_facts and empty is not None:
        raise DataError(empty)
    try:
        return gathering.facts(counted=counted)
    except TwoWeightsError as problem:
        row, earlier, w = problem.row, problem.earlier, problem.weights
        raise DataError(
            f"{place(row)}: gives weight {w[0]} to a fact that has weight {w[1]} at {place(earlier)}; keep one of them"
        ) from None


class _Fault(NamedTuple):
    row: int
    text: str


def _wrong_counts(counts: Vector) -> _Fault | None:
    wrong = ~((counts >= 1) & (counts == np.round(counts)) & np.isfinite(counts))
    row = int(np.argmax(wrong))
    return _Fault(row, _wrong_count(counts[row])) if wrong.any() else None


def _wrong_weights(weights: Vector) -> _Fault | None:
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    row = int(np.argmax(wrong))
    return _Fault(row, _wrong_weight(weights[row])) if wrong.any() else None
