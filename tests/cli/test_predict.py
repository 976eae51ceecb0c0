"""`relatent predict`."""

import json

import pytest

import relatent
from commands import run


def test_a_model_without_facts_finds_a_training_fact_and_says_that_it_may(capsys, model_without_facts, family):
    question = ("--subject", "Ann", "--relation", "parent", "--top", 1)
    code, out, err = run(capsys, "predict", model_without_facts, *question, "--json")
    assert code == 0
    wanted = "the model does not hold its facts, so none counts as known; name them with --known DATA"
    assert err.splitlines()[1:] == [f"note: {wanted}"]
    [found] = json.loads(out)["predictions"]
    assert (found["subject"], found["relation"], found["object"]) == ("Ann", "parent", "Bob")
    assert set(found) == {"subject", "relation", "object", "score", "probability", "rank", "lift"}
    assert found["probability"] > 0.5
    facts = relatent.read(family)
    base_rate = facts.counts()[facts.relations.id("parent")] / facts.n_entities**2
    assert found["lift"] == pytest.approx(found["probability"] / base_rate)
    assert found["rank"] == 1


def test_known_facts_are_left_out_of_the_answers(capsys, model, model_without_facts, family, tmp_path):
    further = tmp_path / "further.tsv"
    further.write_text("Ann\tparent\tCid\n")
    for arguments, answers in (
        ((model,), ["Cid"]),
        ((model, "--known", further), []),
        ((model_without_facts,), ["Bob", "Cid"]),
        ((model_without_facts, "--known", family), ["Cid"]),
        ((model_without_facts, "--known", family, "--known", further), []),
    ):
        code, out, err = run(capsys, "predict", *arguments, "-s", "Ann", "-r", "parent", "--json")
        assert code == 0
        assert [found["object"] for found in json.loads(out)["predictions"]] == answers
        assert ("does not hold its facts" in err) == (arguments == (model_without_facts,))


def test_known_facts_of_other_data_are_refused(capsys, model, tmp_path):
    (tmp_path / "other.tsv").write_text("1\tbuys\t2\n")
    code, _, err = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "--known", tmp_path / "other.tsv")
    assert (code, err.count("\n")) == (1, 1)
    assert "the model knows no relation of the known facts: it has 'likes', 'parent', they have 'buys'" in err


def test_subject_relation_and_object_can_be_predicted(capsys, model_without_facts):
    for asked in ("subject", "relation", "object"):
        given = {"subject": "Ann", "relation": "parent", "object": "Bob"}
        truth = given.pop(asked)
        options = [part for name, value in given.items() for part in (f"--{name}", value)]
        _, out, _ = run(capsys, "predict", model_without_facts, *options, "--json", "--top", 1)
        assert json.loads(out)["predictions"][0][asked] == truth


def test_three_given_parts_give_the_probability_of_the_fact(capsys, model, model_without_facts):
    for path, rank in ((model, None), (model_without_facts, 1)):  # a known fact has no rank
        _, out, err = run(capsys, "predict", path, "-s", "Ann", "-r", "parent", "-t", "Bob", "--json")
        [found] = json.loads(out)["predictions"]
        expected = relatent.load(path).probability("Ann", "parent", "Bob")
        assert found["probability"] == pytest.approx(float(expected), abs=1e-9)
        assert found["rank"] == rank
        assert ("this fact is known; its probability is what it would be if it were not" in err) == (rank is None)


def test_the_best_answers_are_shown_by_rank_with_lift(capsys, model):
    _, out, _ = run(capsys, "predict", model, "-s", "Bob", "-r", "likes", "--json")
    found, factors = json.loads(out)["predictions"], relatent.load(model)
    assert [row["rank"] for row in found] == list(range(1, len(found) + 1))
    assert max(row["probability"] for row in found) < 0.5
    rate = factors.calibration.base_rates[factors.relations.id("likes")]  # of the facts that are not listed
    assert [row["lift"] * rate for row in found] == pytest.approx([row["probability"] for row in found])
    code, out, _ = run(capsys, "predict", model, "-s", "Bob", "-r", "likes")
    assert code == 0
    assert all(head in out for head in ("rank", "probability", "lift", "score"))


def test_an_entity_without_facts_of_that_kind_is_named(capsys, model, family):
    facts = relatent.read(family)
    objects = set(facts.triples[facts.triples[:, 1] == facts.relations.id("parent"), 0].tolist())
    other = next(name for i, name in enumerate(facts.entities) if i not in objects)
    _, _, err = run(capsys, "predict", model, "-s", other, "-r", "parent")
    assert f"note: no known fact has '{other}' as subject of 'parent'" in err
    _, _, err = run(capsys, "predict", model, "-s", "Ann", "-r", "parent")
    assert "no known fact has" not in err


def test_what_the_probabilities_rest_on_is_named(capsys, model):
    note = relatent.load(model).probability_note
    assert "assumed" in note
    _, out, err = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "--json")
    assert err == f"note: {note}\n"
    assert json.loads(out)["probabilities"] == note


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
    assert "rank answers but are not probabilities; fit it with --calibrate" in err
    assert "probability" not in out
    _, out, _ = run(capsys, "predict", model, "--subject", "Ann", "--relation", "parent", "--json")
    assert {(row["probability"], row["lift"]) for row in json.loads(out)["predictions"]} == {(None, None)}
