"""Room is asked for before the work, in containers too."""

import shutil

import pytest

import relatent
from relatent.backend import memory
from relatent.errors import InputError
from small_graphs import random_facts

FACTS = random_facts(20, 3, 150)
MB, GB = 10**6, 10**9


@pytest.fixture
def machine(tmp_path):
    """Writes the files in which Linux tells of its memory."""

    def machine(files, *, free=8 * GB, groups="0::/"):
        proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
        texts = {proc / "meminfo": f"MemTotal: 16 kB\nMemAvailable: {free >> 10} kB\n", proc / "self/cgroup": groups}
        for path, text in (texts | {cgroup / name: text for name, text in files.items()}).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return memory.available(proc, cgroup)

    return machine


def test_without_limits_it_is_what_the_machine_has(machine):
    assert machine({}) == pytest.approx(8 * GB, rel=1e-6)


def test_here_there_is_some():
    assert memory.available() > MB


def test_a_container_leaves_its_limit_less_what_is_used(machine):
    files = {"memory.max": str(2 * GB), "memory.current": str(GB), "memory.stat": "anon 5\ninactive_file 0"}
    assert machine(files) == GB


def test_the_cache_of_files_gives_way(machine):
    stat = f"active_file {100 * MB}\ninactive_file {200 * MB}"
    files = {"memory.max": str(2 * GB), "memory.current": str(GB), "memory.stat": stat}
    assert machine(files) == GB + 300 * MB


def test_a_group_without_a_limit_does_not_count(machine):
    files = {"memory.max": "max\n", "memory.current": str(GB), "memory.stat": ""}
    assert machine(files) == pytest.approx(8 * GB, rel=1e-6)


def test_the_tightest_group_above_counts(machine):
    files = {
        f"{folder}{name}": text
        for folder, limit in (("a/b/", "max"), ("a/", str(3 * GB)))
        for name, text in (("memory.max", limit), ("memory.current", str(GB)), ("memory.stat", ""))
    }
    assert machine(files, groups="0::/a/b") == 2 * GB


def test_the_older_kind_of_groups_is_read_too(machine):
    files = {
        "memory/a/memory.limit_in_bytes": str(3 * GB),
        "memory/a/memory.usage_in_bytes": str(GB),
        "memory/a/memory.stat": f"inactive_file 7\ntotal_inactive_file {MB}",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "memory/memory.usage_in_bytes": str(GB),
        "memory/memory.stat": "",
    }
    assert machine(files, groups="4:memory:/a\n3:cpu,cpuacct:/\n0::/") == 2 * GB + MB


def test_a_group_already_over_its_limit_leaves_nothing(machine):
    files = {"memory.max": str(GB), "memory.current": str(2 * GB), "memory.stat": ""}
    assert machine(files) == 0


@pytest.mark.parametrize(("limited", "used"), [("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)])
def test_the_limits_of_the_process_count(machine, tmp_path, monkeypatch, limited, used):
    resource = pytest.importorskip("resource")
    unlimited = (resource.RLIM_INFINITY,) * 2
    monkeypatch.setattr(
        resource, "getrlimit", lambda kind: (2 * GB, 2 * GB) if kind == getattr(resource, limited) else unlimited
    )
    (tmp_path / "proc/self").mkdir(parents=True)
    pages = ["0"] * 7
    pages[used] = "1000"
    (tmp_path / "proc/self/statm").write_text(" ".join(pages))
    assert machine({}) == 2 * GB - 1000 * resource.getpagesize() - memory.LIBRARY_BYTES


def test_outside_linux_it_is_all_memory_or_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(memory.os, "sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert memory.available(tmp_path, tmp_path) == 4096000
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.available(tmp_path, tmp_path) is None


@pytest.mark.parametrize(
    ("n", "text"),
    [(7_140 * MB, "7.1 GB"), (23_980 * MB, "24 GB"), (310 * MB, "310 MB"), (9_960 * MB, "10 GB"), (0, "0.0 MB")],
)
def test_sizes_are_for_readers(n, text):
    assert memory.size(n) == text


def test_what_does_not_fit_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 5 * GB)
    memory.check_memory(5 * GB, "this", "lower the rank")
    with pytest.raises(InputError, match=r"^that needs about 7\.1 GB of memory, 5\.0 GB are free: lower the rank$"):
        memory.check_memory(7_100 * MB, "that", "lower the rank")


def test_where_the_system_does_not_say_nothing_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "available", lambda: None)
    memory.check_memory(1 << 60, "this", "lower the rank")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (0, 0, 0))
    memory.check_disk(tmp_path, 1 << 60, "this")


@pytest.mark.parametrize(
    "model",
    [
        relatent.RescalALS(4, dtype="float64"),
        relatent.RescalLogit(4, dtype="float64"),
        relatent.Rescal(4, "hinge", dtype="float64"),
        relatent.NonnegativeRescal(4, dtype="float64"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_that_does_not_fit_is_refused_before_the_work(monkeypatch, model):
    monkeypatch.setattr(memory, "available", lambda: 1000)
    monkeypatch.setattr(memory, "MIN_CHECKED_BYTES", 0)
    steps = []
    name = type(model).__name__
    message = rf"^{name} of rank 4 on 20 entities needs about .* MB of memory, 0\.0 MB are free: lower the rank, or use"
    with pytest.raises(InputError, match=message):
        model.fit(FACTS, progress=lambda *news: steps.append(news))
    assert not steps
