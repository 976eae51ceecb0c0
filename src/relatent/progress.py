"""Progress bars on standard error, drawn only on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int, str], None]  # done, of how many, what to say

RECENT = 3600.0  # seconds of steps that the time left is told by: a single step may take minutes


@contextmanager
def bar(
    title: str, *, at_most: bool = False, in_bytes: bool = False, note: str = "", console: Any = None
) -> Iterator[Progress]:
    """A bar with the time spent and the time left; yields a function (done, total, note) to move it.

    `note`: what is said until it is first moved.

    `at_most`: the work may end before `total`, as a fit that converges does. `in_bytes`: done and total are bytes.
    """
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}", markup=False),  # a file may be called [Fe].tsv
        rich.BarColumn(bar_width=20),
        rich.DownloadColumn() if in_bytes else rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[note]}", markup=False),
        rich.TimeElapsedColumn(),
        rich.TextColumn("at most" if at_most else "about"),
        rich.TimeRemainingColumn(),
        rich.TextColumn("left"),
    )
    out = console or Console(stderr=True)
    with rich.Progress(
        *columns, console=out, transient=True, disable=not out.is_terminal, speed_estimate_period=RECENT
    ) as progress:
        task = progress.add_task(title, total=None, note=note)

        def report(done: int, total: int, note: str) -> None:
            progress.update(task, completed=done, total=total, note=note)

        yield report
