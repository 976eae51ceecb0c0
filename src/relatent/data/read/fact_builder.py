"""Facts built block by block: names become ids at once, and are sorted at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...arrays import Ids, Mask, Vector
from ...errors import DataError
from ..array_checks import TwoWeightsError
from ..facts import Facts
from .columns import ColumnRoles, count_fault, weight_fault
from .reading import Reading
from .string_table import Spans, StringTable


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


def facts_from_blocks(
    blocks: Iterable[list[pa.Array]],
    roles: ColumnRoles,
    reading: Reading,
    *,
    empty_message: str | None,
    locate: Callable[[int], str],
) -> Facts:
    """Facts from blocks of string columns, and optionally a column of weights or counts, in the order of `roles`.

    `empty_message` is the error if there are no facts; None allows that. `locate` names the place of a row in the
    source, for messages.
    """
    builder, n_rows, n_nodes = FactBuilder(), 0, 0
    for columns in blocks:
        for role, column in zip(roles.names, columns, strict=True):
            if column.null_count:
                raise DataError(f"{locate(n_rows + pc.index(column.is_null(), True).as_py())}: missing {role}")
        names = [_stripped(Spans.of(column), reading) for column in columns[: roles.n_names]]
        values = columns[roles.n_names].to_numpy() if len(columns) > roles.n_names else None
        if roles.may_be_nodes:
            kept = ~np.all([spans.starts == spans.stops for spans in names], axis=0)
            names, values = [spans.where(kept) for spans in names], None if values is None else values[kept]
            n_nodes += int((~kept).sum())
        for role, spans in zip(roles.names, names, strict=False):
            row = spans.first_empty()
            if row is not None:
                raise DataError(f"{locate(builder.n_facts + n_nodes + row)}: empty {role}")
        if values is not None:
            _check_values(values, roles.is_count, builder.n_facts + n_nodes, locate)
        if roles.edge_relation is not None:
            names.insert(1, Spans.repeated(roles.edge_relation, len(names[0].starts)))
        builder.add(names, values)
        n_rows += len(columns[0])
    if n_nodes:
        reading.notes.append(f"left out {n_nodes:,} rows that are nodes, not relationships")
    if not builder.n_facts and empty_message is not None:
        raise DataError(empty_message)
    try:
        return builder.build(is_count=roles.is_count)
    except TwoWeightsError as problem:
        weight, earlier_weight = problem.weights
        raise DataError(
            f"{locate(problem.row)}: gives weight {weight} to a fact that has weight {earlier_weight} at "
            f"{locate(problem.earlier)}; keep one of them"
        ) from None


def _stripped(names: Spans, reading: Reading) -> Spans:
    """The names without blanks around them, which are counted."""
    if not reading.strip:
        return names
    stripped, count = names.stripped()
    reading.n_stripped += count
    return stripped


def _check_values(values: Vector, is_count: bool, n_before: int, locate: Callable[[int], str]) -> None:
    """Raise at the first weight or count that is not allowed."""
    wrong = ~(np.isfinite(values) & (values >= int(is_count)))
    if is_count:
        wrong |= values != np.round(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"{locate(n_before + row)}: {(count_fault if is_count else weight_fault)(values[row])}")
