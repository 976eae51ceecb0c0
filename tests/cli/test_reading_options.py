"""Options that say how files are read, and messages in terms of these options."""

import io
import json
import sys

import pytest

from commands import run
from relatent.cli.reading_options import as_options

EDGES = "a b 0.5\nb c 0.7\nc a 1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.txt").write_text(EDGES)
    (tmp_path / "wide.csv").write_text("x;who;whom;does\n1;Ann;Bob;likes\n2;Bob;Zoë;likes\n", encoding="latin-1")
    return tmp_path


def info(capsys, *arguments):
    code, out, err = run(capsys, "info", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize(
    ("arguments", "relations", "weighted"),
    [
        (("edges.txt", "--sep", "space"), {"linked": 3}, True),
        (("edges.txt", "--sep", " ", "--relation", "cites"), {"cites": 3}, True),
        (("edges.txt", "--sep", " ", "--columns", "1,2"), {"linked": 3}, False),
        (("edges.txt", "--sep", " ", "--columns", "1,2,3"), {"b": 1, "c": 1, "a": 1}, False),
        (("edges.txt", "--sep", " ", "--columns", "subject=1,object=2,weight=3"), {"linked": 3}, True),
        (("edges.txt", "--sep", " ", "--header", "--columns", "1,2,3"), {"c": 1, "a": 1}, False),
        (("wide.csv", "--sep", ";", "--columns", "who,does,whom", "--encoding", "latin-1"), {"likes": 2}, False),
        (("e*.txt", "--sep", " ", "--relation", "cites"), {"cites": 3}, True),
    ],
)
def test_options_decide_how_a_file_is_read(capsys, folder, arguments, relations, weighted):
    found = info(capsys, *arguments)
    assert (found["facts_of_relation"], found["weighted"]) == (relations, weighted)


def test_info_shows_how_a_file_was_understood(capsys, folder):
    reading = info(capsys, "edges.txt", "--sep", "space")["reading"]
    assert reading["format"] == "space-separated text"
    assert (reading["subject"], reading["object"], reading["weight"]) == ("column 1", "column 2", "column 3")
    assert reading["first_rows"][0] == ["a", "b", "0.5"]
    assert reading["notes"][0].endswith("--relation '…' says so, --columns 1,2,3 reads facts")
    _, out, err = run(capsys, "info", "edges.txt", "--sep", "space")
    assert "'linked' for every row (an edge list)" in out
    assert err == ""


def test_standard_input_is_read(capsys, folder, monkeypatch):
    for text, facts in (
        (b"a,r,b\n", 1),
        (b"a\tr\tb\nb\tr\ta\n", 2),
        (b'["a", "r", "b"]\n', 1),
        (b"<x:a> <x:r> <x:b> .\n", 1),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert info(capsys, "-")["facts"] == facts


def test_several_files_are_fitted_together_and_options_hold_for_all_of_them(capsys, folder):
    (folder / "more.txt").write_text("c d 1\n")
    options = ("--sep", "space", "--relation", "cites")
    fitted = ("fit", "edges.txt", "more.txt", "-o", "m.relatent", "--model", "als", "--rank", "1", *options)
    code, out, err = run(capsys, *fitted, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["data"] == {"facts": 4, "entities": 4, "relations": 1}
    asked = ("predict", "m.relatent", "-s", "a", "-r", "cites", "--known", "edges.txt", "--sep", "space")
    code, out, _ = run(capsys, *asked, "--edge-relation", "cites", "--json")
    assert code == 0
    assert "b" not in {answer["object"] for answer in json.loads(out)["predictions"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("edges.txt",), "got 1; if a space separates them, pass --sep ' '"),
        (("edges.txt", "--encoding", "foo"), "unknown encoding 'foo'"),
        (("edges.txt", "--sep", "ab"), "sep must be one ASCII character"),
        (
            ("wide.csv", "--columns", "who,does,whom", "--sep", ";"),
            "is not valid UTF-8; save the file as UTF-8, or name its encoding: --encoding 'latin-1'",
        ),
        (("nothing*.csv",), "nothing*.csv: no file matches this pattern"),
    ],
)
def test_errors_name_the_option(capsys, folder, arguments, message):
    code, _, err = run(capsys, "info", *arguments)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("pass header=True, strip=False or sep=';'", "pass --header, --no-strip or --sep ';'"),
        ("choose with columns=(…, …, …)", "choose with --columns …,…,…"),
        ("columns=('a', 'b') or columns=(0, 1)", "--columns a,b or --columns 1,2"),
        ("columns={'subject': 'a', 'object': 'b'} says so", "--columns subject=a,object=b says so"),
        ("choose with ?table=NAME or sql=", "choose with ?table=NAME or --sql"),
    ],
)
def test_arguments_are_shown_as_options(message, shown):
    assert as_options(message) == shown


def test_a_header_of_one_file_of_a_command_is_one_in_the_others(capsys, folder):
    rows = "".join(f"p{i % 7},{'likes' if i % 3 else 'knows'},q{i % 5}\n" for i in range(40))
    (folder / "first.csv").write_text(f"wer,tut,wen\n{rows}")
    (folder / "second.csv").write_text("wer,tut,wen\np0,likes,q9\n")
    arguments = ("fit", "first.csv", "second.csv", "-o", "m.relatent", "--model", "als", "--rank", "1", "--json")
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert json.loads(out)["data"] == {"facts": 40, "entities": 13, "relations": 2}
    assert err.count("as column names") == 1
