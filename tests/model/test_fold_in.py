import numpy as np
import pytest
from scipy.optimize import minimize

import relatent
from relatent import Factors, Facts
from relatent.data.names import Names
from relatent.errors import InputError, UnknownNameError
from relatent.model import fold_in as folding
from relatent.model import links
from worlds import random_facts

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
    """The slow, plain twin: one row for every cell of one new entity, (v, b, x, w)."""
    known = dict(zip(facts.named(), facts.confidences, strict=True))
    hidden = set(facts.named(facts.unobserved))
    rows = []
    for k, relation in enumerate(factors.relations):
        for j, partner in enumerate(factors.entities):
            ways = (((name, relation, partner), factors.R[k]), ((partner, relation, name), factors.R[k].T))
            for cell, R in ways:
                x, w = (1.0, known[cell]) if cell in known else (0.0, 0.0 if cell in hidden else others)
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


@pytest.mark.parametrize("model", [relatent.RescalALS(4, 0.1, 0.1), relatent.RescalLogit(4, 0.1, 0.1)])
def test_a_newcomer_who_likes_two_of_a_camp_likes_the_others(model):
    f = model.fit(Facts.from_arrays(*two_camps())).factors_
    grown = f.fold_in(Facts.from_arrays(["new", "new"], ["likes"] * 2, ["p0", "p2"]), others=0.1)
    p = grown.probability("new", "likes", [f"p{i}" for i in range(20)])
    assert p[4::2].min() > p[1::2].max() + 0.1


def test_the_penalty_is_that_of_the_fit():
    f = relatent.RescalALS(4, 5.0, 0.1).fit(Facts.from_arrays(*two_camps())).factors_
    facts = Facts.from_arrays(["new"], ["likes"], ["p0"])
    own, same, other = (f.fold_in(facts, l2_entities=l2).A[-1] for l2 in (None, 5.0, 0.5))
    np.testing.assert_array_equal(own, same)
    assert np.linalg.norm(other) > np.linalg.norm(own)


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
    monkeypatch.setattr(folding, "ROWS", 4000)
    monkeypatch.setattr(folding, "LIKELY", 200)
    drawn, again, other = (factors.fold_in(facts, l2_entities=0.5, random_state=seed).A[-1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(drawn, again)
    assert not np.array_equal(drawn, other)
    V, b, x, w = all_rows(factors, facts, "new", 1.0)

    def loss(a):
        theta = V @ a + b
        return w @ (np.logaddexp(0, theta) - x * theta) + 0.5 * a @ a

    assert loss(exact) <= loss(drawn) < 1.01 * loss(exact)


def listed_of(factors, facts, entity):
    (listed,) = folding.listed_cells(facts.over(factors.entities, factors.relations), np.array([entity]))
    return listed


def test_for_least_squares_a_fact_pulls_by_what_the_score_loses_without_it():
    f = random_factors(links.SmoothLink(), bias=1.0)
    rows = [("new", "likes", "e1"), ("e2", "knows", "new"), ("new", "knows", "e5"), ("e3", "likes", "new")]
    grown = f.fold_in(Facts.from_arrays(*zip(*rows, strict=True)))
    along = grown.R[1] @ grown.A[7]
    listed, pull = folding.pulls(
        grown, 12, listed_of(grown, Facts.from_arrays(*zip(*rows, strict=True)), 12), along, 10
    )
    assert len(pull) == 4
    for way, k, partner, value in zip(*listed[:3], pull, strict=True):
        ends = ("new", grown.entities[partner])
        fact = (ends[way], grown.relations[k], ends[1 - way])
        fewer = [row for row in rows if row != fact]
        assert len(fewer) == 3
        without = f.fold_in(Facts.from_arrays(*zip(*fewer, strict=True)))
        assert value == pytest.approx((grown.A[12] - without.A[12]) @ along, rel=1e-8)


def test_for_the_likelihood_a_fact_pulls_by_what_the_score_loses_were_it_false():
    f = random_factors(links.LogisticLink(), bias=1.0)
    facts = new_facts()
    grown = f.fold_in(facts)
    along = grown.R[1] @ grown.A[7]
    listed, pull = folding.pulls(grown, 12, listed_of(grown, facts, 12), along, 3)
    assert len(pull) == 3
    assert pull[0] > 0
    for way, relation, partner, value in zip(*listed[:3], pull, strict=True):
        ends = ("new", grown.entities[partner])
        fewer = [row for row in facts.named() if row != (ends[way], grown.relations[relation], ends[1 - way])]
        assert len(fewer) == len(facts) - 1
        without = f.fold_in(Facts.from_arrays(*zip(*fewer, strict=True)))
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
        (new_facts(), {"entities": ["nobody"]}, InputError, "no fact is about 'nobody'"),
        (
            new_facts(),
            {"entities": [new_facts().entities[0]]},
            InputError,
            "the model does not know 'new'; name it too",
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
    with pytest.raises(InputError, match=r"logistic likelihood, got factors of .*; fit with --model logit or als$"):
        f.fold_in(Facts.from_arrays(["new"], ["likes"], ["p0"]))


def test_cells_are_listed_as_by_a_look_at_all_facts_for_each_entity():
    facts = random_facts(n=12, n_relations=3, count=90, unobserved=40, weighted=True)
    triples = np.concatenate([facts.triples, facts.unobserved])
    x, w = np.repeat([1.0, 0.0], [len(facts), len(facts.unobserved)]), np.append(facts.confidences, np.zeros(40))
    for i, listed in zip((3, 0, 11), folding.listed_cells(facts, np.array([3, 0, 11])), strict=True):
        ends = [np.flatnonzero((triples[:, a] == i) & (triples[:, b] != i)) for a, b in ((0, 2), (2, 0))]
        rows = np.concatenate(ends)
        partner = np.concatenate([triples[ends[0], 2], triples[ends[1], 0]])
        way = np.repeat([0, 1], [len(one) for one in ends])
        for own, wanted in zip(listed, (way, triples[rows, 1], partner, x[rows], w[rows]), strict=True):
            np.testing.assert_array_equal(own, wanted)
