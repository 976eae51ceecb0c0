"""Labels in the explorer: search by either, questions by either, and labels beside names in answers."""

import pytest

import relatent
from relatent.data.result_labels import add_labels
from relatent.json_values import to_json
from relatent.web.errors import AmbiguousNameError
from relatent.web.explorer import Explorer

LABELS = {"Q1": "Ann", "Q2": "Bob", "Q3": "Ulm", "Q4": "Ulm", "P1": "lives in"}


@pytest.fixture(scope="module")
def explorer():
    rows = [("Q1", "P1", "Q3"), ("Q2", "P1", "Q4"), ("Q1", "P2", "Q2")]
    facts = relatent.Facts.from_arrays(*zip(*rows, strict=True), types={"Q1": "person", "Q2": "person", "Q3": "city"})
    facts = facts.with_labels(LABELS)
    model = relatent.RescalALS(rank=2, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_
    return Explorer(model)


def test_search_finds_names_and_labels(explorer):
    assert [match.name for match in explorer.search("ann").matches] == ["Q1"]
    assert [match.name for match in explorer.search("Q1").matches] == ["Q1"]
    assert {match.name for match in explorer.search("ulm").matches} == {"Q3", "Q4"}
    assert [match.name for match in explorer.search("lives", kind="relation").matches] == ["P1"]


def test_questions_take_labels_and_refuse_ambiguous_ones(explorer):
    assert explorer.ask(subject="Ann", relation="lives in").answers == explorer.ask(subject="Q1", relation="P1").answers
    with pytest.raises(AmbiguousNameError) as caught:
        explorer.ask(relation="lives in", object="Ulm")
    assert caught.value.message == "'Ulm' is the label of 2 names: Q3, Q4"
    assert (caught.value.status, caught.value.code, caught.value.close) == (422, "ambiguous_entity", ["Q3", "Q4"])


def test_answers_have_labels_beside_names_and_right_types_only(explorer):
    found = add_labels(to_json(explorer.ask(subject="Q1", relation="P1")), explorer.factors)
    assert {answer["name"]: answer["name_label"] for answer in found["answers"]} == {"Q3": "Ulm", "Q4": "Ulm"}
    page = add_labels(to_json(explorer.entity("Q1")), explorer.factors)
    assert page["name_label"] == "Ann"
    assert {section["relation_label"] for section in page["sections"]} == {"lives in", None}


def test_groups_of_the_map_are_types(explorer):
    explorer.map._members.wait()
    explorer.map._summaries.wait()
    assert [group.type for group in explorer.map.groups().groups] == ["person", "city"]
