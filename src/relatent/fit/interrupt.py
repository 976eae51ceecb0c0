"""Ctrl-C during a fit: the current step finishes first."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

from ..distributed.workers import Workers

FORWARDED_SIGNAL_SECONDS = 2.0  # within which torchrun forwards a Ctrl-C to its workers


class Interrupt:
    """Delays the first Ctrl-C until the current step has finished; a second one interrupts at once.

    Only where Python's own handler would raise KeyboardInterrupt: in the main thread of the first process, and only if
    the program has no handler of its own. Workers receive each Ctrl-C twice, from the terminal and forwarded by
    torchrun: a second signal within FORWARDED_SIGNAL_SECONDS is ignored.
    """

    def __init__(self, workers: Workers):
        self.asked = False
        self._workers, self._since = workers, 0.0

    def __enter__(self) -> Interrupt:
        self._held = (
            multiprocessing.parent_process() is None
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._held:
            signal.signal(signal.SIGINT, self._hold)
        return self

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            if time.monotonic() - self._since > FORWARDED_SIGNAL_SECONDS:
                signal.default_int_handler(number, frame)
            return
        if self._workers.size == 1:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.asked, self._since = True, time.monotonic()
        if self._workers.rank > 0:
            return
        with suppress(RuntimeError, OSError):  # standard error was in use
            print("stopping after this step; press Ctrl-C again to stop at once", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._held:
            signal.signal(signal.SIGINT, signal.default_int_handler)
