"""What a benchmark ran on, and how quiet it was there."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy


def describe() -> dict[str, Any]:
    """The machine and the libraries that do the work."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(int((_field("/proc/meminfo", "MemTotal") or "0").split()[0]) / 1e6, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
    }


def commit(folder: Path) -> str:
    """The commit of the working tree, marked `-dirty` where something but the results has changed."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return (git("rev-parse", "HEAD") or "unknown") + ("-dirty" if changed else "")


class Watch:
    """CPU time that other processes, and other machines on the same host, took between start and stop."""

    def __init__(self) -> None:
        self.load = os.getloadavg()
        self.wall, self.own, self.busy = time.perf_counter(), _own_seconds(), _busy_seconds()

    def stop(self) -> dict[str, Any]:
        """Seconds since the start: wall, our own and our children's CPU, everyone else's CPU."""
        wall, own = time.perf_counter() - self.wall, _own_seconds() - self.own
        busy = _busy_seconds()
        other = None if busy is None or self.busy is None else round(max(busy - self.busy - own, 0.0), 2)
        return {
            "load_average_before": [round(load, 2) for load in self.load],
            "wall_seconds": round(wall, 2),
            "own_cpu_seconds": round(own, 2),
            "other_cpu_seconds": other,
        }


def resident_mb() -> float:
    """Memory this process holds now."""
    return int(_field("/proc/self/status", "VmRSS").split()[0]) / 1024


def peak_mb() -> float:
    """The most memory this process held since `forget_peak`, or ever."""
    return int(_field("/proc/self/status", "VmHWM").split()[0]) / 1024


def forget_peak() -> None:
    """Let `peak_mb` count from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _busy_seconds() -> float | None:
    """user, nice, system, irq, softirq and steal of all cores."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except OSError:
        return None
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def _field(path: str, name: str) -> str:
    """The value of a line `name: value`, or nothing."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")
