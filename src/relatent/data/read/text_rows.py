"""The rows of a delimited text, one by one: for the first rows, and to find the line of a fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

HEAD_BYTES = 1 << 20  # of a file, to find out what its columns hold
MAX_LINE_BYTES = 16 << 20  # no row may be longer
QUOTE = '"'


class TextFaultError(Exception):
    """A row that cannot be split into fields."""

    def __init__(self, line: int, reason: str):
        super().__init__(reason)
        self.line = line


class TextRow(NamedTuple):
    """The fields of a row, and the lines it is made of."""

    first_line: int
    last_line: int
    fields: list[str]


def text_lines(stream: pa.NativeFile) -> Iterator[str]:
    """Lines with their line breaks (CR, LF or both); bytes that are not UTF-8 become lone surrogates."""
    rest, n_lines = b"", 0
    while block := stream.read(HEAD_BYTES):
        lines = (rest + block).splitlines(keepends=True)
        rest = lines.pop() if not lines[-1].endswith(b"\n") else b""  # a CR may be followed by an LF
        n_lines += len(lines)
        if len(rest) > MAX_LINE_BYTES:
            raise TextFaultError(n_lines + 1, too_long())
        for line in lines:
            yield line.decode(errors="surrogateescape")
    if rest:
        for line in rest.splitlines(keepends=True):
            yield line.decode(errors="surrogateescape")


def too_long(what: str = "row") -> str:
    """What is wrong with a line that does not end, or with a name."""
    return f"is longer than {MAX_LINE_BYTES >> 20} MB; no {what} may be"


def split_rows(lines: Iterable[str], sep: str, *, quoted: bool) -> Iterator[TextRow]:
    """Rows that are not empty; with `quoted`, by RFC 4180: quotes may enclose separators, quotes and line breaks."""
    quote: _OpenQuote | None = None
    number = 0
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\n").removesuffix("\r") if line.endswith("\n") else line.removesuffix("\r")
        if quote is None and (not quoted or QUOTE not in text):
            if text:
                yield TextRow(number, number, text.split(sep))
            continue
        quote = quote or _OpenQuote(number, sep)
        if quote.add(line, text, number):
            yield TextRow(quote.first_line, number, quote.fields)
            quote = None
    if quote is not None:
        raise TextFaultError(quote.opened, "a quote opens in this line and is never closed; double it if it is text")


class _OpenQuote:
    """A row with quotes, which may go on in the next lines."""

    def __init__(self, first_line: int, sep: str):
        self.first_line, self.opened, self._sep = first_line, first_line, sep
        self.fields: list[str] = []
        self._parts: list[str] | None = None  # of the field whose quote is open
        self._n_characters = 0

    def add(self, line: str, text: str, number: int) -> bool:
        """Take the next line; whether the row ends with it."""
        self._n_characters += len(line)
        if self._n_characters > MAX_LINE_BYTES:
            raise TextFaultError(self.opened, f"a quote that opens in this line encloses a field that {too_long()}")
        at = 0
        while True:
            if self._parts is None and text.startswith(QUOTE, at):
                self._parts, self.opened = [], number
                at += 1
            if self._parts is not None:
                end = self._closing(text, at)
                if end < 0:
                    self._parts.append(line[at:])
                    return False
                self.fields.append("".join([*self._parts, text[at:end]]).replace(QUOTE * 2, QUOTE))
                self._parts, at = None, end + 1
                if at < len(text) and not text.startswith(self._sep, at):
                    raise TextFaultError(number, f"has text after a closing quote: {text[end : end + 20]!r}")
            else:
                end = text.find(self._sep, at)
                end = len(text) if end < 0 else end
                self.fields.append(text[at:end])
                at = end
            if at >= len(text):
                return True
            at += len(self._sep)

    @staticmethod
    def _closing(text: str, at: int) -> int:
        """The position of the closing quote, −1 if it is in a later line."""
        while (end := text.find(QUOTE, at)) >= 0 and text.startswith(QUOTE, end + 1):
            at = end + 2
        return end
