"""The attributes of a model as tensors and JSON of its file, and back with every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.attribute_table import DATE, MAX_NUMBER, NUMBER, WORDS, AttributeColumns
from ..tensor_file import RefusedFileError, checked, n_not_finite
from .entity_attributes import EntityAttributes, n_features

Arrays = dict[str, NDArray[Any]]
TENSORS = ("attribute_weights", "attribute_precision")


def to_tensors(attributes: EntityAttributes) -> Arrays:
    """The weights and the precision."""
    arrays = (attributes.weights, attributes.precision)
    return {name: np.ascontiguousarray(array) for name, array in zip(TENSORS, arrays, strict=True)}


def to_document(attributes: EntityAttributes) -> list[dict[str, Any]]:
    """The columns of each attribute as JSON values."""
    return [asdict(column) for column in attributes.columns]


def columns_of(document: Mapping[str, Any]) -> tuple[AttributeColumns, ...]:
    """The columns of each attribute; none if the model has no attributes."""
    columns: tuple[AttributeColumns, ...] = checked(
        tuple[AttributeColumns, ...], document.get("attributes", []), "attributes"
    )
    if not all(map(_is_possible, columns)):
        raise RefusedFileError("is damaged: its attributes cannot be read; get a fresh copy")
    return columns


def _is_possible(column: AttributeColumns) -> bool:
    """Whether columns can hold values: bins between numbers, or distinct words."""
    return (
        column.kind in (NUMBER, DATE, WORDS)
        and all(abs(edge) <= MAX_NUMBER for edge in column.edges)
        and _is_rising(column.edges)
        and _is_rising(column.words)
        and 0 < column.width < 2**31
    )


def _is_rising(values: Sequence[Any]) -> bool:
    return list(values) == sorted(set(values))


def shapes(document: Mapping[str, Any], rank: int) -> dict[str, tuple[int, ...]]:
    """The shapes that the tensors must have."""
    return dict(zip(TENSORS, ((n_features(columns_of(document)), rank), (rank, rank)), strict=True))


def from_tensors(arrays: Arrays, document: Mapping[str, Any]) -> EntityAttributes | None:
    """The attributes, None if there are none; the shapes have been checked."""
    columns, found = columns_of(document), [arrays[name] for name in TENSORS if name in arrays]
    if not columns and not found:
        return None
    if not columns or len(found) < len(TENSORS) or any(map(n_not_finite, found)):
        raise RefusedFileError("is damaged: a part of its attributes is missing or not finite; get a fresh copy")
    return EntityAttributes(columns, *found)
