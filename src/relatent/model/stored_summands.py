"""The parts of a sum as a tensor and JSON of its file, and back with every check."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..json_values import record
from ..tensor_file import RefusedFileError, n_not_finite
from . import provenance
from .stored_terms import link_document, read_link, read_terms, term_document
from .summand import Summand

Arrays = dict[str, NDArray[Any]]
TENSOR = "summand_bias"  # (parts, K)
DAMAGED = "is damaged: a part of its sum cannot be read; get a fresh copy"


def to_tensors(summands: Sequence[Summand]) -> Arrays:
    """The bias of each part; nothing if the model is no sum."""
    return {TENSOR: np.array([part.bias for part in summands])} if summands else {}


def to_document(summands: Sequence[Summand]) -> list[dict[str, Any]]:
    """Everything else."""
    return [
        {
            "weight": part.weight,
            "link": link_document(part.link),
            "loss": term_document(part.loss),
            "penalty": term_document(part.penalty),
            "about": record(part.about),
        }
        for part in summands
    ]


def from_tensors(arrays: Arrays, document: Mapping[str, Any]) -> tuple[Summand, ...]:
    """The parts, none if the model is no sum; the shape of the tensor has been checked."""
    given, bias = document.get("summands", []), arrays.get(TENSOR, np.empty((0, 0)))
    if not isinstance(given, list) or len(given) != len(bias) or not all(map(_is_part, given)) or n_not_finite(bias):
        raise RefusedFileError(DAMAGED)
    n = bias.shape[1]
    return tuple(
        Summand(float(part["weight"]), own, read_link(part), provenance.read(part["about"], n), *read_terms(part))
        for part, own in zip(given, bias, strict=True)
    )


def _is_part(part: Any) -> bool:
    """Whether JSON values have what each part has."""
    kinds: dict[str, Any] = {"link": dict, "about": dict, "weight": (int, float)}
    if not isinstance(part, dict) or not all(isinstance(part.get(name), kind) for name, kind in kinds.items()):
        return False
    weight = part["weight"]
    return not isinstance(weight, bool) and 0 < weight < math.inf
