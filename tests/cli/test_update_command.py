"""`relatent update`."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import relatent
from commands import run


def test_update_writes_a_model_with_the_new_facts_over_the_old_one(capsys, tmp_path, people, people_model):
    new = tmp_path / "new.tsv"
    new.write_text("Eve\tborn in\tOslo\nEve\tfriend of\tAnn\n")
    code, out, err = run(capsys, "update", people_model, new, "--known", people, "-o", people_model, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert {name: found[name] for name in ("new_facts", "new_entities", "new_relations")} == {
        "new_facts": 2,
        "new_entities": 1,
        "new_relations": 1,
    }
    f = relatent.load(people_model)
    assert f.probability("Eve", "citizen of", "Norway") > f.probability("Eve", "citizen of", "Italy")


NEW = "Eve\tborn in\tOslo\n"


def fitted(capsys, folder, text):
    """Data and the model that the command line fits to it."""
    data, model = folder / "data.tsv", folder / "model.relatent"
    data.write_text(text)
    code, _, err = run(capsys, "fit", data, "-o", model, "--model", "als", "--rank", "2")
    assert code == 0, err
    return data, model


def test_update_finds_the_facts_that_the_model_was_fitted_to(capsys, tmp_path, people):
    _, model = fitted(capsys, tmp_path, people.read_text())
    new = tmp_path / "new.tsv"
    for text in (NEW, "Fay\tborn in\tRome\n"):  # the second finds the facts of the first
        new = tmp_path / f"{text[:3]}.tsv"
        new.write_text(text)
        code, _, err = run(capsys, "update", model, new, "-o", model)
        assert code == 0, err
    assert {"Eve", "Fay"} <= set(relatent.load(model).entities)


def test_data_that_moved_with_the_model_is_found_beside_it(capsys, monkeypatch, tmp_path, people):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    monkeypatch.chdir(before)
    (before / "data.tsv").write_text(people.read_text())
    assert run(capsys, "fit", "data.tsv", "-o", "model.relatent", "--model", "als", "--rank", "2")[0] == 0
    before.rename(after)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.tsv").write_text(NEW)
    code, _, err = run(capsys, "update", after / "model.relatent", "new.tsv", "-o", "new.relatent")
    assert code == 0, err


def test_update_refuses_data_that_changed_or_is_gone(capsys, tmp_path, people):
    data, model = fitted(capsys, tmp_path, people.read_text())
    new = tmp_path / "new.tsv"
    new.write_text(NEW)
    data.write_text(people.read_text() + NEW)
    code, _, err = run(capsys, "update", model, new, "-o", model)
    assert code == 1
    assert "has other facts than" in err
    data.unlink()
    code, _, err = run(capsys, "update", model, new, "-o", model)
    assert code == 1
    assert "cannot be read" in err
    assert "--known" in err


def test_update_of_a_model_that_names_no_data_needs_known_facts(capsys, people, people_model):
    model = relatent.load(people_model)
    model.about.get("data", {}).pop("sources", None)
    model.save(people_model)
    code, _, err = run(capsys, "update", people_model, people, "-o", people_model)
    assert code == 1
    assert "does not say what it was fitted to" in err
    assert "--known" in err


@pytest.mark.parametrize(
    "source", ["duckdb:///facts.duckdb?query=COPY facts TO 'owned.csv'", "sparql+http://127.0.0.1:9/", "a\0b", "-"]
)
def test_a_model_file_opens_no_database_and_no_server(capsys, tmp_path, monkeypatch, people, people_model, source):
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("facts.duckdb") as database:
        database.execute("CREATE TABLE facts AS SELECT 'Ann' AS subject, 'likes' AS relation, 'Bob' AS object")
    model = relatent.load(people_model)
    reading = {"columns": 3, "options": {"format": "tsv"}}
    about = {**model.about, "data": {**model.about["data"], "sources": [source], "reading": reading}}
    replace(model, R=model.relation_matrices, about=about).save(people_model)
    code, _, err = run(capsys, "update", people_model, people, "-o", people_model)
    assert code == 1
    assert "does not say what it was fitted to" in err
    assert not Path("owned.csv").exists()
    assert run(capsys, "missing", people_model, "--known", people)[0] == 0


def test_a_model_file_holds_no_url_of_its_data(capsys, tmp_path):
    with closing(sqlite3.connect(tmp_path / "facts.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE facts AS SELECT 'Ann' AS subject, 'likes' AS relation, 'Bob' AS object")
    url = f"sqlite:///{tmp_path}/facts.db?table=facts"
    assert run(capsys, "fit", url, "-o", tmp_path / "m.relatent", "--model", "als", "--rank", 1)[0] == 0
    assert b"sqlite://" not in (tmp_path / "m.relatent").read_bytes()


def test_names_that_may_be_misspelt_are_named(capsys, tmp_path):
    data, new, model = tmp_path / "d.tsv", tmp_path / "new.tsv", tmp_path / "m.relatent"
    data.write_text(
        "".join(f"p{i}\tplays genre\t{genre}\n" for i in range(20) for genre in ("Rock", "Jazz")[: 1 + i % 2])
    )
    assert run(capsys, "fit", data, "-o", model, "--model", "als", "--rank", 3)[0] == 0
    new.write_text("q\tplays genres\trock\nq\tplays genre\tJazz\n")
    code, _, err = run(capsys, "update", model, new, "--known", data, "-o", model)
    assert code == 0
    assert "new entities whose names are close to known ones: 'rock' (did you mean 'Rock'?)" in err
    assert "new relations whose names are close to known ones: 'plays genres' (did you mean 'plays genre'?)" in err
