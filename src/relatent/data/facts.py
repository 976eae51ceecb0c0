"""`Facts`: the set of true facts (subject, relation, object) that all models learn from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ..arrays import Ids, Mask, Matrix, Triples, Vector
from ..errors import DataError
from ..result_tables import MAX_ROWS, Result, ResultList, html_table
from .array_checks import (
    Attributes,
    cell_columns,
    check_ids,
    check_size,
    checked_attributes,
    checked_times,
    checked_weights,
    id_or_name_column,
    merge_duplicates,
    rows_at,
    stack,
    vocabulary,
)
from .attribute_table import AttributeTable
from .cell_keys import cell_keys, cells_of, is_in_sorted, sorted_unique
from .facts_summary import NamedFact, RelationCounts, facts_frame, named_facts, relation_counts
from .names import Names
from .tensors import cells_of_tensor
from .type_sets import TypeSets
from .undirected import Undirected, closed, one_direction, undirected_ids

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Facts(Result):
    """True facts over a vocabulary; every other cell is false unless it is listed as unobserved.

    A fact of an undirected relation is a pair: it is held in both directions, whichever of them were given.

    Build it with `relatent.read`, `relatent.load_dataset`, `Facts.from_arrays` or `Facts.from_tensor`.

    >>> facts = Facts.from_arrays(["Ann", "Bob"], ["likes", "likes"], ["Bob", "Cid"])
    >>> len(facts), list(facts.entities), facts.triples.tolist()
    (2, ['Ann', 'Bob', 'Cid'], [[0, 0, 1], [1, 0, 2]])
    """

    triples: Triples  # (n, 3) int32, sorted by relation, subject, object; column-major, so each column is contiguous
    entities: Names
    relations: Names
    weights: Vector | None = None  # (n,) confidence in each fact; None means 1 for all
    unobserved: Triples = None  # type: ignore[assignment]  # (m, 3), sorted like the facts and disjoint from them
    attributes: Matrix | None = None  # (N, M) numeric attributes of entities, NaN where unknown
    times: Vector | None = None  # (n,) how often each fact was seen; None means once; only count models use it
    types: TypeSets | None = None  # types of the entities; a model offers no answers of a wrong type
    attribute_table: AttributeTable | None = None  # the values that `attributes` encodes, if they were read
    undirected: frozenset[int] = frozenset()  # ids of the relations whose facts are pairs without a direction

    def __post_init__(self) -> None:
        if self.unobserved is None:
            object.__setattr__(self, "unobserved", np.empty((0, 3), np.int32, order="F"))
        for array in (self.triples, self.weights, self.unobserved, self.attributes, self.times):
            if array is not None:
                array.flags.writeable = False

    # --- construction

    @classmethod
    def from_arrays(
        cls,
        subjects: ArrayLike,
        relations: ArrayLike,
        objects: ArrayLike,
        *,
        n_entities: int | None = None,
        n_relations: int | None = None,
        entity_names: Sequence[str] | None = None,
        relation_names: Sequence[str] | None = None,
        weights: ArrayLike | None = None,
        unobserved: ArrayLike | None = None,
        attributes: Attributes | None = None,
        times: ArrayLike | None = None,
        types: Mapping[str, str | Iterable[str]] | None = None,
        undirected: Undirected = False,
    ) -> Facts:
        """Facts from three equally long arrays of ids or of names.

        Without `entity_names` or `relation_names`, names are sorted and ids are named by their number. `unobserved`
        lists cells whose truth is not known, by id or by name: an (m, 3) array or a tuple of three arrays. A duplicate
        fact counts once. `times` says how often each fact was seen; the times of duplicates add up. `types` are the
        types of entities, by name: models offer no answers of a wrong type. `undirected`: True, or the relations whose
        facts are pairs (`with_undirected`).

        >>> Facts.from_arrays([0, 1], [0, 0], [1, 2], entity_names=["Ann", "Bob", "Cid"], relation_names=["likes"])
        Facts(2 facts, 3 entities, 1 relations)
        """
        s, k, o = (
            id_or_name_column(values, what)
            for values, what in ((subjects, "subjects"), (relations, "relations"), (objects, "objects"))
        )
        if not len(s) == len(k) == len(o):
            raise DataError(
                f"subjects, relations and objects must be equally long, got {len(s)}, {len(k)} and {len(o)}"
            )
        s_unobserved, k_unobserved, o_unobserved = cell_columns(unobserved)
        entity_vocabulary = vocabulary(entity_names, n_entities, (s, o, s_unobserved, o_unobserved), "entity")
        relation_vocabulary = vocabulary(relation_names, n_relations, (k, k_unobserved), "relation")
        triples, unobserved_cells = (
            stack(entity_vocabulary.ids(s), relation_vocabulary.ids(k), entity_vocabulary.ids(o))
            for s, k, o in ((s, k, o), (s_unobserved, k_unobserved, o_unobserved))
        )
        return cls.from_ids(
            triples,
            entity_vocabulary,
            relation_vocabulary,
            weights=weights,
            unobserved=unobserved_cells,
            attributes=attributes,
            times=times,
            types=None if types is None else TypeSets.of(types, entity_vocabulary),
            undirected=undirected_ids(undirected, relation_vocabulary),
        )

    @classmethod
    def from_ids(
        cls,
        triples: Triples,
        entities: Names,
        relations: Names,
        *,
        weights: ArrayLike | None = None,
        unobserved: Triples | None = None,
        attributes: Attributes | None = None,
        times: ArrayLike | None = None,
        types: TypeSets | None = None,
        undirected: frozenset[int] = frozenset(),
    ) -> Facts:
        """Facts from an (n, 3) array of ids of an existing vocabulary."""
        n = len(entities)
        check_size(n, len(relations))
        check_ids(triples, n, len(relations))
        keys, w, seen = merge_duplicates(
            cell_keys(triples, n), checked_weights(weights, len(triples)), checked_times(times, len(triples))
        )
        keys, w, seen = closed(keys, entities, undirected, w, seen)
        facts = cls(
            triples=cells_of(keys, n),
            entities=entities,
            relations=relations,
            weights=w,
            attributes=checked_attributes(attributes, n),
            times=seen,
            types=types,
            undirected=undirected,
        )
        if unobserved is None or not len(unobserved):
            return facts
        check_ids(unobserved, n, len(relations))
        unobserved_keys = closed(sorted_unique(cell_keys(unobserved, n)), entities, undirected)[0]
        both = is_in_sorted(unobserved_keys, keys)
        if both.any():
            cell = facts.named(cells_of(unobserved_keys[both][:1], n))[0]
            raise DataError(f"a cell cannot be both a fact and unobserved, got {' | '.join(cell)}; list it once")
        return replace(facts, unobserved=cells_of(unobserved_keys, n))

    @classmethod
    def from_tensor(
        cls,
        x: ArrayLike | Sequence[sp.spmatrix],
        *,
        entity_names: Sequence[str] | None = None,
        relation_names: Sequence[str] | None = None,
        attributes: Attributes | None = None,
    ) -> Facts:
        """Facts from an array (N, N, K) or a list of K sparse N × N matrices of 0, 1 and NaN (= unobserved).

        >>> import numpy as np
        >>> Facts.from_tensor(np.array([[[0.0], [1.0]], [[np.nan], [0.0]]]))
        Facts(1 facts, 2 entities, 1 relations, 1 unobserved cells)
        """
        cells = cells_of_tensor(x)
        return cls.from_arrays(
            *cells.facts.T,
            n_entities=cells.n_entities,
            n_relations=cells.n_relations,
            entity_names=entity_names,
            relation_names=relation_names,
            unobserved=cells.unobserved,
            attributes=attributes,
        )

    # --- contents

    def __len__(self) -> int:
        return len(self.triples)

    @property
    def n_entities(self) -> int:
        """Number of entities in the vocabulary."""
        return len(self.entities)

    @property
    def n_relations(self) -> int:
        """Number of relations in the vocabulary."""
        return len(self.relations)

    @property
    def n_cells(self) -> int:
        """Number of all N × K × N cells, including unobserved ones."""
        return self.n_entities**2 * self.n_relations

    @property
    def subjects(self) -> Ids:
        """Subject ids, (n,), a view."""
        return self.triples[:, 0]

    @property
    def objects(self) -> Ids:
        """Object ids, (n,), a view."""
        return self.triples[:, 2]

    @property
    def confidences(self) -> Vector:
        """The weight of each fact, (n,); 1 where no weights are given."""
        return np.ones(len(self)) if self.weights is None else self.weights

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Row offsets by relation, (K + 1,): the facts of relation k are rows starts[k] to starts[k + 1]."""
        return np.searchsorted(self.triples[:, 1], np.arange(self.n_relations + 1)).astype(np.int64)

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """The facts as sorted cell keys (see `cell_keys`), (n,)."""
        return cell_keys(self.triples, self.n_entities)

    @cached_property
    def once(self) -> Mask:
        """Every fact once: a pair of an undirected relation in one of its directions, (n,)."""
        return one_direction(self.triples, self.undirected)

    def matrix(self, k: int, dtype: Any = np.float64) -> sp.csr_matrix:
        """X_k, the N × N adjacency matrix of relation k."""
        s, _, o = self.triples[self.starts[k] : self.starts[k + 1]].T
        return sp.csr_matrix((np.ones(len(s), dtype), (s, o)), shape=(self.n_entities, self.n_entities))

    def contains(self, cells: Triples) -> Mask:
        """For each cell (subject, relation, object) whether it is a fact."""
        return is_in_sorted(cell_keys(cells, self.n_entities), self.keys)

    def is_unobserved(self, cells: Triples) -> Mask:
        """For each cell (subject, relation, object) whether it is unobserved."""
        return is_in_sorted(cell_keys(cells, self.n_entities), cell_keys(self.unobserved, self.n_entities))

    def n_observed(self) -> NDArray[np.int64]:
        """Number of observed cells of each relation, (K,)."""
        return self.n_entities**2 - np.bincount(self.unobserved[:, 1], minlength=self.n_relations)

    def counts(self) -> NDArray[np.int64]:
        """Number of facts of each relation, (K,)."""
        return np.diff(self.starts)

    @cached_property
    def symmetric(self) -> Mask:
        """For each relation whether it is symmetric, (K,): it has facts off the diagonal, all in both directions.

        A fact whose mirrored cell is unobserved does not count against symmetry.
        """
        mirrors, k = self.triples[:, ::-1], self.triples[:, 1]
        mirrored = self.contains(mirrors) | self.is_unobserved(mirrors)
        off_diagonal = self.subjects != self.objects
        one_way, proper = (np.bincount(k[chosen], minlength=self.n_relations) for chosen in (~mirrored, off_diagonal))
        return np.asarray((proper > 0) & (one_way == 0))

    def named(self, cells: Triples | None = None) -> list[tuple[str, str, str]]:
        """The facts, or the given cells, by name.

        >>> Facts.from_arrays(["Ann"], ["likes"], ["Bob"]).named()
        [('Ann', 'likes', 'Bob')]
        """
        cells = self.triples if cells is None else cells
        return [(self.entities[s], self.relations[k], self.entities[o]) for s, k, o in cells.tolist()]

    def head(self, n: int = 5) -> ResultList[NamedFact]:
        """The first n facts by name; facts are sorted by relation.

        >>> Facts.from_arrays(["Ann", "Bob"], ["likes", "likes"], ["Bob", "Cid"]).head(1)
        [NamedFact(subject='Ann', relation='likes', object='Bob')]
        """
        return named_facts(self.triples[:n], self.entities, self.relations)

    def describe(self) -> ResultList[RelationCounts]:
        """Each relation with its number of facts, subjects and objects, and whether it is symmetric; most facts first.

        A pair of an undirected relation is one fact.

        >>> Facts.from_arrays(["Ann", "Bob"], ["likes", "likes"], ["Bob", "Ann"]).describe()
        [RelationCounts(relation='likes', facts=2, subjects=2, objects=2, symmetric=True, undirected=False)]
        """
        return relation_counts(self.triples, self.relations, self.symmetric, self.undirected)

    def to_pandas(self) -> pd.DataFrame:
        """One row per fact: subject, relation, object, and weight and count if there are any; needs pandas.

        >>> Facts.from_arrays(["Ann"], ["likes"], ["Bob"]).to_pandas().columns.tolist()
        ['subject', 'relation', 'object']
        """
        return facts_frame(self.triples, self.entities, self.relations, {"weight": self.weights, "count": self.times})

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.head(MAX_ROWS), len(self))

    def __repr__(self) -> str:
        parts = (
            f"{len(self)} facts, {self.n_entities} entities, {self.n_relations} relations",
            f"{len(self.unobserved)} unobserved cells" if len(self.unobserved) else "",
            "" if self.weights is None else "weighted",
            "" if self.times is None else "counted",
            "" if self.attributes is None else f"{self.attributes.shape[1]} attributes",
            "" if self.types is None else f"{len(self.types.names)} types",
            f"{len(self.undirected)} undirected" if self.undirected else "",
        )
        return f"Facts({', '.join(filter(None, parts))})"

    @cached_property
    def fingerprint(self) -> str:
        """A short digest of facts, weights, counts, unobserved cells, directions and the matrix of attributes."""
        return self.fingerprint_of(self.checksums)

    def fingerprint_of(self, checksums: NDArray[np.uint64]) -> str:
        """The fingerprint of facts with these checksums over this vocabulary and with these attributes."""
        digest = hashlib.sha256(f"{self.n_entities} {self.n_relations}".encode() + checksums.tobytes())
        no_matrix = self.attributes is None or self.attribute_table is not None  # a table is no part of the facts
        digest.update(b"-" if no_matrix else np.ascontiguousarray(self.attributes).data)
        digest.update(str(sorted(self.undirected)).encode() if self.undirected else b"")
        return digest.hexdigest()[:16]

    @property
    def checksums(self) -> NDArray[np.uint64]:
        """Checksums of the facts and unobserved cells; those of disjoint parts add up to those of the whole."""
        from .fingerprint import checksums  # imports Numba, which is slow

        return checksums(self.triples, self.unobserved, self.n_entities, self.weights, self.times)

    # --- derived facts

    def hold_out(self, cells: Triples, *, masked: bool) -> Facts:
        """The facts without these cells, which become unobserved (masked=True) or false (masked=False).

        A cell of an undirected relation goes in both directions.
        """
        n = self.n_entities
        keys = closed(sorted_unique(cell_keys(cells, n)), self.entities, self.undirected)[0]
        unobserved = cell_keys(self.unobserved, n)
        unobserved = sorted_unique(np.concatenate([unobserved, keys])) if masked else unobserved
        return replace(self.subset(~is_in_sorted(self.keys, keys)), unobserved=cells_of(unobserved, n))

    def subset(self, chosen: Mask) -> Facts:
        """The chosen facts, with the same vocabulary, unobserved cells and attributes.

        A pair of an undirected relation stays or goes as a whole: as its direction in `once`.
        """
        if self.undirected:
            chosen = self._as_pairs(chosen)
        return replace(
            self,
            triples=np.asfortranarray(self.triples[chosen]),
            weights=None if self.weights is None else self.weights[chosen],
            times=None if self.times is None else self.times[chosen],
        )

    def _as_pairs(self, chosen: Mask) -> Mask:
        """The mask with the value of each fact's direction in `once` for both, where these facts hold it."""
        turned = np.flatnonzero(~self.once)
        mirrors = cell_keys(self.triples[turned][:, ::-1], self.n_entities)
        place = np.minimum(np.searchsorted(self.keys, mirrors), max(len(self) - 1, 0))
        has_mirror = self.keys[place] == mirrors
        chosen = np.array(chosen, bool)
        chosen[turned[has_mirror]] = chosen[place[has_mirror]]
        return chosen

    def over(self, entities: Names, relations: Names) -> Facts:
        """The same facts by the ids of another vocabulary.

        Facts, unobserved cells and attributes of names that the other vocabulary lacks are left out. Entities that
        only the other vocabulary has get NaN for every attribute.
        """
        if self.entities is entities and self.relations is relations:
            return self
        entity, relation = entities.translate(self.entities), relations.translate(self.relations)
        cells, unobserved = (
            stack(entity[cells[:, 0]], relation[cells[:, 1]], entity[cells[:, 2]])
            for cells in (self.triples, self.unobserved)
        )
        given = None if self.attribute_table is not None else self.attributes
        kept = (cells >= 0).all(axis=1)
        facts = Facts.from_ids(
            cells[kept],
            entities,
            relations,
            weights=None if self.weights is None else self.weights[kept],
            unobserved=unobserved[(unobserved >= 0).all(axis=1)],
            attributes=None if given is None else rows_at(given, entity, len(entities)),
            times=None if self.times is None else self.times[kept],
            types=None if self.types is None else self.types.over(entities, self.entities),
        )
        if self.undirected:  # as closed as these are: a worker may have one direction of a pair
            facts = replace(facts, undirected=frozenset(relation[sorted(self.undirected)].tolist()) - {-1})
        return facts if self.attribute_table is None else facts.with_attributes(self.attribute_table)

    def with_undirected(self, relations: Undirected) -> Facts:
        """The same facts, with relations whose facts have no direction: True for all, or by name or id.

        Both directions of each pair become facts; listing one of them, the other, or both is the same. Counts of the
        two directions add up, unless each pair was listed in both with the same count.

        >>> Facts.from_arrays(["Ann"], ["married"], ["Bob"]).with_undirected("married").named()
        [('Ann', 'married', 'Bob'), ('Bob', 'married', 'Ann')]
        """
        ids = undirected_ids(relations, self.relations) | self.undirected
        if ids == self.undirected:
            return self
        facts = Facts.from_ids(
            self.triples,
            self.entities,
            self.relations,
            weights=self.weights,
            unobserved=self.unobserved,
            times=self.times,
            undirected=ids,
        )
        return replace(facts, attributes=self.attributes, types=self.types, attribute_table=self.attribute_table)

    def with_types(self, types: Mapping[str, str | Iterable[str]] | TypeSets | None) -> Facts:
        """The same facts with these types of entities, by name; None: without types."""
        return replace(self, types=TypeSets.of(types, self.entities) if isinstance(types, Mapping) else types)

    def with_labels(self, labels: Mapping[str, str]) -> Facts:
        """The same facts with these display names of entities, relations and types, by name, beside those they have."""
        types = self.types and replace(self.types, names=self.types.names.with_labels(labels))
        entities, relations = (names.with_labels(labels) for names in (self.entities, self.relations))
        return replace(self, entities=entities, relations=relations, types=types)

    def with_attributes(self, table: AttributeTable) -> Facts:
        """The same facts with the attributes of a table; values of other entities stay in `attribute_table`."""
        return replace(self, attributes=table.encoded_for(self.entities), attribute_table=table)

    def without_attributes(self) -> Facts:
        """The same facts without entity attributes."""
        return replace(self, attributes=None, attribute_table=None)
