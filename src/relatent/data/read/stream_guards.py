"""Streams that stop where a small file would take much memory or time: endless lines, XML entities, deep nesting."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from ...errors import DataError
from .text_rows import MAX_LINE_BYTES

MAX_ENTITY_CHARACTERS = 1000  # of an XML entity, expanded; namespaces are shorter
MAX_DECLARATION_BYTES = 1 << 16  # at the start of a file, in which XML entities are declared
MAX_DEPTH = 10_000  # of tags
_BLOCK_BYTES = 1 << 16
_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s%"']+)\s+("[^"]*"|'[^']*')""")
_REFERENCE = re.compile(rb"&([^\s;&#]+);")


class BoundedRuns:
    """A stream that raises where more than MAX_LINE_BYTES follow each other without a mark, such as a line break."""

    def __init__(self, stream: pa.NativeFile, where: str, mark: bytes):
        self._stream, self._where, self._mark, self._run = stream, where, mark, 0

    def read(self, size: int) -> bytes:
        """The next bytes."""
        block = bytes(self._stream.read(size))
        last = block.rfind(self._mark)
        self._run = self._run + len(block) if last < 0 else len(block) - last
        if self._run > MAX_LINE_BYTES:
            what = {b"\n": "a line", b",": "the text between two commas"}.get(self._mark, "the text between two tags")
            raise DataError(f"{self._where}: {what} is longer than {MAX_LINE_BYTES >> 20} MB; no name may be")
        return block

    def read_all(self) -> bytes:
        """All bytes."""
        return b"".join(iter(lambda: self.read(_BLOCK_BYTES), b""))

    def __iter__(self) -> Iterator[bytes]:
        """The lines."""
        parts: list[bytes] = []
        while block := self.read(_BLOCK_BYTES):
            first, *more = block.split(b"\n")
            parts.append(first)
            for line in more:
                yield b"".join(parts)
                parts = [line]
        yield b"".join(parts)


class BoundedXml:
    """A stream of XML that raises where an entity expands to a long text ("billion laughs"), or where tags nest deeply.

    The time of parsers is quadratic in the depth. The depth is estimated: comments count as if they were text.
    """

    def __init__(self, stream: pa.NativeFile, where: str):
        self._stream, self._where, self._depth = BoundedRuns(stream, where, b"<"), where, 0
        self._end = b""  # of what was read, as a declaration or a tag may cross two blocks
        self._head = self._checked(self._stream.read(MAX_DECLARATION_BYTES))
        self._check_entities()

    def read(self, size: int) -> bytes:
        """The next bytes."""
        if self._head:
            block, self._head = self._head[:size], self._head[size:]
            return block
        block = self._stream.read(size)
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
