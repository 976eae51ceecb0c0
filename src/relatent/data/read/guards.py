"""Streams that stop where a small file would take much memory, time or stack: long lines, entities, deep nesting."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy as np
from numba import njit

from ...errors import DataError
from .files import MAX_EXPANSION, MAX_LINE_BYTES, MIN_EXPANDED, Stream

MAX_NESTING = 100  # of triples and of JSON-LD: more would overflow the stack of the parser
MAX_DEPTH = 10_000  # of tags
MAX_ENTITY_CHARACTERS = 1000  # of an XML entity, expanded; namespaces are shorter
MAX_DECLARATION_BYTES = 1 << 16  # at the start of a file, in which XML entities are declared
MAX_ATTRIBUTES = 1000  # of a tag and those around it
MAX_CONTEXT_BYTES = 1 << 23
MAX_COPIED_BYTES = 600_000_000  # of JSON-LD contexts, for which the parser takes about ten seconds
_BLOCK_BYTES = 1 << 16
_CONVERT = "convert it to N-Triples"
_PREFIX, _BASE = re.compile(rb"@prefix|\bprefix[\s#]", re.I), re.compile(rb"@base|\bbase\s*[<#]", re.I)
_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s%"']+)\s+("[^"]*"|'[^']*')""")
_REFERENCE = re.compile(rb"&([^\s;&#]+);")

_NORMAL, _IRI, _IRI_START, _OPENING, _STRING, _LONG_STRING, _COMMENT, _CLOSING = range(8)
_TEXT, _TAG_START, _TAG, _VALUE, _END_TAG, _DECLARATION_START, _DECLARATION = range(7)
_COMMENT_START, _XML_COMMENT, _CHARACTERS, _INSTRUCTION = range(7, 11)
_TOO_DEEP, _TOO_MANY, _ODD_COMMENT = 1, 2, 3
_CONTEXT_KEY = np.frombuffer(b"@context", np.uint8)
_LONGEST, _N_STRINGS = 6, 6  # places in the states of Turtle and of JSON
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

    The time of parsers is quadratic in the depth, and in the number of attributes that are open at once: those of a
    tag are compared, and names of namespaces are copied into each tag below.
    """

    mark, what = b"<", "the text between two tags"

    def __init__(self, stream: Stream, where: str):
        super().__init__(stream, where)
        self._end = b""  # of what was read, as a declaration may cross two blocks
        self._state, self._open_attributes = np.zeros(6, np.int64), np.zeros(MAX_DEPTH + 2, np.int64)
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
        self._end = (self._end + block)[1 - len(b"<!ENTITY") :]
        fault = _scan_tags(np.frombuffer(block, np.uint8), self._state, self._open_attributes)
        if fault == _TOO_DEEP:
            raise DataError(f"{self._where}: tags are nested more than {MAX_DEPTH:,} deep; no fact needs that")
        if fault == _TOO_MANY:
            limit = f"{MAX_ATTRIBUTES:,} attributes"
            raise DataError(f"{self._where}: a tag and those around it have more than {limit}; no fact needs that")
        if fault == _ODD_COMMENT:
            raise DataError(
                f"{self._where}: has an XML comment that begins with > or ->, which parsers read differently"
            )
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
    """A stream of Turtle, TriG, N-Triples, N-Quads or N3 that raises where triples are nested too deeply."""

    what = "triples"

    def __init__(self, stream: Stream, where: str):
        self._stream, self._where = stream, where
        self.n_read = 0  # bytes
        self._state = np.zeros(8, np.int64)

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        block = bytes(self._stream.read(size))
        self.n_read += len(block)
        if self._deepest(block) > MAX_NESTING:
            raise DataError(f"{self._where}: {self.what} are nested more than {MAX_NESTING} deep; no fact needs that")
        return block

    def _deepest(self, block: bytes) -> int:
        return int(_max_depth(np.frombuffer(block, np.uint8), self._state))


class CheckedTurtle(CheckedNesting):
    """Turtle, TriG or N3, whose prefixes the parser keeps in full.

    They may be relative to a long base, and each base to the one before it.
    """

    def __init__(self, stream: Stream, where: str):
        super().__init__(stream, where)
        self._n_prefixes = self._n_bases = 0

    def _deepest(self, block: bytes) -> int:
        self._n_prefixes += len(_PREFIX.findall(block))
        self._n_bases += len(_BASE.findall(block))
        deepest = super()._deepest(block)
        longest = int(self._state[_LONGEST]) * max(1, self._n_bases)
        if self._n_prefixes * longest > max(MIN_EXPANDED, MAX_EXPANSION * self.n_read):
            raise DataError(f"{self._where}: prefixes are {MAX_EXPANSION} times longer than the file; shorten its base")
        return deepest


class CheckedJsonLd(CheckedNesting):
    """JSON-LD that raises where values nest deeply, or where names or copies of contexts would fill the memory.

    The parser copies a context for each one within it, and for each use of a term or type that has one of its own.
    """

    what = "values"

    def __init__(self, stream: Stream, where: str):
        super().__init__(stream, where)
        self._context = b""  # the beginning of one that goes on in the next block
        self._n_contexts, self._n_context_bytes, self._longest_name, self._has_own = 0, 0, 0, False

    def _deepest(self, block: bytes) -> int:
        spans = np.empty((len(block) // len(b'"@context":') + 2, 2), np.int64)
        deepest, n = _scan_json(np.frombuffer(block, np.uint8), self._state, spans)
        for start, stop in spans[:n].tolist():
            self._context += block[start : len(block) if stop < 0 else stop]
            if len(self._context) > MAX_CONTEXT_BYTES:
                raise DataError(f"{self._where}: a context is longer than {MAX_CONTEXT_BYTES >> 20} MB; {_CONVERT}")
            if stop >= 0:
                self._measure()
        n_strings = int(self._state[_N_STRINGS])
        n_copies = max(0, self._n_contexts - 1) + (n_strings if self._has_own else 0)
        if n_copies * self._n_context_bytes > MAX_COPIED_BYTES:
            raise DataError(f"{self._where}: has {self._n_contexts:,} contexts, and large ones; {_CONVERT}")
        if n_strings * self._longest_name > max(MIN_EXPANDED, MAX_EXPANSION * self.n_read):
            raise DataError(
                f"{self._where}: names are {MAX_EXPANSION} times longer than the file; shorten its prefixes"
            )
        return int(deepest)

    def _measure(self) -> None:
        """Count a context, its terms, and the characters for which they stand."""
        text, self._context = self._context, b""
        self._n_contexts += 1
        self._n_context_bytes = max(self._n_context_bytes, len(text))
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return  # the parser says so
        for context in found if isinstance(found, list) else [found]:
            if isinstance(context, dict):
                self._has_own |= any(isinstance(term, dict) and "@context" in term for term in context.values())
                self._has_own |= "@propagate" in context
                lengths = _expanded_lengths(context)
                self._longest_name = max(self._longest_name, *lengths, 0)
                if sum(lengths) > MIN_EXPANDED:
                    raise DataError(f"{self._where}: the terms of a context stand for too long names; {_CONVERT}")


def _expanded_lengths(context: dict[str, Any]) -> list[int]:
    """The characters that each term of a JSON-LD context stands for; terms may use others as prefixes."""
    ids = {name: term.get("@id", name) if isinstance(term, dict) else term for name, term in context.items()}
    texts = {name: text for name, text in ids.items() if isinstance(text, str)}
    around = sum(len(texts.get(name, "")) for name in ("@base", "@vocab"))
    lengths: dict[str, int] = {}
    for name in texts:
        chain = [name]
        while chain[-1] not in lengths and (prefix := texts[chain[-1]].partition(":")[0]) in texts:
            if prefix in chain[-MAX_NESTING:] or len(chain) > len(texts):
                break  # a circle
            chain.append(prefix)
        for term in reversed(chain):
            prefix, _, rest = texts[term].partition(":")
            lengths.setdefault(term, len(rest) + lengths[prefix] if prefix in lengths else len(texts[term]) + around)
    return list(lengths.values())


def is_nested_too_deeply(text: bytes) -> bool:
    """Whether a text has triples nested too deeply."""
    return bool(_max_depth(np.frombuffer(text, np.uint8), np.zeros(8, np.int64)) > MAX_NESTING)


@njit(nogil=True, cache=True)
def _scan_json(data, state, spans):  # type: ignore[no-untyped-def]
    """The greatest depth of brackets outside strings within a block, and the number of contexts or parts of contexts.

    `spans` gets their ranges; the end is −1 where a context goes on in the next block. The state goes on there, too.
    """
    mode, depth, escaped, n_hex, code, matched, n_strings, outer = state
    deepest, n, is_context = depth, 0, outer > 0
    if is_context:
        spans[0, 0] = 0
    for i in range(len(data)):
        character = data[i]
        if mode == _STRING:
            if n_hex:
                digit = character - 48 if character < 58 else (character | 32) - 87
                code, n_hex = 16 * code + digit, n_hex - 1
                if n_hex:
                    continue
                character = code if code < 128 else 0
            elif escaped:
                escaped = 0
                if character == 117:  # u
                    n_hex, code = 4, 0
                    continue
                matched = -1
            elif character == _BACKSLASH:
                escaped = 1
                continue
            elif character == _QUOTE:
                mode, n_strings = _NORMAL, n_strings + 1
                matched = 100 if matched == len(_CONTEXT_KEY) else -1
                continue
            is_next = 0 <= matched < len(_CONTEXT_KEY) and character == _CONTEXT_KEY[matched]
            matched = matched + 1 if is_next else -1
        elif character == _QUOTE:
            mode, matched = _STRING, 0
        elif character == 91 or character == 123:  # [ {
            if matched == 101 and not is_context:
                outer, is_context = depth + 1, True
                spans[n, 0] = i
            depth += 1
            deepest = max(deepest, depth)
            matched = -1
        elif character == 93 or character == 125:
            if is_context and depth == outer:
                spans[n, 1] = i + 1
                n, outer, is_context = n + 1, 0, False
            depth -= 1
            matched = -1
        elif character > _SPACE:
            matched = 101 if matched == 100 and character == 58 else -1  # :
    if is_context:
        spans[n, 1] = -1
        n += 1
    state[0], state[1], state[2], state[3], state[4] = mode, depth, escaped, n_hex, code
    state[5], state[6], state[7] = matched, n_strings, outer
    return deepest, n


@njit(nogil=True, cache=True)
def _scan_tags(data, state, attributes):  # type: ignore[no-untyped-def]
    """A fault of XML within a block, or 0: tags are nested too deeply, too many attributes are open, an odd comment.

    `attributes`: of the open tags, in each tag and all tags around it. Declarations end at their first >, even
    where they contain others: what follows is text then.
    """
    mode, depth, last, before, quote, own = state
    for character in data:
        if mode == _TEXT:
            if character == _OPEN:
                mode, own = _TAG_START, 0
        elif mode == _TAG_START:
            mode = _TAG
            if character == 47:  # /
                mode = _END_TAG
            elif character == 63:  # ?
                mode = _INSTRUCTION
            elif character == 33:  # !
                mode = _DECLARATION_START
        elif mode == _TAG:
            if character in (_QUOTE, _APOSTROPHE):
                mode, quote = _VALUE, character
            elif character == 61:  # =
                own += 1
                if attributes[depth] + own > MAX_ATTRIBUTES:
                    return _TOO_MANY
            elif character == _CLOSE:
                mode = _TEXT
                if last != 47:
                    if depth == MAX_DEPTH:
                        return _TOO_DEEP
                    depth += 1
                    attributes[depth] = attributes[depth - 1] + own
        elif mode == _VALUE:
            if character == quote:
                mode = _TAG
        elif mode == _END_TAG:
            if character == _CLOSE:
                mode, depth = _TEXT, max(0, depth - 1)
        elif mode == _DECLARATION_START:
            mode = _DECLARATION
            if character == 91:  # [
                mode = _CHARACTERS
            elif character == 45:  # -
                mode = _COMMENT_START
        elif mode == _COMMENT_START:
            mode, own = (_XML_COMMENT if character == 45 else _DECLARATION), 0
        elif mode == _XML_COMMENT:
            own += 1
            if character == _CLOSE and own <= 2 and (own == 1 or last == 45):
                return _ODD_COMMENT
            if character == _CLOSE and last == 45 and before == 45:
                mode = _TEXT
        elif mode == _CHARACTERS:
            if character == _CLOSE and last == 93 and before == 93:
                mode = _TEXT
        elif mode == _INSTRUCTION:
            if character == _CLOSE and last == 63:
                mode = _TEXT
        elif character == _CLOSE:
            mode = _TEXT
        before, last = last, character
    state[0], state[1], state[2], state[3], state[4], state[5] = mode, depth, last, before, quote, own
    return 0


@njit(nogil=True, cache=True)
def _max_depth(data, state):  # type: ignore[no-untyped-def]
    """The greatest depth of `<<` within a block; the state goes on in the next block."""
    mode, depth, quote, run, escaped, iri, longest = (
        state[0],
        state[1],
        state[2],
        state[3],
        state[4],
        state[5],
        state[6],
    )
    deepest = depth
    for character in data:
        iri = iri + 1 if mode == _IRI else 0
        longest = max(longest, iri)
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
    state[0], state[1], state[2], state[3], state[4], state[5], state[6] = (
        mode,
        depth,
        quote,
        run,
        escaped,
        iri,
        longest,
    )
    return deepest
