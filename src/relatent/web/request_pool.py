"""Threads for the work of requests, shared fairly between clients, with limits on waiting requests and on time."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from .errors import ApiError

T = TypeVar("T")
MAX_WAITING = 128  # requests that are running or waiting, of which one client may have half
WAIT_SECONDS = 60.0  # for a thread; a refusal would only make clients ask again, and keep the threads from the work


class _Request(NamedTuple):
    work: Callable[[], Any]
    result: asyncio.Future[Any]
    limit: asyncio.Timeout


class RequestPool:
    """One thread per core, or a given number of threads; clients take turns.

    The time limit of a request begins when its work does. All methods run in the event loop, so there are no locks.
    """

    def __init__(self, seconds: float, max_waiting: int = MAX_WAITING, n_threads: int | None = None):
        self.seconds, self.max_waiting = seconds, max_waiting
        self._free = n_threads or max(2, os.cpu_count() or 1)
        self._threads = ThreadPoolExecutor(self._free, thread_name_prefix="request")
        self._queues: dict[str, deque[_Request]] = {}  # the next client first
        self._counts: dict[str, int] = {}  # requests of each client that are running or waiting

    async def run(self, work: Callable[[], T], client: str = "") -> T:
        """The result of the work; 503 if too many requests wait or the work takes too long."""
        total, own = sum(self._counts.values()), self._counts.get(client, 0)
        if total >= self.max_waiting or own > self.max_waiting // 2:
            raise ApiError(503, "busy", f"{total} requests are already waiting", "try again in a moment")
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._counts[client] = own + 1
        try:
            async with asyncio.timeout(WAIT_SECONDS) as limit:
                self._queues.setdefault(client, deque()).append(_Request(work, result, limit))
                self._start_next()
                return await result
        except TimeoutError as error:
            message = f"the request waited for {WAIT_SECONDS:g} seconds, or took longer than {self.seconds:g}"
            raise ApiError(503, "timeout", message, "ask for fewer results, or try again in a moment") from error

    def _start_next(self) -> None:
        """Start the first request of the next client for each free thread."""
        loop = asyncio.get_running_loop()
        while self._free and self._queues:
            client = next(iter(self._queues))
            queue = self._queues.pop(client)
            work, result, limit = queue.popleft()
            if queue:
                self._queues[client] = queue  # behind the others
            if result.done():  # nobody waits for it any more
                self._leave(client)
                continue
            self._free -= 1
            limit.reschedule(loop.time() + self.seconds)
            running = asyncio.ensure_future(loop.run_in_executor(self._threads, work))
            running.add_done_callback(lambda done, client=client, result=result: self._finish(client, done, result))

    def _finish(self, client: str, done: asyncio.Future[Any], result: asyncio.Future[Any]) -> None:
        self._free += 1
        self._leave(client)
        error = None if done.cancelled() else done.exception()
        if not result.done() and not done.cancelled():
            result.set_exception(error) if error is not None else result.set_result(done.result())
        self._start_next()

    def _leave(self, client: str) -> None:
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
