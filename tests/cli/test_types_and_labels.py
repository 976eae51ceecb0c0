"""Types and labels on the command line: fit, predict, evaluate, explain."""

import contextlib
import io
import json
from typing import NamedTuple

import pytest

import commands

ROWS = "Q1,P1,Q3\nQ2,P1,Q3\nQ1,P2,Q2\nQ2,P2,Q1\nQ5,P1,Q4\n"


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


class Streams:
    """What a command wrote, as capsys has it, which a fixture of a module cannot use."""

    def __init__(self):
        self.out, self.err = io.StringIO(), io.StringIO()

    def readouterr(self):
        return self.out.getvalue(), self.err.getvalue()


def run(*arguments):
    streams = Streams()
    with contextlib.redirect_stdout(streams.out), contextlib.redirect_stderr(streams.err):
        return Result(*commands.run(streams, *arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    (folder / "f.csv").write_text(ROWS)
    (folder / "types.json").write_text(json.dumps({"Q1": "person", "Q2": ["person"], "Q3": "city", "Q4": "city"}))
    (folder / "labels.csv").write_text("id,label\nQ1,Ann\nQ2,Ann\nQ3,Ulm\nP1,lives in\nperson,human\n")
    result = run(
        "fit", folder / "f.csv", "-o", folder / "m.relatent", "--model", "als", "--rank", "2", "--max-iter", "20",
        "--types", folder / "types.json", "--labels", folder / "labels.csv", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)["data"]
    assert data["types"] == 2
    assert data["labels"] == 4
    return folder


def answers(folder, *options):
    result = run("predict", folder / "m.relatent", *options, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["predictions"]


def test_predict_takes_labels_and_offers_right_types_only(folder):
    found = answers(folder, "-s", "Q1", "-r", "lives in")
    assert {row["object"] for row in found} == {"Q3", "Q4", "Q5"}
    assert found[0]["subject"] == "Q1"
    assert found[0]["subject_label"] == "Ann"
    assert found[0]["relation"] == "P1"
    assert found[0]["relation_label"] == "lives in"
    assert {row["object"]: row["object_label"] for row in found} == {"Q3": "Ulm", "Q4": None, "Q5": None}
    assert len(answers(folder, "-s", "Q1", "-r", "P1", "--types", "none")) == 5


def test_an_ambiguous_label_is_one_line_that_lists_the_names(folder):
    result = run("predict", folder / "m.relatent", "-s", "Ann", "-r", "P1")
    assert result.exit_code == 1
    assert "'Ann' is the label of 2 entity names: Q1, Q2; give one of these" in result.stderr
    assert result.stderr.count("\n") == 1


def test_tables_show_labels(folder):
    result = run("predict", folder / "m.relatent", "-s", "Q1", "-r", "P1")
    assert "Ulm" in result.stdout
    assert "Ann (Q1)" in result.stdout
    assert "Q3" not in result.stdout
    result = run("explain", folder / "m.relatent", "-s", "Q1", "-r", "P1", "-t", "Ulm", "--known", folder / "f.csv")
    assert "Ann (Q1) lives in Ulm" in result.stdout
    assert "Ulm" in run("similar", folder / "m.relatent", "Q4").stdout


def test_evaluate_reports_both_ways(folder):
    result = run("evaluate", folder / "m.relatent", folder / "f.csv", "--known", folder / "f.csv", "--json")
    found = json.loads(result.stdout)
    assert found["typed"]["n_wrong_type"] == 0
    assert found["typed"]["mrr"] >= found["mrr"]
    shown = run("evaluate", folder / "m.relatent", folder / "f.csv", "--known", folder / "f.csv").stdout
    assert "both, right types" in shown
    assert "lives in" in shown
    others = run(
        "evaluate", folder / "m.relatent", folder / "f.csv", "--known", folder / "f.csv", "--types", "none", "--json"
    )
    assert json.loads(others.stdout)["typed"] is None


def test_types_for_a_model_need_the_training_facts(folder):
    result = run("predict", folder / "m.relatent", "-s", "Q1", "-r", "P1", "--types", "infer")
    assert result.exit_code == 1
    assert "--types needs the training facts" in result.stderr


def test_missing_and_doubtful_facts_have_labels(folder):
    result = run("missing", folder / "m.relatent", "--known", folder / "f.csv", "--json")
    rows = json.loads(result.stdout)["missing"]
    assert {row["relation"]: row["relation_label"] for row in rows}["P1"] == "lives in"
    assert {row["object"] for row in rows if row["relation"] == "P1"} <= {"Q3", "Q4", "Q5"}
    assert "lives in" in run("doubt", folder / "m.relatent", "--known", folder / "f.csv").stdout
