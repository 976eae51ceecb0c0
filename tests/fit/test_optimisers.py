import numpy as np
import pytest

import relatent
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.softmax import SoftmaxSum
from relatent.errors import InputError
from relatent.fit.presets import PRESETS
from relatent.fit.solvers.adam import Descent
from worlds import cliques, random_facts

FACTS = random_facts(20, 3, 150)


def test_adam_takes_the_steps_of_its_definition():
    """Kingma & Ba 2015, algorithm 1, with the rate along a cosine."""

    def objective(x, *, value):
        return float(x @ x), 2 * x

    x = np.array([3.0, -2.0])
    solver = Descent(objective, NumpyBackend("float64"), lr=0.1, fades=(0.9, 0.99), rounds=2)
    state = solver.step(solver.step(solver.start(x.copy())))
    m, v = np.zeros(2), np.zeros(2)
    for t in range(1, 9):
        g = 2 * x
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        lr = 0.1 * (1 + np.cos(np.pi * t / 8)) / 2
        x = x - lr * (m / (1 - 0.9**t)) / np.sqrt(v / (1 - 0.99**t))
    np.testing.assert_allclose(state.x, x, rtol=1e-6)
    assert solver.finished(state).startswith("the learning rate has come down to zero")


def test_the_objective_is_asked_for_once_a_round():
    asked = []

    def objective(x, *, value):
        asked.append(value)
        return float(x @ x) if value else np.nan, 2 * x

    solver = Descent(objective, NumpyBackend("float64"), lr=0.1, fades=(0.9, 0.99), rounds=3)
    solver.step(solver.start(np.ones(2)))
    assert asked == [False, False, False, True]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"optimiser": relatent.Adam}, "optimiser must be an object such as relatent.Adam"),
        ({"optimiser": "adam"}, "optimiser must be an object"),
        ({"optimiser": relatent.Adam(0.0)}, "lr of Adam must be a finite number above 0, got 0.0"),
        ({"optimiser": relatent.Adam(0.1, memory=1.0)}, "memory of Adam must be from 0 to below 1, got 1.0"),
        ({"optimiser": relatent.Lbfgs(0)}, "pairs of Lbfgs must be a whole number of at least 1, got 0"),
        ({"penalty": relatent.Dura}, "penalty must be an object such as relatent.Dura"),
        ({"penalty": relatent.Dura(-1.0)}, "a penalty's weight must be a finite number of at least 0, got -1.0"),
        ({"penalty": relatent.Dura(0.1), "method": "sampled"}, "method='sampled' has its own penalty"),
        ({"optimiser": relatent.Adam(), "method": "sampled"}, "method='sampled' has its own optimiser"),
        (
            {"loss": relatent.Softmax(relations=-1)},
            "relations of Softmax must be a finite number of at least 0, got -1",
        ),
        ({"loss": relatent.Softmax(hubs="x")}, "hubs of Softmax must be from 0 to 1, got 'x'"),
        ({"dtype": "tf32"}, r"got 'tf32' \(which is for a GPU\)"),
        ({"device": "gpu"}, "device must be 'cpu', 'cuda' or 'cuda:1', got 'gpu'"),
        ({"device": "cuda", "method": "sampled"}, "method='sampled' is for the CPU"),
        ({"device": "cuda", "loss": "hinge"}, "on a GPU the loss must be 'logistic' or 'softmax', got 'hinge'"),
        ({"device": "cuda", "dtype": "float64"}, "on a GPU dtype must be 'float32' or 'tf32', got 'float64'"),
    ],
)
def test_settings_that_lead_nowhere_are_refused(settings, told):
    with pytest.raises(InputError, match=told):
        relatent.Rescal(4, **settings).fit(FACTS)


@pytest.mark.filterwarnings("ignore:stopped at max_iter")
@pytest.mark.parametrize("penalty", [relatent.Dura(0.05), relatent.N3(0.01), relatent.L2(0.1, 0.1)], ids=repr)
@pytest.mark.parametrize("optimiser", [relatent.Adam(0.1), relatent.Lbfgs()], ids=["adam", "lbfgs"])
def test_every_penalty_with_every_optimiser_learns_who_knows_whom(penalty, optimiser):
    facts = cliques()
    model = relatent.RescalLogit(6, penalty=penalty, optimiser=optimiser, max_iter=200).fit(facts).factors_
    inside = model.probability(0, 0, [4, 8, 12])
    outside = model.probability(0, 0, [1, 2, 3])
    assert inside.min() > 0.5 > outside.max()


def test_softmax_ranks_those_first_who_belong_there():
    facts = cliques()
    model = relatent.Rescal(6, loss="softmax", l2_entities=0.01, l2_relations=0.01, max_iter=200).fit(facts).factors_
    assert set(model.top(subject=0, relation=0, k=6).names) == {"0", "4", "8", "12", "16", "20"}


def test_validation_of_a_softmax_fit_is_by_its_own_loss():
    train, valid = relatent.split(cliques(), test_size=0.2, random_state=0)
    settings = {"loss": "softmax", "penalty": relatent.Dura(0.001), "optimiser": relatent.Adam(0.1), "max_iter": 100}
    model = relatent.Rescal(6, **settings, patience=2).fit(train, valid)
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
