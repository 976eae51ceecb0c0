"""Probabilities of unlisted cells, in worlds where it is known which are true."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn.base
from scipy.special import expit

import relatent
from grouped_world import ALS, births, grouped_world, judged
from relatent.data.cell_keys import cells_of
from relatent.errors import InputError
from relatent.fit import calibration
from relatent.fit.calibration import HeldOutFit, heldout_facts, learn
from relatent.model import unlisted_cells
from relatent.model.factors import Factors
from small_graphs import blocks, cliques, marriages, random_facts

MONOTONE = {
    "log-odds": lambda theta: theta,
    "a tenth": lambda theta: 0.1 * theta + 3,
    "thousands": lambda theta: 1000 * theta,
    "cubes": lambda theta: theta**3,
    "steps": lambda theta: np.round(2 * theta),
}


def factors_of(theta, facts):
    """A model that has the scores θ, (K, N, N)."""
    n, k = facts.n_entities, facts.n_relations
    return Factors(np.eye(n), theta, np.zeros(k), facts.entities, facts.relations, facts=facts)


class World:
    """Cells that are true with known probability, of which some are listed."""

    def __init__(self, missing, n=150, seed=0):
        rng = np.random.default_rng(seed)
        levels = np.array([-5.0, -4.0])[:, None, None]
        self.theta = levels + 2.0 * rng.normal(size=(2, n, n)) + rng.normal(size=(2, n, 1))
        self.theta[:, np.arange(n), np.arange(n)] = -20.0
        p = expit(self.theta)
        is_true = rng.random(p.shape) < p
        is_listed = is_true & (rng.random(p.shape) >= missing)
        k, s, o = np.nonzero(is_listed)
        self.listed = relatent.Facts.from_arrays(s, k, o, n_entities=n, n_relations=2)
        k, s, o = np.nonzero(~is_listed)
        self.cells = np.stack([s, k, o], axis=1)
        self.truth = (missing * p / (1 - (1 - missing) * p))[k, s, o]  # the probability of an unlisted cell

    def said(self, change=lambda theta: theta, **options):
        """The probabilities of the unlisted cells by a model that has a rising function of their log-odds."""
        model = factors_of(change(self.theta), self.listed)
        trials = [HeldOutFit(model, part) for part in heldout_facts(self.listed, 0)]
        found = learn(model, self.listed, trials, **options)
        return found, np.asarray(calibrated(model, found).probability(*self.cells.T), np.float64)


def calibrated(model, found):
    return replace(model, R=model.relation_matrices, calibration=found)


def bins_of(said, truth):
    """The expected and the true number in each bin with 50 expected facts or more."""
    edges = [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1]
    expected, true = (np.histogram(said, edges, weights=weights)[0] for weights in (said, truth))
    return expected[expected >= 50], true[expected >= 50]


# --- probabilities are true


@pytest.mark.parametrize("missing", [0.03, 0.1, 0.5])
def test_the_expected_number_of_missing_facts_is_the_stated_share(missing):
    world = World(0.1)
    found, said = world.said(missing=missing)
    wanted = len(world.listed) * missing / (1 - missing)
    assert (found.missing, found.is_assumed) == (missing, False)
    assert found.expected == pytest.approx(wanted, rel=1e-3)
    assert said.sum() == pytest.approx(wanted, rel=0.02)
    for k, count in enumerate(world.listed.counts()):
        own = said[world.cells[:, 1] == k]
        assert own.sum() == pytest.approx(count * missing / (1 - missing), rel=0.03)
        assert found.base_rates[k] == pytest.approx(own.mean(), rel=0.03)


def test_a_relation_whose_missing_facts_are_nearly_all_at_the_top_is_told_from_others():
    said, true = 0.0, 0.0
    for seed in range(4):
        rng, easy = np.random.default_rng(seed), 2
        hard = World(0.1, seed=seed).theta
        theta = np.concatenate([hard, -45.0 + 20.0 * rng.normal(size=(1, *hard.shape[1:])), hard[:1] - 1.0])
        p = expit(theta)
        is_listed = rng.random(p.shape) < 0.9 * p
        k, s, o = np.nonzero(is_listed)
        facts = relatent.Facts.from_arrays(s, k, o, n_entities=theta.shape[1], n_relations=len(theta))
        model = factors_of(theta, facts)
        found = learn(model, facts, [HeldOutFit(model, part) for part in heldout_facts(facts, 0)])
        s, o = np.nonzero(~is_listed[easy] & (p[easy] > 0.5))
        said += calibrated(model, found).probability(s, easy, o).sum()
        true += (0.1 * p / (1 - 0.9 * p))[easy, s, o].sum()
    assert 1 / 1.3 < said / true < 1.3


def test_a_tenth_is_assumed_where_nobody_says_a_share():
    world = World(0.1)
    found, said = world.said()
    assert (found.missing, found.is_assumed) == (0.1, True)
    assert said.sum() == pytest.approx(len(world.listed) / 9, rel=0.02)
    assert "it is assumed that 0.1 of the true facts, about" in found.describe()


@pytest.mark.parametrize("change", MONOTONE)
def test_what_is_said_is_true_whatever_the_scale_of_the_scores(change):
    world = World(0.2)
    _, said = world.said(MONOTONE[change], missing=0.2)
    expected, true = bins_of(said, world.truth)
    assert len(expected) >= 4
    assert np.abs(np.log(expected / true)).max() < np.log(1.3)
    if change not in ("steps", "cubes"):
        likely = world.truth > 0.02
        assert np.median(np.abs(np.log(said[likely] / world.truth[likely]))) < 0.15


def test_probabilities_do_not_depend_on_the_scale_of_the_scores():
    world = World(0.2)
    _, plain = world.said()
    for change in ("a tenth", "thousands"):
        np.testing.assert_allclose(world.said(MONOTONE[change])[1], plain, rtol=0.1, atol=1e-4)


def test_scores_that_say_nothing_give_every_cell_the_base_rate():
    world = World(0.1)
    noise = np.random.default_rng(1).normal(size=world.theta.shape)
    world.theta = noise
    found, said = world.said(missing=0.1)
    for k in range(2):
        own = said[world.cells[:, 1] == k]
        assert np.quantile(own, 0.99) < 3 * own.mean()
        assert own.mean() == pytest.approx(found.base_rates[k], rel=0.05)


def test_probabilities_rise_with_the_score_within_a_relation():
    found, _ = World(0.1).said()
    theta = np.linspace(-20, 20, 400)
    for k in range(2):
        for kind in range(4):
            assert (np.diff(found.log_odds(theta, k, np.full(400, kind))) > 0).all()


@pytest.fixture(scope="module")
def parts():
    return relatent.split(grouped_world(), test_size=0.2)


@pytest.mark.parametrize(
    "estimator",
    [
        ALS,
        relatent.RescalLogit(rank=12, l2_entities=1, l2_relations=1, max_iter=40),
        relatent.Rescal(loss="softmax", rank=12, l2_entities=0.5, l2_relations=0.5, max_iter=30),
        relatent.Rescal(loss="hinge", rank=12, l2_entities=2, l2_relations=2, max_iter=30),
        relatent.NonnegativeRescal(rank=12, l2_entities=0.5, l2_relations=0.5, max_iter=60),
    ],
    ids=["als", "logit", "softmax", "hinge", "nonnegative"],
)
@pytest.mark.filterwarnings("ignore::relatent.errors.ConvergenceWarning")
def test_probabilities_of_a_fit_are_true(parts, estimator):
    train, test = parts
    factors = sklearn.base.clone(estimator).set_params(missing=0.2).fit(train).factors_
    p, truth, cells = judged(factors, train, test)
    expected, true = bins_of(p, truth.astype(float))
    assert len(expected) >= 2
    assert np.abs(np.log(expected / true)).max() < np.log(1.5)
    assert p.sum() == pytest.approx(truth.sum(), rel=0.2)
    for relation in (0, 1):
        own = cells[:, 1] == relation
        assert p[own].sum() == pytest.approx(truth[own].sum(), rel=0.25)
    assert p.sum() == pytest.approx(factors.calibration.expected, rel=0.02)


def test_a_relation_with_few_facts_borrows_from_the_others(parts):
    facts = grouped_world()
    few = np.flatnonzero(facts.triples[:, 1] == 2)[6:]
    facts = facts.subset(~np.isin(np.arange(len(facts)), few))
    factors = sklearn.base.clone(ALS).set_params(missing=0.2).fit(facts).factors_
    p, _, cells = judged(factors, facts, facts)
    own = p[cells[:, 1] == 2]
    assert own.sum() == pytest.approx(6 * 0.25, rel=0.1)
    assert own.max() > 5 * own.mean()


def test_sampled_rows_give_about_the_same(parts, monkeypatch):
    train, test = parts
    told = sklearn.base.clone(ALS).set_params(missing=0.2)
    p, _, cells = judged(told.fit(train).factors_, train, test)
    for name, value in (("MAX_CELLS", 0), ("MIN_CELLS", 0), ("MIN_ROWS", 75)):  # of 150
        monkeypatch.setattr(unlisted_cells, name, value)
    q = np.asarray(told.fit(train).factors_.probability(*cells.T))
    assert q.sum() == pytest.approx(p.sum(), rel=0.15)
    likely = p > 0.05
    assert np.median(np.abs(np.log(q[likely] / p[likely]))) < 0.3


def test_cells_that_nobody_looked_at_are_true_as_often_as_others():
    """Of a sixth of the cells nobody knows anything; of the others a tenth of the facts was overlooked."""
    facts = blocks(48, groups=4)
    seen, _ = relatent.split(facts, test_size=0.1)
    keys = np.random.default_rng(0).choice(facts.n_cells, facts.n_cells // 6, replace=False)
    hidden = cells_of(np.sort(keys), facts.n_entities)
    model = sklearn.base.clone(ALS).set_params(rank=4, missing=0.1)
    p = np.asarray(model.fit(seen.hold_out(hidden, masked=True)).factors_.probability(*hidden.T))
    is_true = facts.contains(hidden)
    assert p.sum() == pytest.approx(is_true.sum(), rel=0.3)
    assert p[is_true].mean() > 5 * p[~is_true].mean()


# --- questions with one answer


@pytest.fixture(scope="module")
def born():
    train, test = relatent.split(births(), test_size=0.1)
    return train, test, sklearn.base.clone(ALS).set_params(missing=0.1).fit(train).factors_


def test_relations_whose_questions_have_one_answer_are_seen(born):
    train, _, factors = born
    found = dict(zip(train.relations, factors.calibration.one_answer.tolist(), strict=True))
    assert found == {"born in": [True, False], "visited": [False, False]}


def test_the_probabilities_of_a_question_with_one_answer_sum_to_at_most_one(born):
    train, _, factors = born
    born_in = train.relations.id("born in")
    everyone = np.arange(train.n_entities)
    p = np.asarray(factors.probability(everyone[:, None], born_in, everyone))
    has_answer = np.bincount(train.subjects[train.triples[:, 1] == born_in], minlength=train.n_entities) > 0
    assert (~has_answer).any()
    assert p[~has_answer].sum(axis=1).max() <= 1.02


def test_who_has_the_only_answer_lacks_no_other(born):
    train, test, factors = born
    p, truth, cells = judged(factors, train, test)
    born_in = train.relations.id("born in")
    answered = set(train.subjects[train.triples[:, 1] == born_in].tolist())
    has_answer = np.array([k == born_in and s in answered for s, k, _ in cells.tolist()])
    is_open = (cells[:, 1] == born_in) & ~has_answer
    n_missing = truth[is_open].sum()
    assert n_missing > 10
    assert p[is_open].sum() == pytest.approx(n_missing, rel=0.4)
    assert p[has_answer].sum() < 0.1 * p[is_open].sum()


def test_married_people_of_whom_none_is_single_lack_nobody():
    facts = marriages(40)
    factors = relatent.RescalALS(4, 0.1, 0.1).fit(facts).factors_
    married = facts.relations.id("married")
    assert factors.calibration.one_answer[married].all()
    p, _, cells = judged(factors, facts, facts)
    assert p[cells[:, 1] == married].max() < 0.1


# --- odd data


def dense(n=6, k=2):
    return relatent.Facts.from_tensor(np.ones((n, n, k)))


ODD = {
    "every cell is true": dense(),
    "every cell of one relation is true": relatent.Facts.from_tensor(
        np.stack([np.ones((8, 8)), np.eye(8, k=1)], axis=2)
    ),
    "one entity": relatent.Facts.from_arrays(["a"], ["r"], ["a"]),
    "one entity, many relations": relatent.Facts.from_arrays(["a"] * 12, [f"r{i}" for i in range(12)], ["a"] * 12),
    "one fact": relatent.Facts.from_arrays(["a"], ["r"], ["b"]),
    "two facts": relatent.Facts.from_arrays(["a", "b"], ["r", "q"], ["b", "a"]),
    "ten facts": random_facts(8, 2, 10),
    "a relation without facts": relatent.Facts.from_arrays(
        np.arange(12), np.zeros(12, int), np.roll(np.arange(12), 1), n_relations=3
    ),
    "entities without facts": relatent.Facts.from_arrays(
        np.arange(12), np.arange(12) % 2, np.roll(np.arange(12), 1), n_entities=40
    ),
    "each fact a relation of its own": relatent.Facts.from_arrays(
        np.arange(15), np.arange(15), np.roll(np.arange(15), 1)
    ),
    "all that is not listed is unobserved": random_facts(5, 2, 20).hold_out(
        np.stack(np.unravel_index(np.arange(50), (5, 2, 5)), axis=1)[
            ~random_facts(5, 2, 20).contains(np.stack(np.unravel_index(np.arange(50), (5, 2, 5)), axis=1))
        ],
        masked=True,
    ),
    "weights": random_facts(12, 2, 60, weighted=True, unobserved=20),
    "a symmetric relation": cliques(12, 3),
}


@pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
@pytest.mark.parametrize("estimator", [relatent.RescalALS(2, 0.1, 0.1), relatent.RescalLogit(2, max_iter=10)], ids=repr)
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_have_probabilities(kind, estimator):
    facts = ODD[kind]
    rank = min(2, facts.n_entities)
    factors = sklearn.base.clone(estimator).set_params(rank=rank).fit(facts).factors_
    everyone = np.arange(facts.n_entities)
    p = factors.probability(everyone[:, None, None], np.arange(facts.n_relations)[:, None], everyone)
    assert np.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()
    assert (factors.base_rates >= 0).all()
    assert 0 <= factors.calibration.expected <= max(facts.n_cells - len(facts), 1)


def test_scores_that_are_all_equal_give_equal_probabilities():
    facts = random_facts(30, 2, 200)
    model = factors_of(np.zeros((2, 30, 30)), facts)
    trials = [HeldOutFit(model, part) for part in heldout_facts(facts, 0)]
    found = calibrated(model, learn(model, facts, trials, missing=0.3))
    p, _, cells = judged(found, facts, facts)
    assert p.sum() == pytest.approx(200 * 0.3 / 0.7, rel=0.05)
    for k in range(2):
        own = p[cells[:, 1] == k]
        assert len(np.unique(own.round(12))) <= 4, "they differ only by what else their ends have"


def test_a_score_far_above_all_others_is_not_certain():
    world = World(0.1)
    found, _ = world.said()
    for k, theta in enumerate(world.theta):
        log_odds = found.line(np.array([theta.max(), theta.max() + 10.0, theta.max() + 100.0]), k)
        assert (np.diff(log_odds) > 0).all()
        assert log_odds[-1] < calibration.MAX_LOG_ODDS + 1


@pytest.mark.parametrize("n", [1, 4, 9, 10, 11, 25])
def test_of_very_few_facts_none_or_some_are_held_out(n):
    facts = random_facts(10, 2, n)
    parts = heldout_facts(facts, 0)
    assert sum(map(len, parts)) < max(1, n / 2)
    factors = factors_of(np.random.default_rng(0).normal(size=(2, 10, 10)), facts)
    found = learn(factors, facts, [HeldOutFit(factors, part) for part in parts], missing=0.5)
    assert found.heldout_facts == sum(map(len, parts))
    assert found.expected == pytest.approx(n, rel=0.2, abs=1)


def test_without_held_out_facts_the_best_scores_are_still_the_likeliest():
    world = World(0.1)
    model = factors_of(world.theta, world.listed)
    found = learn(model, world.listed, (), missing=0.1)
    assert found.heldout_facts == 0
    assert found.expected == pytest.approx(len(world.listed) / 9, rel=1e-3)
    p = np.asarray(calibrated(model, found).probability(*world.cells.T))
    best = np.argsort(-world.truth)[:200]
    assert p[best].mean() > 5 * p.mean()


# --- what is held out


@pytest.mark.parametrize("facts", [random_facts(40, 3, 600), cliques(24, 4), grouped_world()], ids=len)
def test_held_out_facts_are_few_and_none_is_held_out_twice(facts):
    parts = heldout_facts(facts, 3)
    assert 1 <= len(parts) <= calibration.MAX_TRIALS
    keys = [row for part in parts for row in part.named()]
    assert len(set(keys)) == len(keys)
    assert set(keys) < set(facts.named())
    for part in parts:
        assert len(part) == pytest.approx(calibration.HELDOUT_SHARE * len(facts), rel=0.3)
    assert [part.named() for part in heldout_facts(facts, 3)] == [part.named() for part in parts]
    assert [part.named() for part in heldout_facts(facts, 4)] != [part.named() for part in parts]


def test_mirrored_facts_of_a_symmetric_relation_are_held_out_together():
    for part in heldout_facts(cliques(24, 4), 0):
        rows = set(part.named())
        assert rows == {(o, r, s) for s, r, o in rows}


def test_of_many_facts_one_trial_is_enough(monkeypatch):
    monkeypatch.setattr(calibration, "ENOUGH_HELDOUT", 30)
    assert len(heldout_facts(random_facts(40, 3, 600), 0)) == 1
    assert len(heldout_facts(random_facts(40, 3, 599), 0)) == 2


# --- in a fit


def test_the_same_seed_gives_the_same_calibration(parts):
    first, second, other = (
        sklearn.base.clone(ALS).set_params(random_state=seed).fit(parts[0]).factors_.calibration for seed in (0, 0, 1)
    )
    for name in ("scores", "values", "shifts", "base_rates"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert not np.array_equal(first.values, other.values)


@pytest.mark.parametrize("missing", [0, 1, -0.1, 1.5, float("nan"), float("inf"), True, "0.1", [0.1], np.array([0.1])])
def test_a_share_that_is_none_is_refused(missing):
    facts = blocks(9)
    with pytest.raises(InputError, match="missing must be"):
        relatent.RescalALS(2, missing=missing).fit(facts)


def test_shares_of_any_number_type_are_taken():
    for missing in (0.25, np.float32(0.25), np.float64(0.25)):
        found = relatent.RescalALS(2, 0.1, 0.1, missing=missing).fit(blocks(9)).factors_.calibration
        assert (found.missing, found.is_assumed) == (0.25, False)


def test_the_scores_are_those_of_a_fit_that_is_not_calibrated(parts):
    plain = sklearn.base.clone(ALS).set_params(calibrate=False).fit(parts[0])
    fitted = sklearn.base.clone(ALS).fit(parts[0])
    np.testing.assert_array_equal(plain.factors_.A, fitted.factors_.A)
    np.testing.assert_array_equal(plain.factors_.R, fitted.factors_.R)
    assert plain.n_iter_ == fitted.n_iter_
    assert plain.factors_.calibration is None


def test_progress_says_what_is_done_and_counts_on(parts):
    reports = []
    model = sklearn.base.clone(ALS).fit(parts[0], progress=lambda *report: reports.append(report))
    learning = [report for report in reports if report[2] == "learning probabilities"]
    assert reports[model.n_iter_ :] == learning
    assert [done for done, *_ in reports] == list(range(1, len(reports) + 1))
    assert all(done <= total for done, total, _ in reports)


def test_what_an_interrupt_leaves_while_probabilities_are_learned_is_a_model_without(parts):
    def pressed(done, total, note):
        if note == "learning probabilities":
            raise KeyboardInterrupt

    model = sklearn.base.clone(ALS)
    with pytest.raises(KeyboardInterrupt):
        model.fit(parts[0], progress=pressed)
    assert model.factors_.calibration is None
    assert model.trace_.converged


def test_the_further_fit_says_nothing_twice():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        relatent.RescalALS(3, 0.1, 0.1, max_iter=2, tol=0).fit(blocks(12))
    assert len(told) == 1


def test_facts_are_left_out_of_the_model_and_not_of_its_probabilities(parts):
    train, _ = parts
    with_facts, without = (
        sklearn.base.clone(ALS).set_params(keep_facts=keep, patterns="none").fit(train).factors_
        for keep in (True, False)
    )
    assert without.facts is None
    np.testing.assert_array_equal(without.calibration.values, with_facts.calibration.values)
    asked = without.asked(train)
    cells = np.array([[0, 0, 1], [5, 1, 6], [7, 2, 20]])
    np.testing.assert_array_equal(asked.judge(cells).probability, with_facts.probability(*cells.T))


# --- cells where nobody looked


def questions(n_people=60, n_answers=6):
    """Each person has one of a few answers and three hobbies that go with it; the answers of ten are unobserved."""
    rng = np.random.default_rng(0)
    answer = rng.integers(0, n_answers, n_people)
    rows = [(f"p{i}", "answer", f"a{answer[i]}") for i in range(n_people)]
    likes = [answer[i] if rng.random() < 0.8 else rng.integers(n_answers) for i in range(n_people) for _ in range(3)]
    rows += [(f"p{i // 3}", "likes", f"h{likes[i]}_{rng.integers(3)}") for i in range(3 * n_people)]
    facts = relatent.Facts.from_arrays(*map(list, zip(*dict.fromkeys(rows), strict=True)))
    cells = np.array(
        [
            (facts.entities.id(f"p{i}"), facts.relations.id("answer"), facts.entities.id(f"a{a}"))
            for i in range(10)
            for a in range(n_answers)
        ]
    )
    return facts, cells


def test_masked_cells_are_like_the_unobserved_ones():
    facts, cells = questions()
    train = facts.hold_out(cells, masked=True)
    found = calibration.like_unobserved(train, 0)
    assert len(found)
    assert not train.is_unobserved(found).any()
    assert set(found[:, 1].tolist()) == set(cells[:, 1].tolist())
    assert set(found[:, 2].tolist()) == set(cells[:, 2].tolist())
    assert set(np.bincount(found[:, 0]).tolist()) == {0, 6}, "whole questions"
    assert train.contains(found).sum() == len(np.unique(found[:, 0])), "each has its true answer"
    np.testing.assert_array_equal(calibration.like_unobserved(train, 0), found)
    assert len(calibration.like_unobserved(facts, 0)) == 0


def test_log_odds_that_are_too_sure_are_corrected():
    rng = np.random.default_rng(0)
    truth_of = rng.normal(0, 1.5, 4000) - 1.0
    truth, relations = rng.random(4000) < expit(truth_of), np.repeat([0, 1], 2000)
    intercept, slope = calibration.learn_unobserved(3 * truth_of + 2, relations, truth, 3).T
    np.testing.assert_allclose(slope, 1 / 3, atol=0.06)
    np.testing.assert_allclose(intercept, -2 / 3, atol=0.2)


@pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
@pytest.mark.parametrize("estimator", [relatent.RescalLogit(8, max_iter=40), relatent.RescalALS(8, 0.1, 0.1)], ids=repr)
def test_a_question_that_nobody_asked_has_about_one_answer(estimator):
    facts, cells = questions()
    factors = sklearn.base.clone(estimator).fit(facts.hold_out(cells, masked=True)).factors_
    p = np.asarray(factors.probability(*cells.T))
    assert p.sum() == pytest.approx(10, abs=5)
    is_true = facts.contains(cells)
    assert p[is_true].mean() > 2 * p[~is_true].mean()
    assert not np.array_equal(factors.calibration.masked[cells[0, 1]], [0.0, 1.0])
