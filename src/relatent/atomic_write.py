"""Atomic writes: a file is written beside its target and then renamed, so that no half-written file remains."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from .errors import InputError

NOT_PLAIN = "is not a plain file"
MAX_PREFIX_BYTES = 200  # of a temporary file's name, which must fit into 255 bytes
LEFTOVER_SECONDS = 600.0  # a temporary file without a write for this long was left by a killed process


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder; on success the file written there replaces `path`.

    A symbolic link is kept and the file it points to is replaced; permissions are kept. On exit the file and its
    directory entry are flushed to disk. Temporary files that killed processes left for this path are removed.
    """
    target = Path(os.path.realpath(path))
    if _is_special(target):  # the new file would take the place of a device such as /dev/null
        raise OSError(errno.EINVAL, NOT_PLAIN)
    remove_leftovers(target)
    temporary = _temporary(target)
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


def remove_leftovers(path: str | Path, min_age_seconds: float = LEFTOVER_SECONDS) -> None:
    """Remove the temporary files that killed processes left for this path."""
    target, now = Path(os.path.realpath(path)), time.time()
    for temporary in target.parent.glob(f"{escape(_prefix(target))}*.tmp"):
        with suppress(OSError):
            if now - temporary.stat().st_mtime >= min_age_seconds:
                temporary.unlink()


def check_writable(target: Path, error: type[InputError] = InputError) -> None:
    """Raise `error` if no file can be written at `target`; called before the work whose result is to be saved."""
    try:
        if target.is_dir():
            raise error(f"{target} is a folder; give the name of a file in it")
        if not target.parent.is_dir():
            raise error(f"{target}: the folder {target.parent} does not exist; create it first")
        real = Path(os.path.realpath(target))
        if real.is_symlink():
            raise error(f"{target} is a symbolic link that leads back to itself; give another name")
        if _is_special(real):  # fails if the name is too long
            raise error(f"{target} {NOT_PLAIN}; give another name")
        temporary = _temporary(real)
        temporary.touch(exist_ok=False)
        temporary.unlink()
    except OSError as problem:
        raise error(f"{target} cannot be written: {problem.strerror}; give another file or folder") from problem


def _is_special(target: Path) -> bool:
    """Whether a path is a device, a pipe or a socket."""
    return target.exists() and not target.is_file() and not target.is_dir()


def _temporary(target: Path) -> Path:
    return target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}.tmp")


def _prefix(target: Path) -> str:
    """How the names of the temporary files of a target begin."""
    return f".{os.fsdecode(os.fsencode(target.name)[:MAX_PREFIX_BYTES])}."


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
