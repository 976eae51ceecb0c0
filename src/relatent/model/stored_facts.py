"""The training facts of a model as tensors of its file, and back with every check.

Cells are sorted numbers; what is written is how far each is from the one before, in as many bytes of seven bits as it
takes (LEB128): 2 to 4 bytes per fact, and no more facts than bytes can come out of a file.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.attribute_table import AttributeTable
from ..data.cell_keys import cell_keys, cells_of
from ..data.facts import Facts
from ..data.names import Names
from ..data.type_sets import TypeSets
from ..data.undirected import one_direction
from ..json_values import parse_json
from ..tensor_file import RefusedFileError

Arrays = dict[str, NDArray[Any]]
TENSORS = ("facts", "unobserved", "fact_weights", "fact_times", "attribute_matrix", "attribute_values")
BYTES_PER_BLOCK = 1 << 22  # decoded at a time
BITS, MORE = 7, 128
MAX_BYTES = 9  # of a number below 2⁶³
DAMAGED = "is damaged: its facts cannot be read; get a fresh copy"


def to_tensors(facts: Facts) -> Arrays:
    """Facts, unobserved cells, weights, counts and attributes, without what there is none of; pairs once."""
    arrays: Arrays = {"facts": packed(facts.keys[facts.once])}
    if len(facts.unobserved):
        unobserved = facts.unobserved[one_direction(facts.unobserved, facts.undirected)]
        arrays["unobserved"] = packed(cell_keys(unobserved, facts.n_entities))
    for name, values in (("fact_weights", facts.weights), ("fact_times", facts.times)):
        if values is not None:
            arrays[name] = np.ascontiguousarray(values[facts.once], "<f8")
    if facts.attribute_table is not None:
        text = json.dumps(facts.attribute_table.values, ensure_ascii=False)
        arrays["attribute_values"] = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    elif facts.attributes is not None:
        arrays["attribute_matrix"] = np.ascontiguousarray(facts.attributes, "<f8").ravel()
    return arrays


def from_tensors(
    arrays: Arrays, entities: Names, relations: Names, types: TypeSets | None, undirected: frozenset[int] = frozenset()
) -> Facts | None:
    """The facts, None if there are none."""
    if "facts" not in arrays:
        if set(TENSORS) & set(arrays):
            raise RefusedFileError(DAMAGED)
        return None
    n, n_cells = len(entities), len(entities) ** 2 * len(relations)
    try:
        keys = unpacked(arrays["facts"], n_cells)
        unobserved = unpacked(arrays.get("unobserved", np.empty(0, np.uint8)), n_cells)
        facts = Facts.from_ids(
            cells_of(keys, n),
            entities,
            relations,
            weights=arrays.get("fact_weights"),
            times=arrays.get("fact_times"),
            unobserved=cells_of(unobserved, n),
            attributes=_matrix(arrays, n),
            types=types,
            undirected=undirected,
        )
        return facts if "attribute_values" not in arrays else _with_values(facts, arrays["attribute_values"])
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise RefusedFileError(DAMAGED) from error


def _matrix(arrays: Arrays, n: int) -> NDArray[Any] | None:
    if "attribute_matrix" not in arrays:
        return None
    return arrays["attribute_matrix"].reshape(n, -1)


def _with_values(facts: Facts, blob: NDArray[np.uint8]) -> Facts:
    values = parse_json(blob.tobytes().decode("utf-8", "surrogatepass"))
    rows = (
        (entity, attribute, text)
        for attribute, by_entity in values.items()
        for entity, texts in by_entity.items()
        for text in texts
    )
    table = AttributeTable.of_rows(rows)
    return replace(facts, attributes=table.encoded_for(facts.entities), attribute_table=table)


def packed(keys: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Rising numbers as bytes."""
    gaps = np.diff(keys, prepend=np.int64(-1)) - 1
    n_bytes = np.ones(len(gaps), np.int64)
    for i in range(1, MAX_BYTES):
        n_bytes += gaps >> (BITS * i) > 0
    ends = np.cumsum(n_bytes)
    starts = ends - n_bytes
    found = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for i in range(int(n_bytes.max(initial=0))):
        has = n_bytes > i
        byte = (gaps[has] >> (BITS * i)) & (MORE - 1)
        found[starts[has] + i] = byte | np.where(n_bytes[has] > i + 1, MORE, 0)
    return found


def unpacked(blob: NDArray[np.uint8], limit: int) -> NDArray[np.int64]:
    """Rising numbers below a limit from their bytes; RefusedFileError if they are not."""
    if len(blob) and blob[-1] >= MORE:
        raise RefusedFileError(DAMAGED)
    parts, low, before = [], 0, -1
    while low < len(blob):
        high = min(low + BYTES_PER_BLOCK, len(blob))
        while blob[high - 1] >= MORE:
            high += 1
        gaps = _gaps(blob[low:high])
        if gaps.max() >= limit or float(gaps.sum(dtype=np.float64)) + before > limit:
            raise RefusedFileError(DAMAGED)
        numbers = before + np.cumsum(gaps + 1)
        before = int(numbers[-1])
        parts.append(numbers)
        low = high
    if before >= limit:
        raise RefusedFileError(DAMAGED)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _gaps(blob: NDArray[np.uint8]) -> NDArray[np.int64]:
    ends = np.flatnonzero(blob < MORE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    n_bytes = ends - starts + 1
    if n_bytes.max() > MAX_BYTES:
        raise RefusedFileError(DAMAGED)
    gaps = (blob[starts] & (MORE - 1)).astype(np.int64)
    for i in range(1, int(n_bytes.max())):
        has = n_bytes > i
        gaps[has] |= (blob[starts[has] + i] & (MORE - 1)).astype(np.int64) << (BITS * i)
    found: NDArray[np.int64] = gaps
    return found
