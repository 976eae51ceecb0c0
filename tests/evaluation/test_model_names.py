"""One contract, every model: what can be asked of RESCAL can be asked of the systems beside it."""

import contextlib
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import relatent
from relatent.errors import InputError, RelatentWarning
from small_graphs import random_facts

COMPLETE = {"missing": 0.01}  # nearly all true facts are listed
SETTINGS = {"rank": 4, "l2_entities": 0.1, "l2_relations": 0.1, **COMPLETE}
MODELS = {
    "als": relatent.RescalALS(**SETTINGS),
    "logit": relatent.RescalLogit(**SETTINGS),
    "categorical": relatent.Rescal(loss="categorical", **SETTINGS),
    "softmax": relatent.Rescal(loss="softmax", **SETTINGS),
    "nonnegative": relatent.NonnegativeRescal(**SETTINGS),
    "irm": relatent.IRM(burn_in=10, n_samples=4, **COMPLETE),
    "mrc": relatent.MRC(**COMPLETE),
    "mln": relatent.MarkovLogic(**COMPLETE),
}


def groups(n=30, seed=0):
    """Three groups; who relates to whom, and how, depends on the two groups, but for one cell in twenty."""
    rng = np.random.default_rng(seed)
    kind = np.array([[0, 1, 9], [9, 0, 1], [1, 9, 0]])  # 9: not at all
    group = np.arange(n) % 3
    relation = kind[group[:, None], group[None, :]]
    relation = np.where(rng.random((n, n)) < 0.05, rng.choice([0, 1, 9], (n, n)), relation)
    s, o = np.nonzero(relation < 9)
    return relatent.Facts.from_arrays(
        s, relation[s, o], o, entity_names=[f"e{i:02}" for i in range(n)], relation_names=["likes", "hates"]
    )


FACTS = groups()
CELLS = np.stack([np.random.default_rng(1).integers(0, size, 150) for size in (30, 2, 30)], axis=1)


@pytest.fixture(scope="module")
def fitted():
    """Each model, fitted once without CELLS."""
    found = {}

    def get(name):
        if name not in found:
            found[name] = clone(MODELS[name]).fit(FACTS.hold_out(CELLS, masked=True))
        return found[name]

    return get


each_model = pytest.mark.parametrize("name", MODELS)


@each_model
def test_masked_cells_are_predicted_from_the_rest(fitted, name):
    model = fitted(name).factors_
    p, truth = model.probability(*CELLS.T), FACTS.contains(CELLS)
    assert ((p >= 0) & (p <= 1)).all()
    assert p[truth].mean() > p[~truth].mean() + 0.3
    assert np.isfinite(model.score(*CELLS.T)).all()


@each_model
def test_a_fit_has_factors_a_trace_and_a_description(fitted, name):
    estimator = fitted(name)
    assert isinstance(estimator.factors_, relatent.Factors)
    assert len(estimator.trace_) == estimator.n_iter_ >= 1
    assert np.isfinite(estimator.trace_.objective).all()
    assert estimator.trace_.converged
    assert estimator.factors_.about.model in relatent.__all__


@each_model
def test_saved_models_load_unchanged(fitted, name, tmp_path):
    model = fitted(name).factors_
    model.save(tmp_path / "m.relatent")
    again = relatent.load(tmp_path / "m.relatent")
    np.testing.assert_array_equal(again.probability(*CELLS.T), model.probability(*CELLS.T))
    assert again.top(subject="e00", relation="likes").names == model.top(subject="e00", relation="likes").names
    assert again.about == model.about


@each_model
def test_the_answers_to_a_question_are_those_of_single_cells(fitted, name):
    model = fitted(name).factors_
    top = model.top(subject="e03", relation="hates", k=30)
    np.testing.assert_allclose(top.probabilities, model.probability("e03", "hates", top.names), rtol=1e-4, atol=1e-6)
    assert (np.diff(top.scores) <= 0).all()


@each_model
def test_the_same_seed_gives_the_same_model(fitted, name):
    again = clone(MODELS[name]).fit(FACTS.hold_out(CELLS, masked=True)).factors_
    np.testing.assert_array_equal(again.probability(*CELLS.T), fitted(name).factors_.probability(*CELLS.T))


@each_model
def test_masked_cells_have_no_influence(fitted, name):
    """The truth of the masked cells is another one: the model is the same."""
    false = FACTS.hold_out(CELLS, masked=False)
    again = clone(MODELS[name]).fit(false.hold_out(CELLS, masked=True)).factors_
    np.testing.assert_array_equal(again.probability(*CELLS.T), fitted(name).factors_.probability(*CELLS.T))


@each_model
def test_held_out_cells_rank_high_among_all_entities(fitted, name):
    true = relatent.Facts.from_ids(CELLS[FACTS.contains(CELLS)], FACTS.entities, FACTS.relations)
    known = FACTS.hold_out(CELLS, masked=False)
    found = relatent.evaluate(fitted(name).factors_, true, known=known)
    assert found.mrr > 0.2  # a random order gives about .13 once the known facts are left out
    assert found.n == len(true)


@each_model
def test_cross_validation_takes_every_model(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RelatentWarning)
        report = relatent.cross_validate(MODELS[name], FACTS, folds=3)
    assert report.average_precision > report.baselines["relation frequency"]["average_precision"] + 0.2
    assert 0 <= report.ece <= 1


@each_model
def test_weighted_facts_can_be_fitted(name):
    facts = random_facts(12, 2, 60, unobserved=20, weighted=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RelatentWarning)
        model = clone(MODELS[name]).fit(facts).factors_
    assert np.isfinite(model.A).all()
    assert np.isfinite(model.R).all()


@each_model
def test_nothing_to_learn_from_is_refused(name):
    nothing = FACTS.hold_out(FACTS.triples, masked=False)
    with pytest.raises(InputError, match="there are no facts to learn from"):
        clone(MODELS[name]).fit(nothing)


@each_model
def test_anything_but_facts_is_refused(name):
    with pytest.raises(InputError, match="fit takes Facts, got ndarray"):
        clone(MODELS[name]).fit(np.ones((3, 3)))


@each_model
def test_progress_is_reported(name):
    said = []
    clone(MODELS[name]).fit(FACTS, progress=lambda *news: said.append(news))
    assert said
    assert all(0 <= done <= total for done, total, _ in said)


@each_model
def test_the_smallest_graph_can_be_fitted(name):
    facts = relatent.Facts.from_arrays(["Ann"], ["likes"], ["Bob"])
    estimator = clone(MODELS[name])
    with contextlib.suppress(ValueError):
        estimator.set_params(rank=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RelatentWarning)
        model = estimator.fit(facts).factors_
    assert 0 <= model.probability("Ann", "likes", "Bob") <= 1
