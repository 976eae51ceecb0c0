import dataclasses

import numpy as np
import pytest
from new_entities import PENALTIES, listed_of, new_facts, random_factors, two_camps

import relatent
from relatent import Facts
from relatent.backend.numpy_backend import NumpyBackend
from relatent.errors import InputError
from relatent.fit.penalties import PENALTIES as REGISTRY
from relatent.model import entity_objective, links
from relatent.model import entity_regression as regression
from relatent.model.objective_description import ObjectiveTerm
from small_graphs import random_facts


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_penalty_on_one_entity_is_that_of_the_fit(penalty):
    """Its slope is the row of dA that the penalty of the fit computes, without cells of the entity with itself."""
    given, f = PENALTIES[penalty], random_factors(links.LogisticLink())
    facts = random_facts(n=12, n_relations=3, count=80, weighted=True, unobserved=20)
    facts = facts.subset(facts.triples[:, 0] != facts.triples[:, 2])
    dA, dR = np.zeros_like(f.A), np.zeros_like(f.R)
    given.bound(facts, NumpyBackend(np.dtype(np.float64)))(f.A, f.R, dA, dR)
    on_entity = regression.PenaltyOnEntity(f.relation_matrices, ObjectiveTerm.of(given, REGISTRY))
    for i, cells in enumerate(regression.cells_of_entities(facts, np.arange(12))):
        (own,) = on_entity(cells)
        np.testing.assert_allclose(own.slopes(f.A[i])[0], dA[i], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("others", [0.3, 0.0])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_slopes_of_the_objective_agree_with_differences(loss, penalty, others):
    f = dataclasses.replace(
        random_factors(links.LogisticLink(), bias=1.0),
        loss=ObjectiveTerm(loss),
        penalty=ObjectiveTerm.of(PENALTIES[penalty], REGISTRY),
    )
    facts = random_facts(n=12, n_relations=3, count=60, weighted=True, unobserved=20)
    on_entity = regression.PenaltyOnEntity(f.relation_matrices, f.penalty, f.entity_prior, 0.7)
    solve = regression.solver(f, others, on_entity)
    solve.sum_all_cells(f.A, leave_out=2)
    (cells,) = regression.cells_of_entities(facts, np.array([2]))
    a, h = np.random.default_rng(1).normal(size=3), 1e-5
    for part in (solve.loss(f.A, 2, cells), *on_entity(cells)):
        gradient, hessian = part.slopes(a)
        for direction in np.eye(3) * h:
            ahead, behind = a + direction, a - direction
            assert (part.value(ahead) - part.value(behind)) / 2 / h == pytest.approx(gradient @ direction / h, rel=1e-6)
            change = (part.slopes(ahead)[0] - part.slopes(behind)[0]) / 2 / h
            np.testing.assert_allclose(change, hessian @ direction / h, rtol=1e-5, atol=1e-6)


def test_the_influence_of_a_fact_on_least_squares_is_the_loss_of_score_without_it():
    f = random_factors(links.SmoothLink(), bias=1.0)
    rows = [("new", "likes", "e1"), ("e2", "knows", "new"), ("new", "knows", "e5"), ("e3", "likes", "new")]
    grown = f.fold_in(Facts.from_arrays(*zip(*rows, strict=True)), others=1.0, l2_entities=1.0)
    along = grown.R[1] @ grown.A[7]
    listed, pull, _ = regression.fact_influences(
        grown, 12, listed_of(grown, Facts.from_arrays(*zip(*rows, strict=True)), 12), along, 10
    )
    assert len(pull) == 4
    for role, k, partner, value in zip(*listed[:3], pull, strict=True):
        ends = ("new", grown.entities[partner])
        fact = (ends[role], grown.relations[k], ends[1 - role])
        fewer = [row for row in rows if row != fact]
        assert len(fewer) == 3
        without = f.fold_in(Facts.from_arrays(*zip(*fewer, strict=True)), others=1.0, l2_entities=1.0)
        assert value == pytest.approx((grown.A[12] - without.A[12]) @ along, rel=1e-8)


def test_the_influence_of_a_fact_on_the_likelihood_is_the_loss_of_score_if_it_is_false():
    f = random_factors(links.LogisticLink(), bias=1.0)
    facts = new_facts()
    grown = f.fold_in(facts, others=1.0, l2_entities=1.0)
    along = grown.R[1] @ grown.A[7]
    listed, pull, _ = regression.fact_influences(grown, 12, listed_of(grown, facts, 12), along, 3)
    assert len(pull) == 3
    assert pull[0] > 0
    for role, relation, partner, value in zip(*listed[:3], pull, strict=True):
        ends = ("new", grown.entities[partner])
        fewer = [row for row in facts.named() if row != (ends[role], grown.relations[relation], ends[1 - role])]
        assert len(fewer) == len(facts) - 1
        without = f.fold_in(Facts.from_arrays(*zip(*fewer, strict=True)), others=1.0, l2_entities=1.0)
        assert value == pytest.approx((grown.A[12] - without.A[12]) @ along, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_vector_follows_its_neighbour_as_the_derivative_says(loss):
    f = random_factors(links.LogisticLink(), bias=1.0)
    f = dataclasses.replace(f, loss=ObjectiveTerm(loss), penalty=ObjectiveTerm("l2", {"entities": 1.0}))
    between = [(s, k, o) for k in range(len(f.R)) for s, o in ((2, 5), (5, 2))]
    facts = Facts.from_arrays([2, 5, 2], [0, 1, 1], [5, 2, 7], n_entities=12, n_relations=len(f.R),
                              unobserved=[cell for cell in between if cell not in ((2, 0, 5), (5, 1, 2))])  # fmt: skip
    (cells,) = regression.cells_of_entities(facts, np.array([2]))
    along = np.array([1.0, -0.5, 2.0])
    found = regression.fact_influences(f, 2, cells, along, 3)
    through = found.through[found.cells.partner == 5].sum(axis=0)
    solve = regression.solver(f, 1.0, regression.PenaltyOnEntity(f.relation_matrices, f.penalty))

    def value(A):
        solve.sum_all_cells(A, leave_out=2)
        return solve(A, 2, cells) @ along

    for direction, slope in zip(np.eye(3) * 1e-5, through, strict=True):
        ahead, behind = (np.where(np.arange(12)[:, None] == 5, f.A + sign * direction, f.A) for sign in (1, -1))
        assert (value(ahead) - value(behind)) / 2e-5 == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_a_loss_with_a_quadratic_rest_agrees_near_its_origin(monkeypatch):
    f = dataclasses.replace(random_factors(links.LogisticLink(), bias=1.0), loss=ObjectiveTerm("logistic"))
    facts = random_facts(n=12, n_relations=3, count=60)
    (cells,) = regression.cells_of_entities(facts, np.array([2]))
    a, n = f.A[2].astype(np.float64), len(cells.x)
    loss = regression.solver(f, 1.0, regression.PenaltyOnEntity(f.relation_matrices, None)).loss(f.A, 2, cells)
    monkeypatch.setattr(entity_objective, "MAX_EXACT_ROWS", 10)
    near = loss.near(a, n)
    assert len(near.x) == n + 10 < len(loss.x)
    for got, wanted in zip(near.slopes(a), loss.slopes(a), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
    change = [part.value(a + 0.001) - part.value(a) for part in (near, loss)]
    assert change[0] == pytest.approx(change[1], rel=1e-4)


def test_the_cells_of_entities_are_those_of_one_pass_over_all_facts_per_entity():
    facts = random_facts(n=12, n_relations=3, count=90, unobserved=40, weighted=True)
    triples = np.concatenate([facts.triples, facts.unobserved])
    x, w = np.repeat([1.0, 0.0], [len(facts), len(facts.unobserved)]), np.append(facts.confidences, np.zeros(40))
    for i, listed in zip((3, 0, 11), regression.cells_of_entities(facts, np.array([3, 0, 11])), strict=True):
        ends = [np.flatnonzero((triples[:, a] == i) & (triples[:, b] != i)) for a, b in ((0, 2), (2, 0))]
        rows = np.concatenate(ends)
        partner = np.concatenate([triples[ends[0], 2], triples[ends[1], 0]])
        role = np.repeat([0, 1], [len(rows) for rows in ends])
        for own, wanted in zip(listed, (role, triples[rows, 1], partner, x[rows], w[rows]), strict=True):
            np.testing.assert_array_equal(own, wanted)


def test_factors_of_other_losses_are_refused():
    facts = Facts.from_arrays(*two_camps())
    f = relatent.IRM(burn_in=1, n_samples=1, chains=1).fit(facts).factors_
    with pytest.raises(InputError, match="--model als or logit; this one has a block-model loss"):
        f.fold_in(Facts.from_arrays(["new"], ["likes"], ["p0"]))
