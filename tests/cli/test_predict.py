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
    assert set(found) == {"subject", "relation", "object", "score", "probability"}
    assert found["probability"] > 0.5


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


def test_three_given_parts_give_the_probability_of_the_fact(capsys, model):
    _, out, _ = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "-t", "Bob", "--json")
    [found] = json.loads(out)["predictions"]
    expected = relatent.load(model).probability("Ann", "parent", "Bob")
    assert found["probability"] == pytest.approx(float(expected))


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
    assert run(capsys, "fit", family, "-o", model, *settings)[0] == 0
    code, _, err = run(capsys, "predict", model, "--subject", "Ann", "--relation", "parent")
    assert code == 0
    assert "rank answers but are not probabilities" in err
