"""The training facts of a model as tensors of its file, and back with every check.

Cells are sorted numbers; what is written is how far each is from the one before, in as many bytes of seven bits as it
takes (LEB128): 2 to 4 bytes per fact, and no more facts than bytes can come out of a file. They are checked when a file
is read, and decoded when somebody asks for the facts (`StoredFacts`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..data.array_checks import check_size
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


class StoredFacts:
    """The facts of a file, in which no fault can be found any more."""

    def __init__(
        self, arrays: Arrays, entities: Names, relations: Names, types: TypeSets | None, undirected: frozenset[int]
    ):
        self._arrays, self._names, self._types, self._undirected = arrays, (entities, relations), types, undirected
        n = len(entities)
        try:
            check_size(n, len(relations))
            count_packed(arrays["facts"], n**2 * len(relations))
            if set(arrays) & {*TENSORS} != {"facts"} or undirected:  # faults may show when it is put together
                _ = self.facts
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise RefusedFileError(DAMAGED) from error

    @cached_property
    def facts(self) -> Facts:
        """They are decoded when asked for: a model of many facts answers questions that need none of them."""
        arrays, (entities, relations) = self._arrays, self._names
        n, n_cells = len(entities), len(entities) ** 2 * len(relations)
        cells = cells_of(unpacked(arrays["facts"], n_cells), n)
        if set(arrays) & {*TENSORS} == {"facts"} and not self._undirected:
            return Facts(cells, entities, relations, types=self._types)
        facts = Facts.from_ids(
            cells,
            entities,
            relations,
            weights=arrays.get("fact_weights"),
            times=arrays.get("fact_times"),
            unobserved=cells_of(unpacked(arrays.get("unobserved", np.empty(0, np.uint8)), n_cells), n),
            attributes=_matrix(arrays, n),
            types=self._types,
            undirected=self._undirected,
        )
        return facts if "attribute_values" not in arrays else _with_values(facts, arrays["attribute_values"])


def from_tensors(
    arrays: Arrays, entities: Names, relations: Names, types: TypeSets | None, undirected: frozenset[int] = frozenset()
) -> StoredFacts | None:
    """The facts, None if there are none."""
    own = {name: array for name, array in arrays.items() if name in TENSORS}
    if own and "facts" not in own:
        raise RefusedFileError(DAMAGED)
    return StoredFacts(own, entities, relations, types, undirected) if own else None


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


def count_packed(blob: NDArray[np.uint8], limit: int) -> int:
    """How many rising numbers below a limit some bytes are; RefusedFileError if they are none."""
    count = _read(blob, limit, np.empty(0, np.int64))
    if count < 0:
        raise RefusedFileError(DAMAGED)
    return int(count)


def unpacked(blob: NDArray[np.uint8], limit: int) -> NDArray[np.int64]:
    """Rising numbers below a limit from their bytes; RefusedFileError if they are not."""
    found = np.empty(count_packed(blob, limit), np.int64)
    _read(blob, limit, found)
    return found


@njit(cache=True, nogil=True)
def _read(blob, limit, numbers):  # type: ignore[no-untyped-def]
    """Write numbers where there is room for them; their count, or −1 if a number is too long or reaches the limit."""
    before, gap, shift, count = np.int64(-1), np.int64(0), 0, 0
    for i in range(len(blob)):
        byte = np.int64(blob[i])
        gap |= (byte & 127) << shift
        if byte >= 128:
            shift += 7
            if shift == 63:  # 9 bytes of 7 bits
                return -1
            continue
        if gap >= limit - 1 - before:
            return -1
        before += gap + 1
        if count < len(numbers):
            numbers[count] = before
        gap, shift, count = np.int64(0), 0, count + 1
    return count if shift == 0 else -1
