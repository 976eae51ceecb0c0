"""File formats: which extension means which format, and which module reads it."""

from __future__ import annotations

import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import pyarrow as pa

from ...errors import DataError, one_line
from ..facts import Facts
from .file_content import WHOLE_FILE, File, FilePart
from .reading import Reading

FORMATS = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".edgelist": "edges",
    ".edges": "edges",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".nt": "ntriples",
    ".nq": "nquads",
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".trig": "trig",
    ".n3": "n3",
    ".rdf": "rdfxml",
    ".owl": "rdfxml",
    ".jsonld": "jsonld",
    ".graphml": "graphml",
    ".gexf": "gexf",
    ".gml": "gml",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".duckdb": "duckdb",
}
SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
STDIN = "-"
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError)
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}


def identify(path: Path, format_: str | None = None) -> File:
    """The format and compression of a file by its extensions; `format_` overrides the former."""
    if format_ is not None and format_ not in FORMATS.values():
        raise DataError(f"unknown format {format_!r}; use one of {', '.join(dict.fromkeys(FORMATS.values()))}")
    if str(path) == STDIN:
        return _standard_input(format_)
    if path.is_dir():
        raise DataError(f"{path}: is a folder, expected a file of facts; for several files pass '{path}/*.tsv'")
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if path.suffix.lower() == ".zip":
        return _zip_member(path, format_)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = COMPRESSIONS.get(suffixes.pop()) if suffixes and suffixes[-1] in COMPRESSIONS else None
    found = format_ or (FORMATS.get(suffixes[-1]) if suffixes else None)
    if found is None and suffixes and suffixes[-1] == ".relatent":
        raise DataError(f"{path}: a relatent model, expected facts; give the data that it was fitted to")
    if found is None and suffixes and suffixes[-1] in SPREADSHEETS:
        raise DataError(
            f"{path}: a spreadsheet; save it as CSV, or in Python read it with pandas: "
            f"relatent.read(pandas.read_excel({path.name!r}))"
        )
    if found is None:
        raise DataError(
            f"{path}: unknown file extension; use one of {', '.join(FORMATS)}, optionally followed by "
            f"{', '.join(COMPRESSIONS)} or .zip; or say what it is, such as format='csv'"
        )
    return File(path, found, compression)


def _zip_member(path: Path, format_: str | None) -> File:
    """The only file of facts in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
            is_encrypted = any(entry.flag_bits & 1 for entry in archive.infolist())
    except (OSError, ValueError, *ZIP_ERRORS) as problem:
        raise DataError(f"{path}: is not a valid .zip archive: {one_line(problem)}") from None
    if is_encrypted:
        raise DataError(f"{path}: the archive is encrypted; extract it and pass the file")
    visible = [name for name in names if not name.startswith("__MACOSX/") and not name.split("/")[-1].startswith(".")]
    known = [name for name in visible if format_ or PurePosixPath(name).suffix.lower() in FORMATS]
    if len(known) != 1:
        found = ", ".join(visible[:10]) or "nothing"
        raise DataError(
            f"{path}: expected one file of facts in the archive, got {found}; extract it and pass the files"
        )
    return File(path, format_ or FORMATS[PurePosixPath(known[0]).suffix.lower()], None, member=known[0])


def _standard_input(format_: str | None) -> File:
    """What standard input holds; its format is recognised by its first bytes."""
    content = sys.stdin.buffer.read()
    compression = next((name for magic, name in _MAGIC.items() if content.startswith(magic)), None)
    file = File(Path("standard input"), "tsv", compression, content)
    with naming_the_file(file), file.open() as stream:
        start = bytes(stream.read(4096)).lstrip()
    first_line = start.split(b"\n", 1)[0]
    if start.startswith(b"PAR1"):
        guess = "parquet"
    elif start.startswith((b"{", b"[")):
        guess = "jsonl"
    elif start.startswith((b"<", b"_:")) and first_line.rstrip().endswith(b"."):
        guess = "ntriples"
    elif start.lower().startswith((b"@prefix", b"@base", b"prefix ")):
        guess = "turtle"
    else:
        guess = "tsv" if b"\t" in first_line else "csv"
    return file._replace(format=format_ or guess)


def read_file(file: File, reading: Reading, part: FilePart = WHOLE_FILE) -> Facts:
    """The facts of a file, or of a part of a TSV, CSV or Parquet file, which may have none."""
    # The readers are imported when needed: they import Numba, Arrow or pyoxigraph, which is slow.
    with naming_the_file(file):
        if file.format in ("tsv", "csv", "edges"):
            from .delimited import read_delimited

            return read_delimited(file, reading, part)
        if file.format == "parquet":
            from .parquet import read_parquet

            return read_parquet(file, reading, part)
        if file.format in ("json", "jsonl"):
            from .json_rows import read_json

            return read_json(file, reading)
        if file.format in ("graphml", "gexf", "gml"):
            from .graphs import read_graph_file

            return read_graph_file(file, reading)
        if file.format in ("sqlite", "duckdb"):
            from .sql import read_sql

            return read_sql(f"{file.format}:///{quote(str(file.path))}", None, reading)  # a name is no query
        from .rdf import read_rdf

        return read_rdf(file, reading)


def parse_tsv(content: bytes, name: str) -> Facts:
    """Facts from the bytes of a tab-separated file without a header; errors call the file `name`."""
    return read_file(File(Path(name), "tsv", None, content), Reading(header=False, sep="\t", strip=False))


@contextmanager
def naming_the_file(file: File) -> Iterator[None]:
    """Convert errors of the operating system and of Arrow into errors that name the file."""
    try:
        yield
    except (OSError, pa.ArrowInvalid, *ZIP_ERRORS) as problem:
        # Arrow raises OSError for a truncated or damaged compressed file, too
        raise DataError(f"{file.path}: cannot be read: {one_line(problem)}") from None
