"""Known facts by the ids of a model, found from either end in a few steps of a binary search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids
from ..data.facts import Facts, cell_keys
from ..model.factors import Factors


class Known:
    """Facts as two sorted arrays of cell numbers, by subject and by object: 16 bytes a fact."""

    def __init__(self, facts: Facts | Sequence[Facts], factors: Factors):
        parts = [facts] if isinstance(facts, Facts) else list(facts)
        self.facts = _together([one.over(factors.entities, factors.relations) for one in parts], factors)
        self.n, self.n_relations = len(factors.entities), len(factors.relations)
        self._by_subject = self.facts.keys  # relation, subject, object
        self._by_object = np.sort(cell_keys(self.facts.triples[:, ::-1], self.n))  # relation, object, subject

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

    def _filling(self, keys: NDArray[np.int64], relation: int, given: int) -> Ids:
        first = (relation * self.n + given) * self.n
        start, stop = np.searchsorted(keys, (first, first + self.n))
        return keys[start:stop] - first


def _together(parts: list[Facts], factors: Factors) -> Facts:
    """Facts of several sources as one; each counts once."""
    if len(parts) == 1:
        return parts[0]
    triples = np.concatenate([part.triples for part in parts])
    return Facts.from_ids(triples, factors.entities, factors.relations)
