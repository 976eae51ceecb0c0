"""Rows that are no facts: an error that names the remedy, or skipped and counted."""

import random
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatent.data.read import encode
from relatent.data.read.read import read
from relatent.errors import DataError, DataWarning

FACTS = [("Ann", "likes", "Bob"), ("Bob", "likes", "Cid"), ("Cid", "knows", "Ann"), ("Ann", "knows", "Cid")]


def read_with_notes(source, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", DataWarning)
        return read(source, **options), " | ".join(str(one.message) for one in said)


def text(rows, sep=","):
    return "".join(sep.join(map(str, row)) + "\n" for row in rows)


BAD = {
    "too few fields": (("Ann", "likes"), r"expected 3 comma-separated fields, got 2 \('Ann', 'likes'\)"),
    "too many fields": (("a", "b", "c", "d"), r"expected 3 comma-separated fields, got 4 \('a', 'b', 'c', 'd'\)"),
    "empty object": (("Ann", "likes", ""), r"empty object in the row \('Ann', 'likes', ''\)"),
    "blank subject": ((" ", "likes", "Bob"), r"empty subject in the row \('.*', 'likes', 'Bob'\)"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_row_is_an_error_that_names_line_row_and_remedy(write, what):
    row, message = BAD[what]
    name = write("f.csv", text([*FACTS[:2], row, *FACTS[2:]]))
    with pytest.raises(DataError, match=rf"^f\.csv:3: {message}; skip_bad_rows=True skips such rows$"):
        read(name)


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("name", ["f.csv", "f.tsv"])
def test_bad_rows_are_skipped_and_counted(write, what, name):
    row, _message = BAD[what]
    content = text([*FACTS[:2], row, *FACTS[2:], row], "," if name == "f.csv" else "\t")
    facts, said = read_with_notes(write(name, content), skip_bad_rows=True)
    assert sorted(facts.named()) == sorted(FACTS)
    assert "skipped 2 bad rows; the first: " + name + ":3: " in said
    assert "skip_bad_rows" not in said


def test_bad_weights_are_skipped(write):
    rows = [("a", "r", "b", 0.5), ("a", "r", "c", "high"), ("a", "r", "d", -1), ("a", "r", "e", ""), ("b", "r", "a", 2)]
    name = write("f.csv", "subject,relation,object,weight\n" + text(rows))
    with pytest.raises(DataError, match=r"^f\.csv:3: expected a number as weight .* got 'high'.*skip_bad_rows=True"):
        read(name)
    facts, said = read_with_notes(name, skip_bad_rows=True)
    assert facts.named() == [("a", "r", "b"), ("b", "r", "a")]
    assert facts.weights.tolist() == [0.5, 2]
    assert "skipped 3 bad rows; the first: f.csv:3: expected a number as weight" in said


@pytest.mark.parametrize("end", ["\n", "\n\n\n", "  \n", ",,\n,,\n", "\r\n\r\n", " , ,\n", ",\n"])
def test_blank_rows_at_the_end_are_no_facts(write, end):
    facts, said = read_with_notes(write("f.csv", text(FACTS) + end))
    assert sorted(facts.named()) == sorted(FACTS)
    n = sum(line.count(",") == 2 for line in end.splitlines())
    assert (f"left out {n} row{'s' * (n > 1)} without any name" in said) == (n > 0)


def test_lines_are_counted_past_blank_and_skipped_rows(write):
    rows = [*FACTS[:2], ("only", "two"), ("", "", ""), ("  ",), *FACTS[2:]]
    weighted = "subject,relation,object,weight\n" + text(
        [(*row, 1) if len(row) == 3 and row[0] else row for row in rows]
    )
    again = text([("Ann", "knows", "Cid", 3)])
    with pytest.raises(DataError, match=r"^w\.csv:9: gives weight 3.0 .* weight 1.0 at w\.csv:8; keep one"):
        read_with_notes(write("w.csv", weighted.replace(",,\n", ",,,\n") + again), skip_bad_rows=True)


def test_rows_of_many_blocks_are_counted(write, monkeypatch):
    from relatent.data.read import delimited

    monkeypatch.setattr(delimited, "BLOCK_BYTES", 4096)
    chosen = random.Random(0)
    rows = [(f"e{chosen.randrange(50)}", f"r{i % 3}", f"e{chosen.randrange(50)}") for i in range(3000)]
    mixed, n_bad = [], 0
    for i, row in enumerate(rows):
        mixed.append(row)
        if i % 100 == 50:
            mixed.append([("", "r1", "x"), ("short",), ("x", "", "y"), ("a", "b", "c", "d")][n_bad % 4])
            n_bad += 1
    facts, said = read_with_notes(write("f.csv", text(mixed)), skip_bad_rows=True, header=False)
    assert set(facts.named()) == set(rows)
    assert f"skipped {n_bad} bad rows; the first: f.csv:52: empty subject" in said


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, ""])
def test_a_missing_cell_of_a_table_is_an_error_or_skipped(missing):
    frame = pd.DataFrame([*FACTS, ("Ann", "likes", missing)], columns=["subject", "relation", "object"])
    with pytest.raises(DataError, match=r"^table: row 5: (missing|empty) object in the row .*; skip_bad_rows=True"):
        read(frame)
    facts, said = read_with_notes(frame, skip_bad_rows=True)
    assert sorted(facts.named()) == sorted(FACTS)
    assert "skipped 1 bad row; the first: table: row 5: " in said


@pytest.mark.parametrize("bad", [("Ann", "likes", None), ("Ann", "likes"), ("Ann", "likes", 1.5), ["Ann"], 5])
def test_bad_rows_of_a_list_are_skipped(bad):
    with pytest.raises(DataError, match=r"list: row 5: .*skip_bad_rows=True"):
        read([*FACTS, bad])
    facts, said = read_with_notes([*FACTS, bad], skip_bad_rows=True)
    assert sorted(facts.named()) == sorted(FACTS)
    assert "1 bad row;" in said or "left out 1 row without any name" in said


@pytest.mark.parametrize("marker", ["NA", "NaN", "null", "None", "N/A"])
def test_names_that_mark_missing_values_are_names_with_a_warning(write, marker):
    facts, said = read_with_notes(write("f.csv", text([*FACTS, ("Ann", "likes", marker), (marker, "likes", "Bob")])))
    assert marker in facts.entities
    assert f"f.csv: '{marker}' in 2 facts: read as a name; if it marks missing values, remove" in said


def test_a_name_in_a_table_may_be_no_longer_than_in_a_text_file(tmp_path, monkeypatch):
    monkeypatch.setattr(encode, "MAX_LINE_BYTES", 1000)
    columns = {"subject": ["a", "é" * 501], "relation": ["r", "r"], "object": ["b", "c"]}
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    for source in (pa.table(columns), tmp_path / "f.parquet"):
        with pytest.raises(DataError, match=r"row 2: the subject is longer than .* no name may be; skip_bad_rows=True"):
            read(source)
        assert len(read_with_notes(source, skip_bad_rows=True)[0]) == 1


@pytest.mark.parametrize("row", [b"M\xfcller,likes,Ann\n", b"M\xfcller,likes\n", b"only,\xff"])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("blank", [b"", b"  \n"])
def test_text_that_is_not_utf8_is_never_skipped(write, row, skip, blank):
    name = write("f.csv", text(FACTS).encode() + blank + row)
    with pytest.raises(DataError, match=rf"^f\.csv:{5 + bool(blank)}: is not valid UTF-8; save the file as UTF-8"):
        read(name, skip_bad_rows=skip)


def test_an_open_quote_is_never_skipped(write):
    with pytest.raises(DataError, match=r"^f\.csv:5: a quote opens in this line and is never closed"):
        read(write("f.csv", text(FACTS) + 'a,"b,c\nd,e,f\n'), skip_bad_rows=True)


def test_many_blank_relations_are_an_edge_list_first(write):
    rows = [("a", f"b{i}", "mail" if i % 3 else "") for i in range(30)]
    text = "".join(",".join(row) + "\n" for row in rows)
    with pytest.raises(
        DataError,
        match=r"f.csv:2: empty relation .*; column 'channel' is blank in 10 of the first 30 rows: columns=\('source', "
        r"'target'\) reads an edge list without it, skip_bad_rows=True skips such rows, 10 of the first 30$",
    ):
        read(write("f.csv", f"source,target,channel\n{text}"))
    with pytest.raises(DataError, match=r"empty object .*\); skip_bad_rows=True skips such rows, 10 of the first 30$"):
        read(write("f.csv", text), columns=(0, 1, 2))
    assert len(read("f.csv", columns=(0, 1))) == 30
