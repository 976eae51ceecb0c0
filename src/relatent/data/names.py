"""The vocabulary: names of entities or relations in the order of their ids."""

from __future__ import annotations

import copy
import difflib
import hashlib
import re
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise, repeat
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Ids
from ..errors import DataError, UnknownNameError
from .labels import NO_LABELS, Labels

_MAX_NAMES_IN_DICT = 200_000  # above it, names stored as bytes get no dictionary, and unknown names no suggestion
_NAMES_PER_BLOCK = 1 << 16  # decoded at a time
_MAX_IDS_LISTED = 5  # of names that share a label
_MAX_SUGGESTIONS = 3  # for an unknown name
_MIN_PART_CHARACTERS = 3  # of an unknown name, to suggest names that contain it


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8, which halves of surrogate pairs cannot."""
    return text.isascii() or text.encode(errors="ignore").decode() == text


class Names(Sequence[str]):
    """An immutable sequence of distinct names; a name's position is its id.

    `Names(5)` are the names "0" … "4", without storing the strings.

    >>> names = Names(["Ann", "Bob"])
    >>> names[1], names.ids(["Bob", "Ann"]).tolist()
    ('Bob', [1, 0])
    """

    def __init__(self, names: Iterable[str] | int | np.integer[Any], *, what: str = "entity"):
        self.what = what
        self.labels: Labels = NO_LABELS
        self._names: tuple[str, ...] | range | _SortedBytes | _Extended
        if isinstance(names, (_SortedBytes, _Extended)):
            self._names = names
        elif isinstance(names, (int, np.integer)):
            self._names = range(names)
        else:
            self._names = tuple(names)
            self._check_strings(self._names)

    @classmethod
    def of_sorted(cls, text: NDArray[np.uint8], offsets: NDArray[np.int64], *, what: str = "entity") -> Names:
        """Names from UTF-8 text, distinct and sorted: name i is text[offsets[i]:offsets[i + 1]].

        The text is not copied, and strings are made on access: millions of names take a third of the memory of strings.
        """
        return cls(_SortedBytes(text, offsets), what=what)

    def extended(self, more: Sequence[str]) -> Names:
        """These names followed by new ones; the existing names are not copied."""
        added = Names(more, what=self.what)
        for name in added:
            if name in self:
                raise DataError(f"{self.what} names must be distinct, got {name!r} more than once")
        first, others = (self, ()) if not isinstance(self._names, _Extended) else (self._names.first, self._names.added)
        return Names(_Extended(first, (*others, *added)), what=self.what).with_labels(self.labels)

    def with_labels(self, labels: Labels | Mapping[str, str]) -> Names:
        """The same names with these labels; a mapping gives some of them by name, and may have other names as well."""
        found = copy.copy(self)
        if isinstance(labels, Mapping):
            before = chain(self.labels.texts, repeat(""))
            texts = [labels.get(name) or text for name, text in zip(self, before, strict=False)]
            found.labels = Labels(texts if any(texts) else (), self.labels.prefixes)
        else:
            found.labels = labels
        return found

    def with_labels_of(self, other: Names) -> Names:
        """The same names with the labels and prefixes of another vocabulary where they have none."""
        prefixes = {**other.labels.prefixes, **self.labels.prefixes}
        found = self.with_labels(Labels(self.labels.texts, prefixes))
        if not any(other.labels.texts):  # saves a walk through all names
            return found
        texts = dict(zip(other, other.labels.texts, strict=False))
        return found.with_labels(
            texts | {name: text for name, text in zip(self, self.labels.texts, strict=False) if text}
        )

    def label(self, i: int) -> str | None:
        """The label of an id, or the short form of an IRI; None if there is neither."""
        return self.labels.of(i, self[i])

    def shown(self, i: int) -> str:
        """How to show an id to a person: by its label, with its name as well if the label alone would be ambiguous."""
        name, label = self[i], self.label(i)
        if label is None:
            return name
        return f"{label} ({name})" if len(self.labels.ids(label)) > 1 or label in self else label

    def _check_strings(self, names: tuple[str, ...]) -> None:
        if not all(issubclass(kind, str) for kind in set(map(type, names))):
            position, name = next((i, name) for i, name in enumerate(names) if not isinstance(name, str))
            raise DataError(f"{self.what} names must be strings, got {name!r} at position {position}")
        if not all(map(is_utf8, names)):
            name = next(name for name in names if not is_utf8(name))
            raise DataError(f"{self.what} {name!r:.100} has characters that UTF-8 cannot encode")
        if len(set(names)) != len(names):  # building the dictionary would take three times as long
            seen: set[str] = set()
            twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise DataError(f"{self.what} names must be distinct, got {twice!r} more than once")

    @cached_property
    def _index(self) -> dict[str, int] | _SortedBytes | _Extended:
        if isinstance(self._names, _Extended) or (
            isinstance(self._names, _SortedBytes) and len(self) > _MAX_NAMES_IN_DICT
        ):
            return self._names
        return dict(zip(self, range(len(self)), strict=True))

    @property
    def are_numbers(self) -> bool:
        """Whether the names are just the ids as text."""
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
            if isinstance(self._names, _SortedBytes) and isinstance(other._names, _SortedBytes):
                return self._names.is_equal(other._names)
            return self._names == other._names or (len(self) == len(other) and all(a == b for a, b in zip(self, other)))  # noqa: B905
        if isinstance(other, Sequence) and not isinstance(other, str):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other))  # noqa: B905
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # compares equal to lists, which have no hash

    def __repr__(self) -> str:
        shown = ", ".join(repr(name) for name in self[:3])
        return f"Names([{shown}{', …' if len(self) > 3 else ''}], {len(self)} in all)"

    def id(self, name: str) -> int:
        """The id of one name, or of one label that no name equals."""
        found = self._index.get(name)
        if found is not None:
            return found
        ids = self.labels.ids(name)
        if len(ids) > 1:
            listed = ", ".join(self[i] for i in ids[:_MAX_IDS_LISTED]) + (", …" if len(ids) > _MAX_IDS_LISTED else "")
            raise UnknownNameError(
                f"{name!r} is the label of {len(ids)} {self.what} names: {listed}; give one of these"
            )
        found = ids[0] if ids else self._index.get(self.labels.expanded(name) or name)
        if found is None:
            raise UnknownNameError(f"unknown {self.what} {name!r}{self._suggestion(name)}")
        return found

    def name_of(self, text: str) -> str:
        """The name with this label, if the text is no name and one name has it; otherwise the text as it is."""
        if text in self:
            return text
        ids = self.labels.ids(text)
        found = ids[0] if len(ids) == 1 else self._index.get(self.labels.expanded(text) or text)
        return text if found is None else self[found]

    def _suggestion(self, name: str) -> str:
        if len(self) > _MAX_NAMES_IN_DICT:  # difflib compares with every name
            return ""
        local = {re.split(r"[#/:]", known)[-1].lower(): known for known in self if "://" in known}
        lowered = local | {known.lower(): known for known in chain(self, filter(None, self.labels.texts))}
        wanted = name.strip().lower()
        near = difflib.get_close_matches(wanted, lowered, n=_MAX_SUGGESTIONS, cutoff=0.6)
        if len(wanted) >= _MIN_PART_CHARACTERS:  # a part of a name, such as the code in "Ann Lee (P0782)"
            near = sorted((known for known in lowered if wanted in known), key=len) + near
        suggested = list(dict.fromkeys(lowered[known] for known in near))[:_MAX_SUGGESTIONS]
        return f"; did you mean {' or '.join(map(repr, suggested))}?" if suggested else ""

    def ids(self, values: ArrayLike | Iterable[str]) -> Ids:
        """Ids of names; numbers are taken as ids and checked."""
        is_text = isinstance(values, str) or (
            isinstance(values, (list, tuple)) and isinstance(next(iter(values), 0), str)
        )
        array = np.asarray(values, dtype=object if is_text else None)  # NumPy's strings lose final null characters
        if array.dtype.kind in "iu":
            self._check_range(array)
            return array.astype(np.int64, copy=False)
        if array.size == 0:
            return array.astype(np.int64)
        if array.dtype.kind not in "UOT":
            raise DataError(f"{self.what} must be given by name or whole number, got values of type {array.dtype}")
        found = self._bulk_ids(array.ravel().tolist())
        if found is None:
            found = np.array([self._id_of(value) for value in array.ravel().tolist()], dtype=np.int64)
        return found.reshape(array.shape)

    def _bulk_ids(self, values: list[object]) -> Ids | None:
        """Ids of many names by one hash join; None if single lookups are faster or a name is unknown."""
        if not isinstance(self._index, _SortedBytes) or len(values) < len(self) // 100:
            return None
        names = [value for value in values if isinstance(value, str)]
        if len(names) < len(values):
            return None
        found = self._index.positions(names)
        return None if (found < 0).any() else found

    def _id_of(self, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            self._check_range(np.array(value))
            return value
        return self.id(value) if isinstance(value, str) else self.id(repr(value))

    def _check_range(self, ids: Ids) -> None:
        if ids.size and (ids.min() < 0 or ids.max() >= len(self)):
            wrong = ids.min() if ids.min() < 0 else ids.max()
            hint = f"; write '{wrong}' for the {self.what} of that name" if str(wrong) in self else ""
            raise UnknownNameError(f"unknown {self.what} id {wrong}: ids run from 0 to {len(self) - 1}{hint}")

    def digest(self) -> str:
        """A hash of all names."""
        if isinstance(self._names, range):
            return f"{len(self)} numbers"
        text, offsets = self.encoded()
        return hashlib.sha256(np.diff(offsets).tobytes() + hashlib.sha256(text.data).digest()).hexdigest()

    def encoded(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All names as UTF-8 text and offsets: name i is text[offsets[i]:offsets[i + 1]]."""
        if isinstance(self._names, _SortedBytes):
            return self._names.text, self._names.offsets
        names = [name.encode(errors="surrogatepass") for name in self]
        return np.frombuffer(b"".join(names), np.uint8), np.cumsum([0, *map(len, names)], dtype=np.int64)

    def translate(self, other: Names) -> Ids:
        """For each name of `other` its id here, or −1 if it is unknown."""
        if self == other:
            return np.arange(len(self))
        if isinstance(self._names, _Extended):
            ids = self._names.first.translate(other)
            for position in np.flatnonzero(ids < 0).tolist():
                ids[position] = self._names.positions_of_added.get(other[position], -1)
            return ids
        if isinstance(self._index, _SortedBytes):
            return self._index.positions(other)
        return np.array([self._index.get(name, -1) for name in other], dtype=np.int64)


class _LazyStrings(Sequence[str]):
    """Distinct strings that are made, or looked up, on access."""

    @abstractmethod
    def at(self, i: int) -> str:
        """The string at a valid position."""

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[str]: ...
    def __getitem__(self, position: int | slice) -> str | Sequence[str]:
        if isinstance(position, slice):
            return tuple(self.at(i) for i in range(*position.indices(len(self))))
        return self.at(range(len(self))[position])

    @abstractmethod
    def position(self, name: str) -> int | None:
        """The position of a string; None if it is not here."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.position(name) is not None

    @overload
    def get(self, name: str) -> int | None: ...
    @overload
    def get(self, name: str, default: int) -> int: ...
    def get(self, name: str, default: int | None = None) -> int | None:
        """The position of a name or `default`, like dict.get."""
        found = self.position(name)
        return default if found is None else found


class _SortedBytes(_LazyStrings):
    """Distinct strings in the order of their code points, stored as UTF-8 bytes and offsets."""

    def __init__(self, text: NDArray[np.uint8], offsets: NDArray[np.int64]):
        self.text, self.offsets = text, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def at(self, i: int) -> str:
        return self.text[self.offsets[i] : self.offsets[i + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _NAMES_PER_BLOCK):
            edges = self.offsets[first : first + _NAMES_PER_BLOCK + 1]
            text = self.text[edges[0] : edges[-1]].tobytes()
            ranges = pairwise((edges - edges[0]).tolist())
            if text.isascii():  # slices of one string: twice as fast
                decoded = text.decode("ascii")
                yield from [decoded[start:stop] for start, stop in ranges]
            else:
                yield from [text[start:stop].decode() for start, stop in ranges]

    def position(self, name: str) -> int | None:
        found = bisect_left(self, name)
        return found if found < len(self) and self.at(found) == name else None

    def positions(self, names: Iterable[str]) -> Ids:
        """The position of each name, −1 if it is not here."""
        import pyarrow as pa
        import pyarrow.compute as pc

        stored = names._names if isinstance(names, Names) else names
        if isinstance(stored, _SortedBytes):
            wanted = stored.arrow()
        else:
            wanted = pa.array(map(_encodable, names), pa.large_string())
        found: Ids = pc.index_in(wanted, value_set=self.arrow()).fill_null(-1).to_numpy().astype(np.int64)
        return found

    def arrow(self) -> Any:
        """The strings as an Arrow array, without a copy."""
        import pyarrow as pa

        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(self.offsets), pa.py_buffer(self.text))

    def is_equal(self, other: _SortedBytes) -> bool:
        """Whether both hold the same strings."""
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.text, other.text)


class _Extended(_LazyStrings):
    """Names followed by a few added ones."""

    def __init__(self, first: Names, added: tuple[str, ...]):
        self.first, self.added = first, added
        self.positions_of_added = {name: len(first) + i for i, name in enumerate(added)}

    def __len__(self) -> int:
        return len(self.first) + len(self.added)

    def at(self, i: int) -> str:
        return self.first[i] if i < len(self.first) else self.added[i - len(self.first)]

    def __iter__(self) -> Iterator[str]:
        return chain(self.first, self.added)

    def position(self, name: str) -> int | None:
        found = self.positions_of_added.get(name)
        return self.first._index.get(name) if found is None else found


def _encodable(name: str) -> str | None:
    """The name; None if UTF-8 cannot encode it, so that it cannot be among names stored as bytes."""
    return name if name.isascii() or name.encode(errors="ignore").decode() == name else None
