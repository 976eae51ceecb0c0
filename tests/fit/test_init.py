import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from relatent.data.facts import Facts
from relatent.data.names import Names
from relatent.errors import InputError
from relatent.fit import init as start
from relatent.fit.losses import Logistic
from relatent.model.factors import Factors
from small_graphs import all_scores, marriages, random_facts, relative_error, two_camps


def adjacency(facts):
    S = sum(facts.matrix(k).toarray() for k in range(facts.n_relations))
    return S + S.T


@pytest.mark.parametrize("rank", [1, 5, 19, 20])
@pytest.mark.parametrize("dense", [0, 600])
def test_eigenvectors_belong_to_the_eigenvalues_of_largest_size(monkeypatch, rank, dense):
    monkeypatch.setattr(start, "MAX_DENSE_ENTITIES", dense)
    facts = random_facts(20, 2, 90)
    S = adjacency(facts)
    A = start.eigenvectors(facts, rank, random_state=0)
    assert A.shape == (20, rank)
    np.testing.assert_allclose(A.T @ A, np.eye(rank), atol=1e-8)
    values = np.sum(A * (S @ A), axis=0)
    np.testing.assert_allclose(S @ A, A * values, atol=1e-7)
    wanted = np.sort(np.abs(np.linalg.eigvalsh(S)))[::-1][:rank]
    np.testing.assert_allclose(np.abs(values), wanted, atol=1e-7)


def test_the_same_seed_gives_the_same_eigenvectors_even_where_any_would_do():
    """Three facts among 700 entities: nearly all eigenvalues are zero, and ARPACK restarts at random."""
    facts = Facts.from_arrays([0, 1, 5], [0, 0, 0], [1, 2, 5], n_entities=700)
    first = start.eigenvectors(facts, 8, random_state=0)
    start.eigenvectors(facts, 8, random_state=1)
    np.testing.assert_array_equal(start.eigenvectors(facts, 8, random_state=0), first)


def test_the_seed_chooses_among_tied_eigenvectors():
    """Within two camps of ten, 18 eigenvalues are −2: of their vectors LAPACK would return any."""
    facts = two_camps()
    first, again, other = (start.eigenvectors(facts, 4, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    S = adjacency(facts)
    for A in (first, other):
        np.testing.assert_allclose(S @ A, A * [18, 18, -2, -2], atol=1e-6)
    overlap = np.linalg.svd(first[:, 2:].T @ other[:, 2:], compute_uv=False)
    assert overlap.max() < 0.95


def families(n=320, groups=8, seed=0):
    """Facts inside groups of different sizes, some left out at random: as many eigenvalues stand out as groups."""
    rng = np.random.default_rng(seed)
    edges = np.cumsum([0, *(np.arange(groups) + 4)]) * n // (np.arange(groups) + 4).sum()
    cells = [(s, s % 2, o) for low, high in pairwise(edges) for s in range(low, high) for o in range(low, high)]
    kept = [cell for cell in cells if rng.random() < 0.7]
    return Facts.from_arrays(*zip(*kept, strict=True), n_entities=n, n_relations=2)


def test_where_entities_are_many_eigenvectors_are_close(monkeypatch):
    facts = families()
    exact = start.eigenvectors(facts, 8, random_state=0)
    monkeypatch.setattr(start, "MAX_ARPACK_ENTITIES", 0)
    rough = start.eigenvectors(facts, 8, random_state=0)
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough.T @ rough, np.eye(8), atol=1e-5)
    np.testing.assert_allclose(np.abs(np.sum(exact * rough, axis=0)), 1, atol=1e-2)


def test_where_entities_are_many_a_doubted_fact_counts_and_one_of_weight_zero_does_not(monkeypatch):
    monkeypatch.setattr(start, "MAX_ARPACK_ENTITIES", 0)
    facts = families()
    weights = np.ones(len(facts))
    weights[::3], weights[1::3] = 0, 0.5
    doubted = dataclasses.replace(facts, weights=weights)
    wanted = start.eigenvectors(facts.subset(weights > 0), 5, 0)
    np.testing.assert_array_equal(start.eigenvectors(doubted, 5, 0), wanted)


def test_where_facts_give_too_few_eigenvectors_random_ones_fill_up(monkeypatch):
    monkeypatch.setattr(start, "MAX_ARPACK_ENTITIES", 0)
    A = start.eigenvectors(Facts.from_arrays([0, 1], [0, 0], [1, 2], n_entities=300), 6, 0)
    assert np.isfinite(A).all()
    np.testing.assert_allclose(np.linalg.norm(A[:, :2], axis=0), 1, atol=1e-5)
    assert (np.linalg.norm(A, axis=0) > 0.5).all()
    assert np.linalg.matrix_rank(A) == 6


def test_a_fact_of_weight_zero_does_not_reach_the_start():
    facts = random_facts(20, 2, 90)
    weights = np.ones(90)
    weights[::3] = 0
    doubted = dataclasses.replace(facts, weights=weights)
    hidden = facts.hold_out(facts.triples[::3], masked=True)
    np.testing.assert_array_equal(start.eigenvectors(doubted, 5, 0), start.eigenvectors(hidden, 5, 0))
    biases = [Logistic().bias(*start.ones_and_zeros(one)) for one in (doubted, hidden)]
    np.testing.assert_allclose(*biases)


def test_random_starts_have_their_shapes_and_follow_the_seed():
    facts = random_facts(20, 3, 60)
    assert start.uniform(facts, 4, 0).shape == (20, 4)
    A, R = start.normal(facts, 4, 0)
    assert A.shape == (20, 4)
    assert R.shape == (3, 4, 4)
    np.testing.assert_array_equal(start.uniform(facts, 4, 0), start.uniform(facts, 4, 0))
    np.testing.assert_array_equal(start.normal(facts, 4, 7)[1], start.normal(facts, 4, 7)[1])
    assert not np.array_equal(start.uniform(facts, 4, 0), start.uniform(facts, 4, 1))


@pytest.mark.parametrize("rank", [2, 10, 50])
def test_a_normal_start_keeps_every_score_near_its_bias_at_any_rank(rank):
    A, R = start.normal(random_facts(60, 2, 60), rank, 0)
    assert np.std(all_scores(A, R)) < 3


def test_the_bias_starts_at_the_logit_of_the_share_of_true_cells():
    facts = random_facts(10, 3, 60, unobserved=50)
    n, cells = facts.counts(), facts.n_observed()
    share = (n + 0.5) / (cells + 1)
    np.testing.assert_allclose(Logistic().bias(*start.ones_and_zeros(facts)), np.log(share / (1 - share)))


def test_a_relation_that_always_or_never_holds_has_a_finite_bias():
    full = Facts.from_tensor(np.stack([np.ones((4, 4)), np.zeros((4, 4))], axis=2))
    b = Logistic().bias(*start.ones_and_zeros(full))
    assert np.isfinite(b).all()
    assert b[0] == pytest.approx(-b[1])
    assert b[0] == pytest.approx(np.log(16.5 / 0.5))


def test_centred_factors_explain_what_is_left_beside_the_mean():
    """Three directions and a mean need four; without the mean, three explain all."""
    A, R = start.normal(random_facts(30, 2, 60), 3, 0)
    means = np.array([0.3, 0.01])
    wide = np.column_stack([A, np.ones(30)])
    with_mean = np.zeros((2, 4, 4))
    with_mean[:, :3, :3], with_mean[:, 3, 3] = R, means
    B, S = start.centred(wide, with_mean, means, 3)
    assert B.shape == (30, 3)
    np.testing.assert_allclose(all_scores(B, S), all_scores(A, R), atol=1e-10)


def test_centred_factors_of_a_lower_rank_keep_the_strongest_directions():
    A = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 4)))[0]
    A -= A.mean(axis=0)  # nothing of the mean is in it
    B, S = start.centred(A, np.array([np.diag([9.0, -5.0, 1.0, 0.5])]), np.zeros(1), 2)
    np.testing.assert_allclose(all_scores(B, S), all_scores(A[:, :2], np.array([np.diag([9.0, -5.0])])), atol=0.3)


def test_a_perturbation_is_small_and_follows_the_seed():
    A = np.random.default_rng(5).normal(size=(200, 4)).astype(np.float32) * 7
    first, again, other = (start.perturbed(A, seed) for seed in (0, 0, 1))
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert relative_error(first, A) == pytest.approx(start.PERTURBATION, rel=0.1)


def test_balancing_keeps_the_products_at_the_least_penalty():
    A, R = start.normal(random_facts(12, 2, 30), 3, 0)
    A, R = A * 7, R / 3
    B, S = start.balanced(A, R, 0.5, 2.0)
    np.testing.assert_allclose(all_scores(B, S), all_scores(A, R))

    def penalty(s):
        return 0.5 * np.sum((B * s) ** 2) + 2.0 * np.sum((S / s**2) ** 2)

    assert penalty(1.0) < min(penalty(0.99), penalty(1.01), penalty(0.5), penalty(2.0))


@pytest.mark.parametrize("l2", [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_without_a_penalty_there_is_nothing_to_balance(l2):
    A, R = start.normal(random_facts(12, 2, 30), 3, 0)
    B, S = start.balanced(A, R, *l2)
    np.testing.assert_array_equal(B, A)
    np.testing.assert_array_equal(S, R)


def test_given_factors_must_be_of_the_same_world_and_rank():
    facts = marriages(6)
    factors = Factors(np.ones((6, 2)), np.ones((2, 2, 2)), np.zeros(2), facts.entities, facts.relations)
    assert start.checked_factors(factors, facts, None) is factors
    assert start.checked_factors(factors, facts, 2) is factors
    with pytest.raises(InputError, match="init: the factors have rank 2, but rank=3 was asked for"):
        start.checked_factors(factors, facts, 3)
    strangers = dataclasses.replace(factors, entities=Names([f"stranger {i}" for i in range(6)]))
    with pytest.raises(InputError, match="init: the factors' entities and relations must be those of the facts"):
        start.checked_factors(strangers, facts, None)


@pytest.mark.parametrize("good", ["float32", np.float32, np.dtype("float32")])
def test_a_float_type_may_be_named_in_three_ways(good):
    assert start.float_type(good) == np.float32


@pytest.mark.parametrize("bad", ["float16", "int32", "single precision", None, 32])
def test_other_types_are_refused(bad):
    with pytest.raises(InputError, match="dtype must be 'float32' or 'float64', got"):
        start.float_type(bad)
