"""Ids for strings in the order in which they are first seen: an open-addressing hash table of UTF-8 bytes.

Each 64-bit slot holds half of a string's hash and its id; the bytes decide equality. With millions of strings every
access to the slots, the offsets and the bytes is a cache miss, so the kernel makes each kind of access for a tile of
rows at once: loads that do not depend on each other overlap.
"""

from __future__ import annotations

from os.path import commonprefix
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ...arrays import Ids, Mask, read_only
from ..names import Names

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]

_TILE_ROWS = 256
_U1, _U8 = np.uint64(1), np.uint64(8)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio: odd, bits without a pattern


class Spans:
    """Strings as ranges of one byte array: string i is data[starts[i] : stops[i]]."""

    def __init__(self, data: Bytes, starts: Offsets, stops: Offsets):
        self.data, self.starts, self.stops = (read_only(array) for array in (data, starts, stops))

    @classmethod
    def of(cls, column: pa.LargeStringArray) -> Spans:
        """The strings of an Arrow column, without a copy."""
        _, offsets, data = column.buffers()
        if not len(column):  # an empty column may have no buffers
            return cls(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))
        edges = np.frombuffer(offsets, np.int64, len(column) + 1, 8 * column.offset)
        return cls(np.frombuffer(data or b"", np.uint8), edges[:-1], edges[1:])

    @classmethod
    def repeated(cls, name: str, n: int) -> Spans:
        """The same string n times."""
        data = np.frombuffer(name.encode(), np.uint8)
        return cls(data, np.zeros(n, np.int64), np.full(n, len(data), np.int64))

    def where(self, kept: Mask) -> Spans:
        """The strings that are kept."""
        return Spans(self.data, self.starts[kept], self.stops[kept])

    def stripped(self) -> tuple[Spans, int]:
        """The strings without ASCII blanks around them, and the number of strings that had any."""
        count = _count_blank_ends(self.data, self.starts, self.stops)
        if not count:
            return self, 0
        starts, stops = self.starts.copy(), self.stops.copy()
        _strip(self.data, starts, stops)
        return Spans(self.data, starts, stops), int(count)


class StringTable:
    """Gives strings the ids 0, 1, 2 … in the order in which they are first seen."""

    def __init__(self) -> None:
        self._n = 0
        self._slots: NDArray[np.uint64] = np.zeros(1 << 10, np.uint64)  # lower half of the hash, id + 1; 0 if free
        self._offsets: Offsets = np.zeros(1 << 9, np.int64)  # of the strings in the pool
        self._pool: Bytes = np.empty(1 << 13, np.uint8)

    def __len__(self) -> int:
        return self._n

    def ids(self, strings: Spans) -> Ids:
        """The id of each string, (n,) int32; new strings are added."""
        self._reserve(len(strings.starts), int((strings.stops - strings.starts).sum()))
        ids = np.empty(len(strings.starts), np.int32)
        table = (self._slots, self._offsets, self._pool)
        self._n = _intern(strings.data, strings.starts, strings.stops, ids, *table, self._n)
        return ids

    def _reserve(self, n_strings: int, n_bytes: int) -> None:
        """Make space for this many more strings, should all be new; at most half of the slots are used."""
        n_offsets, pool_bytes = self._n + n_strings + 1, int(self._offsets[self._n]) + n_bytes
        if n_offsets > len(self._offsets):
            self._offsets = _grown(self._offsets, n_offsets)
        if pool_bytes > len(self._pool):
            self._pool = _grown(self._pool, pool_bytes)
        if 2 * n_offsets > len(self._slots):
            self._slots = np.zeros(1 << (2 * n_offsets - 1).bit_length(), np.uint64)
            _rehash(self._slots, self._offsets, self._pool, self._n)

    def strings(self, first: int = 0) -> pa.LargeStringArray:
        """The strings with ids from `first` on."""
        offsets = pa.py_buffer(self._offsets[first : self._n + 1])
        return pa.LargeStringArray.from_buffers(self._n - first, offsets, pa.py_buffer(self._pool))

    def sorted_names(self, what: str, used: Mask | None = None) -> tuple[Names, Ids]:
        """The strings (or the used ones) in the order of code points, and the position there of each id."""
        strings = self.strings()
        order = self._order(strings)
        if used is not None:
            order = order[used[order]]
        rank = np.zeros(self._n, np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        ordered = strings.take(pa.array(order))
        edges = np.frombuffer(ordered.buffers()[1], np.int64, len(ordered) + 1)
        text = np.frombuffer(ordered.buffers()[2] or b"", np.uint8)
        return Names.of_sorted(text[: edges[-1]].copy(), edges.copy(), what=what), rank

    def _order(self, strings: pa.LargeStringArray) -> Ids:
        """The ids in the order of their strings, by bytes, which for UTF-8 is the order of code points.

        The eight bytes after the common prefix decide most comparisons; Arrow sorts the strings that they leave tied.
        """
        ends = pc.min_max(strings).as_py()
        prefix = len(commonprefix([text.encode() for text in ends.values()])) if self._n else 0  # noqa: RUF071  # no paths
        keys = _sort_keys(self._pool, self._offsets[: self._n] + prefix, self._offsets[1 : self._n + 1])
        order: Ids = np.argsort(keys)
        keys = keys[order]
        tied = np.zeros(self._n, bool)
        tied[1:] = keys[1:] == keys[:-1]
        tied[:-1] |= tied[1:]
        tied_ids = order[tied]
        order[tied] = tied_ids[pc.sort_indices(strings.take(pa.array(tied_ids))).to_numpy()]
        return order


def _sort_keys(pool: Bytes, starts: Offsets, stops: Offsets) -> NDArray[np.uint64]:
    """The first eight bytes of each string as an integer that sorts like them, padded with zero bytes."""
    keys = np.zeros(len(starts), np.uint64)
    for place in range(8):
        keys <<= _U8
        inside = np.flatnonzero(starts + place < stops)
        keys[inside] |= pool[starts[inside] + place]
    return keys


def _grown(array: NDArray[Any], min_length: int) -> NDArray[Any]:
    longer = np.empty(max(min_length, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer


# --- kernels. Indices are unsigned: for signed ones Numba adds code for negative indices.


@njit(inline="always")
def _is_ascii_blank(character):  # type: ignore[no-untyped-def]
    return character == 32 or 9 <= character <= 13


@njit(nogil=True, cache=True)
def _count_blank_ends(data, starts, stops):  # type: ignore[no-untyped-def]
    """Number of strings that begin or end with a blank."""
    count = 0
    for i in range(len(starts)):
        if starts[i] < stops[i]:
            count += _is_ascii_blank(data[starts[i]]) or _is_ascii_blank(data[stops[i] - 1])
    return count


@njit(nogil=True, cache=True)
def _strip(data, starts, stops):  # type: ignore[no-untyped-def]
    """Move the ends of strings over blanks."""
    for i in range(len(starts)):
        while starts[i] < stops[i] and _is_ascii_blank(data[starts[i]]):
            starts[i] += 1
        while starts[i] < stops[i] and _is_ascii_blank(data[stops[i] - 1]):
            stops[i] -= 1


@intrinsic
def _word(_, data, at):  # type: ignore[no-untyped-def]
    """Eight bytes as one integer, by a single load."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.uint64), generate


@njit(inline="always")
def _hash(data, at, stop):  # type: ignore[no-untyped-def]
    h = (stop - at) * _MULTIPLIER
    while at + _U8 <= stop:
        h = (h ^ _word(data, at)) * _MULTIPLIER  # type: ignore[call-arg]
        h ^= h >> _HALF
        at += _U8
    tail = np.uint64(0)
    while at < stop:
        tail = tail << _U8 | np.uint64(data[at])
        at += _U1
    h = (h ^ tail) * _MULTIPLIER
    h ^= h >> _HALF
    return h * _MULTIPLIER


@njit(inline="always")
def _is_equal(data, at, stop, pool, there, end):  # type: ignore[no-untyped-def]
    if stop - at != end - there:
        return False
    while at + _U8 <= stop:
        if _word(data, at) != _word(pool, there):  # type: ignore[call-arg]
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
def _first_slot(h, n_slots):  # type: ignore[no-untyped-def]
    """Where the search begins: the upper half of the hash chooses the slot, the lower half is stored in it."""
    return (h >> _HALF) * n_slots >> _HALF


@njit(nogil=True, cache=True)
def _rehash(slots, offsets, pool, n):  # type: ignore[no-untyped-def]
    """Enter all strings into empty slots."""
    n_slots = np.uint64(len(slots))
    for number in range(n):
        h = _hash(pool, np.uint64(offsets[number]), np.uint64(offsets[number + 1]))
        slot_index = _first_slot(h, n_slots)
        while slots[slot_index] != 0:
            slot_index = (slot_index + _U1) & (n_slots - _U1)
        slots[slot_index] = (h & _LOW_HALF) << _HALF | np.uint64(number + 1)


@njit(nogil=True, cache=True)
def _intern(data, starts, stops, ids, slots, offsets, pool, n):  # type: ignore[no-untyped-def]
    """Write the id of each string; the arrays have space for all of them. Returns the new number of strings."""
    n_slots = np.uint64(len(slots))
    hashes = np.empty(_TILE_ROWS, np.uint64)
    near = np.empty(_TILE_ROWS, np.uint64)
    touched = np.empty(_TILE_ROWS, np.uint8)
    for low in range(0, len(ids), _TILE_ROWS):
        size = min(_TILE_ROWS, len(ids) - low)
        for j in range(size):
            hashes[j] = _hash(data, np.uint64(starts[low + j]), np.uint64(stops[low + j]))
        for j in range(size):
            near[j] = slots[_first_slot(hashes[j], n_slots)] & _LOW_HALF
        for j in range(size):
            near[j] = np.uint64(offsets[max(near[j], _U1) - _U1])
        for j in range(size):
            touched[j] = pool[near[j]] if near[j] < np.uint64(len(pool)) else 0
        for j in range(size):
            h, at, stop = hashes[j], np.uint64(starts[low + j]), np.uint64(stops[low + j])
            slot_index = _first_slot(h, n_slots)
            while True:
                slot = slots[slot_index]
                if slot == 0:
                    there = np.uint64(offsets[n])
                    for byte in range(stop - at):
                        pool[there + np.uint64(byte)] = data[at + np.uint64(byte)]
                    offsets[n + 1] = offsets[n] + np.int64(stop - at)
                    ids[low + j] = n
                    n += 1
                    slots[slot_index] = (h & _LOW_HALF) << _HALF | np.uint64(n)
                    break
                if slot >> _HALF == h & _LOW_HALF:
                    number = (slot & _LOW_HALF) - _U1
                    there, end = np.uint64(offsets[number]), np.uint64(offsets[number + _U1])
                    if _is_equal(data, at, stop, pool, there, end):
                        ids[low + j] = np.int32(number)
                        break
                slot_index = (slot_index + _U1) & (n_slots - _U1)
    return n
