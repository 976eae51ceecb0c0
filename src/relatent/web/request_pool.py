"""Threads for the work of requests, with limits on waiting requests and on time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .errors import ApiError

T = TypeVar("T")
MAX_WAITING = 64  # requests that are running or waiting


class RequestPool:
    """One thread per core, or a given number of threads."""

    def __init__(self, seconds: float, max_waiting: int = MAX_WAITING, n_threads: int | None = None):
        self.seconds, self.max_waiting, self.waiting = seconds, max_waiting, 0
        n_threads = n_threads or max(2, os.cpu_count() or 1)
        self._threads = ThreadPoolExecutor(n_threads, thread_name_prefix="request")

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work; 503 if too many requests wait or the work takes too long."""
        if self.waiting >= self.max_waiting:
            raise ApiError(503, "busy", f"{self.waiting} requests are already waiting", "try again in a moment")
        self.waiting += 1
        loop = asyncio.get_running_loop()
        future = self._threads.submit(work)
        future.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(self._finish))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.seconds)
        except TimeoutError as error:
            message = f"the request took longer than {self.seconds:g} seconds"
            raise ApiError(503, "timeout", message, "ask for fewer results, or try again in a moment") from error

    def _finish(self) -> None:
        self.waiting -= 1
