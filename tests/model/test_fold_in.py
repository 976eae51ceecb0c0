import dataclasses

import numpy as np
import pytest
from new_entities import NAMES, PENALTIES, all_rows, new_facts, random_factors, two_camps
from scipy.optimize import minimize

import relatent
from relatent import Facts
from relatent.backend.numpy_backend import NumpyBackend
from relatent.data.labels import Labels
from relatent.errors import InputError, UnknownNameError
from relatent.fit.losses import Logistic
from relatent.fit.penalties import PENALTIES as REGISTRY
from relatent.model import entity_regression as regression
from relatent.model import links
from relatent.model.objective_description import ObjectiveTerm
from relatent.model.relation_matrices import RelationMatrices
from relatent.model.structure import COMPLEX
from small_graphs import politics, random_facts, random_parameters


@pytest.mark.parametrize("others", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_least_squares_is_the_regression_on_all_cells(others, bias):
    factors, facts = random_factors(links.SmoothLink(), bias=bias), new_facts()
    V, b, x, w = all_rows(factors, facts, "new", others)
    expected = np.linalg.solve(V.T @ (w[:, None] * V) + 0.7 * np.eye(3), V.T @ (w * (x - b)))
    grown = factors.fold_in(facts, others=others, l2_entities=0.7)
    np.testing.assert_allclose(grown.A[grown.entities.id("new")], expected, rtol=1e-8)


@pytest.mark.parametrize("others", [1.0, 0.3, 0.0])
def test_the_likelihood_is_the_logistic_regression_on_all_cells(others):
    factors, facts = random_factors(links.LogisticLink(), bias=1.0), new_facts()
    V, b, x, w = all_rows(factors, facts, "new", others)

    def loss(a):
        theta = V @ a + b
        return w @ (np.logaddexp(0, theta) - x * theta) + 0.7 * a @ a

    expected = minimize(loss, np.zeros(3), tol=1e-12).x
    grown = factors.fold_in(facts, others=others, l2_entities=0.7)
    np.testing.assert_allclose(grown.A[-1], expected, atol=1e-4)


@pytest.mark.parametrize("link", [links.SmoothLink(), links.LogisticLink()])
def test_weights_and_unobserved_cells_count_as_in_a_fit(link):
    factors = random_factors(link)
    facts = Facts.from_arrays(
        ["new", "new", "e3"],
        ["likes", "knows", "owes"],
        ["e1", "e2", "new"],
        weights=[0.5, 2.0, 1.0],
        unobserved=[("new", "likes", "e4"), ("e5", "owes", "new")],
    )
    V, b, x, w = all_rows(factors, facts, "new", 1.0)
    a = factors.fold_in(facts, others=1.0, l2_entities=0.7).A[-1]
    theta = V @ a + b
    slope = w * (1 / (1 + np.exp(-theta)) - x) if link.name == "logistic" else 2 * w * (theta - x)
    np.testing.assert_allclose(V.T @ slope + 2 * 0.7 * a, 0, atol=1e-3)
    assert sorted(set(w.tolist())) == [0.0, 0.5, 1.0, 2.0]


def test_a_few_of_many_facts_are_expected_unless_told_otherwise():
    factors, facts = random_factors(links.LogisticLink(), bias=1.0), new_facts()
    by_default, few, complete = (
        factors.fold_in(facts, **given).A[-1] for given in ({}, {"others": 0.1}, {"others": 1})
    )
    np.testing.assert_array_equal(by_default, few)
    assert not np.allclose(by_default, complete)


def test_other_vectors_relations_and_biases_are_unchanged():
    factors = random_factors(links.LogisticLink(), bias=1.0)
    grown = factors.fold_in(new_facts(["new", "other"]))
    np.testing.assert_array_equal(grown.A[:12], factors.A)
    assert grown.R is factors.R
    assert grown.bias is factors.bias
    assert list(grown.entities) == [*NAMES, "new", "other"]
    assert len(factors.entities) == 12
    assert grown.about.folded_in == ("new", "other")


def prefers_own_camp(factors):
    grown = factors.fold_in(Facts.from_arrays(["new", "new"], ["likes"] * 2, ["p0", "p2"]), others=0.1)
    p = grown.probability("new", "likes", [f"p{i}" for i in range(20)])
    return p[4::2].min() > p[1::2].max() + 0.1


@pytest.mark.parametrize(
    "model", [relatent.RescalALS(4, 0.1, 0.1, calibrate=False), relatent.RescalLogit(4, 0.1, 0.1, calibrate=False)]
)
def test_a_newcomer_who_likes_two_of_a_camp_likes_the_others(model):
    assert prefers_own_camp(model.fit(Facts.from_arrays(*two_camps())).factors_)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [relatent.RescalALS, relatent.RescalLogit])
def test_a_newcomer_finds_its_camp_after_any_good_fit(kind, dtype):
    """A good fit is the best of four random starts; the minima differ in how they turn the vectors of a camp."""
    facts = Facts.from_arrays(*two_camps())
    for seed in range(0, 80, 4):
        starts = [
            kind(4, 0.1, 0.1, init="random", dtype=dtype, random_state=seed + extra, calibrate=False)
            for extra in range(4)
        ]
        best = min((model.fit(facts) for model in starts), key=lambda model: model.trace_[-1].objective)
        assert prefers_own_camp(best.factors_), seed


def test_a_given_penalty_replaces_the_prior_and_pulls_to_zero():
    f = relatent.RescalALS(4, 5.0, 0.1, calibrate=False).fit(Facts.from_arrays(*two_camps())).factors_
    facts = Facts.from_arrays(["new"], ["likes"], ["p0"])
    sizes = [np.linalg.norm(f.fold_in(facts, l2_entities=l2).A[-1]) for l2 in (0.5, 5.0, 5e6)]
    assert sizes[0] > sizes[1] > 1000 * sizes[2]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_vector_is_the_minimum_of_loss_penalty_and_prior(loss, penalty):
    """Against a general optimiser on the sum over all cells, one by one."""
    term = ObjectiveTerm.of(PENALTIES[penalty], REGISTRY)
    f = dataclasses.replace(random_factors(links.LogisticLink(), bias=1.0), loss=ObjectiveTerm(loss), penalty=term)
    facts = new_facts()
    V, b, x, w = all_rows(f, facts, "new", 0.3)
    grown = f.fold_in(facts, others=0.3)
    (cells,) = regression.cells_of_entities(facts.over(grown.entities, grown.relations), np.array([12]))
    (mean,), precision = f.entity_prior.means, f.entity_prior.precision
    scale = 2 * regression.noise_variance(f, f.entity_prior) if loss == "squared" else 1.0

    def objective(a):
        theta = V @ a + b
        value = w @ (x - theta) ** 2 if loss == "squared" else w @ (np.logaddexp(0, theta) - x * theta)
        value += scale / 2 * (a - mean) @ precision @ (a - mean)
        for role, k in zip(cells.role, cells.relation, strict=True):
            R_k = f.R[k].T if role else f.R[k]
            if penalty == "dura":
                value += 0.1 * (a @ a + (a @ R_k) @ (a @ R_k))
            if penalty == "n3":
                value += 0.1 * np.sum(np.abs(a) ** 3)
        return value + (0.3 * a @ a if penalty == "l2" else 0)

    np.testing.assert_allclose(grown.A[-1], minimize(objective, mean, tol=1e-12).x, atol=1e-5)


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_dura_of_one_entity_is_its_part_of_the_penalty_of_the_fit(power):
    facts = random_facts(8, 2, 50)
    facts = facts.subset(facts.triples[:, 0] != facts.triples[:, 2])
    A, R, _ = random_parameters(facts, 3)
    (cells,) = regression.cells_of_entities(facts, np.array([4]))
    dura, without = relatent.Dura(0.3, frequency_power=power), A.copy()
    without[4] = 0
    own = regression.PenaltyOnEntity(RelationMatrices.of(R), ObjectiveTerm.of(dura, REGISTRY))(cells)[0]
    add = dura.bound(facts, NumpyBackend("float64"))
    of_fit = add(A, R, 0 * A, 0 * R) - add(without, R, 0 * A, 0 * R)
    assert A[4] @ own.Q @ A[4] == pytest.approx(of_fit, rel=1e-9)


def test_n3_of_one_entity_is_its_part_of_the_penalty_of_a_complex_fit():
    facts, rng = random_facts(8, 2, 50), np.random.default_rng(0)
    facts = facts.subset(facts.triples[:, 0] != facts.triples[:, 2])
    A, P, n3 = rng.normal(size=(8, 4)), rng.normal(size=(2, 4)), relatent.N3(0.3)
    (cells,) = regression.cells_of_entities(facts, np.array([4]))
    matrices = RelationMatrices.of_parameters(COMPLEX, P, 2, 4)
    own = regression.PenaltyOnEntity(matrices, ObjectiveTerm.of(n3, REGISTRY))(cells)[0]
    without = A.copy()
    without[4] = 0
    add = n3.bound(facts, NumpyBackend("float64"))
    assert own.value(A[4]) == pytest.approx(add(A, P, 0 * A, 0 * P) - add(without, P, 0 * A, 0 * P), rel=1e-9)
    gradient, hessian = own.slopes(A[4])
    for i, step in enumerate(1e-6 * np.eye(4)):
        assert gradient[i] == pytest.approx((own.value(A[4] + step) - own.value(A[4] - step)) / 2e-6, rel=1e-5)
        difference = own.slopes(A[4] + step)[0] - own.slopes(A[4] - step)[0]
        np.testing.assert_allclose(hessian[i], difference / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_copy_of_an_entity_gets_nearly_its_vector(loss, penalty):
    weights = {"l2": relatent.L2(0.3, 0.3), "dura": relatent.Dura(0.01), "n3": relatent.N3(0.01)}
    facts = relatent.load_dataset("kinships")
    factors = relatent.Rescal(5, loss=loss, penalty=weights[penalty], calibrate=False).fit(facts).factors_
    for name in ("person3", "person50"):
        own = [row for row in facts.named() if name in row and row[0] != row[2]]
        copied = [tuple("copy" if part == name else part for part in row) for row in own]
        grown = factors.fold_in(Facts.from_arrays(*zip(*copied, strict=True)), others=1.0)
        wanted = factors.A[factors.entities.id(name)]
        assert np.linalg.norm(grown.A[-1] - wanted) < 0.05 * np.linalg.norm(wanted)


@pytest.mark.parametrize("penalty", [relatent.Dura(0.02), None])
def test_models_of_loss_objects_fold_in_and_explain(penalty):
    facts = politics()
    model = relatent.Rescal(8, Logistic(), 0.1, 0.1, penalty=penalty, tol=1e-4, calibrate=False)
    f = model.fit(facts).factors_
    assert regression.can_fold(f)
    grown = f.fold_in(Facts.from_arrays(["Eve"], ["vicePresident"], ["president 1"]), others=0.1)
    assert len(grown.entities) == len(f.entities) + 1
    told = relatent.explain(f, "vice 4", "party", "Blue")
    assert told.reasons[0].relation == "vicePresident"


@pytest.mark.parametrize("link", [links.SmoothLink(), links.LogisticLink()])
def test_a_fact_between_two_new_entities_raises_its_score(link):
    factors = random_factors(link)
    alone = new_facts(["new", "other"])
    s, k, o = map(list, zip(*alone.named(), strict=True))
    joined = Facts.from_arrays([*s, "new"], [*k, "likes"], [*o, "other"])
    before, after = (factors.fold_in(facts, others=0.0, l2_entities=0.1) for facts in (alone, joined))
    assert after.score("new", "likes", "other") > before.score("new", "likes", "other")


def test_a_known_entity_gets_a_new_vector_from_the_facts_given():
    factors, facts = random_factors(links.SmoothLink()), new_facts()
    grown = factors.fold_in(facts)
    again = grown.fold_in(facts, entities=["new"])
    np.testing.assert_allclose(again.A, grown.A, rtol=1e-12)
    assert again.entities == grown.entities


def test_a_sample_of_zeros_gives_nearly_the_result_of_all_of_them(monkeypatch):
    factors = random_factors(links.LogisticLink(), n=3000, bias=3.0)
    facts = new_facts(n=3000, count=30)
    exact = factors.fold_in(facts, l2_entities=0.5).A[-1]
    monkeypatch.setattr(regression, "MAX_ZEROS", 4000)
    monkeypatch.setattr(regression, "MAX_LIKELY", 200)
    drawn, again, other = (factors.fold_in(facts, l2_entities=0.5, random_state=seed).A[-1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(drawn, again)
    assert not np.array_equal(drawn, other)
    V, b, x, w = all_rows(factors, facts, "new", 1.0)

    def loss(a):
        theta = V @ a + b
        return w @ (np.logaddexp(0, theta) - x * theta) + 0.5 * a @ a

    assert loss(exact) <= loss(drawn) < 1.01 * loss(exact)


def test_calibrated_factors_keep_their_calibration_and_know_the_new_facts(tmp_path):
    f = relatent.RescalALS(3, 0.1, 0.1).fit(Facts.from_arrays(*two_camps())).factors_
    grown = f.fold_in(Facts.from_arrays(["new"], ["likes"], ["p0"]))
    assert grown.calibration is f.calibration
    assert len(grown.facts) == len(f.facts) + 1
    assert "p0" not in grown.top(subject="new", relation="likes", k=99).names
    grown.save(tmp_path / "grown.relatent")
    loaded = relatent.load(tmp_path / "grown.relatent")
    assert loaded.entities == grown.entities
    np.testing.assert_array_equal(loaded.A, grown.A)
    assert loaded.facts.named() == grown.facts.named()
    questions = [model.top(subject="new", relation="likes", k=5) for model in (grown, loaded)]
    assert questions[0].names == questions[1].names
    np.testing.assert_array_equal(questions[0].probabilities, questions[1].probabilities)


def test_a_model_without_facts_folds_in_and_stays_without():
    f = relatent.RescalALS(3, 0.1, 0.1, keep_facts=False).fit(Facts.from_arrays(*two_camps())).factors_
    assert f.facts is None
    assert f.fold_in(Facts.from_arrays(["new"], ["likes"], ["p0"])).facts is None


@pytest.mark.parametrize(
    ("facts", "options", "error", "text"),
    [
        (new_facts(), {"others": 1.5}, InputError, "others must be between 0 and 1, got 1.5"),
        (new_facts(), {"l2_entities": -1.0}, InputError, "l2_entities must be a finite number of at least 0, got -1.0"),
        (new_facts(), {"entities": ["nobody"]}, InputError, "no fact mentions 'nobody', so it cannot be folded in"),
        (
            new_facts(),
            {"entities": [new_facts().entities[0]]},
            InputError,
            "the model does not know 'new'; add it to entities",
        ),
        (Facts.from_arrays(["e1"], ["likes"], ["e2"]), {}, InputError, "the model knows every entity of these facts"),
        (Facts.from_arrays(["new"], ["hates"], ["e2"]), {}, UnknownNameError, "unknown relation 'hates'"),
        ([("new", "likes", "e1")], {}, InputError, "fold_in takes Facts, got list"),
    ],
)
def test_wrong_arguments_are_refused_with_one_line(facts, options, error, text):
    with pytest.raises(error, match=text):
        random_factors(links.LogisticLink()).fold_in(facts, **options)


def test_newcomers_keep_their_labels_and_short_names():
    facts = relatent.read([("Q1", "likes", "Q2"), ("Q2", "likes", "Q1")], labels={"Q1": "Ann"})
    model = relatent.RescalALS(rank=2, calibrate=False).fit(facts).factors_
    new = relatent.read(
        [("Q3", "likes", "Q1"), ("http://my.org/x", "likes", "Q1")], labels={"Q3": "Eve", "Q1": "Other"}
    )
    entities = new.entities.with_labels(Labels(new.entities.labels.texts, {"my": "http://my.org/"}))
    new = dataclasses.replace(new, entities=entities)
    for larger in (model.fold_in(new), relatent.update(model, new)):
        assert {name: larger.entities.shown(i) for i, name in enumerate(larger.entities)} == {
            "Q1": "Ann",
            "Q2": "Q2",
            "Q3": "Eve",
            "http://my.org/x": "my:x",
        }
