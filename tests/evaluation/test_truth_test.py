"""Thresholds per relation, learned from other statements than those that are judged."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from relatent import DataWarning, Factors, Facts, InputError, truth_test
from relatent.data.names import Names
from relatent.evaluation.reliability import expected_calibration_error
from relatent.model.calibration import Calibration
from relatent.model.links import RankingLink
from relatent.model.objective_description import ObjectiveTerm

RNG = np.random.default_rng(0)
N = 40


def model(scores) -> Factors:
    """With A the identity, scores[k, i, j] is the score of (i, k, j)."""
    k, n, _ = scores.shape
    return Factors(np.eye(n), scores, np.zeros(k), Names(n), Names([f"r{i}" for i in range(k)]))


def statements(mask) -> Facts:
    """The statements (i, k, j) where mask[k, i, j]."""
    k, i, j = np.nonzero(mask)
    names = {"n_entities": N, "relation_names": [f"r{i}" for i in range(len(mask))]}
    return Facts.from_arrays(i, k, j, **names)


def divided(truth, chosen):
    """True and false statements among the chosen ones."""
    return statements(truth & chosen), statements(~truth & chosen)


@pytest.fixture(scope="module")
def shifted():
    """Truth begins at another score in each relation: 4, −4, 0; the last relation has no validation statements."""
    scores = RNG.normal(size=(3, N, N)) * 3 + np.array([4, -4, 0])[:, None, None]
    truth = scores > np.array([4, -4, 0])[:, None, None]
    chosen = RNG.random(scores.shape) < 0.3
    tested = RNG.random(scores.shape) < 0.5
    validated = chosen & ~tested & (np.arange(3) < 2)[:, None, None]
    facts, negatives = divided(truth, chosen & tested)
    validation, validation_negatives = divided(truth, validated)
    given = {"validation": validation, "validation_negatives": validation_negatives}
    return model(scores), facts, negatives, given


def test_each_relation_has_its_own_threshold(shifted):
    factors, facts, negatives, validation = shifted
    found = truth_test(factors, facts, negatives, **validation)
    assert found.thresholds == pytest.approx([4, -4, 0], abs=0.5)
    assert found.accuracy > 0.95
    assert found.uncalibrated.accuracy < 0.8
    assert found.baseline.accuracy < 0.6
    assert found.n_validation == len(validation["validation"]) + len(validation["validation_negatives"])
    assert found.protocol == "thresholds per relation from the validation statements"
    assert set(found.by_relation) == {"r0", "r1", "r2"}  # r2 has the mean of the other maps


def test_without_validation_the_halves_of_the_statements_judge_each_other(shifted):
    factors, facts, negatives, _ = shifted
    found = truth_test(factors, facts, negatives)
    assert found.accuracy > 0.95
    assert found.n_validation == 0
    assert np.isnan(found.thresholds).all()
    assert found.protocol == "each half of the statements judged by thresholds per relation from the other half"
    again, other = (truth_test(factors, facts, negatives, random_state=seed).probabilities for seed in (0, 1))
    np.testing.assert_array_equal(found.probabilities, again)
    assert (found.probabilities != other).any()


@pytest.mark.parametrize("with_validation", [False, True])
def test_scores_that_mean_nothing_are_worth_nothing(with_validation):
    """Thresholds chosen on the statements that they judge would seem better than chance."""
    rng = np.random.default_rng(1)
    scores, truth = rng.normal(size=(60, N, N)), rng.random((60, N, N)) < 0.5
    chosen, other = rng.random((2, *scores.shape)) < 0.01
    facts, negatives = divided(truth, chosen)
    given = dict(zip(("validation", "validation_negatives"), divided(truth, other & ~chosen), strict=True))
    found = truth_test(model(scores), facts, negatives, **(given if with_validation else {}))
    assert found.accuracy == pytest.approx(0.5, abs=0.06)
    assert found.overall.auc_roc == pytest.approx(0.5, abs=0.06)


def test_probabilities_of_a_noisy_truth_are_calibrated():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(4, N, N)) * 2
    shift = np.array([3, -3, 1, 0])[:, None, None]
    truth = rng.random(scores.shape) < 1 / (1 + np.exp(-scores - shift))
    chosen = rng.random(scores.shape) < 0.5
    given = dict(zip(("validation", "validation_negatives"), divided(truth, ~chosen), strict=True))
    found = truth_test(model(scores), *divided(truth, chosen), **given)
    assert found.overall.ece < 0.03 < found.uncalibrated.ece
    assert found.thresholds == pytest.approx([-3, 3, -1, 0], abs=0.3)


def test_figures_are_those_of_the_probabilities(shifted):
    factors, facts, negatives, validation = shifted
    found = truth_test(factors, facts, negatives, **validation)
    p, truth = found.probabilities, found.truth
    called = p >= 0.5
    hits = np.sum(called & truth)
    assert found.overall == (
        len(truth),
        np.mean(called == truth),
        pytest.approx(2 * hits / (called.sum() + truth.sum())),
        roc_auc_score(truth, p),
        expected_calibration_error(truth, p),
    )
    assert sum(row.n for row in found.by_relation.values()) == len(facts) + len(negatives)
    sizes = [row.n for row in found.by_relation.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_scores_that_are_no_probabilities_are_not_taken_for_some(shifted):
    factors, facts, negatives, validation = shifted
    found = truth_test(
        replace(factors, loss=ObjectiveTerm("softmax"), link=RankingLink()), facts, negatives, **validation
    )
    assert found.uncalibrated is found.to_dict()["uncalibrated"] is None
    assert found.accuracy == truth_test(factors, facts, negatives, **validation).accuracy


def test_the_calibration_of_each_relation_gives_the_model_its_probabilities(shifted):
    factors, facts, negatives, _ = shifted
    constant = Calibration.of_lines([([-9.0], [log_odds]) for log_odds in (-1.0, 0.0, 2.0)])
    found = truth_test(replace(factors, calibration=constant), facts, negatives)
    np.testing.assert_allclose(found.model_probabilities, expit(np.array([-1, 0, 2]))[found.relation_ids])


def test_perfectly_separated_statements_have_finite_maps():
    scores = np.zeros((1, N, N))
    scores[0, 0, :] = np.linspace(-1, 1, N)
    truth, chosen = scores > 0, np.zeros(scores.shape, bool)
    chosen[0, 0] = True
    found = truth_test(model(scores), *divided(truth, chosen))
    assert found.accuracy > 0.95
    assert np.isfinite(found.probabilities).all()


# --- statements that cannot be used


def test_statements_with_unknown_names_are_left_out(shifted):
    factors, facts, negatives, _ = shifted
    more = Facts.from_arrays(*zip(*negatives.named(), ("Zoe", "r0", "1"), strict=True))
    with pytest.warns(DataWarning, match="1 statements are left out: they have names that the model does not know"):
        found = truth_test(factors, facts, more)
    assert found.n_unseen == 1
    assert found.overall.n == len(facts) + len(negatives)
    strange = Facts.from_arrays(["Zoe"], ["r0"], ["Yan"])
    with pytest.raises(InputError, match="the model knows the names of no false statement; pass statements from the"):
        truth_test(factors, facts, strange)


def test_a_statement_is_either_true_or_false(shifted):
    factors, facts, _, _ = shifted
    with pytest.raises(InputError, match=rf"either true or false, got {len(facts)} that are both; list each once"):
        truth_test(factors, facts, facts)


def test_validation_statements_are_other_statements(shifted):
    factors, facts, negatives, validation = shifted
    given = {**validation, "validation": facts}
    warns = pytest.warns(DataWarning, match=rf"{len(facts)} validation statements are test statements as well")
    with warns, pytest.raises(InputError, match=r"validation needs true and false statements, got 0 of \d+ true"):
        truth_test(factors, facts, negatives, **given)


def test_validation_needs_both_kinds(shifted):
    factors, facts, negatives, validation = shifted
    for given, missing in (("validation", "validation_negatives"), ("validation_negatives", "validation")):
        with pytest.raises(InputError, match=f"^{given} needs {missing}: thresholds separate"):
            truth_test(factors, facts, negatives, **{given: validation[given]})


def test_an_estimator_is_refused_with_the_remedy(shifted):
    _, facts, negatives, _ = shifted
    with pytest.raises(InputError, match=r"truth_test takes Factors, got str; pass estimator.factors_"):
        truth_test("model", facts, negatives)


# --- form


def test_the_result_is_json_a_data_frame_and_a_line(shifted):
    factors, facts, negatives, validation = shifted
    found = truth_test(factors, facts, negatives, **validation)
    document = found.to_dict()
    assert json.loads(json.dumps(document)) == document
    assert document["accuracy"] == found.accuracy
    assert document["n_true"] == len(facts)
    assert document["by_relation"]["r0"]["threshold"] == found.thresholds[0]
    table = found.to_pandas()
    assert table["relation"].tolist() == list(found.by_relation)
    assert table["accuracy"].tolist() == [row.accuracy for row in found.by_relation.values()]
    assert repr(found).startswith(f"TruthTest({found.overall.n} statements, accuracy 0.9")
