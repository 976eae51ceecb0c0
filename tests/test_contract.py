"""What every estimator promises, whatever its method and precision."""

import contextlib
import dataclasses
import inspect
import signal
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import relatent
from reference_sums import cellwise
from relatent.data.dense_tensors import dense_tensors
from relatent.data.heldout import HeldOut, log_loss
from relatent.errors import ConvergenceWarning, FitError, InputError
from relatent.fit.losses import Squared, resolve
from relatent.model.entity_regression import can_fold
from relatent.model.objective_description import ObjectiveTerm
from small_graphs import all_scores, blocks, chain, permuted, politics, random_facts, relative_error

PENALISED = {"rank": 4, "l2_entities": 0.1, "l2_relations": 0.1, "calibrate": False}  # probabilities have tests below
ESTIMATORS = {
    "als": relatent.RescalALS(**PENALISED, tol=1e-3),
    "logit": relatent.RescalLogit(**PENALISED, tol=1e-4),
    "sampled": relatent.RescalLogit(**PENALISED, method="sampled", max_iter=100),
    "adam": relatent.RescalLogit(**PENALISED, optimiser=relatent.Adam(0.1), method="exact", max_iter=100),
    "squared": relatent.Rescal(**PENALISED, loss="squared", tol=1e-4),
    "hinge": relatent.Rescal(**PENALISED, loss="hinge", tol=1e-4, max_iter=2000),
    "poisson": relatent.Rescal(**PENALISED, loss="poisson", tol=1e-4),
    "nonnegative": relatent.NonnegativeRescal(**PENALISED, tol=1e-4),
}
LOSSES = {"als": Squared(), "nonnegative": Squared()}
SURE = {"hinge": 0.7, "poisson": 0.6}  # response to a fact that fits: σ(1) at the margin, P(x > 0) at a mean of 1
by_schedule = "it ends with its schedule, and begins with long steps"
only_local = "multiplicative updates from a random start end in a local minimum"


@pytest.fixture(params=ESTIMATORS)
def kind(request):
    return request.param


SCHEDULED = ("sampled", "adam")  # kinds that end with a schedule
PLACES = {"float32": {"dtype": "float32"}, "float64": {"dtype": "float64"}}
PLACES |= {"cuda": {"dtype": "float32", "device": "cuda"}, "tf32": {"dtype": "tf32", "device": "cuda"}}
FACTS = random_facts(20, 3, 150)  # noise: fits of it end in one of many local minima


@cache
def fitted(kind, place):
    """An estimator with its usual settings after a fit of FACTS on one thread; tests share it and leave it as it is."""
    return clone(ESTIMATORS[kind]).set_params(**PLACES[place]).fit(FACTS)


@pytest.fixture(params=["float32", "float64", pytest.param("cuda", marks=pytest.mark.gpu)])
def make(request, kind, one_thread):
    """Makes estimators of one kind in one precision; on a GPU, those that can go there."""
    place = PLACES[request.param]
    if request.param == "cuda" and kind not in ("als", "logit", "adam"):
        pytest.skip("for the CPU only")

    def make(*, longest_schedule=300, **settings):
        if kind in SCHEDULED and "max_iter" in settings:  # a schedule, not a bound: what others may take, it would
            settings["max_iter"] = min(settings["max_iter"], longest_schedule)
        return clone(ESTIMATORS[kind]).set_params(**(place | settings))

    make.dtype = place["dtype"]
    make.place = request.param
    make.kind = kind
    make.fitted = lambda: fitted(kind, request.param)
    return make


def in_one_precision(dtype):
    """For tests of what does not depend on the precision: on the CPU one is enough."""
    return pytest.mark.parametrize("make", [dtype, pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)


def one_minimum(seed=0):
    """Three blocks and a few unobserved cells, and settings with which every start of every estimator ends alike."""
    facts, rng = blocks(24, groups=3), np.random.default_rng(seed)
    cells = np.stack([rng.integers(0, size, 60) for size in (24, 2, 24)], axis=1)
    return facts.hold_out(cells, masked=True), {"rank": 3, "tol": 1e-6, "max_iter": 3000}


def loss_of(estimator):
    by_type = next((LOSSES[kind] for kind in LOSSES if type(ESTIMATORS[kind]) is type(estimator)), None)
    return by_type or resolve(getattr(estimator, "loss", "logistic"))


def objective(estimator, facts):
    """The penalised loss at the fitted factors, by the reference implementation."""
    f = estimator.factors_
    A, R, b = (np.asarray(part, np.float64) for part in (f.A, f.R, f.bias))
    penalty = estimator.l2_entities * np.sum(A**2) + estimator.l2_relations * np.sum(R**2)
    return cellwise(loss_of(estimator).at, facts, A, R, b).value + penalty


def objective_of_zero_factors(estimator, facts):
    """The loss of a model that knows nothing but the base rates of the relations."""
    f, loss = estimator.factors_, loss_of(estimator)
    counts = facts.counts().astype(float)
    b = loss.bias(counts, facts.n_entities**2 - counts) if np.any(f.bias) else np.zeros(facts.n_relations)
    return cellwise(loss.at, facts, 0 * f.A, 0 * f.R, b).value


def response(f, *cells):
    """What the link of the loss makes of scores: the probability, if the loss has any."""
    return f.link.probability(f.score(*cells))


def assert_same_factors(first, second):
    for name in ("A", "R", "bias"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


# --- what the factors know of the fit, and what follows from it

TERMS = {"als": "squared", "nonnegative": "squared", "squared": "squared", "hinge": "hinge", "poisson": "poisson"}
FOLDING_IN = ("als", "logit", "sampled", "adam", "squared")  # kinds with a squared or logistic loss, and free vectors
PENALTIES = {"l2": None, "dura": relatent.Dura(0.02), "n3": relatent.N3(0.02)}


@pytest.mark.parametrize("penalty", PENALTIES)
def test_factors_know_their_loss_and_penalty_also_after_saving(make, penalty, tmp_path):
    takes_penalty = "penalty" in make().get_params()
    if penalty != "l2" and not takes_penalty:
        pytest.skip("has L2 penalties only")
    f = (make.fitted() if penalty == "l2" else make(penalty=PENALTIES[penalty]).fit(FACTS)).factors_
    f.save(tmp_path / "model.relatent")
    weights = {"l2": {"entities": 0.1, "relations": 0.1}, "n3": {"weight": 0.02}}
    weights["dura"] = {"weight": 0.02, "frequency_power": 1.0}
    for factors in (f, relatent.load(tmp_path / "model.relatent")):
        assert factors.loss == ObjectiveTerm(TERMS.get(make.kind, "logistic"))
        if make.kind == "nonnegative":
            assert factors.penalty.name == "nonnegative"
        else:
            assert factors.penalty == ObjectiveTerm(penalty, weights[penalty])
        assert can_fold(factors) == (make.kind in FOLDING_IN)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_new_entity_is_folded_in_and_explained_or_refused(make, penalty):
    """A newcomer with the facts of a president is of that president's party."""
    takes_penalty = "penalty" in make().get_params()
    if penalty != "l2" and not takes_penalty:
        pytest.skip("has L2 penalties only")
    if penalty != "l2" and make.place == "float64":
        pytest.skip("in single precision only")
    facts = politics()
    f = make(**({"penalty": PENALTIES[penalty]} if takes_penalty else {})).fit(facts).factors_
    new = relatent.Facts.from_arrays(["Eve"] * 3, ["party", *["vicePresident"] * 2], ["Red", "vice 3", "vice 5"])
    if make.kind not in FOLDING_IN:
        for call in (lambda: f.fold_in(new), lambda: relatent.explain(f, "vice 4", "party", "Blue")):
            with pytest.raises(InputError, match="folding in and explanations need"):
                call()
        return
    grown = f.fold_in(new, others=0.1)
    assert grown.A.dtype == make.dtype
    assert grown.score("Eve", "party", "Red") > grown.score("Eve", "party", "Blue")
    assert relatent.explain(f, "vice 4", "party", "Blue").reasons[0].influence > 0


# --- probabilities and facts


@in_one_precision("float32")
def test_every_model_has_probabilities_of_unlisted_facts_and_its_facts_unless_told_otherwise(make):
    said, settings = [], {"max_iter": 100, "tol": 0.01}
    estimator = make(calibrate=True, **settings).fit(FACTS, progress=lambda *news: said.append(news))
    f, plain = estimator.factors_, make(keep_facts=False, **settings).fit(FACTS).factors_
    assert_same_factors(f, plain)
    assert f.facts.named() == FACTS.named()
    assert plain.facts is None
    assert plain.calibration is None
    assert plain.has_probabilities == (make.kind != "hinge")
    cells = np.stack(np.unravel_index(np.arange(FACTS.n_cells), (20, 3, 20)), axis=1)
    unlisted = cells[~FACTS.contains(cells)]
    p = f.probability(*unlisted.T)
    assert ((p > 0) & (p < 1)).all()
    missing = len(FACTS) / 9  # a tenth of the true facts is assumed to be missing
    assert p.sum() == pytest.approx(f.calibration.expected, rel=0.15) == pytest.approx(missing, rel=0.15)
    assert [done for done, _, _ in said] == list(range(1, len(said) + 1))
    notes = [note for _, _, note in said]
    assert all(note.startswith("objective ") for note in notes[: estimator.n_iter_])
    assert set(notes[estimator.n_iter_ :]) == {"learning probabilities"}


# --- fit and what it leaves


def test_fit_returns_the_estimator_with_factors_and_a_trace(make, all_threads):
    estimator = make()
    assert estimator.fit(FACTS) is estimator
    f = estimator.factors_
    assert isinstance(f, relatent.Factors)
    for array, shape in ((f.A, (20, 4)), (f.R, (3, 4, 4)), (f.bias, (3,))):
        assert type(array) is np.ndarray
        assert array.shape == shape
        assert array.dtype == make.dtype
        assert np.isfinite(array).all()
    assert f.entities == FACTS.entities
    assert f.relations == FACTS.relations
    trace = estimator.trace_
    assert len(trace) == len(trace.objective) == len(trace.seconds) == estimator.n_iter_ > 1
    assert np.isfinite(trace.objective).all()
    assert trace.objective[-1] < trace.objective[0]
    assert trace.converged


@in_one_precision("float32")
def test_factors_say_how_they_were_made(make):
    f = make(random_state=7).fit(FACTS).factors_
    assert f.about.model == type(make()).__name__
    assert f.about.settings["random_state"] == 7
    assert f.about.data.fingerprint == FACTS.fingerprint
    assert f.about.fit.converged is True


@in_one_precision("float32")
def test_fitting_again_forgets_the_fit_before(make):
    other = random_facts(9, 2, 40, seed=5)
    estimator = make().fit(other)
    assert_same_factors(estimator.fit(FACTS).factors_, make.fitted().factors_)
    assert estimator.n_iter_ == len(make.fitted().trace_)


@in_one_precision("float32")
@pytest.mark.parametrize("init", ["random", "eigen"])
def test_the_same_seed_gives_the_same_result_and_another_seed_another(make, all_threads, init):
    if make.kind == "nonnegative" and init == "eigen":
        pytest.skip("eigenvectors have signs")
    first, again, other = (make(init=init, random_state=seed, tol=0.01).fit(FACTS).factors_ for seed in (3, 3, 4))
    assert_same_factors(first, again)
    assert not np.array_equal(first.A, other.A)


@in_one_precision("float32")
def test_the_facts_are_unchanged(make):
    facts = random_facts(15, 2, 80, unobserved=30, weighted=True, attributes=2 if make.kind == "als" else 0)
    triples, weights, fingerprint = facts.triples.copy(), facts.weights.copy(), facts.fingerprint
    make().fit(facts)
    np.testing.assert_array_equal(facts.triples, triples)
    np.testing.assert_array_equal(facts.weights, weights)
    assert dataclasses.replace(facts).fingerprint == fingerprint


@in_one_precision("float32")
def test_constructors_hold_parameters_and_nothing_else(make):
    estimator = make(rank=-5, l2_entities="nonsense", tol=None)  # fit is who complains
    assert estimator.get_params()["rank"] == -5
    assert not [name for name in vars(estimator) if name.endswith("_")]


@in_one_precision("float32")
def test_every_parameter_survives_a_clone(make):
    estimator = make(rank=3, tol=0.25, max_iter=7, init="random", random_state=11, patience=2)
    assert clone(estimator).get_params() == estimator.get_params()
    assert set(estimator.get_params()) == set(inspect.signature(type(estimator).__init__).parameters) - {"self"}


def test_a_fitted_estimator_clones_into_an_unfitted_one(make):
    assert not hasattr(clone(make.fitted()), "factors_")


@in_one_precision("float32")
def test_unknown_parameters_are_refused_by_name(make):
    with pytest.raises(ValueError, match="Invalid parameter 'ranks'"):
        make().set_params(ranks=3)


# --- the same world given in other ways


@in_one_precision("float32")
def test_a_sparse_tensor_is_a_dense_tensor(make):
    X = dense_tensors(FACTS)[0]
    dense = relatent.Facts.from_tensor(X.transpose(1, 2, 0))
    sparse = relatent.Facts.from_tensor([sp.csr_matrix(X_k) for X_k in X])
    wanted = make.fitted().factors_
    assert_same_factors(make().fit(dense).factors_, wanted)
    assert_same_factors(make().fit(sparse).factors_, wanted)


@in_one_precision("float32")
def test_the_order_of_the_facts_does_not_matter(make):
    order = np.random.default_rng(0).permutation(len(FACTS))
    shuffled = relatent.Facts.from_arrays(*FACTS.triples[order].T, n_entities=20, n_relations=3)
    assert_same_factors(make().fit(shuffled).factors_, make.fitted().factors_)


@in_one_precision("float32")
def test_renaming_entities_does_not_change_how_well_they_fit(make):
    facts, settings = one_minimum()
    renamed = permuted(facts, np.random.default_rng(1).permutation(24))
    fits = [objective(make(**settings).fit(given), given) for given in (renamed, facts)]
    assert fits[0] == pytest.approx(fits[1], rel=2e-3)


@pytest.mark.numerical
def test_single_precision_finds_what_double_finds(kind):
    facts, settings = one_minimum()
    if kind in SCHEDULED:
        settings["max_iter"] = 300
    single, double = (
        clone(ESTIMATORS[kind]).set_params(**settings, dtype=dtype).fit(facts) for dtype in ("float32", "float64")
    )
    assert objective(single, facts) == pytest.approx(objective(double, facts), rel=2e-3)


@in_one_precision("float32")
def test_masked_cells_leave_no_trace(make):
    cells = np.concatenate([FACTS.triples[::5], [[0, 0, 0], [1, 1, 1]]])
    other = FACTS.hold_out(FACTS.triples[::5], masked=False)  # another world: there they are false
    first, second = (make().fit(facts.hold_out(cells, masked=True)).factors_ for facts in (FACTS, other))
    assert_same_factors(first, second)


@in_one_precision("float32")
def test_held_out_cells_set_to_zero_are_not_masked_cells(make):
    cells = FACTS.triples[::5]
    masked, zero = (make().fit(FACTS.hold_out(cells, masked=masked)).factors_ for masked in (True, False))
    assert response(masked, *cells.T).mean() > response(zero, *cells.T).mean()


@in_one_precision("float64")
def test_a_fact_of_weight_zero_is_an_unobserved_cell(make):
    facts, settings = one_minimum()
    weights = np.ones(len(facts))
    weights[::4] = 0
    doubted = make(**settings).fit(dataclasses.replace(facts, weights=weights)).factors_
    hidden = make(**settings).fit(facts.hold_out(facts.triples[::4], masked=True)).factors_
    tolerance = {"float32": 1e-2, "float64": 1e-4, "cuda": 0.1}[make.place]  # the start is in single precision
    assert relative_error(all_scores(doubted.A, doubted.R), all_scores(hidden.A, hidden.R)) < tolerance


# --- starts


@pytest.mark.filterwarnings("ignore:all factors have shrunk to zero")
@pytest.mark.parametrize("init", ["eigen", "random"])
def test_every_start_leads_to_a_fit(make, init):
    if make.kind == "nonnegative" and init == "eigen":
        pytest.skip("eigenvectors have signs")
    estimator = make(init=init).fit(FACTS)
    assert estimator.trace_.converged
    assert objective(estimator, FACTS) < 0.9 * objective_of_zero_factors(estimator, FACTS)


@pytest.mark.parametrize("unobserved", [0, 400])
def test_a_warm_start_goes_on_from_where_the_factors_are(make, unobserved):
    if make.kind in SCHEDULED:
        pytest.skip(by_schedule)
    facts = random_facts(20, 3, 150, unobserved=unobserved)
    with pytest.warns(ConvergenceWarning):
        first = make(max_iter=15, tol=0).fit(facts)
    saved = [np.array(part) for part in (first.factors_.A, first.factors_.R, first.factors_.bias)]
    before = objective(first, facts)
    second = make(init=first.factors_, rank=None).fit(facts)
    assert second.factors_.rank == 4
    assert second.trace_.objective[0] <= before * (1 + 1e-5)
    assert objective(second, facts) <= before * (1 + 1e-5)
    for part, old in zip((first.factors_.A, first.factors_.R, first.factors_.bias), saved, strict=True):
        np.testing.assert_array_equal(part, old)


@in_one_precision("float32")
def test_a_warm_start_at_the_end_stays_there(make):
    first = make(tol=1e-5, max_iter=3000).fit(FACTS)
    second = make(tol=1e-5, max_iter=3000, init=first.factors_).fit(FACTS)
    assert objective(second, FACTS) == pytest.approx(objective(first, FACTS), rel=1e-2)
    assert len(second.trace_) <= len(first.trace_)


def test_factors_of_one_precision_may_start_a_fit_of_the_other(make):
    other = {"float32": "float64", "float64": "float32", "cuda": "tf32"}[make.place]
    if make.kind == "als" and other == "tf32":
        pytest.skip("sweeps on a GPU have one precision")
    start = fitted(make.kind, other).factors_
    assert make(init=start).fit(FACTS).factors_.A.dtype == make.dtype


def test_least_squares_factors_may_start_the_likelihood():
    facts, settings = one_minimum()
    start = clone(ESTIMATORS["als"]).set_params(**settings).fit(facts).factors_
    warm = clone(ESTIMATORS["logit"]).set_params(**settings, init=start).fit(facts)
    cold = clone(ESTIMATORS["logit"]).set_params(**settings).fit(facts)
    assert objective(warm, facts) == pytest.approx(objective(cold, facts), rel=2e-3)


# --- what is refused, and how


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 21}, "rank must not exceed the 20 entities, got 21"),
        ({"rank": 0}, "rank must be a whole number of at least 1, got 0"),
        ({"rank": 2.5}, "rank must be a whole number of at least 1, got 2.5"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, got 0"),
        ({"max_iter": True}, "max_iter must be a whole number of at least 1, got True"),
        ({"patience": 0}, "patience must be a whole number of at least 1, got 0"),
        ({"l2_entities": -1.0}, "l2_entities must be a finite number of at least 0, got -1.0"),
        ({"l2_relations": -0.1}, "l2_relations must be a finite number of at least 0, got -0.1"),
        ({"l2_relations": 1e300}, "l2_relations must be at most 1e.18, got 1e.300"),
        ({"l2_relations": np.inf}, "l2_relations must be a finite number of at least 0, got inf"),
        ({"l2_entities": "1"}, "l2_entities must be a finite number of at least 0, got '1'"),
        ({"tol": np.nan}, "tol must be a finite number of at least 0, got nan"),
        ({"init": "nvecs"}, "init must be .*'random'.* or Factors, got 'nvecs'"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64', got 'float16'"),
        (
            {"random_state": 1.5},
            "random_state must be a whole number of at least 0, a numpy Generator or None, got 1.5",
        ),
        ({"random_state": -1}, "random_state must be a whole number of at least 0, a numpy Generator or None, got -1"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_with_its_value(kind, settings, message):
    with pytest.raises(InputError, match=message):
        clone(ESTIMATORS[kind]).set_params(**settings).fit(FACTS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "guess"}, "method must be .*, got 'guess'"),
        ({"device": "abacus"}, "device must be .*, got 'abacus'"),
        ({"bias": "yes"}, "bias must be True or False, got 'yes'"),
    ],
    ids=str,
)
def test_a_wrong_setting_of_the_likelihood_is_named_with_its_value(settings, message):
    with pytest.raises(InputError, match=message):
        relatent.RescalLogit(rank=2, **settings).fit(FACTS)


@in_one_precision("float32")
def test_no_facts_are_not_enough(make):
    nothing = relatent.Facts.from_arrays([], [], [], n_entities=5, n_relations=1)
    with pytest.raises(InputError, match="there are no facts to learn from"):
        make().fit(nothing)


@in_one_precision("float32")
def test_fit_takes_facts_only(make):
    with pytest.raises(InputError, match=r"fit takes Facts, got ndarray; see relatent\.read"):
        make().fit(np.ones((3, 3)))


@in_one_precision("float32")
def test_factors_of_another_world_cannot_start_a_fit(make):
    strangers = make().fit(random_facts(9, 3, 40)).factors_
    with pytest.raises(InputError, match="init: the factors' entities and relations must be those of the facts"):
        make(init=strangers).fit(FACTS)


@in_one_precision("float32")
def test_too_few_steps_warn_with_the_remedy(make):
    if make.kind in SCHEDULED:
        pytest.skip(by_schedule)
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=2, .* raise max_iter or tol"):
        estimator = make(max_iter=2, tol=0).fit(FACTS)
    assert not estimator.trace_.converged
    assert estimator.n_iter_ == 2
    assert estimator.factors_.about.fit.converged is False


# --- the smallest and the emptiest worlds


@pytest.mark.filterwarnings("ignore:all factors have shrunk to zero")
def test_one_entity_that_relates_to_itself(make):
    facts = relatent.Facts.from_arrays([0], [0], [0])
    f = make(rank=None, l2_entities=1e-3, l2_relations=1e-3).fit(facts).factors_
    assert response(f, 0, 0, 0) > SURE.get(make.kind, 0.9)


@in_one_precision("float32")
def test_a_rank_of_all_entities(make):
    if make.kind == "nonnegative":
        pytest.skip(only_local)
    facts = chain(8)
    f = make(rank=8, l2_entities=1e-3, l2_relations=1e-3, tol=1e-5, max_iter=2000).fit(facts).factors_
    p = response(f, np.arange(8)[:, None], 0, np.arange(8))
    true = np.eye(8, k=1) == 1
    assert p[true].min() > SURE.get(make.kind, 0.9)
    assert p[~true].max() < 1 - SURE.get(make.kind, 0.9)


@in_one_precision("float32")
def test_entities_without_facts_stay_finite(make):
    facts = relatent.Facts.from_arrays([0, 1], [0, 0], [1, 2], n_entities=12, n_relations=3)
    f = make(rank=3).fit(facts).factors_
    assert np.isfinite(f.score(np.arange(12)[:, None], 2, np.arange(12))).all()


def test_penalties_of_zero_are_allowed(make):
    estimator = make(l2_entities=0.0, l2_relations=0.0, tol=1e-2, max_iter=300).fit(random_facts(20, 2, 200))
    assert np.isfinite(estimator.factors_.A).all()


@in_one_precision("float32")
@pytest.mark.filterwarnings("ignore:all factors have shrunk to zero")
def test_a_penalty_beyond_reason_forgets_everything(make):
    f = make(l2_entities=1e6, l2_relations=1e6, max_iter=2000).fit(FACTS).factors_
    theta = all_scores(f.A, f.R)
    assert np.abs(theta).max() < 0.05


# --- worlds


@in_one_precision("float32")
def test_a_world_of_known_rank_is_recovered(make):
    facts = blocks(24, groups=3)
    f = make(rank=3, l2_entities=1e-3, l2_relations=1e-3, max_iter=3000).fit(facts).factors_
    cells = np.stack(np.unravel_index(np.arange(facts.n_cells), (24, 2, 24)), axis=1)
    assert ((response(f, *cells.T) > 0.5) == facts.contains(cells)).all()


@in_one_precision("float32")
def test_masked_cells_of_a_world_of_known_rank_are_filled_in(make):
    facts = blocks(24, groups=3)
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, size, 200) for size in (24, 2, 24)], axis=1)
    settings = {"rank": 3, "l2_entities": 0.01, "l2_relations": 0.01, "tol": 1e-5, "max_iter": 3000}
    f = make(**settings).fit(facts.hold_out(cells, masked=True)).factors_
    assert ((response(f, *cells.T) > 0.5) == facts.contains(cells)).mean() > 0.98


@in_one_precision("float32")
def test_reversing_a_one_way_relation_changes_its_score(make):
    facts = chain(10)
    f = make(rank=10, l2_entities=0.01, l2_relations=0.01, tol=1e-5, max_iter=2000).fit(facts).factors_
    s, _, o = facts.triples.T
    better = response(f, s, 0, o) > response(f, o, 0, s) + (0.4 if make.kind in SURE else 0.5)
    assert better.all() or (make.kind == "nonnegative" and better.mean() > 0.5), only_local


@in_one_precision("float32")
def test_what_is_known_of_a_vice_president_tells_of_the_president(make):
    """All that was known of a president's party is masked; his vice presidents and their party stay."""
    if (make.place, make.kind) == ("cuda", "logit"):
        pytest.skip("L-BFGS ends where a gradient of three digits leads it")
    facts = politics(20)
    party, parties = facts.relations.id("party"), facts.entities.ids(["Blue", "Red"])
    rank, l2 = (6, 0.01) if make.kind == "nonnegative" else (4, 0.05)  # with these every random start is right
    settings = {"rank": rank, "l2_entities": l2, "l2_relations": l2, "tol": 1e-5, "max_iter": 3000}
    for i in range(0, 20, 5):
        president = facts.entities.id(f"president {i}")
        cells = np.array([[president, party, p] for p in parties])
        f = make(**settings, longest_schedule=600).fit(facts.hold_out(cells, masked=True)).factors_
        assert np.argmax(f.score(president, party, parties)) == i % 2


# --- validation


def held_out_facts():
    facts = blocks(24, groups=3)
    rng = np.random.default_rng(0)
    noise = np.stack([rng.integers(0, size, 60) for size in (24, 2, 24)], axis=1)
    noisy = relatent.Facts.from_arrays(*np.concatenate([facts.triples, noise]).T, n_entities=24, n_relations=2)
    return relatent.split(noisy, test_size=0.2, random_state=0)


@pytest.mark.parametrize("given_as", ["facts", "cells"])
def test_with_validation_the_factors_that_predict_it_best_are_kept(make, given_as):
    train, test = held_out_facts()
    validation = test if given_as == "facts" else HeldOut.of(test, train, 0)
    settings = {"rank": 10, "l2_entities": 1e-3, "l2_relations": 1e-3, "tol": 0.0, "patience": 2, "max_iter": 300}
    estimator = make(**settings).fit(train, validation=validation)
    losses = estimator.trace_.validation
    assert "held-out loss was lowest" in estimator.trace_.verdict
    assert np.isfinite(losses).any()
    cells = HeldOut.of(test, train, 0)
    kept = log_loss(cells.truth, response(estimator.factors_, *cells.cells.T), cells.weights)
    assert kept == pytest.approx(np.nanmin(losses), rel=1e-4)
    assert kept < losses[~np.isnan(losses)][-1]


@in_one_precision("float32")
def test_validation_facts_must_share_the_vocabulary(make):
    with pytest.raises(InputError, match="validation must have the vocabulary of the training facts"):
        make().fit(FACTS, validation=random_facts(19, 3, 20))


@in_one_precision("float32")
def test_validation_must_be_facts_or_cells(make):
    with pytest.raises(InputError, match="validation must be Facts or HeldOut, got ndarray"):
        make().fit(FACTS, validation=FACTS.triples)


@in_one_precision("float32")
def test_validation_needs_a_fact(make):
    nothing = FACTS.hold_out(FACTS.triples, masked=False)
    with pytest.raises(InputError, match="validation must hold at least one fact, got none"):
        make().fit(FACTS, validation=nothing)


@in_one_precision("float32")
def test_progress_is_told_step_by_step(make):
    said = []
    estimator = make().fit(FACTS, progress=lambda *news: said.append(news))
    assert [done for done, _, _ in said] == list(range(1, estimator.n_iter_ + 1))
    assert all(text.startswith("objective ") for _, _, text in said)


@pytest.mark.filterwarnings("ignore:all factors have shrunk to zero")
def test_a_start_beyond_the_range_of_the_type_is_left_or_refused(make):
    """Numbers that are not finite never come back as factors."""
    start = make.fitted().factors_
    far = dataclasses.replace(start, A=start.A * np.float32(1e15), R=start.R * np.float32(1e15))
    with np.errstate(all="ignore"), contextlib.suppress(FitError):
        f = make(init=far).fit(FACTS).factors_
        assert np.isfinite(f.A).all()
        assert np.isfinite(f.R).all()


def test_after_ctrl_c_the_factors_so_far_are_there_and_loops_around_the_fit_stop(make, all_threads, capsys):
    estimator = make(tol=0.0)
    with pytest.raises(KeyboardInterrupt, match="interrupted after 3 steps"):
        estimator.fit(FACTS, progress=lambda done, *_: signal.raise_signal(signal.SIGINT) if done == 3 else None)
    assert estimator.n_iter_ == 3
    assert estimator.factors_.about.fit.verdict == estimator.trace_.verdict
    assert not estimator.trace_.converged
    if make.kind in SCHEDULED:
        return  # with three rounds it would have another schedule
    with pytest.warns(ConvergenceWarning):
        same = make(tol=0.0, max_iter=3).fit(FACTS)
    assert_same_factors(estimator.factors_, same.factors_)
    assert "stopping after this step" in capsys.readouterr().err
