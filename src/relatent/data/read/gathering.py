"""Facts gathered block by block: names become numbers at once, and are put in order at the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...arrays import Ids, Mask, Vector
from ..facts import Facts
from .string_table import Interner, Spans


class Gathering:
    """What has been read so far: 12 bytes a fact, and each name once."""

    def __init__(self) -> None:
        self.entities, self.relations = Interner(), Interner()
        self.n_facts = 0
        self._blocks: list[tuple[Ids, Ids, Ids]] = []
        self._values: list[Vector] = []  # weights or counts

    def add(self, names: Sequence[Spans], values: Vector | None = None) -> None:
        """Facts by the names of subjects, relations and objects, and perhaps their weights or counts."""
        s, k, o = names
        self._blocks.append((self.entities.numbers(s), self.relations.numbers(k), self.entities.numbers(o)))
        self.n_facts += len(self._blocks[-1][0])
        if values is not None:
            self._values.append(values)

    def facts(self, *, counted: bool = False, some_unused: bool = False) -> Facts:
        """The facts over the names they use, sorted; nothing is left here."""
        used_entities, used_relations = self._used() if some_unused else (None, None)
        entities, entity = self.entities.ranked("entity", used_entities)
        relations, relation = self.relations.ranked("relation", used_relations)
        self.entities, self.relations = Interner(), Interner()
        triples = np.empty((self.n_facts, 3), np.int32, order="F")
        end = self.n_facts
        while self._blocks:  # from the last one on, so that each can be let go
            block = self._blocks.pop()
            start = end - len(block[0])
            for column, rank, numbers in zip(range(3), (entity, relation, entity), block, strict=True):
                np.take(rank, numbers, out=triples[start:end, column], mode="clip")  # the others buffer
            end = start
        values = np.concatenate(self._values) if self._values else None
        self._values = []
        weights, times = (None, values) if counted else (values, None)
        return Facts.from_ids(triples, entities, relations, weights=weights, times=times)

    def _used(self) -> tuple[Mask, Mask]:
        entities, relations = np.zeros(len(self.entities), bool), np.zeros(len(self.relations), bool)
        for subjects, kinds, objects in self._blocks:
            entities[subjects] = entities[objects] = relations[kinds] = True
        return entities, relations
