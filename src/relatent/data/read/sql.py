"""Tables and queries of databases: SQLite, DuckDB, and what SQLAlchemy connects to."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ...errors import DataError, one_line
from .files import File
from .reading import Reading
from .table import Table, read_rows

LIST_OF_TABLES = {  # and views
    "sqlite": "SELECT name, type = 'view' FROM sqlite_master "
    "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'",
    "duckdb": "SELECT table_name, table_type = 'VIEW' FROM information_schema.tables",
}
GENERATED_COLUMNS = {  # of the table with this name: programs of whoever made the file
    "sqlite": "SELECT name FROM pragma_table_xinfo({}) WHERE hidden IN (2, 3)",
    "duckdb": "SELECT table_name FROM duckdb_tables() WHERE table_name = {} AND sql ILIKE '%generated always%'",
}
MAX_SHOWN_TABLES = 10
MAX_VALUE_BYTES = 1 << 20  # that SQLite may compute
MAX_VECTOR_MEMORY = "256MB"  # of 2,048 rows of DuckDB, which a few bytes may stand for
ROWS_PER_FETCH = 256


def read_database_file(file: File, reading: Reading) -> Table:
    """The only table of a SQLite or DuckDB file."""
    return read_sql(f"{file.format}:///{quote(str(file.path))}", reading)  # a name is no query


def read_sql(url: str, reading: Reading) -> Table:
    """A table (`?table=`) or query (`?query=`, or `sql`) of a database."""
    scheme, address, options = _parsed(url)
    table, query, sql = options.pop("table", None), options.pop("query", None), reading.sql
    if sum(given is not None for given in (table, query, sql)) > 1:
        raise DataError(f"{shown_url(url)}: give one of ?table=, ?query= and a query in SQL, got more than one")
    where = shown_url(url)

    def run() -> Iterator[Any]:
        with _connected(scheme, address, options, where, is_query=bool(sql or query)) as execute:
            statement = sql or query
            if statement is None:
                chosen = table or _only_table(scheme, execute, where)
                statement = f"SELECT * FROM {_quoted(chosen)}"
                _check_columns(scheme, execute, chosen, where)
            reading.understood |= {"format": f"{scheme} database", "query": statement}
            names, rows = execute(statement)
            yield names
            yield from rows

    def start() -> Iterator[list[Sequence[Any]]]:
        rows = run()
        next(rows)
        return rows

    answers = run()
    names = next(answers)
    pending = [answers]  # of the first pass
    return read_rows(lambda: pending.pop() if pending else start(), reading, where, names=names)


def _parsed(url: str) -> tuple[str, str, dict[str, str]]:
    """Scheme, path or server, and options of a URL; the path of a file alone is that of SQLite or DuckDB."""
    if "://" not in url:
        scheme = "duckdb" if url.endswith(".duckdb") else "sqlite"
        return scheme, url, {}
    scheme, _, rest = url.partition("://")
    address, _, options = rest.partition("?")
    if scheme in LIST_OF_TABLES:
        address = unquote(address).removeprefix("/")
    return scheme, address, dict(parse_qsl(options))


def database_files(url: str) -> list[str]:
    """The file of a SQLite or DuckDB database."""
    scheme, address, _ = _parsed(url)
    return [address] if scheme in LIST_OF_TABLES else []


def shown_url(url: str) -> str:
    """The URL without password and options; a password may have characters that end the address."""
    scheme, sign, rest = url.partition("://")
    if not sign:
        return url.split("?")[0]
    address = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" not in address and "@" in rest and not re.fullmatch(r"[^:]*(:\d*)?|\[.*", address):
        rest = rest.rpartition("@")[2]
    return f"{scheme}://{re.sub('^[^/]*@', '', rest)}".split("?")[0]


def _quoted(table: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def _only_table(scheme: str, execute: Any, where: str) -> str:
    """The table of a database that has only one; a view, which is a program of whoever made the file, must be named."""
    if scheme not in LIST_OF_TABLES:
        raise DataError(f"{where}: say which table or query to read: add ?table=NAME to the URL, or pass sql=")
    found_tables = list(chain.from_iterable(execute(LIST_OF_TABLES[scheme])[1]))
    tables = [str(name) for name, is_view in found_tables if not is_view]
    if len(tables) == 1 == len(found_tables):
        return tables[0]
    what = "tables" if len(tables) == len(found_tables) else "tables and views"
    tables += [f"{name:.60} (view)" for name, is_view in found_tables if is_view]
    found = ", ".join(f"{name!r:.80}" for name in tables[:MAX_SHOWN_TABLES]) + (
        ", …" if len(tables) > MAX_SHOWN_TABLES else ""
    )
    raise DataError(f"{where}: has {len(tables)} {what} ({found}); choose with ?table=NAME or sql=")


def _check_columns(scheme: str, execute: Any, table: str, where: str) -> None:
    """Raise if a column is computed when it is read: a small file may make it large."""
    if scheme not in GENERATED_COLUMNS:
        return
    literal = "'" + table.split(".")[-1].replace("'", "''") + "'"
    for (name,) in chain.from_iterable(execute(GENERATED_COLUMNS[scheme].format(literal))[1]):
        raise DataError(f"{where}: {name!r:.60} is computed when it is read; choose the columns with sql=")


@contextmanager
def _connected(scheme: str, address: str, options: dict[str, str], where: str, *, is_query: bool) -> Iterator[Any]:
    """A function that runs a statement and returns the names of the columns and the rows.

    A query is the user's own and may read other files; what a database file holds may not.
    """
    connection, run = None, None
    try:
        if scheme in LIST_OF_TABLES and not Path(address).is_file():
            raise DataError(f"{where}: no such file {address!r}")
        if scheme == "sqlite":
            connection = sqlite3.connect(
                f"{Path(address).absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
            )
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            run = connection.execute
        elif scheme == "duckdb":
            connection = _library("duckdb", where).connect(
                address,
                read_only=True,
                config={} if is_query else {"enable_external_access": "false", "memory_limit": MAX_VECTOR_MEMORY},
            )
            run = connection.execute
        else:
            connection, run = _sqlalchemy(f"{scheme}://{address}", options, where)
        yield lambda statement: _columns_and_rows(run(statement))
    except (DataError, MemoryError):
        raise
    except Exception as problem:  # every driver has errors of its own
        raise DataError(f"{where}: {one_line(problem, 300)}") from None
    finally:
        if connection is not None:
            connection.close()


def _sqlalchemy(url: str, options: dict[str, str], where: str) -> tuple[Any, Any]:
    library = _library("sqlalchemy", where)
    engine = library.create_engine(url + (f"?{urlencode(options)}" if options else ""))
    connection = engine.connect().execution_options(stream_results=True)
    return connection, lambda statement: connection.execute(library.text(statement)).cursor


def _library(name: str, where: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise DataError(f"{where}: needs {name}: pip install 'relatent[sql]'") from None


def _columns_and_rows(cursor: Any) -> tuple[list[str], Iterator[list[Sequence[Any]]]]:
    if cursor is None or cursor.description is None:
        raise DataError("the statement returns no rows; use SELECT")
    return [column[0] for column in cursor.description], _blocks(cursor)


def _blocks(cursor: Any) -> Iterator[list[Sequence[Any]]]:
    while block := cursor.fetchmany(ROWS_PER_FETCH):
        yield list(map(tuple, block))
