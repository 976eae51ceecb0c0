"""A fit by several processes on the command line: one of them reports an error, all of them end."""

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
    """Refuse processes that torchrun started without --distributed: they would all write the same file."""
    if not distributed and "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise click.UsageError("torchrun started several processes: add --distributed, or run without torchrun")


@contextmanager
def join_workers(distributed: bool, device: str) -> Iterator[Workers]:
    """The workers that torchrun started, each with its own GPU if that is the device; otherwise this process alone."""
    if not distributed:
        yield ALONE
        return
    with Workers.join(device=device) as workers, _report_once(workers):
        yield workers


@contextmanager
def _report_once(workers: Workers) -> Iterator[None]:
    """Let worker 0 print warnings, and the first worker that fails print its error; the others end silently.

    If a worker is lost, torchrun terminates the others of its machine, perhaps before they notice themselves.
    """
    if workers.rank > 0:
        warnings.simplefilter("ignore")
    signal.signal(signal.SIGTERM, lambda *_: _raise_terminated(workers))
    try:
        yield
    except (RelatentError, MemoryError, OSError):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # already ending
        if workers.is_first_to_report():
            raise
        sys.exit(1)
    except KeyboardInterrupt:
        if workers.rank == 0:
            raise
        sys.exit(130)


def _raise_terminated(workers: Workers) -> None:
    raise LostWorkerError(
        f"worker {workers.rank} of {workers.size} was terminated, probably because another worker was lost: start "
        "again, with any number of workers; with --checkpoint the fit resumes from the saved state"
    )
