"""The table of a source, whatever it is: a file, a database, an endpoint, a graph, a table or a list; and its facts.

To add a format of files, write a module with a function `(file, reading) -> Table`, add its extension in `files`, and
the function in READERS.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from ...errors import DataError
from ..attribute_table import AttributeTable
from ..facts import Facts
from .encode import encode
from .files import File, identify, naming_the_source
from .lint import repeated_header
from .reading import N_SHOWN_ROWS, Reading
from .roles import EDGE_RELATION, Roles, fact_roles, with_notation
from .table import Table, in_blocks, read_frame, read_rows

READERS = {  # format → module and function; those of RDF are not listed
    **dict.fromkeys(("tsv", "csv", "edges"), "delimited.read_text"),
    **dict.fromkeys(("json", "jsonl"), "json_rows.read_json"),
    **dict.fromkeys(("graphml", "gexf", "gml"), "graphs.read_graph_file"),
    **dict.fromkeys(("sqlite", "duckdb"), "sql.read_database_file"),
    "parquet": "parquet.read_parquet",
}


def open_table(source: Any, reading: Reading) -> Table:
    """The table of a source."""
    if isinstance(source, str) and source.startswith("sparql+"):
        from .sparql import read_sparql

        return read_sparql(source, reading)
    if is_url(source) or reading.sql is not None:
        from .sql import read_sql

        return read_sql(str(source), reading)
    if isinstance(source, (str, os.PathLike)):
        return open_file(identify(Path(source), reading.format), reading)
    return _of_object(source, reading)


def open_file(file: File, reading: Reading) -> Table:
    """The table of a file, or of a part of a TSV, CSV or Parquet file."""
    # The readers are imported when needed: they import Numba, Arrow or pyoxigraph, which is slow.
    module, _, function = READERS.get(file.format, "rdf.read_rdf").partition(".")
    with naming_the_source(file.path):
        table: Table = getattr(import_module(f".{module}", __package__), function)(file, reading)
    return table


def read_source(source: Any, reading: Reading) -> Facts:
    """The facts of one source; `reading` has the choices, and is filled with how the source was understood."""
    if sp.issparse(source):
        return _from_matrix(source, reading)
    if isinstance(source, np.ndarray) and source.ndim == 3:
        return Facts.from_tensor(source)
    is_path = isinstance(source, (str, os.PathLike)) and not is_url(source) and reading.sql is None
    if is_path:
        return read_file(identify(Path(source), reading.format), reading)
    return facts_of(open_table(source, reading), reading)


def read_file(file: File, reading: Reading) -> Facts:
    """The facts of a file."""
    table = open_file(file, reading)
    if file.format == "ntriples":
        from .ntriples import scanned_facts

        with naming_the_source(file.path):
            if (facts := scanned_facts(file, reading)) is not None:
                return facts
    return facts_of(table, reading)


def facts_of(table: Table, reading: Reading, *, may_be_empty: bool = False) -> Facts:
    """The facts of a table."""
    roles = table.roles or _roles(table, reading)
    facts = encode(table, roles, reading, may_be_empty=may_be_empty)
    if table.roles is not None:
        reading.understood |= {**table.understood, "first_rows": facts.named(facts.triples[:N_SHOWN_ROWS])}
        return facts
    if table.names:
        columns = [table.names[place] for place in roles.positions[: roles.n_names]]
        reading.lints.extend(filter(None, [repeated_header(facts, columns, roles.edge_relation)]))
    if reading.attributes and table.names and table.is_repeatable:
        others = [place for place in range(len(table.names)) if place not in roles.positions]
        facts = facts.with_attributes(_further_columns(table, roles.positions[0], others))
    return facts


def _roles(table: Table, reading: Reading) -> Roles:
    """The roles of the columns; those of a table with the same header in another file of the call."""
    known = None if table.header is None else reading.headers.get(table.header)
    blank = reading.skip_bad_rows
    if known is not None:
        roles = with_notation(known, table.names, table.sample, table.source, may_be_blank=blank)
    else:
        given = (reading.columns, reading.relation)
        roles = fact_roles(table.names, table.sample, *given, table, may_be_blank=blank)
    if table.header is not None:
        reading.headers[table.header] = roles.without_notes()
    reading.understand(roles, table.names, table.sample)
    return roles


def _further_columns(table: Table, subject: int, others: Sequence[int]) -> AttributeTable:
    """The columns of facts that have no role, as attributes of the subjects."""
    names = [table.names[place].strip() for place in others]
    seen: set[tuple[str, str, str]] = set()  # a subject has many rows

    def cells() -> Iterator[tuple[str, str, str]]:
        for entity, *values in table.values([subject, *others]):
            for name, value in zip(names, values, strict=True):
                cell = (str(entity).strip(), name, "" if value is None else str(value))
                if cell not in seen:
                    seen.add(cell)
                    yield cell

    return AttributeTable.of_rows(cells())


def is_url(source: Any) -> bool:
    """Whether a source is the address of a database or an endpoint."""
    return isinstance(source, str) and "://" in source


def _of_object(source: Any, reading: Reading) -> Table:
    """The table of an object, recognised without importing its library."""
    if _is_a(source, "networkx", "Graph"):
        from .graphs import read_networkx

        return read_networkx(source, reading)
    if _is_a(source, "rdflib", "Graph"):
        from .graphs import read_rdflib

        return read_rdflib(source, reading)
    if isinstance(source, np.ndarray):
        return _of_array(source, reading)
    if isinstance(source, (list, tuple, Iterator)) and not hasattr(source, "__arrow_c_stream__"):
        reading.understood["format"] = "list"
        is_list = not isinstance(source, Iterator)
        total = len(source) if isinstance(source, (list, tuple)) else 0
        return read_rows(lambda: in_blocks(source), reading, "list", total=total, is_repeatable=is_list)
    if _is_a(source, "polars", "LazyFrame"):
        source = source.collect()
    return read_frame(source, reading)


def _is_a(source: Any, library: str, name: str) -> bool:
    """Whether an object is an instance of a class of a library, which must have been imported then."""
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(source, kind)


def _from_matrix(matrix: sp.spmatrix, reading: Reading) -> Facts:
    """An edge from row i to column j for every stored value; values other than 1 are weights."""
    coo = matrix.tocoo()
    if coo.shape[0] != coo.shape[1]:
        raise DataError(
            f"a matrix of edges must be square, got shape {coo.shape}; for two kinds of entities pass a list"
        )
    if coo.dtype.kind not in "biuf":
        raise DataError(f"a matrix of edges must hold numbers, got values of type {coo.dtype}")
    coo.sum_duplicates()
    coo.eliminate_zeros()
    reading.understood["format"] = "SciPy matrix"
    return Facts.from_arrays(
        coo.row,
        np.zeros(coo.nnz, np.int64),
        coo.col,
        n_entities=coo.shape[0],
        relation_names=[reading.relation or EDGE_RELATION],
        weights=None if (coo.data == 1).all() else coo.data,
    )


def _of_array(array: np.ndarray[Any, Any], reading: Reading) -> Table:
    """Rows (subject, relation, object), (subject, object), or either with a weight."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise DataError("an array of facts must have no masked values; drop the rows with compress or fill them")
    if array.dtype.names:
        return read_frame(pa.table({name: array[name] for name in array.dtype.names}), reading)
    if array.ndim != 2:
        raise DataError(f"an array of facts must have shape (n, 3), (n, 2) or (N, N, K), got {array.shape}")
    reading.understood["format"] = "NumPy array"
    rows = array.tolist()
    if array.dtype.kind == "f" and array.shape[1] in (2, 3, 4) and (array[:, :2] == np.round(array[:, :2])).all():
        columns = [column.astype(np.int64) if (column == np.round(column)).all() else column for column in array.T]
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
    return read_rows(lambda: in_blocks(rows), reading, "array", total=len(array))
