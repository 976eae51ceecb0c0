"""File formats: which extension means which format, and which module reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...errors import DataError, one_line
from ...progress import Progress, silent
from ..facts import Facts
from .file_content import WHOLE_FILE, File, FilePart

FORMATS = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".parquet": "parquet", ".nt": "ntriples", ".ttl": "turtle"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


def identify(path: Path) -> File:
    """The format and compression of a file by its extensions."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder, expected a file of facts")
    if not path.exists():
        raise DataError(f"{path}: no such file")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = COMPRESSIONS.get(suffixes.pop()) if suffixes and suffixes[-1] in COMPRESSIONS else None
    format_ = FORMATS.get(suffixes[-1]) if suffixes else None
    if format_ is None:
        raise DataError(
            f"{path}: unknown file extension; use one of {', '.join(FORMATS)}, "
            f"optionally followed by {', '.join(COMPRESSIONS)}"
        )
    return File(path, format_, compression)


def read_file(
    file: File,
    columns: Sequence[str] | None,
    header: bool | None,
    report: Progress,
    part: FilePart = WHOLE_FILE,
) -> Facts:
    """The facts of a file, or of a part of a TSV, CSV or Parquet file, which may have none."""
    # The readers are imported when needed: they import Numba, Arrow or pyoxigraph, which is slow.
    with naming_the_file(file):
        if file.format in ("tsv", "csv"):
            from .delimited import read_delimited

            return read_delimited(file, columns, header, report, part)
        if file.format == "parquet":
            from .parquet import read_parquet

            return read_parquet(file, columns, report, part)
        from .rdf import read_rdf

        return read_rdf(file, columns, report)


def parse_tsv(content: bytes, name: str) -> Facts:
    """Facts from the bytes of a tab-separated file without a header; errors call the file `name`."""
    return read_file(File(Path(name), "tsv", None, content), None, False, silent)


@contextmanager
def naming_the_file(file: File) -> Iterator[None]:
    """Convert errors of the operating system and of Arrow into errors that name the file."""
    try:
        yield
    except OSError as problem:  # Arrow raises it for a truncated or damaged compressed file, too
        raise DataError(f"{file.path}: cannot be read: {one_line(problem)}") from None
