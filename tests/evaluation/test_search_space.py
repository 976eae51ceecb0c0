"""The candidates of a search, and the models that suit facts and metric."""

import pytest

import relatent
from relatent.evaluation.search_space import SPACES, Candidate, candidates
from relatent.evaluation.tuning import models_to_try
from relatent.model.entity_regression import can_fold
from small_graphs import blocks

pytestmark = pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")


def test_the_defaults_of_every_model_are_among_the_first():
    made = candidates(blocks(), ["logit", "als"], 0)
    assert [next(made) for _ in range(2)] == [("logit", {}), ("als", {})]
    drawn = [next(made) for _ in range(100)]
    assert [candidate.model for candidate in drawn[:4]] == ["logit", "als"] * 2
    assert all(1 <= candidate.settings["rank"] <= 24 for candidate in drawn)
    assert {candidate.settings.get("bias") for candidate in drawn} == {True, False, None}


def test_exclusive_relations_are_tried_where_a_pair_has_at_most_one():
    apart = relatent.Facts.from_arrays([0, 1, 2, 3], [0, 1, 0, 1], [1, 2, 3, 0])
    assert models_to_try(apart, 1, "auc_pr", None, None) == ["logit", "als", "categorical"]
    assert models_to_try(blocks(), 1, "auc_pr", None, None) == ["logit", "als"]
    assert models_to_try(blocks(), 1, "mrr", None, None) == ["logit", "als", "softmax"]


def test_the_models_that_are_preferred_are_those_that_fold_in():
    facts = relatent.Facts.from_arrays([0, 1, 2, 3], [0, 1, 0, 1], [1, 2, 3, 0])
    for model, space in SPACES.items():
        estimator = Candidate(model, {**space.fixed, "rank": 2, "max_iter": 2}).estimator(0)
        assert can_fold(estimator.fit(facts).factors_) == space.folds_in
