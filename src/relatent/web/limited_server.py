"""Limits of the server: connections, time to send a request and to take the response, idle time, lines of the log.

uvicorn waits for ever for the rest of a request, and accepts connections until the process has no file descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import sys
import time

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 1000  # with more, the one that has been idle for longest is closed
SPARE_DESCRIPTORS = 150  # for files, the accepted connections of one round of the event loop, and libraries
BACKLOG = 100  # connections that the event loop accepts at once
MAX_PENDING_CONNECTIONS = 4096  # that the system keeps until the event loop accepts them; it drops the others
RECEIVE_SECONDS = 10.0  # to send a request, from its first byte or the connection on
RESPONSE_SECONDS = 90.0  # to wait for a thread, to compute the response and to send it to a client that reads slowly
KEEP_ALIVE_SECONDS = 15.0  # between requests
SHUTDOWN_SECONDS = 2  # time that running requests have after Ctrl-C
MAX_LOG_LINES = 20  # per LOG_SECONDS
LOG_SECONDS = 60.0
SWITCH_SECONDS = 0.0005  # for which a thread keeps the interpreter while the event loop waits for it


class LimitedProtocol(H11Protocol):
    """One connection, which is closed if it takes too long, or if there are too many and it is idle."""

    max_connections = MAX_CONNECTIONS
    waiting: dict[LimitedProtocol, None]  # connections without a request to answer, the longest idle first
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request; close the connection that has waited longest if there are too many."""
        super().connection_made(transport)
        self._wait("receiving", RECEIVE_SECONDS)
        if len(self.connections) > self.max_connections:
            next(iter(self.waiting)).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        if self.phase == "idle":
            self._wait("receiving", RECEIVE_SECONDS)
        super().data_received(data)
        self._wait_for_response()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there already."""
        self._wait("idle", KEEP_ALIVE_SECONDS)
        super().on_response_complete()
        self._wait_for_response()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self._timer is not None:
            self._timer.cancel()
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def _wait_for_response(self) -> None:
        cycle = self.cycle
        if self.phase != "responding" and cycle and not cycle.response_complete and not cycle.more_body:
            self._wait("responding", RESPONSE_SECONDS)

    def _wait(self, phase: str, seconds: float) -> None:
        self.phase = phase
        self.waiting.pop(self, None)
        if phase != "responding":
            self.waiting[self] = None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self.transport.abort() if self.phase == "responding" else self.transport.close()


def limited_protocol(max_connections: int) -> type[LimitedProtocol]:
    """The protocol of one server."""
    return type("ServerProtocol", (LimitedProtocol,), {"max_connections": max_connections, "waiting": {}})


class RateLimit(logging.Filter):
    """Lets a number of records per minute pass; the first one after that says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._window, self._count = -1, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record passes."""
        window = int(time.monotonic() // LOG_SECONDS)
        if window != self._window:
            left_out, self._window, self._count = self._count - MAX_LOG_LINES, window, 0
            if left_out > 0:
                record.msg = f"({left_out} messages of the last minute were left out) {record.msg}"
        self._count += 1
        return self._count <= MAX_LOG_LINES


class LimitedServer(uvicorn.Server):
    """uvicorn's server with a longer queue of pending connections, and with short pauses for garbage collection.

    uvicorn sets the number of pending connections to `backlog`, which a crowd exceeds at once. A collection looks at
    every object of the model, which takes 0.2 s for 14,500 entities, so these objects are left out.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen for requests."""
        gc.collect()
        gc.freeze()
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(MAX_PENDING_CONNECTIONS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections."""
        await super().shutdown(sockets)
        gc.unfreeze()


def serve_app(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until Ctrl-C."""
    config = uvicorn.Config(
        app,
        http=limited_protocol(_affordable_connections()),
        ws="none",
        backlog=BACKLOG,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=int(KEEP_ALIVE_SECONDS),
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    limit = RateLimit()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(limit)
    sys.setswitchinterval(SWITCH_SECONDS)
    with contextlib.suppress(KeyboardInterrupt):
        LimitedServer(config).run(sockets=[listener])


def _affordable_connections() -> int:
    """MAX_CONNECTIONS, or fewer if the process may not open as many files; raises that limit if it can."""
    try:
        import resource
    except ImportError:  # on Windows
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + SPARE_DESCRIPTORS + BACKLOG
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(10, min(MAX_CONNECTIONS, soft - SPARE_DESCRIPTORS - BACKLOG))
