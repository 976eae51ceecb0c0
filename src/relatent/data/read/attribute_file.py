"""Attributes of entities from a file or a table: one row per entity, or the literals of RDF."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..attribute_table import AttributeTable
from .columns import SUBJECT_AND_OBJECT_NAMES
from .file_content import File
from .file_formats import identify, naming_the_file
from .pairs_file import ID_COLUMNS, RDF_FORMATS, json_of, separated_rows

ENTITY_COLUMNS = (*ID_COLUMNS, "name", *(subject for subject, _ in SUBJECT_AND_OBJECT_NAMES))
TABLE_FORMATS = ("csv", "tsv", "parquet", "jsonl", "json")


def read_attribute_file(path: Path, language: str | None = None) -> AttributeTable:
    """The attributes in a table with a column of entities, in JSON by entity, or in the literals of RDF."""
    file = identify(path)
    if file.format in RDF_FORMATS:
        from .rdf import literals_of

        return AttributeTable.of_rows(literals_of(file, language, attributes=True).values)
    if file.format not in TABLE_FORMATS:
        raise DataError(f"{path}: a file of attributes must be CSV, TSV, Parquet, JSON or RDF, got {file.format}")
    with naming_the_file(file):
        records = _records(file)
        if isinstance(records, Mapping):
            return AttributeTable.of(records)
        return AttributeTable.of_rows(_values(records, str(path)))


def extra_columns(source: Any, roles: Mapping[str, str], where: str) -> AttributeTable:
    """The columns of facts that have no role, as attributes of the subjects."""
    records = _records(source) if isinstance(source, File) else rows_of_frame(source, where)
    if isinstance(records, Mapping):
        return AttributeTable({})
    return AttributeTable.of_rows(_values(records, where, roles["subject"], set(roles.values())))


def rows_of_table(source: Any, where: str) -> Iterator[tuple[str, str, str]]:
    """Entity, attribute and value of each cell of a table in memory."""
    return _values(rows_of_frame(source, where), where)


def rows_of_frame(source: Any, where: str) -> Iterable[Mapping[str, Any]]:
    """The rows of a pandas, polars or Arrow table."""
    from .frames import arrow_table, python_rows

    return python_rows(arrow_table(source), where)


def _values(
    records: Iterable[Mapping[str, Any]], where: str, entity_column: str | None = None, left_out: set[str] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Entity, attribute and value of each row; the entity is in the named column, or in one with a common name."""
    seen: set[tuple[str, str, str]] = set()
    for number, record in enumerate(records, 1):
        if not isinstance(record, Mapping) or not record:
            raise DataError(f"{where}: row {number} must be an object with an entity and its attributes")
        column = entity_column or _entity_column(list(record))
        entity = record.get(column)
        if entity is None or not str(entity).strip():
            raise DataError(f"{where}: row {number} has no entity in column {column!r}")
        for name, value in record.items():
            if name == column or value is None or (left_out and name in left_out):
                continue
            for text in map(str, value if isinstance(value, (list, tuple)) else (value,)):
                cell = (str(entity).strip(), str(name).strip(), text)
                if left_out is None or cell not in seen:  # of a table of facts, a subject has many rows
                    yield cell
                    seen.add(cell)


def _entity_column(names: list[str]) -> str:
    """The column with the names of the entities: the first with a common name, otherwise the first."""
    return next((name for name in names if str(name).strip().lower() in ENTITY_COLUMNS), names[0])


def _records(file: File) -> Iterable[Mapping[str, Any]] | Mapping[str, Any]:
    """The rows of a file, by column name; of a JSON object, what it has by entity."""
    if file.format == "parquet":
        import pyarrow.parquet as pq

        from .frames import python_rows

        with file.open() as stream:
            return python_rows(pq.read_table(io.BytesIO(bytes(stream.read()))), str(file.path))
    if file.format == "jsonl":
        from .json_rows import json_lines

        return json_lines(file)
    if file.format == "json":
        document = json_of(file)
        is_by_entity = isinstance(document, dict) and all(isinstance(one, dict) for one in document.values())
        if not is_by_entity and not isinstance(document, list):
            raise DataError(f"{file.path}: expected attributes by entity, or a list of rows")
        return document  # type: ignore[no-any-return]
    return _delimited(file)


def _delimited(file: File) -> Iterator[Mapping[str, Any]]:
    rows = separated_rows(file)
    header = [name.strip() for name in next(rows, (0, []))[1]]
    if len(header) < 2 or len(set(header)) < len(header):
        shown = ",".join(header)[:100]
        raise DataError(f"{file.path}: expected a header with different names of columns, got {shown!r}")
    for line, row in rows:
        if len(row) != len(header):
            raise DataError(f"{file.path}:{line}: expected {len(header)} columns, got {len(row)}")
        yield dict(zip(header, row, strict=True))
