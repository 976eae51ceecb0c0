"""Facts from the columns of a table: names become ids at once, block by block, and are sorted at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...arrays import Ids, Mask, Vector
from ...errors import DataError, one_line
from ..array_checks import MAX_WEIGHT, WEIGHTS, TwoWeightsError
from ..facts import Facts
from .files import MAX_LINE_BYTES, named, too_long
from .reading import SKIPPING, Reading
from .roles import Roles, are_many_blanks
from .string_table import Spans, StringTable
from .table import MAX_SHOWN_CHARACTERS, Table
from .values import PLAIN, Notation


class FactBuilder:
    """The facts read so far: 12 bytes per fact, and each distinct name once."""

    def __init__(self) -> None:
        self.entities, self.relations = StringTable(), StringTable()
        self.n_facts = 0
        self._blocks: list[tuple[Ids, Ids, Ids]] = []
        self._values: list[Vector] = []  # weights or counts

    def add(self, names: Sequence[Spans], values: Vector | None = None) -> None:
        """Add facts: the names of subjects, relations and objects, and optionally weights or counts."""
        s, k, o = names
        self._blocks.append((self.entities.ids(s), self.relations.ids(k), self.entities.ids(o)))
        self.n_facts += len(self._blocks[-1][0])
        if values is not None:
            self._values.append(values)

    def build(self, *, is_count: bool = False, drop_unused_names: bool = False) -> Facts:
        """The facts, sorted, over the sorted names; the builder is empty afterwards."""
        used_entities, used_relations = self._used_names() if drop_unused_names else (None, None)
        entities, entity_rank = self.entities.sorted_names("entity", used_entities)
        relations, relation_rank = self.relations.sorted_names("relation", used_relations)
        self.entities, self.relations = StringTable(), StringTable()
        triples = np.empty((self.n_facts, 3), np.int32, order="F")
        stop = self.n_facts
        while self._blocks:  # from the last block on, so that the memory of each is released
            block = self._blocks.pop()
            start = stop - len(block[0])
            for column, rank, ids in zip(range(3), (entity_rank, relation_rank, entity_rank), block, strict=True):
                np.take(rank, ids, out=triples[start:stop, column], mode="clip")  # other modes buffer the output
            stop = start
        values = np.concatenate(self._values) if self._values else None
        self._values = []
        weights, times = (None, values) if is_count else (values, None)
        return Facts.from_ids(triples, entities, relations, weights=weights, times=times)

    def _used_names(self) -> tuple[Mask, Mask]:
        entities, relations = np.zeros(len(self.entities), bool), np.zeros(len(self.relations), bool)
        for s, k, o in self._blocks:
            entities[s] = entities[o] = relations[k] = True
        return entities, relations


def encode(table: Table, roles: Roles, reading: Reading, *, may_be_empty: bool = False) -> Facts:
    """The facts in the columns of a table that have these roles."""
    builder, rows = FactBuilder(), _CheckedRows(table, roles, reading)
    for columns in named(table.columns(roles.positions, roles.n_names), table.source):
        names, values = rows.kept(columns)
        if roles.edge_relation is not None:
            names.insert(1, Spans.repeated(roles.edge_relation, len(names[0].starts)))
        builder.add(names, values)
    rows.describe_skipped()
    if not builder.n_facts and not may_be_empty:
        raise DataError(f"{table.source}: contains no facts{table.why_empty()}")
    try:
        return table.finish(builder.build(is_count=roles.is_count))
    except TwoWeightsError as problem:
        weight, earlier_weight = problem.weights
        raise DataError(
            f"{rows.place(problem.row)}: gives weight {weight} to a fact that has weight {earlier_weight} at "
            f"{rows.place(problem.earlier)}; keep one of them"
        ) from None


class _CheckedRows:
    """Takes the rows that are no facts out of blocks of columns: they are blank, an error, or skipped."""

    def __init__(self, table: Table, roles: Roles, reading: Reading):
        self._table, self._roles, self._reading = table, roles, reading
        self._n_rows = 0
        self._left_out: list[tuple[int, NDArray[np.uint8]]] = []  # the first row of a block, and a bit for each
        self._skipped: list[int] = []  # the first of them
        self._first_fault = ""
        reading.nodes_without_names = roles.may_be_nodes

    def kept(self, columns: Sequence[pa.Array]) -> tuple[list[Spans], Vector | None]:
        """The names and the weights or counts of the rows of a block that are facts."""
        n_names, source = self._roles.n_names, self._table.source
        titles = [self._title(number) for number in range(len(columns))]
        texts = [to_strings(column, titles[i], source) for i, column in enumerate(columns[:n_names])]
        names = [self._stripped(Spans.of(_filled(column))) for column in texts]
        empty = [spans.starts == spans.stops for spans in names]
        without_names = np.logical_and.reduce(empty)  # blank lines of a spreadsheet, or nodes that APOC exports
        wrong = np.logical_or.reduce([*empty, *(spans.stops - spans.starts > MAX_LINE_BYTES for spans in names)])
        values = None
        if len(columns) > n_names:
            numbers = _to_numbers(columns[-1], titles[-1], source, self._roles.notation)
            values = numbers.to_numpy(zero_copy_only=False)
            wrong |= ~((values >= int(self._roles.is_count)) & (values <= MAX_WEIGHT))
            if self._roles.is_count:
                wrong |= values != np.round(values)
        wrong &= ~without_names
        if wrong.any():
            self._refuse_or_skip(wrong, texts, columns, values)
        self._reading.n_without_names += int(without_names.sum())
        left_out = wrong | without_names
        if left_out.any():
            self._left_out.append((self._n_rows, np.packbits(left_out)))
            names = [spans.where(~left_out) for spans in names]
            values = None if values is None else values[~left_out]
        self._n_rows += len(left_out)
        return names, values

    def place(self, fact: int) -> str:
        """The place in the source of one of the facts that were kept."""
        for first, bits in self._left_out:
            for row in np.flatnonzero(np.unpackbits(bits)).tolist():
                fact += first + row <= fact
        return self._table.place(fact)

    def describe_skipped(self) -> None:
        """Note which bad rows are the first."""
        reading = self._reading
        if not reading.n_skipped:
            return
        lines = list(self._table.bad_lines(self._skipped, reading.max_skipped_lines))
        reading.skipped_lines = [line for line, _ in lines]
        first = lines[0][1] if lines else None
        reading.first_skipped = first or f"{self._table.place(self._skipped[0])}: {self._first_fault}"

    def _title(self, number: int) -> str:
        names, position = self._table.names, self._roles.positions[number]
        return repr(names[position]) if names else str(position + 1)

    def _refuse_or_skip(
        self, wrong: Mask, texts: Sequence[pa.Array], columns: Sequence[pa.Array], values: Vector | None
    ) -> None:
        first = int(np.argmax(wrong))
        reading = self._reading
        if not (reading.skip_bad_rows and self._skipped):
            row = [column[first].as_py() for column in texts]
            value = None if values is None else columns[-1][first].as_py()
            fault = self._fault(row, value, None if values is None else float(values[first]))
            if not reading.skip_bad_rows:
                hint = reading.remedy_of_missing if None in row else ""
                place = self._table.place(self._n_rows + first)
                raise DataError(f"{place}: {fault}; {self._remedy(wrong, texts)}{hint}")
            self._first_fault = fault
        self._skipped += (self._n_rows + np.flatnonzero(wrong)[: reading.max_skipped_lines]).tolist()
        reading.n_skipped += int(wrong.sum())

    def _remedy(self, wrong: Mask, texts: Sequence[pa.Array]) -> str:
        """What to do about bad rows; if there are many, skipping them is not the first thing to try."""
        n_rows, n_wrong = self._n_rows + len(wrong), int(wrong.sum())
        if not are_many_blanks(n_wrong, n_rows):
            return SKIPPING
        skipping = f"{SKIPPING}, {n_wrong:,} of the first {n_rows:,}"
        if self._roles.edge_relation is not None:
            return skipping
        relations = self._stripped(Spans.of(_filled(texts[1])))
        n_blank = int((wrong & (relations.starts == relations.stops)).sum())
        if not are_many_blanks(n_blank, n_rows):
            return skipping
        names, ends = self._table.names, self._roles.positions[:3:2]
        chosen = ", ".join(repr(names[position]) if names else str(position) for position in ends)
        return (
            f"column {self._title(1)} is blank in {n_blank:,} of the first {n_rows:,} rows: columns=({chosen}) reads "
            f"an edge list without it, {skipping}"
        )

    def _fault(self, names: Sequence[str | None], given: Any, value: float | None) -> str:
        """What is wrong with a row."""
        for role, name in zip(self._roles.names, names, strict=False):
            if name is None or not (name.strip() if self._reading.strip else name):
                shown = ", ".join(
                    "nothing" if one is None else repr(one.strip()[:MAX_SHOWN_CHARACTERS]) for one in names
                )
                return f"{'missing' if name is None else 'empty'} {role} in the row ({shown})"
            if len(name.encode()) > MAX_LINE_BYTES:
                return f"the {role} {too_long('name')}"
        role, notation = self._roles.names[-1], self._roles.notation
        if given is None:
            return f"missing {role}"
        if isinstance(given, str) and value != value and given.strip().lower() not in ("nan", "+nan", "-nan"):
            below = "" if notation is PLAIN else f" below numbers with {notation.title}"
            place = "third" if self._roles.edge_relation else "fourth"
            found = f"expected a number as {role} in the {place} column, got {given!r:.100}{below}"
            return f"{found}; columns=(…, …, …) chooses others"
        if role == "count":
            return f"counts are whole numbers of at least 1, got {value:g}"
        return f"weights are confidences: {WEIGHTS}, got {value}"

    def _stripped(self, names: Spans) -> Spans:
        """The names without blanks around them, which are counted."""
        if not self._reading.strip:
            return names
        stripped, count = names.stripped()
        self._reading.n_stripped += count
        return stripped


def _filled(column: pa.LargeStringArray) -> pa.LargeStringArray:
    return column.fill_null("") if column.null_count else column


def to_strings(column: pa.Array, title: str, where: str) -> pa.Array:
    """A column of names as strings; whole numbers become their digits."""
    kind = column.type
    if pa.types.is_large_string(kind):
        strings = column
    else:
        if pa.types.is_dictionary(kind):
            values, kind = column.dictionary, kind.value_type
            if _is_text(kind) and "view" in str(kind):  # Arrow cannot take rows of string views
                values = values.cast(pa.large_string())
            column = values.take(column.indices)
        if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise DataError(f"{where}: column {title} must hold names, got values of type {kind}")
        try:
            strings = column.cast(pa.large_string())
        except pa.ArrowInvalid as problem:
            raise DataError(f"{where}: column {title}: {one_line(problem)}") from None
    if not pa.types.is_integer(kind):
        try:
            strings.validate(full=True)  # that the bytes are UTF-8
        except pa.ArrowInvalid as problem:
            raise DataError(f"{where}: column {title}: {one_line(problem)}") from None
    return strings


def _is_text(kind: pa.DataType) -> bool:
    checks = ("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view")
    return any(getattr(pa.types, check)(kind) for check in checks)


def _to_numbers(column: pa.Array, title: str, where: str, notation: Notation) -> pa.Array:
    """A column of weights or counts as numbers, null where a text is none."""
    kind = column.type
    if _is_text(kind):
        return notation.numbers(to_strings(column, title, where))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"{where}: column {title} must hold numbers, as weights, got values of type {kind}")
    return column.cast(pa.float64())
