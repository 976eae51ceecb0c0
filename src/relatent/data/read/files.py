"""Files of facts: which kind one is, and its uncompressed bytes."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from ...errors import DataError

_KINDS = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".parquet": "parquet", ".nt": "nt", ".ttl": "ttl"}
_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_KNOWN = "known are .tsv, .txt (tab-separated), .csv, .parquet, .nt and .ttl, each plain or with .gz, .zst or .bz2"
_BOM = b"\xef\xbb\xbf"


class Part(NamedTuple):
    """Which of several equal parts of a file is meant."""

    number: int = 0
    of: int = 1


WHOLE = Part()


class File(NamedTuple):
    """A path, what its endings say, and a way to its content."""

    path: Path
    kind: str
    codec: str | None
    content: bytes | None = None  # stands in for the file at path
    cut: tuple[int, int] | None = None  # only the bytes from here to there, of a plain file

    @property
    def separator(self) -> str:
        """What stands between the fields of a text file."""
        return "," if self.kind == "csv" else "\t"

    @property
    def size(self) -> int:
        """Bytes of the file as it stands, compressed or not."""
        return self.path.stat().st_size if self.content is None else len(self.content)

    def open(self) -> pa.NativeFile:
        """The uncompressed bytes, without a byte order mark."""
        return self.streams()[0]

    def read_ahead(self, block: int) -> ReadAhead:
        """The same, read by a thread of its own while the last blocks are worked on."""
        return ReadAhead(*self.streams(), block)

    def streams(self) -> tuple[pa.NativeFile, pa.NativeFile]:
        """The uncompressed bytes, without a byte order mark, and the file as it stands."""
        if self.cut is not None:
            stretch = _Stretch(pa.OSFile(str(self.path)), *self.cut)
            return stretch, stretch
        stream, raw = self._from_start()
        if stream.read(len(_BOM)) == _BOM:
            return stream, raw
        stream.close()
        return self._from_start()

    def _from_start(self) -> tuple[pa.NativeFile, pa.NativeFile]:
        raw = pa.OSFile(str(self.path)) if self.content is None else pa.BufferReader(self.content)
        return (pa.CompressedInputStream(raw, self.codec) if self.codec else raw), raw


def byte_order_mark(file: File) -> int:
    """How many bytes of a plain file a byte order mark takes."""
    with open(file.path, "rb") as stream:
        return len(_BOM) if stream.read(len(_BOM)) == _BOM else 0


def line_cut(file: File, first: int, part: Part) -> tuple[int, int]:
    """Where a part of the lines of a plain file, from the byte `first` on, begins and ends."""
    size = file.size
    edges = [first + max(0, size - first) * number // part.of for number in (part.number, part.number + 1)]
    with open(file.path, "rb") as stream:
        low, high = (_next_line(stream, edge) if first < edge < size else edge for edge in edges)
    return low, high


def _next_line(stream: BinaryIO, place: int) -> int:
    """The first place, from here on, where a line begins."""
    stream.seek(place - 1)
    stream.readline()
    return stream.tell()


class _Stretch:
    """The bytes of an open file from one place to another."""

    def __init__(self, raw: pa.NativeFile, start: int, stop: int):
        self._raw, self._stop = raw, stop
        raw.seek(start)

    def read(self, size: int) -> bytes:
        return bytes(self._raw.read(max(0, min(size, self._stop - self._raw.tell()))))

    def tell(self) -> int:
        return int(self._raw.tell())

    @property
    def closed(self) -> bool:
        return bool(self._raw.closed)

    def close(self) -> None:
        self._raw.close()


class ReadAhead:
    """A stream read block by block; the next blocks are read, and uncompressed, in a thread of its own."""

    _DEPTH = 3

    def __init__(self, stream: pa.NativeFile, raw: pa.NativeFile, block: int):
        self._stream, self._raw, self._block = stream, raw, block
        self._thread = ThreadPoolExecutor(1)
        self._coming: deque[Future[bytes]] = deque()
        self._at_end = False

    def read(self, size: int | None = None) -> bytes:
        """The next block, of the size that was asked for at the start, or less; nothing at the end."""
        while not self._at_end and len(self._coming) < self._DEPTH:
            self._coming.append(self._thread.submit(self._stream.read, self._block))
        block = self._coming.popleft().result() if self._coming else b""
        self._at_end = self._at_end or not block
        return block

    @property
    def position(self) -> int:
        """How far the file as it stands has been read."""
        return int(self._raw.tell())

    @property
    def closed(self) -> bool:
        """Whether it can be read no more."""
        return bool(self._raw.closed)

    def close(self) -> None:
        """Stop reading."""
        self._thread.shutdown(cancel_futures=True)
        self._stream.close()
        self._raw.close()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
