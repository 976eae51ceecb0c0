"""A lock on a file that may be replaced: one process at a time, and free again when that process ends, however it ends.

The lock is held on a small file beside it, as a file that is replaced is another one for the system. flock on
Unix, msvcrt on Windows.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

_BUSY = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)
SECONDS_BETWEEN_TRIES = 0.01


@contextlib.contextmanager
def locked(path: str | Path, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file; BlockingIOError if another holder, in any process or thread, keeps it for too long.

    A file system without locks, such as some network drives, raises another OSError.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.lock")
    end = time.monotonic() + wait_seconds
    while (handle := _taken(beside)) is None:
        if time.monotonic() >= end:
            raise BlockingIOError(errno.EAGAIN, "is in use by another process", str(path))
        time.sleep(SECONDS_BETWEEN_TRIES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open file, and another process may have opened this one
            beside.unlink()
        os.close(handle)


def _taken(beside: Path) -> int | None:
    """A handle that holds the lock; None if another one does."""
    handle = os.open(beside, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        _lock(handle)
        if _is_at(handle, beside):
            return handle
    except OSError as problem:
        os.close(handle)
        if problem.errno in _BUSY:
            return None
        raise
    os.close(handle)  # the holder before has removed this file; the next try makes a new one
    return None


def _lock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)


def _is_at(handle: int, path: Path) -> bool:
    """Whether the open file is the one that others find at this path."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False
