import dataclasses
import functools
import itertools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

import relatent
from interruptions import InterruptedFitError, interrupt_at
from relatent.baselines import clauses, mln
from relatent.baselines.clause_weights import loss_and_gradient
from relatent.baselines.clauses import BODIES, CHAINS, Atom, Clause, Evidence, Shape
from relatent.baselines.mln import Likelihood, MarkovLogic
from relatent.data.heldout import HeldOut
from relatent.data.names import Names
from relatent.errors import ConvergenceWarning, InputError
from relatent.fit.checkpoint import Checkpoint
from relatent.fit.estimators import base
from relatent.model.provenance import WeightedClause
from small_graphs import blocks, marriages, random_facts

RULE = "parent(x,z) ∧ parent(z,y) ⇒ grandparent(x,y)"


def families(n=50, seed=0, *, parents=2, dropped=0.0, added=0.0, strangers=1, names=("parent", "grandparent")):
    """Everyone but a few founders has parents; grandparents are parents of parents, but for some errors."""
    rng = np.random.default_rng(seed)
    P = np.zeros((n, n), bool)
    for child in range(n // 8 + 2, n):
        P[rng.choice(child, parents, replace=False), child] = True
    G = P.astype(int) @ P > 0
    G &= rng.random(G.shape) >= dropped
    G[tuple(rng.integers(0, n, (2, int(added * G.sum()))))] = True
    noise = [rng.random((n, n)) < 2 / n for _ in range(strangers)]
    X = np.stack([P, G, *noise])
    order = np.argsort([*names, *(f"knows {k}" for k in range(strangers))])
    labels = np.array([*names, *(f"knows {k}" for k in range(strangers))])[order]
    return relatent.Facts.from_tensor(X[order].transpose(1, 2, 0).astype(float), relation_names=labels.tolist())


FAMILY = families()


def implications(model):
    return [clause for clause in model.clauses_ if clause.body]


# --- the planted rule


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "world",
    [
        {"n": 40},
        {"n": 90, "parents": 1},
        {"n": 60, "dropped": 0.1, "added": 0.1},
        {"n": 70, "parents": 1, "dropped": 0.2, "strangers": 4},
    ],
    ids=str,
)
def test_the_rule_of_the_grandparents_is_the_heaviest_clause(world, seed):
    first, *others = implications(MarkovLogic(calibrate=False).fit(families(seed=seed, **world)))
    assert first.text == RULE
    assert all(first.weight > 1.5 * clause.weight for clause in others)


def test_names_do_not_matter_to_the_rule():
    model = MarkovLogic(calibrate=False).fit(families(names=("zeta", "alpha")))
    assert implications(model)[0].text == "zeta(x,z) ∧ zeta(z,y) ⇒ alpha(x,y)"


def test_the_rule_predicts_hidden_grandparents():
    k = FAMILY.relations.id("grandparent")
    cells = FAMILY.triples[FAMILY.triples[:, 1] == k][::5]
    zeros = np.array([[i, k, i] for i in range(20)])
    f = MarkovLogic(calibrate=False).fit(FAMILY.hold_out(np.concatenate([cells, zeros]), masked=True)).factors_
    assert (f.probability(*cells.T) > 0.8).all()
    assert (f.probability(*zeros.T) < 0.1).all()


def test_mirrored_facts_of_a_symmetric_relation_tell_each_other():
    facts = marriages(30)
    cells = np.array([[0, 1, 15], [20, 1, 5], [0, 1, 16]])  # married, married, not married
    model = MarkovLogic(calibrate=False).fit(facts.hold_out(cells, masked=True))
    assert implications(model)[0].text == "married(y,x) ⇒ married(x,y)"
    p = model.factors_.probability(*cells.T)
    assert p[0] > 0.5
    assert p[1] > 0.5
    assert p[2] < 0.01


def test_a_relation_of_everyone_to_himself_needs_one_clause():
    everyone = np.arange(30)
    facts = relatent.Facts.from_arrays(everyone, np.zeros(30, int), everyone, relation_names=["is"])
    model = MarkovLogic(calibrate=False).fit(facts)
    assert [clause.text for clause in model.clauses_] == ["is(x,x)", "is(x,y)"]
    np.testing.assert_array_equal(model.factors_.R[0] > 0, np.eye(30, dtype=bool))


def test_relations_that_exclude_each_other_get_a_negative_weight():
    likes = np.random.default_rng(0).random((20, 20)) < 0.4
    X = np.stack([likes, ~likes], axis=2).astype(float)
    model = MarkovLogic(max_length=2, calibrate=False).fit(
        relatent.Facts.from_tensor(X, relation_names=["likes", "shuns"])
    )
    assert {clause.text for clause in implications(model) if clause.weight < -1} == {"likes(x,y) ⇒ shuns(x,y)"}


# --- how clauses read


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ((Shape.UNIT, -1, -1, 2), "c(x,y)  -1.50"),
        ((Shape.REFLEXIVE, -1, -1, 2), "c(x,x)  -1.50"),
        ((Shape.SAME, 0, -1, 2), "a(x,y) ⇒ c(x,y)  -1.50"),
        ((Shape.INVERSE, 0, -1, 2), "a(y,x) ⇒ c(x,y)  -1.50"),
        ((Shape.FORWARD, 0, 1, 2), "a(x,z) ∧ b(z,y) ⇒ c(x,y)  -1.50"),
        ((Shape.SAME_OBJECT, 0, 1, 2), "a(x,z) ∧ b(y,z) ⇒ c(x,y)  -1.50"),
        ((Shape.SAME_SUBJECT, 0, 1, 2), "a(z,x) ∧ b(z,y) ⇒ c(x,y)  -1.50"),
        ((Shape.BACKWARD, 0, 1, 2), "a(z,x) ∧ b(y,z) ⇒ c(x,y)  -1.50"),
    ],
)
def test_a_clause_reads_as_a_rule_with_its_weight(code, text):
    assert str(Clause.of(np.array(code), -1.5, Names(["a", "b", "c"]))) == text


def test_clauses_are_listed_heaviest_first_and_kept_with_the_factors(tmp_path):
    model = MarkovLogic(calibrate=False).fit(FAMILY)
    weights = [clause.weight for clause in model.clauses_]
    assert weights == sorted(weights, reverse=True)
    assert model.clauses_[0].body == (Atom("parent", "x", "z"), Atom("parent", "z", "y"))
    model.factors_.save(tmp_path / "family.relatent")
    loaded = relatent.load(tmp_path / "family.relatent")
    np.testing.assert_array_equal(loaded.R, model.factors_.R)
    assert loaded.about.learned.clauses[0] == WeightedClause(RULE, weights[0])
    assert loaded.link.name == "logistic"
    assert loaded.rank == FAMILY.n_entities


# --- counts and likelihood against slow twins

N, K = 4, 3
CODES = np.array(
    [
        *((shape, -1, -1, k) for shape in (Shape.UNIT, Shape.REFLEXIVE) for k in range(K)),
        *((Shape.SAME, k1, -1, k) for k1 in range(K) for k in range(K) if k1 != k),
        *((Shape.INVERSE, k1, -1, k) for k1 in range(K) for k in range(K)),
        *((shape, *ks) for shape in CHAINS for ks in itertools.product(range(K), repeat=3)),
    ]
)


def groundings_that_hold(code, X, each_z):
    """Of one clause in the world X, by trying all entities for the variables."""
    shape, *body_relations, head = code
    if shape in (Shape.UNIT, Shape.REFLEXIVE):
        return X[head].sum() if shape == Shape.UNIT else np.trace(X[head])
    variables = BODIES[Shape(shape)]
    count = 0
    for x, y in itertools.permutations(range(N), 2):
        others = [z for z in range(N) if z not in (x, y)] if len(variables) == 2 else [None]
        bodies = []
        for z in others:
            entity = {"x": x, "y": y, "z": z}
            places = zip(body_relations, variables, strict=False)
            bodies.append(all(X[k, entity[s], entity[o]] for k, (s, o) in places))
        for body in bodies if each_z else [any(bodies)]:
            count += not body or X[head, x, y]
    return int(count)


def twin_deltas(code, X, each_z):
    """What the count gains as each atom turns from false to true, (K, N, N)."""
    deltas = np.zeros(X.shape)
    for atom in np.ndindex(X.shape):
        false, true = X.copy(), X.copy()
        false[atom], true[atom] = False, True
        deltas[atom] = groundings_that_hold(code, true, each_z) - groundings_that_hold(code, false, each_z)
    return deltas


@functools.cache
def small_world():
    """Truth, and confidences that are 0 where an atom is unobserved."""
    rng = np.random.default_rng(0)
    X = rng.random((K, N, N)) < 0.4
    W = rng.choice([0.0, 0.5, 1.0, 2.0], X.shape)
    return X, W


@functools.cache
def world_deltas(each_z):
    """Δ of every clause in the small world, unobserved atoms taken for false, (n, K, N, N)."""
    X, W = small_world()
    return np.stack([twin_deltas(code, X & (W > 0), each_z) for code in CODES])


def small_likelihood(each_z=False):
    X, W = small_world()
    return Likelihood(X.astype(float), W, l1=0.7, l2=0.2, each_z=each_z)


def full(deltas):
    array = np.zeros((K, N, N))
    for k, delta in deltas.items():
        array[k] = delta
    return array


each_grounding = pytest.mark.parametrize("each_z", [False, True])


@each_grounding
def test_every_shape_counts_as_its_groundings_do(each_z):
    X, W = small_world()
    evidence = Evidence(X * (W > 0.0), each_z=each_z)
    for code, wanted in zip(CODES, world_deltas(each_z), strict=True):
        np.testing.assert_array_equal(full(evidence.deltas(code)), wanted, str(code))


@each_grounding
def test_the_likelihood_and_its_gradient_are_those_of_the_atoms_one_by_one(each_z):
    X, W = small_world()
    weights = np.random.default_rng(1).normal(size=len(CODES)) / 5
    value, gradient = 0.0, np.zeros(len(CODES))
    for atom in np.ndindex(X.shape):
        delta = world_deltas(each_z)[(slice(None), *atom)]
        theta = weights @ delta
        value -= W[atom] * np.log(expit(theta) if X[atom] else expit(-theta))
        gradient += W[atom] * (expit(theta) - X[atom]) * delta
    got, got_gradient = loss_and_gradient(small_likelihood(each_z).features(CODES), weights)
    assert got == pytest.approx(value)
    np.testing.assert_allclose(got_gradient, gradient, atol=1e-10)


@each_grounding
def test_the_gradient_is_the_slope_of_the_likelihood(each_z):
    features = small_likelihood(each_z).features(CODES)
    weights = np.random.default_rng(2).normal(size=len(CODES)) / 5
    gradient = loss_and_gradient(features, weights)[1]
    for c, nudge in enumerate(np.eye(len(CODES)) * 1e-5):
        slope = (
            loss_and_gradient(features, weights + nudge)[0] - loss_and_gradient(features, weights - nudge)[0]
        ) / 2e-5
        assert slope == pytest.approx(gradient[c], rel=1e-5, abs=1e-6)


@each_grounding
def test_the_search_sees_the_gradient_of_every_clause(each_z):
    X, W = small_world()
    likelihood = small_likelihood(each_z)
    units = clauses.unit_clauses(K)
    weights = np.array([-0.3, 0.4, -1.0])
    residual = W * (X - expit(likelihood.scores(units, weights)))
    wanted = {tuple(code): (residual * delta).sum() for code, delta in zip(CODES, world_deltas(each_z), strict=True)}
    found = {}
    for shape, k1, k2, G, _, _ in clauses._chain_gradients(likelihood.evidence, residual, np.ones_like(residual)):
        for body, head in np.ndindex(G.shape):
            code = (int(shape), int(k1[body]), int(k2[body]), head)
            assert code not in found
            found[code] = G[body, head]
    assert set(found) == {code for code in wanted if code[0] in CHAINS}
    for code, gradient in found.items():
        assert gradient == pytest.approx(wanted[code], abs=1e-10), code


def test_weights_are_where_no_direction_lowers_the_penalised_objective():
    likelihood = small_likelihood()
    codes, weights, objective = likelihood.refit(CODES, np.zeros(len(CODES)), steps=500)
    gradient = loss_and_gradient(likelihood.features(codes), weights)[1] + 2 * likelihood.l2 * weights
    np.testing.assert_allclose(gradient[:K], 0, atol=1e-3)  # unit clauses have no l1 penalty
    np.testing.assert_allclose(gradient[K:], -likelihood.l1 * np.sign(weights[K:]), atol=1e-3)
    penalties = likelihood.l1 * np.abs(weights[K:]).sum() + likelihood.l2 * np.sum(weights**2)
    loss = loss_and_gradient(likelihood.features(codes), weights)[0]
    assert objective == pytest.approx(loss + penalties, rel=1e-3)
    assert len(codes) < len(CODES)


def test_every_relation_counts_alike_however_few_of_its_atoms_are_observed():
    X, W = (part.astype(float) for part in small_world())
    W[0, :2] = 0
    W[W > 0] = 1
    balanced = mln._balanced(X, W, np.random.default_rng(0))
    np.testing.assert_allclose(balanced.sum(axis=(1, 2)), W.sum() / K)


def test_false_atoms_drawn_stand_for_all(monkeypatch):
    monkeypatch.setattr(mln, "MAX_ZEROS_PER_RELATION", 600)
    X = np.zeros((1, 50, 50))
    X[0, 0] = 1
    W = mln._balanced(X, np.ones_like(X), np.random.default_rng(0))
    assert (W > 0).sum() == 650
    assert W.sum() == pytest.approx(2500)
    assert implications(MarkovLogic(calibrate=False).fit(FAMILY))[0].text == RULE


def test_a_soft_truth_counts_between_the_hard_ones():
    X = np.array(small_world()[0], float)
    atom, code, weight = (0, 1, 2), np.array([[Shape.FORWARD, 0, 1, 2]]), np.ones(1)
    scores = []
    for x in (0.0, 0.3, 1.0):
        X[atom] = x
        scores.append(Evidence(X).scores(code, weight)[2])
    assert (np.minimum(scores[0], scores[2]) <= scores[1]).all()
    assert (np.maximum(scores[0], scores[2]) >= scores[1]).all()


# --- the search


def test_max_length_bounds_the_clauses():
    for length in (1, 2):
        model = MarkovLogic(max_length=length, calibrate=False).fit(FAMILY)
        assert max(len(clause.body) for clause in model.clauses_) < length
    assert {str(clause.head) for clause in MarkovLogic(max_length=1, calibrate=False).fit(FAMILY).clauses_} >= {
        "parent(x,y)"
    }


def test_max_clauses_bounds_the_search():
    model = MarkovLogic(max_clauses=1, calibrate=False).fit(FAMILY)
    assert len(model.clauses_) <= FAMILY.n_relations + 1
    assert "max_clauses=1" in model.trace_.verdict


def test_a_larger_penalty_leaves_fewer_clauses():
    few, many = (len(MarkovLogic(l1=l1, calibrate=False).fit(FAMILY).clauses_) for l1 in (20.0, 1.0))
    assert few < many


def test_of_chains_through_the_same_atoms_the_best_comes_in():
    turned = np.array([[Shape.SAME_OBJECT, 1, 0, 0], [Shape.SAME_SUBJECT, 0, 1, 0], [Shape.BACKWARD, 0, 0, 1]])
    found = clauses.ClauseCandidates(turned, np.array([3.0, 2.0, 1.0]))
    rule = np.array([[Shape.FORWARD, 0, 0, 1]])  # k0(x,z) ∧ k0(z,y) ⇒ k1(x,y), like the first two
    assert clauses.unlike(found, rule).codes.tolist() == [turned[2].tolist()]
    assert clauses.unlike(found, rule[:0]).codes.tolist() == [turned[0].tolist(), turned[2].tolist()]


def test_too_few_rounds_warn_with_the_remedy():
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1, .* raise max_iter or tol"):
        MarkovLogic(max_iter=1, tol=0, calibrate=False).fit(families(strangers=3))


def test_validation_cells_choose_the_clauses():
    cells = np.concatenate([FAMILY.triples[::7], [[i, 0, i] for i in range(50)]])
    heldout = HeldOut(cells, FAMILY.contains(cells))
    model = MarkovLogic(calibrate=False).fit(FAMILY.hold_out(cells, masked=True), heldout)
    assert np.isfinite(model.trace_.validation).all()
    assert implications(model)[0].text == RULE
    with pytest.raises(InputError, match="validation must be Facts or HeldOut, got list"):
        MarkovLogic(calibrate=False).fit(FAMILY, [1, 2])


def test_a_share_of_the_atoms_judges_the_search_where_there_are_many_facts():
    model = MarkovLogic(calibrate=False).fit(random_facts(30, 4, 1500))
    assert np.isfinite(model.trace_.validation).all()


# --- what every estimator promises


def assert_same(first, second):
    np.testing.assert_array_equal(first.factors_.R, second.factors_.R)
    assert first.clauses_ == second.clauses_
    assert first.trace_.objective.tolist() == second.trace_.objective.tolist()
    assert first.trace_.verdict == second.trace_.verdict


CROWD = random_facts(30, 4, 1500, unobserved=200, weighted=True)


def test_the_factors_are_the_log_odds_of_every_cell():
    model = MarkovLogic(calibrate=False).fit(FAMILY)
    f = model.factors_
    np.testing.assert_array_equal(f.A, np.eye(50))
    assert not f.bias.any()
    assert f.R.shape == (3, 50, 50)
    assert f.top(subject=int(FAMILY.triples[0, 0]), relation="grandparent", k=1, known="mark").probabilities[0] > 0.5
    assert model.trace_.converged
    assert model.n_iter_ == len(model.trace_)


def test_the_same_seed_gives_the_same_result():
    assert_same(
        MarkovLogic(random_state=3, calibrate=False).fit(CROWD), MarkovLogic(random_state=3, calibrate=False).fit(CROWD)
    )


def test_fitting_again_forgets_the_fit_before():
    model = MarkovLogic(calibrate=False).fit(CROWD)
    assert_same(model.fit(FAMILY), MarkovLogic(calibrate=False).fit(FAMILY))


def test_masked_cells_leave_no_trace():
    cells = np.concatenate([FAMILY.triples[::5], [[0, 0, 0], [1, 1, 1]]])
    other = FAMILY.hold_out(FAMILY.triples[::5], masked=False)  # another world: there they are false
    first, second = (MarkovLogic(calibrate=False).fit(facts.hold_out(cells, masked=True)) for facts in (FAMILY, other))
    assert_same(first, second)


def test_a_fact_of_weight_zero_is_an_unobserved_cell():
    weights = np.ones(len(FAMILY))
    weights[::6] = 0
    doubted = MarkovLogic(calibrate=False).fit(dataclasses.replace(FAMILY, weights=weights))
    assert_same(doubted, MarkovLogic(calibrate=False).fit(FAMILY.hold_out(FAMILY.triples[::6], masked=True)))


def test_the_facts_are_unchanged():
    triples, weights, fingerprint = CROWD.triples.copy(), CROWD.weights.copy(), CROWD.fingerprint
    MarkovLogic(calibrate=False).fit(CROWD)
    np.testing.assert_array_equal(CROWD.triples, triples)
    np.testing.assert_array_equal(CROWD.weights, weights)
    assert dataclasses.replace(CROWD).fingerprint == fingerprint


@pytest.mark.parametrize("step", [2, 3])
def test_an_interrupted_fit_goes_on_to_the_very_same_factors(monkeypatch, tmp_path, step):
    monkeypatch.setattr(base, "Checkpoint", functools.partial(Checkpoint, every=0.0))
    facts = families(60, strangers=3, dropped=0.1)
    model = MarkovLogic(l1=1.0, tol=0, calibrate=False)
    whole = clone(model).fit(facts)
    assert len(whole.trace_) >= 3

    with pytest.raises(InterruptedFitError):
        clone(model).fit(facts, checkpoint=tmp_path / "fit.checkpoint", progress=interrupt_at(step))
    steps = []
    resumed = clone(model).fit(
        facts, checkpoint=tmp_path / "fit.checkpoint", progress=lambda done, *_: steps.append(done)
    )
    assert steps[0] == step
    assert_same(resumed, whole)


def test_cross_validation_takes_it_as_any_other_estimator():
    report = relatent.cross_validate(MarkovLogic(calibrate=False), blocks(24), folds=3, n_jobs=1)
    assert len(report.folds) == 3
    assert all(fold.metrics.auc_pr > 0.9 for fold in report.folds)


def test_one_entity_that_relates_to_itself():
    model = MarkovLogic(l2=0.01, calibrate=False).fit(relatent.Facts.from_arrays([0], [0], [0]))
    assert model.factors_.probability(0, 0, 0) > 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": 4}, "max_length must be 1, 2 or 3, got 4"),
        ({"max_length": True}, "max_length must be 1, 2 or 3, got True"),
        ({"max_clauses": 0}, "max_clauses must be a whole number of at least 1, got 0"),
        ({"each_z": "yes"}, "each_z must be True or False, got 'yes'"),
        ({"l1": -1.0}, "l1 must be a finite number of at least 0, got -1.0"),
        ({"l2": np.nan}, "l2 must be a finite number of at least 0, got nan"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, got 0"),
        ({"tol": -1}, "tol must be a finite number of at least 0, got -1"),
        (
            {"random_state": 1.5},
            "random_state must be a whole number of at least 0, a numpy Generator or None, got 1.5",
        ),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_with_its_value(settings, message):
    with pytest.raises(InputError, match=message):
        MarkovLogic(**settings, calibrate=False).fit(FAMILY)
