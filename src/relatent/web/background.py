"""Results that take long: computed once, aside, when first asked for; until then one can see how far they are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from ..progress import Progress

T = TypeVar("T")


class Working(NamedTuple):
    """How far a result is that is not there yet."""

    state: str  # "working"
    done: int
    total: int  # 0 where nobody knows
    note: str


class Once(Generic[T]):
    """A result that is computed in a thread of its own when first looked at, one after the other with its kind.

    The thread is a daemon: a program that ends does not wait for it.
    """

    def __init__(self, work: Callable[[Progress], T], turn: threading.Lock):
        self._work, self._turn = work, turn
        self._started, self._done = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._result: list[T] = []
        self._error: Exception | None = None
        self._far = Working("working", 0, 0, "waiting for its turn")

    def look(self) -> T | Working:
        """The result, or how far it is; the first look starts the work."""
        self._start()
        return self._have() if self._done.is_set() else self._far

    def wait(self) -> T:
        """The result, when it is there."""
        self._start()
        self._done.wait()
        return self._have()

    @property
    def is_ready(self) -> bool:
        """Whether the result is there; to ask does not start the work."""
        return self._done.is_set() and self._error is None

    def _have(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _start(self) -> None:
        with self._lock:
            if not self._started.is_set():
                self._started.set()
                threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            with self._turn:
                self._result.append(self._work(self._tell))
        except Exception as error:  # told to everybody who asks
            self._error = error
        finally:
            self._done.set()

    def _tell(self, done: int, total: int, note: str) -> None:
        self._far = Working("working", done, total, note)
