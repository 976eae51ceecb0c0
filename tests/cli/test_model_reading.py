"""Commands read files with the columns of a model's data as that data was read."""

import json
from dataclasses import replace

import pytest

import relatent
from commands import run
from relatent.model.about import readable_about

FACTS = [
    ("Ann", "likes", "jazz"), ("Bob", "likes", "jazz"), ("Cid", "likes", "rock"), ("Dot", "likes", "rock"),
    ("Ann", "plays", "bass"), ("Bob", "plays", "bass"), ("Cid", "plays", "drums"),
]  # fmt: skip
NEW = [("Eve", "likes", "rock"), ("Eve", "plays", "drums")]
ALS = ("--model", "als", "--rank", "2")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def wide(name, facts, sep=";", header="nr;thing;verb;person"):
    """A file with columns in an odd order, with odd names."""
    rows = [sep.join((str(i), o, r, s)) for i, (s, r, o) in enumerate(facts)]
    with open(name, "w") as file:
        file.write("\n".join([header.replace(";", sep), *rows, ""]))
    return name


def done(capsys, *arguments):
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    return out, err


@pytest.fixture
def odd(capsys):
    """A model of a file that is read only with options."""
    wide("odd.csv", FACTS)
    done(capsys, "fit", "odd.csv", "--sep", ";", "--columns", "person,verb,thing", "-o", "odd.relatent", *ALS)
    return "odd.relatent"


READ = "--columns subject=person,relation=verb,object=thing --header --sep ';'"


@pytest.mark.parametrize(
    "arguments",
    [
        ("missing", "--known", "odd.csv", "--top", "1"),
        ("doubt", "--known", "odd.csv", "--top", "1"),
        ("predict", "--subject", "Ann", "--relation", "likes", "--known", "odd.csv"),
        ("explain", "-s", "Ann", "-r", "likes", "-t", "jazz", "--known", "odd.csv"),
        ("evaluate", "odd.csv"),
        ("score", "odd.csv", "--known", "odd.csv"),
        ("fold-in", "new.csv", "-o", "larger.relatent"),
        ("update", "new.csv", "-o", "larger.relatent"),
    ],
)
def test_the_data_of_a_model_is_read_as_in_the_fit(capsys, odd, arguments):
    wide("new.csv", NEW)
    command, *rest = arguments
    _, err = done(capsys, command, odd, *rest)
    source = next(name for name in rest if name.endswith(".csv"))
    assert f"note: {source} is read as the data of odd.relatent was: {READ}; options change that" in err
    if "larger.relatent" in rest:
        assert "Eve" in relatent.load("larger.relatent").entities
        assert set(relatent.load("larger.relatent").relations) == {"likes", "plays"}


def test_a_model_of_a_model_remembers_it_too(capsys, odd):
    wide("new.csv", NEW)
    done(capsys, "update", odd, "new.csv", "-o", "odd.relatent")
    done(capsys, "fold-in", odd, wide("fay.csv", [("Fay", "likes", "jazz")]), "-o", "odd.relatent")
    out, _ = done(capsys, "doubt", odd, "--known", "odd.csv", "--known", "new.csv", "--json")
    assert len(json.loads(out)["doubtful"]) == len(FACTS) + len(NEW)


def test_options_of_the_command_win(capsys, odd):
    wide("comma.csv", NEW, sep=",")
    _, err = done(
        capsys, "fold-in", odd, "comma.csv", "--sep", ",", "--columns", "person,verb,thing", "-o", "x.relatent"
    )
    assert "is read as" not in err or "--sep" not in err
    assert "Eve" in relatent.load("x.relatent").entities
    code, _, err = run(capsys, "doubt", odd, "--known", "odd.csv", "--columns", "thing,verb,person", "--json")
    assert code == 0
    assert "--columns" not in err
    assert "--sep ';'" in err


def test_files_with_other_columns_are_read_by_themselves(capsys, odd):
    with open("plain.tsv", "w") as file:
        file.write("".join("\t".join(fact) + "\n" for fact in NEW))
    _, err = done(capsys, "fold-in", odd, "plain.tsv", "-o", "x.relatent")
    assert "is read as" not in err


def counted(name, rows):
    """A tab-separated file of another form than that of `wide`."""
    with open(name, "w") as file:
        file.write("".join("\t".join(map(str, row)) + "\n" for row in [("giver", "taker", "number"), *rows]))
    return name


def test_each_file_of_a_model_is_read_as_it_was(capsys, odd):
    counted("gives.tsv", [("Ann", "Bob", 14), ("Bob", "Cid", 12), ("Cid", "Dot", 3)])
    done(capsys, "update", odd, "gives.tsv", "-o", "two.relatent")
    known = ("--known", "odd.csv", "--known", "gives.tsv")
    out, err = done(capsys, "doubt", "two.relatent", *known, "--json")
    assert len(json.loads(out)["doubtful"]) == len(FACTS) + 3
    assert f"odd.csv is read as the data of two.relatent was: {READ}" in err
    assert "gives.tsv is read as the data of two.relatent was: --header;" in err
    done(capsys, "update", "two.relatent", wide("new.csv", NEW), "-o", "three.relatent")  # reads both files again
    assert set(relatent.load("three.relatent").relations) == {"likes", "plays", "gives"}
    readings = relatent.load("three.relatent").about["data"]["readings"]
    assert [reading["source"] for reading in readings] == ["odd.csv", "gives.tsv", "new.csv"]


def test_the_one_reading_of_an_earlier_version_is_of_the_first_file(capsys, odd):
    counted("gives.tsv", [("Ann", "Bob", 14), ("Bob", "Cid", 12), ("Cid", "Dot", 3)])
    done(capsys, "update", odd, "gives.tsv", "-o", "two.relatent")
    factors = relatent.load("two.relatent")
    data = dict(factors.about["data"])
    data["reading"] = {name: value for name, value in data.pop("readings")[0].items() if name != "source"}
    replace(factors, R=factors.relation_matrices, about={**factors.about, "data": data}).save("two.relatent")
    _, err = done(capsys, "doubt", "two.relatent", "--known", "odd.csv", "--known", "gives.tsv")
    assert f"odd.csv is read as the data of two.relatent was: {READ}" in err
    assert "gives.tsv is read as" not in err
    done(capsys, "update", "two.relatent", wide("new.csv", NEW), "-o", "three.relatent")
    assert "reading" not in relatent.load("three.relatent").about["data"]


def test_a_header_that_the_whole_file_betrayed_is_one_in_a_small_file(capsys):
    facts = [(f"P{c}", r, o) for c in "abcdefgh" for r in ("likes", "plays") for o in ("jazz", "rock")]
    for name, rows in (("large.csv", facts), ("small.csv", [("Eve", "likes", "rock")])):
        with open(name, "w") as file:
            file.write("".join(",".join(row) + "\n" for row in [("person", "verb", "thing"), *rows]))
    done(capsys, "fit", "large.csv", "-o", "m.relatent", *ALS)
    _, err = done(capsys, "fold-in", "m.relatent", "small.csv", "-o", "x.relatent")
    assert set(relatent.load("x.relatent").entities) - set(relatent.load("m.relatent").entities) == {"Eve"}
    assert "small.csv is read as the data of m.relatent was: --header" in err


def test_an_edge_list_has_the_relation_of_the_model_whatever_its_name(capsys):
    edges = [(a, b) for a in "abcde" for b in "abcde" if a < b]
    for name, rows in (("follows.csv", edges), ("today.csv", [("f", "a"), ("f", "b")])):
        with open(name, "w") as file:
            file.write("".join(",".join(row) + "\n" for row in rows))
    done(capsys, "fit", "follows.csv", "-o", "m.relatent", *ALS)
    _, err = done(capsys, "update", "m.relatent", "today.csv", "-o", "two.relatent")
    assert list(relatent.load("two.relatent").relations) == ["follows"]
    assert "today.csv is read as the data of m.relatent was: --relation follows" in err
    _, err = done(capsys, "update", "two.relatent", "today.csv", "--relation", "likes", "-o", "three.relatent")
    assert list(relatent.load("three.relatent").relations) == ["follows", "likes"]  # the option is for the new file


def test_an_edge_list_with_other_columns_has_the_relation_of_the_model(capsys):
    edges = [(a, b) for a in "abcde" for b in "abcde" if a < b]
    with open("advice.csv", "w") as file:
        rows = [f"{a},{b},2024-05-{i + 10},remark {i}\n" for i, (a, b) in enumerate(edges)]
        file.write("source,target,asked_on,remark\n" + "".join(rows))
    with open("withheld.csv", "w") as file:
        file.write("source,target\nb,a\nc,a\n")
    done(capsys, "fit", "advice.csv", "-o", "m.relatent", *ALS)
    _, err = done(capsys, "evaluate", "m.relatent", "withheld.csv", "--known", "advice.csv")
    assert "note: withheld.csv has the relation of m.relatent, 'advice'; --relation NAME gives it another" in err
    assert "advice.csv has the relation" not in err
    code, _, err = run(capsys, "evaluate", "m.relatent", "withheld.csv", "--relation", "other")
    assert code == 1
    assert "the file 'other'" in err


def test_what_the_fit_said_of_a_file_is_not_said_again(capsys):
    edges = [(a, b) for a in "abcde" for b in "abcde" if a < b]
    text = "source,target,asked_on,remark\n" + "".join(f"{a}, {b},2024-05-10,{a}{b}\n" for a, b in edges)
    with open("advice.csv", "w") as file:
        file.write(text + "a,NA,2024-05-10,x\na,,2024-05-10,y\n")
    _, err = done(capsys, "fit", "advice.csv", "--skip-bad-rows", "-o", "m.relatent", *ALS)
    assert err.count("warning: advice.csv") == 4
    _, err = done(capsys, "missing", "m.relatent", "--known", "advice.csv", "--top", "1")
    assert err.count("advice.csv") == 1
    assert "note: advice.csv is read as the data of m.relatent was: --header --skip-bad-rows;" in err
    with open("advice.csv", "a") as file:
        file.write("b,,2024-05-10,z\n")
    _, err = done(capsys, "missing", "m.relatent", "--known", "advice.csv", "--top", "1")
    assert err.count("warning: advice.csv") == 1
    assert "skipped 2 bad rows" in err


def test_notes_of_a_file_without_options_are_one_line(capsys):
    with open("likes.tsv", "w") as file:
        file.write("".join(f"{a}\tlikes \t{b}\n" for a in "abcde" for b in "abcde" if a < b))
    _, err = done(capsys, "fit", "likes.tsv", "-o", "m.relatent", *ALS)
    assert "removed the blanks" in err
    _, err = done(capsys, "missing", "m.relatent", "--known", "likes.tsv", "--top", "1")
    assert err.count("likes.tsv is read as the data of m.relatent was; ") == 1
    assert "removed the blanks" not in err


def test_data_read_without_options_says_nothing(capsys, family, model):
    _, err = done(capsys, "doubt", model, "--known", family)
    assert "is read as" not in err


@pytest.mark.parametrize(
    "reading",
    [
        5,
        {"options": 5, "columns": 3},
        {"options": {"sep": 5}, "columns": 3},
        {"options": {"sql": "SELECT 1"}, "columns": 3},
        {"options": {"columns": {"subject": None}}, "columns": 3},
        {"options": {}, "columns": None},
        {"options": {}, "columns": [5]},
        {"options": {}, "columns": 3, "relation": 5},
    ],
)
def test_a_record_that_relatent_did_not_write_is_ignored(reading):
    right = {"options": {"sep": ";", "columns": {"subject": "a", "object": 1}}, "columns": ["a", "b"]}
    assert readable_about({"data": {"reading": right}}) == {"data": {"reading": right}}
    assert readable_about({"data": {"reading": reading}}) == {"data": {}}
    kept = {"data": {"readings": [{**right, "source": "a.csv"}]}}
    assert readable_about(kept) == kept
    assert readable_about({"data": {"readings": [*kept["data"]["readings"], reading]}}) == {"data": {}}
    assert readable_about({"data": {"readings": [right]}}) == {"data": {}}
