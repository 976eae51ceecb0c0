"""Quotes of CSV text, checked block by block: Arrow accepts a quote that is never closed, and text after a quote."""

from __future__ import annotations

import numpy as np
from numba import njit

from .file_content import ReadAhead

_FIELD_START, _PLAIN, _QUOTED, _AFTER_QUOTE = 0, 1, 2, 3
_LINE_FEED, _RETURN, _QUOTE = 10, 13, 34


class CheckedQuotes:
    """A stream that ends early where a quote is wrong; `is_faulty` says so."""

    def __init__(self, stream: ReadAhead, sep: str):
        self._stream, self._sep = stream, np.uint8(ord(sep))
        self._state = _FIELD_START
        self.is_faulty = False

    def read(self, size: int | None = None) -> bytes:
        """The next block; empty at the end, or if a quote is wrong."""
        block = b"" if self.is_faulty else self._stream.read(size)
        if not block:
            self.is_faulty = self.is_faulty or self._state == _QUOTED
        elif self._state in (_QUOTED, _AFTER_QUOTE) or b'"' in block:
            self._state = int(_scan(np.frombuffer(block, np.uint8), self._sep, self._state))
            self.is_faulty = self._state < 0
        else:
            is_start = block[-1] in (_LINE_FEED, _RETURN, int(self._sep))
            self._state = _FIELD_START if is_start else _PLAIN
        return b"" if self.is_faulty else block

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed

    def close(self) -> None:
        """Stop reading."""
        self._stream.close()


@njit(nogil=True, cache=True)
def _scan(data, sep, state):  # type: ignore[no-untyped-def]
    """The state after a block, −1 if text follows a closing quote."""
    for character in data:
        if state == _QUOTED:
            if character == _QUOTE:
                state = _AFTER_QUOTE
        elif character == sep or character == _LINE_FEED or character == _RETURN:  # noqa: SIM109  # Numba
            state = _FIELD_START
        elif character == _QUOTE and state != _PLAIN:  # opens a field, or is the second of two
            state = _QUOTED
        elif state == _AFTER_QUOTE:
            return -1
        else:
            state = _PLAIN
    return state
