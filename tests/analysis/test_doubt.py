"""Doubtful facts: a planted error is found first, and a fact left out is scored as a refit would."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import relatent
import small_graphs
from relatent import Facts, InputError
from relatent.analysis.doubt import second_answers
from relatent.analysis.planted_errors import error_probabilities, exchanged_cells, ranks, with_planted_errors
from relatent.model.known_facts import KnownFacts
from relatent.model.leave_one_out import left_out_scores
from relatent.progress import silent


@pytest.fixture(scope="module")
def camps_with_error() -> Any:
    """Two camps, and one fact between them."""
    facts = small_graphs.two_camps()
    wrong = ("p0", "likes", "p7")
    rows = [*facts.named(), wrong]
    joined = Facts.from_arrays(*zip(*rows, strict=True))
    return joined, wrong, relatent.RescalLogit(4, 0.1, 0.1, calibrate=False).fit(joined).factors_


def test_a_fact_between_camps_is_the_most_doubtful(camps_with_error: Any) -> None:
    facts, wrong, factors = camps_with_error
    found = relatent.doubt(factors, k=3)
    first = found.doubtful[0]
    assert first[:3] == wrong
    assert first.left_out_score < first.score
    assert found.left_out
    assert found.n_facts == len(facts)
    assert [fact.doubt for fact in found.doubtful] == sorted((fact.doubt for fact in found.doubtful), reverse=True)
    assert found.to_dict()["doubtful"][0]["subject"] == "p0"
    assert found.to_pandas().loc[0, "object"] == "p7"


def test_a_second_answer_counts_against_a_fact_where_one_is_usual() -> None:
    people = [f"p{i}" for i in range(40)]
    rows = [(person, "born in", f"town{i % 5}") for i, person in enumerate(people)]
    rows += [(person, "visited", f"town{(i + j) % 5}") for i, person in enumerate(people) for j in range(3)]
    rows += [("p7", "born in", "town0")]
    facts = Facts.from_arrays(*zip(*rows, strict=True))
    same = np.zeros((facts.n_entities, 2)), np.zeros((2, 2, 2)), np.zeros(2)  # scores say nothing
    factors = relatent.Factors(*same, facts.entities, facts.relations, facts=facts)
    found = relatent.doubt(factors, k=len(facts)).doubtful
    assert {fact[:3] for fact in found[:2]} == {("p7", "born in", "town0"), ("p7", "born in", "town2")}
    assert all(fact.doubt is None for fact in found), "the model does not say how it was fitted"
    known = KnownFacts(facts)
    cells, is_no_fact = exchanged_cells(known, np.random.default_rng(0))
    against = dict(zip(facts.named(), second_answers(known, cells[is_no_fact]).tolist(), strict=True))
    assert against["p7", "born in", "town0"] < against["p8", "born in", "town3"] == 0
    assert against["p7", "visited", "town2"] == against["p8", "visited", "town3"]


def test_doubt_adds_up_to_the_expected_number_of_errors(camps_with_error: Any) -> None:
    facts, wrong, factors = camps_with_error
    for prior in (1 / len(facts), 0.02):
        found = relatent.doubt(factors, k=len(facts), prior=prior).doubtful
        assert sum(fact.doubt for fact in found) == pytest.approx(prior * len(facts), rel=0.3)
        assert found[0][:3] == wrong
        assert found[0].doubt > 10 * prior


def test_without_a_further_fit_the_list_is_the_same(camps_with_error: Any) -> None:
    _, _, factors = camps_with_error
    with_doubt, without = (relatent.doubt(factors, k=20, refit=refit).doubtful for refit in (True, False))
    assert [fact[:3] for fact in with_doubt] == [fact[:3] for fact in without]
    assert all(fact.doubt is None for fact in without)


def test_a_probability_agrees_with_the_share_of_errors_at_a_rank() -> None:
    """Evidence is normal, of errors two units larger: the probability by Bayes' rule."""
    rng, prior, n = np.random.default_rng(0), 0.05, 20_000
    is_wrong = rng.random(n) < prior
    against = rng.normal(2.0 * is_wrong)
    kept, planted = rng.normal(2.0 * (rng.random(n) < prior)), rng.normal(2.0, size=1000)
    found = error_probabilities(ranks(against, against), ranks(planted, kept), prior)
    order = np.argsort(-found)
    for group in np.array_split(order[:4000], 8):
        assert abs(found[group].sum() - is_wrong[group].sum()) < 3 * found[group].sum() ** 0.5
    right, wrong = (np.exp(-((against - mean) ** 2) / 2) for mean in (0, 2))
    wanted = prior * wrong / (prior * wrong + (1 - prior) * right)
    assert np.mean(np.abs(found - wanted)) < 0.01


def test_planted_errors_of_one_rank_count_where_they_are() -> None:
    """Of 1,000 facts, planted errors look like the first: whatever is expected to be wrong is there."""
    at = ranks(np.arange(1000.0), np.arange(1000.0))
    for prior, first in ((0.0005, 0.45), (0.002, 0.99)):
        found = error_probabilities(at, np.full(200, at[999]), prior)
        assert found[999] == found.max() > first - 1e-9
        assert found.sum() == pytest.approx(prior * 1000)


def test_errors_are_planted_where_nothing_is_known() -> None:
    facts = small_graphs.random_facts(20, 3, 200, unobserved=300, weighted=True)
    changed = with_planted_errors(facts, KnownFacts(facts), np.random.default_rng(0))
    planted = changed.triples[~facts.contains(changed.triples)]
    assert 0 < len(planted) <= 4
    assert len(changed.unobserved) == len(facts.unobserved)
    for s, k, o in planted.tolist():
        of_relation = facts.triples[facts.triples[:, 1] == k]
        assert s != o
        assert s in of_relation[:, 0]
        assert o in of_relation[:, 2]


def test_the_prior_changes_the_probabilities_but_not_the_order(camps_with_error: Any) -> None:
    _, _, factors = camps_with_error
    few, many = (relatent.doubt(factors, k=20, prior=prior).doubtful for prior in (0.001, 0.01))
    assert [fact[:3] for fact in few] == [fact[:3] for fact in many]
    assert all(low.doubt < high.doubt for low, high in zip(few, many, strict=True))


def test_left_out_scores_of_least_squares_are_those_of_two_regressions() -> None:
    facts = small_graphs.politics()
    factors = relatent.RescalALS(4, 0.5, 0.5, tol=1e-9, dtype="float64", calibrate=False).fit(facts).factors_
    A, R = factors.A, factors.R
    X = np.stack([facts.matrix(k).toarray() for k in range(len(R))])
    own, found = factors.score(*facts.triples.T), left_out_scores(factors, facts, silent)
    for s, k, o in facts.triples[::9].tolist():
        change = 0.0
        for entity, row, target in ((s, A @ R[k].T, o), (o, A @ R[k], s)):  # rows of the fact's relation and role
            V = np.concatenate([rows for r in range(len(R)) for rows in (A @ R[r].T, A @ R[r])])
            x = np.concatenate([part for r in range(len(R)) for part in (X[r][entity], X[r][:, entity])])
            w = np.ones(len(x))
            w[(2 * k + (entity == o)) * len(A) + target] = 0
            a, b = (
                np.linalg.solve(V.T @ (part[:, None] * V) + 0.5 * np.eye(4), V.T @ (part * x))
                for part in (1 + 0 * w, w)
            )
            change += float(row[target] @ (b - a))
        [position] = np.flatnonzero((facts.triples == (s, k, o)).all(axis=1))
        assert found[position] - own[position] == pytest.approx(change, rel=0.1, abs=0.01)


def test_left_out_scores_of_the_likelihood_are_lower() -> None:
    facts = small_graphs.politics()
    factors = relatent.RescalLogit(6, 0.3, 0.3, calibrate=False).fit(facts).factors_
    lost = factors.score(*facts.triples.T) - left_out_scores(factors, facts, silent)
    assert (lost > 0).all()


def test_a_model_of_another_loss_is_asked_for_its_own_scores() -> None:
    facts = small_graphs.blocks(12)
    factors = relatent.Rescal(loss="categorical", rank=3, max_iter=20, tol=1e-2, calibrate=False).fit(facts).factors_
    found = relatent.doubt(factors, k=2)
    assert not found.left_out
    assert all(fact.left_out_score == fact.score for fact in found.doubtful)


def test_facts_that_fill_every_cell_are_no_reason_to_fail() -> None:
    facts = Facts.from_arrays(["a", "b"], ["r", "r"], ["b", "a"])
    factors = relatent.RescalALS(1, 0.1, 0.1, calibrate=False).fit(facts).factors_
    assert len(relatent.doubt(factors).doubtful) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1, got 0"),
        ({"prior": 1.0}, "prior must be above 0 and below 1, got 1.0"),
        ({"known": Facts.from_arrays(["x"], ["y"], ["z"])}, "the model knows no relation of the known facts"),
    ],
)
def test_impossible_requests_are_refused(camps_with_error: Any, given: dict[str, Any], message: str) -> None:
    _, _, factors = camps_with_error
    with pytest.raises(InputError, match=message):
        relatent.doubt(factors, **given)


def test_a_model_without_its_facts_needs_them_and_then_says_the_same(camps_with_error: Any) -> None:
    facts, _, factors = camps_with_error
    without = dataclasses.replace(factors, facts=None)
    with pytest.raises(InputError, match="does not hold the facts that it was fitted to: give them, as known="):
        relatent.doubt(without)
    found, wanted = relatent.doubt(without, k=5, known=facts), relatent.doubt(factors, k=5)
    assert found.to_dict() == wanted.to_dict()
    further = Facts.from_arrays(["p1"], ["likes"], ["p8"])  # from camp to camp, as the planted error
    with_another = relatent.doubt(factors, k=2, known=further)
    assert with_another.n_facts == len(facts) + 1
    assert {fact[:3] for fact in with_another.doubtful} == {("p0", "likes", "p7"), ("p1", "likes", "p8")}
