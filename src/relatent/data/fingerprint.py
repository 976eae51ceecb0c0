"""Checksums of facts that add up: those of a whole are the sums of those of its parts, however it is divided."""

from __future__ import annotations

import numpy as np
from numba import njit

_1, _2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # SplitMix64's (Steele, Lea & Flood 2014)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_OTHER = np.uint64(0x9E3779B97F4A7C15)  # makes a second, independent sum


@njit(inline="always")
def _mixed(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> _30)) * _1
    x = (x ^ (x >> _27)) * _2
    return x ^ (x >> _31)


@njit(nogil=True, cache=True)
def add_up(s, k, o, n, values, sums):  # type: ignore[no-untyped-def]
    """Add to two sums what each cell and its values, bits of (m, cells) numbers, mix to."""
    for c in range(len(s)):
        cell = (np.uint64(k[c]) * n + np.uint64(s[c])) * n + np.uint64(o[c])
        one, other = _mixed(cell + _1), _mixed(cell + _OTHER)
        for value in range(len(values)):
            one, other = _mixed(one ^ values[value, c]), _mixed(other ^ values[value, c])
        sums[0] += one
        sums[1] += other
