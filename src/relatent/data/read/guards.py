"""Streams that stop where a small file would take much memory, time or stack: long lines, entities, deep nesting."""

from __future__ import annotations

import io
import re

import numpy as np
from numba import njit

from ...errors import DataError
from .files import MAX_LINE_BYTES, Stream

MAX_NESTING = 100  # of triples and of JSON-LD: more would overflow the stack of the parser
MAX_DEPTH = 10_000  # of tags
MAX_ENTITY_CHARACTERS = 1000  # of an XML entity, expanded; namespaces are shorter
MAX_DECLARATION_BYTES = 1 << 16  # at the start of a file, in which XML entities are declared
MAX_COPIED_BYTES = 600_000_000  # of JSON-LD contexts, for which the parser takes about ten seconds
MAX_KEY_BYTES = 50
_BLOCK_BYTES = 1 << 16
_CONTEXT = re.compile(b'"' + b"".join(rb"(?:%c|\\u00%02x)" % (letter, letter) for letter in b"@context") + b'"', re.I)
_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s%"']+)\s+("[^"]*"|'[^']*')""")
_REFERENCE = re.compile(rb"&([^\s;&#]+);")

_NORMAL, _IRI, _IRI_START, _OPENING, _STRING, _LONG_STRING, _COMMENT, _CLOSING = range(8)
_BACKSLASH, _QUOTE, _APOSTROPHE, _OPEN, _CLOSE, _HASH, _NEWLINE, _RETURN, _SPACE = 92, 34, 39, 60, 62, 35, 10, 13, 32


class BoundedLines:
    """A stream of GML that raises at an endless line."""

    mark, what = b"\n", "a line"

    def __init__(self, stream: Stream, where: str):
        self._stream, self._where, self._run = stream, where, 0
        self.n_read = 0  # bytes

    def read(self, size: int = _BLOCK_BYTES) -> bytes:
        """The next bytes."""
        block = bytes(self._stream.read(size))
        self.n_read += len(block)
        last = block.rfind(self.mark)
        self._run = self._run + len(block) if last < 0 else len(block) - last
        if self._run > MAX_LINE_BYTES:
            raise DataError(f"{self._where}: {self.what} is longer than {MAX_LINE_BYTES >> 20} MB; no name may be")
        return block

    def read_all(self) -> io.BytesIO:
        """All bytes, as a stream that can be read twice."""
        return io.BytesIO(b"".join(iter(self.read, b"")))


class BoundedXml(BoundedLines):
    """A stream of XML that raises where an entity expands to a long text ("billion laughs"), or where tags nest deeply.

    The time of parsers is quadratic in the depth. The depth is estimated: comments count as if they were text.
    """

    mark, what = b"<", "the text between two tags"

    def __init__(self, stream: Stream, where: str):
        super().__init__(stream, where)
        self._depth, self._end = 0, b""  # the end of what was read, as a declaration or a tag may cross two blocks
        self._head = self._checked(super().read(MAX_DECLARATION_BYTES))
        if b"\0" in self._head:
            raise DataError(f"{where}: XML must be in UTF-8; convert it")
        if re.search(rb"<!ENTITY\s+%", self._head):
            raise DataError(f"{where}: declares an XML parameter entity (%), which no facts need; remove it")
        self._check_entities()

    def read(self, size: int = _BLOCK_BYTES) -> bytes:
        """The next bytes."""
        if self._head:
            block, self._head = self._head[:size], self._head[size:]
            return block
        block = super().read(size)
        if b"<!ENTITY" in self._end + block:
            raise DataError(f"{self._where}: declares XML entities after the first {MAX_DECLARATION_BYTES >> 10} KB")
        return self._checked(block)

    def _checked(self, block: bytes) -> bytes:
        pairs = self._end[-1:] + block
        n_closed = 2 * pairs.count(b"</") + pairs.count(b"/>") + pairs.count(b"<!") + pairs.count(b"<?")
        self._depth += block.count(b"<") - n_closed
        self._end = (self._end + block)[1 - len(b"<!ENTITY") :]
        if self._depth > MAX_DEPTH:
            raise DataError(f"{self._where}: tags are nested more than {MAX_DEPTH:,} deep; no fact needs that")
        return block

    def _check_entities(self) -> None:
        """Raise if an entity is too long; entities may refer to those before them."""
        lengths: dict[bytes, int] = {}
        for name, quoted in _ENTITY.findall(self._head):
            lengths[name] = len(quoted) - 2 + sum(lengths.get(inner, 0) for inner in _REFERENCE.findall(quoted))
            if lengths[name] > MAX_ENTITY_CHARACTERS:
                shown = name[:80].decode(errors="replace")
                limit = f"{MAX_ENTITY_CHARACTERS:,} characters"
                raise DataError(f"{self._where}: the XML entity &{shown}; stands for more than {limit}; write it out")


class CheckedNesting:
    """A stream of Turtle, TriG, N-Triples, N-Quads, N3 or JSON-LD that raises where it is nested too deeply."""

    def __init__(self, stream: Stream, where: str, *, is_json: bool = False):
        self._stream, self._where, self._is_json = stream, where, is_json
        self.n_read = 0  # bytes
        self._end, self._n_contexts, self._last_context, self._longest = b"", 0, 0, 0
        self._state = np.zeros(5, np.int64)  # mode, depth, quote character, quotes in a row, after a backslash

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        block = bytes(self._stream.read(size))
        self.n_read += len(block)
        deepest = (_max_json_depth if self._is_json else _max_depth)(np.frombuffer(block, np.uint8), self._state)
        if deepest > MAX_NESTING:
            what = "values" if self._is_json else "triples"
            raise DataError(f"{self._where}: {what} are nested more than {MAX_NESTING} deep; no fact needs that")
        if self._is_json:
            self._check_contexts(block)
        return block

    def _check_contexts(self, block: bytes) -> None:
        """Raise if contexts would be copied for long: the parser copies the outer one for each context in it."""
        text = self._end + block
        for found in _CONTEXT.finditer(text):
            if found.end() > len(self._end):
                place = self.n_read - len(text) + found.start()
                self._longest = max(self._longest, place - self._last_context)
                self._last_context = place
                self._n_contexts += 1
        self._end = text[-MAX_KEY_BYTES:]
        if self._n_contexts > 1 and self._n_contexts * self._longest > MAX_COPIED_BYTES:
            raise DataError(
                f"{self._where}: has {self._n_contexts:,} contexts, and large ones; convert it to N-Triples"
            )


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
            if character in (_NEWLINE, _RETURN):
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
