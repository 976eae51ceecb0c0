"""`relatent update`."""

import json
import sqlite3
from contextlib import closing

import relatent
from commands import run


def test_update_writes_a_model_with_the_new_facts_over_the_old_one(capsys, tmp_path, people_model):
    new = tmp_path / "new.tsv"
    new.write_text("Eve\tborn in\tOslo\nEve\tfriend of\tAnn\n")
    code, out, err = run(capsys, "update", people_model, new, "-o", people_model, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert {name: found[name] for name in ("new_facts", "new_entities", "new_relations")} == {
        "new_facts": 2,
        "new_entities": 1,
        "new_relations": 1,
    }
    f = relatent.load(people_model)
    assert f.probability("Eve", "citizen of", "Norway") > f.probability("Eve", "citizen of", "Italy")
    assert f.calibration is not None
    assert len(f.facts) == 10
    wanted = [("Ann", "born in", "Rome"), ("Eve", "born in", "Oslo"), ("Eve", "friend of", "Ann")]
    assert set(wanted) < set(f.facts.named())


def test_update_of_a_model_without_facts_needs_them_and_leaves_them_out_again(capsys, tmp_path, people):
    path, new = tmp_path / "m.relatent", tmp_path / "new.tsv"
    new.write_text("Eve\tborn in\tOslo\n")
    relatent.RescalLogit(6, 0.02, 0.02, keep_facts=False).fit(relatent.read(people)).factors_.save(path)
    before = path.read_bytes()
    code, _, err = run(capsys, "update", path, new, "-o", path)
    assert code == 1
    wanted = "the model does not hold the facts that it was fitted to: give them, as known= or --known"
    assert err == f"error: {wanted}\n"
    assert path.read_bytes() == before
    code, out, err = run(capsys, "update", path, new, "-o", path, "--known", people, "--json")
    assert code == 0, err
    assert json.loads(out)["new_facts"] == 1
    assert relatent.load(path).facts is None


def test_every_file_is_read_by_the_options_of_the_command(capsys, tmp_path):
    data, new, model = tmp_path / "data.csv", tmp_path / "new.csv", tmp_path / "m.relatent"
    data.write_text("nr;thing;verb;person\n1;jazz;likes;Ann\n2;rock;likes;Bob\n3;bass;plays;Ann\n")
    new.write_text("nr;thing;verb;person\n1;jazz;likes;Eve\n")
    reading = ("--sep", ";", "--columns", "person,verb,thing")
    assert run(capsys, "fit", data, "-o", model, "--model", "als", "--rank", 2, *reading)[0] == 0
    code, _, err = run(capsys, "update", model, new, "-o", tmp_path / "larger.relatent")
    assert code == 1
    assert "the fourth column is no weight" in err
    code, _, err = run(capsys, "update", model, new, "-o", tmp_path / "larger.relatent", *reading)
    assert code == 0, err
    assert "Eve" in relatent.load(tmp_path / "larger.relatent").entities


def test_a_model_file_does_not_name_the_files_of_its_data(capsys, tmp_path):
    source = tmp_path / "secret-source.db"
    with closing(sqlite3.connect(source, isolation_level=None)) as database:
        database.execute("CREATE TABLE facts AS SELECT 'Ann' AS subject, 'likes' AS relation, 'Bob' AS object")
    for name in (source, f"sqlite:///{source}?table=facts"):
        assert run(capsys, "fit", name, "-o", tmp_path / "m.relatent", "--model", "als", "--rank", 1)[0] == 0
        assert b"secret-source" not in (tmp_path / "m.relatent").read_bytes()


def test_names_that_may_be_misspelt_are_named(capsys, tmp_path):
    data, new, model = tmp_path / "d.tsv", tmp_path / "new.tsv", tmp_path / "m.relatent"
    data.write_text(
        "".join(f"p{i}\tplays genre\t{genre}\n" for i in range(20) for genre in ("Rock", "Jazz")[: 1 + i % 2])
    )
    assert run(capsys, "fit", data, "-o", model, "--model", "als", "--rank", 3)[0] == 0
    new.write_text("q\tplays genres\trock\nq\tplays genre\tJazz\n")
    code, _, err = run(capsys, "update", model, new, "-o", model)
    assert code == 0
    assert "new entities whose names are close to known ones: 'rock' (did you mean 'Rock'?)" in err
    assert "new relations whose names are close to known ones: 'plays genres' (did you mean 'plays genre'?)" in err
