"""Number names as they are met, by their UTF-8 bytes: an open-addressing table of 64-bit slots.

A slot holds half of a name's hash and its number; the bytes decide. With millions of names every look at the table, at
the place of a name and at its bytes is a cache miss, so a tile of rows does each of the three looks together: loads
that do not wait for each other overlap.
"""

from __future__ import annotations

from os.path import commonprefix
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from ...arrays import Ids, Mask
from ..names import Names

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

_TILE = 256
_U1, _U2, _U3, _U4, _U5, _U6, _U7, _U8 = (np.uint64(number) for number in range(1, 9))
_B1, _B2, _B3, _B4, _B5, _B6, _B7 = (np.uint64(8 * number) for number in range(1, 8))
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits without a pattern (2⁶⁴ over the golden ratio)


class Spans:
    """Names as stretches of one array of bytes: name i is data[starts[i] : stops[i]]."""

    def __init__(self, data: Bytes, starts: Places, stops: Places):
        self.data, self.starts, self.stops = (_read_only(array) for array in (data, starts, stops))

    @classmethod
    def of(cls, column: pa.LargeStringArray) -> Spans:
        """The strings of a column, without a copy."""
        _, offsets, data = column.buffers()
        if not len(column):  # then there may be no buffers
            return cls(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
        edges = np.frombuffer(offsets, np.int64, len(column) + 1, 8 * column.offset)
        return cls(np.frombuffer(data or b"", np.uint8), edges[:-1], edges[1:])

    def first_empty(self) -> int | None:
        """The first that has no bytes."""
        empty = self.starts == self.stops
        return int(np.argmax(empty)) if empty.any() else None


class Interner:
    """Numbers 0, 1, 2 … for names in the order in which they are first met."""

    def __init__(self) -> None:
        self._n = 0
        self._slots: NDArray[np.uint64] = np.zeros(1 << 10, np.uint64)  # hash's lower half, number + 1; 0 where free
        self._offsets: Places = np.zeros(1 << 9, np.int64)  # of names in the pool
        self._pool: Bytes = np.empty(1 << 13, np.uint8)

    def __len__(self) -> int:
        return self._n

    def numbers(self, names: Spans) -> Ids:
        """The number of each name, (n,) int32."""
        self._make_room(len(names.starts), int((names.stops - names.starts).sum()))
        numbers = np.empty(len(names.starts), np.int32)
        arrays = (self._slots, self._offsets, self._pool)
        self._n = _intern(names.data, names.starts, names.stops, numbers, *arrays, self._n)
        return numbers

    def _make_room(self, n_names: int, n_bytes: int) -> None:
        """For so many more names, should all be new: at most half of the slots are taken."""
        names, text = self._n + n_names + 1, int(self._offsets[self._n]) + n_bytes
        if names > len(self._offsets):
            self._offsets = _grown(self._offsets, names)
        if text > len(self._pool):
            self._pool = _grown(self._pool, text)
        if 2 * names > len(self._slots):
            self._slots = np.zeros(1 << (2 * names - 1).bit_length(), np.uint64)
            _rehash(self._slots, self._offsets, self._pool, self._n)

    def spans(self, first: int = 0) -> Spans:
        """The names met, from a number on."""
        return Spans(self._pool, self._offsets[first : self._n], self._offsets[first + 1 : self._n + 1])

    def ranked(self, what: str, used: Mask | None = None) -> tuple[Names, Ids]:
        """The names (or the used ones) in the order of code points, and the place there of each number."""
        met = pa.LargeStringArray.from_buffers(
            self._n, pa.py_buffer(self._offsets[: self._n + 1]), pa.py_buffer(self._pool)
        )
        order = self._order(met)
        if used is not None:
            order = order[used[order]]
        rank = np.zeros(self._n, np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        ordered = met.take(pa.array(order))
        edges = np.frombuffer(ordered.buffers()[1], np.int64, len(ordered) + 1)
        text = np.frombuffer(ordered.buffers()[2] or b"", np.uint8)
        return Names.of_sorted(text[: edges[-1]].copy(), edges.copy(), what=what), rank

    def _order(self, met: pa.LargeStringArray) -> Ids:
        """The numbers in the order of their names, by bytes, which for UTF-8 is by code point.

        Eight bytes behind what all names share decide most comparisons; Arrow sorts the names that they do not.
        """
        ends = pc.min_max(met).as_py()
        shared = len(commonprefix([text.encode() for text in ends.values()])) if self._n else 0  # noqa: RUF071  # no paths
        keys = _keys(self._pool, self._offsets, self._n, shared)
        order: Ids = np.argsort(keys)
        keys = keys[order]
        tied = np.zeros(self._n, bool)
        tied[1:] = keys[1:] == keys[:-1]
        tied[:-1] |= tied[1:]
        among = order[tied]
        order[tied] = among[pc.sort_indices(met.take(pa.array(among))).to_numpy()]
        return order


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that nobody writes to, as Arrow's are: kernels are compiled for one kind of array only."""
    view = array.view()
    view.flags.writeable = False
    return view


def _grown(array: NDArray[Any], least: int) -> NDArray[Any]:
    wider = np.empty(max(least, 2 * len(array)), array.dtype)
    wider[: len(array)] = array
    return wider


# --- kernels. Places are unsigned, or Numba would look for negative ones, which count from the end.


@njit(inline="always")
def _word(data, at):  # type: ignore[no-untyped-def]
    """Eight bytes as one number; LLVM makes a single load of it."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + _U1]) << _B1
        | np.uint64(data[at + _U2]) << _B2
        | np.uint64(data[at + _U3]) << _B3
        | np.uint64(data[at + _U4]) << _B4
        | np.uint64(data[at + _U5]) << _B5
        | np.uint64(data[at + _U6]) << _B6
        | np.uint64(data[at + _U7]) << _B7
    )


@njit(inline="always")
def _hash(data, at, stop):  # type: ignore[no-untyped-def]
    h = (stop - at) * _MIX
    while at + _U8 <= stop:
        h = (h ^ _word(data, at)) * _MIX
        h ^= h >> _HALF
        at += _U8
    rest = np.uint64(0)
    while at < stop:
        rest = rest << _B1 | np.uint64(data[at])
        at += _U1
    h = (h ^ rest) * _MIX
    h ^= h >> _HALF
    return h * _MIX


@njit(inline="always")
def _same(data, at, stop, pool, there, end):  # type: ignore[no-untyped-def]
    if stop - at != end - there:
        return False
    while at + _U8 <= stop:
        if _word(data, at) != _word(pool, there):
            return False
        at += _U8
        there += _U8
    while at < stop:
        if data[at] != pool[there]:
            return False
        at += _U1
        there += _U1
    return True


@njit(inline="always")
def _home(h, n_slots):  # type: ignore[no-untyped-def]
    """The upper half of the hash chooses the slot, the lower half is kept in it."""
    return (h >> _HALF) * n_slots >> _HALF


@njit(nogil=True, cache=True)
def _keys(pool, offsets, n, skip):  # type: ignore[no-untyped-def]
    """Eight bytes of each name as a number that sorts as they do; a name that ends before is filled up with zeros."""
    keys = np.zeros(n, np.uint64)
    for number in range(n):
        start = offsets[number] + skip
        for at in range(start, min(start + 8, offsets[number + 1])):
            keys[number] |= np.uint64(pool[at]) << np.uint64(8 * (7 - (at - start)))
    return keys


@njit(nogil=True, cache=True)
def _rehash(slots, offsets, pool, n):  # type: ignore[no-untyped-def]
    """Fill empty slots with the names met."""
    n_slots = np.uint64(len(slots))
    for number in range(n):
        h = _hash(pool, np.uint64(offsets[number]), np.uint64(offsets[number + 1]))
        place = _home(h, n_slots)
        while slots[place] != 0:
            place = (place + _U1) & (n_slots - _U1)
        slots[place] = (h & _LOW) << _HALF | np.uint64(number + 1)


@njit(nogil=True, cache=True)
def _intern(data, starts, stops, numbers, slots, offsets, pool, n):  # type: ignore[no-untyped-def]
    """Write the number of each name; there is room for all of them. Returns how many names there are now."""
    n_slots = np.uint64(len(slots))
    hashes = np.empty(_TILE, np.uint64)
    near = np.empty(_TILE, np.uint64)
    touched = np.empty(_TILE, np.uint8)
    for low in range(0, len(numbers), _TILE):
        size = min(_TILE, len(numbers) - low)
        for j in range(size):
            hashes[j] = _hash(data, np.uint64(starts[low + j]), np.uint64(stops[low + j]))
        for j in range(size):
            near[j] = slots[_home(hashes[j], n_slots)] & _LOW
        for j in range(size):
            near[j] = np.uint64(offsets[max(near[j], _U1) - _U1])
        for j in range(size):
            touched[j] = pool[near[j]] if near[j] < np.uint64(len(pool)) else 0
        for j in range(size):
            h, at, stop = hashes[j], np.uint64(starts[low + j]), np.uint64(stops[low + j])
            place = _home(h, n_slots)
            while True:
                slot = slots[place]
                if slot == 0:
                    there = np.uint64(offsets[n])
                    for byte in range(stop - at):
                        pool[there + np.uint64(byte)] = data[at + np.uint64(byte)]
                    offsets[n + 1] = offsets[n] + np.int64(stop - at)
                    numbers[low + j] = n
                    n += 1
                    slots[place] = (h & _LOW) << _HALF | np.uint64(n)
                    break
                if slot >> _HALF == h & _LOW:
                    number = (slot & _LOW) - _U1
                    there, end = np.uint64(offsets[number]), np.uint64(offsets[number + _U1])
                    if _same(data, at, stop, pool, there, end):
                        numbers[low + j] = np.int32(number)
                        break
                place = (place + _U1) & (n_slots - _U1)
    return n
