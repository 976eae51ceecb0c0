"""Progress bars on standard error, drawn only on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int, str], None]  # done, of how many, what to say


@contextmanager
def bar(title: str, *, console: Any = None) -> Iterator[Progress]:
    """A bar with time left; yields a function (done, total, note) to move it."""
    from rich import progress as rich_progress
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    out = console or Console(stderr=True)
    with rich_progress.Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        task = progress.add_task(title, total=None, note="")

        def report(done: int, total: int, note: str) -> None:
            progress.update(task, completed=done, total=total, note=note)

        yield report
