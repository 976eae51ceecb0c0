"""The candidates of a search, and the models that suit facts and metric."""

import numpy as np
import pytest

import relatent
from relatent.evaluation.search_space import SPACES, Candidate, candidates, spaces_of
from relatent.evaluation.tuning import models_to_try
from relatent.fit.automatic_settings import DataSummary
from relatent.model.entity_regression import can_fold
from small_graphs import blocks, chain

pytestmark = pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
DENSE = blocks(n_relations=20)


def test_the_defaults_of_every_model_are_among_the_first():
    made = candidates(blocks(), ["logit", "als"], 0)
    assert [next(made) for _ in range(2)] == [("logit", {}), ("als", {})]
    drawn = [next(made) for _ in range(100)]
    assert [candidate.model for candidate in drawn[:4]] == ["logit", "als"] * 2
    limits = {"complex": 48}  # more components than the 24 entities express more by complex matrices
    ranks = [(candidate.settings["rank"], candidate.settings.get("structure")) for candidate in drawn]
    assert all(1 <= rank <= limits.get(structure, 24) for rank, structure in ranks)
    assert max(rank for rank, _ in ranks) > 24
    assert {candidate.settings.get("bias") for candidate in drawn} == {True, False, None}


@pytest.mark.parametrize("facts", [DENSE, chain(600)], ids=["dense", "sparse"])
def test_the_space_has_what_a_fit_without_options_chooses_on_any_data(facts):
    made = candidates(facts, ["logit"], 0)
    next(made)
    drawn = [next(made).settings for _ in range(60)]
    chosen = [relatent.RescalLogit(**settings).choose_settings(facts).values | settings for settings in drawn]
    for kind in (DENSE, chain(600)):
        default = relatent.RescalLogit().choose_settings(kind).values
        alike = [s for s in chosen if all(s[name] == default[name] for name in ("structure", "init", "max_iter"))]
        assert alike
        assert {type(s.get("penalty")) for s in alike} == {type(default.get("penalty"))}
        assert {type(s.get("optimiser")) for s in alike} == {type(default.get("optimiser"))}


@pytest.mark.parametrize("facts", [DENSE, chain(1200)], ids=["dense", "sparse"])
def test_two_in_three_candidates_are_near_the_settings_of_a_fit_without_options(facts):
    default = relatent.RescalLogit().choose_settings(facts).values
    near, same, other = spaces_of("logit", DataSummary.of(facts))
    weight = default["penalty"].weight if "penalty" in default else default["l2_entities"]
    assert near is same
    assert near.rank[0] < default["rank"] <= near.rank[1]
    assert near.penalty[0] < weight < near.penalty[1]
    assert near.per_fact != other.per_fact


def test_softmax_on_sparse_data_is_searched_near_the_fit_without_options():
    facts = chain(1200)
    default = relatent.Rescal(loss="softmax").choose_settings(facts).values
    assert (default["structure"], default["method"]) == ("complex", "sampled")
    made = candidates(facts, ["softmax"], 0)
    assert next(made) == ("softmax", {})
    for _ in range(20):
        candidate = next(made)
        settings = candidate.settings
        assert isinstance(settings["penalty"], relatent.N3)
        assert settings["rank"] % 2 == 0
        assert settings["max_iter"] == default["max_iter"]
        assert candidate.first_round_steps == 40


@pytest.mark.parametrize("relations", [1, 150])
def test_on_a_gpu_softmax_begins_with_the_structures_that_are_best_on_benchmarks(relations):
    n = 3000
    ids = np.arange(n)
    facts = relatent.Facts.from_arrays(ids, ids % relations, (ids + 1) % n)
    made = candidates(facts, ["logit", "softmax"], 0, device="cuda")
    first = [next(made) for _ in range(4)]
    assert all(candidate.settings["device"] == "cuda" for candidate in first)
    assert [candidate.model for candidate in first] == ["logit", *["softmax"] * 3]
    complex_, blocks_, full = (candidate.settings for candidate in first[1:])
    assert [s["structure"] for s in (complex_, blocks_, full)] == ["complex", relatent.Blocks(4), "full"]
    assert complex_["rank"] > n // 3  # the rank of a fit without options
    assert [s["penalty"] for s in (blocks_, full)] == [relatent.Dura(0.04), relatent.Dura(0.12, 0.5)]
    assert blocks_["loss"].relation_weight == (4.0 if relations >= 100 else 0.5)
    assert full["loss"].reciprocal
    assert (blocks_["rank"] % 4, full["rank"]) == (0, 256)
    assert first[3].first_round_steps == full["max_iter"] // 4
    drawn = [next(made) for _ in range(30)]
    for candidate in drawn:
        estimator = candidate.estimator(0)
        estimator._with_chosen_settings(facts)._check_settings(facts)  # every combination exists


def test_a_model_without_a_gpu_version_is_not_tried_on_one():
    facts = relatent.Facts.from_arrays([0, 1, 2, 3], [0, 1, 0, 1], [1, 2, 3, 0])
    assert "categorical" not in models_to_try(facts, 1, "auc_pr", None, None, "cuda")
    with pytest.raises(relatent.InputError, match="categorical cannot be tried: it does not run on a GPU"):
        models_to_try(facts, 1, "auc_pr", ["categorical"], None, "cuda")


def test_exclusive_relations_are_tried_where_a_pair_has_at_most_one():
    apart = relatent.Facts.from_arrays([0, 1, 2, 3], [0, 1, 0, 1], [1, 2, 3, 0])
    assert models_to_try(apart, 1, "auc_pr", None, None) == ["logit", "als", "categorical"]
    assert models_to_try(blocks(), 1, "auc_pr", None, None) == ["logit", "als"]
    assert models_to_try(blocks(), 1, "mrr", None, None) == ["logit", "als", "softmax"]


def test_on_sparse_data_only_models_that_rank_well_and_have_probabilities_are_tried_unless_asked_for():
    assert models_to_try(chain(600), 1, None, None, None) == ["logit"]
    assert models_to_try(chain(600), 1, "mrr", None, None) == ["logit", "softmax"]
    assert models_to_try(chain(600), 1, None, ["als", "softmax"], None) == ["als", "softmax"]


def test_the_models_that_are_preferred_are_those_that_fold_in():
    facts = relatent.Facts.from_arrays([0, 1, 2, 3], [0, 1, 0, 1], [1, 2, 3, 0])
    for model, space in SPACES.items():
        estimator = Candidate(model, {**space.fixed, "rank": 2, "max_iter": 2}).estimator(0)
        assert can_fold(estimator.fit(facts).factors_) == space.folds_in


def test_small_sparse_data_is_also_searched_with_more_components_than_a_fit_without_options_has():
    facts = chain(600)
    near, wide, _ = spaces_of("logit", DataSummary.of(facts))
    assert (near.rank[1] < wide.rank[1], wide.wide, type(wide.per_fact)) == (True, True, relatent.N3)
