"""Several workers find what one finds alone."""

import warnings

import numpy as np
import pytest
import sklearn.base

pytest.importorskip("torch", reason="several workers need torch (make test-torch)")

import launcher
from fits import fits
from odd_graphs import odd_fits

pytestmark = pytest.mark.torch

NAMES = [name for name, *_ in fits()]
TOLERANCE = {"als single": 1e-3, "logit single": 1e-3}  # others are in double precision but for their start


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
    wanted, tolerance = alone[name], TOLERANCE.get(name, 1e-4)
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


@pytest.mark.parametrize("name", ["als calibrated", "sampled calibrated"])
def test_all_workers_say_the_probabilities_that_one_alone_says(name, together, alone):
    model = alone[name].factors_
    wanted = model.probability(0, 0, np.arange(len(model.entities)))
    np.testing.assert_allclose(together[0][f"{name}/p"], wanted, rtol=1e-2)
    for other in together[1:]:
        np.testing.assert_array_equal(other[f"{name}/p"], together[0][f"{name}/p"])


@pytest.mark.parametrize("name", NAMES)
def test_the_fingerprint_of_facts_does_not_depend_on_who_has_them(name, together, alone):
    assert str(together[0][f"{name}/fingerprint"]) == alone[name].factors_.about.data.fingerprint


# --- what goes over the network


def ring(size, *, summed=0, gathered=0):
    """Bytes that each of `size` workers sends for sums and gathers of so many bytes, as docs/scaling.md has it."""
    return (size - 1) / size * (2 * summed + gathered)


@pytest.mark.parametrize("name", ["als many", "als", "logit", "logit single"])
def test_a_step_sends_what_the_model_of_communication_says(name, together):
    estimator, facts = next((estimator, facts) for other, estimator, facts, _ in fits() if other == name)
    n, k, r = facts.n_entities, facts.n_relations, estimator.rank
    item = np.dtype(estimator.dtype).itemsize
    sent, size = together[0][f"{name}/sent"], len(together)
    if name.startswith("als"):
        wanted = ring(size, gathered=n * r * item + r * r * 8, summed=(k + 1) * r * r * 8)
        np.testing.assert_allclose(sent, wanted, rtol=0.1)
    else:  # a line search may take several sums
        evaluations = sent / ring(size, summed=(n * r + k * r * r) * item + 8 * (k + 1))
        np.testing.assert_allclose(evaluations, np.round(evaluations), atol=0.1)
        assert (np.round(evaluations) >= 1).all()


def test_a_sampled_step_sends_the_gradient_and_the_objects_that_were_drawn(together):
    n, k, r, size = 30_000, 2, 4, len(together)
    steps = 4  # of a round
    gradient = ring(size, summed=steps * (n * r + k * r * r) * 8)
    sent = together[0]["sampled many/sent"]
    assert (sent >= gradient).all()
    np.testing.assert_allclose(sent, gradient, rtol=0.1)


def test_several_workers_fit_odd_graphs_as_one_process_does(together):
    for name, estimator, facts in odd_fits():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = sklearn.base.clone(estimator).fit(facts).trace_.objective
        np.testing.assert_allclose(together[0][f"odd/{name}"], alone, rtol=1e-6, atol=1e-6, err_msg=name)
