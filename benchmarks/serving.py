"""`relatent serve`: latency of questions at a steady rate, and memory growth over 10,000 requests."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
from run import CannotRunError
from timing import bar, summary, timed

import relatent

RANK, SWEEPS = 128, 8
RATE, SECONDS = 100, 20  # questions per second, open loop: each is sent on schedule, answered or not
N_MIXED_REQUESTS = 10_000
N_MIXED_CONNECTIONS = 8
N_STEADY_CONNECTIONS = 64
N_NAMES = 1_000_000


def serving(seed: int, model: str | None = None) -> dict[str, Any]:
    """WN18RR, least squares, calibrated: questions at 100 per second; valid and invalid requests; the start page."""
    train = relatent.load_splits("wn18rr")[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(model) if model else _fitted(train, Path(folder))
        with _server(path) as (process, port, started):
            rng = np.random.default_rng(seed)
            questions = _questions(train, rng, RATE * SECONDS)
            asyncio.run(_steady(port, questions[:200]))  # warm-up
            latency = asyncio.run(_steady(port, questions))
            first = _first_page(port)
            before = _resident_mb(process.pid)
            asyncio.run(_mixed(port, train, rng, N_MIXED_REQUESTS // 5))  # fills the caches
            settled = _resident_mb(process.pid)
            mixed = asyncio.run(_mixed(port, train, rng, N_MIXED_REQUESTS))
            after = _resident_mb(process.pid)
    ms = 1e3 * np.array(latency["seconds"])
    p99 = float(np.percentile(ms, 99))
    server_errors = sum(count for status, count in mixed["statuses"].items() if int(status) >= 500)
    return {
        "entities": train.n_entities,
        "known_facts": len(train),
        "start_seconds": started,
        "questions": {
            "asked": len(ms),
            "per_second": RATE,
            "ms": {"p50": float(np.percentile(ms, 50)), "p99": p99, "max": float(ms.max())},
            "statuses": latency["statuses"],
        },
        "first_page": first,
        "mixed": mixed | {"resident_mb": {"fresh": before, "after 2,000": settled, "after 10,000 more": after}},
        "search_among_a_million": _search(seed),
        "bars": {
            "top-10 question: p99 ms": bar(p99, most=50),
            "answers of 5xx": bar(server_errors, most=0),
            "memory grown over 10,000 requests, MB": bar(after - settled, most=20),
            "first page: seconds": bar(first["seconds"]["median"], most=1),
            "page weight: kB": bar(first["kb"], most=500),
        },
    }


def _fitted(train: relatent.Facts, folder: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.ConvergenceWarning)
        fit = relatent.RescalALS(RANK, 1.0, 1.0, max_iter=SWEEPS).fit(train)
    fit.factors_.save(folder / "wn18rr.relatent")
    return folder / "wn18rr.relatent"


@contextmanager
def _server(model: Path) -> Iterator[tuple[subprocess.Popen[str], int, float]]:
    """The command in a process of its own: the process, its port, and the seconds until it printed its address."""
    command = [sys.executable, "-m", "relatent.cli.main", "serve", str(model), "--port", "0", "--json"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise CannotRunError("the server did not start; pip install 'relatent[serve]'")
        yield process, int(json.loads(line)["url"].rstrip("/").rpartition(":")[2]), time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(10)


def _questions(train: relatent.Facts, rng: np.random.Generator, count: int) -> list[str]:
    """Questions for objects and subjects in turn, of random facts."""
    cells = train.named(train.triples[rng.integers(0, len(train), count)])
    return [
        "/api/ask?" + urlencode({"relation": k, **({"subject": s} if i % 2 else {"object": o}), "known": "omit"})
        for i, (s, k, o) in enumerate(cells)
    ]


class _Connection:
    """One persistent connection; plain sockets, so that the client costs little CPU time."""

    def __init__(self, port: int):
        self.port, self.stream = port, None

    async def ask(self, path: str, method: str = "GET", body: bytes = b"", headers: str = "") -> tuple[int, bytes]:
        if self.stream is None:
            self.stream = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.stream
        host = "" if "host:" in headers else f"host: 127.0.0.1:{self.port}\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{host}content-length: {len(body)}\r\n{headers}\r\n"
        writer.write(head.encode() + body)
        response_head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(response_head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        content = await reader.readexactly(length)
        if "connection: close" in response_head:
            writer.close()
            self.stream = None
        return int(response_head.split()[1]), content


async def _steady(port: int, paths: list[str]) -> dict[str, Any]:
    """Send each question at its scheduled time; waiting for a free connection counts as latency."""
    free: asyncio.Queue[_Connection] = asyncio.Queue()
    for _ in range(N_STEADY_CONNECTIONS):
        free.put_nowait(_Connection(port))
    seconds, statuses = [], {}
    begin = time.perf_counter() + 0.1

    async def send(number: int, path: str) -> None:
        due = begin + number / RATE
        await asyncio.sleep(due - time.perf_counter())
        connection = await free.get()
        status, _ = await connection.ask(path)
        seconds.append(time.perf_counter() - due)
        statuses[str(status)] = statuses.get(str(status), 0) + 1
        free.put_nowait(connection)

    await asyncio.gather(*(send(number, path) for number, path in enumerate(paths)))
    return {"seconds": seconds, "statuses": statuses}


async def _mixed(port: int, train: relatent.Facts, rng: np.random.Generator, count: int) -> dict[str, Any]:
    """Valid and invalid requests of every kind, eight at a time."""
    requests = iter([_request(train, rng, int(kind)) for kind in rng.integers(0, 16, count)])
    statuses: dict[str, int] = {}
    began = time.perf_counter()

    async def worker() -> None:
        connection = _Connection(port)
        for request in requests:
            status, _ = await connection.ask(**request)
            statuses[str(status)] = statuses.get(str(status), 0) + 1

    await asyncio.gather(*(worker() for _ in range(N_MIXED_CONNECTIONS)))
    return {"requests": count, "seconds": time.perf_counter() - began, "statuses": dict(sorted(statuses.items()))}


def _request(train: relatent.Facts, rng: np.random.Generator, kind: int) -> dict[str, Any]:
    s, k, o = train.named(train.triples[[int(rng.integers(len(train)))]])[0]
    json_type = "content-type: application/json\r\n"
    new_entity = json.dumps({"name": "Eve", "facts": [{"relation": k, "role": "subject", "partner": o}]}).encode()
    valid = [
        {"path": f"/api/ask?subject={quote(s)}&relation={quote(k)}"},
        {"path": f"/api/ask?object={quote(o)}&relation={quote(k)}&top=100&known=omit"},
        {"path": f"/api/ask?subject={quote(s)}&object={quote(o)}"},
        {"path": f"/api/entity?name={quote(s)}"},
        {"path": f"/api/search?q={quote(s[:4])}"},
        {"path": f"/api/similar?name={quote(s)}"},
        {"path": "/api/model"},
        {"path": "/web/app.js"},
    ]
    invalid = [
        {"path": f"/api/entity?name={quote(s)}nobody"},
        {"path": f"/api/ask?subject={quote(s)}&relation={quote(k)}&top=1000000"},
        {"path": f"/api/ask?subject={quote(s)}"},
        {"path": "/api/nowhere%00"},
        {"path": "/api/ask", "method": "DELETE"},
        {"path": "/api/fold-in", "method": "POST", "body": b"{" * 50, "headers": json_type},
        {
            "path": "/api/fold-in",
            "method": "POST",
            "body": b" " * 70_000,
            "headers": json_type + "connection: close\r\n",
        },
        {"path": "/", "headers": "host: evil.example\r\n"},
    ]
    if kind == 0 and rng.random() < 0.1:  # one in ten, as each copies A
        return {"path": "/api/fold-in", "method": "POST", "body": new_entity, "headers": json_type}
    return [*valid, *invalid][kind]


def _first_page(port: int) -> dict[str, Any]:
    """Fetch what the start page needs, one by one on one connection: an upper bound of the loading time."""

    async def fetch() -> int:
        connection, size = _Connection(port), 0
        for path in ("/", "/web/style.css", "/web/app.js", "/web/mark.svg", *MODULES, "/api/model"):
            status, content = await connection.ask(path, headers="accept-encoding: gzip\r\n")
            assert status == 200, path
            size += len(content)
        return size

    seconds, sizes = zip(*(timed(lambda: asyncio.run(fetch())) for _ in range(5)), strict=True)
    return {"seconds": summary(seconds), "kb": sizes[0] / 1e3}


MODULES = tuple(f"/web/{name}.js" for name in ("dom", "api", "format", "combobox", "facts", "home"))


def _search(seed: int) -> dict[str, Any]:
    """Search among a million names of two or three words: common, rare and absent parts."""
    from relatent.data.names import Names
    from relatent.web.name_index import NameIndex

    rng = np.random.default_rng(seed)
    syllables = np.array(["ba", "ko", "ri", "ta", "mu", "ne", "so", "li", "fe", "du", "va", "gi", "pa", "zo"])
    words = ["".join(rng.choice(syllables, rng.integers(2, 5))).title() for _ in range(30_000)]
    names = [f"{words[a]} {words[b]} {i}" for i, (a, b) in enumerate(rng.integers(0, len(words), (N_NAMES, 2)))]
    built, index = timed(lambda: NameIndex(Names(names)))
    parts = {
        "one letter": "k",
        "a word's beginning": "bako",
        "a whole name": names[777_777],
        "in the middle": "ukoritan",
        "absent": "qqqq",
    }
    found = {}
    for what, part in parts.items():
        found[what] = summary([1e3 * timed(lambda part=part: index.find(part, 10))[0] for _ in range(10)])
    close = summary([1e3 * timed(lambda: index.close(names[5][:-3] + "xyz"))[0] for _ in range(5)])
    return {"names": N_NAMES, "build_seconds": built, "ms": found, "ms of close names to a wrong one": close}


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
