"""Names as evidence that two entities are the same.

Entities that are split in two keep one name, so how names of duplicates differ cannot be learned from them. As in
record linkage (Fellegi and Sunter, 1969), the names of a pair are compared into a few levels, and the odds of the pair
are multiplied by P(level | duplicates) / P(level | different entities). The first probability is an assumption, the
second is counted among the candidate pairs of the data, nearly all of which are different entities: where similar
names are common, similarity counts for nothing.

Numbers and ids (42, Q42, person_18) say nothing about what they denote. Their pairs have the level "" and keep their
odds. A name is an id if each of its words has a digit, or if more than MAX_SERIES names with digits have its other
words. A name within many others (Rock in Dark Rock, Folk Rock, Rock Ballad) is a word of theirs, not a short form.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Vector
from ..data.names import Names

LEVELS = ("", "different", "similar", "contained", "equal")  # "": no names to compare
NONE, DIFFERENT, SIMILAR, CONTAINED, EQUAL = range(len(LEVELS))
DUPLICATE_SHARES = np.array([0.2, 0.2, 0.25, 0.35])  # of duplicates with each level, from "different" on; assumed
MAX_RATIO = 10_000.0  # of odds: names that nobody else has may still be homonyms
MAX_EDITS = 2  # between similar names: characters added, left out or changed
MAX_EDIT_SHARE = 0.2  # of the characters of the longer name
MAX_CHARACTERS = 64  # of a name that are compared
MAX_SERIES = 3  # names that differ only in their numbers; more are ids
MAX_LONGER_NAMES = 2  # that contain a name as its longer forms
MAX_NAMESAKES = 20  # entities of one name, or of one word, that are compared with each other

Levels = NDArray[np.int64]


class ComparedNames(NamedTuple):
    """The names of all entities, in the form in which they are compared."""

    words: list[tuple[str, ...]]  # in the order of the name
    is_id: Mask  # (N,)
    starts: Ids  # (N + 1,) into `characters`
    characters: Ids  # of the words of all names


class NamePairs(NamedTuple):
    """Pairs of entities i < j whose names are equal, or whose words contain those of the other."""

    i: Ids
    j: Ids
    level: Levels


def compared_names(entities: Names) -> ComparedNames:
    """Words of the labels, or of the names of entities without one."""
    words = [_words(entities.label(i) or entities[i]) for i in range(len(entities))]
    texts = ["".join(own)[:MAX_CHARACTERS] for own in words]
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    characters = np.array([ord(character) for text in texts for character in text], dtype=np.int64)
    return ComparedNames(words, _ids(words), starts, characters)


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


def pairs_by_name(names: ComparedNames) -> NamePairs:
    """Pairs with equal names, or with a name that is contained in few others.

    Time and memory are linear in the number of entities: names are grouped by their words, and compared with those
    that have their rarest word.
    """
    sets = [frozenset(own) for own in names.words]
    namesakes, with_word = defaultdict(list), defaultdict(list)
    named = np.flatnonzero(~names.is_id).tolist()
    for i in named:
        namesakes[sets[i]].append(i)
        for word in sets[i]:
            with_word[word].append(i)
    found = {
        pair: EQUAL for group in namesakes.values() if len(group) <= MAX_NAMESAKES for pair in combinations(group, 2)
    }
    for i in named:
        group = min((with_word[word] for word in sets[i]), key=len)
        longer = [j for j in group if sets[i] < sets[j]] if len(group) <= MAX_NAMESAKES else []
        if len(longer) <= MAX_LONGER_NAMES:
            found |= {(min(i, j), max(i, j)): CONTAINED for j in longer}
    table = np.array([(*pair, level) for pair, level in sorted(found.items())], dtype=np.int64).reshape(-1, 3)
    return NamePairs(*table.T)


def name_levels(names: ComparedNames, by_name: NamePairs, i: Ids, j: Ids) -> Levels:
    """How well the names of each pair agree, as an index of LEVELS."""
    similar = np.zeros(len(i), np.bool_)
    _compare(i, j, names.starts, names.characters, similar)
    levels = np.where(similar, SIMILAR, DIFFERENT)
    n = len(names.words)
    key = i * np.int64(n) + j
    _, at, among = np.intersect1d(key, by_name.i * np.int64(n) + by_name.j, return_indices=True)
    levels[at] = by_name.level[among]
    levels[names.is_id[i] | names.is_id[j]] = NONE
    return levels


@njit(cache=True, nogil=True)
def _compare(i: Ids, j: Ids, starts: Ids, characters: Ids, similar: Mask) -> None:
    """Fill in whether the edit distance of two names is small."""
    for p in range(len(i)):
        a, b = characters[starts[i[p]] : starts[i[p] + 1]], characters[starts[j[p]] : starts[j[p] + 1]]
        max_edits = min(MAX_EDITS, int(MAX_EDIT_SHARE * max(len(a), len(b))))
        if abs(len(a) - len(b)) > max_edits:
            continue
        row = np.arange(len(b) + 1)
        for x in range(len(a)):
            diagonal, row[0] = row[0], x + 1
            for y in range(len(b)):
                changed = diagonal + (a[x] != b[y])
                diagonal = row[y + 1]
                row[y + 1] = min(changed, diagonal + 1, row[y] + 1)
        similar[p] = row[len(b)] <= max_edits


def log_name_ratios(levels: Levels, p: Vector) -> Vector:
    """What to add to the log-odds of each pair, given the probabilities p of the pairs without names.

    Names that agree never count against a pair, names that differ never for it.
    """
    counts = np.bincount(levels, weights=1 - p, minlength=len(LEVELS))[DIFFERENT:] + 1
    ratios = DUPLICATE_SHARES / (counts / counts.sum())
    ratios = np.concatenate([[1.0, min(ratios[0], 1.0)], np.clip(ratios[1:], 1.0, MAX_RATIO)])
    return np.log(ratios)[levels]  # type: ignore[no-any-return]
