"""The web application: routes, one JSON shape for every error, and limits on requests.

GZip and static files are Starlette's own. The check of the Host header is not: Starlette's TrustedHostMiddleware
answers in plain text where this API promises JSON with a remedy, and up to version 1.0 it refuses [::1].
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import mimetypes
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..data.result_labels import add_labels
from ..json_values import parse_json, to_json
from .api_page import api_page
from .background import InProgress
from .endpoints import ENDPOINTS
from .errors import SEE_API, ApiError, api_error_of
from .explorer import Explorer
from .openapi import Endpoint, openapi_document
from .request_pool import RequestPool

STATIC = Path(__file__).parent / "static"
PAGES = ("/", "/entity", "/ask", "/map", "/group", "/duplicates", "/model", "/new")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MAX_BODY_BYTES = 64 << 10
TOKEN_COOKIE = "relatent_token"
REQUEST_SECONDS = 10.0
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
Handler = Callable[[Request], Awaitable[Response]]

mimetypes.add_type("text/javascript", ".js")  # with nosniff, browsers refuse scripts of the types some systems give


def create_app(
    explorer: Explorer,
    *,
    hosts: Sequence[str] | None = LOOPBACK,
    token: str | None = None,
    seconds: float = REQUEST_SECONDS,
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """The application for an explorer.

    hosts: host names that requests may use; None: any. Protects against DNS rebinding, in which a foreign page points
    its own name to this server.
    token: what requests must send, as `Authorization: Bearer …`, or once as `?token=…`, which sets a cookie.
    seconds: time limit of one request.
    """
    n_slow = max(1, (os.cpu_count() or 1) // 2)
    pools = {kind: RequestPool(seconds, n_threads=n_slow) for endpoint in ENDPOINTS if (kind := endpoint.slow)}
    pools[""] = RequestPool(seconds)
    files = StaticFiles(directory=STATIC)
    gzip = [Middleware(GZipMiddleware)]
    document = json.dumps(openapi_document(ENDPOINTS), ensure_ascii=False)

    async def page(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    async def openapi(request: Request) -> Response:
        return Response(document, media_type="application/json")

    async def api(request: Request) -> Response:
        return HTMLResponse(api_page(ENDPOINTS))

    app = Starlette(
        routes=[
            *(
                Route(
                    endpoint.path,
                    _handler(endpoint, explorer, pools[endpoint.slow]),
                    methods=[endpoint.method],
                )
                for endpoint in ENDPOINTS
            ),
            Route("/api/openapi.json", openapi, middleware=gzip),
            Route("/api", api, middleware=gzip),
            *(Route(path, page, middleware=gzip) for path in PAGES),
            Mount("/web", files, middleware=gzip),
        ],
        middleware=[Middleware(RequestGuard, hosts=hosts, token=token), *middleware],
        exception_handlers={HTTPException: _http_error, Exception: _internal_error},
    )
    app.router.redirect_slashes = False
    return app


def _handler(endpoint: Endpoint, explorer: Explorer, pool: RequestPool) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            query: dict[str, list[str]] = {}
            for name, value in request.query_params.multi_items():
                query.setdefault(name, []).append(value)
            arguments = endpoint.read_query(query)
            if endpoint.read_body is not None:
                arguments |= endpoint.read_body(await _json_body(request))
            client = request.client.host if request.client else ""
            answer = await pool.run(lambda: _encode(endpoint.call(explorer, **arguments), explorer), client)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody receives it
        except Exception as error:
            api_error = api_error_of(error)
            if api_error is None:
                raise
            return error_response(api_error)
        status, content, media_type = answer
        return Response(content, status, {"cache-control": "no-store"}, media_type)

    return handle


def _encode(result: Any, explorer: Explorer) -> tuple[int, bytes, str]:
    """Status, content and media type; runs in a worker thread, not in the event loop."""
    if isinstance(result, bytes):
        return 200, result, "application/octet-stream"
    text = json.dumps(add_labels(to_json(result), explorer.factors), ensure_ascii=False, allow_nan=False)
    return 202 if isinstance(result, InProgress) else 200, text.encode(errors="replace"), "application/json"


async def _json_body(request: Request) -> Any:
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type != "application/json":
        message = f"the content type of the body is {media_type[:80] or 'not given'}"
        raise ApiError(415, "not_json", message, "send content-type: application/json")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
    try:
        return parse_json(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "not_json", "the body is not valid JSON", "send one JSON object") from error


# --- errors


def error_response(error: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    """The error as JSON."""
    body: dict[str, Any] = {"code": error.code, "message": error.message, "remedy": error.remedy}
    if error.close is not None:
        body["close"] = list(error.close)
    text = json.dumps({"error": body}, ensure_ascii=False).encode(errors="replace")
    retry = {"retry-after": "1"} if error.status == 503 else {}
    return Response(text, error.status, {"cache-control": "no-store", **retry, **(headers or {})}, "application/json")


def _too_large() -> ApiError:
    return ApiError(413, "too_large", f"the body exceeds {MAX_BODY_BYTES >> 10} KiB", "send fewer facts")


async def _http_error(request: Request, error: Exception) -> Response:
    """Errors of routing: a page for people, JSON for programs."""
    assert isinstance(error, HTTPException)
    path, status, headers = request.url.path, error.status_code, dict(error.headers or {})
    if status == 404 and request.method == "GET" and not path.startswith("/api"):
        return FileResponse(STATIC / "index.html", 404)
    if status == 404:
        api_error = ApiError(404, "no_such_page", f"there is no page {path[:200]}", SEE_API)
    elif status == 405:
        allowed = headers.setdefault("Allow", "GET")
        api_error = ApiError(405, "wrong_method", f"{path[:200]} does not support {request.method}", f"use {allowed}")
    else:
        api_error = ApiError(status, "bad_request", HTTPStatus(status).phrase, SEE_API)
    return error_response(api_error, headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    """A bug: the log has the details, the client receives none."""
    response = error_response(
        ApiError(500, "internal", "the server failed to answer", "see its log, and please report the error")
    )
    response.headers.update(SECURITY_HEADERS)  # Starlette sends this response outside of the middleware
    return response


class RequestGuard:
    """The outermost middleware: adds security headers; refuses foreign Host headers, missing tokens, large bodies."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None, token: str | None = None):
        self.app, self.hosts, self.token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("cache-control", "no-cache")  # pages and scripts: revalidated by their ETag
            await send(message)

        request = HTTPConnection(scope)
        refusal = self._refusal(request.headers)
        answer: ASGIApp = self.app if refusal is None else error_response(refusal)
        if refusal is None and self.token is not None and not self._has_token(request):
            answer = self._ask_for_token(request)
        await answer(scope, receive, send_with_headers)

    def _has_token(self, request: HTTPConnection) -> bool:
        """Whether a request sends the token, whose characters clients write in UTF-8 or in Latin-1, or its cookie."""
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return hmac.compare_digest(request.cookies.get(TOKEN_COOKIE, "").encode(), self._cookie().encode())
        found = sent.strip().encode("latin-1")
        return any(hmac.compare_digest(found, token) for token in self._written())

    def _written(self) -> list[bytes]:
        """The token in UTF-8 and, if it can be, in Latin-1."""
        token, found = self.token or "", [(self.token or "").encode(errors="surrogateescape")]
        with contextlib.suppress(UnicodeEncodeError):
            found.append(token.encode("latin-1"))
        return found

    def _cookie(self) -> str:
        """What stands for the token in a cookie, which takes ASCII only."""
        return hashlib.sha256(self._written()[0]).hexdigest()

    def _ask_for_token(self, request: HTTPConnection) -> Response:
        """401, or if the token is in the address of a page: a cookie, and the address without it."""
        sent = request.query_params.get("token", "").encode(errors="surrogateescape")
        if not hmac.compare_digest(sent, self._written()[0]):
            remedy = "open the address with ?token=…, or send Authorization: Bearer …"
            return error_response(ApiError(401, "no_token", "the token is missing or wrong", remedy))
        query = request.url.remove_query_params("token").query
        path = "/" + request.url.path.lstrip("/")  # never another host
        response = RedirectResponse(f"{path}?{query}" if query else path, 303)
        response.set_cookie(TOKEN_COOKIE, self._cookie(), httponly=True, samesite="strict")
        return response

    def _refusal(self, headers: Headers) -> ApiError | None:
        host = headers.get("host", "")
        if self.hosts is not None and _host_name(host) not in self.hosts:
            remedy = (
                f"open it as {self.hosts[0]}, or start the server with --allow-host {_host_name(host)[:80] or 'NAME'}"
            )
            return ApiError(400, "foreign_host", f"{host[:80]!r} is not a name of this server", remedy)
        length = headers.get("content-length", "0")
        return _too_large() if length.isdigit() and int(length[:12]) > MAX_BODY_BYTES else None


def _host_name(header: str) -> str:
    """The name in a Host header, without the port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
