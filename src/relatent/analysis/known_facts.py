"""Known facts by the ids of a model, found from either end in a few steps of a binary search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Triples, Vector
from ..data.facts import Facts, cell_keys
from ..model.factors import Factors
from ..model.fold_in import Listed


class Known:
    """Facts as two sorted arrays of cell numbers, by subject and by object: 16 bytes a fact."""

    def __init__(self, facts: Facts | Sequence[Facts], factors: Factors):
        parts = [facts] if isinstance(facts, Facts) else list(facts)
        self.facts = _together([one.over(factors.entities, factors.relations) for one in parts], factors)
        self.n, self.n_relations = len(factors.entities), len(factors.relations)
        self._by_subject = self.facts.keys  # relation, subject, object
        self._by_object = _by_object(self.facts.triples, self.n)  # relation, object, subject

    def __len__(self) -> int:
        return len(self.facts)

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """In how many facts each entity stands, (N,)."""
        ends = (self.facts.subjects, self.facts.objects)
        return sum((np.bincount(one, minlength=self.n) for one in ends), np.zeros(self.n, np.int64))

    def objects(self, subject: int, relation: int) -> Ids:
        """Who fills (subject, relation, ?)."""
        return self._filling(self._by_subject, relation, subject)

    def subjects(self, relation: int, object: int) -> Ids:
        """Who fills (?, relation, object)."""
        return self._filling(self._by_object, relation, object)

    def relations(self, subject: int, object: int) -> Ids:
        """What fills (subject, ?, object)."""
        k = np.arange(self.n_relations)
        cells = np.stack([np.full_like(k, subject), k, np.full_like(k, object)], axis=1)
        return np.flatnonzero(self.facts.contains(cells))

    def filling(self, subject: int | None, relation: int | None, object: int | None) -> Ids:
        """Ids that make a fact when put into the one place left open."""
        if object is None:
            assert subject is not None
            assert relation is not None
            return self.objects(subject, relation)
        if subject is None:
            assert relation is not None
            return self.subjects(relation, object)
        return self.relations(subject, object)

    def listed(self, entity: int) -> Listed:
        """All that is said of an entity, as subject and then as object: facts, and cells that are not known."""
        parts = [
            self._around(way, entity, keys, is_fact)
            for way, ends in enumerate(((self._by_subject, self._hidden[0]), (self._by_object, self._hidden[1])))
            for keys, is_fact in zip(ends, (True, False), strict=True)
        ]
        return Listed(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def ends(self, relation: int) -> tuple[Ids, Ids]:
        """Subjects and objects of a relation's facts, each once."""
        part = slice(*self.facts.starts[relation : relation + 2])
        subjects, objects = (
            keys[part] // self.n - relation * self.n for keys in (self._by_subject, self._by_object)
        )  # in order
        return _once(subjects), _once(objects)

    @cached_property
    def _hidden(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cells that are not known, likewise from either end."""
        return cell_keys(self.facts.unobserved, self.n), _by_object(self.facts.unobserved, self.n)

    def _around(self, way: int, entity: int, keys: NDArray[np.int64], is_fact: bool) -> Listed:
        """The cells of an entity at one end, but those with itself."""
        first = (np.arange(self.n_relations) * np.int64(self.n) + entity) * self.n
        found = [keys[slice(*np.searchsorted(keys, (low, low + self.n)))] - low for low in first.tolist()]
        relation = np.repeat(np.arange(self.n_relations), [len(one) for one in found])
        partner = np.concatenate(found)
        relation, partner = relation[partner != entity], partner[partner != entity]
        return Listed(
            np.full(len(partner), way),
            relation,
            partner,
            np.full(len(partner), float(is_fact)),
            self._weights(way, entity, relation, partner) if is_fact else np.zeros(len(partner)),
        )

    def _weights(self, way: int, entity: int, relation: Ids, partner: Ids) -> Vector:
        """Confidence in these facts of an entity."""
        if self.facts.weights is None:
            return np.ones(len(partner))
        own = np.full(len(partner), entity)
        cells = np.stack([own, relation, partner] if way == 0 else [partner, relation, own], axis=1)
        return self.facts.weights[np.searchsorted(self._by_subject, cell_keys(cells, self.n))]

    def _filling(self, keys: NDArray[np.int64], relation: int, given: int) -> Ids:
        first = (relation * self.n + given) * self.n
        start, stop = np.searchsorted(keys, (first, first + self.n))
        return keys[start:stop] - first


def _by_object(cells: Triples, n: int) -> NDArray[np.int64]:
    """Cell numbers by relation, object, subject, in order."""
    return np.sort(cell_keys(cells[:, ::-1], n))


def _once(ordered: Ids) -> Ids:
    """The distinct ones of numbers in order."""
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def _together(parts: list[Facts], factors: Factors) -> Facts:
    """Facts of several sources as one; each counts once."""
    if len(parts) == 1:
        return parts[0]
    triples = np.concatenate([part.triples for part in parts])
    return Facts.from_ids(triples, factors.entities, factors.relations)
