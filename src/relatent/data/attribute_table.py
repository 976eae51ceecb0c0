"""Attributes of entities as they were read, by name, and as columns of zeros and ones.

Numbers and dates become quantile bins, words become one column each, or share columns by a hash if there are many. Bins
rather than standardised numbers, because a linear map of bins is any function of the number.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Matrix, Vector
from .names import Names

N_BINS = 8
MAX_WORD_COLUMNS = 128  # of an attribute; more different words share columns
MAX_COLUMNS = 1024  # of all attributes; those with the fewest values are left out
MIN_VALUES = 2  # entities with a value, for an attribute to be used
MAX_NUMBER = 1e290  # the sum of any number of values is finite
MISSING = {"", "-", "?", "na", "n/a", "nan", "null", "none"}
NUMBER, DATE, WORDS = "number", "date", "words"
_DATE = re.compile(r"(-?\d{4,18})-(\d\d)(?:-(\d\d))?(?:[T ].*|Z|[+-]\d\d:\d\d)?")


@dataclass(frozen=True)
class AttributeColumns:
    """The columns of one attribute: bins between edges, one per word, or `n_hashed` that words share."""

    name: str
    kind: str  # "number", "date" (in years) or "words"
    edges: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    n_hashed: int = 0

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.n_hashed or len(self.words) or len(self.edges) + 1

    def encoded(self, texts: Sequence[str]) -> Vector | None:
        """The columns of an entity with these values; None if a value cannot be understood."""
        row = np.zeros(self.width)
        if self.kind == WORDS:
            places = (self._place(word) for text in texts for word in words_of(text))
            row[[place for place in places if place is not None]] = 1
            return row
        numbers = [(number_of if self.kind == NUMBER else year_of)(text) for text in texts]
        known = [number for number in numbers if number is not None]
        if not known:
            return None
        row[np.searchsorted(self.edges, np.mean(known), side="right")] = 1
        return row

    def _place(self, word: str) -> int | None:
        if self.n_hashed:
            return zlib.crc32(word.encode()) % self.n_hashed
        at = bisect_left(self.words, word)
        return at if at < len(self.words) and self.words[at] == word else None


@dataclass(frozen=True, eq=False, repr=False)
class AttributeTable:
    """Values of attributes by the names of entities. An entity without a value is unobserved, not zero.

    >>> table = AttributeTable.of({"Ann": {"age": 30}, "Bob": {"age": 50}})
    >>> [columns.kind for columns in table.columns(Names(["Ann", "Bob", "Cid"]))]
    ['number']
    """

    values: Mapping[str, Mapping[str, tuple[str, ...]]]  # attribute → entity → values
    _columns: list[tuple[Names, list[AttributeColumns]]] = field(default_factory=list)  # those of the last vocabulary

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[str, str, str]]) -> AttributeTable:
        """The table of (entity, attribute, value); an entity may have several values."""
        found: dict[str, dict[str, list[str]]] = {}
        for entity, attribute, text in rows:
            if (text := text.strip()).lower() not in MISSING:
                found.setdefault(attribute, {}).setdefault(entity, []).append(text)
        return cls({name: {entity: tuple(texts) for entity, texts in values.items()} for name, values in found.items()})

    @classmethod
    def of(cls, values: Mapping[str, Mapping[str, Any]]) -> AttributeTable:
        """The table of {entity: {attribute: value or list of values}}; None is an unknown value."""
        return cls.of_rows(
            (entity, str(attribute), str(value))
            for entity, given in values.items()
            for attribute, several in given.items()
            for value in (several if isinstance(several, (list, tuple, set)) else (several,))
            if value is not None
        )

    @classmethod
    def union(cls, tables: Sequence[AttributeTable]) -> AttributeTable:
        """All values; of an entity that several tables know, those of the first."""
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for table in tables:
            for attribute, values in table.values.items():
                found[attribute] = {**values, **found.get(attribute, {})}
        return cls(found)

    def by_names_of(self, entities: Names) -> AttributeTable:
        """The same values; an entity that is given by its label, or by a short IRI, by its name."""
        named = {entity: entities.name_of(entity) for entity in self.entities}
        if all(name == entity for entity, name in named.items()):
            return self
        return AttributeTable.of_rows(
            (named[entity], attribute, text)
            for attribute, values in self.values.items()
            for entity, several in values.items()
            for text in several
        )

    @property
    def entities(self) -> set[str]:
        """The names of the entities with a value."""
        return {entity for values in self.values.values() for entity in values}

    def columns(self, entities: Names) -> list[AttributeColumns]:
        """The columns for these entities; those whose values do not differ are left out."""
        if not self._columns or self._columns[0][0] is not entities:
            self._columns[:] = [(entities, self._learned_columns(entities))]
        return self._columns[0][1]

    def _learned_columns(self, entities: Names) -> list[AttributeColumns]:
        known = {
            name: {entity: texts for entity, texts in values.items() if entity in entities}
            for name, values in sorted(self.values.items())
        }
        by_size = sorted(known, key=lambda name: -len(known[name]))
        found: dict[str, AttributeColumns] = {}
        n_free = MAX_COLUMNS
        for name in by_size:
            learned = _learned(name, known[name]) if len(known[name]) >= MIN_VALUES else None
            if learned is not None and learned.width <= n_free:
                found[name] = learned
                n_free -= learned.width
        return [found[name] for name in known if name in found]

    def encoded(self, columns: Sequence[AttributeColumns], entities: Sequence[str] | Names) -> Matrix:
        """The values of these columns, (N, M): 0 or 1, NaN where unobserved."""
        matrix = np.full((len(entities), sum(column.width for column in columns)), np.nan)
        place = {name: i for i, name in enumerate(entities)}
        begin = 0
        for column in columns:
            for entity, texts in self.values.get(column.name, {}).items():
                if entity in place and (row := column.encoded(texts)) is not None:
                    matrix[place[entity], begin : begin + column.width] = row
            begin += column.width
        return matrix

    def encoded_for(self, entities: Names) -> Matrix | None:
        """The values of the columns for these entities; None if there are no columns."""
        columns = self.columns(entities)
        return self.encoded(columns, entities) if columns else None


def _learned(name: str, values: Mapping[str, tuple[str, ...]]) -> AttributeColumns | None:
    """The columns of an attribute; None if all its entities have the same value."""
    texts = [text for several in values.values() for text in several]
    for kind, parse in ((NUMBER, number_of), (DATE, year_of)):
        if all(parse(text) is not None for text in texts):
            parsed = ([float(parse(text) or 0.0) for text in several] for several in values.values())
            numbers = np.sort([np.mean(several) for several in parsed])
            edges = np.unique(numbers[np.arange(1, N_BINS) * len(numbers) // N_BINS])
            edges = edges[edges > numbers[0]]
            return AttributeColumns(name, kind, edges=tuple(edges.tolist())) if len(edges) else None
    counts: dict[str, int] = {}
    for several in values.values():
        for word in {word for text in several for word in words_of(text)}:
            counts[word] = counts.get(word, 0) + 1
    words = sorted(word for word, count in counts.items() if MIN_VALUES <= count < len(values))
    if len(words) > MAX_WORD_COLUMNS:
        return AttributeColumns(name, WORDS, n_hashed=MAX_WORD_COLUMNS)
    return AttributeColumns(name, WORDS, words=tuple(words)) if words else None


def number_of(text: str) -> float | None:
    """The number that a text is, of which a mean can be taken; None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < MAX_NUMBER else None


def year_of(text: str) -> float | None:
    """The time of a date, such as 1984-05-30 or 1984-05-30T12:00:00Z, in years; None if it is no date."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, month, day = int(found[1]), int(found[2]), int(found[3] or 1)
    return year + (month - 1) / 12 + (day - 1) / 372 if 1 <= month <= 12 and 1 <= day <= 31 else None


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return re.findall(r"\w+", text.lower())
