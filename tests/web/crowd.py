"""A crowd at the server: `python crowd.py MODEL [seconds]` measures what a bystander sees of it.

2,000 idle connections, 100 that send a byte per second, and 50 clients that ask without pause, one time in a hundred
for a fold-in; the bystander, a process of its own, asks five questions per second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from urllib.parse import urlencode

import relatent

IDLE, SLOW, BUSY = 2000, 100, 50
HEAD = "host: 127.0.0.1\r\nconnection: close\r\n"


async def exchange(port: int, request: str, body: str = "", address: str = "127.0.0.1") -> int:
    """The status of the answer to a client at an address; 0 if the connection was closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        extra = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n" if body else ""
        writer.write(f"{request} HTTP/1.1\r\n{HEAD}{extra}\r\n{body}".encode())
        answer = await reader.read()
        return int(answer.split(b" ", 2)[1]) if answer else 0
    except (ConnectionError, IndexError):
        return 0
    finally:
        writer.close()


async def idle(port: int) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await reader.read()
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(5)


async def slow(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            for byte in "GET /api/map HTTP/1.1\r\n" + HEAD * 9:
                writer.write(byte.encode())
                await writer.drain()
                await asyncio.sleep(1)
        except OSError:
            await asyncio.sleep(1)


async def busy(port: int, questions: list[str], fold_in: str, statuses: Counter) -> None:
    while True:
        if random.random() < 0.01:
            statuses["fold-in", await exchange(port, "POST /api/fold-in", fold_in)] += 1
        else:
            statuses["question", await exchange(port, random.choice(questions))] += 1


async def crowd(port: int, questions: list[str], fold_in: str, statuses: Counter) -> None:
    tasks = [idle(port) for _ in range(IDLE)] + [slow(port) for _ in range(SLOW)]
    await asyncio.gather(*tasks, *(busy(port, questions, fold_in, statuses) for _ in range(BUSY)))


async def bystander(port: int, questions: list[str], seconds: float) -> tuple[Counter, list[float]]:
    """Statuses and response times of one client at another address."""
    seen, times, end = Counter(), [], time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        seen[await exchange(port, random.choice(questions), address="127.0.0.2")] += 1
        times.append(time.monotonic() - start)
        await asyncio.sleep(0.2)
    return seen, sorted(times)


def send_crowd(port: int, questions: list[str], fold_in: str, seconds: float, results) -> None:
    """The process of the crowd: its statuses."""
    statuses = Counter()
    with contextlib.suppress(TimeoutError):
        asyncio.run(asyncio.wait_for(crowd(port, questions, fold_in, statuses), seconds))
    results.put(statuses)


def measure(port: int, questions: list[str], fold_in: str, seconds: float, memory) -> None:
    results, before = multiprocessing.Queue(), memory()
    process = multiprocessing.Process(target=send_crowd, args=(port, questions, fold_in, seconds + 5, results))
    process.start()
    time.sleep(5)
    warm = memory()
    seen, times = asyncio.run(bystander(port, questions, seconds))
    after, statuses = memory(), results.get()
    process.join()
    p50, p99 = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
    print(f"bystander: {len(times)} questions, p50 {p50:.0f} ms, p99 {p99:.0f} ms, statuses {dict(seen)}")
    print("busy clients:", ", ".join(f"{count} × {kind} {status}" for (kind, status), count in statuses.items()))
    print(f"memory: {before >> 10} MB, {warm >> 10} after 5 s, {after >> 10} at the end")


def main(model: str, seconds: float = 60.0) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    command = [sys.executable, "-m", "relatent", "serve", model, "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def memory() -> int:
        with open(f"/proc/{server.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    try:
        port = int(json.loads(server.stdout.readline())["url"].rstrip("/").rpartition(":")[2])
        factors, rng = relatent.load(model), random.Random(0)
        pairs = [(rng.choice(factors.entities), rng.choice(factors.relations)) for _ in range(200)]
        questions = ["GET /api/ask?" + urlencode({"subject": s, "relation": r, "top": 10}) for s, r in pairs]
        facts = [{"relation": r, "role": "subject", "partner": s} for s, r in pairs[:3]]
        measure(port, questions, json.dumps({"name": "new", "facts": facts}), seconds, memory)
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
