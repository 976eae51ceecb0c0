"""The types of entities: a set of types for each entity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..arrays import Ids
from ..errors import DataError
from .names import Names


@dataclass(frozen=True, eq=False, repr=False)
class TypeSets:
    """Names of types, and which entities have which type; an entity may have several types, or none.

    >>> types = TypeSets.of({"Ann": ["person", "poet"], "Ulm": "city"}, Names(["Ann", "Bob", "Ulm"]))
    >>> list(types.names), types.members.toarray().tolist()
    (['city', 'person', 'poet'], [[False, True, True], [False, False, False], [True, False, False]])
    """

    names: Names  # (T,)
    members: sp.csr_array  # (N, T) bool

    @classmethod
    def of(cls, types: Mapping[str, str | Iterable[str]], entities: Names) -> TypeSets:
        """Types by entity: one type or several. Entities that are not in the vocabulary are left out."""
        pairs = [
            (entity, name)
            for entity, given in types.items()
            for name in ([given] if isinstance(given, str) else given)
            if entity in entities
        ]
        for entity, name in pairs:
            if not isinstance(name, str):
                raise DataError(f"types of {entity!r} must be names, got {name!r}")
        if not pairs:
            first = next(iter(types), None)
            raise DataError(f"no type is of an entity of the facts; the first entity with a type is {first!r}")
        names = Names(sorted({name for _, name in pairs}), what="type")
        return cls.of_ids(
            entities.ids([pair[0] for pair in pairs]), names.ids([pair[1] for pair in pairs]), names, len(entities)
        )

    @classmethod
    def of_ids(cls, entities: Ids, types: Ids, names: Names, n_entities: int) -> TypeSets:
        """Types of entities by ids; a pair may occur several times."""
        return cls(names, indicator(entities, types, (n_entities, len(names))))

    def over(self, entities: Names, known: Names) -> TypeSets:
        """The types of the entities of another vocabulary; `known` are the entities of this one."""
        position = known.translate(entities)  # −1 selects the row of zeros at the end
        padded = sp.vstack([self.members, sp.csr_array((1, len(self.names)), dtype=bool)], format="csr")
        return TypeSets(self.names, sp.csr_array(padded[position % padded.shape[0]]))

    @classmethod
    def union(cls, parts: Sequence[TypeSets]) -> TypeSets | None:
        """All types that the parts give to the same entities; None without parts."""
        if len(parts) < 2:
            return parts[0] if parts else None
        names = Names(sorted({name for part in parts for name in part.names}), what="type")
        pairs = [part.members.nonzero() for part in parts]
        types = [names.translate(part.names)[columns] for part, (_, columns) in zip(parts, pairs, strict=True)]
        entities = np.concatenate([rows for rows, _ in pairs])
        return cls.of_ids(entities, np.concatenate(types), names, parts[0].members.shape[0])

    @property
    def n_typed(self) -> int:
        """The number of entities that have a type."""
        return int(np.count_nonzero(np.diff(self.members.indptr)))

    def __repr__(self) -> str:
        return f"TypeSets({len(self.names)} types, {self.n_typed} of {self.members.shape[0]} entities have one)"


def indicator(rows: Ids, columns: Ids, shape: tuple[int, int]) -> sp.csr_array:
    """A boolean matrix that is true at these places, with sorted indices; a place may occur several times."""
    n_columns = max(shape[1], 1)
    keys = np.unique(rows.astype(np.int64) * n_columns + columns)
    offsets = np.searchsorted(keys, np.arange(shape[0] + 1) * n_columns)
    return sp.csr_array((np.ones(len(keys), bool), keys % n_columns, offsets), shape=shape)
