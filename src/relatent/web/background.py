"""Slow results: computed once, in a thread, on first request; until then clients receive the progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ..progress import Progress

T = TypeVar("T")


class InProgress(NamedTuple):
    """Progress of a result that is being computed."""

    state: str  # "working"
    done: int
    total: int  # 0 if not known
    note: str


class BackgroundResult(Generic[T]):
    """A result that a thread of its own computes on the first request.

    Results that share a lock are computed one after the other. The thread is a daemon, so that a program can exit
    without waiting for it.
    """

    def __init__(self, compute: Callable[[Progress], T], lock: threading.Lock | None = None):
        self._compute, self._compute_lock = compute, lock or threading.Lock()
        self._start_lock, self._started, self._finished = threading.Lock(), False, threading.Event()
        self._result: list[T] = []
        self._error: Exception | None = None
        self._progress = InProgress("working", 0, 0, "waiting for other work to finish")

    def poll(self) -> T | InProgress:
        """The result, or its progress; the first call starts the computation."""
        self._start()
        return self._get() if self._finished.is_set() else self._progress

    def wait(self) -> T:
        """The result; waits until it is computed."""
        self._start()
        self._finished.wait()
        return self._get()

    def _get(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _start(self) -> None:
        with self._start_lock:
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            with self._compute_lock:
                self._result.append(self._compute(self._report))
        except Exception as error:  # raised again in every thread that asks for the result
            self._error = error
        finally:
            self._finished.set()

    def _report(self, done: int, total: int, note: str) -> None:
        self._progress = InProgress("working", done, total, note)
