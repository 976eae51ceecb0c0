"""Known facts in the ids of a model, found from either end by binary search."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Triples, Vector
from ..data.cell_keys import cell_keys
from ..data.facts import Facts
from ..data.names import Names
from .entity_regression import EntityCells
from .step_graph import StepGraph


class KnownFacts:
    """Facts as two sorted arrays of cell numbers, by subject and by object: 16 bytes per fact.

    >>> from relatent import load_dataset
    >>> known = KnownFacts(load_dataset("presidents"))
    >>> gore, party = known.facts.entities.id("Al Gore"), known.facts.relations.id("party")
    >>> [known.facts.entities[i] for i in known.objects(gore, party)]
    ['Democratic']
    """

    def __init__(self, facts: Facts):
        self.facts = facts
        self.n, self.n_relations = facts.n_entities, facts.n_relations
        self._n_answers: dict[tuple[int, bool], NDArray[np.int64]] = {}

    @classmethod
    def none(cls, entities: Names, relations: Names) -> KnownFacts:
        """No facts."""
        return cls(Facts.from_ids(np.empty((0, 3), np.int32), entities, relations))

    @property
    def _by_subject(self) -> NDArray[np.int64]:
        return self.facts.keys  # relation, subject, object

    @cached_property
    def _by_object(self) -> NDArray[np.int64]:
        return _keys_by_object(self.facts.triples, self.n)  # relation, object, subject

    def __len__(self) -> int:
        return len(self.facts)

    @cached_property
    def steps(self) -> StepGraph:
        """The facts as steps from entity to entity."""
        return StepGraph(self.facts)

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """The number of facts of each entity, as subject or object, (N,)."""
        ends = (self.facts.subjects, self.facts.objects)
        return sum((np.bincount(ids, minlength=self.n) for ids in ends), np.zeros(self.n, np.int64))

    @cached_property
    def n_self_facts(self) -> NDArray[np.int64]:
        """The number of facts of each relation that have one entity as subject and object, (K,)."""
        own = self.facts.triples[self.facts.subjects == self.facts.objects]
        return np.bincount(own[:, 1], minlength=self.n_relations)

    def objects(self, subject: int, relation: int) -> Ids:
        """Known answers to (subject, relation, ?)."""
        return self._range(self._by_subject, relation, subject)

    def subjects(self, relation: int, object: int) -> Ids:
        """Known answers to (?, relation, object)."""
        return self._range(self._by_object, relation, object)

    def relations(self, subject: int, object: int) -> Ids:
        """Known answers to (subject, ?, object)."""
        k = np.arange(self.n_relations)
        cells = np.stack([np.full_like(k, subject), k, np.full_like(k, object)], axis=1)
        return np.flatnonzero(self.facts.contains(cells))

    def answers(self, subject: int | None, relation: int | None, object: int | None) -> Ids:
        """Known answers for the one place that is None."""
        if object is None:
            assert subject is not None
            assert relation is not None
            return self.objects(subject, relation)
        if subject is None:
            assert relation is not None
            return self.subjects(relation, object)
        return self.relations(subject, object)

    def n_answers(self, relation: int, *, of_objects: bool) -> NDArray[np.int64]:
        """How many facts of a relation each entity has as its subject, or as its object, (N,)."""
        key = (relation, of_objects)
        if key not in self._n_answers:
            ends = self.facts.triples[slice(*self.facts.starts[relation : relation + 2])][:, 2 if of_objects else 0]
            self._n_answers[key] = np.bincount(ends, minlength=self.n)
        return self._n_answers[key]

    def answered(self, cells: Triples) -> NDArray[np.bool_]:
        """Whether the subject of each cell has another object in the relation, and its object another subject, (n, 2).

        The cell itself does not count.
        """
        s, k, o = cells.T.astype(np.int64)
        is_known = self.facts.contains(cells)
        counts = [
            np.searchsorted(keys, first + self.n) - np.searchsorted(keys, first) - is_known
            for keys, first in (
                (self._by_subject, (k * self.n + s) * self.n),
                (self._by_object, (k * self.n + o) * self.n),
            )
        ]
        found: NDArray[np.bool_] = np.stack(counts, axis=1) > 0
        return found

    def partners(self, relation: int, entities: Ids, *, of_objects: bool) -> tuple[Ids, Ids]:
        """Known answers for each of some entities: places among `entities`, and answers; both (m,).

        The entities are subjects of the relation, or objects.
        """
        keys = self._by_object if of_objects else self._by_subject
        first = (relation * self.n + entities.astype(np.int64)) * self.n
        starts, stops = np.searchsorted(keys, first), np.searchsorted(keys, first + self.n)
        places = np.repeat(np.arange(len(first)), stops - starts)
        offsets = np.arange(len(places)) - np.repeat(np.cumsum(stops - starts) - (stops - starts), stops - starts)
        return places, keys[starts[places] + offsets] - first[places]

    def partners_by_relation(self, entity: int, relations: range, *, of_objects: bool) -> list[Ids]:
        """Known answers for an entity as subject, or as object, of each relation."""
        return self._partners(self._by_object if of_objects else self._by_subject, entity, relations)

    def listed(self, entity: int) -> EntityCells:
        """All listed cells of an entity, as subject and then as object: facts, and unobserved cells."""
        parts = [
            self._cells_of(role, entity, keys, is_fact)
            for role, facts in enumerate((self._by_subject, self._by_object))
            for keys, is_fact in ((facts, True), (self._unobserved[role], False))
        ]
        return EntityCells(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def ends(self, relation: int) -> tuple[Ids, Ids]:
        """The distinct subjects and objects of a relation's facts."""
        part = slice(*self.facts.starts[relation : relation + 2])
        subjects, objects = (keys[part] // self.n - relation * self.n for keys in (self._by_subject, self._by_object))
        return _distinct(subjects), _distinct(objects)  # keys are sorted, so these are

    @cached_property
    def _unobserved(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Unobserved cells by subject and by object."""
        return cell_keys(self.facts.unobserved, self.n), _keys_by_object(self.facts.unobserved, self.n)

    def _cells_of(self, role: int, entity: int, keys: NDArray[np.int64], is_fact: bool) -> EntityCells:
        """The listed cells with an entity at one end, without those with itself."""
        partners = self._partners(keys, entity, range(self.n_relations))
        relation = np.repeat(np.arange(self.n_relations), [len(ids) for ids in partners])
        partner = np.concatenate(partners)
        relation, partner = relation[partner != entity], partner[partner != entity]
        return EntityCells(
            np.full(len(partner), role),
            relation,
            partner,
            np.full(len(partner), float(is_fact)),
            self._weights(role, entity, relation, partner) if is_fact else np.zeros(len(partner)),
        )

    def _partners(self, keys: NDArray[np.int64], entity: int, relations: range) -> list[Ids]:
        first = (np.arange(relations.start, relations.stop) * np.int64(self.n) + entity) * self.n
        starts, stops = (np.searchsorted(keys, ends).tolist() for ends in (first, first + self.n))
        return [keys[start:stop] - low for start, stop, low in zip(starts, stops, first.tolist(), strict=True)]

    def _weights(self, role: int, entity: int, relation: Ids, partner: Ids) -> Vector:
        """The weights of these facts of an entity."""
        if self.facts.weights is None:
            return np.ones(len(partner))
        own = np.full(len(partner), entity)
        cells = np.stack([own, relation, partner] if role == 0 else [partner, relation, own], axis=1)
        return self.facts.weights[np.searchsorted(self._by_subject, cell_keys(cells, self.n))]

    def _range(self, keys: NDArray[np.int64], relation: int, entity: int) -> Ids:
        first = (relation * self.n + entity) * self.n
        start, stop = np.searchsorted(keys, (first, first + self.n))
        return keys[start:stop] - first


def _keys_by_object(cells: Triples, n: int) -> NDArray[np.int64]:
    """Sorted cell numbers in the order relation, object, subject."""
    return np.sort(cell_keys(cells[:, ::-1], n))


def _distinct(ordered: Ids) -> Ids:
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]
