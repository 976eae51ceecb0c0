"""Types and labels on the command line: fit, predict, evaluate, explain."""

import contextlib
import dataclasses
import io
import json
from typing import NamedTuple

import pytest

import commands
import relatent

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
    assert {row["object"] for row in found} == {"Q4", "Q5"}  # Q3 is known
    assert found[0]["subject"] == "Q1"
    assert found[0]["subject_label"] == "Ann"
    assert found[0]["relation"] == "P1"
    assert found[0]["relation_label"] == "lives in"
    found = answers(folder, "-s", "Q5", "-r", "P1")
    assert {row["object"]: row["object_label"] for row in found} == {"Q3": "Ulm"}
    assert len(answers(folder, "-s", "Q1", "-r", "P1", "--types", "none")) == 3  # all but Q1 itself and Q3


def test_an_ambiguous_label_is_one_line_that_lists_the_names(folder):
    result = run("predict", folder / "m.relatent", "-s", "Ann", "-r", "P1")
    assert result.exit_code == 1
    assert "'Ann' is the label of 2 entity names: Q1, Q2; give one of these" in result.stderr
    assert result.stderr.count("\n") == 1


def test_tables_show_labels(folder):
    assert "Ann (Q1)" in run("predict", folder / "m.relatent", "-s", "Q1", "-r", "P1").stdout
    result = run("predict", folder / "m.relatent", "-s", "Q5", "-r", "P1")
    assert "Ulm" in result.stdout
    assert "Q3" not in result.stdout
    result = run("explain", folder / "m.relatent", "-s", "Q1", "-r", "P1", "-t", "Ulm")
    assert "Ann (Q1) lives in Ulm" in result.stdout
    assert "Ulm" in run("similar", folder / "m.relatent", "Q4").stdout


def test_evaluate_ranks_among_right_types(folder):
    def evaluated(*options):
        result = run("evaluate", folder / "m.relatent", folder / "test.csv", *options, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    (folder / "test.csv").write_text("Q5,P1,Q3\nQ1,P1,Q2\n")  # Q2 is no city
    found, all_types = evaluated(), evaluated("--types", "none")
    assert (found["n_wrong_type"], all_types["n_wrong_type"]) == (1, 0)
    assert found["protocol"] == "answers"
    assert evaluated("--protocol", "benchmark")["n_wrong_type"] == 0
    shown = " ".join(run("evaluate", folder / "m.relatent", folder / "test.csv").stdout.split())
    assert "1 right answers of a wrong type come after all others" in shown
    assert "lives in" in shown


def test_types_can_be_given_to_a_model_that_holds_its_facts(folder):
    of_q5 = ("-s", "Q5", "-r", "P1", "--json")
    found = json.loads(run("predict", folder / "m.relatent", *of_q5, "--types", "infer").stdout)["predictions"]
    assert "Q3" in {row["object"] for row in found}
    model = relatent.load(folder / "m.relatent")
    dataclasses.replace(model, R=model.R, facts=None).save(folder / "without.relatent")
    result = run("predict", folder / "without.relatent", *of_q5, "--types", "infer")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "give them, as known= or --known" in result.stderr
    result = run("predict", folder / "without.relatent", *of_q5, "--types", "infer", "--known", folder / "f.csv")
    assert json.loads(result.stdout)["predictions"] == found


def test_missing_and_doubtful_facts_have_labels(folder):
    result = run("missing", folder / "m.relatent", "--json")
    rows = json.loads(result.stdout)["missing"]
    assert {row["relation"]: row["relation_label"] for row in rows}["P1"] == "lives in"
    assert {row["object"] for row in rows if row["relation"] == "P1"} <= {"Q3", "Q4", "Q5"}
    assert "lives in" in run("doubt", folder / "m.relatent").stdout


def test_files_keep_the_names_and_add_columns_of_labels(folder):
    target = folder / "missing.csv"
    result = run("missing", folder / "m.relatent", "-o", target)
    header, *rows = (line.split(",") for line in target.read_text().splitlines())
    assert header[-3:] == ["subject_label", "relation_label", "object_label"]
    found = [dict(zip(header, row, strict=True)) for row in rows]
    assert {(row["relation"], row["relation_label"]) for row in found} == {("P1", "lives in"), ("P2", "")}
    assert f"{len(rows)} rows written to {target}" in result.stderr
    run("doubt", folder / "m.relatent", "-o", folder / "doubt.csv")
    assert "alternative_label" in (folder / "doubt.csv").read_text()
    (folder / "questions.csv").write_text("subject,relation\nQ1,P1\n")
    run("predict", folder / "m.relatent", "--questions", folder / "questions.csv", "-o", folder / "answers.csv")
    out = (folder / "answers.csv").read_text()
    assert "note,subject_label,relation_label,object_label" in out
    assert ",Ann,lives in," in out


def test_rules_info_and_split_show_labels(folder):
    data = (folder / "f.csv", "--labels", folder / "labels.csv")
    rules = run("rules", *data, "--min-support", 1)
    assert "lives in(x,z)" in rules.stdout
    best = json.loads(run("rules", *data, "--min-support", 1, "--json").stdout)["rules"][0]
    assert best["body_label"] == best["body"].replace("P1", "lives in")
    run("rules", *data, "--min-support", 1, "-o", folder / "rules.csv")
    assert (folder / "rules.csv").read_text().startswith("body,head,support,confidence,body_label,head_label\n")
    assert "lives in 3" in run("info", *data).stdout
    assert json.loads(run("info", *data, "--json").stdout)["relation_labels"] == {"P1": "lives in", "P2": None}
    assert run("split", *data, "-o", folder / "parts", "--test", 0.2).exit_code == 0
    assert "P1,lives in\n" in (folder / "parts" / "labels.csv").read_text()
    assert run("fit", *data, "-o", folder / "mln.relatent", "--model", "mln", "--set", "l1=0").exit_code == 0
    assert "lives in(x,y)" in run("info", folder / "mln.relatent").stdout
    explained = run("explain", folder / "m.relatent", "-s", "Q1", "-r", "P2", "-t", "Q2")
    assert "lives in(x,z) ∧ lives in(y,z) ⇒ P2(x,y)" in explained.stdout


def test_data_frames_have_columns_of_labels_and_notebooks_show_them(folder):
    facts = relatent.read(folder / "f.csv", labels=folder / "labels.csv")
    model = relatent.load(folder / "m.relatent")
    for found in (
        relatent.missing(model, k=5),
        relatent.doubt(model, k=5),
        relatent.rules(facts, min_support=1),
        relatent.similar(model, "Q4", k=2),
        relatent.answers(model, subject="Q1", relation="P1", k=3),
        facts.describe(),
    ):
        columns = found.to_pandas().columns
        assert any(column.endswith("_label") for column in columns), type(found)
        assert any(label in found._repr_html_() for label in ("Ann", "lives in", "Ulm"))
    assert "lives in" in facts._repr_html_()
    plain = relatent.read(folder / "f.csv")
    assert "relation_label" not in plain.describe().to_pandas().columns
