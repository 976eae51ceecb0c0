"""A limit for triples within triples (RDF-star) and for nested JSON-LD: they would overflow the stack of the parser."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

from ...errors import DataError

MAX_NESTING = 100

_NORMAL, _IRI, _IRI_START, _OPENING, _STRING, _LONG_STRING, _COMMENT, _CLOSING = range(8)
_BACKSLASH, _QUOTE, _APOSTROPHE, _OPEN, _CLOSE, _HASH, _NEWLINE, _SPACE = 92, 34, 39, 60, 62, 35, 10, 32


class CheckedNesting:
    """A stream of Turtle, TriG, N-Triples, N-Quads, N3 or JSON-LD that raises where it is nested too deeply."""

    def __init__(self, stream: pa.NativeFile, where: str, *, is_json: bool = False):
        self._stream, self._where, self._is_json = stream, where, is_json
        self._state = np.zeros(5, np.int64)  # mode, depth, quote character, quotes in a row, after a backslash

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        block = bytes(self._stream.read(size) if size >= 0 else self._stream.read())
        deepest = (_max_json_depth if self._is_json else _max_depth)(np.frombuffer(block, np.uint8), self._state)
        if deepest > MAX_NESTING:
            what = "values" if self._is_json else "triples"
            raise DataError(f"{self._where}: {what} are nested more than {MAX_NESTING} deep; no fact needs that")
        return block


def is_nested_too_deeply(text: bytes) -> bool:
    """Whether a text has triples nested too deeply."""
    return bool(_max_depth(np.frombuffer(text, np.uint8), np.zeros(5, np.int64)) > MAX_NESTING)


@njit(nogil=True, cache=True)
def _max_json_depth(data, state):  # type: ignore[no-untyped-def]
    """The greatest depth of brackets outside strings within a block; the state goes on in the next block."""
    mode, depth, escaped = state[0], state[1], state[4]
    deepest = depth
    for character in data:
        if escaped:
            escaped = 0
        elif mode == _STRING:
            if character == _BACKSLASH:
                escaped = 1
            elif character == _QUOTE:
                mode = _NORMAL
        elif character == _QUOTE:
            mode = _STRING
        elif character == 91 or character == 123:
            depth += 1
            deepest = max(deepest, depth)
        elif character == 93 or character == 125:
            depth -= 1
    state[0], state[1], state[4] = mode, depth, escaped
    return deepest


@njit(nogil=True, cache=True)
def _max_depth(data, state):  # type: ignore[no-untyped-def]
    """The greatest depth of `<<` within a block; the state goes on in the next block."""
    mode, depth, quote, run, escaped = state[0], state[1], state[2], state[3], state[4]
    deepest = depth
    for character in data:
        if escaped:
            escaped = 0
            continue
        if mode == _OPENING:  # after one or two quotes: a short string, a long one, or an empty one
            if character == quote:
                run += 1
                if run == 3:
                    mode, run = _LONG_STRING, 0
                continue
            mode = _STRING if run == 1 else _NORMAL
        if character == _BACKSLASH:
            escaped = 1
            run = 0
        elif mode == _STRING:
            if character in (quote, _NEWLINE):
                mode = _NORMAL
        elif mode == _LONG_STRING:
            run = run + 1 if character == quote else 0
            if run == 3:
                mode = _NORMAL
        elif mode == _COMMENT:
            if character == _NEWLINE:
                mode = _NORMAL
        elif mode == _IRI or (mode == _IRI_START and character != _OPEN):
            mode = _NORMAL if character == _CLOSE or character <= _SPACE else _IRI
        elif mode == _IRI_START:
            depth += 1
            deepest = max(deepest, depth)
            mode = _NORMAL
        elif character == _CLOSE:
            if mode == _CLOSING:
                depth -= 1
            mode = _NORMAL if mode == _CLOSING else _CLOSING
        elif character == _OPEN:
            mode = _IRI_START
        elif character == _HASH:
            mode = _COMMENT
        elif character in (_QUOTE, _APOSTROPHE):
            mode, quote, run = _OPENING, character, 1
        else:
            mode = _NORMAL
    state[0], state[1], state[2], state[3], state[4] = mode, depth, quote, run, escaped
    return deepest
