"""Tables in JSON lines, read line by line, and in JSON documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import DataError, one_line
from .files import File, text_lines
from .reading import Reading
from .table import Table, in_blocks, read_rows

LISTS_OF_ROWS = ("links", "edges", "triples", "facts", "data", "results")  # keys of a document, as networkx writes
MAX_BLANK_LINES = 1_000_000
MAX_BLOCK_CHARACTERS = 1 << 20  # of lines, of which Python values take many times as much memory


def read_json(file: File, reading: Reading) -> Table:
    """The rows of a file with one JSON value per line, or of a document with a list of rows."""
    file = file.decoded(reading.encoding)
    if file.encoding:
        reading.understood["encoding"] = file.encoding
    reading.understood["format"] = "JSON lines" if file.format == "jsonl" else "JSON"
    return read_rows(
        (lambda: _lines(file)) if file.format == "jsonl" else (lambda: _list(file)), reading, str(file.path)
    )


def document(file: File) -> Any:
    """The value that a JSON document is."""
    return _parsed(json.JSONDecoder().decode, file.json().decode(errors="surrogateescape"), file.path)


def _lines(file: File) -> Iterator[list[Any]]:
    decode = json.JSONDecoder().decode
    block: list[Any] = []
    n_blank, n_characters = 0, 0
    with file.open() as stream:
        for number, line in enumerate(text_lines(stream, file.path), 1):
            n_blank = 0 if line.strip() else n_blank + 1
            if not n_blank:
                block.append(_parsed(decode, line, f"{file.path}:{number}"))
                n_characters += len(line)
                if n_characters > MAX_BLOCK_CHARACTERS:
                    yield block
                    block, n_characters = [], 0
            elif n_blank > MAX_BLANK_LINES:
                raise DataError(f"{file.path}:{number}: more than {MAX_BLANK_LINES:,} lines in a row are blank")
        if block:
            yield block


def _list(file: File) -> Iterator[list[Any]]:
    found = document(file)
    if isinstance(found, dict):
        found = next((found[key] for key in LISTS_OF_ROWS if isinstance(found.get(key), list)), found)
    if not isinstance(found, list):
        raise DataError(f"{file.path}: expected a list of rows; JSON-LD needs the extension .jsonld, JSON lines .jsonl")
    return in_blocks(found)


def _parsed(decode: Callable[[str], Any], text: str, where: object) -> Any:
    try:
        return decode(text)
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{where}: is not valid JSON: {one_line(problem)}") from None
