"""Attributes in fits by gradients: the term, its derivative, and what it gains."""

import numpy as np
import pytest

import relatent
from attribute_graphs import customers
from relatent.backend.numpy_backend import NumpyBackend
from relatent.data.attribute_table import AttributeTable
from relatent.fit.attribute_prior import AttributePrior
from relatent.model.entity_attributes import RIDGE, AttributeFeatures

FACTS = relatent.read([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("d", "r", "e")])
TABLE = AttributeTable.of(
    {"a": {"x": 1, "y": "red"}, "b": {"x": 2}, "c": {"x": 3, "y": "red blue"}, "d": {"y": "blue"}}
)
MATRIX = np.array([[1.0, 2], [3, np.nan], [np.nan, 5], [4, 4], [np.nan, np.nan]])


def with_matrix():
    s, k, o = FACTS.triples.T
    return relatent.Facts.from_arrays(s, k, o, attributes=MATRIX)


@pytest.mark.parametrize("facts", [FACTS.with_attributes(TABLE), with_matrix()], ids=["table", "matrix"])
def test_the_term_is_the_minimum_over_w_and_its_derivative_is_right(facts):
    prior = AttributePrior(facts, 0.3, NumpyBackend(np.float64))
    X, _, has_any = AttributeFeatures.of(facts)
    assert has_any.tolist() == [True] * 4 + [False]
    A = np.random.default_rng(0).normal(size=(5, 3))
    dA = np.zeros_like(A)
    value = prior(A, dA)
    W = np.linalg.solve(X.T @ X + RIDGE * np.eye(X.shape[1]), X.T @ A)
    assert value == pytest.approx(0.3 * (((A - X @ W)[:4] ** 2).sum() + RIDGE * (W**2).sum()))
    for at in np.ndindex(A.shape):
        step = np.zeros_like(A)
        step[at] = 1e-6
        slope = (prior(A + step, dA.copy()) - prior(A - step, dA.copy())) / 2e-6
        assert slope == pytest.approx(dA[at], abs=1e-6)
    np.testing.assert_array_equal(dA[4], 0)  # nothing is known of the last entity, and that says nothing


def test_an_unobserved_value_adds_nothing():
    values = {name: {"x": i} for i, name in enumerate("abcd")}
    X = AttributeFeatures.of(FACTS.with_attributes(AttributeTable.of({**values, "e": {"other": 1}}))).X
    np.testing.assert_array_equal(X[4], 0)


@pytest.mark.filterwarnings("ignore::relatent.errors.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["logistic", "squared", relatent.Softmax()], ids=["logistic", "squared", "softmax"])
def test_attributes_work_with_every_loss_and_weight_0_leaves_them_out(loss):
    facts = FACTS.with_attributes(TABLE)
    rules = {"loss": loss, "rank": 2, "max_iter": 5, "l2_entities": 0.1, "l2_relations": 0.1}
    plain, ignored, used = (
        relatent.Rescal(**rules, attribute_weight=weight, calibrate=False).fit(given).factors_.A
        for given, weight in ((FACTS, 1.0), (facts, 0.0), (facts, 1.0))
    )
    np.testing.assert_array_equal(plain, ignored)
    assert not np.allclose(plain, used)


def test_a_negative_weight_is_refused():
    with pytest.raises(relatent.InputError, match="attribute_weight must be a finite number of at least 0, got -1"):
        relatent.RescalLogit(attribute_weight=-1, calibrate=False).fit(FACTS)


@pytest.fixture(scope="module")
def graph():
    graph = customers(11, n_users=150, n_products=60)
    facts = graph.facts
    is_cold = np.array([name in {f"user_{i}" for i in range(0, 150, 10)} for name in facts.entities])
    return facts.subset(~is_cold[facts.subjects]), facts.subset(is_cold[facts.subjects]), AttributeTable.of(graph.table)


def object_mrr(factors, test):
    ranking = relatent.evaluate(factors, test)
    return np.mean(2 / (ranking.optimistic[:, 1] + ranking.pessimistic[:, 1]))


@pytest.mark.parametrize("estimator", [relatent.RescalLogit(max_iter=40), relatent.RescalALS()], ids=["logit", "als"])
def test_entities_without_facts_are_ranked_by_their_attributes(graph, estimator):
    train, cold, table = graph
    plain, rich = (object_mrr(estimator.fit(facts).factors_, cold) for facts in (train, train.with_attributes(table)))
    assert rich > 1.5 * plain
