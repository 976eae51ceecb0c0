"""`calibrate`: a model that exists gets the probabilities that its fit would have given it."""

from dataclasses import replace

import numpy as np
import pytest
import sklearn.base

import relatent
from grouped_world import ALS, grouped_world, judged
from relatent.errors import InputError
from relatent.model.provenance import UNKNOWN

PLAIN = sklearn.base.clone(ALS).set_params(calibrate=False)


@pytest.fixture(scope="module")
def parts():
    return relatent.split(grouped_world(), test_size=0.2)


def test_a_model_that_exists_is_calibrated_as_its_fit_would_have_done(parts):
    train, _ = parts
    plain = PLAIN.fit(train).factors_
    found, wanted = (
        relatent.calibrate(plain, missing=0.2),
        sklearn.base.clone(ALS).set_params(missing=0.2, patterns="none").fit(train),
    )
    for name in ("scores", "values", "shifts", "base_rates", "one_answer"):
        np.testing.assert_array_equal(
            getattr(found.calibration, name), getattr(wanted.factors_.calibration, name), err_msg=name
        )
    np.testing.assert_array_equal(found.A, plain.A)
    assert plain.calibration is None


def test_a_model_of_a_file_is_calibrated_without_the_data(parts, tmp_path):
    model = relatent.RescalLogit(4, 0.5, 0.5, max_iter=20, tol=0.1, calibrate=False).fit(parts[0]).factors_
    model.save(tmp_path / "m.relatent")
    loaded = relatent.load(tmp_path / "m.relatent")
    found, again = (relatent.calibrate(f, random_state=3).calibration for f in (model, loaded))
    np.testing.assert_array_equal(found.values, again.values)


def test_a_calibrated_model_may_be_told_another_share(parts):
    train, _ = parts
    model = sklearn.base.clone(ALS).fit(train).factors_
    found = relatent.calibrate(model, missing=0.4)
    assert (found.calibration.missing, found.calibration.is_assumed) == (0.4, False)
    assert found.calibration.expected == pytest.approx(len(train) * 0.4 / 0.6, rel=0.02)


def test_a_model_without_facts_is_told_what_to_give(parts):
    train, test = parts
    model = sklearn.base.clone(PLAIN).set_params(keep_facts=False).fit(train).factors_
    for given in ({}, {"validation": test}):
        with pytest.raises(InputError, match=r"does not hold the facts .* as known= or --known"):
            relatent.calibrate(model, **given)
        found = relatent.calibrate(model, known=train, **given)
        assert found.facts is None
        assert found.calibration.heldout_facts > 0


def test_validation_facts_calibrate_a_model_without_a_fit(parts, monkeypatch):
    train, test = parts
    valid, _ = relatent.split(test, test_size=0.5, keep_covered=False)
    model = PLAIN.fit(train).factors_
    monkeypatch.setattr(relatent.RescalALS, "_fit", None)
    found = relatent.calibrate(model, validation=valid, missing=0.2)
    assert found.calibration.heldout_facts == len(valid)
    p, truth, _ = judged(found, train, test)
    edges = [0, 0.01, 0.1, 0.3, 1]
    said, true = np.histogram(p, edges, weights=p)[0], np.histogram(p[truth], edges)[0]
    large = said >= 50
    assert large.sum() >= 2
    assert np.abs(np.log(said[large] / true[large])).max() < np.log(1.5)


def test_validation_facts_that_the_model_has_do_not_count(parts):
    train, test = parts
    model = PLAIN.fit(train).factors_
    some = train.subset(np.arange(len(train)) < 50)
    with pytest.raises(InputError, match="none of the 50 validation facts is new to the model"):
        relatent.calibrate(model, validation=some)
    both = relatent.Facts.from_ids(np.concatenate([some.triples, test.triples]), train.entities, train.relations)
    assert relatent.calibrate(model, validation=both).calibration.heldout_facts == len(test)


def test_validation_facts_may_name_entities_that_the_model_lacks(parts):
    train, test = parts
    model = PLAIN.fit(train).factors_
    rows = [*test.named(), ("a stranger", "0", "1")]
    assert relatent.calibrate(model, validation=relatent.read(rows)).calibration.heldout_facts == len(test)


@pytest.mark.parametrize("missing", [0, 1, 2, -0.5, float("nan"), "a tenth", True])
def test_a_share_that_is_none_is_refused(parts, missing):
    model = PLAIN.fit(parts[0]).factors_
    with pytest.raises(InputError, match="missing must be a share between 0 and 1, got"):
        relatent.calibrate(model, missing=missing)


def test_a_model_that_does_not_say_how_it_was_fitted_needs_validation_facts(parts):
    train, test = parts
    model = PLAIN.fit(train).factors_
    nameless = replace(model, R=model.relation_matrices, about=UNKNOWN)
    with pytest.raises(InputError, match="does not say how it was fitted"):
        relatent.calibrate(nameless)
    assert relatent.calibrate(nameless, validation=test).calibration is not None


def test_progress_counts_the_steps_of_the_fits(parts):
    reports = []
    model = PLAIN.fit(parts[0]).factors_
    relatent.calibrate(model, progress=lambda *report: reports.append(report))
    assert [done for done, *_ in reports] == list(range(1, len(reports) + 1))
    assert {note for *_, note in reports} == {"learning probabilities"}
