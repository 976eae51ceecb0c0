import numpy as np
import pytest

import relatent
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.softmax import SoftmaxSum
from relatent.errors import InputError
from relatent.fit.presets import PRESETS
from small_graphs import cliques, random_facts

pytestmark = pytest.mark.usefixtures("one_thread")
FACTS = random_facts(20, 3, 150)


def test_an_optimiser_that_does_not_redraw_sees_a_fixed_sample():
    """L-BFGS on sampled sums: zeros are drawn once and all facts are summed, so that the objective never rises."""
    facts = random_facts(400, 2, 600, seed=1)
    settings = {"method": "sampled", "optimiser": relatent.Lbfgs(), "max_iter": 1000, "tol": 1e-3}
    first, second = (relatent.RescalLogit(4, **settings, calibrate=False).fit(facts) for _ in range(2))
    assert (np.diff(first.trace_.objective) <= 0).all()
    assert first.trace_.converged
    np.testing.assert_array_equal(first.factors_.A, second.factors_.A)


def test_an_optimiser_of_ones_own_can_be_given():
    class Descent:
        def solver(self, objective, backend, max_iter):
            return relatent.Lbfgs(3).solver(objective, backend, max_iter)

    for method in ("exact", "sampled"):
        model = relatent.RescalLogit(4, optimiser=Descent(), method=method, tol=1e-3)
        assert model.estimate_memory(FACTS).memory > 0
        assert model.fit(FACTS).trace_.converged


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"optimiser": relatent.Adam}, "optimiser must be an object such as relatent.Adam"),
        ({"optimiser": "adam"}, "optimiser must be an object"),
        ({"optimiser": relatent.Adam(0.0)}, "lr of Adam must be a finite number above 0 or None, got 0.0"),
        ({"optimiser": relatent.Adam(0.1, beta2=1.0)}, "beta2 of Adam must be from 0 to below 1, got 1.0"),
        ({"optimiser": relatent.Lbfgs(0)}, "pairs of Lbfgs must be a whole number of at least 1, got 0"),
        ({"penalty": relatent.Dura}, "penalty must be an object such as relatent.Dura"),
        ({"penalty": relatent.Dura(-1.0)}, "the weight of a penalty must be a finite number of at least 0, got -1.0"),
        (
            {"loss": relatent.Softmax(relation_weight=-1)},
            "relation_weight of Softmax must be a finite number of at least 0, got -1",
        ),
        ({"loss": relatent.Softmax(degree_weight="x")}, "degree_weight of Softmax must be from 0 to 1, got 'x'"),
        ({"dtype": "tf32"}, r"got 'tf32' \(which is for a GPU\)"),
        ({"device": "gpu"}, "device must be 'cpu', 'cuda' or 'cuda:1', got 'gpu'"),
        ({"device": "cuda", "loss": "hinge"}, "on a GPU the loss must be 'logistic' or 'softmax', got 'hinge'"),
        ({"device": "cuda", "dtype": "float64"}, "on a GPU dtype must be 'float32' or 'tf32', got 'float64'"),
    ],
)
def test_settings_out_of_range_are_refused(settings, told):
    with pytest.raises(InputError, match=told):
        relatent.Rescal(4, **settings, calibrate=False).fit(FACTS)


@pytest.mark.filterwarnings("ignore:stopped at max_iter")
@pytest.mark.parametrize("penalty", [relatent.Dura(0.05), relatent.N3(0.01), relatent.L2(0.1, 0.1)], ids=repr)
@pytest.mark.parametrize(
    "optimiser", [relatent.Adam(0.1), relatent.Adam(lr=None), relatent.Lbfgs()], ids=["adam", "relative adam", "lbfgs"]
)
@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_every_penalty_works_with_every_optimiser_and_method(penalty, optimiser, method):
    facts = cliques()
    settings = {"penalty": penalty, "optimiser": optimiser, "method": method}
    model = relatent.RescalLogit(6, **settings, max_iter=200, calibrate=False).fit(facts).factors_
    inside = model.probability(0, 0, [4, 8, 12])
    outside = model.probability(0, 0, [1, 2, 3])
    assert inside.min() > 0.5 > outside.max()


def test_softmax_ranks_the_members_of_a_group_first():
    facts = cliques()
    model = (
        relatent.Rescal(6, loss="softmax", l2_entities=0.01, l2_relations=0.01, max_iter=200, calibrate=False)
        .fit(facts)
        .factors_
    )
    assert set(model.top(subject=0, relation=0, k=5, known="mark").names) == {"4", "8", "12", "16", "20"}


def test_validation_of_a_softmax_fit_is_by_its_own_loss():
    train, valid = relatent.split(cliques(), test_size=0.2, random_state=0)
    settings = {"loss": "softmax", "penalty": relatent.Dura(0.001), "optimiser": relatent.Adam(0.1), "max_iter": 100}
    model = relatent.Rescal(6, **settings, patience=2, calibrate=False).fit(train, valid)
    looks = model.trace_.validation[~np.isnan(model.trace_.validation)]
    assert len(model.trace_) < 100, "it was stopped"
    held_out = SoftmaxSum(valid, NumpyBackend())
    f = model.factors_
    assert held_out(f.A, f.R, f.bias).value == pytest.approx(looks.min(), rel=1e-5), "the best is kept"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_fits_on_a_cpu_as_well(name):
    model = relatent.preset(name, random_state=3).set_params(rank=4, max_iter=2, device="cpu")
    assert model.random_state == 3
    assert model.fit(FACTS).factors_.rank == 4
    assert relatent.preset(name).max_iter > 2, "the preset itself is not changed"


def test_an_unknown_preset_is_refused_with_those_there_are():
    with pytest.raises(InputError, match=r"preset must be one of fb15k-237-softmax, .*, got 'fb'"):
        relatent.preset("fb")
