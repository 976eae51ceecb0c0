"""Facts from tables in memory (pandas, polars, Arrow), and from Arrow columns of any type."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from ...errors import DataError, one_line
from ...progress import Progress
from ..facts import Facts
from .columns import ColumnRoles, table_roles
from .fact_builder import facts_from_blocks
from .reading import N_SAMPLE_ROWS, N_SHOWN_ROWS, Reading
from .value_kinds import Notation
from .weights import with_notation

ROWS_PER_BATCH = 1 << 18
MAX_SAMPLE_VALUES = 100_000
MAX_SAMPLE_CHARACTERS = 1000  # of a value


def read_frame(source: Any, reading: Reading) -> Facts:
    """Facts of a pandas, polars or Arrow table."""
    table = arrow_table(source)
    reading.is_pandas = "pandas" in type(source).__module__
    reading.understood["format"] = "table"
    roles = decide_roles(table.schema, table.slice(0, N_SAMPLE_ROWS), reading, "table")
    batches = report_batches(table.to_batches(ROWS_PER_BATCH), len(table), len(table), reading.report)
    picked = ([batch.column(position) for position in roles.positions] for batch in batches)
    fields = [table.schema.field(position) for position in roles.positions]
    return facts_from_columns(picked, fields, roles, reading, "table")


def decide_roles(schema: pa.Schema, sample: pa.Table, reading: Reading, where: str) -> ColumnRoles:
    """The roles of the columns of a table, of which `sample` has the first rows."""
    names = schema.names
    sample = sample.slice(0, max(1, MAX_SAMPLE_VALUES // max(1, len(names))))
    values = [_as_text(sample.column(position)) for position in range(len(names))]
    roles = table_roles(names, reading.columns, where, values, reading.relation)
    roles = with_notation(roles, names, values, where, may_be_blank=reading.skip_bad_rows)
    reading.set_roles(roles, names, list(zip(*(column[:N_SHOWN_ROWS] for column in values), strict=True)))
    return roles


def _as_text(column: pa.ChunkedArray) -> list[str]:
    try:
        return ["" if value is None else str(value)[:MAX_SAMPLE_CHARACTERS] for value in column.to_pylist()]
    except (ValueError, ArithmeticError):  # not UTF-8, or a date beyond Python's; an error follows if it has a role
        return [""] * len(column)


def arrow_table(source: Any) -> pa.Table:
    """A table in memory as Arrow's."""
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
        f"cannot read facts from {type(source).__name__!r}; pass a path, a pandas, polars or Arrow table, a list of "
        "(subject, relation, object), a networkx or rdflib graph, or a SciPy matrix"
    )


def python_rows(table: pa.Table | pa.RecordBatch, where: str) -> list[dict[str, Any]]:
    """The rows of an Arrow table as Python values."""
    try:
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
    except (ValueError, ArithmeticError) as problem:  # not UTF-8, or a date beyond Python's
        raise DataError(f"{where}: cannot be read: {one_line(problem)}") from None


def report_batches(
    batches: Iterable[pa.RecordBatch], n_rows: int, total: int, report: Progress
) -> Iterator[pa.RecordBatch]:
    """The same batches; reports after each which share of `total` its rows amount to."""
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        report(total * done // max(n_rows, 1), total, f"{done:,} facts")


def facts_from_columns(
    blocks: Iterable[list[pa.Array]],
    fields: list[pa.Field],
    roles: ColumnRoles,
    reading: Reading,
    where: str,
    *,
    n_rows_before: int = 0,
    may_be_empty: bool = False,
) -> Facts:
    """Facts from blocks of the subject, relation, object and perhaps weight columns, of any Arrow type.

    `n_rows_before`: number of rows of the source before the first block, for messages.
    """

    def convert(columns: list[pa.Array]) -> list[pa.Array]:
        return [
            _to_strings(column, field.name, where)
            if number < roles.n_names
            else _to_numbers(column, field.name, where, roles.notation)
            for number, (column, field) in enumerate(zip(columns, fields, strict=True))
        ]

    convert([pa.nulls(0, field.type) for field in fields])  # checks the types even if there are no rows
    return facts_from_blocks(
        map(convert, blocks),
        roles,
        reading,
        empty_message=None if may_be_empty else f"{where}: contains no facts",
        locate=lambda row: f"{where}: row {n_rows_before + row + 1}",
    )


def _to_strings(column: pa.Array, name: str, where: str) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        values, kind = column.dictionary, kind.value_type
        if _is_text(kind) and "view" in str(kind):  # Arrow cannot take rows of string views
            values = values.cast(pa.large_string())
        column = values.take(column.indices)
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise DataError(f"{where}: column {name!r} must hold names, got values of type {kind}")
    try:
        strings = column.cast(pa.large_string())
        strings.validate(full=True)  # that the bytes are UTF-8
        return strings
    except pa.ArrowInvalid as problem:
        raise DataError(f"{where}: column {name!r}: {one_line(problem)}") from None


def _is_text(kind: pa.DataType) -> bool:
    checks = ("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view")
    return any(getattr(pa.types, check)(kind) for check in checks)


def _to_numbers(column: pa.Array, name: str, where: str, notation: Notation) -> pa.Array:
    kind = column.type
    if _is_text(kind):
        numbers = notation.numbers(_to_strings(column, name, where))
        if numbers.null_count == column.null_count:
            return numbers
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"{where}: column {name!r} must hold numbers, as weights, got values of type {kind}")
    return column.cast(pa.float64())
