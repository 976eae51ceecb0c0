"""Types, labels and attributes that belong to facts: from a table, a mapping, RDF, from the facts, or none."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ...errors import DataError, DataWarning, one_line
from ..attribute_table import AttributeTable
from ..facts import Facts
from ..names import is_utf8
from ..type_sets import TypeSets
from ..types_in_facts import rdf_types, role_types
from .encode import to_strings
from .files import File, identify, named
from .reading import MENDING, Reading
from .roles import ATTRIBUTES, ENTITY_COLUMNS, other_roles
from .sources import open_file, open_table, read_file
from .table import Table

INFER, NONE = "infer", "none"
RDF_FORMATS = ("ntriples", "nquads", "turtle", "trig", "n3", "rdfxml", "jsonld")
GRAPH_FORMATS = ("graphml", "gexf", "gml")

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
        labels = {key: texts[0] for key, texts in _pairs(Path(labels), "label", language).items()}
    if labels is not None:
        for name, text in labels.items():
            if not isinstance(text, str) or not is_utf8(text):
                raise DataError(f"the label of {name!r:.100} must be text that UTF-8 can encode, got {text!r:.100}")
        type_names = () if facts.types is None else facts.types.names
        if not any(name in names for name in labels for names in (facts.entities, facts.relations, type_names)):
            raise DataError(f"no label is of a name of the facts; the first name is {next(iter(labels), None)!r:.100}")
        facts = facts.with_labels(labels)
    if attributes is not None and not isinstance(attributes, bool):
        facts = _with_attributes(facts, attribute_table(attributes, language).by_names_of(facts.entities))
        warn_of_entities_without_facts(facts)
    return facts


def _types(facts: Facts, types: TypesSource | None) -> TypeSets | None:
    if types is None:
        return facts.types or rdf_types(facts)
    if types == NONE:
        return None
    if types == INFER:
        return role_types(facts)
    if isinstance(types, (str, os.PathLike)):
        types = _pairs(Path(types), "type")
    return TypeSets.of(types, facts.entities)


# --- labels and types: two columns


def _pairs(path: Path, what: str, language: str | None = None) -> dict[str, list[str]]:
    """The values by id in a table of ids and labels or types, in JSON by id, or in RDF."""
    file = _annotation_file(path, what)
    found: dict[str, list[str]] = {}
    for key, value in _rdf_pairs(file, what, language) if file.format in RDF_FORMATS else _table_pairs(file, what):
        if key and value:
            found.setdefault(key, []).append(value)
    if not found:
        raise DataError(f"{path}: contains no {what}s")
    return found


def _annotation_file(path: Path, what: str) -> File:
    file = identify(path)
    if file.format in GRAPH_FORMATS:
        raise DataError(
            f"{path}: a file of {what}s must be a table (CSV, TSV, Parquet, JSON, …) or RDF, not {file.format}"
        )
    return file


def _rdf_pairs(file: File, what: str, language: str | None) -> Iterator[tuple[str, str]]:
    from .rdf import literals_of

    if what == "label":
        yield from named(literals_of(file, language).labels.items(), file.path)
        return
    facts = read_file(file, Reading(bad_rows=MENDING))
    if (types := rdf_types(facts)) is not None:
        for entity, kind in zip(*(ids.tolist() for ids in types.members.nonzero()), strict=True):
            yield facts.entities[entity], types.names[kind]


def _table_pairs(file: File, what: str) -> Iterator[tuple[str, str]]:
    if file.format == "json" and isinstance(by_id := _json(file), Mapping):
        for key, given in by_id.items():
            value: Any = given.get(what) if isinstance(given, Mapping) else given
            for one in value if isinstance(value, list) else [value]:
                if one is not None and not (isinstance(one, str) and is_utf8(one)):
                    raise DataError(f"{file.path}: the {what} of {key!r:.100} must be text, got {one!r:.100}")
                yield key.strip(), (one or "").strip()
        return
    wanted = ("id", what)
    table = open_file(file, Reading(bad_rows=MENDING, wanted=wanted))
    first = table.names or [values[0] for values in table.sample if values]
    roles = other_roles(table.names, first, wanted, None, None, table.where)
    for columns in named(table.columns(roles.positions, 2), file.path):
        ids, values = (to_strings(column, role, table.source) for column, role in zip(columns, wanted, strict=True))
        yield from (
            (key.strip(), value.strip())
            for key, value in zip(ids.to_pylist(), values.to_pylist(), strict=True)
            if key and value
        )


def _json(file: File) -> Any:
    from .json_rows import document

    return next(named(iter([document(file)]), file.path))


# --- attributes: a column of entities, and one per attribute


def attribute_table(source: AttributesSource, language: str | None = None) -> AttributeTable:
    """The attributes in a file, a mapping or a table."""
    if isinstance(source, AttributeTable):
        return source
    if isinstance(source, Mapping) and all(isinstance(values, Mapping) for values in source.values()):
        return AttributeTable.of(source)
    if isinstance(source, (str, os.PathLike)):
        file = _annotation_file(Path(source), "attribute")
        if file.format in RDF_FORMATS:
            from .rdf import literals_of

            return AttributeTable.of_rows(named(literals_of(file, language, attributes=True).values, file.path))
        if file.format == "json" and isinstance(by_entity := _json(file), Mapping):
            if not all(isinstance(values, Mapping) for values in by_entity.values()):
                raise DataError(f"{file.path}: expected attributes by entity, or a list of rows")
            return AttributeTable.of(by_entity)
        return AttributeTable.of_rows(_cells(open_file(file, Reading(bad_rows=MENDING, wanted=ATTRIBUTES))))
    return AttributeTable.of_rows(_cells(open_table(source, Reading(bad_rows=MENDING))))


def _cells(table: Table) -> Iterator[tuple[str, str, str]]:
    """Entity, attribute and value of each cell of a table; the entity has a column with a usual name, or the first."""
    names = [name.strip() for name in table.names]
    if len(names) < 2 or len(set(names)) < len(names):
        shown = ",".join(names)[:100]
        raise DataError(f"{table.where}: expected a header with different names of columns, got {shown!r}")
    entity = next((place for place, name in enumerate(names) if name.lower() in ENTITY_COLUMNS), 0)
    others = [place for place in range(len(names)) if place != entity]
    for number, (key, *values) in enumerate(named(table.values([entity, *others]), table.source)):
        if key is None or not str(key).strip():
            if all(value is None or not str(value).strip() for value in values):
                continue
            raise DataError(f"{table.place(number)}: has no entity in column {names[entity]!r:.100}")
        for place, value in zip(others, values, strict=True):
            for one in value if isinstance(value, (list, tuple)) else (value,):
                if one is not None:
                    yield str(key).strip(), names[place], str(one)


def _with_attributes(facts: Facts, table: AttributeTable) -> Facts:
    """The facts with the attributes of a table, and those that they have; DataError if the table has none for them."""
    if not table.entities:
        raise DataError("there are no values of attributes; expected a column of entities and one per attribute")
    if not any(entity in facts.entities for entity in table.entities):
        first = next(iter(sorted(table.entities)), None)
        example = f", an entity of the facts {facts.entities[0]!r:.100}" if len(facts.entities) else ""
        message = "no attribute is of an entity of the facts; the first entity with a value is"
        raise DataError(f"{message} {first!r:.100}{example}")
    known = [table, *([] if facts.attribute_table is None else [facts.attribute_table])]
    found = facts.with_attributes(AttributeTable.union(known))
    if found.attributes is None:
        shown = one_line(", ".join(table.values), 300)
        raise DataError(f"the values of the attributes ({shown}) do not differ; leave attributes out")
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
