"""Facts from JSON lines, read line by line, and from JSON documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...errors import DataError, one_line
from ..facts import Facts
from .delimited import with_encoding
from .file_content import File
from .reading import Reading
from .rows import facts_from_rows
from .stream_guards import BoundedRuns
from .text_rows import TextFaultError, text_lines

LISTS_OF_ROWS = ("links", "edges", "triples", "facts", "data", "results")  # keys of a document, as networkx writes
MAX_BLANK_LINES = 1_000_000


def read_json(file: File, reading: Reading) -> Facts:
    """Facts of a file with one JSON value per line, or of a document with a list of rows."""
    file = with_encoding(file, reading)
    reading.understood["format"] = "JSON lines" if file.format == "jsonl" else "JSON"
    rows = json_lines(file) if file.format == "jsonl" else iter(_document(file))
    return facts_from_rows(rows, reading, str(file.path))


def json_lines(file: File) -> Iterator[Any]:
    """The values of a file with one JSON value per line."""
    decode = json.JSONDecoder().decode
    with file.open() as stream:
        n_blank, number = 0, 0
        try:
            for number, line in enumerate(text_lines(stream), 1):
                n_blank = 0 if line.strip() else n_blank + 1
                if not n_blank:
                    yield decode(line)
                elif n_blank > MAX_BLANK_LINES:
                    raise DataError(f"{file.path}:{number}: more than {MAX_BLANK_LINES:,} lines in a row are blank")
        except TextFaultError as problem:
            raise DataError(f"{file.path}:{problem.line}: {problem}") from None
        except DataError:  # is a ValueError, too
            raise
        except (ValueError, RecursionError) as problem:
            raise _invalid(f"{file.path}:{number}", problem) from None


def _document(file: File) -> list[Any]:
    with file.open() as stream:
        try:
            found = json.loads(BoundedRuns(stream, str(file.path), b",").read_all())
        except DataError:  # is a ValueError, too
            raise
        except (ValueError, RecursionError) as problem:
            raise _invalid(str(file.path), problem) from None
    if isinstance(found, dict):
        found = next((found[key] for key in LISTS_OF_ROWS if isinstance(found.get(key), list)), found)
    if isinstance(found, list):
        return found
    raise DataError(f"{file.path}: expected a list of rows; JSON-LD needs the extension .jsonld, JSON lines .jsonl")


def _invalid(where: str, problem: Exception) -> DataError:
    return DataError(f"{where}: is not valid JSON: {one_line(problem)}")
