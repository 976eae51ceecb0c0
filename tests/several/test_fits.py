"""Several workers find what one finds alone."""

import warnings

import numpy as np
import pytest
import sklearn.base

pytest.importorskip("torch", reason="several workers need torch (make test-torch)")

import launcher
from fits import fits

pytestmark = pytest.mark.torch

NAMES = [name for name, *_ in fits()]
TOLERANCE = {"als single": 1e-4, "logit single": 1e-3}  # others are in double precision but for their start


@pytest.fixture(scope="module", params=[2, 4], ids=lambda size: f"{size} workers")
def together(request, tmp_path_factory):
    """What each worker has found, fit by fit."""
    folder = tmp_path_factory.mktemp("fits")
    for code, _, err in launcher.run(request.param, launcher.HERE / "fits.py", folder):
        assert code == 0, err
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(request.param)]


@pytest.fixture(scope="module")
def alone():
    """The same fits in one process."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, estimator, facts, validation in fits():
            found[name] = sklearn.base.clone(estimator).fit(facts, validation)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_several_workers_find_what_one_finds_alone(name, together, alone):
    wanted, tolerance = alone[name], TOLERANCE.get(name, 1e-5)
    objective = together[0][f"{name}/objective"]
    np.testing.assert_allclose(objective, wanted.trace_.objective, rtol=1e-5 if name in TOLERANCE else 1e-6)
    for key, factor in (("A", wanted.factors_.A), ("R", wanted.factors_.R), ("b", wanted.factors_.bias)):
        scale = max(np.abs(factor).max(), 1e-3)
        np.testing.assert_allclose(together[0][f"{name}/{key}"] / scale, factor / scale, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_all_workers_end_with_the_same_factors(name, together):
    for other in together[1:]:
        for key in ("A", "R", "b", "objective", "fingerprint"):
            np.testing.assert_array_equal(other[f"{name}/{key}"], together[0][f"{name}/{key}"])


@pytest.mark.parametrize("name", NAMES)
def test_the_fingerprint_of_facts_does_not_depend_on_who_has_them(name, together, alone):
    assert str(together[0][f"{name}/fingerprint"]) == alone[name].factors_.about["data"]["fingerprint"]
