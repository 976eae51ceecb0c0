"""The web application: routes, one shape for every error, and what keeps strangers and long work out.

Work runs in a few threads beside the event loop, with a limit on time and on how many may wait.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import html
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import InputError, RelatentError
from ..json_values import parse_json
from .background import Working
from .endpoints import ENDPOINTS
from .openapi import Endpoint, ValueProblem, described, plain
from .views import Explorer, MissingError, UnknownError

WEB = Path(__file__).parent / "static"
PAGES = ("/", "/entity", "/ask", "/map", "/group", "/model", "/new")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MOST_BODY = 64 << 10  # bytes
MOST_WAITING = 64  # requests that are worked on or wait for it
SECONDS = 10.0  # a request
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
SAFE = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
READ_THE_API = "/api says what there is"


class Problem(Exception):  # noqa: N818
    """What a client is told in place of an answer."""

    def __init__(self, status: int, code: str, message: str, remedy: str, close: Sequence[str] | None = None):
        super().__init__(message)
        self.status, self.code, self.message, self.remedy, self.close = status, code, message, remedy, close


def create_app(
    explorer: Explorer,
    *,
    hosts: Sequence[str] | None = LOOPBACK,
    seconds: float = SECONDS,
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """The application around an explorer.

    hosts: names that a request may call this server by; None: any. Against pages elsewhere whose name was pointed
    here (DNS rebinding).
    seconds: for one request.
    """
    pool = Pool(seconds)
    files = _files()
    routes = [
        Route(endpoint.path, _endpoint(endpoint, explorer, pool), methods=[endpoint.method]) for endpoint in ENDPOINTS
    ]
    document = json.dumps(described(ENDPOINTS), ensure_ascii=False).encode()
    description = _File(_api_page().encode(), "text/html; charset=utf-8")
    routes += [
        Route("/api/openapi.json", _serve(_File(document, "application/json"))),
        Route("/api", _serve(description)),
        *(Route(page, _serve(files["index.html"])) for page in PAGES),
        *(Route(f"/web/{name}", _serve(file)) for name, file in files.items()),
    ]

    async def missing(request: Request, problem: Exception) -> Response:
        """Pages that do not exist: a page that says so for people, the usual error for programs."""
        assert isinstance(problem, HTTPException)
        if problem.status_code == 404 and request.method == "GET" and not request.url.path.startswith("/api"):
            return files["index.html"].response(request, 404)
        return _error(_of_http(request, problem), problem.headers)

    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=hosts), *middleware],
        exception_handlers={HTTPException: missing, Exception: _fault},
    )
    app.router.redirect_slashes = False
    return app


# --- questions


class Pool:
    """Threads for the work of requests: as many as cores, so that one long question does not hold up the others."""

    def __init__(self, seconds: float, most_waiting: int = MOST_WAITING):
        self.seconds, self.most_waiting, self.waiting = seconds, most_waiting, 0
        self._threads = ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="request")

    async def run(self, work: Callable[[], Any]) -> Any:
        """The result of the work, or a problem: too many wait, or it takes too long."""
        if self.waiting >= self.most_waiting:
            raise Problem(503, "busy", f"{self.waiting} requests wait already", "try again in a moment")
        self.waiting += 1
        loop = asyncio.get_running_loop()
        future = self._threads.submit(work)
        future.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(self._done))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.seconds)
        except TimeoutError as error:
            told = f"this took longer than {self.seconds:g} seconds"
            raise Problem(503, "timeout", told, "ask for less, or try again in a moment") from error

    def _done(self) -> None:
        self.waiting -= 1


def _endpoint(endpoint: Endpoint, explorer: Explorer, pool: Pool) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            query: dict[str, list[str]] = {}
            for name, value in request.query_params.multi_items():
                query.setdefault(name, []).append(value)
            values = endpoint.read_query(query)
            if endpoint.read_body is not None:
                values |= endpoint.read_body(await _json_body(request))
            status, content, kind = await pool.run(lambda: _rendered(endpoint.call(explorer, **values)))
        except Exception as error:
            problem = _problem_of(error)
            if problem is None:
                raise
            return _error(problem)
        return Response(content, status, {"cache-control": "no-store"}, kind)

    return answer


def _rendered(found: Any) -> tuple[int, bytes, str]:
    """Status, bytes and kind of an answer; made in the thread, not in the event loop."""
    if isinstance(found, bytes):
        return 200, found, "application/octet-stream"
    text = json.dumps(plain(found), ensure_ascii=False, allow_nan=False)
    return 202 if isinstance(found, Working) else 200, text.encode(errors="replace"), "application/json"


async def _json_body(request: Request) -> Any:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(
            415, "not_json", f"the body is {kind[:80] or 'of no kind'}", "send content-type: application/json"
        )
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise _too_large()
    try:
        return parse_json(body)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "not_json", "the body is not JSON", "send one JSON object") from error


# --- errors


def _problem_of(error: Exception) -> Problem | None:
    """What a client is told of an error; None where it is a fault of our own."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, UnknownError):
        listed = "/api/groups" if error.what == "group" else "/api/search"
        near = f"did you mean {' or '.join(error.close)}?" if error.close else f"see {listed}; {READ_THE_API}"
        return Problem(404, f"unknown_{error.what.split()[0]}", str(error), near, error.close)
    if isinstance(error, ValueProblem):
        return Problem(422, "bad_value", str(error), error.remedy)
    if isinstance(error, (MissingError, InputError)):
        message, _, remedy = str(error).rpartition("; ")
        status, code = (409, "not_possible_here") if isinstance(error, MissingError) else (422, "bad_value")
        return Problem(status, code, message or remedy, remedy if message else READ_THE_API)
    if isinstance(error, RelatentError):
        return Problem(422, "bad_value", str(error), READ_THE_API)
    return None


def _too_large() -> Problem:
    return Problem(413, "too_large", f"the body has more than {MOST_BODY >> 10} KiB", "send fewer facts")


def _of_http(request: Request, problem: HTTPException) -> Problem:
    if problem.status_code == 404:
        return Problem(404, "no_such_page", f"there is no {request.url.path[:200]}", READ_THE_API)
    if problem.status_code == 405:
        allowed = (problem.headers or {}).get("Allow", "GET")
        return Problem(405, "wrong_method", f"{request.method} does not apply here", f"use {allowed}")
    return Problem(problem.status_code, "bad_request", HTTPStatus(problem.status_code).phrase, READ_THE_API)


async def _fault(request: Request, error: Exception) -> Response:
    """A bug: the log has it, the client learns nothing of our insides."""
    told = Problem(500, "internal", "the server failed to answer", "its log says why; please report it")
    response = _error(told)
    response.headers.update(SAFE)  # this one is made outside of the guard
    return response


def _error(problem: Problem, headers: Any = None) -> Response:
    told: dict[str, Any] = {"code": problem.code, "message": problem.message, "remedy": problem.remedy}
    if problem.close is not None:
        told["close"] = list(problem.close)
    text = json.dumps({"error": told}, ensure_ascii=False).encode(errors="replace")
    retry = {"retry-after": "1"} if problem.status == 503 else {}
    return Response(text, problem.status, {"cache-control": "no-store", **retry, **(headers or {})}, "application/json")


class Guard:
    """The outermost layer: safe headers on everything, foreign hosts and large bodies refused."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None):
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SAFE)
            await send(message)

        refused = self._refused(Headers(scope=scope))
        await (self.app if refused is None else _error(refused))(scope, receive, send_safely)

    def _refused(self, headers: Headers) -> Problem | None:
        if self.hosts is not None and _host_of(headers.get("host", "")) not in self.hosts:
            remedy = f"open it as {self.hosts[0]}, or start it with --host"
            return Problem(400, "foreign_host", "this server does not go by that name", remedy)
        length = headers.get("content-length", "0")
        return _too_large() if length.isdigit() and int(length[:12]) > MOST_BODY else None


def _host_of(text: str) -> str:
    """The name in a Host header, without its port."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].lower()


# --- files


class _File(NamedTuple):
    """A file in memory: nothing is read from the disk while serving, so no path can lead out of the folder."""

    content: bytes
    kind: str

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:16]}"'

    def response(self, request: Request, status: int = 200) -> Response:
        headers = {"etag": self.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if status == 200 and self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.content, status, headers, self.kind)
        return Response(_zipped(self.content), status, {**headers, "content-encoding": "gzip"}, self.kind)


_ZIPPED: dict[bytes, bytes] = {}


def _zipped(content: bytes) -> bytes:
    if content not in _ZIPPED:
        _ZIPPED[content] = gzip.compress(content, 9, mtime=0)
    return _ZIPPED[content]


def _files() -> dict[str, _File]:
    """The page and all it needs."""
    found = {path.name: path for path in sorted(WEB.iterdir()) if path.suffix in KINDS}
    return {name: _File(path.read_bytes(), f"{KINDS[path.suffix]}; charset=utf-8") for name, path in found.items()}


def _serve(file: _File) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return file.response(request)

    return answer


# --- the API for a reader


def _api_page() -> str:
    parts = [_endpoint_html(endpoint) for endpoint in ENDPOINTS]
    return API_PAGE.replace("{endpoints}", "\n".join(parts))


def _endpoint_html(endpoint: Endpoint) -> str:
    rows = "".join(
        f"<tr><th scope=row><code>{html.escape(one.name)}</code></th><td>{html.escape(one.about)}</td>"
        f"<td>{'required' if one.required else '' if one.default is None else f'default {one.default}'}</td></tr>"
        for one in endpoint.parameters
    )
    table = f"<table>{rows}</table>" if rows else ""
    if endpoint.body is not None:
        table = (
            f"<details><summary>Body</summary><pre>{html.escape(json.dumps(endpoint.body, indent=1))}</pre></details>"
        )
    gives = "bytes" if endpoint.answer is bytes else endpoint.answer.__name__
    later = " 202 with the progress while it is computed." if endpoint.takes_long else ""
    return (
        f"<section><h2><code>{endpoint.method} {endpoint.path}</code></h2><p>{html.escape(endpoint.summary)}{later} "
        f"Gives <code>{gives}</code>.</p>{table}</section>"
    )


API_PAGE = """<!doctype html>
<html lang=en>
<meta charset=utf-8>
<meta name=viewport content="width=device-width">
<title>API · relatent</title>
<link rel=icon href=/web/mark.svg>
<link rel=stylesheet href=/web/style.css>
<main class="page prose">
<p><a href=/>relatent</a></p>
<h1>API</h1>
<p>Everything the pages show can be had as JSON, by name.
<a href=/api/openapi.json>openapi.json</a> describes it for programs.</p>
<p>Errors have one shape: <code>{"error": {"code", "message", "remedy"}}</code>;
an unknown name adds <code>close</code>, names that may have been meant.</p>
{endpoints}
</main>
"""
