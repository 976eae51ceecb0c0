"""`EntityTypes`: which entities may be subject or object of a relation, by the types that training facts have there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..arrays import Ids, Mask
from ..data.facts import Facts
from ..data.names import Names
from ..data.shard import Shard
from ..data.type_sets import TypeSets, indicator
from ..errors import InputError

SUBJECT, OBJECT = 0, 2  # places of a fact


@dataclass(frozen=True, eq=False, repr=False)
class EntityTypes:
    """The types of the entities of a model, and the types that occur at each place of its relations.

    >>> facts = Facts.from_arrays(["Ann", "Bob"], ["lives", "lives"], ["Ulm", "Ulm"])
    >>> types = EntityTypes.of(facts, TypeSets.of({"Ann": "person", "Bob": "person", "Ulm": "city"}, facts.entities))
    >>> types.allowed(0, OBJECT).tolist()
    [False, False, True]
    """

    sets: TypeSets
    roles: sp.csr_array  # (2 K, T) bool: types of the subjects of relation k in row 2 k, of its objects in row 2 k + 1

    @classmethod
    def of(cls, facts: Facts | Shard, sets: TypeSets) -> EntityTypes:
        """The types, and where they occur in these facts; with several workers, in the facts of all of them."""
        shard = Shard.of(facts)
        own = shard.facts
        triples = own.triples.astype(np.int64)
        shape = (2 * own.n_relations, own.n_entities)
        seen = [indicator(2 * triples[:, 1] + at, triples[:, 2 * at], shape) for at in (0, 1)]
        roles = sp.csr_array((seen[0] + seen[1]) @ sets.members)
        keys = np.concatenate(shard.workers.gather(_keys(roles)))
        without_facts = 2 * np.flatnonzero(shard.facts_per_relation == 0)
        unknown = np.add.outer(
            np.concatenate([without_facts, without_facts + 1]) * len(sets.names), np.arange(len(sets.names))
        )
        keys = np.concatenate([keys, unknown.ravel()])
        return cls(sets, indicator(keys // len(sets.names), keys % len(sets.names), (shape[0], len(sets.names))))

    @property
    def names(self) -> Names:
        """The names of the types."""
        return self.sets.names

    @property
    def n_entities(self) -> int:
        """The number of entities, with or without a type."""
        return int(self.sets.members.shape[0])

    def allowed(self, relation: int, place: int) -> Mask:
        """For each entity whether it may be subject (place 0) or object (place 2) of a relation, (N,).

        Entities with a type that occurs there in the training facts, so also every entity that occurs there itself,
        and entities without any type. All entities if the relation has no training facts.
        """
        if place not in (SUBJECT, OBJECT):
            raise InputError(f"place must be {SUBJECT} (subject) or {OBJECT} (object), got {place}")
        members, role = self.sets.members, 2 * relation + place // 2
        wanted = self.roles.indices[slice(*self.roles.indptr[role : role + 2])]
        is_wanted = np.zeros(len(self.names), np.int64)
        is_wanted[wanted] = 1
        matches = np.concatenate([[0], np.cumsum(is_wanted[members.indices])])
        found: Mask = matches[members.indptr[1:]] > matches[members.indptr[:-1]]
        found |= np.diff(members.indptr) == 0
        return found

    def main_types(self) -> NDArray[np.int64]:
        """The most common type of each entity, (N,); −1 for entities without a type."""
        members = self.sets.members
        place = np.empty(len(self.names), np.int64)  # of each type, the most common first
        by_size = np.argsort(-np.bincount(members.indices, minlength=len(self.names)), kind="stable")
        place[by_size] = np.arange(len(by_size))
        best = np.full(self.n_entities, len(by_size))
        np.minimum.at(best, np.repeat(np.arange(self.n_entities), np.diff(members.indptr)), place[members.indices])
        found: NDArray[np.int64] = np.append(by_size, -1)[best]
        return found

    def extended(self, n_entities: int) -> EntityTypes:
        """The same types for a vocabulary with further entities at the end, which have no type."""
        members = self.sets.members
        indptr = np.append(members.indptr, np.full(n_entities - members.shape[0], members.indptr[-1]))
        grown = sp.csr_array((members.data, members.indices, indptr), shape=(n_entities, members.shape[1]))
        return replace(self, sets=replace(self.sets, members=grown))

    def __repr__(self) -> str:
        return f"EntityTypes({self.sets!r})"


def entities_in_place(facts: Facts | Shard, place: int) -> list[Ids]:
    """For each relation the entities that may be its subjects or objects: of the right types, as `EntityTypes.allowed`.

    If the facts have no types, the entities that have facts there. All workers must call it.
    """
    shard = Shard.of(facts)
    if shard.facts.types is not None:
        types = EntityTypes.of(shard, shard.facts.types)
        return [np.flatnonzero(types.allowed(k, place)) for k in range(shard.n_relations)]
    own = shard.facts.triples.astype(np.int64)
    seen = np.concatenate(shard.workers.gather(np.unique(own[:, 1] * shard.n_entities + own[:, place])))
    relation, entity = np.divmod(np.unique(seen), shard.n_entities)
    return np.split(entity, np.searchsorted(relation, np.arange(1, shard.n_relations)))


def _keys(roles: sp.csr_array) -> Ids:
    rows, columns = roles.nonzero()
    keys: Ids = rows.astype(np.int64) * roles.shape[1] + columns
    return keys
