"""Free memory and disk space, checked before work starts rather than exhausted in the middle of it.

Free memory is that of the machine, of the container (cgroups, v1 and v2) or of the limits of the process (ulimit),
whichever is least. The file cache counts as free.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..errors import InputError

MIN_CHECKED_BYTES = 64 << 20  # smaller requests are not checked
MAX_SCORE_BYTES = 1 << 30  # on a GPU: scores of softmax held at once
WIDE_NUMBERS = 1 << 24  # on a GPU: numbers of a scalar product converted to float64 at once
LIBRARY_BYTES = 192 << 20  # address space of the buffers and threads of BLAS, which hangs or aborts without them


class MemoryEstimate(NamedTuple):
    """Estimated bytes of a fit; 0 if not known."""

    memory: int = 0  # peak, beyond the facts
    file: int = 0  # size of the model file
    device: int = 0  # peak in the memory of the GPU, facts included


def available(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes of free memory; None if the system does not tell."""
    limits = [_left_in_group(*group) for group in _cgroups(proc, cgroup)]
    found = (_machine(proc), *limits, *(max(0, left - LIBRARY_BYTES) for left in _left_of_process(proc)))
    return min((free for free in found if free is not None), default=None)


def check_memory(needed: int, what: str, remedy: str, *, free: int | None = None, kind: str = "memory") -> None:
    """Raise InputError if more bytes are needed than are free; `free`: those of another kind of memory."""
    free = available() if free is None else free
    if free is None or (needed <= MIN_CHECKED_BYTES and free > 0):
        return
    if needed > free or free == 0:
        raise InputError(f"{what} needs about {size(needed)} of {kind}, {size(free)} are free: {remedy}")


def check_disk(folder: Path, needed: int, what: str) -> None:
    """Raise InputError if more bytes are needed than the disk of a folder has free."""
    total, _, free = shutil.disk_usage(folder)
    if total and needed > free:  # some network disks report 0 of 0
        raise InputError(
            f"{what} needs about {size(needed)} on the disk of {folder}, {size(free)} are free: free some space first"
        )


def size(n: int) -> str:
    """Bytes as text: 7.1 GB, 24 GB, 310 MB."""
    amount, unit = (n / 1e9, "GB") if n >= 1e9 else (n / 1e6, "MB")
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:,.0f} {unit}"


def _machine(proc: Path) -> int | None:
    """Available memory of the machine; outside Linux, all of its memory."""
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


def _left_of_process(proc: Path) -> list[int]:
    """Bytes under the limits of this process on its address space and its data (ulimit -v and -d)."""
    try:
        import resource

        pages = [int(count) for count in (proc / "self" / "statm").read_text().split()]
    except (ImportError, OSError, ValueError):
        return []
    limits = ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5]))
    return [
        limit - used * resource.getpagesize()
        for kind, used in limits
        if (limit := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY
    ]


def _cgroups(proc: Path, cgroup: Path) -> Iterator[tuple[Path, str, str, str]]:
    """The control group of this process and its ancestors, each with its file names: any may have a limit."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        group = PurePosixPath(path.lstrip("/"))
        for ancestor in (group, *group.parents):
            if not controllers:
                yield cgroup / ancestor, "memory.max", "memory.current", ""
            elif "memory" in controllers.split(","):
                yield cgroup / "memory" / ancestor, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"


def _left_in_group(folder: Path, limit: str, usage: str, prefix: str) -> int | None:
    """Free bytes under a control group's limit; None if it has no limit."""
    try:
        most, used = int((folder / limit).read_text()), int((folder / usage).read_text())  # "max" is no number
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    cache = sum(int(counts.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))
    return max(0, most - used + cache)
