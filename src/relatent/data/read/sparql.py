"""Facts from a SPARQL endpoint, page by page."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from ... import __version__
from ...errors import DataError, one_line
from ..facts import Facts
from .columns import COUNT_NAMES, EDGE_WEIGHT_NAMES
from .reading import Reading
from .rows import facts_from_rows

SCHEME = "sparql+"  # before http:// or https://
DEFAULT_QUERY = "SELECT ?subject ?relation ?object WHERE { ?subject ?relation ?object FILTER(!isLiteral(?object)) }"
ROWS_PER_PAGE = 10_000
MAX_PAGE_BYTES = 1 << 28
TIMEOUT_SECONDS = 120.0
MAX_TRIES = 5
FIRST_WAIT_SECONDS = 1.0  # doubles with every try
MAX_WAIT_SECONDS = 60.0


def read_sparql(url: str, query: str | None, reading: Reading) -> Facts:
    """Facts of a SELECT query: `query`, or ?query= or ?query-file= of the URL, or all triples between entities.

    A query without LIMIT is asked in pages, ordered by its variables, so that a limit of the server loses nothing.
    """
    endpoint, _, rest = url.removeprefix(SCHEME).partition("?")
    if not endpoint.startswith(("http://", "https://")):
        raise DataError(f"{url}: a SPARQL endpoint is sparql+http://… or sparql+https://…")
    options = dict(parse_qsl(rest))
    in_url, file = options.pop("query", None), options.pop("query-file", None)
    if sum(given is not None for given in (query, in_url, file)) > 1:
        raise DataError(f"{endpoint}: give one of ?query=, ?query-file= and a query, got more than one")
    text = query or in_url or (DEFAULT_QUERY if file is None else _file_text(file))
    reading.understood |= {"format": "SPARQL endpoint", "query": text}
    answers = _QueryPages(endpoint + (f"?{urlencode(options)}" if options else ""), text, reading)
    names, rows = answers.names_and_rows()
    facts = facts_from_rows(rows, reading, endpoint, names=names)
    if answers.n_literals:
        reading.notes.append(f"left out {answers.n_literals} rows with a literal; objects must be entities")
    return facts


def _file_text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as problem:
        raise DataError(f"{file}: cannot be read: {one_line(problem)}") from None


class _QueryPages:
    """The rows of a query, page by page."""

    def __init__(self, endpoint: str, query: str, reading: Reading):
        self._endpoint, self._query, self._reading = endpoint, query, reading
        self.n_literals = 0

    def names_and_rows(self) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """The variables, and a tuple for each row without literals."""
        is_paged = not re.search(r"\blimit\s+\d+", self._query, re.I)
        found = self._page(f"{self._query} LIMIT 1" if is_paged else self._query)
        names = [str(name) for name in found["head"]["vars"]]
        return names, self._rows(names, None if is_paged else found)

    def _rows(self, names: list[str], only: dict[str, Any] | None) -> Iterator[tuple[Any, ...]]:
        has_order = re.search(r"\border\s+by\b", self._query, re.I)
        order = "" if has_order else f" ORDER BY {' '.join(f'?{name}' for name in names)}"
        offset, previous = 0, None
        while True:
            page = only or self._page(f"{self._query}{order} LIMIT {ROWS_PER_PAGE} OFFSET {offset}")
            bindings = page["results"]["bindings"]
            if bindings and bindings == previous:
                raise DataError(f"{self._endpoint}: sends the same rows for every OFFSET; give a query with a LIMIT")
            previous = bindings
            for binding in bindings:
                row = tuple(_value(binding.get(name), name) for name in names)
                if _LITERAL in row:
                    self.n_literals += 1
                else:
                    yield row
            offset += len(bindings)
            self._reading.report(offset, 0, f"{offset:,} rows")
            if only or not bindings:
                return

    def _page(self, query: str) -> dict[str, Any]:
        text = _answer(self._endpoint, query)
        try:
            found = json.loads(text)
            bindings = found["results"]["bindings"]
            if isinstance(found["head"]["vars"], list) and all(isinstance(row, dict) for row in bindings):
                return dict(found)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise DataError(f"{self._endpoint}: expected the results of a SELECT query as JSON, got {text[:80]!r}")


_LITERAL = object()


def _value(term: Any, name: str) -> Any:
    """The name of an entity, the number of a weight or count, None where unbound, or `_LITERAL`."""
    if not isinstance(term, dict):
        return None
    if term.get("type") == "uri":
        return term.get("value")
    if term.get("type") == "bnode":
        return f"_:{term.get('value')}"
    if name.lower() in EDGE_WEIGHT_NAMES | COUNT_NAMES:
        try:
            return float(term["value"])
        except (KeyError, TypeError, ValueError):
            pass
    return _LITERAL


def _answer(endpoint: str, query: str) -> bytes:
    """The answer of the server; tries again if it is busy or cannot be reached."""
    try:
        request = urllib.request.Request(
            endpoint,
            data=urlencode({"query": query}).encode(),
            headers={"Accept": "application/sparql-results+json", "User-Agent": f"relatent/{__version__}"},
        )
    except ValueError as problem:
        raise DataError(f"{endpoint}: {one_line(problem)}") from None
    wait = FIRST_WAIT_SECONDS
    for number in range(1, MAX_TRIES + 1):
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                text: bytes = answer.read(MAX_PAGE_BYTES + 1)
            if len(text) > MAX_PAGE_BYTES:
                raise DataError(f"{endpoint}: an answer is longer than {MAX_PAGE_BYTES >> 20} MB; ask for less at once")
            return text
        except urllib.error.HTTPError as problem:
            with problem:
                reason = (
                    f"HTTP {problem.code}: {one_line(problem.read(300).decode(errors='replace') or problem.reason)}"
                )
            if problem.code not in (429, 500, 502, 503, 504):
                raise DataError(f"{endpoint}: {reason}") from None
            asked = problem.headers.get("Retry-After", "")
            wait = max(wait, float(asked)) if asked.isdecimal() else wait
        except http.client.InvalidURL as problem:
            raise DataError(f"{endpoint}: {one_line(problem)}") from None
        except (OSError, ValueError, http.client.HTTPException) as problem:  # no connection, a timeout, or no HTTP
            reason = one_line(problem)
        if number < MAX_TRIES:
            time.sleep(min(wait, MAX_WAIT_SECONDS))
            wait *= 2
    raise DataError(f"{endpoint}: {reason} ({MAX_TRIES} tries)")
