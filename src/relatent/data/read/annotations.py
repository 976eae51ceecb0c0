"""Types and labels that belong to facts: from a file or a mapping, from the facts, or none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from ...errors import DataError
from ..facts import Facts
from ..type_sets import TypeSets
from ..types_in_facts import rdf_types, role_types
from .pairs_file import read_pairs

INFER, NONE = "infer", "none"

TypesSource: TypeAlias = str | os.PathLike[str] | Mapping[str, str | Iterable[str]]
LabelsSource: TypeAlias = str | os.PathLike[str] | Mapping[str, str]


def annotated(
    facts: Facts,
    types: TypesSource | None = None,
    labels: LabelsSource | None = None,
    language: str | None = None,
) -> Facts:
    """The facts with these types and labels.

    types: a file, a mapping, "infer" for the roles of the entities, "none", or None for those of rdf:type facts.
    labels: a file or a mapping, beside the labels that the facts have already; language: of labels in an RDF file.
    """
    found = _types(facts, types)
    if found is not facts.types:
        facts = facts.with_types(found)
    if isinstance(labels, (str, os.PathLike)):
        labels = {key: texts[0] for key, texts in read_pairs(Path(labels), "label", language).items()}
    if labels is None:
        return facts
    type_names = () if facts.types is None else facts.types.names
    if not any(name in names for name in labels for names in (facts.entities, facts.relations, type_names)):
        raise DataError(f"no label is of a name of the facts; the first name is {next(iter(labels), None)!r}")
    return facts.with_labels(labels)


def _types(facts: Facts, types: TypesSource | None) -> TypeSets | None:
    if types is None:
        return facts.types or rdf_types(facts)
    if types == NONE:
        return None
    if types == INFER:
        return role_types(facts)
    if isinstance(types, (str, os.PathLike)):
        types = read_pairs(Path(types), "type")
    return TypeSets.of(types, facts.entities)
