"""Probabilities of unlisted cells, told how many facts are missing."""

import numpy as np
import pytest

import relatent
from relatent.analysis.known_facts import KnownFacts
from relatent.analysis.probabilities import cell_probabilities
from relatent.data.cell_keys import cells_of
from relatent.errors import InputError
from relatent.model import unlisted_scores
from relatent.model.factors import Factors, load
from relatent.model.links import UnlistedLink

ALS = relatent.RescalALS(rank=12, l2_entities=0.5, l2_relations=0.5, tol=1e-3)


def grouped_world(seed=0, n=150):
    """Ten groups; a fact between a group and its successor has probability .5, .2 and .05 in three relations."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 10
    near = (group[:, None] + 1) % 10 == group[None, :]
    p = np.where(near[:, :, None], (0.5, 0.2, 0.05), 0.002)
    return relatent.Facts.from_tensor((rng.random((n, n, 3)) < p).astype(float))


def judged(factors, train, test):
    """Probabilities of all unlisted cells and their truth."""
    cells = cells_of(np.setdiff1d(np.arange(train.n_cells), train.keys), train.n_entities)
    return np.asarray(factors.probability(*cells.T)), test.contains(cells), cells


@pytest.fixture(scope="module")
def parts():
    return relatent.split(grouped_world(), test_size=0.2)


@pytest.fixture(scope="module")
def fitted(parts):
    return relatent.Calibrated(ALS, missing=0.2).fit(parts[0]).factors_


def check(p, truth, factor=1.5):
    """Said and true numbers of facts agree in all and in each bin with 50 expected facts or more."""
    assert p.sum() == pytest.approx(truth.sum(), rel=0.2)
    edges = [0, 0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1]
    said, true = np.histogram(p, edges, weights=p)[0], np.histogram(p[truth], edges)[0]
    large = said >= 50
    assert large.sum() >= 2
    assert np.abs(np.log(said[large] / true[large])).max() < np.log(factor)


def test_told_the_share_of_missing_facts_probabilities_of_unlisted_cells_hold(parts, fitted):
    p, truth, cells = judged(fitted, *parts)
    check(p, truth)
    for relation in (0, 1):
        own = cells[:, 1] == relation
        assert p[own].sum() == pytest.approx(truth[own].sum(), rel=0.25)
    assert fitted.about["calibration"]["expected"] == pytest.approx(p.sum(), rel=0.02)


@pytest.mark.parametrize(
    "estimator",
    [
        relatent.Rescal(loss="softmax", rank=12, l2_entities=0.5, l2_relations=0.5, max_iter=30),
        relatent.Rescal(loss="hinge", rank=12, l2_entities=2, l2_relations=2, max_iter=30),
    ],
    ids=["softmax", "hinge"],
)
@pytest.mark.filterwarnings("ignore::relatent.errors.ConvergenceWarning")
def test_scores_that_are_no_log_odds_become_probabilities(parts, estimator):
    calibrated = relatent.Calibrated(estimator, missing=0.2, heldout_folds=4)
    check(*judged(calibrated.fit(parts[0]).factors_, *parts)[:2])


def test_platt_has_two_numbers_per_relation(parts):
    factors = relatent.Calibrated(ALS, "platt", missing=0.2).fit(parts[0]).factors_
    assert {len(row) for row in factors.link.scores} == {2}
    p, truth, _ = judged(factors, *parts)
    assert p.sum() == pytest.approx(truth.sum(), rel=0.2)
    assert p[truth].mean() > 5 * p[~truth].mean()


def test_the_number_of_expected_facts_follows_the_prior(parts):
    train, _ = parts
    for missing in (0.05, 0.5):
        factors = relatent.Calibrated(ALS, missing=missing, heldout_folds=1).fit(train).factors_
        assert factors.about["calibration"]["expected"] == pytest.approx(len(train) * missing / (1 - missing), rel=0.02)


def test_without_a_share_a_tenth_is_assumed_and_the_model_file_says_so(parts, tmp_path):
    model = relatent.Calibrated(ALS, folds=4, heldout_folds=2).fit(parts[0]).factors_
    found = model.about["calibration"]
    assert (found["calibrated_for"], found["missing"], found["missing_is_assumed"]) == ("unlisted", 0.1, True)
    assert (found["folds"], found["heldout_folds"]) == (4, 2)
    assert found["heldout_facts"] == pytest.approx(2 * len(parts[0]) / 4, abs=4)
    model.save(tmp_path / "model.relatent")
    again = load(tmp_path / "model.relatent")
    assert again.link == model.link
    np.testing.assert_array_equal(again.probability(0, [0, 1, 2], 5), model.probability(0, [0, 1, 2], 5))
    assert "missing_is_assumed" in again.about["calibration"]


def test_told_a_share_it_is_used_even_if_cells_are_unobserved(parts):
    train, _ = parts
    hidden = train.hold_out(np.array([[0, 0, 1], [3, 1, 2]]), masked=True)
    told = relatent.Calibrated(ALS, missing=0.3, heldout_folds=1).fit(hidden).factors_
    assert told.about["calibration"]["calibrated_for"] == "unlisted"
    assert told.about["calibration"]["unlisted_cells"] == train.n_cells - len(hidden) - 2
    untold = relatent.Calibrated(ALS, heldout_folds=1).fit(hidden).factors_
    assert untold.about["calibration"]["calibrated_for"] == "unobserved"


def test_probabilities_rise_with_the_score_within_a_relation(fitted):
    theta = np.linspace(-1, 2, 50)
    for relation in range(3):
        assert (np.diff(fitted.link.probability(theta, relation)) >= 0).all()


def test_sampled_rows_give_about_the_same(parts, fitted, monkeypatch):
    monkeypatch.setattr(unlisted_scores, "MAX_SCORED_CELLS", 0)
    monkeypatch.setattr(unlisted_scores, "MIN_ROWS", 75)  # of 150
    sampled = relatent.Calibrated(ALS, missing=0.2).fit(parts[0]).factors_
    p, _, cells = judged(fitted, *parts)
    q = np.asarray(sampled.probability(*cells.T))
    assert q.sum() == pytest.approx(p.sum(), rel=0.1)
    likely = p > 0.05
    assert np.median(np.abs(np.log(q[likely] / p[likely]))) < 0.3


@pytest.fixture(scope="module")
def births():
    """Everyone is born in one of twelve towns and has visited it and some others; a tenth of the facts is missing."""
    rng, n = np.random.default_rng(0), 300
    home = np.where(rng.random(n) < 0.7, np.arange(n) % 12, rng.integers(0, 12, n))
    rows = [(f"p{i}", "born in", f"town{home[i]}") for i in range(n)]
    rows += [(f"p{i}", "visited", f"town{j}") for i in range(n) for j in {home[i], *rng.integers(0, 12, 3).tolist()}]
    train, test = relatent.split(relatent.read(rows), test_size=0.1)
    return train, test, relatent.Calibrated(ALS, missing=0.1, heldout_folds=3).fit(train).factors_


def test_who_has_the_only_answer_lacks_no_other(births, tmp_path):
    train, test, factors = births
    factors.save(tmp_path / "births.relatent")
    known = KnownFacts(train, factors)
    cells = cells_of(np.setdiff1d(np.arange(train.n_cells), train.keys), train.n_entities)
    cells = cells[cells[:, 1] == train.relations.id("born in")]
    theta, has_answer = factors.score(*cells.T), known.answered(cells) >= 2
    p = cell_probabilities(factors, known, cells, theta)
    np.testing.assert_array_equal(p, cell_probabilities(load(tmp_path / "births.relatent"), known, cells, theta))
    n_missing = int(test.contains(cells).sum())
    assert n_missing > 10
    assert p.sum() == pytest.approx(factors.probability(*cells.T).sum(), rel=0.1), "as many are expected as before"
    assert p[~has_answer].sum() == pytest.approx(n_missing, rel=0.4)
    assert p[has_answer].sum() < 0.05 * p.sum() < factors.probability(*cells.T)[has_answer].sum()


def test_lists_and_answers_know_it_too(births):
    train, test, factors = births
    found = relatent.missing(factors, train, len(test), relations="born in").missing
    born = {s: o for s, r, o in train.named() if r == "born in"}
    assert not {fact.subject for fact in found[:20]} & set(born)
    best = found[0]
    answer = relatent.answers(factors, train, subject=best.subject, relation="born in", k=1).answers[0]
    assert answer.name == best.object
    assert answer.probability == pytest.approx(best.probability, rel=1e-6)  # of scores in single precision
    person = next(iter(born))
    others = relatent.answers(factors, train, subject=person, relation="born in", k=5, treat_known="omit").answers
    without = relatent.answers(factors, subject=person, relation="born in", k=5).answers
    assert max(answer.probability for answer in others) < 0.02 < max(answer.probability for answer in without)
    told = relatent.explain(factors, person, "born in", others[0].name, train)
    assert told.probability == pytest.approx(others[0].probability)


def test_an_update_keeps_the_kinds_of_cells(births):
    train, _, factors = births
    larger = relatent.update(factors, relatent.read([("new", "born in", "town1"), ("new", "knows", "p1")]), train)
    assert len(larger.link.answered) == 3
    assert larger.link.answered[0] == pytest.approx(factors.link.answered[0], abs=1)


def test_shifts_by_kinds_of_cells_are_four_for_each_relation():
    with pytest.raises(InputError, match="answered must have 4 numbers for each relation"):
        UnlistedLink([[0.0, 1.0]], [[-2.0, 0.0]], [[0.0, 1.0]])


def test_a_relation_with_few_facts_borrows_from_the_others():
    facts = grouped_world()
    few = np.flatnonzero(facts.triples[:, 1] == 2)[6:]
    facts = facts.subset(~np.isin(np.arange(len(facts)), few))
    factors = relatent.Calibrated(ALS, missing=0.2, heldout_folds=2).fit(facts).factors_
    assert len(factors.link.scores[2]) > 3
    cells = cells_of(np.setdiff1d(np.arange(facts.n_cells), facts.keys), facts.n_entities)
    p = np.asarray(factors.probability(*cells[cells[:, 1] == 2].T))
    assert p.sum() == pytest.approx(6 * 0.25, rel=0.1)


def test_a_relation_whose_cells_are_all_listed_has_a_link():
    tensor = np.zeros((12, 12, 2))
    tensor[:, :, 0] = 1
    tensor[np.arange(11), np.arange(1, 12), 1] = 1
    factors = relatent.Calibrated(ALS.set_params(rank=3), folds=4).fit(relatent.Facts.from_tensor(tensor)).factors_
    assert 0 < factors.probability(0, 0, 1) < 1
    ALS.set_params(rank=12)


def test_a_link_needs_the_relation_and_knots_for_all_relations():
    link = UnlistedLink([[0.0, 1.0]], [[-2.0, 0.0]])
    assert link.probability(np.array(0.5), 0) == pytest.approx(1 / (1 + np.e))
    with pytest.raises(InputError, match="depends on its relation"):
        link.probability(np.array(0.5))
    with pytest.raises(InputError, match="knots for 2 relations, got 1"):
        Factors(np.eye(2), np.zeros((2, 2, 2)), np.zeros(2), *grouped_names(), link)


def grouped_names():
    facts = relatent.Facts.from_arrays(["a", "b"], ["r", "q"], ["b", "a"])
    return facts.entities, facts.relations


@pytest.mark.parametrize(
    ("scores", "log_odds", "message"),
    [
        ([[0, 1]], [[0]], "the same length for each relation"),
        ([[]], [[]], "the same length for each relation, at least 1"),
        ([[1, 0]], [[0, 1]], "scores must increase"),
        ([[0, 1]], [[1, 0]], "log_odds must not decrease"),
        ([0, 1], [[0, 1]], "scores must be a list of finite numbers per relation"),
        ([[0, float("nan")]], [[0, 1]], "scores must be a list of finite numbers per relation"),
    ],
)
def test_knots_that_make_no_sense_are_refused(scores, log_odds, message):
    with pytest.raises(InputError, match=message):
        UnlistedLink(scores, log_odds)


def test_a_model_that_exists_is_calibrated_by_the_fits_that_calibrated_makes(parts, fitted):
    train, _ = parts
    plain = ALS.fit(train).factors_
    found = relatent.calibrate(plain, train, missing=0.2)
    assert found.link == fitted.link
    np.testing.assert_array_equal(found.A, plain.A)


def test_validation_facts_calibrate_a_model_without_a_fit(parts, monkeypatch):
    train, test = parts
    valid, test = relatent.split(test, test_size=0.5, keep_covered=False)
    model = ALS.fit(train).factors_
    monkeypatch.setattr(relatent.RescalALS, "fit", None)
    found = relatent.calibrate(model, train, validation=valid, missing=0.2)
    p, truth, _ = judged(found, train, parts[1])
    check(p, truth)
    with pytest.raises(InputError, match=r"none of the .* validation facts is new to the model"):
        relatent.calibrate(model, train, validation=train)
    with pytest.raises(InputError, match="missing must be a share between 0 and 1, got 2"):
        relatent.calibrate(model, train, validation=valid, missing=2)
