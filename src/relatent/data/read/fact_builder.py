"""Facts built block by block: names become ids at once, and are sorted at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from ...arrays import Ids, Mask, Vector
from ...errors import DataError
from ..array_checks import TwoWeightsError
from ..facts import Facts
from .checked_rows import CheckedRows
from .columns import ColumnRoles
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
    builder, rows = FactBuilder(), CheckedRows(roles, reading, locate)
    for columns in blocks:
        names, values = rows.kept(columns)
        if roles.edge_relation is not None:
            names.insert(1, Spans.repeated(roles.edge_relation, len(names[0].starts)))
        builder.add(names, values)
    if not builder.n_facts and empty_message is not None:
        raise DataError(empty_message)
    try:
        return builder.build(is_count=roles.is_count)
    except TwoWeightsError as problem:
        weight, earlier_weight = problem.weights
        raise DataError(
            f"{rows.place(problem.row)}: gives weight {weight} to a fact that has weight {earlier_weight} at "
            f"{rows.place(problem.earlier)}; keep one of them"
        ) from None
