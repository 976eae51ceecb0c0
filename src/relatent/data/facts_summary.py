"""Facts at a glance: the first ones by name, and the size and ends of every relation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import Mask, Triples, Vector
from ..result_tables import ResultList, import_pandas, result_record
from .names import Names
from .result_labels import NamesOfFacts, row_labels
from .undirected import one_direction

if TYPE_CHECKING:
    import pandas as pd


@result_record
class NamedFact(NamedTuple):
    """A fact by name.

    >>> NamedFact("Ann", "likes", "Bob").relation
    'likes'
    """

    subject: str
    relation: str
    object: str


@result_record
class RelationCounts(NamedTuple):
    """A relation, its number of facts, and how many entities are its subjects and objects.

    >>> RelationCounts("likes", facts=3, subjects=2, objects=3, symmetric=False).facts
    3
    """

    relation: str
    facts: int
    subjects: int
    objects: int
    symmetric: bool
    undirected: bool = False  # then a fact is a pair


def named_facts(triples: Triples, entities: Names, relations: Names) -> ResultList[NamedFact]:
    """The facts by name, in order."""
    found = (NamedFact(entities[s], relations[k], entities[o]) for s, k, o in triples.tolist())
    return ResultList(found, row_labels(NamesOfFacts(entities, relations)))


def facts_frame(
    triples: Triples, entities: Names, relations: Names, extra: Mapping[str, Vector | None]
) -> pd.DataFrame:
    """One row per fact by name, with the further columns that there are."""
    pd = import_pandas()
    entity_names, relation_names = (np.array(list(names), object) for names in (entities, relations))
    s, k, o = triples.T
    columns = {"subject": entity_names[s], "relation": relation_names[k], "object": entity_names[o]}
    return pd.DataFrame({**columns, **{name: values for name, values in extra.items() if values is not None}})


def relation_counts(
    triples: Triples, relations: Names, symmetric: Mask, undirected: frozenset[int]
) -> ResultList[RelationCounts]:
    """One row per relation, most facts first; the facts are sorted by relation."""
    starts = np.searchsorted(triples[:, 1], np.arange(len(relations) + 1))
    found = []
    for k, name in enumerate(relations):
        rows = triples[starts[k] : starts[k + 1]]
        subjects, objects = (len(np.unique(rows[:, column])) for column in (0, 2))
        n_facts = int(one_direction(rows, undirected).sum())
        found.append(RelationCounts(name, n_facts, subjects, objects, bool(symmetric[k]), k in undirected))
    labels = row_labels(NamesOfFacts(Names(0), relations))
    return ResultList(sorted(found, key=lambda row: -row.facts), labels)
