"""Answers of the explorer: entities, questions, explanations, new entities, the model and its quality."""

import dataclasses
from urllib.parse import urlencode

import pytest
from api_client import check_error, client_of, get, get_when_ready

import relatent
from relatent.model.links import IdentityLink
from relatent.model.objective_description import ObjectiveTerm
from relatent.web.explorer import Explorer

FACT = {"subject": "vice 4", "relation": "party", "object": "Blue"}


def names(entries):
    return [entry["name"] for entry in entries]


def section_of(page, relation, role):
    return next(section for section in page["sections"] if (section["relation"], section["role"]) == (relation, role))


def test_search_finds_names_by_a_part(client):
    matches = get(client, "search", q="PRESIDENT 1", top=3)["matches"]
    assert names(matches) == ["president 1", "president 10", "president 11"]
    assert matches[0]["facts"] == 3
    assert names(get(client, "search", q="par", kind="relation")["matches"]) == ["party"]


def test_an_entity_has_known_facts_and_predictions(client):
    page = get(client, "entity", name="president 3")
    party = section_of(page, "party", "subject")
    assert names(party["known"]) == ["Red"]
    assert "Red" not in names(party["predicted"])
    assert page["facts"] == 3
    assert page["n_sections"] == 4


def test_ask_answers_as_the_library_does(client, politics):
    factors = politics[1]
    for known, is_known in (("mark", [True, False, False]), ("omit", [False] * 3), ("only", [True])):
        answers = get(client, "ask", subject="vice 2", relation="party", top=3, known=known)["answers"]
        expected = factors.top(subject="vice 2", relation="party", k=3, known=known)
        assert names(answers) == expected.names
        assert "vice 2" not in expected.names
        assert [answer["probability"] for answer in answers] == expected.probabilities.tolist()
        assert [answer["known"] for answer in answers] == is_known


@pytest.mark.parametrize("open_place", ["subject", "relation", "object"])
def test_ask_fills_any_of_the_three_places(client, open_place):
    fact = {"subject": "president 0", "relation": "vicePresident", "object": "vice 0"}
    result = get(client, "ask", **{place: name for place, name in fact.items() if place != open_place})
    assert result["open"] == open_place
    assert fact[open_place] in names(answer for answer in result["answers"] if answer["known"])


def test_a_fact_has_a_probability_and_an_explanation(client, politics):
    factors = politics[1]
    fact = get(client, "fact", **FACT)
    assert fact["probability"] == pytest.approx(float(factors.probability(*FACT.values())))
    assert fact["known"]
    explanation = get(client, "explain", **FACT)
    expected = relatent.explain(factors, *FACT.values())
    assert explanation["sentence"] == expected.sentence
    influences = [reason["influence"] for reason in explanation["reasons"]]
    assert influences == pytest.approx([reason.influence for reason in expected.reasons])


def test_similar_entities_are_those_of_the_library(client, politics):
    found = get(client, "similar", name="president 3", top=4)["similar"]
    expected = relatent.similar(politics[1], "president 3", 4)
    assert [entry["similarity"] for entry in found] == pytest.approx([e.similarity for e in expected], abs=1e-5)


def test_a_new_entity_gets_predictions_and_is_not_stored(client, politics):
    body = {"name": "Eve", "facts": [{"relation": "vicePresident", "role": "object", "partner": "president 1"}]}
    for _ in range(2):
        response = client.post("/api/fold-in", json=body)
        assert response.status_code == 200, response.text
        page = response.json()
        assert section_of(page, "party", "subject")["predicted"][0]["name"] == "Red"
        assert len(page["similar"]) == 10
        for section in page["sections"]:
            assert len(section["predicted"]) == 5
            assert "Eve" not in names(section["predicted"])
        check_error(client.get("/api/entity", params={"name": "Eve"}), 404, "unknown_entity")
    assert len(politics[1].entities) == 42


def test_the_model_is_described(client, politics):
    facts, factors = politics
    model = get(client, "model")
    assert model["kind"] == "RescalLogit"
    assert model["sizes"]["entities"] == 42
    assert model["fit"]["objectives"] == list(factors.about.fit.objectives)
    assert model["known"] == {"name": "the model", "facts": 80}
    assert model["can_explain"]
    assert model["can_fold_in"]
    assert [relation["facts"] for relation in get(client, "relations")["relations"]] == facts.counts().tolist()


def test_quality_is_measured_on_known_facts_if_there_are_no_test_facts(client):
    result = get_when_ready(client, "quality").json()
    assert result["data"] == "known"
    assert result["quality"]["overall"]["mrr"] > 0.5
    assert {entry["relation"] for entry in result["quality"]["relations"]} == {"party", "vicePresident"}


def test_quality_is_measured_on_test_facts(politics):
    facts, factors = politics
    _, test = relatent.split(facts, test_size=0.2)
    with client_of(Explorer(factors, test=test, test_name="held out")) as client:
        result = get_when_ready(client, "quality").json()
    assert (result["data"], result["name"]) == ("test", "held out")
    with pytest.warns(relatent.DataWarning, match="the model was fitted to 16 of the 16 test facts"):
        expected = relatent.evaluate(factors, test)
    assert result["quality"]["overall"]["mrr"] == pytest.approx(expected.mrr)


def test_without_known_facts_there_are_answers_but_no_explanations(client_without_facts):
    client = client_without_facts
    assert get(client, "ask", subject="vice 2", relation="party")["n_known"] == 0
    error = check_error(client.get("/api/explain", params=FACT), 409, "not_possible_here")
    assert (error["message"], error["remedy"]) == (
        "the model does not hold its facts, so there is nothing to explain by",
        "start the server with --known DATA",
    )
    only_known = {"subject": "vice 2", "relation": "party", "known": "only"}
    check_error(client.get("/api/ask", params=only_known), 409, "not_possible_here")
    for path in ("missing", "duplicates"):
        error = check_error(client.get(f"/api/{path}"), 409, "not_possible_here")
        assert error["remedy"] == "start the server with --known DATA"
    error = check_error(client.get("/api/quality"), 409, "not_possible_here")
    assert error["remedy"] == "start it with --test DATA"
    model = get(client, "model")
    assert not model["can_explain"]
    assert model["known"] is None


def test_facts_that_the_model_does_not_hold_can_be_given(client, politics):
    facts, factors = politics
    without = dataclasses.replace(factors, facts=None)
    with client_of(Explorer(without, facts, known_name="politics")) as given:
        assert get(given, "model")["known"] == {"name": "politics", "facts": 80}
        for path in ("ask?subject=vice+2&relation=party", "entity?name=president+3", "fact?" + urlencode(FACT)):
            assert get(given, path) == get(client, path)


def test_further_known_facts_are_known_beside_those_of_the_model(politics):
    further = relatent.Facts.from_arrays(["vice 2"], ["party"], ["Red"])
    with client_of(Explorer(politics[1], further, known_name="the model, more.csv")) as client:
        assert get(client, "model")["known"] == {"name": "the model, more.csv", "facts": 81}
        answers = get(client, "ask", subject="vice 2", relation="party", top=50)["answers"]
        assert [answer["name"] for answer in answers if answer["known"]] == ["Blue", "Red"]
        missing = get_when_ready(client, "missing", count=1000).json()["missing"]
        assert ("vice 2", "party", "Red") not in {(row["subject"], row["relation"], row["object"]) for row in missing}
        body = {"name": "Eve", "facts": [{"relation": "vicePresident", "role": "object", "partner": "president 1"}]}
        assert client.post("/api/fold-in", json=body).status_code == 200


def test_facts_of_other_data_are_refused(politics):
    other = relatent.Facts.from_arrays(["Ann"], ["likes"], ["Bob"])
    for given, what in (({"known": other}, "known facts"), ({"test": other}, "test facts")):
        with pytest.raises(relatent.InputError, match=f"the model knows no relation of the {what}: it has 'party'"):
            Explorer(politics[1], **given)


def test_a_model_that_cannot_fold_in_refuses_new_entities_and_explanations(politics):
    factors = dataclasses.replace(politics[1], loss=ObjectiveTerm("block-model"), link=IdentityLink())
    with client_of(Explorer(factors)) as client:
        body = {"name": "Eve", "facts": [{"relation": "party", "role": "subject", "partner": "Red"}]}
        check_error(client.post("/api/fold-in", json=body), 409, "not_possible_here")
        check_error(client.get("/api/explain", params=FACT), 409, "not_possible_here")
        assert get(client, "entity", name="vice 4")["sections"]


def test_an_unknown_name_is_answered_with_similar_names(client):
    error = check_error(client.get("/api/entity?name=presidnt+3"), 404, "unknown_entity")
    assert error["close"][0] == "president 3"
    assert "president 3" in error["remedy"]
