"""Tables from a SPARQL endpoint, page by page."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from ... import __version__
from ...errors import DataError, one_line
from .files import MAX_DOCUMENT_VALUES
from .reading import Reading
from .roles import SYNONYMS
from .sql import shown_url
from .table import Table, in_blocks, read_rows

SCHEME = "sparql+"  # before http:// or https://
DEFAULT_QUERY = "SELECT ?subject ?relation ?object WHERE { ?subject ?relation ?object FILTER(!isLiteral(?object)) }"
ROWS_PER_PAGE = 10_000
MAX_PAGE_BYTES = 1 << 28
TIMEOUT_SECONDS = 120.0  # of a page, from the question to its last byte
MAX_TRIES = 5
FIRST_WAIT_SECONDS = 1.0  # doubles with every try
MAX_WAIT_SECONDS = 60.0


def read_sparql(url: str, reading: Reading) -> Table:
    """The rows of a SELECT query: `sql`, or ?query= or ?query-file= of the URL, or all triples between entities.

    A query without LIMIT is asked in pages, ordered by its variables, so that a limit of the server loses nothing.
    """
    endpoint, _, rest = url.removeprefix(SCHEME).partition("?")
    if not endpoint.startswith(("http://", "https://")):
        raise DataError(f"{shown_url(url)}: a SPARQL endpoint is sparql+http://… or sparql+https://…")
    options = dict(parse_qsl(rest))
    in_url, file = options.pop("query", None), options.pop("query-file", None)
    shown = shown_url(endpoint)
    if sum(given is not None for given in (reading.sql, in_url, file)) > 1:
        raise DataError(f"{shown}: give one of ?query=, ?query-file= and a query, got more than one")
    text = reading.sql or in_url or (DEFAULT_QUERY if file is None else _file_text(file))
    reading.understood |= {"format": "SPARQL endpoint", "query": text}
    pages = _QueryPages(endpoint + (f"?{urlencode(options)}" if options else ""), shown, text, reading)
    return read_rows(lambda: in_blocks(pages.rows()), reading, shown, names=pages.names())


def _file_text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as problem:
        raise DataError(f"{file}: cannot be read: {one_line(problem)}") from None


class _QueryPages:
    """The rows of a query, page by page."""

    def __init__(self, endpoint: str, shown: str, query: str, reading: Reading):
        self._endpoint, self._shown, self._query, self._reading = endpoint, shown, query, reading
        self._only: dict[str, Any] | None = None  # the answer to a query with a LIMIT
        self._names: list[str] = []

    def names(self) -> list[str]:
        """The variables of the query."""
        is_paged = not re.search(r"\blimit\s+\d+", self._query, re.I)
        found = self._page(f"{self._query} LIMIT 1" if is_paged else self._query)
        self._only = None if is_paged else found
        self._names = [str(name) for name in found["head"]["vars"]]
        return self._names

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """A tuple for each row without literals."""
        has_order = re.search(r"\border\s+by\b", self._query, re.I)
        order = "" if has_order else f" ORDER BY {' '.join(f'?{name}' for name in self._names)}"
        offset, n_literals, previous = 0, 0, None
        while True:
            page = self._only or self._page(f"{self._query}{order} LIMIT {ROWS_PER_PAGE} OFFSET {offset}")
            bindings = page["results"]["bindings"]
            if bindings and bindings == previous:
                raise DataError(f"{self._shown}: sends the same rows for every OFFSET; give a query with a LIMIT")
            previous = bindings
            for binding in bindings:
                row = tuple(_value(binding.get(name), name) for name in self._names)
                if _LITERAL in row:
                    n_literals += 1
                else:
                    yield row
            offset += len(bindings)
            self._reading.report(offset, 0, f"{offset:,} rows")
            if self._only or not bindings:
                break
        if n_literals:
            self._reading.notes.append(f"left out {n_literals} rows with a literal; objects must be entities")

    def _page(self, query: str) -> dict[str, Any]:
        text = _answer(self._endpoint, self._shown, query)
        if sum(map(text.count, (b",", b"[", b"{"))) > MAX_DOCUMENT_VALUES:
            raise DataError(
                f"{self._shown}: an answer has more than {MAX_DOCUMENT_VALUES:,} values; ask for less at once"
            )
        try:
            found = json.loads(text)
            bindings = found["results"]["bindings"]
            if isinstance(found["head"]["vars"], list) and all(isinstance(row, dict) for row in bindings):
                return dict(found)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise DataError(f"{self._shown}: expected the results of a SELECT query as JSON, got {text[:80]!r}")


_LITERAL = object()


def _value(term: Any, name: str) -> Any:
    """The name of an entity, the number of a weight or count, None where unbound, or `_LITERAL`."""
    if not isinstance(term, dict):
        return None
    if term.get("type") == "uri":
        return term.get("value")
    if term.get("type") == "bnode":
        return f"_:{term.get('value')}"
    if name.lower() in SYNONYMS["weight"] | SYNONYMS["edge weight"] | SYNONYMS["count"]:
        try:
            return float(term["value"])
        except (KeyError, TypeError, ValueError):
            pass
    return _LITERAL


class _SameServer(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to the same server, by HTTP or HTTPS: the query, and a password, are for no other."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        is_safer = (before.scheme, after.scheme) == ("http", "https") and not (before.port or after.port)
        if before.hostname != after.hostname or not (is_safer or before[:2] == after[:2]):
            shown = shown_url(newurl)
            fp.close()
            raise DataError(f"{shown_url(req.full_url)}: redirects to {shown:.200}; give that address if you trust it")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _request(endpoint: str, shown: str, query: str) -> urllib.request.Request:
    headers = {"Accept": "application/sparql-results+json", "User-Agent": f"relatent/{__version__}"}
    try:
        parts = urlsplit(endpoint)
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
            endpoint = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return urllib.request.Request(endpoint, data=urlencode({"query": query}).encode(), headers=headers)
    except ValueError as problem:
        raise DataError(f"{shown}: {one_line(problem)}") from None


def _answer(endpoint: str, shown: str, query: str) -> bytes:
    """The answer of the server; tries again if it is busy or cannot be reached."""
    request, opener = _request(endpoint, shown, query), urllib.request.build_opener(_SameServer)
    wait = FIRST_WAIT_SECONDS
    for number in range(1, MAX_TRIES + 1):
        try:
            return _in_time(lambda: _asked_once(opener, request, shown), shown)
        except _BusyError as problem:
            reason, wait = str(problem), max(wait, problem.asked)
        except DataError:  # is a ValueError, too
            raise
        except (OSError, ValueError, http.client.HTTPException) as problem:  # no connection, a timeout, or no HTTP
            reason = one_line(problem)
            if _is_permanent(problem) or _is_permanent(getattr(problem, "reason", None)):
                raise DataError(f"{shown}: {reason}") from None
        if number < MAX_TRIES:
            time.sleep(min(wait, MAX_WAIT_SECONDS))
            wait *= 2
    raise DataError(f"{shown}: {reason} ({MAX_TRIES} tries)")


class _BusyError(Exception):
    """A server that may answer later, and the seconds to wait that it asks for."""

    def __init__(self, reason: str, asked: str):
        super().__init__(reason)
        self.asked = float(asked) if asked.isdecimal() else 0.0


def _asked_once(opener: urllib.request.OpenerDirector, request: urllib.request.Request, shown: str) -> bytes:
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return _body(answer, shown)
    except urllib.error.HTTPError as problem:
        with problem:
            text = _body(problem, shown, 300).decode(errors="replace")
        reason = f"HTTP {problem.code}: {one_line(text or problem.reason)}"
        if problem.code in (429, 500, 502, 503, 504):
            raise _BusyError(reason, problem.headers.get("Retry-After", "")) from None
        raise DataError(f"{shown}: {reason}") from None


def _in_time(work: Callable[[], bytes], shown: str) -> bytes:
    """What the work returns; DataError if it takes too long, however slowly a server sends its greeting or headers."""
    done: Future[bytes] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as problem:
            done.set_exception(problem)

    threading.Thread(target=run, daemon=True).start()
    try:
        return done.result(TIMEOUT_SECONDS)
    except FutureTimeoutError:
        if done.done():  # a timeout of a socket
            raise
        raise DataError(f"{shown}: an answer takes longer than {TIMEOUT_SECONDS:g} s; ask for less at once") from None


def _is_permanent(problem: object) -> bool:
    """Whether the same question will have the same answer: no such host, a wrong certificate, no HTTP."""
    if isinstance(problem, (ConnectionError, http.client.IncompleteRead)):
        return False
    if isinstance(problem, socket.gaierror):
        return problem.errno != socket.EAI_AGAIN
    return isinstance(problem, (ssl.SSLCertVerificationError, http.client.HTTPException, UnicodeError))


def _body(answer: Any, shown: str, max_bytes: int = MAX_PAGE_BYTES) -> bytes:
    """The body of an answer, or its beginning."""
    blocks, length = [], 0
    while block := answer.read1(1 << 16):
        blocks.append(block)
        length += len(block)
        if length > max_bytes:
            if max_bytes < MAX_PAGE_BYTES:
                break
            raise DataError(f"{shown}: an answer is longer than {MAX_PAGE_BYTES >> 20} MB; ask for less at once")
    return b"".join(blocks)
