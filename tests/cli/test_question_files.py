"""`relatent predict --questions` and `relatent score`: files of questions and of facts."""

import csv
import json

import pytest

import relatent
from commands import run


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_questions_of_a_file_get_answers_in_their_order(capsys, tmp_path, people_model):
    questions = tmp_path / "questions.csv"
    questions.write_text(
        "relation,object,subject\ncitizen of,,Ann\nborn in,Oslo,\n,Italy,Bob\nborn in,Rome,Cid\n"
        "born in,,Nobody\n,,Ann\n"
    )
    target = tmp_path / "answers.csv"
    code, out, err = run(capsys, "predict", people_model, "--questions", questions, "-o", target, "--top", 2, "--json")
    assert code == 0, err
    assert json.loads(out) == {"output": str(target), "rows": 6, "results": 6, "without_result": 2}
    rows = table(target)
    assert [row["question"] for row in rows] == ["1", "1", "2", "2", "3", "4", "5", "6"]
    model = relatent.load(people_model)
    best = relatent.answers(model, subject="Ann", relation="citizen of", treat_known="omit").answers[0]
    assert (rows[0]["object"], rows[0]["rank"]) == (best.name, "1")
    assert float(rows[0]["probability"]) == pytest.approx(best.probability, rel=1e-4)
    assert [row["note"] for row in rows[-2:]] == [
        "unknown subject 'Nobody'",
        "give two of subject, relation and object",
    ]


@pytest.mark.parametrize("suffix", ["tsv", "jsonl", "parquet"])
def test_facts_of_a_file_are_scored_in_any_format(capsys, tmp_path, people_model, suffix):
    import pandas as pd

    facts = pd.DataFrame(
        {
            "subject": ["Ann", "Cid", "Cid"],
            "relation": ["born in"] * 2 + ["flies to"],
            "object": ["Rome", "Rome", "Oslo"],
        }
    )
    source, target = tmp_path / f"claims.{suffix}", tmp_path / f"scored.{suffix}"
    if suffix == "parquet":
        facts.to_parquet(source)
    elif suffix == "jsonl":
        facts.to_json(source, orient="records", lines=True)
    else:
        facts.to_csv(source, sep="\t", index=False, header=False)  # three columns without names
    code, _, err = run(capsys, "score", people_model, source, "-o", target)
    assert code == 0, err
    readers = {
        "parquet": pd.read_parquet,
        "jsonl": lambda path: pd.read_json(path, lines=True),
        "tsv": lambda path: pd.read_csv(path, sep="\t"),
    }
    found = readers[suffix](target)
    assert found["known"].tolist()[:2] == [True, False]
    assert found["note"].tolist()[2] == "unknown relation 'flies to'"
    model = relatent.load(people_model)
    assert found["probability"][1] == pytest.approx(model.probability("Cid", "born in", "Rome"), rel=1e-5)
    assert pd.isna(found["rank"][0])
    assert found["rank"][1] >= 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", "expected columns named subject, relation and object, or two of them, got 'a', 'b'"),
        ("subject,relation\nAnn\n", "expected 2 comma-separated fields, got 1"),
    ],
)
def test_files_that_are_no_questions_are_refused_in_one_line(capsys, tmp_path, people_model, content, message):
    source = tmp_path / "odd.csv"
    source.write_text(content)
    code, _, err = run(capsys, "predict", people_model, "--questions", source, "-o", tmp_path / "x.csv")
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "x.csv").exists()


def test_answers_go_to_standard_output_unless_a_file_is_given(capsys, tmp_path, people_model):
    questions, target = tmp_path / "questions.csv", tmp_path / "answers.csv"
    questions.write_text("subject,relation\nAnn,born in\n")
    run(capsys, "predict", people_model, "--questions", questions, "-o", target)
    code, out, _ = run(capsys, "predict", people_model, "--questions", questions)
    assert code == 0
    assert out.splitlines() == target.read_text().splitlines()


def test_wrong_usage(capsys, tmp_path, people, people_model):
    assert run(capsys, "predict", people_model, "-o", tmp_path / "x.csv", "-s", "Ann", "-r", "born in")[0] == 2
    assert run(capsys, "score", people_model, people, "--json")[0] == 2
    assert run(capsys, "score", people_model, people, "-o", tmp_path / "x.xls")[0] == 2


def test_options_say_how_the_columns_of_a_file_of_facts_are_understood(capsys, tmp_path, people_model):
    header, turned, edges = (tmp_path / name for name in ("header.csv", "turned.csv", "edges.tsv"))
    header.write_text("who,what,where\nAnn,born in,Oslo\n")
    turned.write_text("where,who,what\nOslo,Ann,born in\n")
    edges.write_text("Ann\tOslo\n")
    wanted = None
    for file, *options in (
        (header, "--header"),
        (header, "--columns", "who,what,where"),
        (turned, "--columns", "subject=who,relation=what,object=where"),
        (edges, "--relation", "born in"),
    ):
        code, out, err = run(capsys, "score", people_model, file, *options, "-o", "-")
        assert code == 0, err
        rows = out.splitlines()[1:]
        wanted = wanted or rows
        assert len(rows) == 1
        assert rows[0].startswith("Ann,born in,Oslo,")
        assert rows == wanted
    code, _, err = run(capsys, "score", people_model, header, "--columns", "who,what,elsewhere", "-o", "-")
    assert code == 1
    assert "no column 'elsewhere'; there are" in err


def test_all_reading_options_hold_for_a_file_of_facts(capsys, tmp_path, people_model):
    source = tmp_path / "claims.dat"
    source.write_bytes("Ann;born in;Oslo\nshort\nZoë;born in;Oslo\n".encode("latin-1"))
    options = ("--format", "csv", "--sep", ";", "--encoding", "latin-1", "--no-header")
    code, _, err = run(capsys, "score", people_model, source, *options, "-o", "-")
    assert (code, err.count("\n")) == (1, 1)
    assert "claims.dat:2: expected 3 semicolon-separated fields, got 1 ('short'); --skip-bad-rows skips" in err
    code, out, err = run(capsys, "score", people_model, source, *options, "--skip-bad-rows", "-o", "-")
    assert code == 0
    assert [line.split(",")[0] for line in out.splitlines()[1:]] == ["Ann", "Zoë"]
    assert "skipped 1 bad row; the first: " in err


@pytest.mark.parametrize("command", ["score", "update", "fold-in"])
def test_a_damaged_file_is_one_line_wherever_it_stands(capsys, tmp_path, people_model, command):
    import pyarrow as pa
    from pyarrow import parquet

    source = tmp_path / "facts.parquet"
    parquet.write_table(
        pa.table({"subject": ["Ann"] * 5000, "relation": ["born in"] * 5000, "object": ["Oslo"] * 5000}), source
    )
    content = bytearray(source.read_bytes())
    content[4 : len(content) // 2] = bytes(0x5A ^ byte for byte in content[4 : len(content) // 2])
    source.write_bytes(content)
    code, _, err = run(capsys, command, people_model, source, "-o", tmp_path / "out.csv")
    assert code == 1
    assert "facts.parquet: cannot be read" in err
    assert err.count("\n") == 1
