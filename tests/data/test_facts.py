import numpy as np
import pytest
import scipy.sparse as sp

from relatent.data.cell_keys import cell_keys, cells_of
from relatent.data.facts import Facts
from relatent.data.names import Names
from relatent.data.split import split
from relatent.errors import DataError, UnknownNameError


@pytest.fixture
def town() -> Facts:
    """Ann, Bob and Cid: Ann and Bob know each other, Cid is Ann's child."""
    return Facts.from_arrays(
        ["Ann", "Bob", "Cid"],
        ["knows", "knows", "child_of"],
        ["Bob", "Ann", "Ann"],
        unobserved=[("Bob", "knows", "Cid")],
    )


# --- from arrays


def test_names_not_given_are_sorted(town):
    assert list(town.entities) == ["Ann", "Bob", "Cid"]
    assert list(town.relations) == ["child_of", "knows"]
    assert (len(town), town.n_entities, town.n_relations, town.n_cells) == (3, 3, 2, 18)


def test_facts_are_sorted_by_relation_subject_object(town):
    assert town.triples.tolist() == [[2, 0, 0], [0, 1, 1], [1, 1, 0]]
    assert town.triples.dtype == np.int32
    assert town.named() == [("Cid", "child_of", "Ann"), ("Ann", "knows", "Bob"), ("Bob", "knows", "Ann")]
    assert town.starts.tolist() == [0, 1, 3]
    assert town.counts().tolist() == [1, 2]


def test_ids_run_to_the_highest_id_or_to_n_entities():
    assert Facts.from_arrays([0], [0], [4]).n_entities == 5
    facts = Facts.from_arrays([0], [0], [4], n_entities=np.int64(9), n_relations=2)
    assert (facts.n_entities, facts.n_relations) == (9, 2)
    assert facts.entities[8] == "8"


def test_given_names_fix_the_order_of_ids():
    by_name = Facts.from_arrays(["b"], ["r"], ["a"], entity_names=["b", "a"])
    by_id = Facts.from_arrays([0], ["r"], [1], entity_names=["b", "a"])
    assert by_name.triples.tolist() == by_id.triples.tolist() == [[0, 0, 1]]
    assert by_name.named() == by_id.named() == [("b", "r", "a")]


def test_a_vocabulary_may_be_shared():
    names = Names(["a", "b"])
    assert Facts.from_arrays(["a"], ["r"], ["b"], entity_names=names).entities is names


def test_a_fact_given_twice_counts_once():
    assert len(Facts.from_arrays([0, 0], [0, 0], [1, 1])) == 1


def test_there_may_be_no_facts_at_all():
    facts = Facts.from_arrays([], [], [], n_entities=3, n_relations=1)
    assert len(facts) == 0
    assert facts.triples.shape == (0, 3)
    assert facts.counts().tolist() == [0]
    assert facts.symmetric.tolist() == [False]
    assert not facts.contains(np.array([[0, 0, 1]])).any()
    assert facts.matrix(0).nnz == 0


def test_the_callers_arrays_are_left_alone():
    s, k, o, w = np.array([1, 0]), np.array([0, 0]), np.array([0, 1]), np.array([2.0, 3.0])
    hidden, d = np.array([[0, 0, 0]]), np.array([[1.0], [2.0]])
    copies = [array.copy() for array in (s, k, o, w, hidden, d)]
    Facts.from_arrays(s, k, o, weights=w, unobserved=hidden, attributes=d)
    for array, copy in zip((s, k, o, w, hidden, d), copies, strict=True):
        assert array.flags.writeable
        np.testing.assert_array_equal(array, copy)


def test_facts_cannot_be_changed_afterwards(town):
    for array in (town.triples, town.unobserved):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1


@pytest.mark.parametrize(
    ("s", "k", "o", "message"),
    [
        ([0, 1], [0], [1], "must be equally long, got 2, 1 and 1"),
        ([[0]], [[0]], [[1]], r"subjects must be one-dimensional, got an array of shape \(1, 1\)"),
        ([0.0], [0], [1], "subjects must be whole numbers or names, got values of type float64"),
        ([True], [0], [1], "subjects must be whole numbers or names, got values of type bool"),
        ([b"a"], ["r"], ["b"], "subjects must be whole numbers or names, got values of type"),
        (["a", None], [0, 0], ["b", "b"], "subjects must be all ids or all names, got None at position 1"),
        (["a", 3], [0, 0], ["b", "b"], "subjects must be all ids or all names, got 3 at position 1"),
        ([2], ["r"], ["1"], "give every entity by name or every entity by id, got both; or pass entity_names"),
    ],
)
def test_columns_that_do_not_fit_are_refused(s, k, o, message):
    with pytest.raises(DataError, match=message):
        Facts.from_arrays(s, k, o)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_entities": 1}, "entity id 1 does not fit in n = 1: ids run from 0 to 0"),
        ({"entity_names": ["a", "b"], "n_entities": 3}, "entity_names has 2 names, but the number asked for is 3"),
        ({"entity_names": ["a", "a"]}, "entity names must be distinct"),
        ({"weights": [1.0, 2.0]}, r"weights must be one for each of the 1 facts, got shape \(2,\)"),
        ({"weights": [1e308]}, "weights are confidences: numbers from 0 to 1e.18, got 1e.308"),
        ({"weights": [-1.0]}, "weights are confidences: numbers from 0 to 1e.18, got -1.0"),
        ({"weights": [np.nan]}, "weights are confidences: numbers from 0 to 1e.18, got nan"),
        ({"attributes": [[1.0]]}, r"attributes must have one row for each of the 2 entities, got shape \(1, 1\)"),
        ({"attributes": [[1.0], [np.inf]]}, "attributes must be finite, or NaN where unknown"),
        ({"unobserved": [[0, 0]]}, r"unobserved must be an \(m, 3\) array of cells, got shape \(1, 2\)"),
        ({"unobserved": [[0, 0, 1]]}, r"a cell cannot be both a fact and unobserved, got 0 \| 0 \| 1"),
        ({"n_entities": 2**32}, "more than 32-bit ids"),
    ],
)
def test_keywords_that_do_not_fit_are_refused(keywords, message):
    with pytest.raises(DataError, match=message):
        Facts.from_arrays([0], [0], [1], **keywords)


def test_n_entities_must_equal_the_number_of_names_found():
    with pytest.raises(DataError, match="found 2 distinct entity names, expected 3; pass entity_names"):
        Facts.from_arrays(["a"], ["r"], ["b"], n_entities=3)


def test_a_negative_id_is_refused():
    with pytest.raises(UnknownNameError, match="unknown entity id -1"):
        Facts.from_arrays([-1], [0], [1])


def test_a_name_outside_the_given_vocabulary_is_refused():
    with pytest.raises(UnknownNameError, match="unknown entity 'Anne'; did you mean 'Ann'"):
        Facts.from_arrays(["Anne"], ["r"], ["Bob"], entity_names=["Ann", "Bob"])


def test_weights_follow_their_facts_when_these_are_sorted():
    facts = Facts.from_arrays([1, 0], [0, 0], [0, 1], weights=[2.0, 3.0])
    assert facts.triples[:, 0].tolist() == [0, 1]
    assert facts.weights.tolist() == [3.0, 2.0]


def test_a_fact_given_twice_with_one_weight_counts_once_and_with_two_is_refused():
    assert Facts.from_arrays([0, 0], [0, 0], [1, 1], weights=[2, 2]).weights.tolist() == [2.0]
    message = "a fact is given twice with different weights, 3.0 at position 1 and 2.0 at position 0; keep one of them"
    with pytest.raises(DataError, match=message):
        Facts.from_arrays([0, 0], [0, 0], [1, 1], weights=[2, 3])


def test_unobserved_cells_come_by_name_by_id_or_in_three_arrays(town):
    assert town.named(town.unobserved) == [("Bob", "knows", "Cid")]
    by_id = Facts.from_arrays([0], [0], [1], unobserved=np.array([[1, 0, 0], [1, 0, 0]]))
    in_three = Facts.from_arrays([0], [0], [1], unobserved=([1], [0], [0]))
    assert by_id.unobserved.tolist() == in_three.unobserved.tolist() == [[1, 0, 0]]


def test_names_of_unobserved_cells_are_in_the_vocabulary():
    assert Facts.from_arrays(["a"], ["r"], ["b"], unobserved=[("a", "q", "c")]).entities == ["a", "b", "c"]


# --- from a tensor


def test_a_dense_tensor_gives_its_ones_as_facts_and_its_nans_as_unobserved():
    x = np.zeros((3, 3, 2))
    x[0, 1, 0] = x[2, 0, 1] = 1
    x[1, 1, 1] = np.nan
    before = x.copy()
    facts = Facts.from_tensor(x, entity_names=["a", "b", "c"], relation_names=["p", "q"])
    assert facts.named() == [("a", "p", "b"), ("c", "q", "a")]
    assert facts.named(facts.unobserved) == [("b", "q", "b")]
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float64])
def test_a_tensor_may_have_any_numeric_type(dtype):
    x = np.eye(2)[:, :, None].astype(dtype)
    assert Facts.from_tensor(x).triples.tolist() == [[0, 0, 0], [1, 0, 1]]


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.lil_matrix, sp.csr_array])
def test_sparse_slices_give_the_same_facts_as_the_dense_tensor(kind):
    x = (np.random.default_rng(0).random((5, 5, 3)) < 0.3).astype(float)
    x[2, 3, 1] = np.nan
    slices = [kind(x[:, :, k]) for k in range(3)]
    dense, sparse = Facts.from_tensor(x), Facts.from_tensor(slices)
    np.testing.assert_array_equal(dense.triples, sparse.triples)
    np.testing.assert_array_equal(dense.unobserved, sparse.unobserved)
    assert all(isinstance(matrix, kind) for matrix in slices)


def test_a_stored_zero_is_not_a_fact():
    stored = sp.csr_matrix((np.array([0.0, 1.0]), (np.array([0, 1]), np.array([1, 0]))), shape=(2, 2))
    assert Facts.from_tensor([stored]).triples.tolist() == [[1, 0, 0]]


def test_a_cell_stored_twice_is_the_sum_of_both():
    twice = sp.csr_matrix((np.array([1.0, 1.0]), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 2))
    with pytest.raises(DataError, match=r"got 2.0 at \[0, 1, 0\]"):
        Facts.from_tensor([twice])
    assert twice.nnz == 2


@pytest.mark.parametrize("value", [2, 0.5, -1, np.inf])
def test_a_tensor_with_another_value_is_refused_with_its_index(value):
    x = np.zeros((3, 3, 2))
    x[1, 2, 0] = value
    with pytest.raises(
        DataError, match=rf"a tensor holds 0, 1 and NaN \(unobserved\), got {float(value)} at \[1, 2, 0\]"
    ):
        Facts.from_tensor(x)
    with pytest.raises(DataError, match=rf"got {float(value)} at \[1, 2, 0\]"):
        Facts.from_tensor([sp.csr_matrix(x[:, :, k]) for k in range(2)])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 3)), r"a tensor must have shape \(N, N, K\), got \(3, 3\)"),
        (np.zeros((3, 2, 1)), r"a tensor must have shape \(N, N, K\), got \(3, 2, 1\)"),
        (np.full((2, 2, 1), "x"), "a tensor must hold numbers, got values of type"),
        (
            [sp.csr_matrix((2, 2)), sp.csr_matrix((3, 3))],
            r"slice 1 must be a sparse 2 × 2 matrix, got csr_matrix \(3, 3\)",
        ),
        ([sp.csr_matrix((2, 2)), np.zeros((2, 2))], r"slice 1 must be a sparse 2 × 2 matrix, got ndarray \(2, 2\)"),
        ([[[0, 1], [0, 0]], sp.csr_matrix((2, 2))], "slice 0 must be a sparse 2 × 2 matrix, got list"),
        ([sp.csr_matrix((2, 3))], r"slice 0 must be a sparse 2 × 2 matrix, got csr_matrix \(2, 3\)"),
        ([sp.csr_matrix((2, 2), dtype=complex)], "slice 0 must hold numbers, got values of type complex128"),
        ([], r"a tensor must have shape \(N, N, K\), got \(0,\)"),
    ],
)
def test_a_tensor_of_another_form_is_refused(x, message):
    with pytest.raises(DataError, match=message):
        Facts.from_tensor(x)


def test_attributes_come_dense_or_sparse_with_nan_for_unknown():
    d = np.array([[1.0, np.nan], [0.0, 2.0]])
    dense = Facts.from_arrays([0], [0], [1], attributes=d)
    sparse = Facts.from_arrays([0], [0], [1], attributes=sp.csr_matrix(d))
    np.testing.assert_array_equal(dense.attributes, d)
    np.testing.assert_array_equal(sparse.attributes, d)
    assert dense.without_attributes().attributes is None


# --- what is in it


def test_the_matrices_are_the_slices_of_the_tensor(town):
    x = np.stack([town.matrix(k).toarray() for k in range(2)], axis=2)
    assert Facts.from_tensor(x).triples.tolist() == town.triples.tolist()
    assert town.matrix(0, np.float32).dtype == np.float32


def test_contains_and_is_unobserved_look_cells_up(town):
    cells = np.array([[0, 1, 1], [1, 1, 2], [2, 1, 2]])
    assert town.contains(cells).tolist() == [True, False, False]
    assert town.is_unobserved(cells).tolist() == [False, True, False]
    assert town.n_observed().tolist() == [9, 8]


def test_cell_keys_convert_to_cells_and_back(town):
    np.testing.assert_array_equal(cells_of(cell_keys(town.triples, 3), 3), town.triples)
    np.testing.assert_array_equal(cell_keys(town.triples, 3), town.keys)
    assert (np.diff(town.keys) > 0).all()


def test_a_relation_is_symmetric_if_all_its_facts_go_both_ways():
    facts = Facts.from_arrays(
        ["a", "b", "a", "a", "a", "b"],
        ["both", "both", "one", "both", "self", "self"],
        ["b", "a", "b", "a", "a", "b"],
    )
    assert dict(zip(facts.relations, facts.symmetric.tolist(), strict=True)) == {
        "both": True,
        "one": False,
        "self": False,
    }


def test_a_fingerprint_tells_facts_weights_and_unobserved_cells_apart(town):
    variants = [
        town,
        town.hold_out(town.triples[:1], masked=True),
        town.hold_out(town.triples[:1], masked=False),
        Facts.from_ids(town.triples, town.entities, town.relations),
        Facts.from_ids(town.triples, town.entities, town.relations, weights=[1, 2, 3]),
        Facts.from_ids(town.triples, town.entities, town.relations, attributes=np.ones((3, 1))),
    ]
    assert len({facts.fingerprint for facts in variants}) == len(variants)
    again = Facts.from_ids(town.triples[::-1], town.entities, town.relations, unobserved=town.unobserved)
    assert again.fingerprint == town.fingerprint


def test_the_repr_lists_sizes_and_extras(town):
    assert repr(town) == "Facts(3 facts, 3 entities, 2 relations, 1 unobserved cells)"
    weighted = Facts.from_arrays([0], [0], [1], weights=[2], attributes=np.ones((2, 4)))
    assert repr(weighted) == "Facts(1 facts, 2 entities, 1 relations, weighted, 4 attributes)"


# --- holding out


def test_held_out_cells_become_unobserved_if_masked(town):
    cells = np.array([[0, 1, 1], [2, 1, 2]])  # a fact and a zero
    rest = town.hold_out(cells, masked=True)
    assert rest.named() == [("Cid", "child_of", "Ann"), ("Bob", "knows", "Ann")]
    assert rest.unobserved.tolist() == [[0, 1, 1], [1, 1, 2], [2, 1, 2]]
    assert len(town) == 3


def test_held_out_cells_become_false_if_not_masked(town):
    rest = town.hold_out(np.array([[0, 1, 1], [2, 1, 2]]), masked=False)
    assert len(rest) == 2
    assert rest.unobserved.tolist() == town.unobserved.tolist()


def test_holding_out_keeps_the_weights_of_the_other_facts():
    facts = Facts.from_arrays([0, 1, 2], [0, 0, 0], [1, 2, 0], weights=[1, 2, 3])
    assert facts.hold_out(facts.triples[1:2], masked=True).weights.tolist() == [1, 3]


def test_holding_out_nothing_changes_nothing(town):
    rest = town.hold_out(np.empty((0, 3), int), masked=True)
    assert rest.fingerprint == town.fingerprint


# --- counts


def test_facts_seen_several_times_are_added_up_and_kept_with_the_facts():
    facts = Facts.from_arrays([0, 1, 0], [0, 0, 0], [1, 2, 1], times=[2, 5, 1])
    assert facts.times.tolist() == [3, 5]
    assert "counted" in repr(facts)
    assert facts.hold_out(facts.triples[:1], masked=True).times.tolist() == [5]
    train, test = split(facts, test_size=1, random_state=0)
    assert sorted([*train.times, *test.times]) == [3, 5]


def test_counts_are_part_of_the_fingerprint():
    one, two = (Facts.from_arrays([0], [0], [1], times=times) for times in ([1], [2]))
    assert len({one.fingerprint, two.fingerprint, Facts.from_arrays([0], [0], [1]).fingerprint}) == 3


@pytest.mark.parametrize(("times", "message"), [([0], "got 0"), ([1.5], "got 1.5"), ([np.nan], "got nan")])
def test_times_are_whole_numbers(times, message):
    with pytest.raises(DataError, match=f"times count how often a fact was seen: .* {message}"):
        Facts.from_arrays([0], [0], [1], times=times)


def test_times_are_one_for_each_fact():
    with pytest.raises(DataError, match=r"times must be one for each of the 1 facts, got shape \(2,\)"):
        Facts.from_arrays([0], [0], [1], times=[1, 2])


def test_over_translates_facts_to_another_vocabulary():
    facts = Facts.from_arrays(
        ["Ann", "Bob", "Cid"],
        ["likes", "likes", "owes"],
        ["Bob", "Cid", "Ann"],
        weights=[0.5, 2.0, 1.0],
        unobserved=[("Bob", "owes", "Ann"), ("Cid", "likes", "Bob")],
    )
    there = facts.over(Names(["Zoe", "Bob", "Ann"]), Names(["owes", "likes"], what="relation"))
    assert there.named() == [("Ann", "likes", "Bob")]  # Cid is not known there
    assert there.triples.tolist() == [[2, 1, 1]]
    assert there.weights.tolist() == [0.5]
    assert there.named(there.unobserved) == [("Bob", "owes", "Ann")]
    assert there.over(there.entities, there.relations) is there


def test_attributes_follow_their_entities_to_another_vocabulary():
    facts = Facts.from_arrays(["Ann"], ["likes"], ["Bob"], attributes=[[1.0, np.nan], [2.0, 3.0]])
    moved = facts.over(Names(["Zoe", "Bob", "Ann"]), facts.relations)
    np.testing.assert_array_equal(moved.attributes, [[np.nan, np.nan], [2.0, 3.0], [1.0, np.nan]])
    without_ann = facts.over(Names(["Bob"]), facts.relations)
    np.testing.assert_array_equal(without_ann.attributes, [[2.0, 3.0]])
