"""Labels of names: display, lookup by label, ambiguity, short IRIs."""

import pytest

import relatent
from relatent.data.facts_union import union
from relatent.data.labels import Labels
from relatent.data.names import Names
from relatent.errors import UnknownNameError

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def test_a_name_is_found_by_its_label():
    names = Names(["Q1", "Q2"]).with_labels({"Q1": "Ann", "Q9": "elsewhere"})
    assert names.ids(["Ann", "Q2"]).tolist() == [0, 1]
    assert names.shown(0) == "Ann"
    assert names.shown(1) == "Q2"
    assert names.label(1) is None
    assert "Ann" not in names


def test_two_names_with_one_label_stay_two():
    names = Names(["Q1", "Q2", "Q3"]).with_labels({"Q1": "Springfield", "Q2": "Springfield"})
    with pytest.raises(
        UnknownNameError, match="'Springfield' is the label of 2 entity names: Q1, Q2; give one of these"
    ):
        names.id("Springfield")
    assert [names.shown(i) for i in range(3)] == ["Springfield (Q1)", "Springfield (Q2)", "Q3"]


def test_a_name_goes_before_a_label_that_equals_it():
    names = Names(["Ann", "Q1"]).with_labels({"Q1": "Ann"})
    assert names.id("Ann") == 0
    assert names.shown(1) == "Ann (Q1)"


def test_iris_are_short_by_well_known_prefixes_and_by_those_of_the_file():
    names = Names([RDF_TYPE, "http://example.org/a/Ulm"]).with_labels(Labels((), {"ex": "http://example.org/a/"}))
    assert [names.shown(i) for i in range(2)] == ["rdf:type", "ex:Ulm"]
    assert names.ids(["rdf:type", "ex:Ulm"]).tolist() == [0, 1]
    assert Names(["http://other.org/x"]).label(0) is None


def test_a_misspelt_label_is_suggested():
    with pytest.raises(UnknownNameError, match="did you mean 'Angela'"):
        Names(["Q1", "Q2"]).with_labels({"Q1": "Angela"}).id("Angla")


def test_labels_survive_extension_union_and_the_model_file(tmp_path):
    first = relatent.Facts.from_arrays(["Q1", "Q2"], ["P1", "P1"], ["Q2", "Q3"]).with_labels(
        {"Q1": "Ann", "P1": "knows"}
    )
    second = relatent.Facts.from_arrays(["Q3"], ["P1"], ["Q4"]).with_labels({"Q4": "Dora", "Q3": "Çelik"})
    joined = union([first, second])
    assert [joined.entities.shown(i) for i in range(4)] == ["Ann", "Q2", "Çelik", "Dora"]
    assert joined.entities.extended(["Q5"]).shown(0) == "Ann"
    model = relatent.RescalALS(rank=2, l2_entities=0.1, l2_relations=0.1, max_iter=5).fit(joined).factors_
    model.save(tmp_path / "m.relatent")
    again = relatent.load(tmp_path / "m.relatent")
    assert [again.entities.shown(i) for i in range(4)] == ["Ann", "Q2", "Çelik", "Dora"]
    assert again.top(subject="Ann", relation="knows", k=1).names == model.top(subject="Q1", relation="P1", k=1).names
