"""Threads are spread over tiles, relations or folds, never inside a small BLAS call."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    import numpy  # noqa: F401  (its BLAS must be loaded before it can be found)
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Within it every BLAS call runs on one thread: the callers are the threads."""
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits


def one_thread() -> AbstractContextManager[Any]:
    """Within it BLAS and OpenMP, of all that is loaded by now, run on one thread.

    For work beside that of others: OpenMP's threads wait for each other at full speed, which busy cores can ill afford.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(limits=1)
    return limits
