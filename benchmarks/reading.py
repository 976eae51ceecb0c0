"""From a file of named facts to sorted ids: seconds, facts per second, memory, and the cost of each step.

The names are 20 letters and digits and the facts uniformly random, which is the hardest case for a hash table of names:
every access is a cache miss. `python benchmarks/reading.py 5000000` runs the same with fewer facts.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from timing import bar, summary, timed

import relatent
from relatent.data.read.files import identify
from relatent.data.read.rdf import read_rdf
from relatent.data.read.reading import Reading
from relatent.data.read.sources import facts_of
from relatent.data.read.string_table import Spans, StringTable

Array = np.ndarray[Any, Any]

N_RELATIONS, N_LETTERS, AT_ONCE = 40, 20, 1 << 18
FORMATS = ("tsv", "tsv.gz", "nt", "nt.gz", "parquet")


def reading(seed: int, n_facts: int = 70_000_000, n_names: int = 3_000_000, few: int = 5_000_000) -> dict[str, Any]:
    """All facts as TSV.gz; fewer facts in every format, beside polars, and each step alone."""
    few = min(few, n_facts)
    with tempfile.TemporaryDirectory() as folder:
        size = {"seed": seed, "n_facts": n_facts, "n_names": n_names}
        write(Path(folder) / "facts.tsv.gz", **size)
        whole = _measured("ours", Path(folder) / "facts.tsv.gz", **size)
        (Path(folder) / "facts.tsv.gz").unlink()
        size["n_facts"] = few
        for kind in FORMATS:
            write(Path(folder) / f"facts.{kind}", **size)
        ours = {kind: _measured("ours", Path(folder) / f"facts.{kind}", **size) for kind in FORMATS}
        polars = {
            kind: _measured("polars", Path(folder) / f"facts.{kind}", **size)
            for kind in FORMATS
            if not kind.startswith("nt")
        }
        steps = {
            "uncompress": _measured("uncompress", Path(folder) / "facts.tsv.gz", **size),
            "parse": _measured("parse", Path(folder) / "facts.tsv", **size),
            "number_the_names": _measured("number", Path(folder) / "facts.tsv", **size),
            "sort": _measured("sort", Path(folder) / "facts.tsv", **size),
        }
    return {
        "names": n_names,
        "relations": N_RELATIONS,
        "tsv.gz": whole,
        "facts_a_second": bar(whole["facts_a_second"], least=1_000_000),
        "peak_mb": bar(whole["peak_mb"], most=10_000),
        f"{few} facts": {"ours": ours, "polars, ids not sorted": polars, "one step alone": steps},
    }


def ntriples(seed: int, n_facts: int = 2_000_000, n_names: int = 200_000, rounds: int = 3) -> dict[str, Any]:
    """The N-Triples scanner beside pyoxigraph, in turn, on one file, plain and compressed; both must give equal facts.

    `parse` is pyoxigraph's parser alone, without ids and sorting: a bound on what other code around it could gain.
    """
    found: dict[str, Any] = {"facts": n_facts, "names": n_names, "relations": N_RELATIONS}
    readers = ("scanner", "pyoxigraph", "pyoxigraph_parse")
    size = {"seed": seed, "n_facts": n_facts, "n_names": n_names}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("nt", "nt.gz"):
            path = Path(folder) / f"facts.{kind}"
            write(path, **size)
            runs = [{reader: _measured(reader, path, **size) for reader in readers} for _ in range(rounds)]
            proofs = [run[reader].get("proof") for run in runs for reader in readers[:2]]
            seconds = {reader: summary([run[reader]["seconds"] for run in runs]) for reader in readers}
            cpu = {reader: summary([run[reader]["cpu_seconds"] for run in runs]) for reader in readers}
            found[kind] = {
                "seconds": seconds,
                "cpu_seconds": cpu,
                "peak_mb": {reader: max(run[reader]["peak_mb"] for run in runs) for reader in readers},
                "same_facts": len(set(proofs)) == 1 and all(run["scanner"]["same_as_written"] for run in runs),
                "times_faster": bar(seconds["pyoxigraph"]["median"] / seconds["scanner"]["median"], least=2),
                "times_less_cpu": cpu["pyoxigraph"]["median"] / cpu["scanner"]["median"],
                "times_faster_than_parsing_alone": seconds["pyoxigraph_parse"]["median"] / seconds["scanner"]["median"],
            }
    return found


# --- the file


def ids(seed: int, n_facts: int, n_names: int) -> Iterator[tuple[Array, Array, Array]]:
    """Subjects, relations and objects, a block at a time."""
    rng = np.random.default_rng(seed)
    for first in range(0, n_facts, AT_ONCE):
        size = min(AT_ONCE, n_facts - first)
        yield rng.integers(0, n_names, size), rng.integers(0, N_RELATIONS, size), rng.integers(0, n_names, size)


def names(seed: int, n_names: int) -> Array:
    """Distinct names of letters and digits, (n_names, 20) bytes."""
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
    return letters[np.random.default_rng(seed + 1).integers(0, len(letters), (n_names, N_LETTERS), np.uint8)]


def write(path: Path, *, seed: int, n_facts: int, n_names: int) -> None:
    """The facts in the format that the path says."""
    entities, relations = names(seed, n_names), np.array([list(b"relation%02d" % k) for k in range(N_RELATIONS)], "u1")
    blocks = ids(seed, n_facts, n_names)
    if path.suffix == ".parquet":
        return _write_parquet(path, entities, relations, blocks)
    marks = ("<http://x/", "> <http://x/", "> <http://x/", "> .\n") if ".nt" in path.name else ("", "\t", "\t", "\n")
    compressed = path.suffix == ".gz"
    work = partial(_text, entities, relations, marks, compressed)
    with path.open("wb") as file, ThreadPoolExecutor(2) as pool:
        waiting: deque[Future[bytes]] = deque()
        for block in blocks:
            waiting.append(pool.submit(work, block))
            if len(waiting) > 4:
                file.write(waiting.popleft().result())
        for text in waiting:
            file.write(text.result())


def _text(entities: Array, relations: Array, marks: tuple[str, ...], compressed: bool, block: Any) -> bytes:
    """Rows of fixed width; blocks compressed one by one may be joined end to end."""
    s, k, o = block
    parts = [entities[s], relations[k], entities[o]]
    rows = []
    for mark, part in zip(marks, [*parts, None], strict=True):
        rows.append(np.broadcast_to(np.frombuffer(mark.encode(), np.uint8), (len(s), len(mark))))
        if part is not None:
            rows.append(part)
    text = np.concatenate(rows, axis=1).tobytes()
    return gzip.compress(text, 1) if compressed else text


def _write_parquet(path: Path, entities: Array, relations: Array, blocks: Iterator[Any]) -> None:
    fields = [pa.field(name, pa.string()) for name in ("subject", "relation", "object")]
    with parquet.ParquetWriter(path, pa.schema(fields)) as writer:
        for s, k, o in blocks:
            columns = [_strings(each) for each in (entities[s], relations[k], entities[o])]
            writer.write_table(pa.table(dict(zip(("subject", "relation", "object"), columns, strict=True))))


def _strings(letters: Array) -> pa.Array:
    edges = np.arange(len(letters) + 1, dtype=np.int32) * letters.shape[1]
    return pa.StringArray.from_buffers(len(letters), pa.py_buffer(edges), pa.py_buffer(np.ascontiguousarray(letters)))


# --- one measurement in a process of its own


def _measured(what: str, path: Path, **size: int) -> dict[str, Any]:
    question = json.dumps({"what": what, "path": str(path), "size": size})
    done = subprocess.run([sys.executable, __file__, question], stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _measure(what: str, path: Path, size: dict[str, int]) -> dict[str, Any]:
    work = {
        "ours": _ours,
        "scanner": _scanner,
        "pyoxigraph": _pyoxigraph,
        "pyoxigraph_parse": _pyoxigraph_parse,
        "polars": _polars,
        "uncompress": _uncompress,
        "parse": _parse,
        "number": _number,
        "sort": _sort,
    }[what]
    with tempfile.TemporaryDirectory() as folder:  # compiles, or loads what is compiled
        small = Path(folder) / path.name
        write(small, **(size | {"n_facts": 10, "n_names": 5}))
        work(small, size)[0]()
    job, check = work(path, size)
    watch = machine.Watch()
    seconds, result = timed(job)
    busy = watch.stop()
    measured = {
        "facts": size["n_facts"],
        "seconds": seconds,
        "facts_a_second": size["n_facts"] / seconds,
        "cpu_seconds": busy["own_cpu_seconds"],
        "other_cpu_seconds": busy["other_cpu_seconds"],
        "peak_mb": machine.peak_mb(),
        "file_mb": path.stat().st_size / 1e6,
    }
    return measured | check(result)


Work = tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]


def _nothing(_: object) -> dict[str, Any]:
    return {}


def _ours(path: Path, size: dict[str, int]) -> Work:
    reports: list[tuple[int, int, str]] = []

    def check(facts: relatent.Facts) -> dict[str, Any]:
        done, total, note = reports[-1]
        expected, n = _expected(**size), len(facts)
        prefix = "http://x/" if ".nt" in path.name else ""
        same = n == len(expected) and np.array_equal(facts.keys, expected)
        ordered = np.sort(names(size["seed"], size["n_names"]).view(f"S{N_LETTERS}").ravel())
        sample = range(0, facts.n_entities, max(facts.n_entities // 1000, 1))
        named = facts.n_entities < len(ordered) or all(
            facts.entities[i] == prefix + ordered[i].decode() for i in sample
        )
        return {"same_as_written": bool(same and named), "reports": len(reports), "last": f"{done} of {total}, {note}"}

    return lambda: relatent.read(path, progress=lambda *report: reports.append(report)), check


def _scanner(path: Path, size: dict[str, int]) -> Work:
    job, check = _ours(path, size)
    return job, lambda facts: {**check(facts), "proof": _proof(facts)}


def _pyoxigraph(path: Path, _: dict[str, int]) -> Work:
    def job() -> relatent.Facts:
        reading = Reading()
        return facts_of(read_rdf(identify(path), reading), reading)

    return job, lambda facts: {"proof": _proof(facts)}


def _pyoxigraph_parse(path: Path, _: dict[str, int]) -> Work:
    import pyoxigraph

    def job() -> None:
        with identify(path).open() as stream:
            deque(pyoxigraph.parse(stream, format=pyoxigraph.RdfFormat.N_TRIPLES), maxlen=0)

    return job, _nothing


def _proof(facts: relatent.Facts) -> str:
    """Differs if facts or names differ."""
    return f"{facts.fingerprint} {facts.entities.digest()} {facts.relations.digest()}"


def _expected(seed: int, n_facts: int, n_names: int) -> Array:
    """The keys of the facts written, over the names they use, sorted as bytes."""
    order = np.argsort(names(seed, n_names).view(f"S{N_LETTERS}").ravel())
    used = np.zeros(n_names, bool)
    for s, _, o in ids(seed, n_facts, n_names):
        used[s] = used[o] = True
    order = order[used[order]]
    rank = np.zeros(n_names, np.int64)
    rank[order] = np.arange(len(order))
    n = len(order)
    keys = np.concatenate([(k * n + rank[s]) * n + rank[o] for s, k, o in ids(seed, n_facts, n_names)])
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])]


def _polars(path: Path, _: dict[str, int]) -> Work:
    import polars as pl

    columns = ["subject", "relation", "object"]

    def job() -> list[Any]:
        if path.suffix == ".parquet":
            table = pl.read_parquet(path)
        else:
            table = pl.read_csv(path, separator="\t", has_header=False, new_columns=columns, quote_char=None)
        known = pl.concat([table["subject"], table["object"]]).unique().sort()
        kinds = table["relation"].unique().sort()
        vocabularies = (pl.Enum(known), pl.Enum(kinds), pl.Enum(known))
        return [table[name].cast(v).to_physical() for name, v in zip(columns, vocabularies, strict=True)]

    return job, _nothing


def _uncompress(path: Path, _: dict[str, int]) -> Work:
    def job() -> None:
        with identify(path).open() as stream:
            while stream.read(16 << 20):
                pass

    return job, _nothing


def _columns(path: Path) -> Iterator[pa.RecordBatch]:
    return arrow_csv.open_csv(
        path,
        arrow_csv.ReadOptions(column_names=["0", "1", "2"], block_size=16 << 20),
        arrow_csv.ParseOptions(delimiter="\t", quote_char=False),
        arrow_csv.ConvertOptions(column_types={name: pa.large_string() for name in "012"}),
    )


def _parse(path: Path, _: dict[str, int]) -> Work:
    return lambda: sum(len(batch) for batch in _columns(path)), _nothing


def _number(path: Path, _: dict[str, int]) -> Work:
    columns = [[Spans.of(column) for column in batch.columns] for batch in _columns(path)]

    def job() -> None:
        entities, relations = StringTable(), StringTable()
        for s, k, o in columns:
            for table, spans in ((entities, s), (relations, k), (entities, o)):
                table.ids(spans)

    return job, _nothing


def _sort(_: Path, size: dict[str, int]) -> Work:
    blocks = [np.stack(block, axis=1).astype(np.int32) for block in ids(**size)]
    triples = np.asfortranarray(np.concatenate(blocks))
    entities, relations = relatent.data.names.Names(size["n_names"]), relatent.data.names.Names(N_RELATIONS)
    return partial(relatent.Facts.from_ids, triples, entities, relations), _nothing


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    if isinstance(asked, int):
        print(json.dumps(reading(0, n_facts=asked), indent=2))
    else:
        print(json.dumps(_measure(asked["what"], Path(asked["path"]), asked["size"])))
