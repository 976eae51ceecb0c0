"""Progress of long work: one callback signature, and a bar on standard error that is drawn only on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Progress = Callable[[int, int, str], None]  # done, total, note

SPEED_WINDOW_SECONDS = 3600.0  # of steps that the remaining time is estimated from: one step may take minutes


def silent(done: int, total: int, note: str) -> None:
    """Report nothing."""


@contextmanager
def reporting(
    progress: bool | Progress | None, title: str, *, at_most: bool = False, in_bytes: bool = False
) -> Iterator[Progress]:
    """The callback behind a `progress` argument: a bar for True, the callback itself, or nothing."""
    if progress is True:
        with bar(title, at_most=at_most, in_bytes=in_bytes) as report:
            yield report
    else:
        yield progress or silent


@contextmanager
def bar(
    title: str, *, at_most: bool = False, in_bytes: bool = False, note: str = "", console: Console | None = None
) -> Iterator[Progress]:
    """A bar with the elapsed and the remaining time; yields the callback (done, total, note) that moves it.

    `note` is shown until the first call. `at_most`: the work may end before `total`, as a fit that converges does.
    `in_bytes`: done and total are bytes.
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
        *columns, console=out, transient=True, disable=not out.is_terminal, speed_estimate_period=SPEED_WINDOW_SECONDS
    ) as progress:
        task = progress.add_task(title, total=None, note=note)

        def report(done: int, total: int, note: str) -> None:
            progress.update(task, completed=done, total=total, note=note)

        yield report
