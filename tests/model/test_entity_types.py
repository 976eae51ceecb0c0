"""Types of entities: which answers they allow, and that they survive a model file."""

import numpy as np
import pytest

import relatent
from relatent.data.names import Names
from relatent.data.type_sets import TypeSets
from relatent.data.types_in_facts import rdf_types
from relatent.errors import DataError, InputError, ModelFileError
from relatent.model.entity_types import EntityTypes

NAMES = ["Ann", "Bob", "Ulm", "Bonn", "thing"]
TYPES = {"Ann": "person", "Bob": ["person", "poet"], "Ulm": "city", "Bonn": ["city"], "elsewhere": "city"}


@pytest.fixture(scope="module")
def facts():
    rows = [("Ann", "lives", "Ulm"), ("Bob", "lives", "Ulm"), ("Ann", "knows", "Bob"), ("Bob", "knows", "Ann")]
    return relatent.Facts.from_arrays(*zip(*rows, strict=True), entity_names=NAMES, types=TYPES)


@pytest.fixture(scope="module")
def model(facts):
    return relatent.RescalALS(rank=2, l2_entities=0.1, l2_relations=0.1, max_iter=20).fit(facts).factors_


def named(mask):
    return [name for name, kept in zip(NAMES, mask, strict=True) if kept]


def test_types_that_occur_at_a_place_and_entities_without_a_type_are_allowed(facts):
    types = EntityTypes.of(facts, facts.types)
    lives = facts.relations.id("lives")
    assert named(types.allowed(lives, 0)) == ["Ann", "Bob", "thing"]
    assert named(types.allowed(lives, 2)) == ["Ulm", "Bonn", "thing"]
    with pytest.raises(InputError, match=r"place must be 0 .* got 1"):
        types.allowed(lives, 1)


def test_a_place_with_untyped_entities_only_allows_no_typed_ones():
    facts = relatent.Facts.from_arrays(["a", "b"], ["r", "r"], ["x", "y"], types={"a": "left", "b": "left"})
    types = EntityTypes.of(facts, facts.types)
    assert types.allowed(0, 2).tolist() == [False, False, True, True]


def test_a_relation_without_facts_allows_all(facts):
    names = Names(["lives", "knows", "other"], what="relation")
    wider = facts.over(facts.entities, names)
    assert EntityTypes.of(wider, wider.types).allowed(2, 0).all()
    assert EntityTypes.of(wider, wider.types).allowed(2, 2).all()


@pytest.mark.parametrize("seed", range(3))
def test_no_right_answer_of_the_training_facts_is_lost(seed):
    rng = np.random.default_rng(seed)
    s, k, o = rng.integers(40, size=200), rng.integers(5, size=200), rng.integers(40, size=200)
    facts = relatent.Facts.from_arrays(s, k, o, n_entities=40, n_relations=5)
    given = {str(i): [f"t{t}" for t in rng.choice(60, rng.integers(3), replace=False)] for i in range(40)}
    types = EntityTypes.of(facts, TypeSets.of(given, facts.entities))
    narrowed = 0
    for relation in range(5):
        rows = facts.triples[facts.triples[:, 1] == relation]
        for place in (0, 2):
            allowed = types.allowed(relation, place)
            present = {t for i in rows[:, place] for t in given[str(i)]}
            assert allowed.tolist() == [not given[str(i)] or bool(present & set(given[str(i)])) for i in range(40)]
            assert allowed[rows[:, place]].all()
            narrowed += (~allowed).sum()
    assert narrowed


def test_a_model_offers_no_answer_of_a_wrong_type(model):
    assert set(model.top(subject="Ann", relation="lives", k=9).names) == {"Bonn", "thing"}
    assert set(model.top(subject="Ann", relation="lives", k=9, known="mark").names) == {"Ulm", "Bonn", "thing"}
    untyped = model.without_types()
    assert set(untyped.top(subject="Ann", relation="lives", k=9).names) == {"Bob", "Bonn", "thing"}  # Ann is herself
    found = relatent.answers(model, subject="Ann", relation="lives", k=9)
    assert {answer.name for answer in found.answers} == {"Ulm", "Bonn", "thing"}
    ranks = [answer.rank for answer in found.answers if not answer.known]
    assert ranks == [1, 2]


def test_a_known_answer_of_another_type_is_still_listed(model):
    odd = relatent.Facts.from_arrays(["Ann"], ["lives"], ["Bob"])
    found = relatent.answers(model, odd, subject="Ann", relation="lives", k=9, treat_known="only")
    assert {answer.name for answer in found.answers} == {"Bob", "Ulm"}
    assert "Bob" in {answer.name for answer in relatent.answers(model, odd, subject="Ann", relation="lives").answers}


def test_types_survive_the_model_file(model, tmp_path):
    model.save(tmp_path / "m.relatent")
    again = relatent.load(tmp_path / "m.relatent")
    assert list(again.types.names) == ["city", "person", "poet"]
    for relation in range(2):
        for place in (0, 2):
            assert (again.types.allowed(relation, place) == model.types.allowed(relation, place)).all()


@pytest.mark.parametrize(
    ("tensor", "change", "message"),
    [
        ("entity_types", lambda ids: ids + 9, "entity_types must be rising ids below 3"),
        ("entity_types", lambda ids: ids[::-1] * 0, "entity_types must be rising ids below 3"),
        ("entity_types_offsets", lambda at: at * 2, "entity_types do not fit their offsets"),
        ("role_types_offsets", lambda at: at[:-1], "role_types_offsets is int64 of shape"),
        ("role_types", lambda ids: ids.astype(np.int64), "role_types is int64"),
        ("type_offsets", lambda at: at[:0], "a part of its types is missing"),
        ("type_names", None, "a part of its types is missing"),
    ],
)
def test_damaged_types_are_refused(model, tmp_path, monkeypatch, tensor, change, message):
    from relatent.model import stored_types

    arrays = stored_types.to_tensors(model.types)
    if change is None:
        del arrays[tensor]
    else:
        arrays[tensor] = change(arrays[tensor])
    monkeypatch.setattr(stored_types, "to_tensors", lambda types: arrays)
    model.save(tmp_path / "m.relatent")
    with pytest.raises(ModelFileError, match=message):
        relatent.load(tmp_path / "m.relatent")


def test_an_entity_that_is_folded_in_has_no_type(model):
    new = relatent.Facts.from_arrays(["Zoe"], ["knows"], ["Ann"])
    grown = model.fold_in(new)
    assert grown.types.allowed(0, 0)[-1]
    assert grown.types.allowed(0, 2)[-1]
    assert grown.types.n_entities == len(grown.entities)


def test_types_are_those_of_rdf_type_facts():
    rows = [("Ann", "rdf:type", "person"), ("Ulm", "rdf:type", "city"), ("Ann", "lives", "Ulm")]
    facts = relatent.Facts.from_arrays(*zip(*rows, strict=True))
    types = rdf_types(facts)
    assert list(types.names) == ["city", "person", "http://www.w3.org/2000/01/rdf-schema#Class"]
    assert types.n_typed == 4  # with person and city themselves, which are classes
    assert rdf_types(relatent.Facts.from_arrays(["a"], ["b"], ["c"])) is None


def test_types_follow_entities_to_another_vocabulary(facts):
    other = facts.over(Names(["Zoe", "Bob", "Ulm"]), facts.relations)
    assert other.types.members.toarray().tolist() == [[False] * 3, [False, True, True], [True, False, False]]


def test_sources_are_joined_with_their_types(facts):
    from relatent.data.facts_union import union

    more = relatent.Facts.from_arrays(["Ann"], ["knows"], ["Cid"], types={"Ann": "pilot"})
    joined = union([facts, more])
    ann = joined.types.members[[joined.entities.id("Ann")]].toarray()[0]
    assert [name for name, has in zip(joined.types.names, ann, strict=True) if has] == ["person", "pilot"]


def test_types_of_other_entities_are_refused():
    with pytest.raises(DataError, match="no type is of an entity of the facts; the first entity with a type is 'x'"):
        relatent.Facts.from_arrays(["a"], ["b"], ["c"], types={"x": "y"})
