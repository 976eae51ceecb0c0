"""Cells in folds, and zeros sampled where there are too many cells."""

import numpy as np
import pytest

import relatent
from relatent.data.cell_keys import cell_keys
from relatent.data.heldout import ZEROS_PER_FACT, sample_zeros
from relatent.errors import InputError
from relatent.evaluation import folds as folds_module
from relatent.evaluation.cross_validation import cross_validate
from relatent.evaluation.folds import cell_folds, make_folds, stratified_folds
from small_graphs import blocks, cliques, marriages, random_facts
from sparse_graphs import sparse_graph

ALS = relatent.RescalALS(rank=3, l2_entities=0.1, l2_relations=0.1, tol=1e-2)


@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("make", [random_facts, marriages, cliques], ids=["one-way", "marriages", "cliques"])
@pytest.mark.parametrize("folds", [2, 3, 10])
def test_every_observed_cell_is_in_exactly_one_fold(make, folds, leaky):
    facts = make()
    facts = facts.hold_out(facts.triples[[0, 3]], masked=True)
    parts = cell_folds(facts, folds, leaky=leaky)
    keys = np.concatenate([cell_keys(part, facts.n_entities) for part in parts])
    assert len(parts) == folds
    assert len(np.unique(keys)) == len(keys) == facts.n_cells - 2
    assert not np.isin(cell_keys(facts.unobserved, facts.n_entities), keys).any()
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 0.2 * np.mean(sizes)


def test_true_and_false_cells_are_in_folds_alike():
    facts = random_facts(40, 2, 600)
    report = cross_validate(ALS, facts, folds=5)
    for fold in report.folds:
        np.testing.assert_array_equal(fold.heldout.truth, facts.contains(fold.heldout.cells))
        assert abs(fold.metrics.n_true - 120) < 40
        assert fold.metrics.n_cells == 640


def test_folds_follow_the_seed():
    facts = random_facts()
    first, again, other = (np.concatenate(cell_folds(facts, 4, seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def split_mirrors(facts, parts):
    """Cells of the symmetric relation whose mirror is in another fold."""
    n = facts.n_entities
    count = 0
    for part in parts:
        mutual = part[facts.symmetric[part[:, 1]]]
        count += np.sum(~np.isin(cell_keys(mutual[:, ::-1], n), cell_keys(part, n)))
    return count


@pytest.mark.parametrize("make", [marriages, cliques])
def test_mirrored_cells_of_a_symmetric_relation_share_a_fold(make):
    facts = make()
    assert split_mirrors(facts, cell_folds(facts, 5)) == 0
    assert split_mirrors(facts, cell_folds(facts, 5, leaky=True)) > 100


def test_a_leaky_protocol_says_so():
    facts = cliques(12, 3)
    leaky, tight = (cross_validate(ALS, facts, folds=3, leaky=leaky) for leaky in (True, False))
    assert leaky.leaky
    assert "LEAKY: a symmetric relation's (i, j) gives away (j, i)" in leaky.protocol
    assert not tight.leaky
    assert "LEAKY" not in tight.protocol
    assert not cross_validate(ALS, random_facts(), folds=3, leaky=True).leaky, "nothing can leak here"


def test_given_folds_that_split_mirrored_cells_are_leaky():
    facts = cliques(12, 3)
    assert cross_validate(ALS, facts, folds=cell_folds(facts, 3, leaky=True)).leaky
    assert not cross_validate(ALS, facts, folds=cell_folds(facts, 3)).leaky


def test_the_copied_mirror_predicts_well_only_with_leaky_folds():
    facts = cliques()
    leaky, tight = (cross_validate(ALS, facts, folds=4, leaky=leaky).baselines for leaky in (True, False))
    assert leaky["copy of the mirrored cell"]["average_precision"] > 0.6
    base = tight["base rate"]["average_precision"]
    assert tight["copy of the mirrored cell"]["average_precision"] == pytest.approx(base)
    assert "copy of the mirrored cell" not in cross_validate(ALS, random_facts(), folds=3).baselines


def test_every_fold_has_facts_and_zeros_and_mirrors_stay_together():
    facts = cliques()
    folds = stratified_folds(facts, 10, 0, facts_only=False)
    assert len(folds) == 10
    assert sum(len(fold.cells) for fold in folds) == facts.n_cells
    for fold in folds:
        assert 0 < fold.truth.sum() < len(fold.truth)
        cells = {tuple(cell) for cell in fold.cells.tolist()}
        assert cells == {cell[::-1] for cell in cells}


# --- too many cells to put each into a fold


@pytest.fixture
def sampled(monkeypatch):
    monkeypatch.setattr(folds_module, "MAX_FOLD_CELLS", 100)


def test_the_fold_of_a_sparse_graph_is_not_much_larger_than_its_facts():
    facts = sparse_graph("biology", 0)
    for fold in make_folds(facts, 3, 0, zeros_per_fact=ZEROS_PER_FACT):
        assert len(fold.cells) < 2 * ZEROS_PER_FACT * fold.truth.sum()


def test_sampled_zeros_stand_for_all_of_them(sampled):
    facts = random_facts(30, 2, 100, unobserved=50)
    report = cross_validate(ALS, facts, folds=4, zeros_per_fact=5)
    assert report.sampled_zeros
    assert "zeros sampled and re-weighted" in report.protocol
    truth = np.concatenate([fold.heldout.truth for fold in report.folds])
    weights = np.concatenate([fold.heldout.weights for fold in report.folds])
    cells = np.concatenate([fold.heldout.cells for fold in report.folds])
    assert truth.sum() == len(facts)
    assert (weights[truth] == 1).all()
    assert (~truth).sum() == 500
    assert weights[~truth].sum() == pytest.approx(facts.n_cells - 50 - 100)
    np.testing.assert_array_equal(truth, facts.contains(cells))
    assert not facts.is_unobserved(cells).any()
    assert len(np.unique(cell_keys(cells, 30))) == len(cells)


def test_metrics_from_sampled_zeros_are_near_the_full_ones(monkeypatch):
    facts = random_facts(60, 1, 400)
    noisy = blocks(60, groups=4, n_relations=1)
    lies = np.concatenate([noisy.triples, facts.triples])
    noisy = relatent.Facts.from_arrays(*lies.T, n_entities=60)
    full = cross_validate(ALS, noisy, folds=4)
    monkeypatch.setattr(folds_module, "MAX_FOLD_CELLS", 100)
    estimate = cross_validate(ALS, noisy, folds=4, zeros_per_fact=1)
    assert not full.sampled_zeros
    assert estimate.sampled_zeros
    for figure in ("auc_pr", "average_precision", "auc_roc", "brier", "log_loss"):
        assert getattr(estimate, figure) == pytest.approx(getattr(full, figure), abs=0.05), figure
    assert estimate.baselines["base rate"]["average_precision"] == pytest.approx(
        full.baselines["base rate"]["average_precision"], abs=0.03
    )


def test_the_mirror_of_a_sampled_zero_does_not_give_it_away(sampled):
    """Were it left in the training data, a held-out cell with a visible mirror would be a zero, without one a fact."""
    facts = cliques(24, 6)
    report = cross_validate(ALS, facts, folds=4, zeros_per_fact=1)
    copied, rate = (report.baselines[name]["average_precision"] for name in ("copy of the mirrored cell", "base rate"))
    assert copied == pytest.approx(rate)


def test_sampled_zeros_are_distinct_free_cells():
    facts, others = random_facts(12, 2, 60, unobserved=30), random_facts(12, 2, 60, seed=1)
    zeros, weight = sample_zeros([facts, others], 40, np.random.default_rng(0))
    assert len(np.unique(cell_keys(zeros, 12))) == len(zeros) == 40
    for each in (facts, others):
        assert not (each.contains(zeros) | each.is_unobserved(zeros)).any()
    cells = np.stack(np.unravel_index(np.arange(facts.n_cells), (12, 2, 12)), axis=1)
    free = np.sum(
        ~(facts.contains(cells) | facts.is_unobserved(cells) | others.contains(cells) | others.is_unobserved(cells))
    )
    assert 40 * weight == pytest.approx(free)


def test_a_graph_without_zeros_has_none_to_sample():
    full = relatent.Facts.from_tensor(np.ones((3, 3, 1)))
    zeros, _ = sample_zeros([full], 5, np.random.default_rng(0))
    assert len(zeros) == 0


def test_at_most_half_of_all_zeros_are_sampled():
    facts = random_facts(10, 1, 20)
    zeros, weight = sample_zeros([facts], 1000, np.random.default_rng(0))
    assert len(zeros) == 41
    assert len(zeros) * weight == pytest.approx(80)


def test_too_few_sampled_zeros_are_refused(sampled):
    with pytest.raises(InputError, match="zeros_per_fact must be at least 1, got 0"):
        cross_validate(ALS, random_facts(), zeros_per_fact=0)
