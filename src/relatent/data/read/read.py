"""`relatent.read`: facts from a file, a database, a table or a graph, whatever its format."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from ...distributed.workers import ALONE, Workers
from ...errors import DataError, DataWarning
from ...progress import Progress, reporting
from ..facts import Facts
from ..facts_union import union
from ..undirected import Undirected
from .annotations import (
    INFER,
    NONE,
    AttributesSource,
    LabelsSource,
    TypesSource,
    annotated,
    warn_of_entities_without_facts,
)
from .files import STDIN
from .lint import missing_markers
from .reading import Reading
from .sources import is_url, read_source
from .sql import database_files, shown_url


def read(
    source: Any,
    *,
    columns: Sequence[str | int] | Mapping[str, str | int] | None = None,
    header: bool | None = None,
    sep: str | None = None,
    relation: str | None = None,
    encoding: str | None = None,
    strip: bool = True,
    format: str | None = None,
    sql: str | None = None,
    types: TypesSource | None = None,
    labels: LabelsSource | None = None,
    language: str | None = None,
    attributes: AttributesSource = None,
    skip_bad_rows: bool = False,
    undirected: Undirected = False,
    progress: bool | Progress | None = None,
    workers: Workers | None = None,
) -> Facts:
    """Facts from a file, a database, a table, a graph or a list.

    Names are taken literally, but blanks around them are removed: there is no missing-value marker (names such as NA
    and null are counted in a warning), and quotes in TSV files are part of the name. Ids of entities and relations
    follow the sorted names. RDF triples whose object is a literal are left out unless they are labels or attributes.
    A `DataWarning` says what was left out, and what was decided that the caller may want to
    change; `relatent info FILE` shows how a file is understood.

    Parameters
    ----------
    source : path, URL of a database, table, graph or list
        A file: TSV (`.tsv`, `.txt`), CSV, Parquet, JSON lines, RDF (`.nt`, `.nq`, `.ttl`, `.trig`, `.n3`, `.rdf`,
        `.jsonld`), GraphML, GEXF, SQLite or DuckDB; plain or compressed (`.gz`, `.zst`, `.bz2`, `.zip`). Several
        files: a pattern such as `"facts/*.tsv"`, or a list of paths. `"-"` is standard input. A database:
        `"sqlite:///file.db?table=facts"`, `"duckdb:///…"`, an SQLAlchemy URL, or a SPARQL endpoint,
        `"sparql+https://…?query-file=q.rq"`. A table: pandas, polars or Arrow. A graph: networkx (its relations are
        undirected if its edges are) or rdflib. A list of (subject, relation, object), of (subject, object) or of dicts;
        a NumPy array with such rows; a SciPy sparse matrix.
    columns : sequence of column names or positions, or dict, optional
        Columns of subject, relation, object and, if four are given, weight; if two are given, of subject and object.
        A dict gives them by role: `{"subject": "a", "object": "b", "weight": "w"}`. By default, columns with common
        names (subject, relation, object; head, relation, tail; source, type, target; … and weight) are used, in any
        order, and other columns are ignored; without common names there must be three columns, or four with weights,
        or two. A column named count, counts, times or frequency says how often a fact was seen (`Facts.times`).
    header : bool, optional
        Whether the first row of a TSV or CSV file holds column names; by default it does if the names are common ones,
        if a column below it holds only numbers, dates, IRIs or codes, or if it is the only one of the first rows whose
        values occur in no other. The rows below are read after that is decided.
    sep : str, optional
        The character that separates the fields of a text file; by default a tab in TSV and a comma in CSV files, or
        the one of `; | , tab` that gives more rows the same number of fields.
    relation : str, optional
        The relation of an edge list, which has no column for it; by default "linked".
    encoding : str, optional
        Of a text file; by default UTF-8.
    strip : bool
        Remove the blanks around names.
    format : str, optional
        The format of a file whose extension does not tell it: tsv, csv, parquet, jsonl, turtle, …
    sql : str, optional
        A query, in SQL or SPARQL, whose columns are those of a table; `source` is the database.
    types : path, mapping, "infer" or "none", optional
        Types of entities: a table with the columns id and type, a JSON file or mapping {id: type or types},
        "infer" for the roles that entities have in the facts, or "none". By default the objects of rdf:type facts,
        which stay facts as well. Models offer no answers of a wrong type.
    labels : path or mapping, optional
        Labels of entities, relations and types: a table with the columns id and label, or a JSON file or
        mapping {id: label} or {id: {"label": label}}; beside the rdfs:label triples of RDF files, which are labels and
        not facts.
    language : str, optional
        The preferred language of rdfs:label triples; by default that of the environment (LANG), then English.
    attributes : bool, path, mapping or table, optional
        Attributes of entities, from which models learn: True for the literals of RDF and the columns of a table that
        have no role, both attributes of the subject; a table or file with a column of entities and one column per
        attribute (CSV, TSV, Parquet, JSON lines), RDF, or {entity: {attribute: value}}. Numbers and dates become
        quantile bins, texts become words. A value that is not there is unobserved.
    skip_bad_rows : bool
        Skip rows with too few or too many fields, without a name, or with a wrong weight, in place of an error, and
        say how many there are. Rows without any name, such as blank lines, are left out in any case.
    undirected : bool, str or sequence of str
        Relations whose facts have no direction, such as friends or co-authors: True for all, or their names. Both
        directions of each pair become facts; listing one of them, the other, or both is the same.
    progress : bool or function (done, total, note), optional
        True shows a progress bar on standard error. A function is called after each block with the bytes read of the
        file as stored on disk (for a table: the rows), their total, and a note with the number of facts.
    workers : Workers, optional
        Processes that read the file together, one part each: a byte range of an uncompressed TSV, CSV or N-Triples
        file, or some row groups of a Parquet file. Other files (compressed, Turtle, CSV with quotes) are read by the
        first worker and sent to the others. Each worker gets the facts of the subjects it owns, over the vocabulary
        of all workers.

    >>> read([("Ann", "likes", "Bob"), ("Bob", "likes", "Cid")]).named()
    [('Ann', 'likes', 'Bob'), ('Bob', 'likes', 'Cid')]
    """
    if isinstance(source, Facts):
        return annotated(source.with_undirected(undirected), types, labels, attributes=attributes)
    workers = workers or ALONE
    choices: dict[str, Any] = {"columns": columns, "header": header, "sep": sep, "relation": relation}
    choices |= {"encoding": encoding, "strip": strip, "language": language, "attributes": attributes is True}
    choices |= {"skip_bad_rows": skip_bad_rows, "format": format, "sql": sql, "headers": {}}
    facts = read_plain(source, choices, progress=progress, workers=workers).with_undirected(undirected)
    if workers.size > 1 and types in (None, INFER):  # each worker has a part of the facts only
        types = NONE
    facts = annotated(facts, types, labels, language, attributes)
    if attributes is True:
        warn_of_entities_without_facts(facts)
    return facts


def read_plain(
    source: Any,
    choices: Mapping[str, Any],
    *,
    progress: bool | Progress | None = None,
    workers: Workers = ALONE,
) -> Facts:
    """The facts without further types and labels; `choices`: arguments of `Reading.of`."""
    files = _files(source)
    if len(files) > 1 and workers.size == 1:
        return union([read_plain(file, choices, progress=progress) for file in files])
    where = name_of(files[0]) if files else "table"
    title = f"reading {where}" if files else "reading the table"
    is_file = bool(files) and not is_url(files[0])
    with reporting(progress if workers.rank == 0 else None, title, in_bytes=is_file) as report:
        reading = Reading.of(**choices, report=report)
        if workers.size > 1:
            from .parallel import read_together

            facts = read_together(files if reading.sql is None else (), source, reading, workers)
        else:
            facts = read_checked(files[0] if files else source, reading)
        reading.lints.extend(filter(None, [missing_markers(facts, workers)]))
    if workers.rank == 0:
        for note in reading.all_notes(where):
            warnings.warn(note, DataWarning, stacklevel=3)
    return facts


def read_checked(source: Any, reading: Reading) -> Facts:
    """Facts of one source; a note says if attributes were asked for and there are none."""
    facts = read_source(source, reading)
    if reading.attributes and facts.attributes is None:
        reading.notes.append("there are no literals or further columns whose values differ, so there are no attributes")
    return facts


def read_if_table(source: Any) -> Any:
    """The facts of a pandas, polars or Arrow table; anything else as it is."""
    return read(source) if hasattr(source, "__arrow_c_stream__") else source


def name_of(source: Any) -> str:
    """The name of a file or database, for messages; the password of a URL is left out."""
    return shown_url(source) if is_url(source) else "standard input" if str(source) == STDIN else str(source)


def files_of(source: str) -> list[str]:
    """The files that a source on the command line names, that of a database or of a query too."""
    if not is_url(source):
        return sorted(glob.glob(source, recursive=True)) if not os.path.exists(source) else [source]
    address, _, options = source.partition("?")
    return [*database_files(address), *(value for name, value in parse_qsl(options) if name == "query-file")]


def _files(source: Any) -> list[Any]:
    """The paths or URLs that a source names; none if it is a table, a graph or a list of rows."""
    if isinstance(source, os.PathLike):
        return [source]
    if isinstance(source, str):
        if is_url(source) or os.path.exists(source) or not glob.has_magic(source):
            return [source]
        found = sorted(glob.glob(source, recursive=True))
        if not found:
            raise DataError(f"{source}: no file matches this pattern")
        return found
    if isinstance(source, (list, tuple)) and source and all(isinstance(one, (str, os.PathLike)) for one in source):
        return [path for one in source for path in _files(one)]
    return []


def is_file_or_pattern(source: str) -> bool:
    """Whether a text names a file, several files, standard input or a database, not a data set of the catalog."""
    return source == STDIN or is_url(source) or os.path.exists(source) or glob.has_magic(source)
