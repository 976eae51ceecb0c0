"""Labels in results: beside the names in JSON documents, and in place of the names in what a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..data.names import Names
from ..model.factors import Factors

ENTITY_FIELDS = ("subject", "object", "name", "other", "into", "neighbour", "entity", "partner", "alternative")
LIST_FIELDS = ("subjects", "objects", "names", "members", "examples")


def add_labels(document: Any, factors: Factors) -> Any:
    """A JSON document with a field such as "subject_label" beside each name, null where there is no label.

    The document itself if the model has no labels.
    """
    labels = (factors.entities.labels, factors.relations.labels)
    if not any(found.texts or found.prefixes for found in labels):
        return document
    if isinstance(document, list):
        return [add_labels(part, factors) for part in document]
    if not isinstance(document, Mapping):
        return document
    found: dict[str, Any] = {}
    for field, value in document.items():
        found[field] = add_labels(value, factors)
        if isinstance(value, str) and (field in ENTITY_FIELDS or field == "relation"):
            found[f"{field}_label"] = _label(factors, field, value)
        elif field in LIST_FIELDS and isinstance(value, list) and all(isinstance(name, str) for name in value):
            found[f"{field}_labels"] = [_label(factors, field, name) for name in value]
    return found


def shown(result: Any, factors: Factors) -> Any:
    """A copy of named tuples, lists and mappings in which names are as a person should read them."""
    if hasattr(result, "_asdict"):
        return result._replace(**shown(result._asdict(), factors))
    if isinstance(result, (list, tuple)):
        return [shown(part, factors) for part in result]
    if not isinstance(result, Mapping):
        return result
    return {field: _shown_value(factors, field, value) for field, value in result.items()}


def shown_name(names: Names, name: str) -> str:
    """How to show a name; as it is if the model does not know it."""
    return names.shown(names.id(name)) if name in names else name


def _shown_value(factors: Factors, field: str, value: Any) -> Any:
    if isinstance(value, str) and (field in ENTITY_FIELDS or field == "relation"):
        return shown_name(_names(factors, field, value), value)
    if field in LIST_FIELDS and isinstance(value, list):
        return [_shown_value(factors, "name", name) for name in value]
    return shown(value, factors)


def _label(factors: Factors, field: str, name: str) -> str | None:
    names = _names(factors, field, name)
    return names.label(names.id(name)) if name in names else None


def _names(factors: Factors, field: str, name: str) -> Names:
    """The vocabulary of a name; the answers to a question may be relations."""
    return factors.relations if field == "relation" or name not in factors.entities else factors.entities
