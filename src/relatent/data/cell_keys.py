"""Cells (subject, relation, object) as single integers, whose order is that of (relation, subject, object)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Triples

_KEYS_PER_BLOCK = 1 << 20  # converted at a time


def cell_keys(cells: Triples, n_entities: int) -> NDArray[np.int64]:
    """The key of each cell: (relation · N + subject) · N + object."""
    s, k, o = np.asarray(cells).T
    keys: NDArray[np.int64] = k.astype(np.int64)
    for ids in (s, o):  # in place: temporary arrays of tens of millions of facts take too much memory
        keys *= n_entities
        keys += ids.astype(np.int64, copy=False)
    return keys


def cells_of(keys: Ids, n_entities: int) -> Triples:
    """The cells (subject, relation, object) with these keys, (n, 3) int32, column-major."""
    cells = np.empty((len(keys), 3), np.int32, order="F")
    for low in range(0, len(keys), _KEYS_PER_BLOCK):
        block = slice(low, low + _KEYS_PER_BLOCK)
        relation_and_subject = keys[block] // n_entities  # twice as fast as np.divmod
        cells[block, 2] = keys[block] - relation_and_subject * n_entities
        cells[block, 1] = relation_and_subject // n_entities
        cells[block, 0] = relation_and_subject - cells[block, 1].astype(np.int64) * n_entities
    return cells


def sorted_unique(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distinct keys in order; sorting is ten times faster than np.unique of NumPy 2.4 on millions of keys."""
    ordered = np.sort(keys)
    return ordered[is_first(ordered)]


def is_first(ordered: NDArray[np.int64]) -> Mask:
    """Which of the sorted keys differ from the one before."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def is_in_sorted(keys: NDArray[np.int64], ordered: NDArray[np.int64]) -> Mask:
    """Which keys occur among the sorted ones."""
    if not len(ordered):
        return np.zeros(len(keys), bool)
    position = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    found: Mask = ordered[position] == keys
    return found
