"""What workers say to each other, what they refuse, and how they read a file together."""

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import relatent
from relatent.distributed.workers import ALONE, Workers
from relatent.errors import InputError, RelatentError

pytest.importorskip("torch", reason="several workers need torch (make test-torch)")

import launcher

pytestmark = pytest.mark.torch
CASES = launcher.HERE / "cases.py"


def run_well(size, case, folder):
    for code, _, err in launcher.run(size, CASES, case, folder):
        assert code == 0, err


@pytest.mark.parametrize("size", [2, 3])
def test_every_collective_gives_each_worker_what_it_says(size, tmp_path):
    run_well(size, "collectives", tmp_path)


def test_one_worker_alone_gets_back_what_it_gives():
    a = np.arange(6.0).reshape(3, 2)
    assert ALONE.sum(a) is a
    assert ALONE.gather_rows(a) is a
    assert ALONE.broadcast(a) is a
    assert ALONE.exchange(a, [3]) is a
    assert ALONE.agree(1.5, 2) == (1.5, 2)
    assert ALONE.entity_range(3) == slice(0, 3)
    assert ALONE.bytes_sent == ALONE.bytes_handed == 0


def test_a_process_that_torchrun_has_not_started_is_told_how(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(
        InputError, match="must be started by torchrun, but RANK is not set: torchrun --nproc-per-node 4 -m relatent"
    ):
        Workers.join()


def test_without_torch_the_extra_is_named():
    code = "import sys; sys.modules['torch'] = None\nfrom relatent.distributed.workers import Workers\nWorkers.join()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "RANK": "0"})
    assert "InputError: several workers need torch: pip install 'relatent[gpu]'" in done.stderr


def test_what_is_refused_is_refused_by_all_in_the_same_words(tmp_path):
    run_well(3, "refusals", tmp_path)
    said = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    assert said[0] == said[1] == said[2]
    differ = "must be the same on all workers, but those of worker 0 and worker 1 differ"
    expected = {
        "more workers than entities": "2 entities are too few for 3 workers: start at most 2",
        "other vocabularies": f"entities and relations {differ}",
        "other settings": f"the settings of the fit {differ}",
        "other validation": f"validation facts {differ}",
        "no facts": "there are no facts to learn from",
        "a setting of one": "max_iter must be a whole number of at least 1, got 0",
        "no facts file": f"{tmp_path / 'nowhere.tsv'}: no such file",
    }
    for name, words in expected.items():
        assert said[0][name] == words
    assert "a fact is given twice with different weights" in said[0]["two weights"]


# --- reading


def world(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return [(f"e{s}", f"r{k}", f"é{o}") for s, k, o in zip(*rng.integers(0, (40, 5, 40), (n, 3)).T, strict=True)]


def text(rows, separator="\t", end="\n"):
    return "".join(separator.join(map(str, row)) + end for row in rows)


def nt(rows):
    return "".join(f"<x:{s}> <x:{k}> <x:{o}> .\n" for s, k, o in rows)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of files of every kind, and what three workers say of each."""
    folder = tmp_path_factory.mktemp("reading")
    place = folder / "files"
    place.mkdir()
    rows = world()
    distinct = list(dict.fromkeys(rows))
    weighted = [(*row, 0.5 + i % 3) for i, row in enumerate(distinct)]
    plain = {
        "plain.tsv": text(rows),
        "no end.tsv": text(rows).rstrip("\n"),
        "returns.tsv": text(rows, end="\r\n"),
        "mark.tsv": "\ufeff" + text(rows),
        "blank lines.tsv": text(rows).replace("\ne1", "\n\n\ne1"),
        "three rows.tsv": text(rows[:3]),
        "header.csv": "\nobject,weight,subject,relation\n" + text([(o, w, s, k) for s, k, o, w in weighted], ","),
        "counts.csv": "subject,relation,object,count\n" + text([(*row, 2) for row in rows], ","),
        "quotes.csv": text(rows, ",") + '"a, b",r1,"c\nd"\n',
        "plain.nt": nt(rows) + '<x:e1> <x:r1> "a literal" .\n',
        "odd.nt": nt(rows) + "<x:\\u0041> <x:r1> <x:e1> .\n",
        "turtle.ttl": nt(rows),
        "returns only.csv": "subject,relation,object\r" + text(rows, ",", end="\r"),
        "two marks.tsv": "\ufeff\ufeffsubject\trelation\tobject\n" + text(rows),
        "blanks.csv": text(rows, ", "),
        "edges.csv": "source,target\n" + text([(s, o) for s, _, o in rows], ","),
        "comments.txt": "# some\n# comments\n" + text(rows),
        "odd header.csv": "shipper,action,cargo\n" + text(rows, ","),
        "no header.csv": "shipper,action,cargo\n" + text(rows * 5, ",") + "e1,r1,cargo\n",
        "header twice.csv": "shipper,action,cargo\n" + text(rows * 5, ",") + "shipper,action,cargo\n",
        "blank at the end.csv": text(rows, ",") + " \n,,\n\n",
        "bad row.tsv": text(rows[:200]) + "only\ttwo\n" + text(rows[200:]),
        "empty name.tsv": text(rows[:250]) + "a\t\tb\n" + text(rows[250:]),
        "bad weight.csv": text(weighted, ",") + "a,b,c,-1\n",
        "bad.nt": nt(rows) + "<x:e1> <x:r1> .\n" + nt(rows),
        "empty.tsv": "",
        "literals.nt": '<x:e1> <x:r1> "a" .\n' * 5,
    }
    for name, content in plain.items():
        (place / name).write_text(content, newline="")
    (place / "packed.tsv.gz").write_bytes(gzip.compress(text(rows).encode()))
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(dict(zip(("subject", "relation", "object"), map(list, zip(*rows, strict=True)), strict=True)))
    for groups in (1, 2, 7):
        parquet.write_table(table, place / f"{groups} groups.parquet", row_group_size=-(-len(rows) // groups))
    run_well(3, "reading", folder)
    return place, [json.loads((folder / f"{rank}.json").read_text()) for rank in range(3)]


NAMES = [
    "plain.tsv", "no end.tsv", "returns.tsv", "mark.tsv", "blank lines.tsv", "three rows.tsv", "header.csv",
    "returns only.csv", "two marks.tsv", "blanks.csv", "edges.csv", "comments.txt",
    "odd header.csv", "blank at the end.csv", "no header.csv", "header twice.csv",
    "counts.csv", "quotes.csv", "plain.nt", "odd.nt", "turtle.ttl", "packed.tsv.gz",
    "1 groups.parquet", "2 groups.parquet", "7 groups.parquet",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*(literal|removed the blanks|the first row|left out|stand in a row)")
@pytest.mark.parametrize("name", NAMES)
def test_facts_that_workers_read_together_are_those_that_one_reads(name, files):
    place, said = files
    wanted, parts = relatent.read(place / name), [worker[name] for worker in said]
    assert all(part["entities"] == list(wanted.entities) for part in parts)
    assert all(part["relations"] == list(wanted.relations) for part in parts)
    cells = [tuple(cell) for part in parts for cell in part["triples"]]
    assert len(cells) == len(set(cells)), "each fact is in one place"
    assert sorted(cells) == sorted(map(tuple, wanted.triples.tolist()))
    for given in ("weights", "times"):
        values = getattr(wanted, given)
        if values is not None:
            found = dict(zip(cells, [value for part in parts for value in part[given]], strict=True))
            assert found == dict(zip(map(tuple, wanted.triples.tolist()), values.tolist(), strict=True))
    edges = np.append(np.arange(3) * (len(wanted.entities) // 3), len(wanted.entities))
    for rank, part in enumerate(parts):
        assert all(edges[rank] <= s < edges[rank + 1] for s, _, _ in part["triples"]), "with the owner of its subject"


@pytest.mark.parametrize(
    "name", ["bad row.tsv", "empty name.tsv", "bad weight.csv", "bad.nt", "empty.tsv", "literals.nt"]
)
def test_a_faulty_file_is_refused_in_the_words_of_one_reader(name, files):
    place, said = files
    with pytest.raises(RelatentError) as problem:
        relatent.read(place / name)
    assert [worker[name] for worker in said] == [{"error": str(problem.value)}] * 3
