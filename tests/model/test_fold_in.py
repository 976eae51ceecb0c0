import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize

import relatent
from relatent import Factors, Facts
from relatent.backend.numpy_backend import NumpyBackend
from relatent.data.names import Names
from relatent.errors import InputError, UnknownNameError
from relatent.fit.losses import Logistic
from relatent.fit.penalties import PENALTIES as REGISTRY
from relatent.model import entity_regression as regression
from relatent.model import links
from relatent.model.objective_term import ObjectiveTerm
from worlds import politics, random_facts

NAMES = [f"e{i}" for i in range(12)]
RELATIONS = ["likes", "knows", "owes"]


def random_factors(link, seed=0, n=12, r=3, bias=0.0):
    rng = np.random.default_rng(seed)
    return Factors(
        rng.normal(size=(n, r)),
        rng.normal(size=(3, r, r)),
        np.array([-1.0, 0.5, -2.0]) * bias,
        Names([f"e{i}" for i in range(n)]),
        Names(RELATIONS, what="relation"),
        link,
    )


def new_facts(names=("new",), seed=0, n=12, count=8, **options):
    """Facts of each new entity, some as subject, some as object."""
    rng = np.random.default_rng(seed)
    rows = set()
    for name in names:
        for _ in range(count):
            ends = (name, f"e{rng.integers(n)}")
            rows.add((ends[0], RELATIONS[rng.integers(3)], ends[1]) if rng.random() < 0.5 else
                     (ends[1], RELATIONS[rng.integers(3)], ends[0]))  # fmt: skip
    return Facts.from_arrays(*zip(*sorted(rows), strict=True), **options)


def all_rows(factors, facts, name, others):
    """A slow reference: one row (v, b, x, w) for every cell of one new entity."""
    known = dict(zip(facts.named(), facts.confidences, strict=True))
    unobserved = set(facts.named(facts.unobserved))
    rows = []
    for k, relation in enumerate(factors.relations):
        for j, partner in enumerate(factors.entities):
            ways = (((name, relation, partner), factors.R[k]), ((partner, relation, name), factors.R[k].T))
            for cell, R in ways:
                x, w = (1.0, known[cell]) if cell in known else (0.0, 0.0 if cell in unobserved else others)
                rows.append((R @ factors.A[j], factors.bias[k], x, w))
    return [np.array(column) for column in zip(*rows, strict=True)]


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
    a = factors.fold_in(facts, l2_entities=0.7).A[-1]
    theta = V @ a + b
    slope = w * (1 / (1 + np.exp(-theta)) - x) if link.name == "logistic" else 2 * w * (theta - x)
    np.testing.assert_allclose(V.T @ slope + 2 * 0.7 * a, 0, atol=1e-3)
    assert sorted(set(w.tolist())) == [0.0, 0.5, 1.0, 2.0]


def test_everything_else_stays_as_it_was():
    factors = random_factors(links.LogisticLink(), bias=1.0)
    grown = factors.fold_in(new_facts(["new", "other"]))
    np.testing.assert_array_equal(grown.A[:12], factors.A)
    assert grown.R is factors.R
    assert grown.bias is factors.bias
    assert list(grown.entities) == [*NAMES, "new", "other"]
    assert len(factors.entities) == 12
    assert grown.about["folded_in"] == ["new", "other"]


def two_camps(seed=0):
    """Within a camp all like each other, between camps nobody does."""
    camp = np.arange(20) % 2
    s, o = np.nonzero((camp[:, None] == camp) & ~np.eye(20, dtype=bool))
    return [f"p{i}" for i in s], ["likes"] * len(s), [f"p{i}" for i in o]


def prefers_own_camp(factors):
    grown = factors.fold_in(Facts.from_arrays(["new", "new"], ["likes"] * 2, ["p0", "p2"]), others=0.1)
    p = grown.probability("new", "likes", [f"p{i}" for i in range(20)])
    return p[4::2].min() > p[1::2].max() + 0.1


@pytest.mark.parametrize("model", [relatent.RescalALS(4, 0.1, 0.1), relatent.RescalLogit(4, 0.1, 0.1)])
def test_a_newcomer_who_likes_two_of_a_camp_likes_the_others(model):
    assert prefers_own_camp(model.fit(Facts.from_arrays(*two_camps())).factors_)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [relatent.RescalALS, relatent.RescalLogit])
def test_a_newcomer_finds_its_camp_after_any_good_fit(kind, dtype):
    """A good fit is the best of four random starts; the minima differ in how they turn the vectors of a camp."""
    facts = Facts.from_arrays(*two_camps())
    for seed in range(0, 80, 4):
        starts = [kind(4, 0.1, 0.1, init="random", dtype=dtype, random_state=seed + extra) for extra in range(4)]
        best = min((model.fit(facts) for model in starts), key=lambda model: model.trace_[-1].objective)
        assert prefers_own_camp(best.factors_), seed


def test_a_given_penalty_replaces_the_prior_and_pulls_to_zero():
    f = relatent.RescalALS(4, 5.0, 0.1).fit(Facts.from_arrays(*two_camps())).factors_
    facts = Facts.from_arrays(["new"], ["likes"], ["p0"])
    sizes = [np.linalg.norm(f.fold_in(facts, l2_entities=l2).A[-1]) for l2 in (0.5, 5.0, 5e6)]
    assert sizes[0] > sizes[1] > 1000 * sizes[2]


PENALTIES = {
    "l2": relatent.L2(0.3, 0.3),
    "dura": relatent.Dura(0.1),
    "n3": relatent.N3(0.1),
}


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_penalty_on_one_entity_is_that_of_the_fit(penalty):
    """Its slope is the row of dA that the penalty of the fit computes, without cells of the entity with itself."""
    given, f = PENALTIES[penalty], random_factors(links.LogisticLink())
    facts = random_facts(n=12, n_relations=3, count=80, weighted=True, unobserved=20)
    facts = facts.subset(facts.triples[:, 0] != facts.triples[:, 2])
    dA, dR = np.zeros_like(f.A), np.zeros_like(f.R)
    given.bound(facts, NumpyBackend(np.dtype(np.float64)))(f.A, f.R, dA, dR)
    on_entity = regression.PenaltyOnEntity(f.R, ObjectiveTerm.of(given, REGISTRY))
    for i, cells in enumerate(regression.cells_of_entities(facts, np.arange(12))):
        (own,) = on_entity(cells)
        np.testing.assert_allclose(own.slopes(f.A[i])[0], dA[i], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("others", [0.3, 0.0])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_slopes_of_the_objective_agree_with_differences(loss, penalty, others):
    f = dataclasses.replace(
        random_factors(links.LogisticLink(), bias=1.0),
        loss=ObjectiveTerm(loss),
        penalty=ObjectiveTerm.of(PENALTIES[penalty], REGISTRY),
    )
    facts = random_facts(n=12, n_relations=3, count=60, weighted=True, unobserved=20)
    on_entity = regression.PenaltyOnEntity(f.R, f.penalty, f.entity_prior, 0.7)
    solve = regression.solver(f, others, on_entity)
    solve.sum_all_cells(f.A, leave_out=2)
    (cells,) = regression.cells_of_entities(facts, np.array([2]))
    a, h = np.random.default_rng(1).normal(size=3), 1e-5
    for part in (solve.loss(f.A, 2, cells), *on_entity(cells)):
        gradient, hessian = part.slopes(a)
        for direction in np.eye(3) * h:
            ahead, behind = a + direction, a - direction
            assert (part.value(ahead) - part.value(behind)) / 2 / h == pytest.approx(gradient @ direction / h, rel=1e-6)
            change = (part.slopes(ahead)[0] - part.slopes(behind)[0]) / 2 / h
            np.testing.assert_allclose(change, hessian @ direction / h, rtol=1e-5, atol=1e-6)


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


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_copy_of_an_entity_gets_nearly_its_vector(loss, penalty):
    weights = {"l2": relatent.L2(0.3, 0.3), "dura": relatent.Dura(0.01), "n3": relatent.N3(0.01)}
    facts = relatent.load_dataset("kinships")
    factors = relatent.Rescal(5, loss=loss, penalty=weights[penalty]).fit(facts).factors_
    for name in ("person3", "person50"):
        own = [row for row in facts.named() if name in row and row[0] != row[2]]
        copied = [tuple("copy" if part == name else part for part in row) for row in own]
        grown = factors.fold_in(Facts.from_arrays(*zip(*copied, strict=True)))
        wanted = factors.A[factors.entities.id(name)]
        assert np.linalg.norm(grown.A[-1] - wanted) < 0.05 * np.linalg.norm(wanted)


@pytest.mark.parametrize("penalty", [relatent.Dura(0.02), None])
def test_models_of_loss_objects_fold_in_and_explain(penalty):
    facts = politics()
    model = relatent.Rescal(8, loss=Logistic(), l2_entities=0.1, l2_relations=0.1, penalty=penalty)
    f = model.fit(facts).factors_
    assert regression.can_fold(f)
    grown = f.fold_in(Facts.from_arrays(["Eve"], ["vicePresident"], ["president 1"]), others=0.1)
    assert len(grown.entities) == len(f.entities) + 1
    told = relatent.explain(f, "vice 4", "party", "Blue", facts)
    assert told.reasons[0].relation == "vicePresident"


@pytest.mark.parametrize("link", [links.SmoothLink(), links.LogisticLink()])
def test_newcomers_that_know_each_other_find_each_other(link):
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


def test_a_draw_of_zeros_gives_nearly_what_all_of_them_give(monkeypatch):
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


def listed_of(factors, facts, entity):
    (listed,) = regression.cells_of_entities(facts.over(factors.entities, factors.relations), np.array([entity]))
    return listed


def test_for_least_squares_a_fact_pulls_by_what_the_score_loses_without_it():
    f = random_factors(links.SmoothLink(), bias=1.0)
    rows = [("new", "likes", "e1"), ("e2", "knows", "new"), ("new", "knows", "e5"), ("e3", "likes", "new")]
    grown = f.fold_in(Facts.from_arrays(*zip(*rows, strict=True)), l2_entities=1.0)
    along = grown.R[1] @ grown.A[7]
    listed, pull = regression.fact_influences(
        grown, 12, listed_of(grown, Facts.from_arrays(*zip(*rows, strict=True)), 12), along, 10
    )
    assert len(pull) == 4
    for way, k, partner, value in zip(*listed[:3], pull, strict=True):
        ends = ("new", grown.entities[partner])
        fact = (ends[way], grown.relations[k], ends[1 - way])
        fewer = [row for row in rows if row != fact]
        assert len(fewer) == 3
        without = f.fold_in(Facts.from_arrays(*zip(*fewer, strict=True)), l2_entities=1.0)
        assert value == pytest.approx((grown.A[12] - without.A[12]) @ along, rel=1e-8)


def test_for_the_likelihood_a_fact_pulls_by_what_the_score_loses_were_it_false():
    f = random_factors(links.LogisticLink(), bias=1.0)
    facts = new_facts()
    grown = f.fold_in(facts, l2_entities=1.0)
    along = grown.R[1] @ grown.A[7]
    listed, pull = regression.fact_influences(grown, 12, listed_of(grown, facts, 12), along, 3)
    assert len(pull) == 3
    assert pull[0] > 0
    for way, relation, partner, value in zip(*listed[:3], pull, strict=True):
        ends = ("new", grown.entities[partner])
        fewer = [row for row in facts.named() if row != (ends[way], grown.relations[relation], ends[1 - way])]
        assert len(fewer) == len(facts) - 1
        without = f.fold_in(Facts.from_arrays(*zip(*fewer, strict=True)), l2_entities=1.0)
        assert value == pytest.approx((grown.A[12] - without.A[12]) @ along, rel=1e-3, abs=1e-5)


def test_calibrated_factors_keep_their_map(tmp_path):
    facts = Facts.from_arrays(*two_camps())
    f = relatent.Calibrated(relatent.RescalALS(3, 0.1, 0.1), folds=3).fit(facts).factors_
    grown = f.fold_in(Facts.from_arrays(["new"], ["likes"], ["p0"]))
    assert grown.link == f.link
    grown.save(tmp_path / "grown.relatent")
    loaded = relatent.load(tmp_path / "grown.relatent")
    assert loaded.entities == grown.entities
    np.testing.assert_array_equal(loaded.A, grown.A)


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
def test_what_cannot_be_folded_in_is_said_in_a_line(facts, options, error, text):
    with pytest.raises(error, match=text):
        random_factors(links.LogisticLink()).fold_in(facts, **options)


def test_factors_of_other_losses_are_refused():
    facts = Facts.from_arrays(*two_camps())
    f = relatent.IRM(burn_in=1, n_samples=1, chains=1).fit(facts).factors_
    with pytest.raises(InputError, match="got factors with a block-model loss; fit with --model logit or als"):
        f.fold_in(Facts.from_arrays(["new"], ["likes"], ["p0"]))


def test_cells_are_listed_as_by_a_look_at_all_facts_for_each_entity():
    facts = random_facts(n=12, n_relations=3, count=90, unobserved=40, weighted=True)
    triples = np.concatenate([facts.triples, facts.unobserved])
    x, w = np.repeat([1.0, 0.0], [len(facts), len(facts.unobserved)]), np.append(facts.confidences, np.zeros(40))
    for i, listed in zip((3, 0, 11), regression.cells_of_entities(facts, np.array([3, 0, 11])), strict=True):
        ends = [np.flatnonzero((triples[:, a] == i) & (triples[:, b] != i)) for a, b in ((0, 2), (2, 0))]
        rows = np.concatenate(ends)
        partner = np.concatenate([triples[ends[0], 2], triples[ends[1], 0]])
        way = np.repeat([0, 1], [len(one) for one in ends])
        for own, wanted in zip(listed, (way, triples[rows, 1], partner, x[rows], w[rows]), strict=True):
            np.testing.assert_array_equal(own, wanted)
