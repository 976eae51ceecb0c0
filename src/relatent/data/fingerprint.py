"""Additive checksums of facts: the checksum of a set is the sum of those of its parts, however it is divided."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Triples, Vector

# multipliers and shifts of SplitMix64 (Steele, Lea & Flood 2014)
_MULTIPLIER_1, _MULTIPLIER_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_SECOND_SEED = np.uint64(0x9E3779B97F4A7C15)  # starts a second, independent sum


def checksums(
    triples: Triples, unobserved: Triples, n_entities: int, weights: Vector | None, times: Vector | None
) -> NDArray[np.uint64]:
    """Two sums over the facts, with their weights and counts, and two over the unobserved cells, (4,)."""
    sums = np.zeros((2, 2), np.uint64)
    given = [values for values in (weights, times) if values is not None]
    bits = np.empty((len(given), len(triples)), np.uint64)
    for row, values in enumerate(given):
        bits[row] = np.ascontiguousarray(values).view(np.uint64) + np.uint64(values is times)
    for cells, cell_bits, total in ((triples, bits, sums[0]), (unobserved, bits[:0], sums[1])):
        s, k, o = (np.ascontiguousarray(column) for column in cells.T)
        _add_hashes(s, k, o, np.uint64(n_entities), cell_bits, total)
    return sums.reshape(-1)


@njit(inline="always")
def _mix(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> _SHIFT_1)) * _MULTIPLIER_1
    x = (x ^ (x >> _SHIFT_2)) * _MULTIPLIER_2
    return x ^ (x >> _SHIFT_3)


@njit(nogil=True, cache=True)
def _add_hashes(s, k, o, n, values, sums):  # type: ignore[no-untyped-def]
    """Add two hashes of each cell and of its values, (m, cells) bits of float64 numbers, to two sums."""
    for c in range(len(s)):
        cell = (np.uint64(k[c]) * n + np.uint64(s[c])) * n + np.uint64(o[c])
        first, second = _mix(cell + _MULTIPLIER_1), _mix(cell + _SECOND_SEED)
        for value in range(len(values)):
            first, second = _mix(first ^ values[value, c]), _mix(second ^ values[value, c])
        sums[0] += first
        sums[1] += second
