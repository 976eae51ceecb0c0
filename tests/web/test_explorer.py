"""Answers of the explorer: entities, questions, explanations, new entities, the model and its quality."""

import dataclasses
from pathlib import Path

import pytest
from api_client import check_error, client_of, get, get_when_ready

import relatent
from relatent.analysis.known_facts import KnownFacts
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
    facts, factors = politics
    expected = [name for name in factors.top(subject="vice 2", relation="party", k=4).names if name != "vice 2"]
    answers = get(client, "ask", subject="vice 2", relation="party", top=3)["answers"]
    assert names(answers) == expected[:3]
    assert [answer["known"] for answer in answers] == [True, False, False]
    unknown = get(client, "ask", subject="vice 2", relation="party", top=3, known="omit")["answers"]
    others = factors.top("vice 2", "party", k=4, exclude=facts).names
    assert names(unknown) == [name for name in others if name != "vice 2"][:3]


@pytest.mark.parametrize("open_place", ["subject", "relation", "object"])
def test_ask_fills_any_of_the_three_places(client, open_place):
    fact = {"subject": "president 0", "relation": "vicePresident", "object": "vice 0"}
    result = get(client, "ask", **{place: name for place, name in fact.items() if place != open_place})
    assert result["open"] == open_place
    assert fact[open_place] in names(answer for answer in result["answers"] if answer["known"])


def test_a_fact_has_a_probability_and_an_explanation(client, politics):
    facts, factors = politics
    fact = get(client, "fact", **FACT)
    assert fact["probability"] == pytest.approx(float(factors.probability(*FACT.values())))
    assert fact["known"]
    explanation = get(client, "explain", **FACT)
    expected = relatent.explain(factors, *FACT.values(), known=facts)
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
    assert model["fit"]["objectives"] == factors.about["fit"]["objectives"]
    assert model["known"] == {"name": "politics", "facts": 80}
    assert model["can_explain"]
    assert model["can_fold_in"]
    assert [relation["facts"] for relation in get(client, "relations")["relations"]] == facts.counts().tolist()


def test_a_model_file_of_version_1_can_be_explored():
    factors = relatent.load(Path(__file__).parents[1] / "model" / "version1.relatent")
    with client_of(Explorer(factors)) as client:
        assert get(client, "model")["fit"]["objectives"] == factors.about.get("fit", {}).get("objectives", [])
        assert get(client, "entity", name=factors.entities[0])["sections"]


def test_quality_is_measured_on_known_facts_if_there_are_no_test_facts(client):
    result = get_when_ready(client, "quality").json()
    assert result["data"] == "known"
    assert result["quality"]["overall"]["mrr"] > 0.5
    assert {entry["relation"] for entry in result["quality"]["relations"]} == {"party", "vicePresident"}


def test_quality_is_measured_on_test_facts(politics):
    facts, factors = politics
    train, test = relatent.split(facts, test_size=0.2)
    explorer = Explorer(factors, KnownFacts(train, factors), KnownFacts(test, factors), test_name="held out")
    with client_of(explorer) as client:
        result = get_when_ready(client, "quality").json()
    assert (result["data"], result["name"]) == ("test", "held out")
    with pytest.warns(relatent.DataWarning, match="the model was fitted to 16 of the 16 test facts"):
        expected = relatent.evaluate(factors, test, known=train)
    assert result["quality"]["overall"]["mrr"] == pytest.approx(expected.mrr)


def test_without_known_facts_there_are_answers_but_no_explanations(client_without_facts):
    client = client_without_facts
    assert get(client, "ask", subject="vice 2", relation="party")["n_known"] == 0
    error = check_error(client.get("/api/explain", params=FACT), 409, "not_possible_here")
    assert error["remedy"] == "start it with --known DATA"
    only_known = {"subject": "vice 2", "relation": "party", "known": "only"}
    check_error(client.get("/api/ask", params=only_known), 409, "not_possible_here")
    check_error(client.get("/api/quality"), 409, "not_possible_here")
    assert not get(client, "model")["can_explain"]


def test_a_model_that_cannot_fold_in_refuses_new_entities_and_explanations(politics):
    facts, fitted = politics
    factors = dataclasses.replace(fitted, loss=ObjectiveTerm("block-model"), link=IdentityLink())
    with client_of(Explorer(factors, KnownFacts(facts, factors))) as client:
        body = {"name": "Eve", "facts": [{"relation": "party", "role": "subject", "partner": "Red"}]}
        check_error(client.post("/api/fold-in", json=body), 409, "not_possible_here")
        check_error(client.get("/api/explain", params=FACT), 409, "not_possible_here")
        assert get(client, "entity", name="vice 4")["sections"]


def test_an_unknown_name_is_answered_with_similar_names(client):
    error = check_error(client.get("/api/entity?name=presidnt+3"), 404, "unknown_entity")
    assert error["close"][0] == "president 3"
    assert "president 3" in error["remedy"]
