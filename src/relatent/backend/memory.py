"""Room in memory and on a disk: asked for before the work is done, not missed in the middle of it.

Memory is what the machine has left, or what the limit of a container leaves if that is less (cgroups, v1 and v2). The
cache of files counts as free, since it gives way.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..errors import InputError

TRIFLE = 64 << 20  # bytes: nothing to ask about


class Needs(NamedTuple):
    """What a fit will take, in bytes; 0 where nobody has counted."""

    memory: int = 0  # at its peak, beyond what is there already
    file: int = 0  # of the model


def available(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes of memory that can still be taken; None where the system does not say."""
    machine, limits = _machine(proc), [_left(*place) for place in _cgroups(proc, cgroup)]
    return min((found for found in (machine, *limits) if found is not None), default=None)


def check_memory(needs: int, what: str, remedy: str) -> None:
    """Refuse what does not fit into memory."""
    if needs > TRIFLE and (free := available()) is not None and needs > free:
        raise InputError(f"{what} needs about {size(needs)} of memory, {size(free)} are free: {remedy}")


def check_disk(folder: Path, needs: int, what: str) -> None:
    """Refuse what does not fit onto the disk of a folder."""
    total, _, free = shutil.disk_usage(folder)
    if total and needs > free:  # a few network disks say 0 of 0
        raise InputError(
            f"{what} needs about {size(needs)} on the disk of {folder}, {size(free)} are free: make room there first"
        )


def size(n: int) -> str:
    """Bytes for a reader: 7.1 GB, 24 GB, 310 MB."""
    amount, unit = (n / 1e9, "GB") if n >= 1e9 else (n / 1e6, "MB")
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:,.0f} {unit}"


def _machine(proc: Path) -> int | None:
    """What the system counts as available; outside Linux all the memory there is."""
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            name, value, *_ = line.split()
            if name == "MemAvailable:":
                return int(value) << 10  # kB
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _cgroups(proc: Path, cgroup: Path) -> Iterator[tuple[Path, str, str, str]]:
    """The group this process is in and all above it, any of which may have a limit; with the names of their files."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        group = PurePosixPath(path.lstrip("/"))
        for each in (group, *group.parents):
            if not controllers:
                yield cgroup / each, "memory.max", "memory.current", ""
            elif "memory" in controllers.split(","):
                yield cgroup / "memory" / each, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"


def _left(folder: Path, limit: str, usage: str, prefix: str) -> int | None:
    """What a group's limit leaves; None where it has none."""
    try:
        most, used = int((folder / limit).read_text()), int((folder / usage).read_text())  # "max" is no number
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    cache = sum(int(counts.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
    return max(0, most - used + cache)
