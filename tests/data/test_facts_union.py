import numpy as np
import pytest

from relatent.data.facts import Facts
from relatent.data.facts_union import over_one_vocabulary, union
from relatent.data.names import Names
from relatent.errors import DataError


def facts(cells, **keywords):
    return Facts.from_arrays(*zip(*cells, strict=True), **keywords)


ANN_BOB, BOB_CID, CID_ANN = ("Ann", "likes", "Bob"), ("Bob", "likes", "Cid"), ("Cid", "owes", "Ann")


def test_a_union_has_the_facts_of_all_sources_once_over_all_their_names():
    joined = union([facts([BOB_CID, ANN_BOB]), facts([CID_ANN, ANN_BOB])])
    assert sorted(joined.named()) == sorted([ANN_BOB, BOB_CID, CID_ANN])
    assert list(joined.entities) == ["Ann", "Bob", "Cid"]
    assert list(joined.relations) == ["likes", "owes"]
    assert joined.weights is None
    assert joined.times is None
    assert joined.attributes is None


def test_a_union_does_not_depend_on_the_order_of_the_sources():
    sources = [
        facts([ANN_BOB, BOB_CID], weights=[0.2, 0.9], unobserved=[CID_ANN]),
        facts([CID_ANN, ANN_BOB]),
        facts([BOB_CID], weights=[0.4], unobserved=[("Cid", "likes", "Cid")]),
    ]
    assert union(sources).fingerprint == union(sources[::-1]).fingerprint


def test_the_given_vocabulary_decides_the_ids_and_what_is_left_out():
    entities, relations = Names(["Cid", "Bob"]), Names(["likes"], what="relation")
    joined = union([facts([ANN_BOB]), facts([BOB_CID])], entities=entities, relations=relations)
    assert joined.named() == [BOB_CID]
    assert joined.entities is entities
    assert joined.triples.tolist() == [[1, 0, 0]]


def test_a_fact_keeps_its_largest_weight_and_is_certain_where_a_source_has_no_weights():
    weighted, doubtful, plain = (
        facts([ANN_BOB, BOB_CID], weights=[0.2, 3.0]),
        facts([ANN_BOB, CID_ANN], weights=[0.5, 0.1]),
        facts([BOB_CID, CID_ANN]),
    )
    assert dict(zip(union([weighted, doubtful]).named(), union([weighted, doubtful]).weights, strict=True)) == {
        ANN_BOB: 0.5,
        BOB_CID: 3.0,
        CID_ANN: 0.1,
    }
    joined = union([weighted, plain, doubtful])
    assert dict(zip(joined.named(), joined.weights, strict=True)) == {ANN_BOB: 0.5, BOB_CID: 3.0, CID_ANN: 1.0}


def test_times_add_up_and_a_source_without_times_saw_each_fact_once():
    joined = union([facts([ANN_BOB, BOB_CID], times=[2, 5]), facts([ANN_BOB], times=[4]), facts([BOB_CID, CID_ANN])])
    assert dict(zip(joined.named(), joined.times, strict=True)) == {ANN_BOB: 6, BOB_CID: 6, CID_ANN: 1}
    assert joined.weights is None


def test_a_cell_is_a_fact_if_one_source_says_so_and_else_unobserved():
    first = facts([ANN_BOB], unobserved=[BOB_CID, ("Cid", "likes", "Ann")])
    second = facts([BOB_CID], unobserved=[("Cid", "likes", "Ann"), ("Ann", "likes", "Ann")])
    joined = union([first, second])
    assert sorted(joined.named()) == [ANN_BOB, BOB_CID]
    assert sorted(joined.named(joined.unobserved)) == [("Ann", "likes", "Ann"), ("Cid", "likes", "Ann")]


def test_an_attribute_has_the_value_of_the_first_source_that_knows_it():
    first = facts([ANN_BOB], attributes=[[1.0, np.nan], [np.nan, 2.0]])
    second = facts([BOB_CID], attributes=[[5.0, 6.0], [7.0, np.nan]])
    np.testing.assert_array_equal(union([first, second]).attributes, [[1.0, np.nan], [5.0, 2.0], [7.0, np.nan]])
    np.testing.assert_array_equal(union([facts([ANN_BOB]), first]).attributes, first.attributes)


def test_different_numbers_of_attributes_are_refused():
    with pytest.raises(DataError, match=r"the sources have 1 and 2 attributes per entity, .*without_attributes\(\)$"):
        union([facts([ANN_BOB], attributes=np.ones((2, 2))), facts([ANN_BOB], attributes=np.ones((2, 1)))])


def test_a_union_of_one_source_is_that_source_and_of_none_an_error():
    only = facts([ANN_BOB], weights=[0.5])
    assert union([only], entities=only.entities, relations=only.relations) is only
    assert union([only]).named() == [ANN_BOB]
    with pytest.raises(DataError, match="pass at least one source"):
        union([])


def test_sources_without_facts_add_only_their_names():
    empty = Facts.from_arrays([], [], [], entity_names=["Zoe"], relation_names=["knows"], weights=[])
    joined = union([empty, empty])
    assert (len(joined), list(joined.entities)) == (0, ["Zoe"])
    assert union([empty, facts([ANN_BOB])]).weights.tolist() == [1.0]


def test_sources_over_one_vocabulary_stay_apart():
    first, second = over_one_vocabulary([facts([ANN_BOB]), facts([CID_ANN])])
    assert first.entities is second.entities
    assert (first.named(), second.named()) == ([ANN_BOB], [CID_ANN])
