"""Limits on BLAS and OpenMP threads: work is divided by tiles, relations or folds, not inside small BLAS calls."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    import numpy  # noqa: F401  (threadpoolctl finds only libraries that are loaded)
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Run every BLAS call on one thread; the callers run in parallel."""
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits


def one_thread() -> AbstractContextManager[Any]:
    """Run BLAS and OpenMP of all loaded libraries on one thread.

    For work on a machine that is busy otherwise: idle OpenMP threads spin and take time from other processes.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(limits=1)
    return limits
