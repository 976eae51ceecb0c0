"""Progress of long work, by one callback signature: a bar in a terminal or a notebook, else a line now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

Progress = Callable[[int, int, str], None]  # done, total, note

SECONDS_BETWEEN_LINES = 10.0  # without a terminal; nothing is written about work that ends before
SECONDS_BETWEEN_UPDATES = 0.2  # of a bar in a notebook
MAX_LINE_RATE = 1 / 30  # seconds between lines are at least this share of the elapsed time
SPEED_WINDOW_SECONDS = 3600.0  # of steps that the remaining time is estimated from: one step may take minutes


def silent(done: int, total: int, note: str) -> None:
    """Report nothing."""


def one_after_another(progress: Progress) -> Progress:
    """A callback for several works, whose steps add up: one begins where a step is not above the last."""
    before = last = 0

    def report(done: int, total: int, note: str) -> None:
        nonlocal before, last
        if done <= last:
            before += last
        last = done
        progress(before + done, before + total, note)

    return report


def noted(progress: Progress, note: str) -> Progress:
    """The same with this note."""
    return lambda done, total, _: progress(done, total, note)


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
    `in_bytes`: done and total are bytes. In a notebook the bar is part of the cell's output. Elsewhere without a
    terminal, the same is written as a line every ten seconds.
    """
    from rich.console import Console

    out = console or Console(stderr=True)
    if not out.is_terminal:
        write = _in_notebook if out.is_jupyter else _lines
        with write(title, out, at_most=at_most, in_bytes=in_bytes, note=note) as report:
            yield report
        return
    from rich import progress as rich

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
    with rich.Progress(*columns, console=out, transient=True, speed_estimate_period=SPEED_WINDOW_SECONDS) as progress:
        task = progress.add_task(title, total=None, note=note)

        def report(done: int, total: int, note: str) -> None:
            progress.update(task, completed=done, total=total, note=note)

        yield report


@contextmanager
def _lines(title: str, out: Console, *, at_most: bool, in_bytes: bool, note: str) -> Iterator[Progress]:
    """Write the last report with the elapsed time now and then, also while a single step takes long."""
    last, ended, start = (0, 0, note), threading.Event(), time.monotonic()

    def report(done: int, total: int, note: str) -> None:
        nonlocal last
        last = done, total, note

    def write() -> None:
        pause = SECONDS_BETWEEN_LINES
        while not ended.wait(pause):
            elapsed = time.monotonic() - start
            pause = max(SECONDS_BETWEEN_LINES, MAX_LINE_RATE * elapsed)
            try:
                print(_line(title, *last, elapsed, at_most, in_bytes), file=out.file, flush=True)
            except (OSError, ValueError):  # nobody reads standard error any more
                return

    writer = threading.Thread(target=write, name="progress", daemon=True)
    writer.start()
    try:
        yield report
    finally:
        ended.set()
        writer.join()


@contextmanager
def _in_notebook(title: str, out: Console, *, at_most: bool, in_bytes: bool, note: str) -> Iterator[Progress]:
    """A bar in the output of a notebook's cell, which keeps its last state; needs no widgets."""
    from IPython.display import display

    last, start = (0, 0, note), time.monotonic()

    def shown() -> dict[str, str]:
        text = _line(title, *last, time.monotonic() - start, at_most, in_bytes)
        value = f" value={last[0]} max={last[1]}" if last[1] else ""
        return {"text/plain": text, "text/html": f"<progress{value}></progress> {escape(text)}"}

    handle: Any = display(shown(), raw=True, display_id=True)
    updated = start

    def report(done: int, total: int, note: str) -> None:
        nonlocal last, updated
        last = done, total, note
        if time.monotonic() - updated >= SECONDS_BETWEEN_UPDATES:
            updated = time.monotonic()
            handle.update(shown(), raw=True)

    try:
        yield report
    finally:
        handle.update(shown(), raw=True)


def share_of(progress: Progress, number: int, n_parts: int) -> Progress:
    """The callback of one of several equal parts of the work."""
    return lambda done, total, note: progress(number * total + done, n_parts * total, note)


def _line(title: str, done: int, total: int, note: str, elapsed: float, at_most: bool, in_bytes: bool) -> str:
    """What is done, of how much, a note and the elapsed time: "fitting als: 12 of at most 500, … , 0:00:31"."""
    count = (lambda value: f"{value / 1e6:,.0f} MB") if in_bytes else "{:,}".format
    so_far = [f"{count(done)} of {'at most ' if at_most else ''}{count(total)}"] if total else []
    return f"{title}: " + ", ".join([*so_far, *filter(None, [note]), f"{timedelta(seconds=round(elapsed))} elapsed"])
