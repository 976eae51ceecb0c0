"""Estimates over sampled cells: right on average, and exactly right where everything is drawn."""

import itertools

import numpy as np
import pytest

import reference_sums as plain
from relatent.cells import logistic_sampled
from relatent.cells.logistic_sampled import SampledLogisticSum
from relatent.data.cell_keys import cell_keys, cells_of
from relatent.data.facts import Facts
from relatent.model.entity_types import EntityTypes
from relatent.model.scores import scores
from small_graphs import random_facts, with_types

EVERYTHING = 1e9  # zeros per fact: every entity is drawn on both sides
NOTHING = np.empty(0, np.int64)


def factors(facts, rank=3, seed=0, bias=-1.0):
    rng = np.random.default_rng(seed)
    n, k = facts.n_entities, facts.n_relations
    return rng.normal(size=(n, rank)), rng.normal(size=(k, rank, rank)), rng.normal(bias, 0.3, size=k)


def masked(facts, count, seed=0):
    """Some cells, facts among them, become unobserved."""
    rng = np.random.default_rng(seed)
    cells = cells_of(rng.choice(facts.n_cells, count, replace=False), facts.n_entities)
    return facts.hold_out(np.concatenate([cells, facts.triples[:2]]), masked=True)


def weighted(facts):
    weights = np.random.default_rng(0).choice([0.3, 1.0, 2.5], len(facts))
    return Facts.from_arrays(
        *facts.triples.T, n_entities=facts.n_entities, n_relations=facts.n_relations, weights=weights
    )


def estimate(sampled, A, R, b, batch, uniforms):
    """Value and gradient as one vector."""
    sampled.draw_by(batch, uniforms, find=False)
    value, dA, dR, db = sampled(A, R, b)
    return np.concatenate([[value], dA.ravel(), dR.ravel(), db])


def exact(facts, A, R, b):
    value, dA, dR, db = plain.logistic(facts, A, R, b)
    return np.concatenate([[value], dA.ravel(), dR.ravel(), db])


def zeros_of(facts):
    """The numbers of all cells that are neither facts nor unobserved."""
    listed = np.concatenate([facts.keys, cell_keys(facts.unobserved, facts.n_entities)])
    return np.setdiff1d(np.arange(facts.n_cells), listed)


SMALL = random_facts(20, 3, 150)
WORLDS = {
    "plain": SMALL,
    "masked": masked(SMALL, 60),
    "weighted": weighted(SMALL),
    "a relation without facts": SMALL.subset(SMALL.triples[:, 1] != 1),
    "one subject has all facts": Facts.from_arrays([3] * 9, [0] * 9, range(9), n_entities=12),
}


# --- everything drawn


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-6), (np.float64, 1e-12)])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_if_every_cell_is_drawn_the_sum_is_exact(world, dtype, tolerance, n_threads):
    facts = WORLDS[world]
    A, R, b = factors(facts)
    sampled = SampledLogisticSum(facts, dtype, zeros_per_fact=EVERYTHING, n_threads=n_threads)
    found = estimate(sampled, A, R, b, 0, np.random.default_rng(0).random((2, 2, facts.n_relations)))
    expected = exact(facts, A, R, b)
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_batches_add_up_to_all_facts():
    A, R, b = factors(SMALL)
    sampled = SampledLogisticSum(SMALL, np.float64, n_batches=7, zeros_per_fact=EVERYTHING)
    uniforms = np.zeros((2, 2, 3))
    mean = np.mean([estimate(sampled, A, R, b, batch, uniforms) for batch in range(7)], axis=0)
    np.testing.assert_allclose(mean, exact(SMALL, A, R, b), rtol=1e-10, atol=1e-10)


def test_typed_zeros_are_those_between_entities_that_have_facts():
    facts = Facts.from_arrays([0, 1, 2], [0, 0, 0], [5, 5, 6], n_entities=9)
    seen = {(s, o) for s in (0, 1, 2) for o in (5, 6)}
    outside = [(s, 0, o) for s, o in itertools.product(range(9), repeat=2) if (s, o) not in seen]
    local = Facts.from_arrays(*facts.triples.T, n_entities=9, unobserved=outside)
    A, R, b = factors(facts)
    sampled = SampledLogisticSum(facts, np.float64, zeros_per_fact=EVERYTHING, typed=True)
    np.testing.assert_allclose(estimate(sampled, A, R, b, 0, np.zeros((2, 2, 1))), exact(local, A, R, b), rtol=1e-10)


def test_given_types_say_which_zeros_count():
    facts = Facts.from_arrays([0, 3, 1], [0, 0, 1], [2, 5, 6], n_entities=9, n_relations=3)
    typed = with_types(facts)
    allowed = EntityTypes.of(typed, typed.types)
    cells = itertools.product(range(9), range(3), range(9))
    outside = [(s, k, o) for s, k, o in cells if not (allowed.allowed(k, 0)[s] and allowed.allowed(k, 2)[o])]
    assert {k for _, k, _ in outside} == {0, 1}  # relation 2 has no facts
    local = Facts.from_arrays(*facts.triples.T, n_entities=9, n_relations=3, unobserved=outside)
    A, R, b = factors(facts)
    sampled = SampledLogisticSum(typed, np.float64, zeros_per_fact=EVERYTHING, typed=True)
    np.testing.assert_allclose(estimate(sampled, A, R, b, 0, np.zeros((2, 2, 3))), exact(local, A, R, b), rtol=1e-10)


# --- right on average


def pieces(sampled, side):
    """Numbers in [0, 1) that stand for all draws of one side of the only relation: (by degree, alike, probability)."""
    n_facts, n = int(sampled.n_facts), sampled.n
    steps = [(int(sampled.sizes.by_degree[side, 0]), n_facts), (int(sampled.sizes.uniform[side, 0]), n)]
    axes = []
    for m, length in steps:
        edges = {0.0, 1.0} | {t * m / length % 1 for t in range(length + 1)}
        ordered = np.array(sorted(edges))
        ordered = ordered[np.append(True, np.diff(ordered) > 1e-9)]
        axes.append(list(zip((ordered[:-1] + ordered[1:]) / 2, np.diff(ordered), strict=True)))
    return [(u, v, p * q) for (u, p), (v, q) in itertools.product(*axes)]


TINY = {
    "a hub": Facts.from_arrays([0, 0, 0, 1, 2], [0] * 5, [1, 2, 3, 3, 0], n_entities=5),
    "a chain and a loner": Facts.from_arrays([0, 1, 2, 3], [0] * 4, [1, 2, 3, 4], n_entities=6),
    "masked": Facts.from_arrays([0, 0, 4, 4], [0] * 4, [1, 2, 4, 3], n_entities=5, unobserved=[(0, 0, 3), (2, 0, 2)]),
}


@pytest.mark.parametrize("world", TINY)
@pytest.mark.parametrize("listed", [False, True])
def test_the_mean_over_all_draws_is_the_exact_gradient(world, listed):
    facts = TINY[world]
    A, R, b = factors(facts)
    sampled = SampledLogisticSum(facts, np.float64, n_batches=2, zeros_per_fact=1, n_threads=2)
    if listed:
        sampled.restore(zeros_of(facts)[::3], NOTHING)
    mean, draws = 0.0, 0
    for (u0, v0, p), (u1, v1, q) in itertools.product(pieces(sampled, 0), pieces(sampled, 1)):
        uniforms = np.array([[u0, v0], [u1, v1]])[:, :, None]
        for batch in range(2):
            mean = mean + p * q / 2 * estimate(sampled, A, R, b, batch, uniforms)
            draws += 1
    assert draws > 50, "the world is small enough for everything to be drawn at once"
    np.testing.assert_allclose(mean, exact(facts, A, R, b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("side", [0, 1])
def test_the_weight_of_an_entity_is_1_over_the_probability_that_it_is_drawn(side):
    facts = TINY["a hub"]
    sampled = SampledLogisticSum(facts, np.float64, zeros_per_fact=1)
    total = np.zeros(facts.n_entities)
    for u, v, p in pieces(sampled, side):
        uniforms = np.zeros((2, 2, 1))
        uniforms[side] = [[u], [v]]
        sampled.draw_by(0, uniforms)
        drawn = sampled.drawn[side]
        assert len(set(drawn.ids[: drawn.starts[-1]].tolist())) == drawn.starts[-1], "no entity twice"
        total[drawn.ids[: drawn.starts[-1]]] += p * drawn.weights[: drawn.starts[-1]]
    np.testing.assert_allclose(total, 1, rtol=1e-9)


@pytest.mark.parametrize(
    "facts",
    [
        random_facts(60, 2, 400, seed=1),
        masked(random_facts(80, 1, 300, seed=2), 200),
        weighted(random_facts(50, 3, 500, seed=3)),
    ],
    ids=["sparse", "masked", "weighted"],
)
def test_the_mean_of_a_thousand_draws_is_within_their_variance_of_the_gradient(facts):
    A, R, b = factors(facts, bias=-3)
    sampled = SampledLogisticSum(facts, np.float64, n_batches=2, zeros_per_fact=2)
    rng = np.random.default_rng(0)
    draws = np.array(
        [estimate(sampled, A, R, b, rng.integers(2), rng.random((2, 2, facts.n_relations))) for _ in range(1000)]
    )[:, 1:]
    error = np.sum((draws.mean(axis=0) - exact(facts, A, R, b)[1:]) ** 2)
    variance = draws.var(axis=0, ddof=1).sum()
    assert variance > 0
    assert error <= 1.5 * variance / 1000


# --- zeros that are listed


def test_if_all_zeros_are_listed_the_sum_is_exact():
    A, R, b = factors(SMALL)
    sampled = SampledLogisticSum(SMALL, np.float64, zeros_per_fact=1)
    sampled.restore(zeros_of(SMALL), NOTHING)
    found = estimate(sampled, A, R, b, 0, np.random.default_rng(0).random((2, 2, 3)))
    np.testing.assert_allclose(found, exact(SMALL, A, R, b), rtol=1e-10, atol=1e-10)
    sampled.restore(NOTHING, NOTHING)
    assert len(sampled.listed.subjects) == len(SMALL), "listed zeros can be dropped again"


def found_zeros(sampled, A, R, b, uniforms):
    sampled.draw_by(0, uniforms)
    before = sum(map(len, sampled._found))
    sampled(A, R, b)
    return np.concatenate(sampled._found)[before:]


def test_likely_zeros_are_found_and_no_other_cells():
    facts = masked(random_facts(80, 1, 300, seed=2), 100)
    A, R, _ = factors(facts)
    sampled = SampledLogisticSum(facts, np.float64, zeros_per_fact=1, n_threads=1)
    sampled.restore(zeros_of(facts)[::2], NOTHING)
    uniforms = np.random.default_rng(0).random((2, 2, 1))
    cells = found_zeros(sampled, A, R, np.full(1, 5.0), uniforms)
    assert len(cells) > 50
    assert np.isin(cells, zeros_of(facts)[1::2]).all()
    assert len(found_zeros(sampled, A, R, np.full(1, -50.0), uniforms)) == 0


def test_the_number_of_zeros_found_per_call_is_limited(monkeypatch):
    monkeypatch.setattr(logistic_sampled, "MAX_FOUND_PER_CALL", 5)
    A, R, _ = factors(SMALL)
    sampled = SampledLogisticSum(SMALL, np.float64, zeros_per_fact=0.1, n_threads=1)
    assert len(found_zeros(sampled, A, R, np.full(3, 9.0), np.zeros((2, 2, 3)))) == 5


SPARSE = random_facts(400, 2, 600, seed=1)  # 160,000 cells per relation: a call sums only some of them


def test_likely_zeros_are_listed_and_unlikely_ones_dropped(monkeypatch):
    monkeypatch.setattr(logistic_sampled, "RELIST_FRACTION", 10**9)
    A, R, _ = (part / 4 for part in factors(SPARSE))
    sampled = SampledLogisticSum(SPARSE, np.float64)
    sampled.draw(1)
    sampled(A, R, np.full(2, 2.0))
    listed, found = sampled.update(A, R, np.full(2, 2.0))
    assert len(listed) > 0
    assert len(found) == 0
    assert not SPARSE.contains(cells_of(listed, 400)).any()
    assert len(sampled.listed.subjects) == len(SPARSE) + len(listed)
    sampled.restore(listed, np.array([5]))  # something new: the list is made again
    assert len(sampled.update(A, R, np.full(2, -30.0))[0]) == 0


def test_few_found_zeros_are_kept_until_there_are_more():
    A, R, b = factors(SPARSE)
    sampled = SampledLogisticSum(SPARSE, np.float64)
    sampled.restore(NOTHING, np.array([9, 5]))
    listed, found = sampled.update(A, R, b)
    assert len(listed) == 0
    assert found.tolist() == [5, 9]


def test_no_more_zeros_are_listed_than_the_memory_estimate_allows():
    A, R, _ = factors(SPARSE)
    b = np.full(2, 3.0)
    zeros = np.setdiff1d(np.arange(5000), SPARSE.keys)
    kept = SampledLogisticSum(SPARSE, np.float64)._likely(A, R, b, zeros)
    theta = scores(A, R, b, *cells_of(zeros, 400).T)
    np.testing.assert_array_equal(kept, zeros[theta >= np.sort(theta)[-len(SPARSE)]])


def test_a_draw_is_determined_by_its_number_and_the_seed():
    A, R, b = factors(SPARSE)

    def drawn(seed, number):
        sampled = SampledLogisticSum(SPARSE, np.float64, random_state=seed)
        sampled.draw(7)
        sampled.draw(number)
        return sampled(A, R, b).value

    assert drawn(0, 3) == drawn(0, 3)
    assert len({drawn(0, 3), drawn(0, 4), drawn(1, 3)}) == 3


def test_all_facts_of_an_entity_with_very_many_are_left_out_of_the_blocks():
    n = 3000
    facts = Facts.from_arrays([0] * n, [0] * n, range(n), n_entities=n)  # subject 0 has a fact with everybody
    A, R, b = factors(facts)
    sampled = SampledLogisticSum(facts, np.float64, zeros_per_fact=0.05)
    sampled.draw_by(0, np.full((2, 2, 1), 0.3))
    rows, columns = sampled.drawn
    assert rows.ids[0] == 0
    assert 16 * (columns.starts[-1]) < n, "the list of facts is much longer than the columns"
    before = estimate(sampled, A, R, b, 0, np.full((2, 2, 1), 0.3))
    kept = SampledLogisticSum(facts, np.float64, zeros_per_fact=0.05)
    A[1:] = 0  # only subject 0's own row can score, and all its cells are facts
    found = estimate(kept, A, R, np.full(1, -40.0), 0, np.full((2, 2, 1), 0.3))
    assert before.shape == found.shape
    expected = exact(facts, A, R, np.full(1, -40.0))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)


def test_the_same_draw_gives_the_same_numbers():
    A, R, b = factors(SMALL)
    uniforms = np.random.default_rng(0).random((2, 2, 3))
    first, second = (
        estimate(SampledLogisticSum(SMALL, zeros_per_fact=1, n_threads=2), A, R, b, 0, uniforms).tolist()
        for _ in range(2)
    )
    assert first == second
