"""File operations that fail, stop half-way or never return: `python fault_injection.py` counts the faults it tried."""

from __future__ import annotations

import builtins
import errno
import os
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

OPERATIONS = ((os, "fsync"), (os, "replace"), (Path, "touch"), (Path, "chmod"), (Path, "unlink"))


class KilledError(BaseException):
    """The process ends here: nothing that follows has an effect on files."""


class Faults:
    """Counts file operations, and lets one of them fail: with an error, after half of a write, or as a kill does."""

    def __init__(self, at: int, kind: str):
        self.at, self.kind, self.count, self.killed, self.failed = at, kind, 0, False, ""

    def next(self, name: str) -> None:
        """Count an operation; raise if it is the one to fail, or comes after a kill."""
        self.count += 1
        self.failed = name if self.count == self.at else self.failed
        self.killed |= self.kind == "kill" and self.count == self.at
        if self.killed:
            raise KilledError
        if self.count == self.at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def wrap(self, operation: Callable) -> Callable:
        def counted(*arguments, **options):
            self.next(operation.__name__)
            return operation(*arguments, **options)

        return counted

    def open(self, *arguments, plain=builtins.open, **options):
        """A file each of whose writes counts; the failing one writes half of its bytes."""
        file = plain(*arguments, **options)
        if not set("wxa+") & set("".join(map(str, arguments[1:2]))):
            return file
        write = file.write

        def counted(content):
            try:
                self.next("write")
            except BaseException:
                write(bytes(content)[: len(content) // 2])
                file.flush()
                raise
            return write(content)

        return _Writer(file, counted)


class _Writer:
    def __init__(self, file, write):
        self.file, self.write = file, write

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


@contextmanager
def faults(at: int, kind: str):
    found = Faults(at, kind)
    patches = [patch.object(place, name, found.wrap(getattr(place, name))) for place, name in OPERATIONS]
    patches.append(patch("relatent.tensor_file.open", found.open, create=True))
    for change in patches:
        change.start()
    try:
        yield found
    finally:
        for change in patches:
            change.stop()


def try_all(write: Callable[[Path], None], path: Path) -> int:
    """Let each operation of a write fail in each way; the file must be as before or complete. Returns the faults."""
    write(path)
    complete, old = path.read_bytes(), b"as it was before"
    tried = 0
    for kind in ("error", "kill"):
        at, ended = 1, False
        while not ended:
            path.write_bytes(old)
            failed = False
            with faults(at, kind) as found:
                try:
                    write(path)
                except (Exception, KilledError):
                    failed = True
            ended = found.count < at
            tried += not ended
            content = path.read_bytes()
            if content not in (old, complete) or (not failed and content != complete):
                raise AssertionError(f"{kind} at operation {at}: {len(content)} bytes")
            left = [other for other in path.parent.iterdir() if other != path]
            if left and kind == "error" and found.failed != "unlink":
                raise AssertionError(f"{kind} at operation {at} leaves {left}")
            for other in left:
                other.unlink()
            at += 1
    return tried


def writes() -> dict[str, Callable[[Path], None]]:
    """What relatent writes in one file."""
    import numpy as np

    import relatent
    from relatent.data.names import Names
    from relatent.fit.checkpoint import Checkpoint
    from relatent.fit.early_stopping import BestState
    from relatent.fit.solvers.als import AlsState
    from relatent.model import model_file

    factors = relatent.Factors(np.ones((3, 2)), np.ones((1, 2, 2)), np.zeros(1), Names(["a", "b", "c"]), Names(["r"]))
    state = AlsState(np.ones((3, 2)), np.ones((1, 2, 2)), np.zeros((2, 0)), 1.0, np.ones((3, 2)), np.ones((2, 2)))

    def model(path: Path) -> None:
        with patch.object(model_file, "check_target"):  # the old content is not a model
            factors.save(path)

    def checkpoint(path: Path) -> None:
        Checkpoint(path)._write(state, [(1.0, 0.1, None)], BestState())

    return {"model": model, "checkpoint": checkpoint}


if __name__ == "__main__":
    for name, write in writes().items():
        with tempfile.TemporaryDirectory() as folder:
            print(
                f"{name}: {try_all(write, Path(folder) / 'file')} faults, the file was complete or as before each time"
            )
