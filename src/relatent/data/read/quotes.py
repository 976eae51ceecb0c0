"""Streams of text that are checked block by block, for faults that Arrow does not report well.

Arrow accepts a quote that is never closed, and text after a quote; and it skips a row that is not UTF-8 if a function
decides on wrong rows.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod

import numpy as np
from numba import njit

from .file_content import ReadAhead

_FIELD_START, _PLAIN, _QUOTED, _AFTER_QUOTE = 0, 1, 2, 3
_LINE_FEED, _RETURN, _QUOTE = 10, 13, 34


class _CheckedStream(ABC):
    """A stream that ends early where a block is wrong; `is_faulty` says so."""

    def __init__(self, stream: ReadAhead | _CheckedStream):
        self._stream, self.is_faulty = stream, False

    def read(self, size: int | None = None) -> bytes:
        """The next block; empty at the end, or if it is wrong."""
        block = b"" if self.is_faulty else self._stream.read(size)
        self.is_faulty = self.is_faulty or self._is_wrong(block)
        return b"" if self.is_faulty else block

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed

    def close(self) -> None:
        """Stop reading."""
        self._stream.close()

    @abstractmethod
    def _is_wrong(self, block: bytes) -> bool:
        """Whether the next block is wrong; it is empty at the end."""


class CheckedQuotes(_CheckedStream):
    """A stream that ends early where a quote is wrong."""

    def __init__(self, stream: ReadAhead | _CheckedStream, sep: str):
        super().__init__(stream)
        self._sep, self._state = np.uint8(ord(sep)), _FIELD_START

    def _is_wrong(self, block: bytes) -> bool:
        if not block:
            return self._state == _QUOTED
        if self._state in (_QUOTED, _AFTER_QUOTE) or b'"' in block:
            self._state = int(_scan(np.frombuffer(block, np.uint8), self._sep, self._state))
        else:
            is_start = block[-1] in (_LINE_FEED, _RETURN, int(self._sep))
            self._state = _FIELD_START if is_start else _PLAIN
        return self._state < 0


class CheckedUtf8(_CheckedStream):
    """A stream that ends early where the text is not UTF-8."""

    def __init__(self, stream: ReadAhead):
        super().__init__(stream)
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def _is_wrong(self, block: bytes) -> bool:
        try:
            self._decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            return True
        return False


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
