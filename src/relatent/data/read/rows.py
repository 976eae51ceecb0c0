"""Facts from rows of Python values: tuples, dicts, and what databases and JSON give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from ...errors import DataError
from ..facts import Facts
from ..names import is_utf8
from .columns import ColumnRoles, as_edges, chosen_roles, roles_by_position, table_roles
from .fact_builder import facts_from_blocks
from .reading import N_SAMPLE_ROWS, N_SHOWN_ROWS, SKIPPING, Reading

ROWS_PER_BATCH = 1 << 14
WRONG: Any = ()  # no name and no number: in place of the values of a row that is skipped


def facts_from_rows(
    rows: Iterable[Any], reading: Reading, where: str, *, names: Sequence[str] | None = None, total: int = 0
) -> Facts:
    """Facts of rows that are mappings, or sequences with or without column names."""
    remaining = iter(rows)
    first = list(islice(remaining, N_SAMPLE_ROWS))
    if not first:
        raise DataError(f"{where}: contains no facts")
    if isinstance(first[0], Mapping):
        names = list(dict.fromkeys(key for row in first if isinstance(row, Mapping) for key in row))
        if not all(isinstance(name, str) for name in names):
            raise DataError(f"{where}: the keys of a row must be strings, got {names!r}")
    roles = _roles(first, names, reading, where)
    keys = [names[position] for position in roles.positions] if isinstance(first[0], Mapping) and names else None
    blocks = _blocks(chain(first, remaining), roles, keys, len(names or first[0]), reading, where, total)
    return facts_from_blocks(
        blocks,
        roles,
        reading,
        empty_message=f"{where}: contains no facts",
        locate=lambda row: f"{where}: row {row + 1}",
    )


def _roles(first: Sequence[Any], names: Sequence[str] | None, reading: Reading, where: str) -> ColumnRoles:
    """The roles of the columns, by their names or positions and their first values."""
    width = len(names) if names is not None else _width(first[0], where)
    if isinstance(first[0], Mapping):
        table = [[row.get(name) for name in names or ()] for row in first if isinstance(row, Mapping)]
    else:
        table = [list(row) for row in first if isinstance(row, Sequence) and len(row) == width]
    texts = [[_shown(value) for value in row] for row in table]
    sample = [list(column) for column in zip(*texts, strict=True)]
    if names is not None:
        roles = table_roles(names, reading.columns, where, sample, reading.relation)
    elif reading.columns is not None:
        roles = chosen_roles((), reading.columns, where, width, reading.relation)
    elif width in (2, 3, 4):
        roles = as_edges(roles_by_position((), width, sample), reading.relation, where)
    else:
        raise DataError(
            f"{where}: row 1: expected (subject, relation, object), with a weight (…, weight), or (subject, object), "
            f"got {width} values"
        )
    reading.set_roles(roles, names or (), texts[:N_SHOWN_ROWS])
    return roles


def _shown(value: Any) -> str:
    """A value as text, to find out what its column holds."""
    try:
        return "" if value is None else str(value)
    except ValueError:  # a number of very many digits
        return ""


def _width(row: Any, where: str) -> int:
    if isinstance(row, (str, bytes)) or not isinstance(row, Sequence):
        raise DataError(f"{where}: a row must be a tuple (subject, relation, object) or a dict, got {row!r:.100}")
    return len(row)


def _blocks(
    rows: Iterable[Any],
    roles: ColumnRoles,
    keys: Sequence[str] | None,
    width: int,
    reading: Reading,
    where: str,
    total: int,
) -> Iterator[list[pa.Array]]:
    """The columns with roles, block by block."""
    done, remaining = 0, iter(rows)
    while block := list(islice(remaining, ROWS_PER_BATCH)):
        places = [f"{where}: row {done + number}" for number in range(1, len(block) + 1)]
        columns = _columns(block, roles, keys, width, places, reading.skip_bad_rows)
        yield [
            (_names if number < roles.n_names else _numbers)(column, role, places, reading.skip_bad_rows)
            for number, (role, column) in enumerate(zip(roles.names, columns, strict=True))
        ]
        done += len(block)
        reading.report(done, total, f"{done:,} facts")


def _columns(
    block: list[Any], roles: ColumnRoles, keys: Sequence[str] | None, width: int, places: list[str], skip: bool
) -> list[Sequence[Any]]:
    """The columns with roles of a block of rows."""
    kinds = set(map(type, block))
    if keys is not None and kinds == {dict}:
        return [[row.get(key) for row in block] for key in keys]
    if keys is None and kinds <= {tuple, list} and set(map(len, block)) == {width}:
        return [[row[position] for row in block] for position in roles.positions]
    nothing = [WRONG] * len(roles.positions)
    picked = [
        _value_or(nothing, skip, _picked, row, roles, keys, width, place)
        for row, place in zip(block, places, strict=True)
    ]
    return list(zip(*picked, strict=True))


def _picked(row: Any, roles: ColumnRoles, keys: Sequence[str] | None, width: int, where: str) -> list[Any]:
    """The values with roles of one row."""
    if keys is not None:
        if not isinstance(row, Mapping):
            raise DataError(f"{where}: expected a dict, as in row 1, got {row!r:.100}; {SKIPPING}")
        return [row.get(key) for key in keys]
    if isinstance(row, (str, bytes, Mapping)) or not isinstance(row, Sequence) or len(row) != width:
        raise DataError(f"{where}: expected {width} values, as in row 1, got {row!r:.100}; {SKIPPING}")
    return [row[position] for position in roles.positions]


def _names(values: Sequence[Any], role: str, places: list[str], skip: bool) -> pa.Array:
    if set(map(type, values)) == {str}:
        try:
            return pa.array(values, pa.large_string())
        except UnicodeError:
            pass  # the loop below finds the row
    named = [_value_or(None, skip, _name, value, role, place) for value, place in zip(values, places, strict=True)]
    return pa.array(named, pa.large_string())


def _numbers(values: Sequence[Any], role: str, places: list[str], skip: bool) -> pa.Array:
    numbers = [_value_or(None, skip, _number, value, role, place) for value, place in zip(values, places, strict=True)]
    return pa.array(numbers, pa.float64())


def _value_or(default: Any, skip: bool, convert: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns; the default if it raises a DataError and bad rows are skipped."""
    try:
        return convert(*arguments)
    except DataError:
        if not skip:
            raise
        return default


def _name(value: Any, role: str, where: str) -> str | None:
    if isinstance(value, str):
        if not is_utf8(value):
            raise DataError(f"{where}: {role} {value!r:.100} has characters that UTF-8 cannot encode")
        return value
    if value is None or (isinstance(value, Real) and value != value):  # NaN
        return None
    if isinstance(value, Integral) and not isinstance(value, bool):
        try:
            return str(int(value))
        except ValueError:
            raise DataError(f"{where}: the {role} is a number of too many digits; write it as text") from None
    raise DataError(f"{where}: the {role} must be a name or a whole number, got {value!r:.100}; {SKIPPING}")


def _number(value: Any, role: str, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise DataError(f"{where}: the {role} is too large for a number") from None
    raise DataError(f"{where}: the {role} must be a number, got {value!r:.100}; {SKIPPING}")
