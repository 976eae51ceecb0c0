"""One of several processes on the command line: they fail together, and one of them says why."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click

from ..distributed.workers import ALONE, Workers
from ..errors import LostWorkerError, RelatentError


def check_launch(distributed: bool) -> None:
    """Refuse several processes that do not know of each other and would write the same file."""
    if not distributed and "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise click.UsageError("torchrun has started several processes: add --distributed, or start one without it")


@contextmanager
def joined(distributed: bool, device: str) -> Iterator[Workers]:
    """The workers that torchrun has started, each with a GPU of its own if that is the device, or this one alone."""
    if not distributed:
        yield ALONE
        return
    with Workers.join(device=device) as workers, _one_voice(workers):
        yield workers


@contextmanager
def _one_voice(workers: Workers) -> Iterator[None]:
    """Warnings are the first worker's; an error is told by the worker that is first to have one, all others are still.

    When a worker is lost, torchrun asks the others of its machine to end, perhaps before they notice themselves.
    """
    if workers.rank > 0:
        warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, lambda *_: _ask_to_end(workers))
    try:
        yield
    except (RelatentError, MemoryError, OSError):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending
        if workers.is_first_to_report():
            raise
        sys.exit(1)
    except KeyboardInterrupt:
        if workers.rank == 0:
            raise
        sys.exit(130)


def _ask_to_end(workers: Workers) -> None:
    raise LostWorkerError(
        f"worker {workers.rank} of {workers.size} was asked to end, as happens when another one is lost: start again, "
        "with any number of workers; with --checkpoint the fit goes on where it was"
    )
