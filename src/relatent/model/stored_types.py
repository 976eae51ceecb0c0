"""The types of a model as tensors of its file, and back with every check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..data.type_sets import TypeSets
from ..tensor_file import RefusedFileError
from . import stored_names
from .entity_types import EntityTypes

Arrays = dict[str, NDArray[Any]]
TENSORS = (
    "type_names", "type_offsets", "entity_types", "entity_types_offsets", "role_types", "role_types_offsets",
)  # fmt: skip


def to_tensors(types: EntityTypes) -> Arrays:
    """Names of types, and type ids of each entity and of each place of a relation one after the other, with offsets."""
    matrices = {"entity_types": types.sets.members, "role_types": types.roles}
    arrays: Arrays = stored_names.to_tensors(types.names, "type")
    for name, matrix in matrices.items():
        arrays[name] = matrix.indices.astype("<i4")
        arrays[f"{name}_offsets"] = matrix.indptr.astype("<i8")
    return arrays


def from_tensors(arrays: Arrays, prefixes: Mapping[str, str]) -> EntityTypes | None:
    """The types, None if there are none; the shapes of the offsets of entities and roles have been checked."""
    found = [name for name in TENSORS if name in arrays]
    if not found:
        return None
    if len(found) < len(TENSORS) or not len(arrays["type_offsets"]):
        raise RefusedFileError("is damaged: a part of its types is missing; get a fresh copy")
    names = stored_names.from_tensors(arrays, "type", len(arrays["type_offsets"]) - 1, prefixes)
    members, roles = (_matrix(arrays, name, len(names)) for name in ("entity_types", "role_types"))
    return EntityTypes(TypeSets(names, members), roles)


def _matrix(arrays: Arrays, name: str, n_types: int) -> sp.csr_array:
    ids, offsets = arrays[name], arrays[f"{name}_offsets"]
    if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise RefusedFileError(f"is damaged: {name} do not fit their offsets; get a fresh copy")
    rising = np.diff(ids) > 0
    rising[offsets[(offsets > 0) & (offsets < len(ids))] - 1] = True  # a row may begin with any type
    if len(ids) and (ids.min() < 0 or ids.max() >= n_types or not rising.all()):
        raise RefusedFileError(f"is damaged: {name} must be rising ids below {n_types}; get a fresh copy")
    return sp.csr_array((np.ones(len(ids), bool), ids.astype(np.int64), offsets), shape=(len(offsets) - 1, n_types))
