"""Random CSV, TSV and N-Triples files, read by relatent and by others: `python compare_readers.py [cases] [seed]`.

CSV and TSV files are compared with the csv module in strict mode and with pandas, N-Triples with pyoxigraph. A file is
read to the same facts, or refused in one line; a file that the csv module writes, or that pyoxigraph accepts, is read.
No table begins with # or %, which relatent takes for a comment.
"""

from __future__ import annotations

import csv
import io
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import pandas as pd
import pyoxigraph

import relatent
from relatent.errors import DataError

PIECES = ["a", "b", "Ann", "é", "中", "𝄞", "1", "0.5", "NA", "nan", "None", "-", "'", ";", "|", ".", "\\", "x y", "$x$"]
HOSTILE = ['"', '""', '"""', ",", "\t", "\n", "\r", "\r\n", "\0", "\ufeff", "\x0b", "\x1c", "\x85", "\u2028", " ", ""]
LINE_ENDS = ["\n", "\r\n", "\r"]
IRIS = ["<a:b>", "<a:c>", "<http://x/é>", "<http://x/%20>", "<http://x/\\u00e9>", "<rel>", "<http://x y>", "<a:>", "<>"]
NODES = [*IRIS, "_:a", "_:b1", "_:é", "_:a.b", "_:c.", "_:-", "<<<a:b> <a:b> <a:c>>>"]
LITERALS = ['"x"', '""', '"\\n"', '"\\q"', '"x"@en', '"x"@en-US', '"x"^^<a:t>', '"é"', '"a"b', '"']
BYTES_CHANGED = [b"<", b">", b".", b'"', b" ", b"\t", b"\r", b"\n", b"\\", b"\xff", b"\xc3", b"\0", b",", b"a", b""]
Rows = frozenset[tuple[str, ...]]


def changed(rng: random.Random, content: bytes) -> bytes:
    """The content with a few bytes replaced, inserted or removed."""
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        place = rng.randrange(len(content) + 1)
        content = content[:place] + rng.choice(BYTES_CHANGED) + content[place + rng.randrange(2) :]
    return content


def name(rng: random.Random, hostile: float) -> str:
    return "".join(rng.choice(HOSTILE if rng.random() < hostile else PIECES) for _ in range(rng.choice([1, 1, 2, 3])))


def table(rng: random.Random, quoted: bool) -> tuple[bytes, bool]:
    """A CSV or TSV file, and whether it must be read: the csv module wrote it, and reads it again."""
    hostile = rng.choice([0, 0.03, 0.1, 0.4])
    width = rng.choice([3, 3, 3, 4])
    rows = [[name(rng, hostile) for _ in range(width)] for _ in range(rng.randrange(1, 7))]
    end = rng.choice(LINE_ENDS)
    if quoted and rng.random() < 0.5:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=end, quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])).writerows(rows)
        content = text.getvalue().encode()
        is_sound = csv_rows(content, ",", True) == frozenset(
            tuple(row[:3]) for row in rows
        )  # old versions quote too few
    else:
        content, is_sound = end.join(("," if quoted else "\t").join(row) for row in rows).encode(), False
    after = changed(rng, content)
    return after, is_sound and after == content and not content.startswith("\ufeff".encode())


def csv_rows(content: bytes, sep: str, quoted: bool) -> Rows | None:
    """What the csv module reads; None if it refuses the file, or if it is no table of three or more columns."""
    options = {} if quoted else {"quoting": csv.QUOTE_NONE}
    text = io.StringIO(content.decode(errors="surrogateescape").lstrip("\ufeff"), newline="")
    try:
        rows = [row for row in csv.reader(text, delimiter=sep, strict=True, **options) if row]
    except csv.Error:
        return None
    widths = {len(row) for row in rows if "".join(row).strip()} or {len(row) for row in rows}
    # rows of separators alone, as spreadsheets write them, are left out with a warning
    rows = [row for row in rows if any(row[:3]) and ("".join(row).strip() or {len(row)} == widths)]
    names = frozenset(tuple(row[:3]) for row in rows)
    is_table = rows and len({len(row) for row in rows}) == 1 and len(rows[0]) >= 3
    return names if is_table and all(field and is_utf8(field) for row in names for field in row) else None


def is_utf8(field: str) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in field)


def pandas_rows(content: bytes, sep: str, quoted: bool) -> Rows | None:
    """What pandas reads; None if it refuses the file."""
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    try:
        frame = pd.read_csv(io.BytesIO(content), sep=sep, header=None, dtype=str, na_filter=False, quoting=quoting)
    except (ValueError, UnicodeError):
        return None
    return frozenset(frame.iloc[:, :3].itertuples(index=False, name=None))


def triples(rng: random.Random) -> bytes:
    """An N-Triples file."""
    lines = []
    for _ in range(rng.randrange(1, 6)):
        sound = rng.random() < 0.93
        subject, relation = rng.choice(IRIS[:4] if sound else NODES), rng.choice(IRIS[:4] if sound else NODES)
        object_ = rng.choice(IRIS[:5] + LITERALS[:3] if sound else NODES + LITERALS)
        blanks = [rng.choice(["", " ", "  ", "\t"]) for _ in range(3)]
        comment = rng.choice(["", "", "", " # c", "#"])
        lines.append(f"{subject}{blanks[0]}{relation}{blanks[1]}{object_}{blanks[2]}.{comment}{rng.choice(LINE_ENDS)}")
    return changed(rng, "".join(lines).encode())


def pyoxigraph_rows(content: bytes) -> Rows | None:
    """The facts that pyoxigraph reads; None if it refuses the file, or if there are triples about triples, or none."""
    try:
        quads = list(pyoxigraph.parse(io.BytesIO(content), format=pyoxigraph.RdfFormat.N_TRIPLES))
    except (SyntaxError, ValueError):
        return None
    facts = [quad for quad in quads if not isinstance(quad.object, pyoxigraph.Literal)]
    if not facts or any(isinstance(quad.object, pyoxigraph.Triple) for quad in facts):
        return None
    terms = ((quad.subject, quad.predicate, quad.object) for quad in facts)
    return frozenset(
        tuple(("_:" if isinstance(x, pyoxigraph.BlankNode) else "") + x.value for x in row) for row in terms
    )


def own_rows(path: Path, **options) -> Rows | None:
    """What relatent reads; None if it refuses the file, in one line."""
    try:
        return frozenset(relatent.read(path, **options).named())
    except DataError as error:
        if "\n" in str(error):
            raise AssertionError(f"several lines: {error}") from error
        return None


def compare(rng: random.Random, folder: Path) -> str:
    """Compare one file; returns what came of it."""
    kind = rng.choices(["csv", "tsv", "nt"], [5, 3, 4])[0]
    path, is_sound, witness = folder / f"facts.{kind}", False, ""
    if kind == "nt":
        content = triples(rng)
        path.write_bytes(content)
        wanted, found = pyoxigraph_rows(content), own_rows(path)
        is_sound = wanted is not None
    else:
        content, is_sound = table(rng, kind == "csv")
        path.write_bytes(content)
        sep = "," if kind == "csv" else "\t"
        wanted = csv_rows(content, sep, kind == "csv")
        found = own_rows(path, header=False, columns=(0, 1, 2), sep=sep, strip=False)
        if found is not None:
            witness = ", pandas too" if pandas_rows(content, sep, kind == "csv") == found else ", pandas differs"
    if found is None:
        if is_sound:
            raise AssertionError(f"refused a sound file: {content!r}")
        return f"{kind} refused" + ("" if wanted is None else ", others read it")
    if found != wanted:
        raise AssertionError(f"{kind} differs: {content!r}\n  relatent: {found}\n  others:   {wanted}")
    return f"{kind} equal{witness}"


def run(n_cases: int, seed: int = 0) -> Counter[str]:
    """How many cases had each outcome; AssertionError for a difference that nobody would notice."""
    rng, counts = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(n_cases):
            counts[compare(rng, Path(folder))] += 1
    return counts


if __name__ == "__main__":
    n_cases, seed = (int(number) for number in (*sys.argv[1:], 100_000, 0)[:2])
    for outcome, count in sorted(run(n_cases, seed).items()):
        print(f"{outcome}: {count}")
