import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import reference_sums as plain
import relatent
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.categorical import CategoricalSum
from relatent.cells.cell_sum import ModelSize
from relatent.cells.cellwise_tiled import TiledCellwiseSum
from relatent.cells.logistic_tiled import TiledLogisticSum
from relatent.cells.softmax import SoftmaxSum
from relatent.cells.squared import SquaredSum
from relatent.data.facts import Facts
from relatent.errors import InputError
from relatent.fit.losses import LOSSES, Categorical, Logistic, Poisson, SmoothHinge, Squared, resolve
from relatent.model.links import CountLink
from small_graphs import blocks, random_facts, random_parameters, relative_error

pytestmark = pytest.mark.usefixtures("one_thread")
CELLWISE = {name: loss() for name, loss in LOSSES.items() if name not in ("categorical", "softmax")}
each_loss = pytest.mark.parametrize("name", CELLWISE)
SMALL = {"l2_entities": 0.01, "l2_relations": 0.01}


def counted(facts, seed=0):
    return dataclasses.replace(facts, times=np.random.default_rng(seed).integers(1, 9, len(facts)).astype(float))


# --- what is stated


@each_loss
@pytest.mark.parametrize("x", [0.0, 1.0])
def test_the_slope_is_the_slope_of_the_value(name, x):
    theta, h = np.linspace(-3.03, 3.03, 102), 1e-6
    up, down = (CELLWISE[name].at(x, theta + sign * h)[0] for sign in (1, -1))
    np.testing.assert_allclose((up - down) / (2 * h), CELLWISE[name].at(x, theta)[1], atol=1e-6)


@each_loss
@pytest.mark.parametrize("x", [0.0, 1.0])
def test_every_loss_is_convex_in_theta(name, x):
    assert (np.diff(CELLWISE[name].at(x, np.linspace(-5, 5, 400))[1]) >= -1e-12).all()


@each_loss
def test_a_true_cell_wants_a_high_score_and_a_false_one_a_low_score(name):
    theta = np.linspace(-0.9, 0.9, 19)
    loss = CELLWISE[name]
    assert (loss.at(1.0, theta)[1] < 0).all() or name == "poisson"  # the mean exp(θ) of a count of one is at θ = 0
    assert (loss.at(0.0, theta)[1] >= 0).all() or name == "squared"
    assert loss.at(1.0, theta)[1].mean() < loss.at(0.0, theta)[1].mean()


def test_the_hinge_is_free_beyond_the_margin_and_a_straight_line_on_the_wrong_side():
    values, slopes = SmoothHinge().at(1.0, np.array([-2.0, 0.0, 0.5, 1.0, 4.0]))
    np.testing.assert_allclose(values, [2.5, 0.5, 0.125, 0, 0])
    np.testing.assert_allclose(slopes, [-1, -1, -0.5, 0, 0])


def test_the_start_of_a_bias_is_the_best_constant():
    ones, zeros = np.array([30.0]), np.array([970.0])
    for loss, wanted in ((Logistic(), np.log(30.5 / 970.5)), (Squared(), 0.03), (Poisson(), np.log(30.5 / 1001))):
        assert loss.bias(ones, zeros) == pytest.approx(wanted)
    assert SmoothHinge().bias(ones, zeros) == -1
    assert SmoothHinge().bias(zeros, ones) == 1


# --- summed over all cells


@each_loss
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-4), ("float64", 1e-9)])
@pytest.mark.parametrize(("n", "k", "r"), [(2, 3, 2), (20, 30, 5), (530, 2, 3)])
def test_every_loss_has_the_sum_and_gradient_of_the_reference(single_blas, name, dtype, tolerance, n, k, r):
    facts = random_facts(n, k, n * n * k // 10 + 1, unobserved=n * n * k // 20, weighted=True)
    facts = counted(facts) if name == "poisson" else facts
    parameters = random_parameters(facts, r)
    loss = CELLWISE[name]
    for cells in (resolve(loss).cell_sum(facts, NumpyBackend(dtype)), TiledCellwiseSum(facts, loss.at, dtype, 3)):
        got, wanted = cells(*parameters), plain.cellwise(loss.at, facts, *parameters)
        assert got.value == pytest.approx(wanted.value, rel=tolerance)
        for part in ("dA", "dR", "db"):
            assert relative_error(getattr(got, part), getattr(wanted, part)) <= tolerance, part


# --- fitted


def by_the_loss(f, cells):
    """The probabilities of cells, or their scores where the loss has none."""
    assert f.has_probabilities == (f.loss.name not in ("hinge", "softmax"))
    return f.probability(*cells.T) if f.has_probabilities else f.score(*cells.T)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_tells_true_cells_from_false_ones(name):
    facts = Facts.from_arrays([0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 1, 1], [1, 2, 3, 4, 5, 0])
    f = relatent.Rescal(rank=6, loss=name, **SMALL, calibrate=False).fit(facts).factors_
    cells = np.stack(np.unravel_index(np.arange(facts.n_cells), (6, 2, 6)), axis=1)
    found, truth = by_the_loss(f, cells), facts.contains(cells)
    assert found[truth].min() > found[~truth].max()
    if f.has_probabilities:
        assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("name", LOSSES)
def test_unobserved_cells_are_predicted_from_the_rest(name):
    facts = blocks(24, 3, 2)
    if name == "categorical":  # a pair has one relation there
        facts = facts.subset(facts.triples[:, 1] == 0)
    rng = np.random.default_rng(0)
    cells = np.stack(np.unravel_index(rng.choice(24 * 24, 60, replace=False), (24, 24)), axis=1)
    cells = np.stack([cells[:, 0], np.zeros(60, int), cells[:, 1]], axis=1)
    truth = facts.contains(cells)
    f = relatent.Rescal(rank=4, loss=name, l2_entities=0.1, l2_relations=0.1, calibrate=False).fit(
        facts.hold_out(cells, masked=True)
    )
    found = by_the_loss(f.factors_, cells)
    assert found[truth].min() > found[~truth].max()


def test_rescal_with_the_logistic_loss_is_rescal_logit():
    facts = random_facts(20, 3, 150, unobserved=60, weighted=True)
    one, two = (
        relatent.Rescal(4, calibrate=False).fit(facts).factors_,
        relatent.RescalLogit(4, calibrate=False).fit(facts).factors_,
    )
    np.testing.assert_array_equal(one.A, two.A)
    assert one.about.settings["loss"] == "logistic"


def test_rescal_with_the_squared_loss_and_no_bias_ends_where_least_squares_ends():
    facts = random_facts(20, 2, 80, unobserved=30)
    penalties = {"l2_entities": 0.5, "l2_relations": 0.5, "dtype": "float64"}
    als = relatent.RescalALS(3, tol=1e-9, max_iter=5000, **penalties, calibrate=False).fit(facts)
    gradient = relatent.Rescal(
        3, loss="squared", bias=False, tol=1e-9, init=als.factors_, **penalties, calibrate=False
    ).fit(facts)
    assert gradient.trace_.objective[-1] == pytest.approx(als.trace_.objective[-1], rel=1e-5)


def test_counts_are_predicted_by_their_mean():
    s, o = np.divmod(np.arange(36), 6)
    mean = np.where(s < 3, 8, 2)
    facts = Facts.from_arrays(s, np.zeros(36, int), o, times=mean)
    f = relatent.Rescal(rank=2, loss="poisson", init="random", calibrate=False, **SMALL).fit(facts).factors_
    np.testing.assert_allclose(f.link.response(f.score(s, 0, o)), mean, rtol=0.05)
    assert isinstance(f.link, CountLink)
    np.testing.assert_allclose(f.probability(s, 0, o), -np.expm1(-f.link.response(f.score(s, 0, o))), rtol=1e-6)


def test_other_losses_take_a_fact_seen_often_for_a_fact():
    facts = random_facts(12, 2, 40)
    plainly, often = (relatent.RescalLogit(3, calibrate=False).fit(world).factors_ for world in (facts, counted(facts)))
    np.testing.assert_array_equal(plainly.A, often.A)


def test_a_loss_of_ones_own_can_be_given():
    class Absolute(SmoothHinge):
        name = "own"

    facts = random_facts(12, 2, 40)
    own = relatent.Rescal(3, loss=Absolute(), calibrate=False).fit(facts).factors_
    np.testing.assert_array_equal(own.A, relatent.Rescal(3, loss="hinge", calibrate=False).fit(facts).factors_.A)
    assert own.about.settings["loss"]["type"].endswith(".Absolute")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("logistic", TiledLogisticSum),
        ("squared", SquaredSum),
        ("hinge", TiledCellwiseSum),
        ("poisson", TiledCellwiseSum),
        ("categorical", CategoricalSum),
        ("softmax", SoftmaxSum),
    ],
)
def test_a_loss_chooses_its_sum_and_knows_its_memory(name, kind):
    facts, loss = random_facts(12, 2, 40), resolve(name)
    assert type(loss.cell_sum(facts, NumpyBackend())) is kind
    size = ModelSize.of(facts, 3, np.float32)
    assert loss.memory(facts, size) == kind.memory(facts, size)


def test_a_loss_object_needs_five_members_only():
    own = SimpleNamespace(name="own", link=Logistic.link, steepness=4.0, at=Logistic().at, bias=Logistic().bias)
    facts = random_facts(12, 2, 40)
    assert isinstance(resolve(own).cell_sum(facts, NumpyBackend()), TiledCellwiseSum)
    settings = {"l2_entities": 0.1, "l2_relations": 0.1, "tol": 0.01}
    model, expected = (
        relatent.Rescal(3, loss=loss, **settings, calibrate=False).fit(facts).factors_ for loss in (own, "logistic")
    )
    np.testing.assert_allclose(model.A, expected.A, atol=1e-3)


def test_only_a_subclass_that_changes_the_loss_of_a_cell_loses_the_compiled_sum():
    class OtherStart(Logistic):
        def bias(self, ones, zeros):
            return np.zeros_like(ones)

    class OtherLoss(Logistic):
        def at(self, x, theta):
            return super().at(x, 2 * theta)

    facts, backend = random_facts(12, 2, 40), NumpyBackend()
    assert isinstance(resolve(OtherStart()).cell_sum(facts, backend), TiledLogisticSum)
    assert isinstance(resolve(OtherLoss()).cell_sum(facts, backend), TiledCellwiseSum)
    assert not resolve(OtherLoss()).can_be_sampled


def test_a_subclass_with_another_loss_of_a_cell_is_fitted_by_it():
    class Halved(Logistic):
        def at(self, x, theta):
            value, slope = super().at(x, theta)
            w = np.where(np.asarray(x) > 0, 1.0, 0.5).astype(theta.dtype)
            return w * value, w * slope

    facts = random_facts(12, 2, 40)
    own, plainly = (
        relatent.Rescal(3, loss=loss, l2_entities=1, calibrate=False).fit(facts).factors_
        for loss in (Halved(), "logistic")
    )
    assert (own.bias > plainly.bias + 0.1).all()  # false cells count for less, so all are likelier


@pytest.mark.parametrize("loss", ["cubic", 3, Logistic])
def test_an_unknown_loss_is_refused_and_the_known_ones_are_named(loss):
    with pytest.raises(InputError, match=r"loss must be .*a.* loss object"):
        relatent.Rescal(2, loss=loss, calibrate=False).fit(random_facts())


def test_the_categorical_loss_has_no_cells():
    with pytest.raises(NotImplementedError, match="a sum over pairs"):
        resolve("categorical").at(0.0, np.zeros(1))
    assert resolve(Categorical()) == Categorical()
