import dataclasses

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, clone

import relatent
from relatent.data.heldout import HeldOut, log_loss
from relatent.errors import InputError, RelatentWarning
from relatent.evaluation import cross_validation
from relatent.evaluation import folds as folds_module
from relatent.evaluation.calibration import Calibrated
from relatent.evaluation.cross_validation import cross_predict, cross_validate
from relatent.evaluation.folds import cell_folds
from relatent.evaluation.reliability import expected_calibration_error
from relatent.model.factors import load
from relatent.model.links import IsotonicLink, SmoothLink
from relatent.model.score_maps import MAX_KNOTS, fit_isotonic, fit_platt
from small_graphs import cliques, random_facts

ALS = relatent.RescalALS(rank=3, l2_entities=0.1, l2_relations=0.1, tol=1e-2)
LOGIT = relatent.RescalLogit(rank=3, l2_entities=0.1, l2_relations=0.1, tol=1e-3)
each_estimator = pytest.mark.parametrize("estimator", [ALS, LOGIT], ids=["als", "logit"])
each_map = pytest.mark.parametrize("learn", [fit_isotonic, fit_platt], ids=["isotonic", "platt"])


def noisy_world(n=40, seed=0):
    """Two groups; a cell is true with probability .8 inside the first, .1 elsewhere."""
    rng = np.random.default_rng(seed)
    inside = (np.arange(n)[:, None] % 2 == 0) & (np.arange(n)[None, :] % 2 == 0)
    p = np.where(inside, 0.8, 0.1)
    return relatent.Facts.from_tensor((rng.random((n, n)) < p)[:, :, None].astype(float)), p


def observed_in_part(facts):
    """One false cell unobserved, so that probabilities are those of unobserved cells."""
    false = np.flatnonzero(~facts.contains(np.array([[0, 0, o] for o in range(facts.n_entities)])))[0]
    return facts.hold_out(np.array([[0, 0, false]]), masked=True)


# --- the maps


@pytest.fixture
def cells():
    """Scores whose log-odds are 3 θ − 1."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=30_000)
    return theta, rng.random(len(theta)) < expit(3 * theta - 1)


def test_platt_recovers_the_slope_and_intercept_that_made_the_cells(cells):
    link = fit_platt(*cells)
    assert (link.slope, link.intercept) == (pytest.approx(3, abs=0.1), pytest.approx(-1, abs=0.1))


def test_platt_recovers_them_whatever_the_scale_of_the_scores(cells):
    theta, truth = cells
    plain, shifted = fit_platt(theta, truth), fit_platt(theta * 1e-3 + 50, truth)
    assert shifted.slope == pytest.approx(1e3 * plain.slope, rel=1e-3)
    np.testing.assert_allclose(shifted.probability(theta * 1e-3 + 50), plain.probability(theta), atol=1e-4)


def test_isotonic_recovers_a_curve_that_platt_cannot():
    rng = np.random.default_rng(0)
    theta = rng.uniform(0, 1, 30_000)
    p = np.where(theta < 0.5, 0.1, 0.1 + 1.6 * (theta - 0.5))
    truth = rng.random(len(theta)) < p
    isotonic, platt = (np.abs(learn(theta, truth).probability(theta) - p).mean() for learn in (fit_isotonic, fit_platt))
    assert isotonic < 0.01 < platt


@each_map
def test_mapped_probabilities_agree_with_the_truth(cells, learn):
    theta, truth = cells
    half = len(theta) // 2
    p = learn(theta[:half], truth[:half]).probability(theta[half:])
    assert expected_calibration_error(truth[half:], p) < 0.015
    best = log_loss(truth[half:], expit(3 * theta - 1)[half:], None)
    assert log_loss(truth[half:], p, None) == pytest.approx(best, abs=0.005)


@each_map
@pytest.mark.parametrize("before", [expit, lambda theta: expit(3 * theta), SmoothLink().probability])
def test_a_map_never_worsens_the_log_loss_of_its_own_cells(cells, learn, before):
    theta, truth = cells
    assert log_loss(truth, learn(theta, truth).probability(theta), None) < log_loss(truth, before(theta), None)


@each_map
def test_a_map_is_increasing(cells, learn):
    theta = np.sort(cells[0])
    assert (np.diff(learn(*cells).probability(theta)) >= 0).all()


@each_map
def test_perfectly_separated_cells_are_likely_but_not_certain(learn):
    theta = np.linspace(-1, 1, 100)
    p = learn(theta, theta > 0).probability(theta)
    assert p[0] < 0.02 < 0.98 < p[-1]
    assert ((p > 0) & (p < 1)).all()


@each_map
def test_uninformative_scores_give_the_base_rate(learn):
    truth = np.arange(1000) < 200
    assert learn(np.zeros(1000), truth).probability(np.array([-1.0, 0.0, 5.0])) == pytest.approx([0.2] * 3, abs=0.01)


@each_map
def test_reversed_scores_give_the_base_rate_and_no_decreasing_map(learn):
    theta = np.linspace(-1, 1, 1000)
    p = learn(theta, theta < 0).probability(theta)
    np.testing.assert_allclose(p, 0.5, atol=0.01)


@each_map
def test_a_weight_of_sampled_zeros_stands_for_all_of_them(learn):
    rng = np.random.default_rng(0)
    theta = np.concatenate([rng.normal(2, 1, 5_000), rng.normal(0, 1, 95_000)])
    truth = np.arange(100_000) < 5_000
    sampled = truth | (rng.random(100_000) < 0.1)
    weights = np.where(truth, 1.0, 10.0)[sampled]
    all_cells = learn(theta, truth).probability(theta)
    some = learn(theta[sampled], truth[sampled], weights).probability(theta)
    np.testing.assert_allclose(some.mean(), 0.05, atol=0.002)
    assert np.abs(some - all_cells).mean() < 0.005


def test_a_small_sample_without_zeros_is_no_certainty():
    theta, truth = np.arange(20.0), np.arange(20) >= 10
    certain = fit_isotonic(theta, truth).probability(19.0)
    doubtful = fit_isotonic(theta, truth, np.where(truth, 1.0, 100.0)).probability(19.0)
    assert doubtful < 0.3 < 0.9 < certain


@pytest.mark.parametrize("score", [0.8309833188891115, 0.6927433679651523, 0.42037879572926085])
def test_adjacent_scores_are_two_knots_in_order(score):
    """The mean of equal numbers may be off by a rounding error, which is all that lies between these two."""
    for n in range(3, 40):
        theta = np.repeat([score, np.nextafter(score, 1)], n)
        truth = np.arange(2 * n) % n < np.repeat([1, n - 1], n)
        link = fit_isotonic(theta, truth, np.full(2 * n, 0.1))
        assert link.scores == (score, np.nextafter(score, 1))


def test_an_isotonic_map_has_few_knots():
    rng = np.random.default_rng(0)
    theta = rng.uniform(0, 1, 200_000)
    link = fit_isotonic(theta, rng.random(len(theta)) < theta)
    assert 50 < len(link.scores) <= MAX_KNOTS
    np.testing.assert_allclose(link.probability(theta), theta, atol=0.03)


@each_map
@pytest.mark.parametrize(
    ("theta", "truth", "message"),
    [
        ([0.0, 1.0], [True, True], "calibration needs true and false cells, but all 2 held out are true"),
        ([0.0, 1.0], [False, False], "calibration needs true and false cells, but all 2 held out are false"),
        ([0.0, np.nan], [True, False], "scores must be finite, got 1 that are not; did the fit diverge?"),
    ],
)
def test_cells_that_cannot_be_learned_from_are_refused(learn, theta, truth, message):
    with pytest.raises(InputError, match=message):
        learn(np.array(theta), np.array(truth))


# --- held-out predictions


@each_estimator
def test_held_out_cells_are_scored_by_fits_without_them(estimator):
    facts = random_facts(15, 2, 80)
    predicted = cross_predict(estimator, facts, 3, 1, heldout_folds=2)
    assert len(predicted) == 2
    for part, cells in zip(predicted, cell_folds(facts, 3, 1), strict=False):
        np.testing.assert_array_equal(part.heldout.cells, cells)
        np.testing.assert_array_equal(part.heldout.truth, facts.contains(cells))
        f = clone(estimator).fit(facts.hold_out(cells, masked=True)).factors_
        np.testing.assert_allclose(part.scores, f.score(*cells.T), rtol=0.05, atol=0.02)  # threads differ, so rounding
        np.testing.assert_allclose(part.probabilities, f.link.probability(part.scores), rtol=1e-5)


@pytest.mark.parametrize("heldout_folds", [0, 4, True, 1.5])
def test_a_wrong_number_of_held_out_folds_is_refused(heldout_folds):
    with pytest.raises(InputError, match="heldout_folds must be between 1 and 3, the number of folds, got"):
        cross_predict(ALS, random_facts(), 3, heldout_folds=heldout_folds)


# --- the estimator


@each_estimator
@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_the_scores_stay_and_the_link_changes(estimator, method):
    facts = observed_in_part(noisy_world()[0])
    plain, calibrated = clone(estimator).fit(facts).factors_, Calibrated(estimator, method).fit(facts)
    np.testing.assert_array_equal(plain.A, calibrated.factors_.A)
    np.testing.assert_array_equal(plain.R, calibrated.factors_.R)
    assert calibrated.factors_.link.name == method
    assert len(calibrated.trace_) == calibrated.n_iter_ == plain.about["fit"]["steps"]


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_an_overconfident_model_gets_smaller_probabilities(method):
    """A model of high rank and hardly a penalty learns the noise by heart, and is sure of what it never saw."""
    facts, p = noisy_world()
    cells = np.stack([axis.ravel() for axis in np.indices((40, 40))], axis=1)
    fresh, _ = noisy_world(seed=1)
    truth = fresh.contains(np.insert(cells, 1, 0, axis=1))
    half = np.random.default_rng(0).permutation(1600)[:800]
    known = facts.hold_out(np.insert(cells[half], 1, 0, axis=1), masked=True)
    wild = relatent.RescalLogit(rank=10, l2_entities=0.05, l2_relations=0.05, tol=1e-3)

    def loss(estimator):
        given = estimator.fit(known).factors_.probability(cells[half, 0], 0, cells[half, 1])
        return log_loss(truth[half], given, None)

    before, after = loss(clone(wild)), loss(Calibrated(wild, method))
    best = log_loss(truth, p.ravel(), None)
    assert before > 2 * best
    assert after < 1.6 * best


def test_the_model_file_describes_the_calibration(tmp_path):
    facts = observed_in_part(noisy_world(20)[0])
    factors = Calibrated(ALS, "isotonic", 4, 3, heldout_folds=2).fit(facts).factors_
    found = factors.about["calibration"]
    assert {name: found[name] for name in ("method", "folds", "heldout_folds", "random_state", "cells")} == {
        "method": "isotonic",
        "folds": 4,
        "heldout_folds": 2,
        "random_state": 3,
        "cells": 200,
    }
    assert found["log_loss"] < found["log_loss_before"]
    assert found["ece"] < found["ece_before"]
    assert factors.about["model"] == "RescalALS"
    factors.save(tmp_path / "model.relatent")
    again = load(tmp_path / "model.relatent")
    assert (again.link, again.about) == (factors.link, factors.about)
    np.testing.assert_array_equal(again.probability(0, 0, range(20)), factors.probability(0, 0, range(20)))


def test_the_first_folds_are_held_out():
    facts = observed_in_part(noisy_world(20)[0])
    [first] = cross_predict(ALS, facts, 4, heldout_folds=1)
    link = Calibrated(ALS, "platt", 4, heldout_folds=1).fit(facts).factors_.link
    assert link == fit_platt(first.scores, first.heldout.truth)


def test_few_facts_are_calibrated_and_one_is_refused():
    few = relatent.Facts.from_arrays(["a", "b", "c"], ["r"] * 3, ["b", "c", "a"])
    assert 0 < Calibrated(ALS).fit(few).factors_.probability("a", "r", "c") < 1
    with pytest.raises(InputError, match="calibration needs 2 facts or more, got 1"):
        Calibrated(ALS).fit(few.subset(np.arange(3) == 0))


def test_two_fits_are_equal_and_the_estimator_is_not_modified():
    facts, _ = noisy_world(20)
    estimator = clone(ALS)
    calibrated = Calibrated(estimator, folds=3)
    first, second = (calibrated.fit(facts).factors_ for _ in range(2))
    assert first.link == second.link
    np.testing.assert_array_equal(first.A, second.A)
    assert not hasattr(estimator, "factors_")


def test_settings_of_the_inner_estimator_are_nested_parameters():
    calibrated = clone(Calibrated(ALS, method="platt")).set_params(estimator__rank=2, folds=3)
    assert calibrated.get_params()["estimator__rank"] == 2
    assert calibrated.fit(noisy_world(20)[0]).factors_.rank == 2
    assert ALS.rank == 3


def test_a_calibrated_estimator_is_cross_validated_and_searched_like_any_other():
    facts, _ = noisy_world(20)
    search = [{"estimator__rank": 1}, {"estimator__rank": 2}]
    report = cross_validate(Calibrated(ALS, "platt", 3), facts, folds=3, search=search, metric="log_loss")
    assert report.searched == 2
    assert report.log_loss < report.baselines["base rate"]["log_loss"]


def test_a_calibrated_estimator_may_be_a_classifier_of_cells():
    cells = np.array([[s, 0, o] for s in range(12) for o in range(12)])
    model = relatent.CellClassifier(Calibrated(ALS, "platt", 3)).fit(cells, cells[:, 0] % 2 == 0)
    assert model.predict_proba(cells).shape == (144, 2)


class Plain(BaseEstimator):
    """Knows facts and nothing else: no validation, no progress, no checkpoint."""

    def fit(self, facts):
        fitted = clone(ALS).fit(facts)
        self.factors_, self.trace_ = dataclasses.replace(fitted.factors_), fitted.trace_
        return self


def test_anything_with_fit_factors_and_trace_can_be_calibrated():
    assert isinstance(
        Calibrated(Plain(), folds=3).fit(observed_in_part(noisy_world(20)[0])).factors_.link, IsotonicLink
    )


def test_progress_checkpoint_and_validation_reach_the_fits(tmp_path):
    facts, _ = noisy_world(20)
    held = cell_folds(facts, 10)[0]
    known, validation = facts.hold_out(held, masked=True), HeldOut(held, facts.contains(held))
    said = []
    calibrated = Calibrated(clone(LOGIT).set_params(patience=1), "platt", 3)
    calibrated.fit(known, validation, progress=lambda *news: said.append(news), checkpoint=tmp_path / "fit.checkpoint")
    assert said[-3:] == [(1, 3, "held-out cells"), (2, 3, "held-out cells"), (3, 3, "held-out cells")]
    assert len(said) > 3
    plain = clone(calibrated.estimator).fit(known, validation)
    np.testing.assert_array_equal(plain.factors_.A, calibrated.factors_.A)
    stopped = cross_predict(calibrated.estimator, known, 3, validation=validation)
    assert calibrated.factors_.link == fit_platt(
        np.concatenate([part.scores for part in stopped]), np.concatenate([part.heldout.truth for part in stopped])
    )


def test_mirrored_cells_do_not_give_the_answer_away():
    """All members of a group know each other, so the mirrored cell would give a fact away."""
    facts = cliques(12, 4)
    for part in cross_predict(ALS, facts, 4):
        mirrors = part.heldout.cells[:, ::-1]
        held = {tuple(cell) for cell in part.heldout.cells.tolist()}
        assert all(tuple(cell) in held for cell in mirrors.tolist())


def test_large_graphs_are_calibrated_on_sampled_zeros(monkeypatch):
    facts = observed_in_part(noisy_world(40)[0])
    full = Calibrated(ALS, "platt", 4).fit(facts).factors_
    monkeypatch.setattr(folds_module, "MAX_FOLD_CELLS", 100)
    monkeypatch.setattr(cross_validation, "ZEROS_PER_FACT", 1)
    sampled = Calibrated(ALS, "platt", 4).fit(facts).factors_
    assert sampled.about["calibration"]["cells"] < full.about["calibration"]["cells"] == 1599
    theta = np.linspace(0, 1, 11)
    np.testing.assert_allclose(sampled.link.probability(theta), full.link.probability(theta), atol=0.1)


@pytest.mark.parametrize(
    ("calibrated", "message"),
    [
        (Calibrated(), r"estimator must be given, for example Calibrated\(RescalLogit\(rank=10\)\)"),
        (Calibrated(ALS, "beta"), "method must be 'isotonic' or 'platt', got 'beta'"),
        (Calibrated(ALS, folds=1), "folds must be at least 2, got 1"),
        (Calibrated(ALS, heldout_folds=21), "heldout_folds must be between 1 and 20, the number of folds, got 21"),
        (Calibrated(ALS, missing=0), "missing must be a share between 0 and 1, got 0"),
        (Calibrated(ALS, missing=1.5), "missing must be a share between 0 and 1, got 1.5"),
        (Calibrated(ALS, missing="few"), "missing must be a share between 0 and 1, got 'few'"),
        (
            Calibrated(ALS, random_state=-1),
            "random_state must be a whole number of at least 0, a numpy Generator or None, got -1",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(calibrated, message):
    with pytest.raises(InputError, match=message):
        calibrated.fit(random_facts())


def test_anything_but_facts_is_refused():
    with pytest.raises(InputError, match="fit takes Facts, got list"):
        Calibrated(ALS).fit([])


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_factors_that_have_shrunk_to_zero_give_the_base_rate(method):
    facts = relatent.load_dataset("presidents")
    with pytest.warns(RelatentWarning, match="shrunk to zero"):
        model = Calibrated(relatent.RescalALS(5, 10, 10), method=method, folds=3, heldout_folds=1).fit(facts).factors_
    p = model.probability(np.arange(90)[:, None], 0, np.arange(90))
    assert np.ptp(p) < 1e-6
    n = facts.counts()[0]
    assert p.mean() == pytest.approx(n / 9 / (facts.n_observed()[0] - n), rel=0.05)  # a tenth is missing
