"""Samples of the cells that are not listed: they stand for all, and have those with the highest scores."""

import numpy as np
import pytest

import relatent
from relatent.model import unlisted_cells
from relatent.model.factors import Factors
from relatent.model.known_facts import KnownFacts
from relatent.model.unlisted_cells import unlisted_blocks

N, N_ROWS = 200, 40


@pytest.fixture
def world(monkeypatch):
    """200 subjects and 5 frequent objects; five subjects lack a fact of a high score, and ten others have theirs."""
    for name, value in (("MAX_CELLS", 0), ("MIN_CELLS", 0), ("MIN_ROWS", N_ROWS)):
        monkeypatch.setattr(unlisted_cells, name, value)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(1, N, N))
    listed = [(s, 0, s % 5) for s in range(20, 90)]
    for s, _, o in listed[:10]:
        theta[0, s, o] = 100.0
    lacking = rng.choice(np.arange(90, N), 5, replace=False)
    theta[0, lacking, lacking % 5] = 50.0
    theta[0, np.arange(N), np.arange(N)] = 1000.0
    facts = relatent.Facts.from_arrays(*np.array(listed).T, n_entities=N, n_relations=1)
    return Factors(np.eye(N), theta, np.zeros(1), facts.entities, facts.relations, facts=facts), lacking


def drawn(world, seed=0, own_cell=False):
    model, _ = world
    blocks = list(unlisted_blocks(model, KnownFacts(model.facts), 0, own_cell, seed))
    return [np.concatenate([getattr(block, name) for block in blocks]) for name in unlisted_cells.UnlistedBlock._fields]


def test_the_subjects_with_the_best_unlisted_cells_are_drawn_always_and_stand_for_themselves(world):
    for seed in range(5):
        theta, is_unlisted, subjects, weights = drawn(world, seed)
        assert set(world[1].tolist()) <= set(subjects.tolist())
        assert (weights[np.isin(subjects, world[1])] == 1).all()
        assert np.count_nonzero((theta == 50) & is_unlisted) == len(world[1])


def test_who_has_the_facts_of_high_scores_is_drawn_like_others(world):
    counts = np.zeros(N)
    for seed in range(40):
        _, _, subjects, weights = drawn(world, seed)
        counts[subjects[weights > 1]] += 1
    assert 0 < counts[20:30].mean() < 40
    assert 0.5 < counts[20:30].mean() / counts[30:90].mean() < 2


def test_a_sample_has_as_many_rows_as_it_should_and_they_stand_for_all(world):
    _, is_unlisted, subjects, weights = drawn(world)
    assert len(subjects) == len(set(subjects.tolist())) == N_ROWS
    assert weights.sum() == pytest.approx(N)
    wanted = N * (N - 1) - len(world[0].facts)
    assert is_unlisted.sum(axis=1) @ weights == pytest.approx(wanted, rel=0.01)


def test_subjects_of_a_wrong_type_are_not_preferred(world):
    model, lacking = world
    kinds = {name: {"thing"} if i in lacking else {"person"} for i, name in enumerate(model.entities)}
    facts = model.facts.with_types(kinds)
    types = relatent.model.entity_types.EntityTypes.of(facts, facts.types)
    typed = Factors(model.A, model.R, model.bias, facts.entities, facts.relations, facts=facts, types=types)
    _, _, subjects, weights = drawn((typed, lacking))
    assert not np.isin(subjects[weights == 1], lacking).any()
