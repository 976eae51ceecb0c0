"""What is particular to each estimator; what they share is in test_contract.py."""

import warnings

import numpy as np
import pytest
import scipy.optimize

import relatent
from reference_sums import logistic, squared
from relatent.backend.numpy_backend import NumpyBackend
from relatent.data.dense_tensors import dense_tensors
from relatent.errors import RelatentWarning
from relatent.fit import automatic_settings as automatic
from relatent.fit.penalised_likelihood import Layout, PenalisedLikelihood
from relatent.fit.penalties import L2, N3, Dura
from relatent.model.links import LogisticLink, SmoothLink
from small_graphs import all_scores, blocks, cliques, random_facts, relative_error

pytestmark = pytest.mark.usefixtures("one_thread")
FACTS = random_facts(20, 3, 150, unobserved=60, weighted=True)


# --- least squares


def test_the_propagation_of_the_paper_works_on_the_presidents():
    """A president's party is told by his vice presidents': far more often than the commonest party would be right."""
    facts = relatent.load_dataset("presidents")
    party = facts.relations.id("party")
    parties = np.unique(facts.objects[facts.triples[:, 1] == party])
    right, commonest = [], []
    for cells in relatent.presidents_folds(facts):
        train = facts.hold_out(cells, masked=False)
        factors = relatent.RescalALS(rank=5, l2_entities=0.1, l2_relations=0.1, calibrate=False).fit(train).factors_
        people = np.unique(cells[:, 0])
        best = parties[np.argmax(factors.score(people[:, None], party, parties), axis=1)]
        most = np.bincount(train.objects[train.triples[:, 1] == party]).argmax()
        for predicted, hits in ((best, right), (np.full_like(best, most), commonest)):
            hits += facts.contains(np.stack([people, np.full_like(people, party), predicted], axis=1)).tolist()
    assert len(right) == 39
    assert np.mean(right) > 0.7
    assert np.mean(commonest) < 0.45


def test_the_trace_of_least_squares_is_the_stated_objective():
    model = relatent.RescalALS(4, 0.1, 0.2, dtype="float64", tol=1e-9, max_iter=20_000, calibrate=False).fit(FACTS)
    f = model.factors_
    value = squared(FACTS, f.A, f.R) + 0.1 * np.sum(f.A**2) + 0.2 * np.sum(f.R**2)
    assert value == pytest.approx(model.trace_.objective[-1], rel=1e-6)


def test_least_squares_has_no_bias_and_its_scores_estimate_the_cells():
    f = relatent.RescalALS(20, 1e-6, 1e-6, calibrate=False).fit(random_facts(20, 3, 150)).factors_
    assert isinstance(f.link, SmoothLink)
    assert not f.bias.any()
    np.testing.assert_allclose(all_scores(f.A, f.R), dense_tensors(random_facts(20, 3, 150))[0], atol=0.01)


def test_attribute_factors_come_with_attributes_only():
    facts = random_facts(20, 3, 150, attributes=4)
    model = relatent.RescalALS(5, 0.1, 0.1, l2_attributes=0.1, tol=1e-3, calibrate=False).fit(facts)
    assert model.attribute_factors_.shape == (5, 4)
    known = ~np.isnan(facts.attributes)
    residual = facts.attributes - model.factors_.A @ model.attribute_factors_
    assert np.mean(residual[known] ** 2) < 0.8 * np.mean(facts.attributes[known] ** 2)
    assert model.fit(facts.without_attributes()).attribute_factors_ is None


@pytest.mark.filterwarnings("ignore:all factors have shrunk to zero")
def test_without_a_rank_there_are_fifty_components_or_as_many_as_entities_or_few_for_a_dense_network():
    assert relatent.RescalALS(tol=0.1, calibrate=False).fit(random_facts(20, 3, 50)).factors_.rank == 20
    assert relatent.RescalALS(tol=0.1, calibrate=False).fit(random_facts(70, 3, 50)).factors_.rank == 50
    assert relatent.RescalALS(tol=0.1, calibrate=False).fit(random_facts(80, 1, 30)).factors_.rank == 50  # sparse
    assert relatent.RescalALS(tol=0.1, calibrate=False).fit(random_facts(60, 1, 200)).factors_.rank == 6
    assert relatent.RescalALS(tol=0.1, calibrate=False).fit(random_facts(20, 2, 50)).factors_.rank == 4


# --- the likelihood


def stationary(bias=True):
    settings = {"tol": 1e-9, "max_iter": 20_000, "dtype": "float64"}
    return relatent.RescalLogit(4, 0.1, 0.2, bias=bias, **settings, calibrate=False).fit(FACTS).factors_


@pytest.mark.parametrize("bias", [True, False])
def test_a_fit_of_the_likelihood_ends_where_its_gradient_is_zero(bias):
    f = stationary(bias)
    loss = logistic(FACTS, f.A, f.R, f.bias)
    np.testing.assert_allclose(loss.dA + 2 * 0.1 * f.A, 0, atol=0.02)
    np.testing.assert_allclose(loss.dR + 2 * 0.2 * f.R, 0, atol=0.02)
    if bias:
        np.testing.assert_allclose(loss.db, 0, atol=0.02)
    else:
        assert not f.bias.any()


def test_an_unpenalised_bias_makes_the_probabilities_add_up_to_the_facts():
    facts = random_facts(20, 3, 150)
    f = (
        relatent.RescalLogit(4, 0.5, 0.5, bias=True, tol=1e-7, max_iter=5000, dtype="float64", calibrate=False)
        .fit(facts)
        .factors_
    )
    p = f.probability(np.arange(20)[:, None, None], np.arange(3)[:, None], np.arange(20)).sum(axis=(0, 2))
    np.testing.assert_allclose(p, facts.counts(), rtol=1e-3)


def test_scipy_finds_nothing_lower():
    """From the fitted factors SciPy's L-BFGS, on the plain objective in double precision, gains next to nothing."""
    f = relatent.RescalLogit(4, 0.1, 0.2, bias=True, tol=1e-6, max_iter=5000, calibrate=False).fit(FACTS).factors_
    layout = Layout(20, 3, 4)

    def objective(x):
        A, R, b = layout.views(x)
        loss = logistic(FACTS, A, R, b)
        value = loss.value + 0.1 * np.sum(A**2) + 0.2 * np.sum(R**2)
        return value, layout.pack(loss.dA + 0.2 * A, loss.dR + 0.4 * R, loss.db, np.float64)

    x = layout.pack(f.A, f.R, f.bias, np.float64)
    better = scipy.optimize.minimize(objective, x, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    assert objective(x)[0] == pytest.approx(better.fun, rel=2e-3)


def test_the_trace_of_the_likelihood_is_the_stated_objective_and_never_rises():
    model = relatent.RescalLogit(4, 0.1, 0.2, calibrate=False).fit(FACTS)
    f = model.factors_
    value = logistic(FACTS, f.A, f.R, f.bias).value + 0.1 * np.sum(f.A**2) + 0.2 * np.sum(f.R**2)
    assert value == pytest.approx(model.trace_.objective[-1], rel=1e-5)
    assert (np.diff(model.trace_.objective) <= 0).all()


def test_the_likelihood_speaks_in_log_odds():
    f = stationary()
    assert isinstance(f.link, LogisticLink)
    theta = f.score(0, 0, np.arange(20))
    np.testing.assert_allclose(f.probability(0, 0, np.arange(20)), 1 / (1 + np.exp(-theta)))


def test_auto_is_exact():
    auto, exact = (
        relatent.RescalLogit(4, 0.1, 0.2, method=m, calibrate=False).fit(FACTS).factors_ for m in ("auto", "exact")
    )
    np.testing.assert_array_equal(auto.A, exact.A)


def test_a_symmetric_world_gets_symmetric_probabilities():
    facts = cliques()
    f = relatent.RescalLogit(6, 0.1, 0.1, tol=1e-7, max_iter=3000, dtype="float64", calibrate=False).fit(facts).factors_
    theta = all_scores(f.A, f.R)[0]
    assert relative_error(theta, theta.T) < 0.01


@pytest.mark.parametrize("penalty", [L2(0.3, 0.7), Dura(0.2), Dura(0.2, 0.5), N3(0.1)], ids=repr)
def test_the_penalised_likelihood_has_the_gradient_of_its_value(penalty):
    facts = random_facts(8, 2, 30, unobserved=20, weighted=True)
    layout = Layout(8, 2, 3)
    rng = np.random.default_rng(0)
    x = rng.normal(size=8 * 3 + 2 * 9 + 2)

    def evaluator(A, R, b, *, value):
        return logistic(facts, A, R, b)

    for bias in (True, False):
        backend = NumpyBackend("float64")
        objective = PenalisedLikelihood(evaluator, layout, penalty.bound(facts, backend), bias=bias, backend=backend)
        _, gradient = objective(x)
        free = len(x) if bias else len(x) - 2
        numeric = scipy.optimize.approx_fprime(x, lambda y: objective(y)[0], 1e-6)[:free]  # noqa: B023
        np.testing.assert_allclose(gradient[:free], numeric, rtol=1e-4, atol=1e-4)
        assert bias or not gradient[free:].any()


def test_a_vector_is_laid_out_and_read_back():
    layout = Layout(3, 2, 2)
    A, R, b = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(2, 2, 2), np.array([7.0, 9.0])
    x = layout.pack(A, R, b, np.float32)
    assert x.dtype == np.float32
    for part, wanted in zip(layout.views(x), (A, R, b), strict=True):
        np.testing.assert_array_equal(part, wanted)
        assert part.base is not None, "views, not copies"


@pytest.mark.parametrize("model", [relatent.RescalALS(2, 10, 10), relatent.RescalLogit(2, 1, 1)])
def test_factors_that_shrink_to_nothing_are_warned_about_with_the_remedy(model):
    facts = relatent.Facts.from_arrays([0, 1], [0, 0], [1, 2])
    with pytest.warns(RelatentWarning, match="shrunk to zero: .* lower l2_entities and l2_relations"):
        model.fit(facts)


# --- exact or sampled


def test_auto_is_exact_if_that_is_affordable_and_the_model_says_so(monkeypatch):
    model = relatent.RescalLogit(rank=2, max_iter=20, tol=0.1)
    assert model.fit(blocks()).method_ == model.factors_.about.fit.method == "exact"
    monkeypatch.setattr(automatic, "MAX_EXACT_CELLS", 1)
    monkeypatch.setattr(automatic, "SAMPLED_CELLS_PER_FACT", 0.1)
    assert model.fit(blocks()).method_ == model.factors_.about.fit.method == "sampled"
    other = relatent.Rescal(rank=2, loss="squared", max_iter=20, tol=0.1)
    assert other.fit(blocks()).method_ == "exact", "only the logistic loss is sampled"


def test_millions_of_entities_are_sampled_and_a_family_is_not():
    model = relatent.RescalLogit(rank=50)
    assert model.method_for(relatent.load_dataset("kinships")) == "exact"
    assert model.method_for(relatent.Facts.from_arrays([0], [0], [1], n_entities=3_000_000)) == "sampled"


@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_typed_zeros_leave_other_cells_unobserved(method):
    """Facts only between 0–9 and 10–19: nothing is learned about other cells, and the bias is that of these pairs."""
    rng = np.random.default_rng(0)
    facts = relatent.Facts.from_arrays(rng.integers(0, 10, 80), [0] * 80, rng.integers(10, 20, 80), n_entities=200)
    rules = {"rank": 2, "l2_entities": 3.0, "l2_relations": 3.0, "max_iter": 200, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.errors.VanishedWarning)
        typed = relatent.RescalLogit(**rules, zeros="typed", method=method, calibrate=False).fit(facts)
        everywhere = relatent.RescalLogit(**rules, method=method, calibrate=False).fit(facts)
    s, o = np.divmod(np.arange(100), 10)
    share = len(facts) / 100
    assert np.mean(typed.factors_.probability(s, 0, o + 10)) == pytest.approx(share, abs=0.03)
    assert np.mean(everywhere.factors_.probability(s, 0, o + 10)) < share


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "guess"}, "method must be 'auto', 'exact' or 'sampled', got 'guess'"),
        ({"zeros": "some"}, "zeros must be 'all' or 'typed', got 'some'"),
        ({"zeros": "typed", "loss": "hinge"}, "zeros='typed' is for the logistic loss, got 'hinge'"),
        ({"loss": "hinge", "method": "sampled"}, "method='sampled' is for logistic and softmax losses, got 'hinge'"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings, message):
    with pytest.raises(relatent.RelatentError, match=message):
        relatent.Rescal(rank=2, **settings, calibrate=False).fit(blocks())
