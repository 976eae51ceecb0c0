import gzip

import numpy as np
import pytest
from family import CSV, TSV

from relatent.data.facts import Facts
from relatent.data.read.read import read
from relatent.errors import DataError, DataWarning


def test_quotes_in_tsv_are_part_of_the_name(write):
    assert read(write("quotes.tsv", '"Ann\tlikes\tBob"\n')).named() == [('"Ann', "likes", 'Bob"')]


def test_names_that_look_like_missing_values_or_numbers_stay_names(write):
    with pytest.warns(DataWarning, match=r"'NA' in 1 fact, 'nan' in 1 fact, 'null' in 2 facts: read as a name"):
        facts = read(write("odd.tsv", "NA\tnull\tnan\n1.0\tnull\t01\n"))
    assert list(facts.entities) == ["01", "1.0", "NA", "nan"]
    assert list(facts.relations) == ["null"]


def test_the_order_of_rows_does_not_matter(write):
    lines = TSV.splitlines(keepends=True)
    forward, backward = (read(write(name, "".join(part))) for name, part in (("a.tsv", lines), ("b.tsv", lines[::-1])))
    assert forward.fingerprint == backward.fingerprint
    assert forward.entities == backward.entities


def test_names_are_sorted_by_code_point_as_from_arrays_does(write):
    names = ["é", "Z", "a", "中", "\U0001f600", "\uffee"]
    facts = read(write("unicode.tsv", "".join(f"{name}\tr\t{name}\n" for name in names)))
    assert list(facts.entities) == sorted(names)
    same = Facts.from_arrays(names, ["r"] * 6, names)
    np.testing.assert_array_equal(facts.triples, same.triples)


def test_many_blocks_give_the_same_ids_as_from_arrays(write, monkeypatch):
    monkeypatch.setattr("relatent.data.read.delimited.BLOCK_BYTES", 4096)
    rng = np.random.default_rng(0)
    s, k, o = (
        np.array([f"{prefix}{i}" for i in rng.integers(0, n, 5000)]) for prefix, n in (("e", 300), ("r", 5), ("e", 400))
    )
    facts = read(write("long.tsv", "".join("\t".join(row) + "\n" for row in zip(s, k, o, strict=True))))
    same = Facts.from_arrays(s, k, o)
    assert facts.fingerprint == same.fingerprint
    assert facts.entities == same.entities


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "f.tsv",
            TSV + "Ann\tlikes\n",
            r"^f.tsv:4: expected 3 tab-separated fields, got 2 \(.*\); skip_bad_rows=True skips such rows$",
        ),
        (
            "f.tsv",
            "s\tp\to\n" + TSV + "\nAnn\tlikes\n",
            r"^f.tsv:6: expected 3 tab-separated fields, got 2 \(.*\); skip_bad_rows=True skips such rows$",
        ),
        (
            "f.csv",
            CSV + "a,b,c,d\n",
            r"^f.csv:4: expected 3 comma-separated fields, got 4 \(.*\); skip_bad_rows=True skips such rows$",
        ),
        (
            "f.csv",
            'a,b,"c\nc"\na,b\n',
            r"^f.csv:3: expected 3 comma-separated fields, got 2 \(.*\); skip_bad_rows=True skips such rows$",
        ),
        ("f.tsv", "a b c\n", r"^f.tsv:1: expected 3 tab-.*, got 1; if a space separates them, pass sep=' '$"),
        ("f.tsv", "a\tb\tc\td\te\n", r"^f.tsv:1: expected 3 tab-.*, got 5; choose with columns="),
        ("f.tsv", "a\tr\tb\na\tr\t\n", r"^f.tsv:2: empty object in the row \(.*\); skip_bad_rows=True"),
        ("f.tsv", "a\tr\tb\n\tr\tb\n", r"^f.tsv:2: empty subject in the row \(.*\); skip_bad_rows=True"),
        ("f.tsv", "a\tr\tb\n\n\na\t\tb\n", r"^f.tsv:4: empty relation in the row \(.*\); skip_bad_rows=True"),
        ("f.tsv", "a\tr\t\na\tr\n", r"^f.tsv:2: expected 3 tab-separated fields, got 2"),
        ("f.tsv", "a\tr\tb\t0.5\na\tr\tc\thigh\n", r"^f.tsv:2: expected a number as weight .* got 'high'; columns="),
        ("f.tsv", "a\tr\tb\t0.5\na\tr\tc\t\n", r"^f.tsv:2: expected a number as weight .* got ''; columns="),
        (
            "f.tsv",
            "a\tr\tb\t1\na\tr\tc\tx\n",
            r"^f.tsv:2: expected a number as weight in the fourth column, got 'x'; columns=",
        ),
        (
            "f.csv",
            "a,r,b,when\nann,likes,bob,18.03.2025\n",
            r"^f.csv:1: the fourth column is no weight: it holds 'when', '18.03.2025', not numbers; "
            r"columns=\(0, 1, 2\) leaves it out; there are 'a', 'r', 'b', 'when'$",
        ),
        (
            "f.tsv",
            "a\tr\tb\t0.5\na\tr\tc\t-1\n",
            r"^f.tsv:2: weights are confidences: numbers from 0 to 1e\+18, got -1.0; skip_bad_rows=True",
        ),
        ("f.tsv", "a\tr\tb\tnan\n", r"^f.tsv:1: weights are confidences: .* got nan; skip_bad_rows=True"),
        ("f.tsv", "a\tr\tb\tinf\n", r"^f.tsv:1: weights are confidences: .* got inf; skip_bad_rows=True"),
        (
            "f.tsv",
            b"a\tr\tb\na\tr\tM\xfcller\n",
            r"^f.tsv:2: is not valid UTF-8; save the file as UTF-8, or name its encoding",
        ),
        ("f.csv", 'a,r,b\n"a,r,b\nc,d,e\n', r"^f.csv:2: a quote opens in this line and is never closed"),
        ("f.tsv", "", r"^f.tsv: contains no facts$"),
        ("f.tsv", "\n\n", r"^f.tsv: contains no facts$"),
        ("f.tsv", "s\tp\to\n", r"^f.tsv: contains no facts$"),
    ],
)
def test_a_fault_is_reported_with_its_line(write, name, content, message):
    with pytest.raises(DataError, match=message):
        read(write(name, content))


def test_lines_are_counted_in_the_uncompressed_file(write):
    with pytest.raises(
        DataError,
        match=r"^family.tsv.gz:4: expected 3 tab-separated fields, got 2 \(.*\); skip_bad_rows=True skips such rows$",
    ):
        read(write("family.tsv.gz", gzip.compress((TSV + "Ann\tlikes\n").encode())))


def test_a_fact_with_two_weights_is_reported_with_both_lines(write):
    content = "s\tp\to\tweight\na\tr\tb\t0.5\nb\tr\ta\t1\na\tr\tb\t0.7\n"
    with pytest.raises(
        DataError, match=r"^w.tsv:4: gives weight 0.7 to a fact that has weight 0.5 at w.tsv:2; keep one"
    ):
        read(write("w.tsv", content))


def test_weights_counts_and_faults_are_found_in_every_block(write, monkeypatch):
    monkeypatch.setattr("relatent.data.read.delimited.BLOCK_BYTES", 4096)
    rows = [(f"e{i % 700}", f"r{i % 3}", f"e{i * 31 % 701}", i % 700 + 1) for i in range(3000)]
    text = "".join("{}\t{}\t{}\t{}\n".format(*row) for row in rows)
    weighted = read(write("w.tsv", text))
    same = Facts.from_arrays(*zip(*(row[:3] for row in rows), strict=True), weights=[row[3] for row in rows])
    assert weighted.fingerprint == same.fingerprint
    counted = read(write("c.tsv", "s\tp\to\tcount\n" + text + text))
    np.testing.assert_array_equal(counted.times, 2 * weighted.weights)
    for wrong, message in (("a\tr\t\t1", "empty object"), ("a\tr\tb\t-1", "weights are"), ("a\tr\tb", "expected 4")):
        with pytest.raises(DataError, match=rf"^w.tsv:3001: {message}"):
            read(write("w.tsv", text + wrong + "\n"))
    with pytest.raises(DataError, match=r"^w.tsv:3001: gives weight 9.0 to a fact that has weight 1.0 at w.tsv:1;"):
        read(write("w.tsv", text + "e0\tr0\te0\t9\n"))
