"""Files are written whole or not at all: beside their place, then renamed into it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError


@contextmanager
def beside(path: str | Path) -> Iterator[Path]:
    """A path to write to, in the same folder; it takes the place of `path` unless something goes wrong.

    A link stays a link, the file it names is replaced, and its permissions are kept. When it is over, the file and its
    name are on the disk.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        part.touch()
        mode = (target if target.exists() else part).stat().st_mode
        yield part
        part.chmod(mode)
        _flush(part)
        os.replace(part, target)
        _flush(target.parent)
    finally:
        with suppress(OSError):  # what went wrong before is what counts
            part.unlink(missing_ok=True)


def check_place(target: Path, refused: type[InputError] = InputError) -> None:
    """Refuse a place where no file can be written, before the work whose result it is to hold."""
    if target.is_dir():
        raise refused(f"{target} is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise refused(f"{target}: the folder {target.parent} does not exist; create it first")


def _flush(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
