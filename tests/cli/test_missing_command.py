"""`relatent missing`: the table, JSON, files, and reviewed facts."""

import csv
import json

import pytest

from commands import run


def rows_of(out):
    return [(row["subject"], row["relation"], row["object"]) for row in json.loads(out)["missing"]]


def test_missing_lists_absent_facts_best_first(capsys, model, family):
    code, out, err = run(capsys, "missing", model, "--top", 3, "--types", "all", "--json")
    assert code == 0, err
    rows = json.loads(out)["missing"]
    assert set(rows[0]) == {"subject", "relation", "object", "score", "probability", "rank", "lift", "reason"}
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert [row["probability"] for row in rows] == sorted((row["probability"] for row in rows), reverse=True)
    known = {tuple(line.split("\t")) for line in family.read_text().splitlines()}
    assert not known & set(rows_of(out))
    shown = run(capsys, "missing", model, "--top", 3, "--types", "all", "--reasons")[1]
    assert rows[0]["subject"] in shown
    assert "because" in shown


def test_missing_of_one_relation_and_one_entity(capsys, model, family):
    options = ("--relation", "likes", "--entity", "Bob", "--types", "all")
    code, out, err = run(capsys, "missing", model, *options, "--json")
    assert code == 0, err
    assert all(relation == "likes" and "Bob" in (s, o) for s, relation, o in rows_of(out))


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_missing_writes_a_file(capsys, model, family, tmp_path, suffix):
    path = tmp_path / f"missing.{suffix}"
    code, out, err = run(capsys, "missing", model, "--types", "all", "--top", 2, "-o", path)
    assert (code, out) == (0, ""), err
    if suffix == "csv":
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        assert [row["rank"] for row in rows] == ["1", "2"]
    assert path.stat().st_size > 0


def test_reviewed_facts_are_left_out(capsys, model, family, tmp_path):
    options = ("missing", model, "--types", "all", "--json")
    before = rows_of(run(capsys, *options)[1])
    reviewed = tmp_path / "reviewed.csv"
    lines = [",".join((*before[0], "rejected")), ",".join((*before[1], "accepted"))]
    reviewed.write_text("subject,relation,object,verdict\n" + "\n".join(lines) + "\n")
    code, out, err = run(capsys, *options, "--reviewed", reviewed)
    assert code == 0, err
    assert rows_of(out) == before[2:]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--top", 0), 2, "0 is not in the range"),
        (("-o", "missing.xls"), 2, "must end in one of"),
        (("--relation", "hates"), 1, "error: unknown relation 'hates'"),
        (("--reviewed", "nothing.csv"), 1, "error: nothing.csv: no such file"),
    ],
)
def test_wrong_options_are_refused_in_one_line(capsys, model, family, arguments, code, text):
    got, out, err = run(capsys, "missing", model, *arguments)
    assert (got, out) == (code, "")
    assert text in err


def test_doubt_lists_known_facts_most_doubtful_first(capsys, model, family, tmp_path):
    path = tmp_path / "doubtful.csv"
    code, out, err = run(capsys, "doubt", model, "--top", 3, "--json", "-o", path)
    assert code == 0, err
    rows = json.loads(out)["doubtful"]
    known = {tuple(line.split("\t")) for line in family.read_text().splitlines()}
    assert {(row["subject"], row["relation"], row["object"]) for row in rows} <= known
    assert [row["doubt"] for row in rows] == sorted((row["doubt"] for row in rows), reverse=True)
    assert [row["subject"] for row in csv.DictReader(path.read_text().splitlines())] == [row["subject"] for row in rows]
    assert "or rather" in run(capsys, "doubt", model)[1]


def test_fit_takes_reviewed_facts(capsys, family, tmp_path):
    reviewed, path = tmp_path / "reviewed.csv", tmp_path / "new.relatent"
    reviewed.write_text("subject,relation,object,verdict\nAnn,parent,Cid,accepted\nBob,likes,Ann,rejected\n")
    small = ("--rank", 2, "--l2-entities", 0.1, "--l2-relations", 0.1, "--max-iter", 30, "--tol", 0.01)
    code, out, err = run(capsys, "fit", family, "-o", path, "--reviewed", reviewed, *small, "--json")
    assert code == 0, err
    assert json.loads(out)["data"]["facts"] == 5


def test_a_file_of_missing_facts_has_reasons_if_they_are_asked_for(capsys, tmp_path, model, family):
    path = tmp_path / "missing.csv"
    for options, has_reasons in (((), False), (("--reasons",), True)):
        code, _, err = run(capsys, "missing", model, "--types", "all", "-o", path, *options)
        assert code == 0, err
        header, first = path.read_text().splitlines()[:2]
        assert header.endswith(",reason") == has_reasons
        assert not first.endswith(",")


def test_missing_warns_that_scores_of_different_questions_cannot_be_compared(capsys, family, tmp_path):
    model = tmp_path / "s.relatent"
    settings = ("--model", "rescal", "--loss", "softmax", "--l2-entities", 0.1, "--l2-relations", 0.1)
    assert run(capsys, "fit", family, "-o", model, *settings, "--no-calibrate")[0] == 0
    code, _, err = run(capsys, "missing", model, "--top", 2)
    assert code == 0
    assert "warning: scores of a softmax model rank answers but are not probabilities; fit it with --calibrate" in err
    assert "scores of different questions cannot be compared, so the order of this list means little" in err
