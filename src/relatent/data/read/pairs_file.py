"""Types or labels from a file: two columns, id and value, as CSV or TSV, or a JSON object by id."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import DataError, one_line
from ...json_values import parse_json
from ..names import is_utf8
from ..types_in_facts import rdf_types
from .file_content import File
from .file_formats import identify, naming_the_file, read_file
from .json_rows import MAX_BLANK_LINES
from .reading import Reading
from .stream_guards import BoundedRuns
from .text_rows import TextFaultError, text_lines

ID_COLUMNS = ("id", "entity", "node", "iri", "uri", "key")
RDF_FORMATS = ("ntriples", "nquads", "turtle", "trig", "n3", "rdfxml", "jsonld")
VALUE_COLUMNS = {"type": ("type", "types", "class", "kind", "category"), "label": ("label", "name", "title")}


def read_pairs(path: Path, what: str, language: str | None = None) -> dict[str, list[str]]:
    """The values by id; `what` they are, "type" or "label", names their column where there are more than two.

    An RDF file gives the labels in a language, or the types of its rdf:type facts.
    """
    file = identify(path)
    if file.format in RDF_FORMATS:
        found = _rdf_pairs(file, what, language)
        if not found:
            raise DataError(f"{path}: contains no {what}s")
        return found
    if file.format not in ("csv", "tsv", "json"):
        raise DataError(f"{path}: a file of {what}s must be CSV, TSV, JSON or RDF, got {file.format}")
    found = {}
    with naming_the_file(file):
        for key, value in _json_pairs(file, what) if file.format == "json" else _rows(file, what):
            if value:
                found.setdefault(key, []).append(value)
    if not found:
        raise DataError(f"{path}: contains no {what}s")
    return found


def json_of(file: File) -> Any:
    """The JSON document that a file is."""
    try:
        with file.open() as stream:
            return parse_json(BoundedRuns(stream, str(file.path), b",").read_all())
    except DataError:  # is a ValueError, too
        raise
    except UnicodeDecodeError:
        raise DataError(f"{file.path}: is not UTF-8; convert it") from None
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{file.path}: is not JSON: {one_line(problem)}") from None


def separated_rows(file: File) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV or TSV file that are not empty, each with its line; the first line shows the separator."""
    with file.open() as stream:
        lines = _lines(file, stream)
        first = next(lines, "")
        separator = next((character for character in "\t,;" if character in first), ",")
        rows = csv.reader(
            chain([first], lines),
            delimiter=separator,
            quoting=csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL,
            strict=True,
        )
        try:
            yield from ((rows.line_num, row) for row in rows if row)
        except csv.Error as problem:
            raise DataError(f"{file.path}:{rows.line_num}: {one_line(problem)}") from None


def _lines(file: File, stream: pa.NativeFile) -> Iterator[str]:
    """The lines of a file in UTF-8, none of which is endless."""
    n_blank = 0
    try:
        for number, line in enumerate(text_lines(stream), 1):
            n_blank = 0 if line.strip() else n_blank + 1
            if n_blank > MAX_BLANK_LINES or not is_utf8(line):
                problem = f"more than {MAX_BLANK_LINES:,} lines in a row are blank" if n_blank else "is not UTF-8"
                raise DataError(f"{file.path}:{number}: {problem}; convert it")
            yield line
    except TextFaultError as fault:
        raise DataError(f"{file.path}:{fault.line}: {fault}") from None


def _rdf_pairs(file: File, what: str, language: str | None) -> dict[str, list[str]]:
    from .rdf import literals_of

    if what == "label":
        return {name: [text] for name, text in literals_of(file, language).labels.items()}
    facts = read_file(file, Reading())
    found: dict[str, list[str]] = {}
    if (types := rdf_types(facts)) is not None:
        for entity, kind in zip(*(ids.tolist() for ids in types.members.nonzero()), strict=True):
            found.setdefault(facts.entities[entity], []).append(types.names[kind])
    return found


def _json_pairs(file: File, what: str) -> Iterator[tuple[str, str]]:
    path, document = file.path, json_of(file)
    if not isinstance(document, dict):
        raise DataError(f"{path}: expected a JSON object of {what}s by id, got {type(document).__name__}")
    for key, given in document.items():
        value: Any = given.get(what) if isinstance(given, dict) else given
        for one in value if isinstance(value, list) else [value]:
            if one is not None and not isinstance(one, str):
                raise DataError(f"{path}: the {what} of {key!r} must be text, got {one!r:.100}")
            yield key, one or ""


def _rows(file: File, what: str) -> Iterator[tuple[str, str]]:
    columns: tuple[int, int] | None = None
    for line, row in separated_rows(file):
        if columns is None:
            columns = _columns(row, what)
            if columns != (0, 1) or row[0].strip().lower() in ID_COLUMNS:
                continue
        if len(row) <= max(columns) or (columns == (0, 1) and len(row) != 2):
            raise DataError(
                f"{file.path}:{line}: expected two columns, id and {what}, got {len(row)}; more columns need a "
                f"header with the names {ID_COLUMNS[0]} and {what}"
            )
        yield row[columns[0]].strip(), row[columns[1]].strip()


def _columns(header: Sequence[str], what: str) -> tuple[int, int]:
    """The positions of ids and values: by their names in the header, otherwise the first two columns."""
    names = [name.strip().lower() for name in header]
    ids = [names.index(name) for name in ID_COLUMNS if name in names]
    values = [names.index(name) for name in VALUE_COLUMNS[what] if name in names]
    return (ids[0], values[0]) if ids and values else (0, 1)
