"""Finding names by a part of them, among a million in milliseconds.

All names stand in one run of bytes, folded (lower case, no accents) and divided by a byte that UTF-8 never has. A
search is a few passes of `bytes.find` over it: no string is made but for what is found.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..data.names import Names

DIVIDER = b"\xff"
LOOKED_AT = 1000  # hits of a kind that are put in order; of more, the first so many
WORDS_BEGIN_AFTER = (b" ", b"_", b"/", b"-", b"(")
CLOSE = 0.5  # how alike a name must be to be what was meant


class Finder:
    """Names by a part of them: equal ones first, then those that begin with it, then words, then anywhere.

    `weights`: of equally good ones, those with more come first, then the shorter.
    """

    def __init__(self, names: Names, weights: NDArray[np.int64] | None = None):
        folded = [fold(name).encode(errors="surrogatepass") for name in names]
        self.names, self.weights = names, weights
        self._text = DIVIDER + DIVIDER.join(folded) + DIVIDER
        lengths = np.fromiter(map(len, folded), np.int64, len(folded))
        self._starts = np.concatenate([[1], 1 + np.cumsum(lengths + 1)[:-1]])  # of each name in the text

    def find(self, part: str, limit: int) -> list[int]:
        """Ids of the names that hold a part, the best first."""
        wanted = fold(part).encode(errors="surrogatepass")
        if not wanted:
            return []
        found: dict[int, None] = {}
        for pattern, skipped in self._patterns(wanted):
            hits = self._hits(pattern, skipped)
            found |= dict.fromkeys(self._ordered([i for i in hits if i not in found]))
            if len(found) >= limit:
                break
        return list(found)[:limit]

    def close(self, name: str, limit: int = 3) -> list[str]:
        """Names that somebody who typed a wrong one may have meant."""
        wanted = fold(name)
        candidates: dict[int, None] = {}
        for part in _parts(wanted):
            candidates |= dict.fromkeys(self.find(part, LOOKED_AT))
            if len(candidates) >= LOOKED_AT:
                break
        lowered = {fold(self.names[i]): self.names[i] for i in list(candidates)[:LOOKED_AT]}
        return [lowered[one] for one in difflib.get_close_matches(wanted, lowered, limit, CLOSE)]

    def _patterns(self, wanted: bytes) -> Iterator[tuple[bytes, int]]:
        """What to look for, the best kind of hit first, and how many bytes stand before the name's own."""
        yield DIVIDER + wanted + DIVIDER, 1
        yield DIVIDER + wanted, 1
        for sign in WORDS_BEGIN_AFTER:
            yield sign + wanted, 0
        yield wanted, 0

    def _hits(self, pattern: bytes, skipped: int) -> list[int]:
        """Ids of the first names that hold a pattern."""
        text, places = self._text, list[int]()
        at = text.find(pattern)
        while at >= 0 and len(places) < LOOKED_AT:
            places.append(at + skipped)
            at = text.find(pattern, max(at + 1, text.find(DIVIDER, at + skipped)))  # on with the next name
        ids = np.searchsorted(self._starts, np.array(places, np.int64), side="right") - 1
        return [int(i) for i in ids]

    def _ordered(self, ids: list[int]) -> list[int]:
        def key(i: int) -> tuple[int, int, int]:
            weight = 0 if self.weights is None else int(self.weights[i])
            return -weight, len(self.names[i]), i

        return sorted(ids, key=key)


def fold(text: str) -> str:
    """The text without case and accents."""
    text = text.strip()
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def _parts(wanted: str) -> Iterator[str]:
    """Pieces of a misspelt name of which one is probably right: its beginnings, its end, its words."""
    yield from sorted((word for word in wanted.split() if len(word) > 2), key=len, reverse=True)[:4]
    for share in (0.75, 0.5, 0.25):
        yield wanted[: max(1, int(share * len(wanted)))]
    yield wanted[len(wanted) // 2 :]
