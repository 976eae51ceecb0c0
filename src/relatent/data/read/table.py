"""Tables: every source is a stream of blocks of Arrow columns, with the names of its columns and its first values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from ...errors import DataError, one_line
from ..facts import Facts
from ..names import is_utf8
from .reading import Reading
from .roles import FACTS, Roles

N_SAMPLE_ROWS = 1000  # of a source, to find out what its columns hold
MAX_SAMPLE_VALUES = 100_000
MAX_SAMPLE_CHARACTERS = 1000  # of a value
MAX_SHOWN_CHARACTERS = 60  # of a value in a message
MAX_COLUMNS = 16_384  # as many as a spreadsheet has
ROWS_PER_BATCH = 1 << 18
ROWS_PER_BLOCK = 1 << 14  # of Python values
WRONG: Any = ()  # no name and no number: in place of the values of a row that is skipped


def _no_bad_lines(bad: Sequence[int], limit: int) -> Iterator[tuple[int, str | None]]:
    return iter(())


@dataclass
class Table:
    """A source whose columns have no roles yet."""

    where: str  # for messages about its columns
    names: Sequence[str]  # of the columns; empty if they have none
    sample: Sequence[Sequence[str]]  # the first values of each column, as text
    columns: Callable[[Sequence[int], int], Iterable[list[pa.Array]]]
    """Blocks of the columns at these positions, of which the first `n_names` are to be names, the last a number."""
    place: Callable[[int], str]  # of a row, of those in the blocks
    what: str = "columns"  # in messages
    hint: str = ""  # what to try if there are too few columns
    source: str = ""  # the name of the source in messages, if `where` has a line
    bad_lines: Callable[[Sequence[int], int], Iterator[tuple[int, str | None]]] = _no_bad_lines
    header: tuple[str, ...] | None = None  # the first row of a text, if it names the columns
    python_values: Callable[[Sequence[int]], Iterator[tuple[Any, ...]]] | None = None
    is_repeatable: bool = True  # whether the blocks can be read again
    roles: Roles | None = None  # of the columns, where the source leaves no choice
    understood: dict[str, str] = field(default_factory=dict)  # of a source with such roles
    finish: Callable[[Facts], Facts] = lambda facts: facts  # what else the source says of its facts
    why_empty: Callable[[], str] = str  # why there are no facts

    def __post_init__(self) -> None:
        self.source = self.source or self.where

    def values(self, positions: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """The rows of these columns as Python values."""
        if self.python_values is not None:
            yield from self.python_values(positions)
            return
        for block in self.columns(positions, 0):
            try:
                columns = [column.to_pylist() for column in block]
            except (ValueError, ArithmeticError) as problem:  # not UTF-8, or a date beyond Python's
                raise DataError(f"{self.source}: cannot be read: {one_line(problem)}") from None
            yield from zip(*columns, strict=True)


def sample_of(rows: Sequence[Sequence[Any]], width: int) -> list[list[str]]:
    """The first values of each column, as text."""
    rows = rows[: min(N_SAMPLE_ROWS, max(1, MAX_SAMPLE_VALUES // max(1, width)))]
    return [[_shown(row[place]) for row in rows] for place in range(width)]


def _shown(value: Any) -> str:
    try:
        return "" if value is None else str(value)[:MAX_SAMPLE_CHARACTERS].strip()
    except ValueError:  # a number of very many digits
        return ""


# --- tables in memory


def read_frame(source: Any, reading: Reading) -> Table:
    """A pandas, polars or Arrow table."""
    table = _arrow_table(source)
    if len(table.column_names) > MAX_COLUMNS:
        raise DataError(f"table: has {len(table.column_names):,} columns, at most {MAX_COLUMNS:,} are read")
    reading.understood["format"] = "table"

    def columns(positions: Sequence[int], n_names: int) -> Iterator[list[pa.Array]]:
        batches = reported(table.to_batches(ROWS_PER_BATCH), len(table), len(table), reading)
        return ([batch.column(position) for position in positions] for batch in batches)

    hint = "; if pandas took a name such as 'NA' for missing, read the file with keep_default_na=False"
    reading.remedy_of_missing = hint if "pandas" in type(source).__module__ else ""
    return Table("table", table.schema.names, arrow_sample(table), columns, lambda row: f"table: row {row + 1}")


def arrow_sample(table: pa.Table) -> list[list[str]]:
    """The first values of each column, as text."""
    n_rows = min(N_SAMPLE_ROWS, max(1, MAX_SAMPLE_VALUES // max(1, table.num_columns)))
    return [_texts(column) for column in table.slice(0, n_rows).columns]


def _texts(column: pa.ChunkedArray) -> list[str]:
    try:
        return [_shown(value) for value in column.to_pylist()]
    except (ValueError, ArithmeticError):  # not UTF-8, or a date beyond Python's; an error follows if it has a role
        return [""] * len(column)


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
        f"cannot read facts from {type(source).__name__!r}; pass a path, a pandas, polars or Arrow table, a list of "
        "(subject, relation, object), a networkx or rdflib graph, or a SciPy matrix"
    )


def reported(batches: Iterable[pa.RecordBatch], n_rows: int, total: int, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The same batches; reports after each which share of `total` its rows amount to."""
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        reading.report(total * done // max(n_rows, 1), total, f"{done:,} facts")


# --- rows of Python values: tuples, dicts, and what databases and JSON give


def in_blocks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """The rows in lists."""
    remaining = iter(rows)
    while block := list(islice(remaining, ROWS_PER_BLOCK)):
        yield block


def read_rows(
    start: Callable[[], Iterable[list[Any]]],
    reading: Reading,
    where: str,
    *,
    names: Sequence[str] | None = None,
    total: int = 0,
    is_repeatable: bool = True,
) -> Table:
    """Rows that are mappings, or sequences with or without column names.

    `start` begins to read them, in lists none of which takes much memory.
    """
    remaining = iter(start())
    taken: list[list[Any]] = []
    first: list[Any] = []
    n_values = 0
    for block in remaining:
        taken.append(block)
        for row in block[: N_SAMPLE_ROWS - len(first)]:
            n_values += _n_values(row)
            first.append(row)
            if n_values > MAX_SAMPLE_VALUES:
                break
        if len(first) >= N_SAMPLE_ROWS or n_values > MAX_SAMPLE_VALUES:
            break
    if not first:
        raise DataError(f"{where}: contains no {'facts' if reading.wanted == FACTS else 'rows'}")
    is_dicts = isinstance(first[0], Mapping)
    if is_dicts:
        names = list(dict.fromkeys(key for row in first if isinstance(row, Mapping) for key in row))
        if not all(isinstance(name, str) for name in names):
            raise DataError(f"{where}: the keys of a row must be strings, got {names[:3]!r:.100}")
    width = len(names) if names is not None else _width(first[0], where)
    if width > MAX_COLUMNS:
        raise DataError(f"{where}: the first rows have {width:,} different keys or values, at most {MAX_COLUMNS:,}")
    rows = _RowPicker(width, names if is_dicts else None, reading, where, total)
    if is_dicts:
        matching = [[row.get(name) for name in names or ()] for row in first[: 1 + MAX_SAMPLE_VALUES // max(1, width)]
                    if isinstance(row, Mapping)]  # fmt: skip
    else:
        matching = [list(row) for row in first if _is_row(row) and len(row) == width]
    pending = [chain(taken, remaining)]  # of the first pass

    def again() -> Iterable[list[Any]]:
        return pending.pop() if pending else start()

    return Table(
        where,
        names or [],
        sample_of(matching, width),
        lambda positions, n_names: rows.blocks(again(), positions, n_names),
        lambda row: f"{where}: row {row + 1}",
        what="values" if names is None else "columns",
        python_values=lambda positions: rows.picked(chain.from_iterable(again()), positions),
        is_repeatable=is_repeatable,
    )


def _n_values(row: Any) -> int:
    """How many values a row holds, also within lists and dicts; counted until there are too many for a sample."""
    count, open_rows = 0, [row]
    while open_rows and count <= MAX_SAMPLE_VALUES:
        one = open_rows.pop()
        count += 1
        if isinstance(one, (Mapping, list, tuple)):
            open_rows.extend(islice(one.values() if isinstance(one, Mapping) else one, MAX_SAMPLE_VALUES))
    return count


def _width(row: Any, where: str) -> int:
    if not _is_row(row):
        raise DataError(f"{where}: a row must be a tuple (subject, relation, object) or a dict, got {row!r:.100}")
    return len(row)


def _is_row(row: Any) -> bool:
    return isinstance(row, Sequence) and not isinstance(row, (str, bytes))


class _RowPicker:
    """Picks columns of rows and converts them to Arrow."""

    def __init__(self, width: int, names: Sequence[str] | None, reading: Reading, where: str, total: int):
        self._width, self._names, self._reading, self._where, self._total = width, names, reading, where, total

    def picked(self, rows: Iterable[Any], positions: Sequence[int], done: int = 0) -> Iterator[tuple[Any, ...]]:
        """The values of these columns, row by row."""
        width = self._width
        keys = None if self._names is None else [self._names[position] for position in positions]
        for number, row in enumerate(rows, done + 1):
            if keys is not None and (type(row) is dict or isinstance(row, Mapping)):
                yield tuple([row.get(key) for key in keys])
            elif keys is None and (type(row) is tuple or _is_row(row)) and len(row) == width:
                yield tuple([row[position] for position in positions])
            elif self._reading.skip_bad_rows:
                yield (WRONG,) * len(positions)
            else:
                wanted = "a dict" if keys is not None else f"{width} values"
                problem = f"expected {wanted}, as in row 1, got {row!r:.100}"
                raise DataError(f"{self._where}: row {number}: {problem}; {self._reading.bad_rows}")

    def blocks(self, blocks: Iterable[list[Any]], positions: Sequence[int], n_names: int) -> Iterator[list[pa.Array]]:
        """These columns, block by block."""
        done = 0
        for block in blocks:
            converts = [_name if number < n_names else _number for number in range(len(positions))]
            columns = zip(self._columns(block, positions, done), converts, strict=True)
            yield [self._array(values, convert, done) for values, convert in columns]
            done += len(block)
            self._reading.report(done, self._total, f"{done:,} facts")

    def _columns(self, block: list[Any], positions: Sequence[int], done: int) -> list[Sequence[Any]]:
        kinds = set(map(type, block))
        if self._names is not None and kinds == {dict}:
            return [[row.get(self._names[position]) for row in block] for position in positions]
        if self._names is None and kinds <= {tuple, list} and set(map(len, block)) == {self._width}:
            return [[row[position] for row in block] for position in positions]
        return list(zip(*self.picked(block, positions, done), strict=True))

    def _array(self, values: Sequence[Any], convert: Callable[[Any], Any], done: int) -> pa.Array:
        kind = pa.large_string() if convert is _name else pa.float64()
        if convert is _name and set(map(type, values)) == {str}:
            try:
                return pa.array(values, kind)
            except UnicodeError:
                pass  # the loop below finds the row
        found: list[Any] = []
        for number, value in enumerate(values, done + 1):
            try:
                found.append(convert(value))
            except ValueError as problem:
                if not self._reading.skip_bad_rows:
                    raise DataError(f"{self._where}: row {number}: {problem}; {self._reading.bad_rows}") from None
                found.append(None)
        return pa.array(found, kind)


def _name(value: Any) -> str | None:
    if isinstance(value, str):
        if not is_utf8(value):
            raise ValueError(f"the name {value!r:.100} has characters that UTF-8 cannot encode")
        return value
    if value is None or (isinstance(value, Real) and value != value):  # NaN
        return None
    if isinstance(value, Integral) and not isinstance(value, bool):
        try:
            return str(int(value))
        except ValueError:
            raise ValueError("a name is a number of too many digits; write it as text") from None
    raise ValueError(f"a name must be a text or a whole number, got {value!r:.100}")


def _number(value: Any) -> float | str | None:
    if value is None:
        return None
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError("a weight is too large for a number") from None
    raise ValueError(f"a weight must be a number, got {value!r:.100}")
