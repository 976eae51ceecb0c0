"""Access to the uncompressed bytes of a file, whole or in part."""

from __future__ import annotations

import zipfile
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FilePart(NamedTuple):
    """One of `n_parts` parts of about equal size of a file."""

    number: int = 0
    n_parts: int = 1


WHOLE_FILE = FilePart()


class File(NamedTuple):
    """A path with its format and compression (see `file_formats.identify`), and access to its content."""

    path: Path  # shown in messages
    format: str
    compression: str | None
    content: bytes | None = None  # replaces the content of the file at `path`
    byte_range: tuple[int, int] | None = None  # read only these bytes; uncompressed files only
    encoding: str | None = None  # of the text, UTF-8 if None
    member: str | None = None  # of a .zip archive

    @property
    def size(self) -> int:
        """Bytes of the file as stored, compressed or not."""
        return self.path.stat().st_size if self.content is None else len(self.content)

    @property
    def is_plain(self) -> bool:
        """Whether the bytes at `path` are the text itself, so that parts of it can be read."""
        return not (self.compression or self.encoding or self.member) and self.content is None

    def open(self) -> pa.NativeFile:
        """A stream of the uncompressed bytes without a byte order mark."""
        return self.streams()[0]

    def read_ahead(self, block_bytes: int, n_skipped: int = 0) -> ReadAhead:
        """The same stream from a byte on, read by a background thread."""
        stream, stored = self.streams()
        while n_skipped and (skipped := len(stream.read(n_skipped))):
            n_skipped -= skipped
        return ReadAhead(stream, stored, block_bytes)

    def streams(self) -> tuple[pa.NativeFile, pa.NativeFile]:
        """A stream of the uncompressed bytes without byte order marks, and the underlying stream of stored bytes."""
        if self.byte_range is not None:
            stream = _ByteRange(pa.OSFile(str(self.path)), *self.byte_range)
            return stream, stream
        stream, stored = self._from_start()
        n_marks = 0
        while stream.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK:  # files joined end to end begin with several
            n_marks += 1
        stream.close()
        stream, stored = self._from_start()
        stream.read(n_marks * len(_BYTE_ORDER_MARK))
        return stream, stored

    def _from_start(self) -> tuple[pa.NativeFile, pa.NativeFile]:
        stored = pa.OSFile(str(self.path)) if self.content is None else pa.BufferReader(self.content)
        stream = pa.CompressedInputStream(stored, self.compression) if self.compression else stored
        if self.member is not None:
            stream = pa.PythonFile(zipfile.ZipFile(stored).open(self.member), mode="r")  # noqa: SIM115
        if self.encoding:
            stream = pa.transcoding_input_stream(stream, self.encoding, "utf-8")
        return stream, stored


def byte_order_mark_length(file: File) -> int:
    """Length in bytes of the byte order marks of an uncompressed file, 0 if it has none."""
    length = 0
    with open(file.path, "rb") as stream:
        while stream.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK:
            length += len(_BYTE_ORDER_MARK)
    return length


def line_range(file: File, first: int, part: FilePart) -> tuple[int, int]:
    """The byte range of one part of an uncompressed file from byte `first` on, extended to whole lines."""
    size = file.size
    edges = [first + max(0, size - first) * edge // part.n_parts for edge in (part.number, part.number + 1)]
    with open(file.path, "rb") as stream:
        low, high = (_next_line(stream, edge) if first < edge < size else edge for edge in edges)
    return low, high


def _next_line(stream: BinaryIO, position: int) -> int:
    """The first byte at or after `position` that begins a line."""
    stream.seek(position - 1)
    stream.readline()
    return stream.tell()


class _ByteRange:
    """The bytes of an open file from `start` to `stop`."""

    def __init__(self, stored: pa.NativeFile, start: int, stop: int):
        self._stored, self._stop = stored, stop
        stored.seek(start)

    def read(self, size: int) -> bytes:
        return bytes(self._stored.read(max(0, min(size, self._stop - self._stored.tell()))))

    def tell(self) -> int:
        return int(self._stored.tell())

    @property
    def closed(self) -> bool:
        return bool(self._stored.closed)

    def close(self) -> None:
        self._stored.close()


class ReadAhead:
    """A stream whose next blocks are read, and decompressed, by a background thread."""

    _BLOCKS_AHEAD = 3

    def __init__(self, stream: pa.NativeFile, stored: pa.NativeFile, block_bytes: int):
        self._stream, self._stored, self._block_bytes = stream, stored, block_bytes
        self._thread = ThreadPoolExecutor(1)
        self._pending: deque[Future[bytes]] = deque()
        self._at_end = False

    def read(self, size: int | None = None) -> bytes:
        """The next block of at most `block_bytes`, whatever `size` is; empty at the end."""
        while not self._at_end and len(self._pending) < self._BLOCKS_AHEAD:
            self._pending.append(self._thread.submit(self._stream.read, self._block_bytes))
        block = self._pending.popleft().result() if self._pending else b""
        self._at_end = self._at_end or not block
        return block

    @property
    def position(self) -> int:
        """How many stored bytes have been read."""
        return int(self._stored.tell())

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return bool(self._stored.closed)

    def close(self) -> None:
        """Stop reading."""
        self._thread.shutdown(cancel_futures=True)
        self._stream.close()
        self._stored.close()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
