"""Types of entities that facts tell: the objects of rdf:type facts."""

from __future__ import annotations

import numpy as np

from .facts import Facts
from .names import Names
from .type_sets import TypeSets

RDF_TYPE = ("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "rdf:type")


def rdf_types(facts: Facts) -> TypeSets | None:
    """The objects of rdf:type facts as types of their subjects; None if there are no such facts."""
    relation = next((facts.relations.id(name) for name in RDF_TYPE if name in facts.relations), None)
    if relation is None or facts.starts[relation] == facts.starts[relation + 1]:
        return None
    rows = slice(*facts.starts[relation : relation + 2])
    used, types = np.unique(facts.objects[rows], return_inverse=True)
    names = Names([facts.entities[i] for i in used.tolist()], what="type")
    return TypeSets.of_ids(facts.subjects[rows], types, names, facts.n_entities)
