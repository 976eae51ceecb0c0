"""Names of entities and relations, in the order of their ids."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Ids
from ..errors import DataError, UnknownNameError


class Names(Sequence[str]):
    """An immutable sequence of distinct names; a name's position is its id.

    `Names(5)` numbers things "0" … "4" without storing the strings.

    >>> names = Names(["Ann", "Bob"])
    >>> names[1], names.ids(["Bob", "Ann"]).tolist()
    ('Bob', [1, 0])
    """

    def __init__(self, names: Iterable[str] | int | np.integer[Any], *, what: str = "entity"):
        self.what = what
        self._names: tuple[str, ...] | range = range(names) if isinstance(names, (int, np.integer)) else tuple(names)
        if isinstance(self._names, tuple):
            self._check_strings(self._names)

    def _check_strings(self, names: tuple[str, ...]) -> None:
        if not all(issubclass(kind, str) for kind in set(map(type, names))):
            position, name = next((i, name) for i, name in enumerate(names) if not isinstance(name, str))
            raise DataError(f"{self.what} names must be strings, got {name!r} at position {position}")
        if len(set(names)) != len(names):  # the index takes three times as long, and is built when first asked
            seen: set[str] = set()
            twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise DataError(f"{self.what} names must be distinct, got {twice!r} more than once")

    @cached_property
    def _index(self) -> dict[str, int]:
        return dict(zip(self, range(len(self)), strict=True))

    @property
    def are_numbers(self) -> bool:
        """Whether nobody gave names, so that ids serve as names."""
        return isinstance(self._names, range)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return map(str, self._names)

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[str]: ...
    def __getitem__(self, position: int | slice) -> str | Sequence[str]:
        """The name of an id, or the names of a range of ids."""
        if isinstance(position, slice):
            return tuple(str(name) for name in self._names[position])
        return str(self._names[position])

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Names):
            return self._names == other._names or (len(self) == len(other) and all(a == b for a, b in zip(self, other)))  # noqa: B905
        if isinstance(other, Sequence) and not isinstance(other, str):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other))  # noqa: B905
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # compares equal to lists, which have no hash

    def __repr__(self) -> str:
        shown = ", ".join(repr(name) for name in self[:3])
        return f"Names([{shown}{', …' if len(self) > 3 else ''}], {len(self)} in all)"

    def id(self, name: str) -> int:
        """The id of one name."""
        found = self._index.get(name)
        if found is None:
            raise UnknownNameError(f"unknown {self.what} {name!r}{self._suggestion(name)}")
        return found

    def _suggestion(self, name: str) -> str:
        if len(self) > 200_000:  # difflib compares with every name
            return ""
        lowered = {known.lower(): known for known in self}
        near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
        return f"; did you mean {' or '.join(repr(lowered[n]) for n in near)}?" if near else ""

    def ids(self, values: ArrayLike | Iterable[str]) -> Ids:
        """Ids of names; numbers are taken as ids already, and checked."""
        array = np.asarray(values)
        if array.dtype.kind in "iu":
            self._check_range(array)
            return array.astype(np.int64, copy=False)
        if array.size == 0:
            return array.astype(np.int64)
        if array.dtype.kind not in "UOT":
            raise DataError(f"{self.what} must be given by name or whole number, got values of type {array.dtype}")
        return np.array([self._one(value) for value in array.ravel().tolist()], dtype=np.int64).reshape(array.shape)

    def _one(self, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            self._check_range(np.array(value))
            return value
        return self.id(value) if isinstance(value, str) else self.id(repr(value))

    def _check_range(self, ids: Ids) -> None:
        if ids.size and (ids.min() < 0 or ids.max() >= len(self)):
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise UnknownNameError(f"unknown {self.what} id {wrong}: ids run from 0 to {len(self) - 1}")

    def translate(self, other: Names) -> Ids:
        """For each name of `other` its id here, or −1 where it is not known."""
        if self == other:
            return np.arange(len(self))
        return np.array([self._index.get(name, -1) for name in other], dtype=np.int64)
