"""Several processes on this machine against one: the same objective, what they send, seconds a step.

Workers talk over a loopback of their own (a network namespace), whose counters tell what really went over it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from run import CannotRunError

import relatent
from relatent.distributed.workers import ALONE, Workers
from relatent.fit.solvers.adam import STEPS_PER_ROUND

RUN = Path(__file__).with_name("run.py")
SIZES = (1, 2, 4)
PATIENCE = 600.0  # seconds
Sizes = tuple[int, int, int]  # entities, relations, facts

ALS = {"l2_entities": 0.01, "l2_relations": 0.01, "init": "random", "tol": 0.0, "calibrate": False}
LOGIT = {"l2_entities": 0.1, "l2_relations": 0.1, "init": "random", "tol": 0.0, "calibrate": False}
FITS: dict[str, tuple[Sizes, Callable[[], Any]]] = {
    "als": ((100_000, 10, 2_000_000), lambda: relatent.RescalALS(20, max_iter=6, **ALS)),
    "logit, exact": ((3_000, 5, 60_000), lambda: relatent.RescalLogit(32, method="exact", max_iter=8, **LOGIT)),
    "logit, exact, float64": (
        (3_000, 5, 60_000),
        lambda: relatent.RescalLogit(32, method="exact", max_iter=8, dtype="float64", **LOGIT),
    ),
    "logit, sampled": (
        (100_000, 10, 2_000_000),
        lambda: relatent.RescalLogit(20, method="sampled", max_iter=5, **LOGIT),
    ),
}


def several(seed: int) -> dict[str, Any]:
    """Every fit (calibrate=False) with 1, 2 and 4 processes of one thread each; and one process of two threads."""
    try:
        import torch
    except ImportError:
        raise CannotRunError("this benchmark needs torch: pip install 'relatent[gpu]'") from None
    results: dict[str, Any] = {"torch": torch.__version__, "own_loopback": bool(_namespace())}
    for name, (sizes, _) in FITS.items():
        runs = {f"{size} of one thread": _launched(name, size, seed) for size in SIZES}
        runs["1 of two threads"] = _launched(name, 1, seed, threads=2)
        alone = runs["1 of one thread"]["objective"]
        for run in runs.values():
            run["objective_differs_by"] = abs(run["objective"] - alone) / abs(alone)
        results[name] = {"entities, relations, facts": list(sizes), **runs}
    return results


def modelled(name: str, size: int) -> float:
    """Bytes that each worker sends a step, by the formulas of docs/scaling.md; a step of the exact fit is one sum."""
    (n, k, _), make = FITS[name]
    r, share, item = make().rank, (size - 1) / size, np.dtype(make().dtype).itemsize
    if name == "als":
        return share * (item * n * r + 8 * (2 * k + 3) * r * r)
    gradient = 2 * share * (item * (n * r + k * r * r) + 8 * (k + 1))
    if name.startswith("logit, exact"):
        return gradient
    return STEPS_PER_ROUND * gradient  # a round; objects that are drawn come on top


def _launched(name: str, size: int, seed: int, threads: int = 1) -> dict[str, Any]:
    task = {
        "module": "several_processes",
        "fit": name,
        "size": size,
        "seed": seed,
        "threads": threads,
        "role": "launch",
    }
    done = subprocess.run(
        [*_namespace(), sys.executable, str(RUN), "--task", json.dumps(task)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    if done.returncode:
        raise CannotRunError(f"{name} with {size} workers failed: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _namespace() -> list[str]:
    """A loopback that nobody else uses, where the system lets us have one."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return []
    command = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    return command if subprocess.run([*command, "true"], capture_output=True).returncode == 0 else []


def do(task: dict[str, Any]) -> dict[str, Any]:
    """One contestant: the launcher of its workers, or one of these."""
    return _launch(task) if task["role"] == "launch" else _work(task)


def _launch(task: dict[str, Any]) -> dict[str, Any]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    size, threads = task["size"], str(task["threads"])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "GLOO_SOCKET_IFNAME": "lo"}
    common |= {"LOCAL_WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": threads}
    command = [sys.executable, str(RUN), "--task", json.dumps({**task, "role": "work"})]
    workers = []
    with tempfile.TemporaryFile("w+") as said:
        for rank in range(size):
            environment = {**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            workers.append(subprocess.Popen(command, env=environment, stdout=said if rank == 0 else subprocess.DEVNULL))
        for worker in workers:
            if worker.wait(PATIENCE):
                raise RuntimeError(f"a worker ended with {worker.returncode}")
        said.seek(0)
        found: dict[str, Any] = json.load(said)
    return found


def _work(task: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    name, size = task["fit"], task["size"]
    (n, k, count), make = FITS[name]
    rng = np.random.default_rng(task["seed"])
    columns = [rng.integers(0, high, count) for high in (n, k, n)]
    with Workers.join() if size > 1 else ALONE as workers:
        part = [column[workers.rank :: size] for column in columns]
        facts = relatent.Facts.from_arrays(*part, n_entities=n, n_relations=k)
        steps: list[tuple[float, int, int]] = []

        def progress(*_: object) -> None:
            steps.append((time.perf_counter(), workers.bytes_sent, _loopback()))

        fitted = make().fit(facts, progress=progress, workers=workers)
    if not steps:
        return {}  # the first worker tells
    seconds, sent, wire = np.diff(np.array(steps, float), axis=0).T
    found = {
        "objective": float(fitted.trace_.objective[-1]),
        "seconds_a_step": {"best": float(seconds.min()), "median": float(np.median(seconds)), "n": len(seconds)},
    }
    if size > 1:
        model = modelled(name, size)
        sums = np.maximum(np.round(sent / model), 1)  # a line search may take several
        found["bytes_a_worker_a_step"] = {
            "modelled": model,
            "handed_to_a_ring": float(np.median(sent / sums)),
            "on_the_loopback": float(np.median(wire / sums)) / size,
        }
    return found


def _loopback() -> int:
    """Bytes sent over the loopback so far, headers included."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[8])
    return 0
