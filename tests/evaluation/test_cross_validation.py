import dataclasses
import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import relatent
from relatent.data.heldout import HeldOut
from relatent.errors import ConvergenceWarning, InputError, UnknownNameError
from relatent.evaluation.cross_validation import cross_validate, pair_normalised
from relatent.evaluation.folds import cell_folds
from relatent.evaluation.parallel import fit_threads
from relatent.model.factors import Factors
from relatent.model.links import SmoothLink
from small_graphs import blocks, politics, random_facts, relative_error

ALS = relatent.RescalALS(rank=3, l2_entities=0.1, l2_relations=0.1, tol=1e-2)
LOGIT = relatent.RescalLogit(rank=3, l2_entities=0.1, l2_relations=0.1, tol=1e-3)
each_estimator = pytest.mark.parametrize("estimator", [ALS, LOGIT], ids=["als", "logit"])


# --- what a fit knows


@each_estimator
def test_the_truth_of_masked_cells_has_no_influence_on_their_prediction(estimator):
    facts = blocks(15)
    fold = cell_folds(facts, 4)[0]
    lies = np.concatenate([facts.hold_out(fold, masked=False).triples, fold[~facts.contains(fold)]])
    flipped = relatent.Facts.from_arrays(*lies.T, n_entities=15, n_relations=2)
    honest, lied = (cross_validate(estimator, known, folds=[fold]).folds[0] for known in (facts, flipped))
    np.testing.assert_array_equal(honest.scores, lied.scores)
    np.testing.assert_array_equal(honest.probabilities, lied.probabilities)
    np.testing.assert_array_equal(honest.heldout.truth, ~lied.heldout.truth)


@each_estimator
def test_cells_set_to_zero_are_false_in_the_fit_and_masked_cells_are_not(estimator):
    facts = blocks(15)
    masked, zero = (cross_validate(estimator, facts, folds=4, heldout=heldout) for heldout in ("masked", "zero"))
    assert "held-out cells masked" in masked.protocol
    assert "held-out cells set to zero" in zero.protocol
    truth = masked.folds[0].heldout.truth
    assert masked.folds[0].probabilities[truth].mean() > zero.folds[0].probabilities[truth].mean() + 0.05


@each_estimator
def test_a_fold_is_predicted_by_a_fit_without_it(estimator):
    facts = random_facts(15, 2, 80)
    report = cross_validate(estimator, facts, folds=3)
    for fold in report.folds:
        with fit_threads(1):  # as the folds are fitted
            f = clone(estimator).set_params(patterns="none").fit(facts.hold_out(fold.heldout.cells, masked=True))
        f = f.factors_
        assert relative_error(fold.scores, f.score(*fold.heldout.cells.T)) < 1e-2


def test_the_given_estimator_is_not_modified():
    estimator = clone(ALS)
    cross_validate(estimator, random_facts(), folds=3, search={"rank": [1, 2]})
    assert estimator.rank == 3
    assert not hasattr(estimator, "factors_")


# --- scores


@pytest.mark.parametrize("link", ["logistic", "smooth"])
def test_pair_normalised_scores_are_those_of_a_plain_loop(link):
    facts = random_facts(10, 3, 40)
    estimator = LOGIT if link == "logistic" else ALS
    f = clone(estimator).fit(facts).factors_
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, size, 50) for size in (10, 3, 10)], axis=1)
    wanted = []
    for s, k, o in cells:
        theta = [float(f.score(s, relation, o)) for relation in range(3)]
        response = [1 / (1 + np.exp(-t)) for t in theta] if link == "logistic" else theta
        wanted.append(response[k] / np.sqrt(sum(x * x for x in response)))
    np.testing.assert_allclose(pair_normalised(f, cells), wanted, rtol=1e-5)
    report = cross_validate(estimator, facts, folds=[cells[:1]], scores="pair-normalised")
    assert "pair-normalised scores" in report.protocol


def test_a_pair_with_zero_norm_is_not_divided():
    facts = random_facts(4, 2, 5)
    nothing = Factors(np.zeros((4, 2)), np.zeros((2, 2, 2)), np.zeros(2), facts.entities, facts.relations, SmoothLink())
    assert not pair_normalised(nothing, facts.triples).any()


def test_normalised_scores_do_not_change_probabilities():
    raw, normalised = (cross_validate(ALS, random_facts(), folds=3, scores=s) for s in ("raw", "pair-normalised"))
    np.testing.assert_array_equal(raw.folds[1].probabilities, normalised.folds[1].probabilities)
    assert raw.brier == normalised.brier
    assert raw.auc_pr != normalised.auc_pr


# --- given folds


def test_the_presidents_task_is_a_list_of_folds():
    facts = relatent.load_dataset("presidents")
    folds = relatent.presidents_folds(facts)
    report = cross_validate(relatent.RescalALS(5, 0.1, 0.1), facts, folds=folds, heldout="zero")
    assert len(report.folds) == 10
    assert sum(fold.metrics.n_true for fold in report.folds) >= 39
    assert report.auc_pr > report.baselines["base rate"]["auc_pr"] + 0.1
    assert list(report.per_relation) == ["party"]


def test_folds_may_be_given_by_name():
    facts = politics(6)
    by_name = [[("president 0", "party", "Blue"), ("president 0", "party", "Red")]]
    by_id = [[[facts.entities.id(s), facts.relations.id(k), facts.entities.id(o)] for s, k, o in by_name[0]]]
    first, second = (cross_validate(ALS, facts, folds=folds).folds[0] for folds in (by_name, by_id))
    np.testing.assert_array_equal(first.heldout.cells, second.heldout.cells)
    np.testing.assert_array_equal(first.scores, second.scores)
    assert first.heldout.truth.tolist() == [True, False]


def test_a_fold_with_only_true_cells_has_no_curve():
    report = cross_validate(ALS, random_facts(), folds=[random_facts().triples[:5]])
    assert np.isnan(report.auc_pr)
    assert np.isnan(report.auc_pr_std)
    assert np.isfinite(report.log_loss)
    assert json.loads(json.dumps(report.to_dict()))["auc_pr"] is None
    assert "nan" in repr(report)


# --- search


class GivenAnswers(BaseEstimator):
    """Least squares with given answers in the cells of a setting."""

    def __init__(self, answers=None, calibrate=False, keep_facts=False):
        self.answers, self.calibrate, self.keep_facts = answers, calibrate, keep_facts

    def fit(self, facts):
        plain = {"calibrate": self.calibrate, "keep_facts": self.keep_facts}
        fitted = relatent.RescalALS(rank=3, l2_entities=0.1, l2_relations=0.1, tol=1e-2, **plain).fit(facts)
        self.trace_ = fitted.trace_
        f = fitted.factors_
        A = np.eye(len(f.entities))
        R = np.einsum("ip,kpq,jq->kij", f.A, f.R, f.A).astype(np.float64)
        if self.answers is not None:
            cells, truth = self.answers
            R[cells[:, 1], cells[:, 0], cells[:, 2]] = truth
        self.factors_ = dataclasses.replace(f, A=A, R=R, bias=f.bias.astype(float))
        return self


def test_a_setting_that_is_good_only_on_the_test_fold_is_not_chosen_for_it():
    """It answers the cells of fold 1 perfectly and all others wrongly: by fold 1 alone it would be the best."""
    facts = blocks(15)
    parts = [HeldOut(cells, facts.contains(cells)) for cells in cell_folds(facts, 4)]
    cells = np.concatenate([part.cells for part in parts])
    truth = np.concatenate([part.truth if f == 1 else ~part.truth for f, part in enumerate(parts)])
    settings = [{"answers": None}, {"answers": (cells, truth.astype(float))}]
    report = cross_validate(GivenAnswers(), facts, folds=[part.cells for part in parts], search=settings)
    assert report.folds[1].settings["answers"] is None
    honest = cross_validate(GivenAnswers(), facts, folds=[part.cells for part in parts])
    np.testing.assert_array_equal(report.folds[1].scores, honest.folds[1].scores)


@pytest.mark.parametrize("heldout", ["masked", "zero"])
def test_the_truth_of_a_fold_has_no_influence_on_the_settings_chosen_for_it(heldout):
    facts = random_facts(15, 2, 90)
    folds = cell_folds(facts, 4)
    search = {"rank": [1, 3], "l2_relations": [0.01, 3.0]}
    honest = cross_validate(ALS, facts, folds=folds, heldout=heldout, search=search)
    for f, fold in list(enumerate(folds))[:2]:
        lies = np.concatenate([facts.hold_out(fold, masked=False).triples, fold[~facts.contains(fold)]])
        flipped = relatent.Facts.from_arrays(*lies.T, n_entities=15, n_relations=2)
        lied = cross_validate(ALS, flipped, folds=folds, heldout=heldout, search=search)
        assert lied.folds[f].settings == honest.folds[f].settings
        np.testing.assert_array_equal(lied.folds[f].scores, honest.folds[f].scores)


def test_a_search_finds_the_rank_of_a_planted_world():
    report = cross_validate(ALS, blocks(18, groups=4), folds=3, search={"rank": [1, 4]})
    assert [fold.settings for fold in report.folds] == [{"rank": 4}] * 3
    assert report.searched == 2
    assert "best of 2 settings by auc_pr inside each training fold" in report.protocol


@pytest.mark.parametrize("metric", ["auc_pr", "average_precision", "auc_roc", "brier", "log_loss"])
def test_every_metric_prefers_the_better_model(metric):
    report = cross_validate(ALS, blocks(18, groups=4), folds=3, search={"rank": [1, 4]}, metric=metric)
    assert [fold.settings["rank"] for fold in report.folds] == [4, 4, 4]


def test_one_setting_is_used_without_a_search():
    report = cross_validate(ALS, random_facts(), folds=3, search=[{"rank": 2}])
    assert report.searched == 0
    assert "best of" not in report.protocol
    assert report.folds[0].settings == {"rank": 2}


def test_settings_of_any_type_become_json():
    start = clone(ALS).fit(random_facts()).factors_
    search = [{"rank": np.int64(3), "init": "eigen"}, {"rank": np.int64(3), "init": start}]
    report = cross_validate(ALS, random_facts(), folds=3, search=search)
    written = json.loads(json.dumps(report.to_dict()))
    assert written["folds"][0]["settings"]["rank"] == 3


# --- probabilities


@each_estimator
def test_fits_are_calibrated_only_where_probabilities_are_asked_for(estimator):
    facts = random_facts(15, 2, 80)
    plain, calibrated = (cross_validate(estimator, facts, folds=3, probabilities=asked) for asked in (False, True))
    for fold, same in zip(plain.folds, calibrated.folds, strict=True):
        np.testing.assert_array_equal(fold.scores, same.scores)
        assert not np.array_equal(fold.probabilities, same.probabilities)
        with fit_threads(1):  # as the folds are fitted
            f = clone(estimator).set_params(patterns="none").fit(facts.hold_out(fold.heldout.cells, masked=True))
        f = f.factors_
        np.testing.assert_allclose(fold.probabilities, f.link.probability(fold.scores), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(same.probabilities, f.probability(*fold.heldout.cells.T), rtol=0.02, atol=1e-4)
    assert (plain.auc_pr, plain.average_precision) == (calibrated.auc_pr, calibrated.average_precision)
    assert plain.log_loss != calibrated.log_loss


# --- processes, progress


def test_the_number_of_processes_changes_nothing():
    facts = random_facts(15, 2, 80)
    one, two = (
        cross_validate(LOGIT, facts, folds=3, search={"rank": [2, 3]}, n_jobs=n_jobs, random_state=1)
        for n_jobs in (1, 2)
    )
    for first, second in zip(one.folds, two.folds, strict=True):
        np.testing.assert_array_equal(first.scores, second.scores)
        np.testing.assert_array_equal(first.probabilities, second.probabilities)
        assert first.settings == second.settings
        assert first.metrics == second.metrics


def test_progress_counts_every_fit():
    reports = []
    cross_validate(
        ALS, random_facts(), folds=3, search={"rank": [1, 2]}, progress=lambda *report: reports.append(report)
    )
    assert [done for done, _, _ in reports] == list(range(1, 10))
    assert {total for _, total, _ in reports} == {9}
    assert [note for _, _, note in reports] == ["search"] * 6 + ["folds"] * 3


def test_fits_that_did_not_converge_are_counted_in_one_warning():
    hasty = clone(ALS).set_params(max_iter=1)
    with pytest.warns(ConvergenceWarning, match="3 of 3 fits stopped before they converged; raise max_iter or tol"):
        report = cross_validate(hasty, random_facts(), folds=3)
    assert not any(fold.converged for fold in report.folds)


# --- the report


def test_a_report_says_what_it_measured():
    facts = random_facts(20, 3, 150)
    report = cross_validate(ALS, facts, folds=4, random_state=7)
    values = [fold.auc_pr for fold in report.folds]
    assert report.auc_pr == pytest.approx(np.mean(values))
    assert report.auc_pr_std == pytest.approx(np.std(values))
    assert report.average_precision == pytest.approx(np.mean([fold.average_precision for fold in report.folds]))
    assert report.protocol == "4 folds, held-out cells masked, raw scores, seed 7"
    assert report.seconds > 0
    assert list(report.per_relation) == list(facts.relations)
    assert sum(metrics.n_true for metrics in report.per_relation.values()) == 150
    assert sum(metrics.n_cells for metrics in report.per_relation.values()) == facts.n_cells
    written = json.loads(json.dumps(report.to_dict()))
    assert written["auc_pr"] == report.auc_pr
    assert len(written["folds"]) == 4
    assert written["baselines"]["base rate"]["auc_roc"] == 0.5


def test_the_base_rate_scores_as_a_constant_does():
    facts = random_facts(20, 2, 150)
    report = cross_validate(ALS, facts, folds=4)
    shares = [fold.metrics.n_true / fold.metrics.n_cells for fold in report.folds]
    base = report.baselines["base rate"]
    assert base["average_precision"] == pytest.approx(np.mean(shares))
    assert base["auc_pr"] == pytest.approx((1 + np.mean(shares)) / 2)


def test_the_relation_frequency_is_what_the_training_cells_show():
    dense = relatent.Facts.from_tensor(np.stack([np.ones((8, 8)), np.zeros((8, 8))], axis=2))
    report = cross_validate(ALS, dense, folds=4)
    assert report.baselines["relation frequency"]["average_precision"] == 1


# --- errors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heldout": "hidden"}, "heldout must be 'masked' or 'zero', got 'hidden'"),
        ({"scores": "soft"}, "scores must be 'raw' or 'pair-normalised', got 'soft'"),
        ({"metric": "f1"}, "metric must be 'auc_pr' or .*, got 'f1'"),
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"folds": True}, "folds must be at least 2, got True"),
        ({"folds": 5000}, "folds must not exceed the 1200 observed cells, got 5000"),
        ({"folds": []}, "folds must be a number, or contain at least one set of cells"),
        ({"folds": [np.zeros((0, 3), int)]}, r"a fold must be a non-empty \(m, 3\) array of cells, got shape \(0, 3\)"),
        ({"folds": [np.zeros((4, 2), int)]}, r"a fold must be a non-empty \(m, 3\) array of cells, got shape \(4, 2\)"),
        ({"n_jobs": 0}, "n_jobs must be at least 1, got 0"),
        ({"search": []}, "search must contain at least one setting"),
        ({"search": {"rank": []}}, "search must contain at least one setting"),
        ({"search": {"rank": [1, 2]}, "folds": 2}, "search needs at least 3 folds, got 2"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_with_their_value(settings, message):
    with pytest.raises(InputError, match=message):
        cross_validate(ALS, random_facts(), **settings)


def test_a_fold_with_unobserved_or_unknown_cells_is_refused():
    facts = random_facts(20, 3, 60, unobserved=10)
    with pytest.raises(InputError, match="a fold contains unobserved cells; leave them out"):
        cross_validate(ALS, facts, folds=[facts.unobserved[:1]])
    with pytest.raises(UnknownNameError, match="unknown entity id 20: ids run from 0 to 19"):
        cross_validate(ALS, facts, folds=[[[20, 0, 1]]])


def test_anything_but_facts_is_refused():
    with pytest.raises(InputError, match=r"cross_validate takes Facts, got str; see relatent\.load_dataset"):
        cross_validate(ALS, "kinships")


def test_a_setting_the_estimator_does_not_have_is_refused():
    with pytest.raises(ValueError, match="search: RescalALS has no setting 'ranks'; it has "):
        cross_validate(ALS, random_facts(), folds=3, search=[{"ranks": 1}, {"ranks": 2}])


def test_a_generator_is_a_random_state():
    first, second = (cross_validate(ALS, random_facts(), folds=3, random_state=np.random.default_rng(5)) for _ in "ab")
    assert first.random_state == second.random_state > 0
    np.testing.assert_array_equal(first.folds[0].scores, second.folds[0].scores)
