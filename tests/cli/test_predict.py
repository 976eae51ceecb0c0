"""`relatent predict`."""

import json

import pytest

import relatent
from commands import run


def test_predict_finds_a_training_fact(capsys, model, family):
    code, out, _ = run(capsys, "predict", model, "--subject", "Ann", "--relation", "parent", "--top", 1, "--json")
    assert code == 0
    [found] = json.loads(out)["predictions"]
    assert (found["subject"], found["relation"], found["object"]) == ("Ann", "parent", "Bob")
    assert set(found) == {"subject", "relation", "object", "score", "probability", "rank", "lift"}
    assert found["probability"] > 0.5
    facts = relatent.read(family)
    base_rate = facts.counts()[facts.relations.id("parent")] / facts.n_entities**2
    assert found["lift"] == pytest.approx(found["probability"] / base_rate)
    assert found["rank"] == 1


def test_known_facts_are_left_out_of_the_answers(capsys, model, family):
    code, out, _ = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "--known", family, "--json")
    assert code == 0
    assert "Bob" not in [found["object"] for found in json.loads(out)["predictions"]]


def test_subject_relation_and_object_can_be_predicted(capsys, model):
    for asked in ("subject", "relation", "object"):
        given = {"subject": "Ann", "relation": "parent", "object": "Bob"}
        truth = given.pop(asked)
        options = [part for name, value in given.items() for part in (f"--{name}", value)]
        _, out, _ = run(capsys, "predict", model, *options, "--json", "--top", 1)
        assert json.loads(out)["predictions"][0][asked] == truth


def test_three_given_parts_give_the_probability_of_the_fact(capsys, model, family):
    _, out, _ = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "-t", "Bob", "--json")
    [found] = json.loads(out)["predictions"]
    expected = relatent.load(model).probability("Ann", "parent", "Bob")
    assert found["probability"] == pytest.approx(float(expected))
    assert found["rank"] == 1
    _, out, _ = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "-t", "Bob", "--known", family, "--json")
    assert json.loads(out)["predictions"][0]["rank"] is None


def test_the_best_answers_are_shown_by_rank_with_lift(capsys, model, family):
    _, out, _ = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "--known", family, "--json")
    found = json.loads(out)["predictions"]
    assert [row["rank"] for row in found] == list(range(1, len(found) + 1))
    assert max(row["probability"] for row in found) < 0.5
    code, out, _ = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "--known", family)
    assert code == 0
    assert all(head in out for head in ("rank", "probability", "lift", "score"))


def test_an_entity_without_facts_of_that_kind_is_named(capsys, model, family):
    facts = relatent.read(family)
    objects = set(facts.triples[facts.triples[:, 1] == facts.relations.id("parent"), 0].tolist())
    other = next(name for i, name in enumerate(facts.entities) if i not in objects)
    _, _, err = run(capsys, "predict", model, "-s", other, "-r", "parent", "--known", family)
    assert f"note: no known fact has '{other}' as subject of 'parent'" in err
    _, _, err = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "--known", family)
    assert "no known fact has" not in err


def test_the_assumed_share_of_missing_facts_is_named(capsys, family, tmp_path):
    path = tmp_path / "m.relatent"
    for more, expected in (
        (("--calibrate", "platt"), "if the assumed share 0.1"),
        (("--missing", 0.3), "if a share 0.3"),
    ):
        code, out, _ = run(capsys, "fit", family, "-o", path, "--rank", 2, *more)
        assert code == 0
        assert expected in " ".join(out.replace("│", " ").split())
        code, _, err = run(capsys, "predict", path, "-s", "Ann", "-r", "parent")
        assert code == 0
        assert expected in err


def test_one_given_part_is_wrong_usage(capsys, model):
    code, out, err = run(capsys, "predict", model, "--subject", "Ann")
    assert (code, out) == (2, "")
    assert "give two of --subject, --relation and --object" in err


def test_an_unknown_name_is_a_one_line_error_with_a_suggestion(capsys, model):
    code, out, err = run(capsys, "predict", model, "--subject", "Anne", "--relation", "parent")
    assert (code, out) == (1, "")
    assert err == "error: unknown entity 'Anne'; did you mean 'Ann'?\n"


def test_predict_notes_that_scores_of_a_softmax_model_are_not_probabilities(capsys, family, tmp_path):
    model = tmp_path / "s.relatent"
    settings = ("--model", "rescal", "--loss", "softmax", "--l2-entities", 0.1, "--l2-relations", 0.1)
    assert run(capsys, "fit", family, "-o", model, *settings, "--no-calibrate")[0] == 0
    code, out, err = run(capsys, "predict", model, "--subject", "Ann", "--relation", "parent")
    assert code == 0
    assert "rank answers but are not probabilities" in err
    assert "probability" not in out
    _, out, _ = run(capsys, "predict", model, "--subject", "Ann", "--relation", "parent", "--json")
    assert {(row["probability"], row["lift"]) for row in json.loads(out)["predictions"]} == {(None, None)}
