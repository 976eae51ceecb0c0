"""Types or labels from a file: two columns, id and value, as CSV or TSV, or a JSON object by id."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError, one_line
from ...json_values import parse_json
from ..types_in_facts import rdf_types
from .file_content import File
from .file_formats import identify, naming_the_file, read_file
from .reading import Reading

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
    with naming_the_file(file):
        text = text_of(file)
    if file.format == "json":
        pairs = _json_pairs(path, text, what)
    elif file.format in ("csv", "tsv"):
        pairs = _rows(path, text, what)
    else:
        raise DataError(f"{path}: a file of {what}s must be CSV, TSV, JSON or RDF, got {file.format}")
    found = {}
    for key, value in pairs:
        if value:
            found.setdefault(key, []).append(value)
    if not found:
        raise DataError(f"{path}: contains no {what}s")
    return found


def text_of(file: File) -> str:
    """The text of a small file."""
    with file.open() as stream:
        content = bytes(stream.read())
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise DataError(f"{file.path}: is not UTF-8; convert it") from None


def json_of(path: Path, text: str) -> Any:
    """The JSON document that a text is."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{path}: is not JSON: {one_line(problem)}") from None


def separated_rows(text: str) -> Any:
    """A reader of the rows of CSV or TSV text; the first line shows the separator."""
    first = text.partition("\n")[0]
    separator = next((character for character in "\t,;" if character in first), ",")
    return csv.reader(
        io.StringIO(text),
        delimiter=separator,
        quoting=csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL,
        strict=True,
    )


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


def _json_pairs(path: Path, text: str, what: str) -> Iterator[tuple[str, str]]:
    document = json_of(path, text)
    if not isinstance(document, dict):
        raise DataError(f"{path}: expected a JSON object of {what}s by id, got {type(document).__name__}")
    for key, given in document.items():
        value: Any = given.get(what) if isinstance(given, dict) else given
        for one in value if isinstance(value, list) else [value]:
            if one is not None and not isinstance(one, str):
                raise DataError(f"{path}: the {what} of {key!r} must be text, got {one!r}")
            yield key, one or ""


def _rows(path: Path, text: str, what: str) -> Iterator[tuple[str, str]]:
    rows = separated_rows(text)
    columns: tuple[int, int] | None = None
    try:
        for row in rows:
            if not row:
                continue
            if columns is None:
                columns = _columns(row, what)
                if columns != (0, 1) or row[0].strip().lower() in ID_COLUMNS:
                    continue
            if len(row) <= max(columns) or (columns == (0, 1) and len(row) != 2):
                raise DataError(
                    f"{path}:{rows.line_num}: expected two columns, id and {what}, got {len(row)}; more columns need a "
                    f"header with the names {ID_COLUMNS[0]} and {what}"
                )
            yield row[columns[0]].strip(), row[columns[1]].strip()
    except csv.Error as problem:
        raise DataError(f"{path}:{rows.line_num}: {one_line(problem)}") from None


def _columns(header: Sequence[str], what: str) -> tuple[int, int]:
    """The positions of ids and values: by their names in the header, otherwise the first two columns."""
    names = [name.strip().lower() for name in header]
    ids = [names.index(name) for name in ID_COLUMNS if name in names]
    values = [names.index(name) for name in VALUE_COLUMNS[what] if name in names]
    return (ids[0], values[0]) if ids and values else (0, 1)
