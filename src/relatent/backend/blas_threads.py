"""Limits on BLAS and OpenMP threads: work is divided by tiles, relations or folds, not inside small BLAS calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    import numpy  # noqa: F401  (threadpoolctl finds only libraries that are loaded)
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _Limits:
    """Limits of the process that threads share: the first one to need them sets them, the last one removes them."""

    def __init__(self) -> None:
        self._lock, self._users, self._active = threading.Lock(), 0, ExitStack()

    @contextmanager
    def limit(self, everything: bool) -> Iterator[None]:
        """Limit BLAS, or everything, to one thread."""
        from threadpoolctl import threadpool_limits

        with self._lock:
            if everything:
                self._active.enter_context(threadpool_limits(limits=1))  # of all libraries that are loaded by now
            elif not self._users:
                self._active.enter_context(_controller().limit(limits=1, user_api="blas"))
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._active.close()


_LIMITS = _Limits()


def one_blas_thread() -> AbstractContextManager[None]:
    """Run every BLAS call on one thread; the callers run in parallel."""
    return _LIMITS.limit(everything=False)


def one_thread() -> AbstractContextManager[None]:
    """Run BLAS and OpenMP of all loaded libraries on one thread.

    For work on a machine that is busy otherwise: idle OpenMP threads spin and take time from other processes.
    """
    return _LIMITS.limit(everything=True)
