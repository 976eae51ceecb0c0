"""Additive checksums of facts: the checksum of a set is the sum of those of its parts, however it is divided."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Triples, Vector

# multipliers and shifts of SplitMix64 (Steele, Lea & Flood 2014)
_MULTIPLIER_1, _MULTIPLIER_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
BLOCK_CELLS = 1 << 13  # hashed at once: the arrays fit the cache
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
        for low in range(0, len(cells), BLOCK_CELLS):
            here = slice(low, low + BLOCK_CELLS)
            total += _hash_sums(cells[here].T.astype(np.uint64), np.uint64(n_entities), cell_bits[:, here])
    return sums.reshape(-1)


def _hash_sums(cells: NDArray[np.uint64], n: np.uint64, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sums of two hashes of each cell and of its values, (m, cells) bits of float64 numbers."""
    s, k, o = cells
    numbers = (k * n + s) * n + o
    hashes = mixed(numbers + _MULTIPLIER_1), mixed(numbers + _SECOND_SEED)
    for bits in values:
        hashes = mixed(hashes[0] ^ bits), mixed(hashes[1] ^ bits)
    return np.array([cell_hashes.sum() for cell_hashes in hashes])


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number."""
    x = (x ^ (x >> _SHIFT_1)) * _MULTIPLIER_1
    x = (x ^ (x >> _SHIFT_2)) * _MULTIPLIER_2
    return x ^ (x >> _SHIFT_3)
