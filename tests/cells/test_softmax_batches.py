"""Batches of facts: together they are the sum over all facts, and fits in batches are reproducible and as good."""

import numpy as np
import pytest

import relatent
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells import softmax_batches
from relatent.cells.softmax import SoftmaxSum, answer_weights
from relatent.cells.softmax_batches import BatchedSoftmaxSum
from relatent.fit.penalties import L2, N3, Dura
from small_graphs import politics, random_facts, random_parameters

FACTS = random_facts(20, 3, 90, unobserved=40, weighted=True)
BACKEND = NumpyBackend("float64")


def batches(**changes: object) -> BatchedSoftmaxSum:
    settings = {
        "batch_size": 10,
        "relation_weight": 0.7,
        "degree_weight": 0.5,
        "random_state": 3,
        "group_size": 2,
        **changes,
    }
    return BatchedSoftmaxSum(FACTS, BACKEND, **settings)  # type: ignore[arg-type]


def test_a_pass_over_the_batches_has_the_mean_of_the_sum_over_all_facts() -> None:
    parts, parameters = batches(), random_parameters(FACTS, 4)
    assert parts.n_batches == 9
    weights = answer_weights(FACTS, 0.5)
    whole = SoftmaxSum(FACTS, BACKEND, relation_weight=0.7, answer_weights=weights)(*parameters)
    sums = []
    for number in range(9, 18):
        parts.draw(number)
        sums.append(parts(*parameters))
    assert np.mean([part.value for part in sums]) == pytest.approx(whole.value)
    for name in ("dA", "dR"):
        assert np.allclose(np.mean([getattr(part, name) for part in sums], axis=0), getattr(whole, name))


@pytest.mark.parametrize("penalty", [Dura(0.3), Dura(0.3, 0.5), N3(0.2), L2(0.1, 0.2)])
def test_a_pass_over_the_batches_has_the_mean_of_the_penalty(penalty: Dura | N3 | L2) -> None:
    parts, (A, R, _) = batches(), random_parameters(FACTS, 4)
    whole_dA, whole_dR, dA, dR = np.zeros_like(A), np.zeros_like(R), np.zeros_like(A), np.zeros_like(R)
    whole = penalty.bound(FACTS, BACKEND)(A, R, whole_dA, whole_dR)
    add, values = parts.penalty(penalty), []
    for number in range(9):
        parts.draw(number)
        values.append(add(A, R, dA, dR))
    assert np.mean(values) == pytest.approx(whole)
    assert np.allclose(dA / 9, whole_dA)
    assert np.allclose(dR / 9, whole_dR)


def test_facts_of_a_row_are_in_a_batch_in_groups() -> None:
    """Fewer sums over all entities than by single facts; no group is larger than four."""
    n = 400
    facts = relatent.Facts.from_arrays(np.zeros(n, int), np.zeros(n, int), np.arange(n))
    parts = BatchedSoftmaxSum(facts, NumpyBackend(np.float64), batch_size=4, group_size=4).batches
    assert sum(len(part.facts) for part in parts) == sum(len(part.facts_by_object) for part in parts) == n
    rows = [len(part.facts) for part in parts]  # of the only subject
    assert all(size % 4 == 0 for size in rows)
    assert max(rows) < n / 10
    assert len({len(part.facts_by_object) for part in parts}) > 3  # rows of one fact each


def test_batches_of_many_entities_are_sorted_again_instead_of_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters, kept = random_parameters(FACTS, 4), batches()
    monkeypatch.setattr(softmax_batches, "MAX_KEPT_ENTITIES", 2 * FACTS.n_entities)
    parts = batches()
    for number in range(12):
        parts.draw(number)
        kept.draw(number)
        np.testing.assert_array_equal(parts(*parameters).dA, kept(*parameters).dA)
        assert len(parts._sums) <= 2


def test_each_pass_has_every_batch_once_in_an_order_of_its_own() -> None:
    parts, orders = batches(), []
    for one_pass in range(2):
        orders.append([])
        for place in range(9):
            parts.draw(9 * one_pass + place)
            orders[-1].append(parts.batch)
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(9))
    assert orders[0] != orders[1]


def test_a_fit_in_batches_is_reproducible_and_comes_to_the_objective_of_a_fit_of_all_facts() -> None:
    facts, penalty = politics(), Dura(0.02)
    common = {"penalty": penalty, "optimiser": relatent.Adam(0.03), "init": "small"}
    found = []
    for method, rounds in (("exact", 100), ("sampled", 500), ("sampled", 500)):
        loss = relatent.Softmax(batch_size=16)
        f = relatent.Rescal(8, loss=loss, method=method, max_iter=rounds, **common).fit(facts).factors_
        A, R, b = (x.astype(np.float64) for x in (f.A, f.R, f.bias))
        of_penalty = penalty.bound(facts, BACKEND)(A, R, 0 * A, 0 * R)
        found.append(SoftmaxSum(facts, BACKEND)(A, R, b).value + of_penalty)
    assert found[1] == found[2]
    assert found[1] == pytest.approx(found[0], rel=0.03)


def test_a_batch_size_that_is_no_number_is_refused() -> None:
    with pytest.raises(relatent.InputError, match="batch_size of Softmax must be a whole number"):
        relatent.Rescal(loss=relatent.Softmax(batch_size=0)).fit(FACTS)
