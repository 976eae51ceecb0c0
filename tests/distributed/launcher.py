"""Start several workers on this machine, as torchrun does, and wait for them, but never for long."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 150.0  # seconds: no test may hang


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(size: int, *arguments: object) -> list[subprocess.Popen]:
    """Processes of `python …`, each told who it is; they meet on the loopback."""
    port = free_port()
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    one = {"LOCAL_WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    paths = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    return [
        subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, **place, **one, "RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def finish(workers: list[subprocess.Popen]) -> list[tuple[int, str, str]]:
    """Exit code, standard output and standard error of each; those that outstay PATIENCE are killed."""
    ended = []
    try:
        for worker in workers:
            out, err = worker.communicate(timeout=PATIENCE)
            ended.append((worker.returncode, out, err))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return ended


def run(size: int, *arguments: object) -> list[tuple[int, str, str]]:
    """Start and finish."""
    return finish(start(size, *arguments))
