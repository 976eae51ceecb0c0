"""The union of facts from several sources."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Matrix, Vector
from ..errors import DataError
from .attribute_table import AttributeTable
from .cell_keys import is_first
from .facts import Facts
from .labels import Labels
from .names import Names
from .type_sets import TypeSets


def union(sources: Sequence[Facts], *, entities: Names | None = None, relations: Names | None = None) -> Facts:
    """Everything that at least one source says, over one vocabulary: the given names, or all names in sorted order.

    Where sources disagree:

    - A cell that is a fact in one source is a fact, even if another source lists it as unobserved. A cell that is
      unobserved in one source and a fact in none is unobserved.
    - A fact keeps its largest weight. A fact of a source without weights has weight 1.
    - The times a fact was seen add up. A fact of a source without times was seen once.
    - An attribute of an entity has the value of the first source that knows it. Sources with attributes given as a
      matrix must have the same number of them.
    - An entity has the types that any source gives it.
    - A relation that is undirected in one source is undirected.
    """
    if not sources:
        raise DataError("the union of no facts has no vocabulary; pass at least one source")
    aligned = over_one_vocabulary(sources, entities=entities, relations=relations)
    undirected = frozenset[int]().union(*(part.undirected for part in aligned))
    aligned = [part.with_undirected(undirected) for part in aligned]
    if len(aligned) == 1:
        return aligned[0]
    facts = Facts.from_ids(
        np.concatenate([part.triples for part in aligned]), aligned[0].entities, aligned[0].relations
    )
    unobserved = np.concatenate([part.unobserved for part in aligned])
    tables = [part.attribute_table for part in aligned if part.attribute_table is not None]
    joined = Facts.from_ids(
        facts.triples,
        facts.entities,
        facts.relations,
        weights=_merged(aligned, [part.weights for part in aligned], np.maximum),
        unobserved=unobserved[~facts.contains(unobserved)],
        attributes=None if tables else _merged_attributes(aligned),
        times=_merged(aligned, [part.times for part in aligned], np.add),
        types=TypeSets.union([part.types for part in aligned if part.types is not None]),
        undirected=undirected,
    )
    return joined.with_attributes(AttributeTable.union(tables)) if tables else joined


def over_one_vocabulary(
    sources: Sequence[Facts], *, entities: Names | None = None, relations: Names | None = None
) -> list[Facts]:
    """The facts of each source by the ids of one vocabulary: the given names, or all names in sorted order."""
    entities = joined_names([part.entities for part in sources]) if entities is None else entities
    relations = joined_names([part.relations for part in sources]) if relations is None else relations
    return [part.over(entities, relations) for part in sources]


def joined_names(parts: Sequence[Names]) -> Names:
    """All names in sorted order, each with its label in the first part that has one."""
    names = Names(sorted({name for part in parts for name in part}), what=parts[0].what)
    texts = {
        name: text for part in reversed(parts) for name, text in zip(part, part.labels.texts, strict=False) if text
    }
    prefixes = {prefix: iri for part in reversed(parts) for prefix, iri in part.labels.prefixes.items()}
    return names.with_labels(Labels([texts.get(name, "") for name in names] if texts else (), prefixes))


def _merged(sources: Sequence[Facts], values: Sequence[Vector | None], merge: np.ufunc) -> Vector | None:
    """One value per distinct fact in the order of the keys; a source without values has 1 for each fact."""
    if all(given is None for given in values):
        return None
    keys = np.concatenate([part.keys for part in sources])
    filled = [np.ones(len(part)) if given is None else given for part, given in zip(sources, values, strict=True)]
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(is_first(keys[order]))
    ordered: Vector = np.concatenate(filled)[order]
    return np.asarray(merge.reduceat(ordered, starts)) if len(starts) else ordered


def _merged_attributes(sources: Sequence[Facts]) -> Matrix | None:
    given = [part.attributes for part in sources if part.attributes is not None]
    if not given:
        return None
    widths = sorted({matrix.shape[1] for matrix in given})
    if len(widths) > 1:
        raise DataError(
            f"the sources have {' and '.join(map(str, widths))} attributes per entity, so that these cannot be the "
            "same ones; drop them with Facts.without_attributes()"
        )
    merged = given[0].copy()
    for matrix in given[1:]:
        merged = np.where(np.isnan(merged), matrix, merged)
    return merged
