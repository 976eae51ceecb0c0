"""Arrays in the safetensors format, written and read by plain file operations.

safetensors' own library maps a file into memory, where a file that is truncated meanwhile ends the process (SIGBUS),
and writes to a temporary file of its own, which a killed process leaves behind.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .json_values import parse_json, parsed

HEADER_LIMIT = 8 << 20  # bytes; the header is read before anything in it is checked
DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64",
}  # fmt: skip
NO_DIGEST = "0" * 64  # in a signed text while its digest is computed
ELEMENTS_PER_BLOCK = 1 << 16

Arrays = Mapping[str, NDArray[Any]]


class RefusedFileError(ValueError):
    """Why a file is refused, without its name."""


def checked(kind: Any, value: Any, name: str) -> Any:
    """A value in the header of a file, of the kind that it should have (`json_values.parsed`)."""
    try:
        return parsed(kind, value, name)
    except ValueError as error:
        raise RefusedFileError(f"is damaged: {error}; get a fresh copy") from None


class TensorPlace(NamedTuple):
    """Type, shape and place of one array in a file."""

    dtype: str
    shape: tuple[int, ...]
    start: int  # byte in the file


class TensorFile(NamedTuple):
    """An open file whose header has been checked against its size."""

    file: BinaryIO
    metadata: dict[str, str]
    tensors: dict[str, TensorPlace]

    def read(self, name: str) -> NDArray[Any]:
        """One array."""
        dtype, shape, start = self.tensors[name]
        array = np.empty(shape, np.dtype(dtype).newbyteorder("<"))
        _read_exactly(self.file, start, bytes_of(array))
        return array


def write_tensors(arrays: Arrays, path: str | Path, metadata: Mapping[str, str]) -> None:
    """Write arrays and texts to a file, without copies of contiguous arrays."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))  # so that each array is aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in order:
        array, start = arrays[name], end
        end += array.nbytes
        header[name] = {"dtype": names[array.dtype.name], "shape": array.shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            little_endian = arrays[name].dtype.newbyteorder("<")
            file.write(bytes_of(np.ascontiguousarray(arrays[name], little_endian)))


@contextmanager
def open_tensors(path: str | Path) -> Iterator[TensorFile]:
    """Open a file for reading; RefusedFileError unless it is complete and its header describes all of it."""
    path = Path(path)
    if not path.exists():
        raise RefusedFileError("does not exist; check the path")
    if not path.is_file():
        kind = "folder" if path.is_dir() else "device"
        raise RefusedFileError(f"is a {kind}, not a model file; give the file itself")
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        yield TensorFile(file, *_header(file, size))


def starts_like_tensors(start: bytes) -> bool:
    """Whether the first nine bytes of a file are those of a header of allowed length."""
    return len(start) == 9 and start[8:] == b"{" and int.from_bytes(start[:8], "little") <= HEADER_LIMIT


def digest(text: str, arrays: Iterable[NDArray[Any]]) -> str:
    """SHA-256 of a text and of the bytes of each array."""
    sha = hashlib.sha256(text.encode())
    for array in arrays:
        sha.update(bytes_of(array))
    return sha.hexdigest()


def n_not_finite(array: NDArray[Any]) -> int:
    """How many values are infinite or NaN."""
    flat = array.reshape(-1)
    return sum(
        int(np.count_nonzero(~np.isfinite(flat[low : low + ELEMENTS_PER_BLOCK])))
        for low in range(0, len(flat), ELEMENTS_PER_BLOCK)
    )


def bytes_of(array: NDArray[Any]) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data


def _header(file: BinaryIO, size: int) -> tuple[dict[str, str], dict[str, TensorPlace]]:
    """The texts and the places of the arrays, which fill the rest of the file without gaps."""
    if not size:
        raise RefusedFileError("is empty; write it again")
    start = file.read(9)
    if len(start) == 9 and not starts_like_tensors(start):
        raise RefusedFileError("is not a relatent model; give a file written by Factors.save or relatent fit")
    length = int.from_bytes(start[:8], "little")
    if size < 9 or length > size - 8:
        raise RefusedFileError("is truncated: it ends inside its header; get a fresh copy")
    text = bytearray(length)
    _read_exactly(file, 8, memoryview(text))
    try:
        header = parse_json(bytes(text))
        metadata = header.pop("__metadata__", {})
        if not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("texts")
        places = {name: _place(described, 8 + length) for name, described in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RefusedFileError("is truncated or damaged: its header cannot be read; get a fresh copy") from error
    end = 8 + length
    for place, n_bytes in sorted(places.values(), key=lambda found: (found[0].start, found[1])):
        if place.start != end:
            break
        end += n_bytes
    else:
        if end == size:
            return metadata, {name: place for name, (place, _) in places.items()}
    raise RefusedFileError("is truncated or damaged: its header does not fit its size; get a fresh copy")


def _place(described: Any, first: int) -> tuple[TensorPlace, int]:
    """Place and size in bytes of one array."""
    dtype, shape, (start, stop) = DTYPES[described["dtype"]], described["shape"], described["data_offsets"]
    numbers = (*shape, start, stop)
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise ValueError("numbers")
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if n_bytes != stop - start:
        raise ValueError("size")
    return TensorPlace(dtype, tuple(shape), first + start), n_bytes


def _read_exactly(file: BinaryIO, start: int, into: memoryview) -> None:
    file.seek(start)
    done = 0
    while done < len(into):
        count = file.readinto(into[done:])  # type: ignore[attr-defined]
        if not count:
            raise RefusedFileError("is truncated: it became shorter while it was read; get a fresh copy")
        done += count
