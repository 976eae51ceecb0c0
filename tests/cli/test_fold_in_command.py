"""`relatent fold-in`."""

import json

import numpy as np
import pytest

import relatent
from commands import run
from relatent import Facts


def test_fold_in_writes_a_model_with_the_new_entity(capsys, tmp_path, people_model):
    new = tmp_path / "new.tsv"
    new.write_text("Eve\tborn in\tOslo\n")
    larger = tmp_path / "larger.relatent"
    code, out, err = run(capsys, "fold-in", people_model, new, "-o", larger, "--others", 0.1, "--json")
    assert code == 0, err
    assert json.loads(out) == {"model": str(larger), "folded_in": ["Eve"], "entities": 9}
    f = relatent.load(larger)
    norway, italy = f.score("Eve", "citizen of", ["Norway", "Italy"])
    assert norway - italy > np.log(3)  # of odds
    assert f.probability("Eve", "citizen of", "Norway") > f.probability("Eve", "citizen of", "Italy")
    assert ("Eve", "born in", "Oslo") in set(f.facts.named())
    again = relatent.load(people_model).fold_in(Facts.from_arrays(["Eve"], ["born in"], ["Oslo"]), others=0.1)
    np.testing.assert_array_equal(again.A, f.A)
    assert "folded in" in run(capsys, "fold-in", people_model, new, "-o", larger)[1]


def test_facts_without_new_entities_are_refused_and_nothing_is_written(capsys, tmp_path, people, people_model):
    code, out, err = run(capsys, "fold-in", people_model, people, "-o", tmp_path / "x.relatent")
    assert (code, out) == (1, "")
    assert err.startswith("error: the model knows every entity of these facts")
    assert err.count("\n") == 1
    assert not (tmp_path / "x.relatent").exists()


def test_a_known_name_that_is_misspelt_gets_a_warning(capsys, tmp_path, people_model):
    new, larger = tmp_path / "new.tsv", tmp_path / "larger.relatent"
    new.write_text("Eve\tborn in\tNorwayy\nEve\tcitizen of\tNorway\n")
    code, _, err = run(capsys, "fold-in", people_model, new, "-o", larger)
    wanted = "new entities whose names are close to known ones: "
    assert (code, err) == (0, f"warning: {wanted}'Norwayy' (did you mean 'Norway'?)\n")
    for facts in (
        "Norwayy\tborn in\tOslo\n",  # a subject
        "Eve\tborn in\tNorway 2\n",  # another number
        "Eve\tborn in\tJapan\n",
    ):
        new.write_text(f"{facts}Eve\tborn in\tOslo\n")
        assert run(capsys, "fold-in", people_model, new, "-o", larger)[::2] == (0, "")
    new.write_text("eve\tborn in\tOslo\nANN\tborn in\tOslo\n")  # a subject, but for case
    assert run(capsys, "fold-in", people_model, new, "-o", larger)[2].endswith("'ANN' (did you mean 'Ann'?)\n")
    new.write_text("Eve\tborn in\tNorwayy\n")
    named = ("--entity", "Eve", "--entity", "Norwayy")
    assert run(capsys, "fold-in", people_model, new, "-o", larger, *named)[::2] == (0, "")


@pytest.mark.parametrize("command", ["fold-in", "update"])
def test_facts_that_share_no_entity_with_the_model_are_refused(capsys, tmp_path, people_model, command):
    new = tmp_path / "new.tsv"
    new.write_text("Q1\tborn in\tQ2\nQ2\tcitizen of\tQ3\n")
    code, out, err = run(capsys, command, people_model, new, "-o", tmp_path / "x.relatent")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "the model knows no entity of the " in err
    assert "they have 'Q1', 'Q2', 'Q3'; write the names as in the data of the model, or fit a model of their own" in err


def test_facts_between_known_entities_are_not_dropped_in_silence(capsys, tmp_path, people_model):
    new, larger = tmp_path / "new.tsv", tmp_path / "larger.relatent"
    new.write_text("Eve\tborn in\tOslo\nAnn\tborn in\tOslo\nBob\tborn in\tOslo\n")
    code, _, err = run(capsys, "fold-in", people_model, new, "-o", larger)
    wanted = "note: 2 of the 3 facts are between known entities and not used; update learns from them\n"
    assert (code, err) == (0, wanted)
    new.write_text("Ann\tborn in\tOslo\n")
    code, _, err = run(capsys, "fold-in", people_model, new, "-o", larger)
    assert (code, "--entity; to learn from new facts of known entities, use update" in err) == (1, True)
