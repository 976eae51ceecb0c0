"""File operations that fail, stop half-way or never return, and clocks that jump; `python fault_injection.py` counts.

Operations of Python are replaced. Writes of any library fail by a limit on the size of files: the system refuses the
first byte above it, or kills the process there.
"""

from __future__ import annotations

import builtins
import errno
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
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
            left = list(path.parent.glob(".*.tmp"))
            if left and kind == "error" and found.failed != "unlink":
                raise AssertionError(f"{kind} at operation {at} leaves {left}")
            for other in left:
                other.unlink()
            at += 1
    return tried


# --- writes that stop at some byte


@contextmanager
def file_size_limit(n_bytes: int):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def limits(size: int, count: int) -> list[int]:
    """Sizes at which a file of some size is cut."""
    return sorted({0, 1, size - 1, *(size * step // count for step in range(count))})


def try_sizes(write: Callable[[Path], None], path: Path, count: int = 10) -> int:
    """Refuse the bytes after each of some sizes; the file must be as before. Returns the number of faults."""
    write(path)
    size, old = path.stat().st_size, b"as it was before"
    for limit in limits(size, count):
        path.write_bytes(old)
        error = None
        with file_size_limit(limit):
            try:
                write(path)
            except Exception as problem:
                error = problem
        left = list(path.parent.glob(".*.tmp"))
        if error is None or "\n" in str(error) or path.read_bytes() != old or left:
            raise AssertionError(f"{path.name}, {limit} of {size} bytes: {error!r}, {left}, or the file has changed")
    return len(limits(size, count))


def try_kills(name: str, path: Path, count: int = 4) -> int:
    """Kill a process in each of some writes; the file must be as before. Returns the number of kills."""
    writes()[name](path)
    size, old = path.stat().st_size, b"as it was before"
    for limit in limits(size, count):
        path.write_bytes(old)
        code = subprocess.run([sys.executable, __file__, name, path, str(limit)], stderr=subprocess.DEVNULL).returncode
        if code != -signal.SIGXFSZ or path.read_bytes() != old:
            raise AssertionError(f"{name}, killed at {limit} bytes: code {code}, or the file has changed")
    return len(limits(size, count))


# --- clocks


@contextmanager
def jumping_clock(seed: int = 0):
    """The time of day jumps by up to a day, back or forth, each time someone asks for it; yields the jumps."""
    rng, jumps, asked = random.Random(seed), [], time.time

    def jump() -> float:
        jumps.append(rng.uniform(-86_400, 86_400))
        return asked() + jumps[-1]

    with patch("time.time", jump), patch("time.time_ns", lambda: int(1e9 * jump())):
        yield jumps


def try_clock(folder: Path) -> int:
    """Fit with checkpoints, tune and write under a clock that jumps. Returns the number of jumps."""
    import numpy as np

    import relatent
    from relatent.fit.checkpoint import Checkpoint

    facts = relatent.load_dataset("presidents")
    model = relatent.RescalALS(rank=2, l2_entities=0.1, l2_relations=0.1, max_iter=5, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = model.fit(facts).factors_
        with jumping_clock() as jumps:
            found = model.fit(facts, checkpoint=Checkpoint(folder / "state", every=0)).factors_
            began = time.monotonic()
            tuned = relatent.tune(facts, time=3.0, random_state=0)
            seconds = time.monotonic() - began
            for name, write in writes().items():
                write(folder / name)
    np.testing.assert_array_equal(found.A, wanted.A)
    if not (1 < seconds < 60 and len(tuned.trials) > 1):
        raise AssertionError(f"a search of 3 s took {seconds:.1f} s and made {len(tuned.trials)} trials")
    return len(jumps)


# --- what relatent writes


def writes() -> dict[str, Callable[[Path], None]]:
    """What relatent writes in one file."""
    import numpy as np

    import relatent
    from relatent.cli.table_file import FORMATS, table_writer
    from relatent.data.names import Names
    from relatent.data.review import ReviewFile
    from relatent.fit.checkpoint import Checkpoint
    from relatent.fit.early_stopping import BestState
    from relatent.fit.solvers.als import AlsState
    from relatent.model import model_file
    from relatent.model.export import export
    from relatent.plots.style import FORMATS as FIGURE_FORMATS
    from relatent.plots.style import write_figure

    factors = relatent.Factors(np.ones((3, 2)), np.ones((1, 2, 2)), np.zeros(1), Names(["a", "b", "c"]), Names(["r"]))
    state = AlsState(
        np.ones((3, 2)), np.ones((1, 2, 2)), np.eye(2), np.zeros((2, 0)), 1.0, np.ones((3, 2)), np.ones((2, 2))
    )

    def model(path: Path) -> None:
        with patch.object(model_file, "check_target"):  # the old content is not a model
            factors.save(path)

    def checkpoint(path: Path) -> None:
        Checkpoint(path)._write(state, [(1.0, 0.1, None)], BestState())

    def review(path: Path) -> None:
        file = ReviewFile(path.with_name("no review yet"))
        file.path = path
        file._write({("a", "r", "b"): "accepted"})

    def table(path: Path) -> None:
        with table_writer(path, {"name": str, "n": int}) as write:
            write({"name": [f"name {i}" for i in range(2000)], "n": list(range(2000))})

    def figure(path: Path) -> None:
        from matplotlib.figure import Figure

        def draw() -> Figure:
            drawn = Figure()
            drawn.subplots().plot([1, 2])
            return drawn

        write_figure(path, draw)

    return {
        "model.relatent": model,
        "state.checkpoint": checkpoint,
        "entities.parquet": lambda path: export(factors, path.parent),
        "review.csv": review,
        **{f"table{suffix}": table for suffix in FORMATS},
        **{f"figure.{suffix}": figure for suffix in FIGURE_FORMATS},
    }


def main() -> None:
    total = 0
    for name, write in writes().items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            counts = try_all(write, path), try_sizes(write, path), try_kills(name, path)
        total += sum(counts)
        print(f"{name}: {counts[0]} operations, {counts[1]} sizes, {counts[2]} kills; complete or as before each time")
    with tempfile.TemporaryDirectory() as folder:
        n_jumps = try_clock(Path(folder))
    print(f"clock: {n_jumps} jumps of up to a day, with the same results")
    print(f"{total + n_jumps} faults")


def write_until_killed(name: str, path: str, limit: str) -> None:
    write = writes()[name]
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    with file_size_limit(int(limit)):
        write(Path(path))


if __name__ == "__main__":
    write_until_killed(*sys.argv[1:]) if len(sys.argv) > 1 else main()
