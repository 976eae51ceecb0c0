import os
import sys

import numpy as np
import pytest
from scipy.special import expit, logit

from relatent.errors import InputError
from relatent.evaluation.reliability import Reliability, draw_reliability, expected_calibration_error, reliability


@pytest.fixture
def honest():
    """Cells that are true as often as their probability says."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=50_000)
    return rng.random(len(p)) < p, p


# --- figures


def test_probabilities_that_come_true_have_no_calibration_error(honest):
    assert expected_calibration_error(*honest) < 0.01
    assert expected_calibration_error(*honest, above=0.5) < 0.01


def test_probabilities_too_sure_of_themselves_have_the_error_they_were_given(honest):
    truth, p = honest
    sure = expit(2 * logit(p))
    assert expected_calibration_error(truth, sure, bins=50) == pytest.approx(np.abs(sure - p).mean(), abs=0.01)


def test_one_bin_is_the_gap_of_the_means(honest):
    truth, p = honest
    assert expected_calibration_error(truth, p**2, bins=1) == pytest.approx(truth.mean() - (p**2).mean())


def test_bins_have_equal_mass_and_rise(honest):
    curve = reliability(*honest, bins=20)
    np.testing.assert_allclose(curve.mass, 2500, atol=1)
    assert (np.diff(curve.predicted) > 0).all()
    assert curve.mass.sum() == 50_000


def test_bins_are_those_of_a_plain_loop():
    truth, p = np.array([0, 0, 1, 0, 1, 1], bool), np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    curve = reliability(truth, p, bins=3)
    np.testing.assert_allclose(curve.predicted, [0.15, 0.35, 0.55])
    np.testing.assert_allclose(curve.observed, [0, 0.5, 1])
    np.testing.assert_allclose(curve.mass, 2)
    assert curve.error == pytest.approx((0.15 + 0.15 + 0.45) / 3)


def test_cells_alike_share_a_bin_and_their_order_does_not_matter():
    rng = np.random.default_rng(0)
    p = rng.choice([0.1, 0.5, 0.9], 1000)
    truth = rng.random(1000) < p
    order = rng.permutation(1000)
    one, other = reliability(truth, p, bins=10), reliability(truth[order], p[order], bins=10)
    np.testing.assert_allclose(one.predicted, [0.1, 0.5, 0.9])
    np.testing.assert_array_equal(one, other)


def test_a_weight_stands_for_so_many_cells():
    rng = np.random.default_rng(0)
    p, weights = rng.random(300), rng.integers(1, 5, 300)
    truth = rng.random(300) < p
    weighted = reliability(truth, p, weights.astype(float))
    repeated = reliability(np.repeat(truth, weights), np.repeat(p, weights))
    for one, other in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(one, other)


def test_only_cells_above_the_threshold_count():
    truth, p = np.array([True, False, True]), np.array([0.05, 0.04, 0.9])
    assert reliability(truth, p, above=0.05).mass.tolist() == [1]
    assert np.isnan(expected_calibration_error(truth, p, above=0.95))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([True], [0.5, 0.5]), r"truth, probabilities and weights must be equally long, got \[1, 2\]"),
        (([True], [1.5]), "probabilities must be within 0 and 1, got 1.5"),
        (([True], [np.nan]), "probabilities must be within 0 and 1, got nan"),
        (([True], [0.5], None, 0), "bins must be a whole number of at least 1, got 0"),
    ],
)
def test_what_has_no_reliability_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        reliability(*arguments)


# --- the picture


@pytest.fixture
def curves(honest):
    truth, p = honest
    return {"too sure": reliability(truth, expit(2 * logit(p))), "honest": reliability(truth, p)}


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("SVG", b"<?xml")])
def test_a_picture_is_of_the_kind_its_name_says(curves, tmp_path, ending, start):
    path = tmp_path / f"curve.{ending}"
    draw_reliability(curves, path, title="4 folds")
    assert path.read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [path.name]


def test_the_same_curves_give_the_same_bytes(curves, tmp_path):
    for name in ("one.svg", "two.svg"):
        draw_reliability(curves, tmp_path / name, title="4 folds")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_curve_without_cells_is_drawn_all_the_same(tmp_path):
    nothing = Reliability(*np.empty((3, 0)))
    draw_reliability({"nothing": nothing}, tmp_path / "curve.svg")
    draw_reliability({}, tmp_path / "none.svg")
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("curve.gif", "a picture must end in .png or .svg"),
        ("curve", "a picture must end in .png or .svg"),
        ("missing/curve.svg", "does not exist; create it first"),
        ("folder.svg", "is a folder; give the name of a file in it"),
    ],
)
def test_a_place_for_no_picture_is_refused(curves, tmp_path, name, message):
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InputError, match=message):
        draw_reliability(curves, tmp_path / name)


def test_a_picture_that_cannot_be_written_leaves_the_old_one(curves, tmp_path, monkeypatch):
    path = tmp_path / "curve.svg"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="the picture could not be written: no space left"):
        draw_reliability(curves, path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["curve.svg"]


def test_without_matplotlib_the_remedy_is_told(curves, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pictures need matplotlib; install it with: pip install 'relatent\[plot\]'"):
        draw_reliability(curves, tmp_path / "curve.svg")
