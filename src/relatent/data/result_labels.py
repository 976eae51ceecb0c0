"""Labels in results: beside the names in documents and tables, and in place of the names in what a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .names import Names

ENTITY_FIELDS = ("subject", "object", "name", "other", "into", "neighbour", "entity", "partner", "alternative")
LIST_FIELDS = ("subjects", "objects", "names", "members", "examples", "via")
RULE_FIELDS = ("body", "head", "clause")  # texts of atoms such as born_in(x,z) ∧ located_in(z,y)
NAME_FIELDS = ("relation", *ENTITY_FIELDS, *RULE_FIELDS)
VARIABLES = len("(x,y)")  # characters after the relation of an atom


class Vocabulary(Protocol):
    """What has names with labels: Facts and Factors."""

    @property
    def entities(self) -> Names:
        """Names of the entities."""

    @property
    def relations(self) -> Names:
        """Names of the relations."""


class NamesOfFacts(NamedTuple):
    """A vocabulary by itself."""

    entities: Names
    relations: Names


@dataclass(frozen=True)
class RowLabels:
    """Labels for the rows of a result (`result_tables.ResultList`)."""

    vocabulary: Vocabulary

    def add(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row with labels beside its names."""
        return add_labels(row, self.vocabulary)  # type: ignore[no-any-return]

    def shown(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row with names as a person should read them."""
        return shown(row, self.vocabulary)  # type: ignore[no-any-return]


def has_labels(vocabulary: Vocabulary) -> bool:
    """Whether there may be a name with a label."""
    return any(names.labels.texts or names.labels.prefixes for names in (vocabulary.entities, vocabulary.relations))


def row_labels(vocabulary: Vocabulary) -> RowLabels | None:
    """For a ResultList; None if there are no labels."""
    return RowLabels(vocabulary) if has_labels(vocabulary) else None


def add_labels(document: Any, vocabulary: Vocabulary) -> Any:
    """A JSON document with a field such as "subject_label" beside each name, null where there is no label.

    The document itself if there are no labels.
    """
    if not has_labels(vocabulary):
        return document
    if isinstance(document, list):
        return [add_labels(part, vocabulary) for part in document]
    if not isinstance(document, Mapping):
        return document
    found: dict[str, Any] = {}
    for field, value in document.items():
        found[field] = add_labels(value, vocabulary)
        if isinstance(value, str) and field in NAME_FIELDS:
            found[f"{field}_label"] = _label(vocabulary, field, value)
        elif field in LIST_FIELDS and isinstance(value, list) and all(isinstance(name, str) for name in value):
            found[f"{field}_labels"] = [_label(vocabulary, field, name) for name in value]
    return found


def label_columns(columns: Mapping[str, Sequence[Any]], vocabulary: Vocabulary) -> dict[str, list[str | None]]:
    """Columns such as "subject_label" for those columns of a table that hold names."""
    return {
        f"{field}_label": [_label(vocabulary, field, name) if isinstance(name, str) else None for name in values]
        for field, values in columns.items()
        if field in NAME_FIELDS
    }


def shown(result: Any, vocabulary: Vocabulary) -> Any:
    """A copy of named tuples, lists and mappings in which names are as a person should read them."""
    if hasattr(result, "_asdict"):
        return result._replace(**shown(result._asdict(), vocabulary))
    if isinstance(result, (list, tuple)):
        return [shown(part, vocabulary) for part in result]
    if not isinstance(result, Mapping):
        return result
    return {field: _shown_value(vocabulary, field, value) for field, value in result.items()}


def shown_name(names: Names, name: str) -> str:
    """How to show a name; as it is if the model does not know it."""
    return names.shown(names.id(name)) if name in names else name


def _shown_value(vocabulary: Vocabulary, field: str, value: Any) -> Any:
    if isinstance(value, str) and field in RULE_FIELDS:
        return _rule(vocabulary.relations, value)
    if isinstance(value, str) and field in NAME_FIELDS:
        return shown_name(_names(vocabulary, field, value), value)
    if field in (*LIST_FIELDS, "groups") and isinstance(value, list):
        inside = ((part, "name" if isinstance(part, str) else "names") for part in value)
        return [_shown_value(vocabulary, kind, part) for part, kind in inside]
    return shown(value, vocabulary)


def _rule(relations: Names, text: str) -> str:
    """A rule with its relations as a person should read them."""
    sides = [side.split(" ∧ ") for side in text.split(" ⇒ ")]
    return " ⇒ ".join(
        " ∧ ".join(shown_name(relations, atom[:-VARIABLES]) + atom[-VARIABLES:] for atom in side) for side in sides
    )


def _label(vocabulary: Vocabulary, field: str, name: str) -> str | None:
    if field in RULE_FIELDS:
        return _rule(vocabulary.relations, name)
    names = _names(vocabulary, field, name)
    return names.label(names.id(name)) if name in names else None


def _names(vocabulary: Vocabulary, field: str, name: str) -> Names:
    """The vocabulary of a name; the answers to a question may be relations."""
    return vocabulary.relations if field == "relation" or name not in vocabulary.entities else vocabulary.entities
