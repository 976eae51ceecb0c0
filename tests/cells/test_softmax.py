import numpy as np
import pytest

import reference_sums as plain
from relatent.backend import numpy_backend as host
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells import relation_softmax
from relatent.cells.softmax import SoftmaxSum, answer_weights
from relatent.cells.sparse import by_row
from relatent.cells.sparse.by_row import RelationRows
from relatent.data.facts import Facts
from small_graphs import assert_same_sums as assert_same
from small_graphs import random_facts, random_parameters

pytestmark = pytest.mark.usefixtures("single_blas")

TOLERANCE = {"float32": 1e-4, "float64": 1e-9}


def world(n=12, k=3):
    """A tenth of the cells are facts, with weights down to 0; a fifth is unobserved."""
    return random_facts(n, k, max(1, n * n * k // 10), unobserved=n * n * k // 5, weighted=True)


def typed(parameters, dtype):
    return [array.astype(dtype) for array in parameters]


@pytest.mark.parametrize("relation_weight", [0.0, 0.7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "k", "r"), [(1, 1, 1), (2, 3, 2), (12, 3, 4), (13, 1, 5), (30, 7, 3)])
def test_rows_give_the_reference_sum(n, k, r, dtype, relation_weight):
    facts = world(n, k)
    parameters = typed(random_parameters(facts, r), dtype)
    got = SoftmaxSum(facts, NumpyBackend(dtype), relation_weight=relation_weight)(*parameters)
    assert_same(got, plain.softmax(facts, *parameters, relation_weight), TOLERANCE[dtype])


@pytest.mark.parametrize(("room", "facts_at_once"), [(1, 1), (40, 7), (10**6, 10**6)])
def test_neither_chunks_nor_blocks_change_more_than_the_rounding(monkeypatch, room, facts_at_once):
    monkeypatch.setattr(host, "MAX_SCORES", room)
    monkeypatch.setattr(relation_softmax, "MAX_NUMBERS", room)
    monkeypatch.setattr(relation_softmax, "MAX_BLOCK_FACTS", facts_at_once)
    monkeypatch.setattr(by_row, "MAX_ROW_NUMBERS", room)
    facts = world()
    parameters = random_parameters(facts, 4)
    got = SoftmaxSum(facts, NumpyBackend("float64"), relation_weight=0.5)(*parameters)
    assert_same(got, plain.softmax(facts, *parameters, 0.5), 1e-9)


def test_a_row_with_many_facts_is_summed_once():
    facts = Facts.from_arrays([0, 0, 0, 1], [0, 0, 0, 0], [1, 2, 3, 3])
    by_subject, by_object = RelationRows.of_facts(facts, NumpyBackend())
    assert by_subject.totals.ravel().tolist() == [3, 1]
    assert by_object.totals.ravel().tolist() == [1, 1, 2]


def test_rows_in_pieces_are_all_rows_once(monkeypatch):
    monkeypatch.setattr(by_row, "MAX_ROW_NUMBERS", 1)
    facts, backend = world(), NumpyBackend("float64")
    whole, pieces = RelationRows.of_facts(facts, backend), RelationRows.of_facts(facts, backend, rank=4)
    for side in whole:
        own = [piece for piece in pieces if piece.index.by_object == side.index.by_object]
        assert len(own) > 1
        assert max(len(piece.entity) for piece in own) <= facts.n_entities
        for name in ("keys", "entity", "target"):
            parts = [getattr(piece.index, name) for piece in own]
            np.testing.assert_array_equal(np.concatenate(parts), getattr(side.index, name))
        np.testing.assert_array_equal(np.concatenate([piece.totals for piece in own]), side.totals)


def test_an_unobserved_cell_does_not_compete():
    facts = Facts.from_arrays([0], [0], [1], n_entities=3, unobserved=[[0, 0, 2]])
    hidden = SoftmaxSum(facts, NumpyBackend("float64"))
    A, R, b = random_parameters(facts, 2)
    before = hidden(A, R, b)
    assert before.dR[0] @ A[2] @ A[2] != 0  # the subject's side still has entity 2 as a rival
    by_subject, by_object = RelationRows.of_facts(facts, NumpyBackend())
    assert [ids.tolist() for ids in by_subject.unobserved(facts)] == [[0], [2]]
    assert [ids.tolist() for ids in by_object.unobserved(facts)] == [[], []]


def test_without_the_value_the_gradient_is_the_same():
    facts = world()
    parameters = random_parameters(facts, 4)
    cells = SoftmaxSum(facts, NumpyBackend("float64"), relation_weight=1.0)
    with_value, without = cells(*parameters), cells(*parameters, value=False)
    assert np.isnan(without.value)
    np.testing.assert_array_equal(with_value.dA, without.dA)
    np.testing.assert_array_equal(with_value.dR, without.dR)


def test_the_bias_has_no_effect():
    facts = world()
    A, R, b = random_parameters(facts, 4)
    cells = SoftmaxSum(facts, NumpyBackend("float64"), relation_weight=1.0)
    assert cells(A, R, b).value == cells(A, R, b + 3).value
    assert not cells(A, R, b).db.any()


def test_answers_weigh_by_their_degree_and_a_fact_weighs_1_on_average():
    facts = random_facts(12, 3, 60)
    objects, subjects = answer_weights(facts, 0.9)
    degree = np.bincount(facts.triples[:, [0, 2]].ravel(), minlength=12)
    assert np.array_equal(np.argsort(objects, kind="stable"), np.argsort(degree, kind="stable"))
    assert objects[facts.triples[:, 2]].mean() == pytest.approx(1)
    assert subjects[facts.triples[:, 0]].mean() == pytest.approx(1)
    assert answer_weights(facts, 0.0) is None
    parameters = random_parameters(facts, 4)
    got = SoftmaxSum(facts, NumpyBackend("float64"), answer_weights=(objects, subjects))(*parameters)
    assert_same(got, plain.softmax(facts, *parameters, answer_weights=(objects, subjects)), 1e-9)
