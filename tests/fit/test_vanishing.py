"""Penalties under which all factors shrink to zero are noticed, and one that was chosen is weakened."""

import warnings

import numpy as np
import pytest

import relatent
from relatent.data.shard import Shard
from relatent.errors import VanishedWarning
from relatent.fit import automatic_settings, vanishing
from relatent.fit.optimisers import Adam
from sparse_graphs import sparse_graph

FACTS = sparse_graph("films", 0)
SETTINGS = {"structure": "complex", "optimiser": Adam(0.1), "init": "small", "calibrate": False, "max_iter": 40}


def factors_with_scores(size):
    n, k = FACTS.n_entities, FACTS.n_relations
    return relatent.Factors(
        np.full((n, 1), size**0.5), np.ones((k, 1, 1)), np.arange(k), FACTS.entities, FACTS.relations
    )


def test_the_mean_score_is_that_of_facts_above_the_bias():
    assert vanishing.mean_score(factors_with_scores(0.25), Shard.of(FACTS)) == pytest.approx(0.25)


def test_a_penalty_is_weakened_until_factors_last():
    tried = []

    def fit(penalty):
        tried.append(penalty.weight)
        return factors_with_scores(1.0 if penalty.weight < 0.06 else 1e-4)

    chosen = vanishing.lasting_penalty(fit, relatent.Dura(0.1, 0.75), Shard.of(FACTS))
    assert chosen == relatent.Dura(0.049, 0.75)
    assert tried == [0.1, 0.07, 0.049]


def test_data_without_structure_ends_the_trials():
    tried = []
    vanishing.lasting_penalty(
        lambda penalty: tried.append(penalty) or factors_with_scores(0.0), relatent.N3(0.1), Shard.of(FACTS)
    )
    assert len(tried) == vanishing.MAX_WEAKENINGS


@pytest.mark.parametrize(
    ("rank", "structure", "wanted"),
    [(6, "complex", 6), (20, "complex", 8), (130, "complex", 32), (512, "complex", 64), (513, relatent.Blocks(27), 54)],
)
def test_a_trial_has_few_components(rank, structure, wanted):
    assert vanishing.trial_rank(rank, structure) == wanted


def test_a_fit_without_options_to_large_data_weakens_its_penalty_and_says_so(monkeypatch):
    monkeypatch.setattr(automatic_settings, "LARGE_DATA", len(FACTS))
    monkeypatch.setattr(automatic_settings, "N3_LIMITS", (2.0, 2.0))
    model = relatent.RescalLogit(32, max_iter=40, calibrate=False).fit(FACTS)
    weight = model.settings_.values["penalty"].weight
    assert 0.1 < weight < 2.0
    assert "with N3(weight=2.0) all factors of a short fit shrank to zero" in model.settings_.reason
    assert str(model.factors_.penalty) == f"n3 weight {weight:g}"
    assert vanishing.mean_score(model.factors_, Shard.of(FACTS)) > 1
    assert model.penalty is None, "the estimator keeps what it was given"


def test_a_penalty_that_was_given_is_kept_with_a_warning(monkeypatch):
    monkeypatch.setattr(automatic_settings, "LARGE_DATA", len(FACTS))
    with pytest.warns(VanishedWarning, match="all factors have shrunk to zero"):
        model = relatent.RescalLogit(32, penalty=relatent.N3(2.0), **SETTINGS).fit(FACTS)
    assert model.penalty == relatent.N3(2.0)


def test_smaller_data_have_no_trial(monkeypatch):
    monkeypatch.setattr(vanishing, "lasting_penalty", lambda *_: pytest.fail("a trial"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        relatent.RescalLogit(8, max_iter=2, calibrate=False).fit(FACTS)
