"""Files: which format and compression they have, and streams of their bytes, uncompressed and in UTF-8."""

from __future__ import annotations

import codecs
import lzma
import sys
import zipfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from ...errors import DataError, one_line

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
MAX_LINE_BYTES = 16 << 20  # no row, and no name, may be longer
MAX_DOCUMENT_BYTES = 1 << 28  # of a file that is read as a whole
MAX_DOCUMENT_VALUES = 5_000_000  # in a JSON document: Python takes about 100 bytes for each
MAX_EXPANSION = 200  # bytes for which one byte of a file may stand: compression and dictionaries make tens of it
MIN_EXPANDED = 1 << 26  # bytes from which on that is checked
_HEAD_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_NO_CHARSETS = ("unicode-escape", "raw-unicode-escape", "idna", "punycode", "undefined")
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
# Arrow raises OSError for a truncated or damaged compressed file, too
_DAMAGE = (
    OSError,
    pa.ArrowException,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    EOFError,
    UnicodeDecodeError,  # of the names in an archive
)
T = TypeVar("T")


class Stream(Protocol):
    """What the readers need of a stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, none at the end."""

    def close(self) -> None:
        """Stop reading."""


class FilePart(NamedTuple):
    """One of `n_parts` parts of about equal size of a file."""

    number: int = 0
    n_parts: int = 1


WHOLE = FilePart()


class File(NamedTuple):
    """A path with its format and compression (see `identify`), and access to its content."""

    path: Path  # shown in messages
    format: str
    compression: str | None = None
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

    def stored(self) -> pa.NativeFile:
        """A stream of the bytes as they are stored."""
        return pa.OSFile(str(self.path)) if self.content is None else pa.BufferReader(self.content)

    def open(self) -> Content:
        """A stream of the uncompressed bytes, in UTF-8 without byte order marks."""
        return Content(self)

    def document(self) -> bytes:
        """All bytes of a file that is read as a whole."""
        with self.open() as stream:
            text = stream.read(MAX_DOCUMENT_BYTES + 1)
        if len(text) > MAX_DOCUMENT_BYTES:
            raise DataError(f"{self.path}: is longer than {MAX_DOCUMENT_BYTES >> 20} MB, and read as a whole; split it")
        return text

    def json(self) -> bytes:
        """The text of a JSON document, which has no more values than fit into memory."""
        text = self.document()
        if sum(map(text.count, (b",", b"[", b"{"))) > MAX_DOCUMENT_VALUES:
            limit = f"{MAX_DOCUMENT_VALUES:,}"
            raise DataError(f"{self.path}: a JSON document of more than {limit} values; save it as JSON lines")
        return text

    def decoded(self, encoding: str | None) -> File:
        """The file with the encoding that the caller or a byte order mark gives; UTF-8 needs none."""
        if encoding is None:
            with self.open() as stream:
                encoding = "utf-16" if stream.read(2) in _UTF16_MARKS else None
        elif codecs.lookup(encoding).name == "utf-8":
            encoding = None
        return self._replace(encoding=encoding)

    def part(self, part: FilePart, first: int = 0) -> File:
        """One part of an uncompressed file from byte `first` of its text on, in whole lines."""
        if part.n_parts == 1:
            return self
        with open(self.path, "rb") as stream:
            while stream.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK:
                first += len(_BYTE_ORDER_MARK)
            length = max(0, self.size - first)
            edges = [first + length * edge // part.n_parts for edge in (part.number, part.number + 1)]
            low, high = (_next_line(stream, edge) if first < edge < self.size else edge for edge in edges)
        return self._replace(byte_range=(low, high))


def _next_line(stream: BinaryIO, position: int) -> int:
    """The first byte at or after `position` that begins a line."""
    stream.seek(position - 1)
    stream.readline()
    return stream.tell()


def check_expansion(n_bytes: int, file: File, remedy: str) -> None:
    """Raise if so many bytes of content come from a small file, which was made to fill the memory."""
    if n_bytes > MIN_EXPANDED and n_bytes > MAX_EXPANSION * file.size:
        raise DataError(f"{file.path}: its content is more than {MAX_EXPANSION} times as long as the file; {remedy}")


class Content:
    """The uncompressed bytes of a file, in UTF-8 without byte order marks."""

    def __init__(self, file: File):
        self._file, self._rest, self._decode = file, b"", None
        self._n_bytes = 0
        self._stream: Any
        self._stream = self._stored = file.stored()
        self._left = None if file.byte_range is None else file.byte_range[1] - file.byte_range[0]
        if file.byte_range is not None:
            self._stored.seek(file.byte_range[0])
            return
        with naming_the_source(file.path):
            if file.compression:
                self._stream = pa.CompressedInputStream(self._stored, file.compression)
            if file.member is not None:
                self._stream = zipfile.ZipFile(self._stored).open(file.member)  # noqa: SIM115  # closed with this stream
        if file.encoding:
            self._decode = codecs.getincrementaldecoder(file.encoding)().decode
        while (start := self._next(len(_BYTE_ORDER_MARK))) == _BYTE_ORDER_MARK:
            pass  # files joined end to end begin with several
        self._rest = start

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`; fewer only at the end."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_HEAD_BYTES), b""))
        blocks, length = [self._rest] if self._rest else [], len(self._rest)
        while length < size and (block := self._next(size - length)):
            blocks.append(block)
            length += len(block)
        found = b"".join(blocks)  # of one block, no copy
        self._rest = found[size:]
        return found[:size]

    def _next(self, size: int) -> bytes:
        if self._left is not None:
            size = min(size, self._left)
            self._left -= size
        if self._decode is None:
            return self._unpacked(size)
        text = ""
        try:
            while not text:
                block = self._unpacked(size)
                text = self._decode(block, not block)
                if not block:
                    break
            return text.encode()
        except UnicodeError as problem:
            shown = f"{self._file.encoding}: {one_line(problem)}"
            raise DataError(f"{self._file.path}: is not valid {shown}; encoding='…' names another one") from None

    def _unpacked(self, size: int) -> bytes:
        with naming_the_source(self._file.path):
            block = bytes(self._stream.read(size))
        self._n_bytes += len(block)
        if self._stream is not self._stored:
            check_expansion(self._n_bytes, self._file, "if you trust it, unpack it and give the file in it")
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
        self._stream.close()
        self._stored.close()

    def __enter__(self) -> Content:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ReadAhead:
    """A stream whose next blocks are read, and decompressed, by a background thread."""

    _BLOCKS_AHEAD = 3

    def __init__(self, stream: Content, block_bytes: int):
        self._stream, self._block_bytes = stream, block_bytes
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
        return self._stream.position

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed

    def close(self) -> None:
        """Stop reading."""
        self._thread.shutdown(cancel_futures=True)
        self._stream.close()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def text_lines(stream: Stream, where: object) -> Iterator[str]:
    """Lines with their line breaks (CR, LF or both); bytes that are not UTF-8 become lone surrogates."""
    rest, n_lines = b"", 0
    while block := stream.read(_HEAD_BYTES):
        lines = (rest + block).splitlines(keepends=True)
        rest = lines.pop() if not lines[-1].endswith(b"\n") else b""  # a CR may be followed by an LF
        n_lines += len(lines)
        if len(rest) > MAX_LINE_BYTES:
            raise DataError(f"{where}:{n_lines + 1}: {too_long('row')}")
        for line in lines:
            yield line.decode(errors="surrogateescape")
    for line in rest.splitlines(keepends=True):
        yield line.decode(errors="surrogateescape")


def too_long(what: str) -> str:
    """What is wrong with a line that does not end, or with a name."""
    return f"is longer than {MAX_LINE_BYTES >> 20} MB; no {what} may be"


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
    last = suffixes[-1] if suffixes else ""
    found = format_ or FORMATS.get(last)
    if found is None and last == ".relatent":
        raise DataError(f"{path}: a relatent model, expected facts; give the data that it was fitted to")
    if found is None and last in SPREADSHEETS:
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
    except (ValueError, *_DAMAGE) as problem:
        raise DataError(f"{path}: is not a valid .zip archive: {one_line(problem)}") from None
    if is_encrypted:
        raise DataError(f"{path}: the archive is encrypted; extract it and pass the file")
    visible = [name for name in names if not name.startswith("__MACOSX/") and not name.split("/")[-1].startswith(".")]
    known = [name for name in visible if format_ or PurePosixPath(name).suffix.lower() in FORMATS]
    if len(known) != 1:
        found = ", ".join(one_line(name, 80) for name in visible[:10]) or "nothing"
        raise DataError(
            f"{path}: expected one file of facts in the archive, got {found}; extract it and pass the files"
        )
    return File(path, format_ or FORMATS[PurePosixPath(known[0]).suffix.lower()], member=known[0])


def _standard_input(format_: str | None) -> File:
    """What standard input holds; its format is recognised by its first bytes."""
    content = sys.stdin.buffer.read()
    compression = next((name for magic, name in _MAGIC.items() if content.startswith(magic)), None)
    file = File(Path("standard input"), "tsv", compression, content)
    with naming_the_source(file.path), file.open() as stream:
        start = stream.read(4096).lstrip()
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


def check_encoding(encoding: str) -> None:
    """Raise if there is no such encoding of text."""
    try:
        codec = codecs.lookup(encoding)
        known = codec._is_text_encoding and codec.incrementaldecoder and codec.name not in _NO_CHARSETS
    except (LookupError, TypeError, ValueError):
        known = False
    if not known:
        raise DataError(f"unknown encoding {encoding!r}; use utf-8, latin-1, cp1252, utf-16, …")


@contextmanager
def naming_the_source(where: object) -> Iterator[None]:
    """Convert errors of the operating system and of Arrow into errors that name the source."""
    try:
        yield
    except _DAMAGE as problem:
        raise DataError(f"{where}: cannot be read: {one_line(problem)}") from None


def named(items: Iterable[T], where: object) -> Iterator[T]:
    """The items of a source, whose errors name it."""
    with naming_the_source(where):
        yield from items
