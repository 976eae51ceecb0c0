"""Atomic writes: a file is written beside its target and then renamed, so that no half-written file remains."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder; on success the file written there replaces `path`.

    A symbolic link is kept and the file it points to is replaced; permissions are kept. On exit the file and its
    directory entry are flushed to disk.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.touch()
        mode = (target if target.exists() else temporary).stat().st_mode
        yield temporary
        temporary.chmod(mode)
        _flush(temporary)
        os.replace(temporary, target)
        _flush(target.parent)
    finally:
        with suppress(OSError):  # an earlier error matters more than a leftover file
            temporary.unlink(missing_ok=True)


def check_writable(target: Path, error: type[InputError] = InputError) -> None:
    """Raise `error` if no file can be written at `target`; called before the work whose result is to be saved."""
    if target.is_dir():
        raise error(f"{target} is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise error(f"{target}: the folder {target.parent} does not exist; create it first")


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
