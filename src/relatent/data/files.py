"""Files of facts: which kind one is, and its uncompressed bytes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from ..errors import DataError

_KINDS = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".parquet": "parquet", ".nt": "nt", ".ttl": "ttl"}
_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_KNOWN = "known are .tsv, .txt (tab-separated), .csv, .parquet, .nt and .ttl, each plain or with .gz, .zst or .bz2"
_BOM = b"\xef\xbb\xbf"


class File(NamedTuple):
    """A path, what its endings say, and a way to its content."""

    path: Path
    kind: str
    codec: str | None
    content: bytes | None = None  # stands in for the file at path

    @property
    def separator(self) -> str:
        """What stands between the fields of a text file."""
        return "," if self.kind == "csv" else "\t"

    def open(self) -> pa.NativeFile:
        """The uncompressed bytes, without a byte order mark."""
        stream = self._open()
        if stream.read(len(_BOM)) == _BOM:
            return stream
        stream.close()
        return self._open()

    def _open(self) -> pa.NativeFile:
        source = str(self.path) if self.content is None else pa.BufferReader(self.content)
        return pa.input_stream(source, compression=self.codec)


def identify(path: Path) -> File:
    """What kind of file it is, by its endings."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder, expected a file of facts")
    if not path.exists():
        raise DataError(f"{path}: no such file")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    codec = _CODECS.get(suffixes.pop()) if suffixes and suffixes[-1] in _CODECS else None
    kind = _KINDS.get(suffixes[-1]) if suffixes else None
    if kind is None:
        raise DataError(f"{path}: unknown kind of file; {_KNOWN}")
    return File(path, kind, codec)


def one_line(problem: object) -> str:
    """A message of another library without its line breaks."""
    return " ".join(str(problem).split())
