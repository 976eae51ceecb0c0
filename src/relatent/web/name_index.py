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
LOOKED_AT = 1000  # hits that are put in order; of more, the first so many of each kind
ALIKE = 200  # names of each kind that a misspelt one is compared with
WORDS_BEGIN_AFTER = (b" ", b"_", b"/", b"-", b"(")
CLOSE = 0.6  # how alike a name must be to be what was meant


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
        anywhere = self._hits(wanted, LOOKED_AT) if wanted else []
        if len(anywhere) < LOOKED_AT:  # these are all
            return self._ordered(anywhere, wanted)[:limit]
        found: dict[int, None] = {}
        for pattern in self._patterns(wanted):
            found |= dict.fromkeys(self._ordered(self._hits(pattern, LOOKED_AT), wanted))
            if len(found) >= limit:
                break
        return list(found | dict.fromkeys(self._ordered(anywhere, wanted)))[:limit]

    def close(self, name: str, limit: int = 3) -> list[str]:
        """Names that somebody who typed a wrong one may have meant."""
        wanted = fold(name)
        candidates: dict[int, None] = {}
        for pattern in _pieces(wanted):
            candidates |= dict.fromkeys(self._hits(pattern.encode(errors="surrogatepass"), ALIKE, at_start=True))
        for word in sorted(wanted.split(), key=len, reverse=True)[:2]:
            candidates |= dict.fromkeys(self._hits(word.encode(errors="surrogatepass"), ALIKE))
        lowered = {fold(self.names[i]): self.names[i] for i in candidates}
        return [lowered[one] for one in difflib.get_close_matches(wanted, lowered, limit, CLOSE)]

    def _patterns(self, wanted: bytes) -> Iterator[bytes]:
        """What to look for where a part is common: the name itself, beginnings, words."""
        yield DIVIDER + wanted + DIVIDER
        yield DIVIDER + wanted
        for sign in WORDS_BEGIN_AFTER:
            yield sign + wanted

    def _hits(self, pattern: bytes, most: int, *, at_start: bool = False) -> list[int]:
        """Ids of the first names that hold a pattern, or begin with it."""
        text, places = self._text, list[int]()
        pattern = DIVIDER + pattern if at_start else pattern
        skipped = int(pattern.startswith(DIVIDER))
        at = text.find(pattern)
        while at >= 0 and len(places) < most:
            places.append(at + skipped)
            at = text.find(pattern, max(at + 1, text.find(DIVIDER, at + skipped)))  # on with the next name
        ids = np.searchsorted(self._starts, np.array(places, np.int64), side="right") - 1
        return [int(i) for i in ids]

    def _ordered(self, ids: list[int], wanted: bytes) -> list[int]:
        """Ids by how well their names fit, then by weight, then the shorter first."""
        return sorted(ids, key=lambda i: (self._kind(i, wanted), -self._weight(i), len(self.names[i]), i))

    def _kind(self, i: int, wanted: bytes) -> int:
        start = int(self._starts[i])
        name = self._text[start : self._text.find(DIVIDER, start)]
        if name.startswith(wanted):
            return int(len(name) > len(wanted))
        return 2 if any(sign + wanted in name for sign in WORDS_BEGIN_AFTER) else 3

    def _weight(self, i: int) -> int:
        return 0 if self.weights is None else int(self.weights[i])


def fold(text: str) -> str:
    """The text without case and accents."""
    text = text.strip()
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def _pieces(wanted: str) -> Iterator[str]:
    """Beginnings of a misspelt name, of which one is probably right."""
    for share in (0.75, 0.5, 0.25):
        yield wanted[: max(1, int(share * len(wanted)))]
