"""Names as evidence that two entities are the same.

Entities that are split in two keep one name, so how names of duplicates differ cannot be learned from them. As in
record linkage (Fellegi and Sunter, 1969), the odds of a pair are multiplied by P(level | duplicates) / P(agreement |
different entities). The first is a stated prior, LEVEL_SHARES, and learned from there. The second is the chance that
the name of another entity agrees as well, from the frequencies of the words: agreement in rare words is strong
evidence, agreement in words of many names is weak. Names agree if every word of the shorter one is found in the other,
whole, as an initial or with a letter changed; one word that is not found makes them different, whatever the rest,
because relatives, series and branches share words as well. Names in another style (CAPITALS; Vogel, Jürgen) are what
duplicates have and namesakes do not, unless many names of the kind are in that style.

The chance of a word is (r − D) / n, if r of the n names have it: absolute discounting with D = n₁ / (n₁ + 2 n₂)
(Ney, Essen and Kneser, 1994), with nᵣ words that r names have. Two names that are compared count as one, and so do
names that differ in case, accents, punctuation and order only: a graph with many duplicates does not count them as
evidence against each of them. Names are counted among the entities of one kind, those with a role in a relation:
that two entities are of one kind is evidence of the facts already.

Numbers and ids (42, Q42, person_18) say nothing about what they denote. Their pairs have the level "" and keep their
odds. A name is an id if each of its words has a digit, or if more than MAX_SERIES names with digits have its other
words.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Vector
from ..data.names import Names
from .duplicate_features import row_products

LEVELS = ("", "different", "similar", "initials", "contained", "equal")  # "": no names to compare
NONE, DIFFERENT, SIMILAR, INITIALS, CONTAINED, EQUAL = range(len(LEVELS))
LEVEL_SHARES = np.array([1.0, 0.2, 0.15, 0.1, 0.15, 0.4])  # prior: of duplicates with each level, from "different" on
PRIOR_PAIRS, ROUNDS = 10, 20  # duplicates that the prior of the levels counts as; of learning the shares of the data
NAMESAKES = 0.01  # prior: entities with a namesake that the frequencies of words do not explain, named after them
OTHER_STYLE = (
    0.5  # prior: of duplicates, those whose names are in other letters (CAPITALS) or another order (Vogel, Jo)
)
MIN_LETTERS = 5  # of a word that may be misspelt: a letter in fewer makes another word
MAX_SERIES = 3  # names that differ only in their numbers; more are ids
MAX_BEARERS = 20  # of a word: more are not compared with each other, unless their facts are alike

Words = frozenset[str]


class NameEvidence:
    """What the names of entities say about pairs of them; `kind` numbers the kind of each entity."""

    def __init__(self, entities: Names, kind: NDArray[np.int64]):
        texts = [entities.label(i) or entities[i] for i in range(len(entities))]
        listed = [_words(text) for text in texts]
        self.is_id, self.kind, self.n_of_kind = _ids(listed), kind, np.bincount(kind)
        self.style = np.array([4 * text.isupper() + 2 * text.islower() + ("," in text) for text in texts], np.int64)
        per_style = np.bincount(8 * kind + self.style, minlength=8 * len(self.n_of_kind)).reshape(-1, 8)
        n = np.maximum(self.n_of_kind, 1)
        self.other_style = 1 - ((per_style / n[:, None]) ** 2).sum(axis=1) + 1 / n  # of two names; one more may be
        parted = {"".join(own): frozenset(own) for own in sorted(listed, key=len)}  # The Wall and TheWall are one
        self.names = [parted["".join(own)] for own in listed]
        self.bearers: dict[str, list[Words]] = defaultdict(list)
        for name in {name for name, is_id in zip(self.names, self.is_id, strict=True) if not is_id}:
            for word in name:
                self.bearers[word].append(name)
        self.initials = Counter(word[0] for word, names in self.bearers.items() for _ in names)
        self.alike: dict[str, list[str]] = defaultdict(list)  # words by what they are without one letter
        for word in self.bearers:
            for key in _misspelt(word):
                self.alike[key].append(word)
        n_names = Counter(len(names) for names in self.bearers.values())
        self.discount = n_names[1] / (n_names[1] + 2 * n_names[2] + 1)

    def pairs(self) -> tuple[Ids, Ids]:
        """Pairs i < j whose names agree and have a rare word, or all words, in common.

        Time and memory are linear in the number of entities: those with one of MAX_BEARERS or fewer are compared.
        """
        groups: dict[str | Words, list[int]] = defaultdict(list)
        for i in np.flatnonzero(~self.is_id).tolist():
            groups[self.names[i]].append(i)
            for key in set(self._keys(self.names[i])):
                groups[key].append(i)
        found = {pair for group in groups.values() if len(group) <= MAX_BEARERS for pair in combinations(group, 2)}
        agree = [(i, j) for i, j in sorted(found) if self._compare(self.names[i], self.names[j])[0] > DIFFERENT]
        first, second = np.array(agree, np.int64).reshape(-1, 2).T
        return first, second

    def judged(self, i: Ids, j: Ids, p: Vector) -> tuple[NDArray[np.int64], Vector]:
        """The level of each pair, as an index of LEVELS, and its probability, given that by its facts.

        The shares of the levels that agree are learned by expectation maximisation, from their prior as from
        PRIOR_PAIRS duplicates. Names that agree never count against a pair, names that differ never for it.
        """
        keys = [list(self._keys(name)) for name in self.names]
        columns = np.unique([key for own in keys for key in own], return_inverse=True)[1]
        owner = np.repeat(np.arange(len(keys)), [len(own) for own in keys])
        table = sp.csr_matrix((np.ones(len(owner)), (owner, columns)), shape=(len(keys), columns.max(initial=0) + 1))
        named = ~(self.is_id[i] | self.is_id[j])
        levels = np.where(named, DIFFERENT, NONE)
        chances = np.ones(len(i))
        for row in np.flatnonzero(named & (row_products(table, table, i, j) > 0)).tolist():
            a, b = self.names[i[row]], self.names[j[row]]
            levels[row], expected = self._compare(a, b)
            if levels[row] > DIFFERENT:
                kind = min(self.kind[i[row]], self.kind[j[row]], key=lambda kind: self.n_of_kind[kind])
                n = self.n_of_kind[kind]
                chance = np.prod(np.minimum(np.array(expected) / n, 1)) + (self._others(a, b) + NAMESAKES) / n
                other = self.style[i[row]] != self.style[j[row]]
                chances[row] = chance * (min(1, self.other_style[kind] / OTHER_STYLE) if other else 1)
        agree, agreeing, shares = levels > DIFFERENT, np.arange(len(LEVELS)) > DIFFERENT, LEVEL_SHARES
        for _ in range(ROUNDS):
            ratios = shares[levels] / chances
            odds = p * np.where(agree, np.maximum(ratios, 1), ratios)
            judged = np.where(levels == NONE, p, odds / (odds + 1 - p))
            counts = agreeing * (PRIOR_PAIRS * LEVEL_SHARES + np.bincount(levels, judged, len(LEVELS)))
            shares = np.where(agreeing, counts * (1 - LEVEL_SHARES[DIFFERENT]) / counts.sum(), LEVEL_SHARES)
        return levels, judged

    def _compare(self, name: Words, other: Words) -> tuple[int, list[float]]:
        """The level of two names, and for each word of the shorter how many names are expected to agree with it."""
        a, b = sorted((name, other), key=_size)
        level, expected, left = EQUAL if len(a) == len(b) else CONTAINED, [], sorted(b - a)
        for word in sorted(a & b):
            expected.append(len(self.bearers[word]) - (a != b) - self.discount)
        for word in sorted(a - b):
            short = next((v for v in left if _is_initial(word, v) or _is_initial(v, word)), "")
            near = next((v for v in left if self._is_misspelt(word, v)), "")
            if short:
                level = min(level, INITIALS)
                expected.append(self.initials[word[0]] - 1 - self.discount)
            elif near:
                level = SIMILAR
                known = max(word, near, key=lambda v: len(self.bearers[v]))
                others = {v for key in _misspelt(known) for v in self.alike[key]} - {word, near}
                expected.append(sum(self._is_misspelt(known, v) for v in others) + 1 - self.discount)
            else:
                return DIFFERENT, []
            left.remove(short or near)
        return (level, expected) if any(len(word) > 1 for word in a) else (DIFFERENT, [])

    def _others(self, name: Words, other: Words) -> int:
        """Further names that agree with the shorter of two: Rock is in Dark Rock, and in Folk Rock."""
        a = min(name, other, key=_size)
        if name == other or not name & other:
            return 0
        group = min((self.bearers[word] for word in name & other), key=len)
        return sum(b not in (name, other) and self._compare(a, b)[0] > DIFFERENT for b in group)

    def _is_misspelt(self, word: str, other: str) -> bool:
        """Whether two words differ by a letter, or two in turn, and one is in no other name."""
        return (
            max(len(word), len(other)) >= MIN_LETTERS
            and min(len(self.bearers[word]), len(self.bearers[other])) == 1
            and not _misspelt(word).isdisjoint(_misspelt(other))
        )

    def _keys(self, name: Words) -> Iterator[str]:
        """What names have in common that agree in a word: the word, or what is left of it without one letter."""
        return (key for word in name for key in (word, *_misspelt(word)))


def _size(name: Words) -> tuple[int, int, list[str]]:
    return len(name), sum(map(len, name)), sorted(name)


def _is_initial(letter: str, word: str) -> bool:
    return len(letter) == 1 < len(word) and word[0] == letter and not set(word) <= set("ivx")  # Henry I, Henry IV


@cache
def _misspelt(word: str) -> frozenset[str]:
    """A word of letters, and all that is left of it without one letter."""
    if len(word) < MIN_LETTERS - 1 or not word.isalpha():
        return frozenset()
    return frozenset(["~" + word, *("~" + word[:at] + word[at + 1 :] for at in range(len(word)))])


def _words(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case and without accents; of an IRI those of its last part.

    Umlauts are the same if they are written as two letters, and abbreviations without their points.

    >>> _words("VOGEL, Jürgen K.G."), _words("http://example.org/Juergen_Vogel_KG")
    (('vogel', 'jurgen', 'kg'), ('jurgen', 'vogel', 'kg'))
    """
    if "://" in name:
        name = re.split("[/#]", name.rstrip("/#"))[-1]
    name = name.casefold()
    if not name.isascii():
        name = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    name = re.sub("([aou])e", r"\1", name)
    name = re.sub(r"\b([^\W\d_])[.]\s?(?=[^\W\d_]\b)", r"\1", name)  # k.g. and k. g.
    return tuple(re.findall(r"[^\W_]+", name))


def _ids(words: list[tuple[str, ...]]) -> Mask:
    """Which names are numbers, ids or members of a numbered series."""
    plain = [tuple(word for word in own if word.isalpha()) for own in words]
    series = Counter(left for left, own in zip(plain, words, strict=True) if len(left) < len(own))
    return np.array(
        [
            not left or (len(left) < len(own) and series[left] > MAX_SERIES)
            for left, own in zip(plain, words, strict=True)
        ],
        dtype=bool,
    )
