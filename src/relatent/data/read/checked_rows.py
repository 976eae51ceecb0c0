"""The rows of a source that are facts: a row without a name, or with a wrong weight, is an error or is skipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ...arrays import Ids, Mask, Vector
from ...errors import DataError
from .columns import ColumnRoles
from .reading import SKIPPING, Reading
from .string_table import Spans
from .text_rows import MAX_LINE_BYTES, too_long
from .weights import are_many_blanks, count_fault, weight_fault

MAX_SHOWN_CHARACTERS = 60  # of a value in a message


class CheckedRows:
    """Takes the rows that are no facts out of blocks of columns, and counts them."""

    def __init__(self, roles: ColumnRoles, reading: Reading, locate: Callable[[int], str]):
        self._roles, self._reading, self._locate = roles, reading, locate
        self._n_rows = 0
        reading.nodes_without_names = roles.may_be_nodes
        self._left_out: list[Ids] = []  # rows of each block, rising

    def kept(self, columns: list[pa.Array]) -> tuple[list[Spans], Vector | None]:
        """The names and the weights or counts of the rows of a block that are facts."""
        n_names = self._roles.n_names
        names = [self._stripped(Spans.of(_filled(column))) for column in columns[:n_names]]
        values = columns[n_names].to_numpy(zero_copy_only=False) if len(columns) > n_names else None
        empty = [spans.starts == spans.stops for spans in names]
        without_names = np.logical_and.reduce(empty)  # blank lines of a spreadsheet, or nodes that APOC exports
        wrong = np.logical_or.reduce([*empty, *(spans.stops - spans.starts > MAX_LINE_BYTES for spans in names)])
        if values is not None:
            wrong |= _are_wrong(values, self._roles.is_count)
        wrong &= ~without_names
        if wrong.any():
            self._refuse_or_skip(wrong, columns)
        self._reading.n_without_names += int(without_names.sum())
        left_out = wrong | without_names
        if left_out.any():
            self._left_out.append(self._n_rows + np.flatnonzero(left_out))
            names = [spans.where(~left_out) for spans in names]
            values = None if values is None else values[~left_out]
        self._n_rows += len(left_out)
        return names, values

    def place(self, fact: int) -> str:
        """The place in the source of one of the facts that were kept."""
        for row in (row for block in self._left_out for row in block.tolist()):
            fact += row <= fact
        return self._locate(fact)

    def _name_roles(self) -> tuple[str, ...]:
        return self._roles.names[: self._roles.n_names]

    def _refuse_or_skip(self, wrong: Mask, columns: list[pa.Array]) -> None:
        first = int(np.argmax(wrong))
        if self._reading.skip_bad_rows and self._reading.n_skipped:
            self._reading.n_skipped += int(wrong.sum())
            return
        row = [column[first].as_py() for column in columns]
        message = f"{self._locate(self._n_rows + first)}: {self._fault(row)}"
        if not self._reading.skip_bad_rows:
            hint = "; if pandas took a name such as 'NA' for missing, read the file with keep_default_na=False"
            is_hinted = self._reading.is_pandas and None in row[: self._roles.n_names]
            raise DataError(f"{message}; {self._remedy(wrong, columns)}{hint * is_hinted}")
        self._reading.n_skipped += int(wrong.sum())
        self._reading.first_skipped = message

    def _remedy(self, wrong: Mask, columns: list[pa.Array]) -> str:
        """What to do about bad rows; if there are many, skipping them is not the first thing to try."""
        n_rows, n_wrong = self._n_rows + len(wrong), int(wrong.sum())
        if not are_many_blanks(n_wrong, n_rows):
            return SKIPPING
        skipping = f"{SKIPPING}, {n_wrong:,} of the first {n_rows:,}"
        if self._roles.edge_relation is not None:
            return skipping
        relations = self._stripped(Spans.of(_filled(columns[1])))
        n_blank = int((wrong & (relations.starts == relations.stops)).sum())
        if not are_many_blanks(n_blank, n_rows):
            return skipping
        relation, ends = self._roles.positions[1], self._roles.positions[:3:2]
        names = self._reading.column_names
        chosen = ", ".join(repr(names[position]) if names else str(position) for position in ends)
        column = repr(names[relation]) if names else relation + 1
        return (
            f"column {column} is blank in {n_blank:,} of the first {n_rows:,} rows: columns=({chosen}) reads an edge "
            f"list without it, {skipping}"
        )

    def _fault(self, row: list[Any]) -> str:
        """What is wrong with a row."""
        names = row[: self._roles.n_names]
        for role, name in zip(self._name_roles(), names, strict=True):
            shown = ", ".join("nothing" if value is None else repr(value[:MAX_SHOWN_CHARACTERS]) for value in names)
            if name is None or not (name.strip() if self._reading.strip else name):
                return f"{'missing' if name is None else 'empty'} {role} in the row ({shown})"
            if len(name.encode()) > MAX_LINE_BYTES:
                return f"the {role} {too_long('name')}"
        value = row[-1]
        if value is None:
            return f"missing {self._roles.names[-1]}"
        return str((count_fault if self._roles.is_count else weight_fault)(float(value)))

    def _stripped(self, names: Spans) -> Spans:
        """The names without blanks around them, which are counted."""
        if not self._reading.strip:
            return names
        stripped, count = names.stripped()
        self._reading.n_stripped += count
        return stripped


def _filled(column: pa.LargeStringArray) -> pa.LargeStringArray:
    return column.fill_null("") if column.null_count else column


def _are_wrong(values: Vector, is_count: bool) -> Mask:
    """Which weights or counts are not allowed."""
    wrong: Mask = ~(np.isfinite(values) & (values >= int(is_count)))
    if is_count:
        wrong |= values != np.round(values)
    return wrong
