"""Types, labels and attributes that belong to facts: from a file or a mapping, from the facts, or none."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ...errors import DataError, DataWarning
from ..attribute_table import AttributeTable
from ..facts import Facts
from ..names import is_utf8
from ..type_sets import TypeSets
from ..types_in_facts import rdf_types, role_types
from .pairs_file import read_pairs

INFER, NONE = "infer", "none"

TypesSource: TypeAlias = str | os.PathLike[str] | Mapping[str, str | Iterable[str]]
LabelsSource: TypeAlias = str | os.PathLike[str] | Mapping[str, str]
AttributesSource: TypeAlias = Any  # bool, path, mapping {entity: {attribute: value}} or table


def annotated(
    facts: Facts,
    types: TypesSource | None = None,
    labels: LabelsSource | None = None,
    language: str | None = None,
    attributes: AttributesSource = None,
) -> Facts:
    """The facts with these types, labels and attributes.

    types: a file, a mapping, "infer" for the roles of the entities, "none", or None for those of rdf:type facts.
    labels: a file or a mapping, beside the labels that the facts have already; language: of labels in an RDF file.
    attributes: a file, a mapping or a table, beside those that the readers found.
    """
    found = _types(facts, types)
    if found is not facts.types:
        facts = facts.with_types(found)
    if isinstance(labels, (str, os.PathLike)):
        labels = {key: texts[0] for key, texts in read_pairs(Path(labels), "label", language).items()}
    if labels is not None:
        for name, text in labels.items():
            if not isinstance(text, str) or not is_utf8(text):
                raise DataError(f"the label of {name!r:.100} must be text that UTF-8 can encode, got {text!r:.100}")
        type_names = () if facts.types is None else facts.types.names
        if not any(name in names for name in labels for names in (facts.entities, facts.relations, type_names)):
            raise DataError(f"no label is of a name of the facts; the first name is {next(iter(labels), None)!r}")
        facts = facts.with_labels(labels)
    if attributes is not None and not isinstance(attributes, bool):
        facts = _with_attributes(facts, attribute_table(attributes, language).by_names_of(facts.entities))
        warn_of_entities_without_facts(facts)
    return facts


def attribute_table(source: AttributesSource, language: str | None = None) -> AttributeTable:
    """The attributes in a file, a mapping or a table."""
    if isinstance(source, AttributeTable):
        return source
    if isinstance(source, Mapping) and all(isinstance(values, Mapping) for values in source.values()):
        return AttributeTable.of(source)
    from .attribute_file import read_attribute_file, rows_of_table

    if isinstance(source, (str, os.PathLike)):
        return read_attribute_file(Path(source), language)
    return AttributeTable.of_rows(rows_of_table(source, "table of attributes"))


def _with_attributes(facts: Facts, table: AttributeTable) -> Facts:
    """The facts with the attributes of a table, and those that they have; DataError if the table has none for them."""
    if not any(entity in facts.entities for entity in table.entities):
        first = next(iter(sorted(table.entities)), None)
        example = f", an entity of the facts {facts.entities[0]!r}" if len(facts.entities) else ""
        message = "no attribute is of an entity of the facts; the first entity with a value is"
        raise DataError(f"{message} {first!r}{example}")
    known = [table, *([] if facts.attribute_table is None else [facts.attribute_table])]
    found = facts.with_attributes(AttributeTable.union(known))
    if found.attributes is None:
        raise DataError(f"the values of the attributes ({', '.join(table.values)}) do not differ; leave attributes out")
    return found


def warn_of_entities_without_facts(facts: Facts) -> None:
    """Say how many entities have attributes and no facts, and what to do."""
    described = set() if facts.attribute_table is None else facts.attribute_table.entities
    if n := sum(entity not in facts.entities for entity in described):
        warnings.warn(
            f"{n:,} of {len(described):,} entities with attributes have no facts, so a fit leaves them out; fold_in "
            "(relatent fold-in) adds them to the model",
            DataWarning,
            stacklevel=4,
        )


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
