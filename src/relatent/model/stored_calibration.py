"""The calibration of a model as tensors and JSON of its file, and back with every check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor_file import RefusedFileError
from .calibration import Calibration

Arrays = dict[str, NDArray[Any]]
FIELDS = ("scores", "values", "shifts", "one_answer", "base_rates", "masked")
TENSORS = tuple(f"calibration_{name}" for name in FIELDS)
NUMBERS = ("unobserved", "missing", "heldout_facts", "expected")


def to_tensors(calibration: Calibration) -> Arrays:
    """Knots, shifts and rates; unused places of knots are NaN."""
    arrays = {}
    for name, tensor in zip(FIELDS, TENSORS, strict=True):
        values = getattr(calibration, name)
        arrays[tensor] = np.ascontiguousarray(values, np.uint8 if name == "one_answer" else "<f8")
    return arrays


def to_document(calibration: Calibration) -> dict[str, Any]:
    """What it assumes, as JSON values."""
    return {**{name: getattr(calibration, name) for name in NUMBERS}, "is_assumed": calibration.is_assumed}


def from_tensors(arrays: Arrays, document: Mapping[str, Any], n_relations: int) -> Calibration | None:
    """The calibration, None if there is none."""
    given, found = document.get("calibration"), [arrays[name] for name in TENSORS if name in arrays]
    if given is None and not found:
        return None
    try:
        if not isinstance(given, dict) or len(found) < len(TENSORS):
            raise ValueError("incomplete")
        numbers: dict[str, Any] = {name: given[name] for name in NUMBERS}
        if not all(type(value) in (int, float) and abs(value) < 1e18 for value in numbers.values()):
            raise ValueError("numbers")
        if found[1].ndim != 2 or not isinstance(given["is_assumed"], bool):
            raise ValueError("shape")
        if len(found[1]) != n_relations:
            raise ValueError(f"it is of {len(found[1])} relations, the model has {n_relations}")
        columns: dict[str, Any] = dict(zip(FIELDS, found, strict=True))
        columns["one_answer"] = columns["one_answer"] > 0
        return Calibration(**columns, **numbers, is_assumed=given["is_assumed"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise RefusedFileError(f"is damaged: its calibration cannot be read: {error}; get a fresh copy") from error
