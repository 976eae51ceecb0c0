"""What `Estimator` gives to every model: one `fit`, checked arguments, random_state and learned attributes."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import relatent
from relatent import progress as progress_module
from relatent.distributed.workers import ALONE
from relatent.errors import InputError
from relatent.fit.estimators.base import Estimator
from small_graphs import random_facts

FACTS = random_facts(12, 2, 60)
MODELS = {
    "als": relatent.RescalALS(2, 0.1, 0.1),
    "rescal": relatent.Rescal(2, "squared", 0.1, 0.1, init="random"),
    "logit": relatent.RescalLogit(2, 0.1, 0.1, init="random"),
    "nonnegative": relatent.NonnegativeRescal(2, 0.1, 0.1),
    "irm": relatent.IRM(chains=1, burn_in=2, n_samples=2),
    "mrc": relatent.MRC(n_clusterings=2, n_clusters=2),
    "mln": relatent.MarkovLogic(max_iter=2, max_clauses=2),
}
ONE_PROCESS = {"nonnegative", "irm", "mrc", "mln"}
pytestmark = pytest.mark.filterwarnings("ignore:stopped at max_iter")


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


def test_all_models_share_one_fit():
    for model in MODELS.values():
        assert inspect.getattr_static(type(model), "fit") is Estimator.fit


def test_learned_attributes_before_fit_raise_not_fitted_error(model):
    for name in ("factors_", "trace_", "n_iter_", "seed_"):
        with pytest.raises(NotFittedError, match=f"has no attribute '{name}': call fit first"):
            getattr(model, name)
    assert not hasattr(model, "factors_")
    with pytest.raises(AttributeError, match=r"has no attribute 'colour'$"):
        _ = model.colour
    model.fit(FACTS)
    with pytest.raises(AttributeError, match=r"has no attribute 'colours_'$"):
        _ = model.colours_


def test_progress_true_draws_a_bar(model, monkeypatch):
    reports, draw = [], progress_module.bar

    def bar(title, **settings):
        reports.append(title)
        return draw(title, **settings)

    monkeypatch.setattr(progress_module, "bar", bar)
    model.fit(FACTS, progress=True)
    assert reports[0] == f"fitting {type(model).__name__}"


@pytest.mark.parametrize("name", sorted(MODELS))
def test_arguments_that_a_model_does_not_support_raise(name):
    model = clone(MODELS[name])
    if name in ONE_PROCESS:
        with pytest.raises(InputError, match=rf"^{type(model).__name__}\.fit does not support workers; leave it out$"):
            model.fit(FACTS, workers=ALONE)
    else:
        assert model.fit(FACTS, workers=ALONE).seed_ == 0


def test_a_generator_gives_the_seed_of_the_fit(model):
    first = clone(model).set_params(random_state=np.random.default_rng(5)).fit(FACTS)
    again = clone(model).set_params(random_state=np.random.default_rng(5)).fit(FACTS)
    assert first.seed_ == again.seed_
    same = clone(model).set_params(random_state=first.seed_).fit(FACTS)
    for other in (again, same):
        np.testing.assert_array_equal(first.factors_.A, other.factors_.A)
        np.testing.assert_array_equal(first.factors_.R, other.factors_.R)


def test_without_a_random_state_the_seed_is_drawn_and_stored(model):
    first, second = (clone(model).set_params(random_state=None).fit(FACTS) for _ in range(2))
    assert first.seed_ != second.seed_
    assert first.factors_.about.settings["random_state"] == first.seed_


def test_a_generator_is_written_into_a_checkpoint_without_its_address(tmp_path):
    model = clone(MODELS["als"]).set_params(max_iter=2, tol=0.0)
    for _ in range(2):  # the second resumes
        model.set_params(random_state=np.random.default_rng(1)).fit(FACTS, checkpoint=tmp_path / "fit.checkpoint")
