"""Commands that ask a model: similar, groups, explain, fold-in."""

import json

import numpy as np
import pytest

import relatent
from commands import run
from relatent import Facts

LINES = [
    f"{who}\tborn in\t{city}" for who, city in (("Ann", "Rome"), ("Bob", "Rome"), ("Cid", "Oslo"), ("Dot", "Oslo"))
]
LINES += ["Ann\tcitizen of\tItaly", "Bob\tcitizen of\tItaly", "Cid\tcitizen of\tNorway", "Dot\tcitizen of\tNorway"]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "people.tsv"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def model(tmp_path, data):
    path = tmp_path / "people.relatent"
    relatent.RescalLogit(6, 0.02, 0.02).fit(relatent.read(data)).factors_.save(path)
    return path


def test_similar_names_those_of_whom_the_same_is_known(capsys, model):
    code, out, err = run(capsys, "similar", model, "Ann", "--top", 2, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["entity"] == "Ann"
    assert found["similar"][0]["name"] == "Bob"
    assert "Bob" in run(capsys, "similar", model, "Ann")[1]


def test_groups_are_shown_with_what_is_typical(capsys, model):
    code, out, err = run(capsys, "groups", model, "--groups", 3, "--json")
    assert code == 0, err
    groups = json.loads(out)["groups"]
    assert sorted(name for group in groups for name in group["names"]) == sorted(
        ["Ann", "Bob", "Cid", "Dot", "Italy", "Norway", "Oslo", "Rome"]
    )
    assert {"relation", "role", "neighbour", "probability", "elsewhere"} == set(groups[0]["typical"][0])
    assert "elsewhere" in run(capsys, "groups", model, "--groups", 3)[1]


def test_explain_says_why(capsys, model, data):
    cell = ("-s", "Ann", "-r", "citizen of", "-t", "Italy")
    code, out, err = run(capsys, "explain", model, *cell, "--known", data, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["probability"] > 0.5
    first = found["reasons"][0]
    assert (first["subject"], first["relation"], first["object"]) == ("Ann", "born in", "Rome")
    shown = run(capsys, "explain", model, *cell, "--known", data)[1]
    assert "Ann citizen of Italy is known; besides itself, the strongest support is Ann born in Rome" in " ".join(
        shown.split()
    )


def test_fold_in_writes_a_model_that_knows_the_newcomer(capsys, tmp_path, model):
    new = tmp_path / "new.tsv"
    new.write_text("Eve\tborn in\tOslo\n")
    larger = tmp_path / "larger.relatent"
    code, out, err = run(capsys, "fold-in", model, new, "-o", larger, "--others", 0.1, "--json")
    assert code == 0, err
    assert json.loads(out) == {"model": str(larger), "folded_in": ["Eve"], "entities": 9}
    f = relatent.load(larger)
    assert f.probability("Eve", "citizen of", "Norway") > 3 * f.probability("Eve", "citizen of", "Italy")
    again = relatent.load(model).fold_in(Facts.from_arrays(["Eve"], ["born in"], ["Oslo"]), others=0.1)
    np.testing.assert_array_equal(again.A, f.A)
    assert "folded in" in run(capsys, "fold-in", model, new, "-o", larger)[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("similar", "MODEL", "Anne"), "error: unknown entity 'Anne'; did you mean 'Ann'"),
        (
            ("groups", "MODEL", "--groups", 99),
            "error: n_groups must be between 1 and 8, the number of entities, got 99",
        ),
        (("fold-in", "MODEL", "DATA", "-o", "x.relatent"), "error: the model knows every entity of these facts"),
        (("explain", "MODEL", "-s", "Ann", "-r", "hates", "-t", "Bob", "--known", "DATA"), "unknown relation 'hates'"),
    ],
)
def test_what_cannot_be_answered_is_one_line(capsys, monkeypatch, tmp_path, model, data, arguments, text):
    monkeypatch.chdir(tmp_path)
    named = {"MODEL": model, "DATA": data}
    code, out, err = run(capsys, *(named.get(argument, argument) for argument in arguments))
    assert code == 1
    assert out == ""
    assert text in err
    assert err.count("\n") == 1
    assert not (tmp_path / "x.relatent").exists()


def test_duplicates_are_listed_and_what_to_merge_is_written(capsys, tmp_path):
    rng = np.random.default_rng(0)
    own = {f"e{i}": [(f"r{rng.integers(3)}", f"v{rng.integers(40)}") for _ in range(10)] for i in range(40)}
    own["Ann"] = own["e0"]
    data, path, table = tmp_path / "d.tsv", tmp_path / "d.relatent", tmp_path / "merges.tsv"
    data.write_text("".join(f"{who}\t{r}\t{what}\n" for who, facts in own.items() for r, what in facts))
    relatent.RescalALS(6, 1.0, 1.0).fit(relatent.read(data)).factors_.save(path)
    code, out, err = run(capsys, "duplicates", path, "--known", data, "--top", 3, "--json", "-o", table)
    assert code == 0, err
    found = json.loads(out)
    assert {found["pairs"][0]["name"], found["pairs"][0]["other"]} == {"Ann", "e0"}
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert rows[0] == ["name", "into", "probability", "facts"]
    assert {"Ann", "e0"} in [set(row[:2]) for row in rows[1:]]
    assert "e0" in run(capsys, "duplicates", path, "--known", data, "--entity", "Ann", "--top", 1)[1]
    code, _, err = run(capsys, "duplicates", path, "--known", data, "-o", tmp_path)
    assert (code, "is a folder; give the name of a file in it" in err) == (1, True)
