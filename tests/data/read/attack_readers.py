"""Hostile files of every format: `python attack_readers.py [cases] [seed]`.

Each case is a small file of some format whose parts are repeated, nested, mixed with those of other formats, damaged or
compressed; one in fifty is up to 1 MB long. It must be read, or refused in one line, in 20 s and 1 GB. Cases run in a
process of their own, so that a crash is counted, too; the last line has the counts.
"""

from __future__ import annotations

import bz2
import gzip
import io
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

import relatent
from relatent.cli.question_files import question_blocks
from relatent.data.read.reading import Reading
from relatent.data.review import read_review
from relatent.errors import RelatentError

MAX_SECONDS, MAX_BYTES, CASES_PER_PROCESS = 20, 1 << 30, 500
RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="x:" xml:base="http://x/">%s</rdf:RDF>'
NODE = (
    '<rdf:Description rdf:about="a"><x:p rdf:resource="b"/><x:q xml:lang="en">text</x:q><x:r>%s</x:r></rdf:Description>'
)
SEEDS = {
    "ttl": '@prefix p: <http://x/> .\n@base <http://y/> .\np:a p:r p:b , [ p:r p:c ] ; p:l "x"@en , """y""" .\n'
    "# c\n<a> a (p:b p:c) .\n<< p:a p:r p:b >> p:s 1 .\n",
    "trig": "@prefix p: <http://x/> .\np:g { p:a p:r p:b . _:x p:r p:b }\nGRAPH <h> { <a> <r> <b> . }\n",
    "n3": "@prefix p: <http://x/> .\np:a p:r p:b . { p:a p:r p:b } => { p:c p:r p:d } . p:a!p:b p:r p:c .\n",
    "nt": '<x:a> <x:r> <x:b> .\n_:a <x:r> _:b .\n<x:a> <x:l> "t\\u00e9"@en . # c\n<x:a> <x:l> "1"^^<x:int> .\n',
    "nq": '<x:a> <x:r> <x:b> <x:g> .\n_:a <x:r> _:b .\n<x:a> <x:l> "t"@en <x:g> .\n',
    "rdf": '<?xml version="1.0"?><!DOCTYPE rdf:RDF [<!ENTITY e "http://e/">]>\n<!-- c -->'
    + RDF % (NODE % (NODE % "&e;<![CDATA[z]]>")),
    "jsonld": '{"@context":{"p":"http://x/","k":{"@id":"p:k","@type":"@id","@context":{"z":"p:z"}}},"@graph":[{"@id":"p:a",'
    '"k":["p:b",{"@id":"p:c"}],"p:l":{"@value":"t","@language":"en"},"p:m":{"@list":[1,{"@id":"p:d"}]}}]}',
    "json": '{"data":[["a","r","b"],["b","r","c"],{"subject":"a","relation":"r","object":"b","weight":0.5}]}',
    "jsonl": '{"subject":"a","relation":"r","object":"b","weight":1e3}\n["a","r","b"]\n'
    '{"s":"\\u00e9","p":"r","o":[]}\n',
    "csv": 'subject,relation,object,weight\n"a, b",r,c,1.5\nb,"r ""q""",c,2\n',
    "tsv": "subject\trelation\tobject\tcount\na\tr\tb\t2\nb\tr\tc\t1\n",
    "edges": "# c\na b 1.0\nb c 2.0\n",
    "graphml": '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="k" for="edge" '
    'attr.name="relation" attr.type="string"/><graph edgedefault="directed"><node id="a"/><node id="b"/>'
    '<edge source="a" target="b"><data key="k">r</data></edge></graph></graphml>',
    "gexf": '<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2"><graph defaultedgetype="directed"><nodes>'
    '<node id="a" label="a"/><node id="b" label="b"/></nodes>'
    '<edges><edge id="0" source="a" target="b"/></edges></graph></gexf>',
    "gml": 'graph [ directed 1 node [ id 0 label "a" ] node [ id 1 label "b" ] '
    'edge [ source 0 target 1 relation "r" ] ]',
}
TOKENS = [
    *("<", ">", "<<", ">>", "<<(", ")>>", "{|", "|}", "[", "]", "{", "}", "(", ")", '"', "'", '"""', "\\", "\\u0000"),
    *("#", ",", ";", ".", ":", "@", "&a;", "&#x0;", "<!--", "-->", "<![CDATA[", "]]>", "?>", "]>"),
    *("\r", "\n", "\t", "\0", "\ufeff", " ", "  ", "x" * 300, "1" * 400, "\ud7ff", "𝄞", "\u202e"),
    *("@prefix a: <b> .\n", "@base <c/> .\n", "<?x ", '<!ENTITY a "b">', '<!ENTITY % a "b">', "<!DOCTYPE x ["),
    *("</a>", "<a b='", "/>", "xmlns:a='b' ", '"@context":{', '"@id":', '"@graph":[', '"@reverse":{', '"@included":['),
    *('"@nest":"a",', '"@import":"x",', '"@propagate":false,', "null", "1e999", "-0", "NaN", "Infinity", "true"),
]
WAYS = ["read"] * 6 + ["attributes", "labels", "types", "encoding", "questions", "review", "second", "skip", "columns"]
ENCODINGS = ["utf-16", "latin-1", "cp1252", "utf-7", "utf-8-sig", "shift_jis", "utf-32", "cp037", "big5", "hz"]


def seeds(folder: Path) -> dict[str, bytes]:
    """A small file of each format."""
    table = pa.table({"subject": ["a", "b"] * 20, "relation": ["r"] * 40, "object": [str(i) for i in range(40)]})
    found = {name: text.encode() for name, text in SEEDS.items()}
    for kind, column in (("parquet", table["relation"]), ("dict.parquet", table["relation"].dictionary_encode())):
        out = io.BytesIO()
        parquet.write_table(table.set_column(1, "relation", column), out)
        found[kind] = out.getvalue()
    with sqlite3.connect(folder / "seed.db", isolation_level=None) as made:
        made.execute("CREATE TABLE IF NOT EXISTS t (subject, relation, object)")
        made.execute("INSERT INTO t VALUES ('a', 'r', 'b')")
    made.close()
    return {**found, "db": (folder / "seed.db").read_bytes()}


def attacked(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """The content with parts repeated, nested, replaced, or taken from others."""
    budget = rng.choice([1 << 20] + [1 << 16] * 9 + [1 << 12] * 40)
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 4])):
        places = range(len(content) + 1)
        if rng.random() < 0.5:  # between words
            places = [0, *(place for place in places[1:-1] if content[place - 1 : place].isspace()), len(content)]
        low, high = sorted(rng.choice(places) for _ in range(2))
        part, kind = content[low:high], rng.random()
        if rng.random() < 0.3:
            part = rng.choice(TOKENS).encode(errors="surrogatepass")
        times = max(1, min(10 ** rng.randrange(1, 6), (budget - len(content)) // max(1, 2 * len(part))))
        if kind < 0.35:
            content = content[:low] + part * times + content[high:]
        elif kind < 0.5:  # as brackets around the rest
            content = (
                content[:low] + part * times + content[low:high] + rng.choice(TOKENS).encode() * times + content[high:]
            )
        elif kind < 0.75:
            content = (
                content[:low] + rng.choice(TOKENS).encode(errors="surrogatepass") + content[rng.choice([low, high]) :]
            )
        elif kind < 0.9:
            other = rng.choice(others)
            start = rng.randrange(len(other))
            content = content[:low] + other[start : start + rng.randrange(1, 200)] + content[low:]
        else:
            content = (
                content[:low] + bytes(rng.randrange(256) for _ in range(rng.choice([1, 4, 16]))) + content[low + 1 :]
            )
    return content


def packed(rng: random.Random, name: str, content: bytes) -> tuple[str, bytes]:
    """The file as it is, or compressed, and the compressed file perhaps damaged."""
    kind = rng.choice(["", "", "", "gz", "bz2", "zst", "zip"])
    if not kind:
        return name, content
    if kind == "zip":
        out, method = (
            io.BytesIO(),
            rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]),
        )
        with zipfile.ZipFile(out, "w", method) as made:
            made.writestr(rng.choice([name, f"../{name}", f"a/{name}", "x"]), content)
        content = out.getvalue()
    elif kind == "zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(content)
        content = sink.getvalue().to_pybytes()
    else:
        content = (gzip.compress if kind == "gz" else bz2.compress)(content)
    for _ in range(rng.choice([0, 0, 1, 3])):
        place = rng.randrange(len(content))
        content = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
    return f"{name}.{kind}", content[: rng.randrange(1, len(content) + 1)] if rng.random() < 0.1 else content


def run(path: Path, way: str, rng: random.Random, sound: Path) -> str:
    """Read a file in one of the ways in which commands do; what came of it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if way == "questions":
                for _ in question_blocks(path, Reading()):
                    pass
            elif way == "review":
                read_review(path)
            elif way in ("labels", "types", "attributes"):
                relatent.read(sound, **{way: path})
            else:
                options = {
                    "encoding": {"encoding": rng.choice(ENCODINGS)},
                    "skip": {"skip_bad_rows": True, "attributes": True},
                    "columns": {"columns": rng.choice([(0, 1, 2), (0, 1), ("a", "b"), {"subject": 0, "object": 2}])},
                }.get(way, {})
                relatent.read([str(sound), str(path)] if way == "second" else path, **options)
    except RelatentError as problem:
        return "refused" if "\n" not in str(problem) and len(str(problem)) < 3000 else "NOT ONE LINE"
    except Exception as problem:
        return f"TRACEBACK {type(problem).__name__}: {str(problem)[:100]!r}"
    return "read"


def too_slow(*_: object) -> None:
    raise KeyboardInterrupt


def attack(first: int, last: int, seed: int, folder: Path) -> None:
    """Run these cases, and print what came of each."""
    files, sound = seeds(folder), folder / "sound.tsv"
    sound.write_text("a\tr\tb\nb\tr\tc\n")
    signal.signal(signal.SIGALRM, too_slow)
    relatent.read(sound)
    for number in range(first, last):
        rng = random.Random(f"{seed} {number}")
        name = rng.choice(list(files))
        ending = name if rng.random() < 0.9 else rng.choice(list(files))
        named, content = packed(rng, f"f.{ending}", attacked(rng, files[name], list(files.values())))
        path, way = folder / named, rng.choice(WAYS)
        path.write_bytes(content)
        print("begin", number, named, way, len(content), flush=True)
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        signal.alarm(MAX_SECONDS)
        try:
            outcome = run(path, way, rng, sound)
        except KeyboardInterrupt:
            outcome = "TOO SLOW"
        signal.alarm(0)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if grown << 10 > MAX_BYTES:
            outcome = f"TOO LARGE: {grown >> 10} MB"
        print("end", f"{time.perf_counter() - started:.2f}", outcome, flush=True)
        path.unlink(missing_ok=True)


def main(cases: int = 5000, seed: int = 0) -> int:
    """Run the cases, and print the counts; the number of cases that went wrong."""
    counts, wrong, longest, done = Counter[str](), 0, 0.0, 0
    while done < cases:
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                __file__,
                "--from",
                str(done),
                str(min(cases, done + CASES_PER_PROCESS)),
                str(seed),
                folder,
            ]
            found = subprocess.run(command, capture_output=True, text=True, check=False)
        begun = ""
        for line in found.stdout.splitlines():
            if line.startswith("begin"):
                begun, done = line, int(line.split()[1]) + 1
                continue
            _, seconds, outcome = line.split(" ", 2)
            longest = max(longest, float(seconds))
            counts[outcome.split(" ")[0] if outcome.isupper() else outcome] += 1
            if outcome not in ("read", "refused"):
                wrong += 1
                print(f"{begun}: {outcome} ({seconds} s)", flush=True)
            begun = ""
        if begun:
            wrong += 1
            counts["CRASH"] += 1
            print(f"{begun}: CRASH, exit code {found.returncode}: {found.stderr.strip()[-200:]}", flush=True)
    print(f"{cases:,} cases, seed {seed}: {dict(counts)}, {wrong} wrong; the longest took {longest:.1f} s")
    return wrong


if __name__ == "__main__":
    if sys.argv[1:2] == ["--from"]:
        attack(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    else:
        sys.exit(main(*map(int, sys.argv[1:])) > 0)
