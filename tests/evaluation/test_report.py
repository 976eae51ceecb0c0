import json

import numpy as np
import pytest

import relatent
from relatent.errors import RelatentWarning
from relatent.evaluation import folds as folds_module
from relatent.evaluation.cross_validation import cross_validate
from relatent.evaluation.reliability import expected_calibration_error
from small_graphs import random_facts

ALS = relatent.RescalALS(rank=3, l2_entities=0.1, l2_relations=0.1, tol=1e-2)


@pytest.fixture(scope="module")
def report():
    return cross_validate(ALS, random_facts(20, 2, 200), folds=4)


def test_calibration_is_measured_on_the_held_out_cells_of_all_folds_together(report):
    truth = np.concatenate([fold.heldout.truth for fold in report.folds])
    p = np.concatenate([fold.probabilities for fold in report.folds])
    assert report.ece == report.reliability.error == expected_calibration_error(truth, p, above=0.05)
    assert report.reliability.mass.sum() == np.sum(p > 0.05)


def test_calibration_is_written_as_json(report):
    written = json.loads(json.dumps(report.to_dict()))
    assert written["ece"] == report.ece
    assert [bin_["predicted"] for bin_ in written["reliability"]] == report.reliability.predicted.tolist()
    assert set(written["reliability"][0]) == {"predicted", "observed", "mass"}


def test_sampled_zeros_weigh_in_the_calibration(monkeypatch):
    monkeypatch.setattr(folds_module, "MAX_FOLD_CELLS", 100)
    facts = random_facts(20, 2, 200)
    sampled = cross_validate(ALS, facts, folds=4, zeros_per_fact=1)
    likely = sum(fold.heldout.weights[fold.probabilities > 0.05].sum() for fold in sampled.folds)
    assert sampled.reliability.mass.sum() == pytest.approx(likely)


@pytest.mark.filterwarnings("ignore:.*all factors have shrunk to zero")
def test_a_report_without_likely_cells_has_no_calibration_error():
    nothing = relatent.RescalLogit(rank=1, l2_entities=5, l2_relations=5, init="random")
    report = cross_validate(nothing, random_facts(30, 1, 12), folds=2)
    assert np.isnan(report.ece)
    assert report.to_dict()["ece"] is None
    assert report.to_dict()["reliability"] == []


def test_folds_whose_factors_have_shrunk_to_zero_are_counted_in_a_warning():
    with pytest.warns(RelatentWarning, match="in 3 of 3 fits all factors have shrunk to zero: .* lower l2_entities"):
        report = relatent.cross_validate(relatent.RescalALS(2, 10, 10), relatent.load_dataset("presidents"), folds=3)
    assert report.to_dict()["folds"][0]["vanished"] is True


def test_folds_become_rows_of_a_data_frame(report):
    table = report.to_pandas()
    assert table.auc_pr.tolist() == [fold.auc_pr for fold in report.folds]
    assert table.settings.tolist() == [{}] * 4


def test_a_fold_is_plain_data(report):
    found = report.folds[0].to_dict()
    assert found == report.to_dict()["folds"][0] == json.loads(json.dumps(found))
    assert (found["n_true"], found["converged"]) == (report.folds[0].metrics.n_true, True)
