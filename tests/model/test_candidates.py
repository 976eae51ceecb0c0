"""The answers of a model are those of plain loops over all cells (`plain_answers`)."""

from __future__ import annotations

import numpy as np
import pytest
from plain_answers import RELATIONS, PlainAnswers, random_world
from scipy.special import expit

from relatent.model import candidates as module
from relatent.model.candidates import MARK, OMIT, ONLY, OPEN, Candidates
from relatent.model.known_facts import KnownFacts
from relatent.model.structure import COMPLEX, SYMMETRIC

N = 12
WORLDS = {
    "plain": {},
    "typed": {"typed": True},
    "unobserved": {"n_unobserved": 60},
    "typed, unobserved": {"typed": True, "n_unobserved": 60},
    "lines that do not always rise": {"flat": True},
    "exclusive": {"exclusive": True},
    "complex": {"structure": COMPLEX},
    "symmetric": {"structure": SYMMETRIC},
    "rules, with many equal scores": {"by_rules": True},
    "single precision": {"dtype": np.float32},
    "not calibrated": {"calibrated": False},
    "not calibrated, typed": {"calibrated": False, "typed": True},
    "not calibrated, rules": {"calibrated": False, "by_rules": True},
}
SEEDS = range(4)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks of questions and of rivals, and few candidates that are scored again at first."""
    monkeypatch.setattr(module, "SCORES_PER_BLOCK", 30)
    monkeypatch.setattr(module, "NORMALISED_PER_BLOCK", 40)
    monkeypatch.setattr(module, "MIN_CHUNK", 1)


@pytest.fixture(scope="module", params=[(name, seed) for name in WORLDS for seed in SEEDS], ids=str)
def world(request):
    name, seed = request.param
    factors = random_world(seed, **WORLDS[name])
    return factors, PlainAnswers(factors)


def all_cells() -> np.ndarray:
    return np.array(list(np.ndindex(N, len(RELATIONS), N)))


def test_every_cell_has_the_probability_of_the_formula(world):
    factors, plain = world
    cells = all_cells()
    found = factors.candidates.judge(cells)
    wanted = np.array([plain.log_odds(tuple(cell)) for cell in cells.tolist()])
    assert_same_log_odds(found.score, wanted)
    np.testing.assert_allclose(found.probability, expit(wanted), rtol=1e-6)
    assert found.is_known.tolist() == [tuple(cell) in plain.known for cell in cells.tolist()]
    rates = factors.base_rates
    lift = np.full(len(cells), np.nan) if rates is None else found.probability / rates[cells[:, 1]]
    np.testing.assert_allclose(found.lift, lift)


def assert_same_log_odds(found, wanted):
    """1 − p is known to about 1e-11, so that log-odds are less exact the larger they are."""
    assert (np.abs(found - wanted) <= 1e-7 + 1e-10 * np.exp(np.minimum(wanted, 30))).all()


def test_a_cell_has_the_same_probability_whatever_it_is_asked_with(world):
    factors, plain = world
    cells = all_cells()[np.random.default_rng(0).permutation(len(all_cells()))[:60]]
    together = factors.candidates.judge(all_cells()).at(cells @ [len(RELATIONS) * N, N, 1])
    assert together.cells.tolist() == cells.tolist()
    for row, cell in enumerate(cells):
        alone = Candidates(factors, KnownFacts(plain.facts)).judge(cell)
        assert (alone.score[0], alone.probability[0]) == (together.score[row], together.probability[row])


def test_a_known_fact_is_judged_as_if_it_were_not_listed(world):
    factors, plain = world
    facts = plain.facts
    for row, cell in enumerate(facts.triples):
        if cell[0] == cell[2]:  # the last such fact also tells that an entity may be its own answer
            continue
        rest = Candidates(factors, KnownFacts(facts.subset(np.arange(len(facts)) != row)))
        [without], [listed] = rest.judge(cell).score, factors.candidates.judge(cell).score
        assert_same_log_odds(np.array([listed]), np.array([without]))


# --- questions


def questions_with(place: int) -> np.ndarray:
    cells = all_cells()
    cells[:, place] = OPEN
    return np.unique(cells, axis=0)


@pytest.mark.parametrize("treat", [OMIT, MARK, ONLY])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_answers_are_the_best_of_all_cells(world, place, treat):
    factors, plain = world
    questions = questions_with(place)
    wanted = [plain.best(tuple(question), treat) for question in questions.tolist()]
    for k in (1, 3, 30):
        found = factors.candidates.answers(questions, k, treat)
        for row, rows in enumerate(wanted):
            own = found.at(found.question == row)
            assert list(map(tuple, own.cells.tolist())) == [cell for cell, _, _ in rows[:k]]
            assert own.rank.tolist() == [rank for _, _, rank in rows[:k]]
            assert_same_log_odds(own.score, np.array([score for _, score, _ in rows[:k]]))


def test_questions_for_different_places_may_be_asked_together(world):
    factors, _ = world
    rng = np.random.default_rng(0)
    questions = np.concatenate([questions_with(place) for place in (0, 1, 2)])
    questions = questions[rng.permutation(len(questions))[:40]]
    found = factors.candidates.answers(questions, 4)
    assert (np.diff(found.question) >= 0).all()
    for row, question in enumerate(questions):
        alone, own = factors.candidates.answers(question[None], 4), found.at(found.question == row)
        for column, single in zip(own[:-1], alone[:-1], strict=True):
            np.testing.assert_allclose(column, single, rtol=1e-9)


def test_the_rank_of_a_fact_is_its_place_among_the_objects_that_are_not_known(world):
    factors, plain = world
    found = factors.candidates.ranked(all_cells())
    assert found.rank.tolist() == [plain.rank(tuple(cell)) for cell in all_cells().tolist()]
    assert found.question.tolist() == list(range(len(all_cells())))


@pytest.mark.parametrize("place", [0, 2])
def test_rivals_of_an_unlisted_cell_are_counted_by_probability(world, place):
    factors, plain = world
    rng = np.random.default_rng(0)
    for relation in range(len(RELATIONS)):
        cells = np.array(
            [cell for cell in all_cells().tolist() if cell[1] == relation and tuple(cell) not in plain.known]
        )
        given = cells[:, 2 - place]
        theta = factors.scores_of_all(given, relation, of_objects=place == 0)
        is_rival = rng.random(theta.shape) < 0.7
        is_rival[factors.candidates.known.partners(relation, given, of_objects=place == 0)] = False
        is_rival[np.arange(len(cells)), cells[:, place]] = True
        theta[~is_rival] = -np.inf
        better, tied, n_bad = factors.candidates.count_rivals(cells, place, theta)
        for row, cell in enumerate(cells.tolist()):
            own = round(plain.log_odds(tuple(cell)), 9)
            others = [
                round(plain.log_odds((*cell[:place], i, *cell[place + 1 :])), 9)
                for i in np.flatnonzero(is_rival[row]).tolist()
            ]
            assert better[row] == sum(other > own for other in others)
            assert tied[row] == sum(other == own for other in others)
        assert n_bad == 0
