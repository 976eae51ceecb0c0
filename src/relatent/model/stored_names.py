"""Names as tensors of a model file, and back with every check."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.names import Names
from ..errors import InputError
from ..tensor_file import RefusedFileError


def packed(names: Names) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The names one after the other in UTF-8, and their offsets."""
    try:
        encoded = [name.encode() for name in names]
    except UnicodeEncodeError as error:
        raise InputError(f"{names.what} name {error.object!r} cannot be written as UTF-8; rename it") from error
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(name) for name in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def unpacked(arrays: Mapping[str, NDArray[Any]], what: str, count: int) -> Names:
    """Names from their bytes and offsets, or numbers if there are none."""
    if f"{what}_names" not in arrays and f"{what}_offsets" not in arrays:
        return Names(count, what=what)
    if f"{what}_names" not in arrays or f"{what}_offsets" not in arrays:
        raise RefusedFileError(f"is damaged: half of its {what} names are missing; get a fresh copy")
    blob, offsets = arrays[f"{what}_names"].tobytes(), arrays[f"{what}_offsets"]
    if offsets[0] != 0 or offsets[-1] != len(blob) or (np.diff(offsets) < 0).any():
        raise RefusedFileError(f"is damaged: its {what} names do not fit their offsets; get a fresh copy")
    edges = pairwise(offsets.tolist())
    try:
        if blob.isascii():  # decode once, then slice: twice as fast for millions of names
            text = blob.decode("ascii")
            return Names([text[start:stop] for start, stop in edges], what=what)
        return Names([blob[start:stop].decode() for start, stop in edges], what=what)
    except UnicodeDecodeError as error:
        raise RefusedFileError(f"is damaged: its {what} names are not UTF-8; get a fresh copy") from error
