import dataclasses
import warnings

import numpy as np
import pytest

import relatent
from planted_people import people
from relatent import Facts
from relatent.analysis import duplicates as module
from relatent.analysis.duplicate_features import FEATURE_SIGNS, CandidatePairs, fact_table
from relatent.data.names import Names
from relatent.errors import InputError


def crowd(n=80, seed=0):
    """Every entity has a random choice of facts."""
    rng = np.random.default_rng(seed)
    s = np.repeat(np.arange(n), rng.integers(6, 18, n))
    o = (s + rng.integers(1, n, len(s))) % n
    return Facts.from_arrays(s, rng.integers(0, 4, len(s)), o, entity_names=[f"e{i:02d}" for i in range(n)])


@pytest.fixture(scope="module", autouse=True)
def few_rounds():
    """Four rounds of splitting and fitting, as large data has them, in place of the ten of small data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_ROUNDS", module.MIN_ROUNDS)
        yield


@pytest.fixture(scope="module")
def doubled():
    """Three entities exist twice, with half of their facts in common."""
    facts, twin = module.split_entities(crowd(), np.array([3, 10, 50]), 0.5, np.random.default_rng(1))
    return facts, relatent.RescalALS(8, 1.0, 1.0, calibrate=False).fit(facts).factors_, twin


@pytest.fixture(scope="module")
def found(doubled):
    return relatent.duplicates(doubled[1], k=20, threshold=0.4)


# --- the result


def test_entities_with_two_names_are_found_first(found):
    assert {(pair.name, pair.other) for pair in found.pairs[:3]} == {(f"e{i}", f"e{i} (2)") for i in ("03", "10", "50")}
    assert min(pair.probability for pair in found.pairs[:3]) > 0.4 > found.pairs[3].probability
    assert all(pair.shared > 3 for pair in found.pairs[:3])


def test_probabilities_fall_along_the_list(found):
    p = [pair.probability for pair in found.pairs]
    assert p == sorted(p, reverse=True)
    assert len(p) == 20


def test_a_pair_that_a_fact_joins_is_marked():
    rows = [(f"e{i}", "r", f"v{(7 * i + j) % 20}") for i in range(20) for j in (0, 1, 2, 5, 9)]
    facts = Facts.from_arrays(*map(list, zip(*rows, ("e1", "knows", "e2"), strict=True)))
    factors = relatent.RescalALS(6, 1.0, 1.0, max_iter=20, tol=1.0, calibrate=False).fit(facts).factors_
    found = relatent.duplicates(factors, k=1000)
    assert [{pair.name, pair.other} for pair in found.pairs if pair.joined and pair.name[0] == pair.other[0]] == [
        {"e1", "e2"}
    ]


def test_the_entity_with_more_facts_keeps_its_name(doubled, found):
    n_facts = np.bincount(doubled[0].triples[:, [0, 2]].ravel())
    assert len(found.merges) == 3
    for merge in found.merges:
        own, kept = (int(doubled[0].entities.ids(name)) for name in (merge.name, merge.into))
        assert n_facts[kept] >= n_facts[own] == merge.facts


def test_the_duplicates_of_one_entity(doubled):
    found = relatent.duplicates(doubled[1], "e10 (2)", k=2)
    assert [pair.name for pair in found.pairs] == ["e10 (2)"] * 2
    assert found.pairs[0].other == "e10"
    assert {name for merge in found.merges for name in (merge.name, merge.into)} == {"e10", "e10 (2)"}


def test_a_smaller_prior_scales_all_odds_alike(doubled, found):
    rarer = relatent.duplicates(doubled[1], k=20, prior=0.01)
    odds = [np.array([pair.probability / (1 - pair.probability) for pair in result.pairs]) for result in (found, rarer)]
    np.testing.assert_allclose(odds[0] / odds[1], 10, rtol=1e-6)


def test_the_same_seed_gives_the_same_answer(doubled, found):
    assert relatent.duplicates(doubled[1], k=20, threshold=0.4) == found


def test_any_kind_of_model_is_accepted(doubled):
    factors = relatent.RescalLogit(8, 1.0, 1.0, max_iter=30, tol=0.1, calibrate=False).fit(doubled[0]).factors_
    assert {pair.name[:3] for pair in relatent.duplicates(factors, k=3).pairs} == {"e03", "e10", "e50"}


def test_duplicates_without_a_common_fact_are_found():
    rng = np.random.default_rng(0)
    town = np.repeat(np.arange(12), 8)  # everyone likes ten of the twelve things of their town
    rows = [(f"p{i:02d}", "likes", f"t{t}-{thing}") for i, t in enumerate(town) for thing in rng.permutation(12)[:10]]
    world = Facts.from_arrays(*map(list, zip(*rows, strict=True)))
    chosen = world.entities.ids([f"p{i:02d}" for i in (3, 20, 41, 62)])
    facts, _ = module.split_entities(world, chosen, 0.0, np.random.default_rng(1))
    factors = relatent.RescalALS(12, 0.1, 0.1, calibrate=False).fit(facts).factors_
    found = relatent.duplicates(factors, k=4, shared=0.0)
    assert sum(pair.other == f"{pair.name} (2)" for pair in found.pairs) >= 3
    assert all(pair.shared == 0 for pair in found.pairs)


def test_pairs_with_a_common_fact_are_no_duplicates_where_shared_is_0(doubled):
    found = relatent.duplicates(doubled[1], k=10_000, shared=0.0)
    assert all(pair.probability == 0 for pair in found.pairs if pair.shared)
    assert any(pair.probability > 0 for pair in found.pairs if not pair.shared)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"threshold": 0.0}, "threshold must be above 0 and at most 1, got 0.0"),
        ({"prior": 2.0}, "prior must be above 0 and at most 1, got 2.0"),
        ({"shared": -0.1}, "shared must be between 0 and 1, got -0.1"),
    ],
)
def test_arguments_out_of_range_are_refused(doubled, options, message):
    with pytest.raises(InputError, match=message):
        relatent.duplicates(doubled[1], **options)


def test_facts_of_other_entities_are_refused_and_a_model_without_facts_needs_them(doubled, found):
    stranger = Facts.from_arrays(["x"], ["r"], ["y"])
    with pytest.raises(InputError, match="the model knows no relation of the known facts"):
        relatent.duplicates(doubled[1], known=stranger)
    without = dataclasses.replace(doubled[1], facts=None)
    with pytest.raises(InputError, match="does not hold the facts that it was fitted to: give them, as known="):
        relatent.duplicates(without)
    assert relatent.duplicates(without, known=doubled[0], k=20, threshold=0.4) == found


# --- names, and few facts


def spelled(name):
    """The crowd in which e10 is Jürgen Vogel, and e10 (2) is the given name; the others have names of their own."""
    rng = np.random.default_rng(5)
    facts, _ = module.split_entities(crowd(), np.array([10]), 0.0, np.random.default_rng(1))
    names = ["".join(rng.choice(list("abdefgiklmnorstu"), 9)).title() for _ in range(facts.n_entities)]
    names[10], names[-1] = "Jürgen Vogel", name
    return Facts.from_ids(facts.triples, Names(names), facts.relations)


@pytest.mark.parametrize(
    ("name", "level"), [("VOGEL, JURGEN", "equal"), ("Jürgen Vogel (live)", "contained"), ("Jürgen Vgel", "similar")]
)
def test_another_spelling_is_found_though_the_facts_are_divided(name, level):
    facts = spelled(name)
    factors = relatent.RescalALS(8, 1.0, 1.0, calibrate=False).fit(facts).factors_
    with_names = relatent.duplicates(factors, "Jürgen Vogel", k=1).pairs[0]
    assert (with_names.other, with_names.name_match) == (name, level)
    without = relatent.duplicates(factors, "Jürgen Vogel", k=1000, names=False).pairs
    assert {pair.name_match for pair in without} == {""}
    assert with_names.probability > 5 * next(pair.probability for pair in without if pair.other == name)


def capitals(name, rng):
    return name.upper()


def misspelt(name, rng):
    word = max(name.split(", "), key=len)
    at = int(rng.integers(1, len(word) - 1))
    return name.replace(word, word[:at] + "x" + word[at + 1 :])


def with_initial(name, rng):
    last, first = name.split(", ")
    return f"{first[0]}. {last}"


def reordered(name, rng):
    return " ".join(reversed(name.split(", ")))


def in_another_language(name, rng):
    return "".join(rng.choice(list("abdefgiklmnorstu"), 9)).title()


def searched(respelled, seed=0, **options):
    facts, truth = people(respelled, seed=seed, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.PoorFitWarning)
        factors = relatent.RescalALS(rank=8, calibrate=False).fit(facts).factors_
    return truth, relatent.duplicates(factors, k=500)


@pytest.mark.parametrize("seed", [0, 1])
def test_copies_with_names_in_capitals_are_proposed_and_relatives_are_not(seed):
    truth, found = searched(capitals, seed)
    assert {frozenset((pair.name, pair.other)) for pair in found.pairs[:10]} == truth
    proposed = {frozenset((merge.name, merge.into)) for merge in found.merges}
    assert proposed <= truth
    assert len(proposed) >= 9  # the facts of one copy of seed 0 are unlike those of the other
    relatives = [pair.probability for pair in found.pairs[10:] if pair.name.split(",")[0] == pair.other.split(",")[0]]
    assert max(relatives, default=0) < 0.3


@pytest.mark.parametrize("respelled", [misspelt, with_initial, reordered])
def test_other_spellings_are_proposed(respelled):
    truth, found = searched(respelled)
    merged = {frozenset((merge.name, merge.into)) for merge in found.merges}
    assert len(merged & truth) >= 8
    assert merged <= truth
    likely = [pair.probability for pair in found.pairs if pair.probability >= 0.5]
    assert sum(likely) <= len(merged) + 1e-9


def test_without_names_that_agree_nothing_is_proposed_on_few_facts():
    for options in ({"respelled": in_another_language}, {"respelled": capitals, "n_copies": 0}):
        assert searched(**options)[1].merges == []


def test_ids_neither_help_nor_harm(doubled, found):
    assert relatent.duplicates(doubled[1], k=20, threshold=0.4, names=False) == found
    assert {pair.name_match for pair in found.pairs} == {""}


def test_one_common_fact_is_no_certainty():
    rng = np.random.default_rng(0)
    rows = [(f"p{i}", "likes", f"t{t}") for i in range(60) for t in rng.permutation(30)[:8]]
    rows += [(f"town{i}", "lies in", f"region{i // 2}") for i in range(10)]  # two per region, nothing else known
    facts = Facts.from_arrays(*map(list, zip(*rows, strict=True)))
    factors = relatent.RescalALS(8, 1.0, 1.0, calibrate=False).fit(facts).factors_
    found = relatent.duplicates(factors, k=10_000, names=False).pairs
    assert max(pair.probability for pair in found if pair.name[:4] == pair.other[:4] == "town") < 0.25


# --- its parts


def test_a_constant_feature_has_no_weight():
    rng = np.random.default_rng(0)
    is_duplicate = np.arange(200) % 10 == 0
    features = rng.normal(size=(200, len(FEATURE_SIGNS))) + is_duplicate[:, None] * FEATURE_SIGNS
    features[:, 2] = 0
    classifier = module._fit_classifier(features, is_duplicate)
    assert classifier.weights[2] == 0
    assert (classifier.weights * FEATURE_SIGNS >= 0).all()


def test_without_positive_pairs_no_pair_is_a_duplicate():
    assert module._fit_classifier(np.zeros((5, len(FEATURE_SIGNS))), np.zeros(5, bool)) is None
    pairs = CandidatePairs(np.array([0]), np.array([1]), np.ones((1, len(FEATURE_SIGNS))), np.zeros(1, int))
    assert module.pair_probabilities(pairs, (None, None), 0.1) == [0]


def test_a_split_entity_keeps_all_its_facts_between_both_halves():
    facts = crowd()
    split, twin = module.split_entities(facts, np.array([3, 10]), 0.0, np.random.default_rng(0))
    T = split.triples.astype(np.int64)
    for own, other in zip((3, 10), twin.tolist(), strict=True):
        assert (T[:, [0, 2]] == other).any()
        T[:, [0, 2]] = np.where(T[:, [0, 2]] == other, own, T[:, [0, 2]])
    assert {tuple(row) for row in T.tolist()} == {tuple(row) for row in facts.triples.tolist()}
    assert len(split) == len(facts)  # no fact occurs twice


def test_entities_with_few_facts_are_learned_from():
    star = Facts.from_arrays([f"e{i}" for i in range(9)], ["r"] * 9, ["hub"] * 9)
    assert len(module.entities_to_split(star, 10, np.random.default_rng(0))) == 10
    assert len(module.entities_to_split(star, 10, np.random.default_rng(0), min_facts=4)) == 1


def test_shared_facts_belong_to_both_halves():
    split, twin = module.split_entities(crowd(), np.array([3]), 1.0, np.random.default_rng(0))
    X, _ = fact_table(split)
    assert (X[3] != X[int(twin[0])]).nnz == 0


def test_a_chain_of_pairs_is_no_group_unless_its_ends_are_a_pair():
    pairs = CandidatePairs(np.array([0, 1]), np.array([1, 2]), np.zeros((2, 4)), np.zeros(2, int))
    p, n_facts = np.array([0.9, 0.8]), np.array([1, 2, 3])
    assert module.merge_groups(pairs, p, n_facts, set(), 0.5) == [([1, 0], 0.9)]
    closed = CandidatePairs(np.array([0, 1, 0]), np.array([1, 2, 2]), np.zeros((3, 4)), np.zeros(3, int))
    ((members, probability),) = module.merge_groups(closed, np.array([0.9, 0.8, 0.7]), n_facts, set(), 0.5)
    assert members == [2, 1, 0]
    assert probability == pytest.approx(0.8)


def test_entities_joined_by_a_fact_are_not_merged():
    pairs = CandidatePairs(np.array([0]), np.array([1]), np.zeros((1, 4)), np.zeros(1, int))
    assert module.merge_groups(pairs, np.array([0.9]), np.array([1, 1]), {(0, 1)}, 0.5) == []
    assert module.joined_pairs(Facts.from_arrays(["b", "a"], ["r", "r"], ["a", "a"])) == {(0, 1)}


def test_results_are_plain_data_and_a_table(found):
    plain = found.to_dict()
    assert plain["pairs"][0] == found.pairs[0]._asdict()
    assert plain["merges"][0] == found.merges[0]._asdict()
    table = found.to_pandas()
    assert list(table.columns) == ["name", "other", "probability", "shared", "joined", "name_match"]
    assert table.probability.tolist() == [pair.probability for pair in found.pairs]
