"""Search for names by a part of them, in milliseconds among a million names.

All names are stored in one byte string: folded (lower case, no accents) and separated by a byte that UTF-8 never uses.
A search is a few passes of `bytes.find` over it; Python strings are created only for the results.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

SEPARATOR = b"\xff"
MAX_SORTED_HITS = 1000  # if more names match, only the first so many of each kind of match are sorted
MAX_CANDIDATES = 200  # names per pattern that a misspelt name is compared with
WORD_SEPARATORS = (b" ", b"_", b"/", b"-", b"(")
MIN_SIMILARITY = 0.6  # of a name that is suggested for a misspelt one


class NameIndex:
    """Names by a part of them: exact matches first, then prefixes, then beginnings of words, then any part.

    Among equally good matches, names with a larger weight come first, then shorter ones.
    """

    def __init__(self, names: Sequence[str], weights: NDArray[np.int64] | None = None):
        folded = [fold(name).encode(errors="surrogatepass") for name in names]
        self.names, self.weights = names, weights
        self._text = SEPARATOR + SEPARATOR.join(folded) + SEPARATOR
        lengths = np.fromiter(map(len, folded), np.int64, len(folded))
        self._starts = np.concatenate([[1], 1 + np.cumsum(lengths + 1)[:-1]])  # offset of each name in the text

    def find(self, part: str, k: int) -> list[int]:
        """Ids of the k best names that contain the part, best first."""
        wanted = fold(part).encode(errors="surrogatepass")
        hits = self._hits(wanted, MAX_SORTED_HITS) if wanted else []
        if len(hits) < MAX_SORTED_HITS:  # complete
            return self._sorted(hits, wanted)[:k]
        found: dict[int, None] = {}
        for pattern in self._patterns(wanted):
            found |= dict.fromkeys(self._sorted(self._hits(pattern, MAX_SORTED_HITS), wanted))
            if len(found) >= k:
                break
        return list(found | dict.fromkeys(self._sorted(hits, wanted)))[:k]

    def close(self, name: str, k: int = 3) -> list[str]:
        """Names similar to a misspelt one."""
        wanted = fold(name)
        candidates: dict[int, None] = {}
        for prefix in _prefixes(wanted):
            candidates |= dict.fromkeys(self._hits(SEPARATOR + prefix.encode(errors="surrogatepass"), MAX_CANDIDATES))
        for word in sorted(wanted.split(), key=len, reverse=True)[:2]:
            candidates |= dict.fromkeys(self._hits(word.encode(errors="surrogatepass"), MAX_CANDIDATES))
        by_folded = {fold(self.names[i]): self.names[i] for i in candidates}
        return [by_folded[match] for match in difflib.get_close_matches(wanted, by_folded, k, MIN_SIMILARITY)]

    def _patterns(self, wanted: bytes) -> Iterator[bytes]:
        """Patterns for a part that many names contain: the whole name, prefixes, beginnings of words."""
        yield SEPARATOR + wanted + SEPARATOR
        yield SEPARATOR + wanted
        for separator in WORD_SEPARATORS:
            yield separator + wanted

    def _hits(self, pattern: bytes, max_hits: int) -> list[int]:
        """Ids of the first names that contain a pattern; a pattern that starts with SEPARATOR matches prefixes."""
        text, offsets = self._text, list[int]()
        skipped = int(pattern.startswith(SEPARATOR))
        offset = text.find(pattern)
        while offset >= 0 and len(offsets) < max_hits:
            offsets.append(offset + skipped)
            offset = text.find(pattern, max(offset + 1, text.find(SEPARATOR, offset + skipped)))  # next name
        ids = np.searchsorted(self._starts, np.array(offsets, np.int64), side="right") - 1
        return [int(i) for i in ids]

    def _sorted(self, ids: list[int], wanted: bytes) -> list[int]:
        """Ids by kind of match, then by weight, then by length."""
        return sorted(ids, key=lambda i: (self._kind(i, wanted), -self._weight(i), len(self.names[i]), i))

    def _kind(self, i: int, wanted: bytes) -> int:
        """0: equal, 1: prefix, 2: beginning of a word, 3: any part."""
        start = int(self._starts[i])
        name = self._text[start : self._text.find(SEPARATOR, start)]
        if name.startswith(wanted):
            return int(len(name) > len(wanted))
        return 2 if any(separator + wanted in name for separator in WORD_SEPARATORS) else 3

    def _weight(self, i: int) -> int:
        return 0 if self.weights is None else int(self.weights[i])


def fold(text: str) -> str:
    """The text in lower case, without accents."""
    text = text.strip()
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _prefixes(wanted: str) -> Iterator[str]:
    """Prefixes of a misspelt name; one of them is probably spelt right."""
    for share in (0.75, 0.5, 0.25):
        yield wanted[: max(1, int(share * len(wanted)))]
