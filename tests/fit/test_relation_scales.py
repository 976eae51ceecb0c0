"""Scores of different relations are comparable, and are log-odds of unlisted cells."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import average_precision_score

from relatent import Facts, InputError, Rescal, RescalLogit, load_dataset, split
from relatent.fit.relation_scales import learn_scales
from relatent.model.factors import Factors
from relatent.model.links import LogisticLink
from sparse_graphs import sparse_graph

QUICK = {"max_iter": 25, "rank": 64}


@pytest.fixture(scope="module")
def shopping() -> tuple[Facts, Facts]:
    return split(sparse_graph("shopping", 6), test_size=0.1, random_state=6)


@pytest.fixture(scope="module")
def models(shopping: tuple[Facts, Facts]) -> tuple[RescalLogit, RescalLogit]:
    return RescalLogit(**QUICK, rescale_relations=False).fit(shopping[0]), RescalLogit(**QUICK).fit(shopping[0])


def unlisted(factors: Factors, train: Facts, test: Facts) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all cells that are not in training, and which are true."""
    theta = np.einsum("ip,kpq,jq->ikj", factors.A, factors.R, factors.A, optimize=True) + factors.bias[:, None]
    is_listed, is_true = np.zeros((2, *theta.shape), bool)
    for facts, mask in ((train, is_listed), (test, is_true)):
        mask[tuple(facts.triples.T)] = True
    return theta[~is_listed], is_true[~is_listed]


def average_precision(theta: np.ndarray, is_true: np.ndarray) -> float:
    """Of the likeliest 100,000 cells."""
    top = np.argpartition(theta, -100_000)[-100_000:]
    return float(average_precision_score(is_true[top], theta[top]))


def test_the_order_within_a_relation_stays_and_that_of_all_cells_gets_better(shopping, models):
    plain, scaled = (model.factors_ for model in models)
    assert np.array_equal(plain.A, scaled.A)
    slopes = scaled.R[:, 0, 0] / plain.R[:, 0, 0]
    assert (slopes > 0).all()
    assert np.allclose(scaled.R, plain.R * slopes[:, None, None], rtol=1e-5)
    before, after = (average_precision(*unlisted(factors, *shopping)) for factors in (plain, scaled))
    assert after > 1.3 * before


def test_probabilities_sum_to_about_the_number_of_missing_facts(shopping, models):
    for model, is_right in zip(models, (False, True), strict=True):
        theta, is_true = unlisted(model.factors_, *shopping)
        assert (0.7 < expit(theta).sum() / is_true.sum() < 1.4) == is_right


def test_the_model_says_what_was_held_out(shopping, models):
    plain, scaled = (model.factors_.about for model in models)
    assert "rescaled" not in plain
    record = scaled["rescaled"]
    assert (record["heldout_facts"], record["steps"]) == (round(len(shopping[0]) / 10), 13)
    n_relations = len(models[1].factors_.relations)
    assert len(record["slopes"]) == len(record["intercepts"]) == n_relations  # with which `update` goes on
    assert models[1].settings_.values["rescale_relations"] is True


def test_only_sparse_data_with_probabilities_are_rescaled_unless_asked():
    kinships = load_dataset("kinships")
    assert RescalLogit().choose_settings(kinships).values["rescale_relations"] is False
    sparse = sparse_graph("films", 0)
    assert Rescal(loss="softmax").choose_settings(sparse).values["rescale_relations"] is False
    assert RescalLogit(l2_entities=0.1).choose_settings(sparse).values["rescale_relations"] is False
    for count, is_enough in ((29, False), (30, True)):
        pairs = [f"a{i}" for i in range(count)], [f"b{i}" for i in range(count)]
        few = Facts.from_arrays(pairs[0], ["likes"] * count, pairs[1])
        assert RescalLogit().choose_settings(few).values["rescale_relations"] is is_enough
    asked = RescalLogit(rank=10, tol=0.1, rescale_relations=True).fit(kinships)
    assert asked.factors_.about["rescaled"]["heldout_facts"] > 900


def test_a_value_that_is_neither_true_nor_false_is_refused(shopping):
    with pytest.raises(InputError, match="rescale_relations must be True or False, got 'yes'"):
        RescalLogit(rescale_relations="yes").fit(shopping[0])


def test_a_start_that_knows_the_held_out_facts_does_not_make_the_scales_confident(shopping, models):
    again = RescalLogit(max_iter=2, init=models[0].factors_).fit(shopping[0])
    theta, is_true = unlisted(again.factors_, *shopping)
    assert expit(theta).sum() / is_true.sum() < 2


def test_scores_that_say_nothing_stay_as_they_are(shopping):
    facts, heldout = shopping
    A, R, b = np.zeros((facts.n_entities, 2)), np.zeros((facts.n_relations, 2, 2)), np.zeros(facts.n_relations)
    nothing = Factors(A, R, b, facts.entities, facts.relations, LogisticLink())
    scales = learn_scales(nothing, facts, heldout, 0)
    assert (scales.slope == 1).all()
    assert (scales.intercept == 0).all()


def test_ctrl_c_while_scales_are_learned_keeps_the_factors(shopping, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("relatent.fit.estimators.rescal.learn_scales", interrupted)
    model = RescalLogit(rank=10, max_iter=2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(shopping[0])
    assert model.factors_.rank == 10


def test_planted_slopes_are_found_and_few_facts_get_the_common_ones():
    rng = np.random.default_rng(0)
    n, slopes = 200, np.array([2.0, 0.5, 1.0])
    A = rng.normal(size=(n, 4)) / 2
    R = np.stack([np.diag(rng.uniform(1, 2, 4)) for _ in slopes])
    theta = np.einsum("ip,kpq,jq->ikj", A, R, A)
    is_true = rng.random(theta.shape) < expit(slopes[:, None] * theta - 3)
    is_true[:, 2] &= np.cumsum(is_true[:, 2].ravel()).reshape(n, n) <= 2  # two facts of the last relation
    facts = Facts.from_arrays(*np.argwhere(is_true).T)
    factors = Factors(A, R, np.zeros(3), facts.entities, facts.relations, LogisticLink())
    scales = learn_scales(factors, facts, facts, 0)
    assert np.allclose(scales.slope[:2], slopes[:2], rtol=0.1)
    assert np.allclose(scales.intercept[:2], -3, atol=0.2)
    assert 0.5 < scales.slope[2] < 2


def test_large_data_learns_scales_from_as_many_rounds_as_small_data(monkeypatch, shopping):
    """With a tenth of the rounds, scores had not grown yet, and slopes of 20 made unlikely facts certain."""
    monkeypatch.setattr("relatent.fit.automatic_settings.LARGE_DATA", len(shopping[0]))
    model = RescalLogit(16, max_iter=40).fit(shopping[0])
    record = model.factors_.about["rescaled"]
    assert record["steps"] == 20
    assert max(record["slopes"]) < 2
