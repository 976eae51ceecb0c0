import numpy as np
import pytest

import relatent
from relatent import Facts
from relatent.analysis import duplicates as twins
from relatent.analysis.duplicate_features import SIGNS, Pairs, fact_table
from relatent.errors import InputError


def crowd(n=80, seed=0):
    """Everybody has some facts of his own choice."""
    rng = np.random.default_rng(seed)
    s = np.repeat(np.arange(n), rng.integers(6, 18, n))
    o = (s + rng.integers(1, n, len(s))) % n
    return Facts.from_arrays(s, rng.integers(0, 4, len(s)), o, entity_names=[f"e{i:02d}" for i in range(n)])


@pytest.fixture(scope="module")
def doubled():
    """Three of the crowd are there twice, with half of their facts in common."""
    facts, twin = twins.split_entities(crowd(), np.array([3, 10, 50]), 0.5, np.random.default_rng(1))
    return facts, relatent.RescalALS(8, 1.0, 1.0).fit(facts).factors_, twin


@pytest.fixture(scope="module")
def found(doubled):
    return relatent.duplicates(doubled[1], doubled[0], top=20)


# --- the answer


def test_those_who_are_there_twice_are_found_first(found):
    assert {(one.name, one.other) for one in found.pairs[:3]} == {(f"e{i}", f"e{i} (2)") for i in ("03", "10", "50")}
    assert min(one.probability for one in found.pairs[:3]) > 0.5 > found.pairs[3].probability
    assert all(one.shared > 3 for one in found.pairs[:3])


def test_probabilities_fall_along_the_list(found):
    p = [one.probability for one in found.pairs]
    assert p == sorted(p, reverse=True)
    assert len(p) == 20


def test_a_pair_that_a_fact_joins_is_marked():
    rows = [(f"e{i}", "r", f"v{(7 * i + j) % 20}") for i in range(20) for j in (0, 1, 2, 5, 9)]
    facts = Facts.from_arrays(*map(list, zip(*rows, ("e1", "knows", "e2"), strict=True)))
    factors = relatent.RescalALS(6, 1.0, 1.0, max_iter=20, tol=1.0).fit(facts).factors_
    found = relatent.duplicates(factors, facts, top=1000)
    assert [{one.name, one.other} for one in found.pairs if one.joined and one.name[0] == one.other[0]] == [
        {"e1", "e2"}
    ]


def test_of_two_the_one_with_more_facts_keeps_its_name(doubled, found):
    n_facts = np.bincount(doubled[0].triples[:, [0, 2]].ravel())
    assert len(found.merges) == 3
    for one in found.merges:
        own, kept = (int(doubled[0].entities.ids(name)) for name in (one.name, one.into))
        assert n_facts[kept] >= n_facts[own] == one.facts


def test_one_entity_is_asked_for_by_name(doubled):
    found = relatent.duplicates(doubled[1], doubled[0], "e10 (2)", top=2)
    assert [one.name for one in found.pairs] == ["e10 (2)"] * 2
    assert found.pairs[0].other == "e10"
    assert {name for one in found.merges for name in (one.name, one.into)} == {"e10", "e10 (2)"}


def test_fewer_expected_duplicates_lower_all_probabilities_alike(doubled, found):
    rarer = relatent.duplicates(doubled[1], doubled[0], top=20, expected=0.01)
    odds = [np.array([one.probability / (1 - one.probability) for one in some.pairs]) for some in (found, rarer)]
    np.testing.assert_allclose(odds[0] / odds[1], 10, rtol=1e-6)


def test_the_same_seed_gives_the_same_answer(doubled, found):
    assert relatent.duplicates(doubled[1], doubled[0], top=20) == found


def test_any_kind_of_model_may_be_asked(doubled):
    factors = relatent.RescalLogit(8, 1.0, 1.0, max_iter=30, tol=0.1).fit(doubled[0]).factors_
    assert {one.name[:3] for one in relatent.duplicates(factors, doubled[0], top=3).pairs} == {"e03", "e10", "e50"}


def test_those_whose_facts_were_divided_are_found_among_those_they_share_nothing_with():
    rng = np.random.default_rng(0)
    town = np.repeat(np.arange(12), 8)  # everybody likes ten of the twelve things of his town
    rows = [(f"p{i:02d}", "likes", f"t{t}-{thing}") for i, t in enumerate(town) for thing in rng.permutation(12)[:10]]
    world = Facts.from_arrays(*map(list, zip(*rows, strict=True)))
    chosen = world.entities.ids([f"p{i:02d}" for i in (3, 20, 41, 62)])
    facts, _ = twins.split_entities(world, chosen, 0.0, np.random.default_rng(1))
    factors = relatent.RescalALS(12, 0.1, 0.1).fit(facts).factors_
    found = relatent.duplicates(factors, facts, top=4, shared=0.0)
    assert sum(one.other == f"{one.name} (2)" for one in found.pairs) >= 3
    assert all(one.shared == 0 for one in found.pairs)


def test_who_shares_facts_is_no_duplicate_where_facts_were_divided(doubled):
    found = relatent.duplicates(doubled[1], doubled[0], top=10_000, shared=0.0)
    assert all(one.probability == 0 for one in found.pairs if one.shared)
    assert any(one.probability > 0 for one in found.pairs if not one.shared)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top must be at least 1, got 0"),
        ({"least": 0.0}, "least must be above 0 and at most 1, got 0.0"),
        ({"expected": 2.0}, "expected must be above 0 and at most 1, got 2.0"),
        ({"shared": -0.1}, "shared must be between 0 and 1, got -0.1"),
    ],
)
def test_settings_out_of_range_are_named(doubled, options, message):
    with pytest.raises(InputError, match=message):
        relatent.duplicates(doubled[1], doubled[0], **options)


def test_facts_of_other_entities_are_refused(doubled):
    stranger = Facts.from_arrays(["x"], ["r"], ["y"])
    with pytest.raises(InputError, match="known has no fact about the model's entities"):
        relatent.duplicates(doubled[1], stranger)


# --- its parts


def test_what_all_planted_pairs_have_alike_tells_nothing():
    rng = np.random.default_rng(0)
    is_twin = np.arange(200) % 10 == 0
    evidence = rng.normal(size=(200, len(SIGNS))) + is_twin[:, None] * SIGNS
    evidence[:, 2] = 0
    judge = twins._judge(evidence, is_twin)
    assert judge.weights[2] == 0
    assert (judge.weights * SIGNS >= 0).all()


def test_without_twins_to_learn_from_nobody_is_a_duplicate():
    assert twins._judge(np.zeros((5, len(SIGNS))), np.zeros(5, bool)) is None
    pairs = Pairs(np.array([0]), np.array([1]), np.ones((1, len(SIGNS))), np.zeros(1, int))
    assert twins.probabilities(pairs, (None, None), 0.1) == [0]


def test_a_split_entity_keeps_all_its_facts_between_both_halves():
    facts = crowd()
    split, twin = twins.split_entities(facts, np.array([3, 10]), 0.0, np.random.default_rng(0))
    T = split.triples.astype(np.int64)
    for own, other in zip((3, 10), twin.tolist(), strict=True):
        assert (T[:, [0, 2]] == other).any()
        T[:, [0, 2]] = np.where(T[:, [0, 2]] == other, own, T[:, [0, 2]])
    assert {tuple(row) for row in T.tolist()} == {tuple(row) for row in facts.triples.tolist()}
    assert len(split) == len(facts)  # none is told twice


def test_shared_facts_are_told_of_both_halves():
    split, twin = twins.split_entities(crowd(), np.array([3]), 1.0, np.random.default_rng(0))
    X, _ = fact_table(split)
    assert (X[3] != X[int(twin[0])]).nnz == 0


def test_a_chain_of_pairs_is_no_group_unless_its_ends_are_alike():
    pairs = Pairs(np.array([0, 1]), np.array([1, 2]), np.zeros((2, 4)), np.zeros(2, int))
    p, n_facts = np.array([0.9, 0.8]), np.array([1, 2, 3])
    assert twins.merge_groups(pairs, p, n_facts, set(), 0.5) == [([1, 0], 0.9)]
    closed = Pairs(np.array([0, 1, 0]), np.array([1, 2, 2]), np.zeros((3, 4)), np.zeros(3, int))
    ((members, probability),) = twins.merge_groups(closed, np.array([0.9, 0.8, 0.7]), n_facts, set(), 0.5)
    assert members == [2, 1, 0]
    assert probability == pytest.approx(0.8)


def test_entities_joined_by_a_fact_are_not_merged():
    pairs = Pairs(np.array([0]), np.array([1]), np.zeros((1, 4)), np.zeros(1, int))
    assert twins.merge_groups(pairs, np.array([0.9]), np.array([1, 1]), {(0, 1)}, 0.5) == []
    assert twins.joined_pairs(Facts.from_arrays(["b", "a"], ["r", "r"], ["a", "a"])) == {(0, 1)}
