"""Names and labels as tensors of a model file, and back with every check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.labels import Labels
from ..data.names import Names
from ..errors import InputError
from ..tensor_file import RefusedFileError


def to_tensors(names: Names, what: str, *, numbers: bool = False) -> dict[str, NDArray[Any]]:
    """Names and labels; names that are just numbers are left out unless wanted, and labels if there are none."""
    texts = names.labels.texts
    arrays: dict[str, NDArray[Any]] = {}
    if numbers or not names.are_numbers:
        arrays[f"{what}_names"], arrays[f"{what}_offsets"] = _packed(names, f"{what} name")
    if any(texts):
        padded = [*texts, *[""] * (len(names) - len(texts))]
        arrays[f"{what}_labels"], arrays[f"{what}_labels_offsets"] = _packed(padded, f"{what} label")
    return arrays


def from_tensors(arrays: Mapping[str, NDArray[Any]], what: str, count: int, prefixes: Mapping[str, str]) -> Names:
    """Names from their bytes and offsets, or numbers if there are none, with their labels."""
    names = _unpacked(arrays, what, f"{what}_names", f"{what}_offsets")
    texts = _unpacked(arrays, what, f"{what}_labels", f"{what}_labels_offsets")
    if texts is not None and len(texts) != count:
        raise RefusedFileError(f"is damaged: {len(texts)} labels for {count} {what} names; get a fresh copy")
    return Names(count if names is None else names, what=what).with_labels(Labels(texts or (), prefixes))


def _packed(texts: Iterable[str], what: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Texts one after the other in UTF-8, and their offsets."""
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise InputError(f"{what} {error.object!r} cannot be written as UTF-8; rename it") from error
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(name) for name in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def _unpacked(arrays: Mapping[str, NDArray[Any]], what: str, text: str, offset: str) -> list[str] | None:
    """Texts from their bytes and offsets; None if there are none."""
    if text not in arrays and offset not in arrays:
        return None
    kind = "labels" if text.endswith("_labels") else "names"
    if text not in arrays or offset not in arrays:
        raise RefusedFileError(f"is damaged: half of its {what} {kind} are missing; get a fresh copy")
    blob, offsets = arrays[text].tobytes(), arrays[offset]
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(blob) or (np.diff(offsets) < 0).any():
        raise RefusedFileError(f"is damaged: its {what} {kind} do not fit their offsets; get a fresh copy")
    edges = pairwise(offsets.tolist())
    try:
        if blob.isascii():  # decode once, then slice: twice as fast for millions of names
            decoded = blob.decode("ascii")
            return [decoded[start:stop] for start, stop in edges]
        return [blob[start:stop].decode() for start, stop in edges]
    except UnicodeDecodeError as error:
        raise RefusedFileError(f"is damaged: its {what} {kind} are not UTF-8; get a fresh copy") from error
