import json
from collections.abc import Callable

import numpy as np
import pytest

from relatent.data.facts import Facts
from relatent.data.names import Names
from relatent.errors import DataWarning, FitError, InputError
from relatent.evaluation.ranking import Ranking, evaluate
from relatent.fit.estimators.als import RescalALS
from relatent.model.factors import Factors

PEOPLE = ["Ann", "Bob", "Cid", "Dan"]


def scored(likes: list[list[float]], dtype: str = "float32") -> Factors:
    """With A the identity, likes[i][j] is the score of (i, likes, j)."""
    R = np.array([likes], dtype)
    n = len(likes)
    return Factors(np.eye(n, dtype=dtype), R, np.zeros(1, dtype), Names(PEOPLE[:n]), Names(["likes"]))


def likes(*pairs: tuple[str, str]) -> Facts:
    subjects, objects = zip(*pairs, strict=True)
    return Facts.from_arrays(subjects, ["likes"] * len(pairs), objects)


# --- a slow, plain twin


def by_name(factors: Factors, s: str, k: str, o: str) -> float:
    if k not in factors.relations or s not in factors.entities or o not in factors.entities:
        return float(factors.bias[factors.relations.id(k)]) if k in factors.relations else 0.0
    return float(factors.score(s, k, o))


def plain_ranks(
    factors: Factors, test: Facts, known: list[Facts], score: Callable[..., float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The definition, one candidate at a time."""
    score = score or (lambda s, k, o, side: by_name(factors, s, k, o))
    true = {fact for facts in (test, *known) for fact in facts.named()}
    candidates = list(factors.entities)
    candidates += sorted({x for s, _, o in test.named() for x in (s, o)} - set(candidates))
    optimistic = np.empty((len(test), 2), int)
    pessimistic = np.empty((len(test), 2), int)
    for row, (s, k, o) in enumerate(test.named()):
        for side in (0, 1):
            own = score(s, k, o, side)
            rivals = [(x, k, o) if side == 0 else (s, k, x) for x in candidates]
            scores = np.array([score(*rival, side) for rival in rivals if rival not in true])
            optimistic[row, side] = 1 + (scores > own).sum()
            pessimistic[row, side] = 1 + (scores >= own).sum()
    return optimistic, pessimistic


def plain_frequency(factors: Factors, test: Facts, known: list[Facts]):
    """The score of a candidate for a place: in how many known facts of the relation, not in the test, it fills it.

    Facts with names that neither the model nor the test facts have do not count.
    """
    names = {*factors.entities, *factors.relations, *(name for fact in test.named() for name in fact)}
    counted = {fact for facts in known for fact in facts.named() if names.issuperset(fact)} - set(test.named())

    def score(s, k, o, side):
        return sum(fact[1] == k and fact[2 * side] == (s, o)[side] for fact in counted)

    return score


def random_facts(rng: np.random.Generator, n: int, entities: list[str], relations: list[str]) -> Facts:
    s, o = rng.choice(entities, n), rng.choice(entities, n)
    return Facts.from_arrays(s, rng.choice(relations, n), o)


@pytest.mark.parametrize("seed", range(12))
def test_ranks_are_those_of_a_plain_loop_including_ties(seed):
    rng = np.random.default_rng(seed)
    n, k, r = int(rng.integers(2, 15)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    entities, relations = [f"e{i}" for i in range(n)], [f"r{i}" for i in range(k)]
    A, R, bias = (rng.integers(-2, 3, shape) for shape in ((n, r), (k, r, r), (k,)))
    dtype = "float32" if seed % 2 else "float64"
    factors = Factors(*(x.astype(dtype) for x in (A, R, bias)), Names(entities), Names(relations))
    more = [*entities, "new", "newer"] if seed % 3 else entities
    test = random_facts(rng, 12, more, [*relations, "novel"] if seed % 3 else relations)
    known = [random_facts(rng, 30, [*more, "elsewhere"], [*relations, "other"]) for _ in range(2)]
    optimistic, pessimistic = plain_ranks(factors, test, known)
    for batch_size in (None, 1, 5):
        ranking = evaluate(factors, test, known=known, batch_size=batch_size)
        np.testing.assert_array_equal(ranking.optimistic, optimistic)
        np.testing.assert_array_equal(ranking.pessimistic, pessimistic)
        np.testing.assert_allclose(ranking.mrr, np.mean(2 / (optimistic + pessimistic)))
    optimistic, pessimistic = plain_ranks(factors, test, known, plain_frequency(factors, test, known))
    np.testing.assert_array_equal(ranking.baseline.optimistic, optimistic)
    np.testing.assert_array_equal(ranking.baseline.pessimistic, pessimistic)


# --- worlds with plain answers


def test_a_rank_counts_the_better_rivals_on_each_side():
    ranking = evaluate(scored([[0, 5, 3], [0, 9, 8], [0, 7, 1]]), likes(("Ann", "Bob")))
    assert ranking.ranks.tolist() == [[3, 1]]  # Bob is Ann's best object, but two subjects score higher for Bob
    assert ranking.mrr == pytest.approx((1 / 3 + 1) / 2)
    assert ranking.mean_rank == 2
    assert ranking.hits == {1: 0.5, 3: 1.0, 10: 1.0}
    assert ranking.by_side["subject"].mrr == pytest.approx(1 / 3)
    assert ranking.by_side["object"].mrr == 1
    assert ranking.n == 1


def test_known_facts_are_no_rivals():
    factors = scored([[0, 5, 9, 8], [0, 0, 0, 0], [0, 6, 0, 0], [0, 0, 0, 0]])
    test = likes(("Ann", "Bob"))
    assert evaluate(factors, test).ranks.tolist() == [[2, 3]]
    assert evaluate(factors, test, known=likes(("Ann", "Cid"))).ranks.tolist() == [[2, 2]]
    everything = [likes(("Ann", "Cid"), ("Ann", "Dan")), likes(("Cid", "Bob"))]
    assert evaluate(factors, test, known=everything).ranks.tolist() == [[1, 1]]


def test_test_facts_are_no_rivals_of_each_other():
    factors = scored([[0, 5, 9], [0, 0, 0], [0, 0, 0]])
    assert evaluate(factors, likes(("Ann", "Bob"), ("Ann", "Cid"))).ranks[:, 1].tolist() == [1, 1]


def test_a_test_fact_that_is_also_known_is_ranked_alike():
    factors, test = scored([[0, 5, 9], [0, 0, 0], [0, 0, 0]]), likes(("Ann", "Bob"))
    assert evaluate(factors, test, known=test).ranks.tolist() == evaluate(factors, test).ranks.tolist()


def test_a_tie_gets_the_mean_of_both_ranks():
    ranking = evaluate(scored([[1, 1, 1], [0, 1, 0], [0, 0, 0]]), likes(("Ann", "Bob")))
    assert ranking.optimistic.tolist() == [[1, 1]]
    assert ranking.pessimistic.tolist() == [[2, 3]]
    assert ranking.ranks.tolist() == [[1.5, 2]]
    assert ranking.mrr_optimistic == 1
    assert ranking.mrr_pessimistic == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert ranking.hits == {1: 0, 3: 1, 10: 1}


def test_a_constant_score_gets_no_credit():
    n = 101
    factors = Factors(np.zeros((n, 2)), np.zeros((1, 2, 2)), np.ones(1), Names(n), Names(1))
    ranking = evaluate(factors, Facts.from_arrays([3], [0], [7], n_entities=n))
    assert ranking.mean_rank == (n + 1) / 2
    assert ranking.hits[10] == 0


def test_each_relation_has_its_own_summary():
    R = np.array([[[0, 2], [0, 0]], [[0, 0], [2, 0]]], float)
    factors = Factors(np.eye(2), R, np.zeros(2), Names(["Ann", "Bob"]), Names(["over", "under"]))
    ranking = evaluate(factors, Facts.from_arrays(["Ann", "Ann"], ["over", "under"], ["Bob", "Bob"]))
    assert ranking.by_relation["over"].mrr == 1
    assert ranking.by_relation["under"].mrr == pytest.approx((1 / 1.5 + 1 / 1.5) / 2)
    assert ranking.by_relation["over"].n == 2


def test_relations_with_more_facts_come_first():
    factors = Factors(np.eye(2), np.zeros((2, 2, 2)), np.zeros(2), Names(["Ann", "Bob"]), Names(["over", "under"]))
    ranking = evaluate(factors, Facts.from_arrays(["Ann", "Ann", "Bob"], ["over", "under", "under"], ["Bob"] * 3))
    assert list(ranking.by_relation) == list(ranking.to_dict()["by_relation"]) == ["under", "over"]
    assert [row["facts"] for row in ranking.to_dict()["by_relation"].values()] == [2, 1]


# --- the frequency baseline


def test_the_baseline_ranks_answers_by_how_often_they_fill_that_place():
    factors, test = scored(np.zeros((4, 4)).tolist()), likes(("Ann", "Bob"))
    known = likes(("Cid", "Dan"), ("Dan", "Dan"), ("Dan", "Cid"), ("Cid", "Bob"))
    baseline = evaluate(factors, test, known=[known, known]).baseline
    # As subjects Dan and Cid come before Ann and Bob, but Cid is a known answer; as objects Dan before Bob and Cid.
    assert baseline.ranks.tolist() == [[2.5, 2.5]]
    assert baseline.to_dict()["baseline"] is None


def test_test_facts_do_not_count_for_the_baseline():
    factors, test = scored(np.zeros((4, 4)).tolist()), likes(("Ann", "Bob"), ("Cid", "Bob"))
    known = [likes(("Dan", "Cid")), test]
    assert evaluate(factors, test, known=known).baseline.ranks[:, 1].tolist() == [3, 3]


def test_without_known_facts_there_is_no_baseline():
    factors, test = scored(np.zeros((4, 4)).tolist()), likes(("Ann", "Bob"))
    assert evaluate(factors, test).baseline is None
    assert evaluate(factors, test, known=test).baseline is None
    assert evaluate(factors, test).to_dict()["baseline"] is None
    assert evaluate(factors, test, known=likes(("Ann", "Cid"))).n_known == 1


# --- test facts that the model was fitted to


def test_a_warning_tells_how_many_test_facts_were_trained_on():
    train = likes(("Ann", "Bob"), ("Bob", "Cid"))
    factors = RescalALS(1, 0.01, 0.01).fit(train).factors_
    test = likes(("Ann", "Bob"), ("Ann", "Cid"))
    with pytest.warns(DataWarning, match="the model was fitted to 1 of the 2 test facts; evaluate it on other facts"):
        ranking = evaluate(factors, test, known=train)
    assert ranking.n_trained_on == ranking.to_dict()["n_trained_on"] == 1
    assert evaluate(factors, likes(("Ann", "Cid")), known=train).n_trained_on == 0
    assert evaluate(factors, test).n_trained_on is None


def test_cutoffs_can_be_chosen():
    ranking = evaluate(scored([[0, 5, 9], [0, 0, 0], [0, 0, 0]]), likes(("Ann", "Bob")), hits=(2,))
    assert ranking.hits == {2: 1.0}


# --- vocabularies


def test_vocabularies_are_matched_by_name():
    factors = scored([[0, 5, 9], [0, 0, 0], [0, 0, 0]])
    other_order = Facts.from_arrays(["Ann"], ["likes"], ["Bob"], entity_names=["Zoe", "Bob", "Ann"])
    ranking = evaluate(factors, other_order, known=likes(("Ann", "Cid"), ("Zoe", "Bob")))
    assert ranking.ranks.tolist() == [[1, 1]]
    assert ranking.n_unseen == 0  # Zoe is in the vocabulary, but not in a test fact


def test_unseen_test_entities_are_ranked_with_a_zero_vector():
    factors = scored([[-1, 5, -2], [0, 0, 0], [0, 0, 0]])
    ranking = evaluate(factors, likes(("Ann", "Zoe"), ("Ann", "Yan")))
    assert ranking.n_unseen == 2
    assert ranking.optimistic[:, 1].tolist() == ranking.pessimistic[:, 1].tolist() == [2, 2]
    assert ranking.optimistic[:, 0].tolist() == [1, 1]
    assert ranking.pessimistic[:, 0].tolist() == [5, 5]


def test_an_unseen_relation_leaves_everything_tied():
    ranking = evaluate(scored([[0, 5, 9], [0, 0, 0], [0, 0, 0]]), Facts.from_arrays(["Ann"], ["hates"], ["Bob"]))
    assert ranking.n_unseen == 1
    assert ranking.ranks.tolist() == [[2, 2]]


def test_test_entities_without_a_known_fact_are_counted():
    factors = scored(np.zeros((4, 4)).tolist())
    assert evaluate(factors, likes(("Ann", "Bob"), ("Ann", "Dan")), known=likes(("Ann", "Cid"))).n_isolated == 2


# --- form


def test_inputs_are_not_modified():
    factors, test, known = scored([[0, 5, 9], [0, 0, 0], [0, 0, 0]]), likes(("Ann", "Bob")), [likes(("Ann", "Cid"))]
    before = factors.A.copy(), factors.R.copy(), test.triples.copy(), list(known)
    evaluate(factors, test, known=known)
    np.testing.assert_array_equal(factors.A, before[0])
    np.testing.assert_array_equal(factors.R, before[1])
    np.testing.assert_array_equal(test.triples, before[2])
    assert known == before[3]


def test_precision_and_layout_of_the_factors_do_not_matter():
    rng = np.random.default_rng(0)
    A, R = rng.integers(-3, 4, (9, 3)), rng.integers(-3, 4, (2, 3, 3))
    test = Facts.from_arrays(rng.integers(0, 9, 20), rng.integers(0, 2, 20), rng.integers(0, 9, 20), n_entities=9)
    forms = [
        (A.astype(np.float64), R.astype(np.float64)),
        (np.asfortranarray(A.astype(np.float32)), R.astype(np.float64)),
        (A.astype(np.float32)[::-1][::-1], np.asfortranarray(R.astype(np.float32))),
    ]
    results = [evaluate(Factors(a, r, np.zeros(2), Names(9), Names(2)), test) for a, r in forms]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].ranks, other.ranks)


def test_progress_is_reported_up_to_the_end():
    reports: list[tuple[int, int, str]] = []
    test = likes(("Ann", "Bob"), ("Bob", "Cid"), ("Cid", "Ann"))
    evaluate(scored(np.eye(3).tolist()), test, batch_size=2, progress=lambda *report: reports.append(report))
    assert reports == [(done, 6, "ranking facts") for done in (2, 3, 5, 6)]


def test_progress_true_draws_a_bar():
    test = likes(("Ann", "Bob"))
    assert evaluate(scored(np.eye(3).tolist()), test, progress=True).n == 1


def test_relations_become_rows_of_a_data_frame():
    ranking = evaluate(scored([[0, 5, 3], [0, 9, 8], [0, 7, 1]]), likes(("Ann", "Bob")))
    table = ranking.to_pandas()
    assert table.to_dict("records") == [
        {
            "relation": "likes",
            "facts": 1,
            "n": 2,
            "mrr": ranking.mrr,
            "mean_rank": 2,
            "hits_1": 0.5,
            "hits_3": 1.0,
            "hits_10": 1.0,
        }
    ]


def test_the_baseline_has_a_column_of_the_data_frame():
    ranking = evaluate(scored(np.eye(3).tolist()), likes(("Ann", "Bob")), known=likes(("Cid", "Bob")))
    assert ranking.to_pandas()["baseline_mrr"].tolist() == [ranking.baseline.mrr]


def test_a_ranking_is_json_and_has_a_short_repr():
    ranking = evaluate(scored([[0, 5, 3], [0, 9, 8], [0, 7, 1]]), likes(("Ann", "Bob")))
    found = ranking.to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["n"] == 2
    assert found["hits"] == {"1": 0.5, "3": 1.0, "10": 1.0}
    assert found["by_relation"]["likes"]["mrr"] == ranking.mrr
    assert isinstance(ranking, Ranking)
    assert repr(ranking) == "Ranking(1 facts, MRR 0.667, hits@1 0.500, hits@3 1.000, hits@10 1.000)"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused_with_their_number(value):
    factors = Factors(np.array([[1.0], [value]]), np.ones((1, 1, 1)), np.zeros(1), Names(PEOPLE[:2]), Names(["likes"]))
    with pytest.raises(FitError, match=r"scores must be finite, got 1 that are not; did the fit diverge\?"):
        evaluate(factors, likes(("Ann", "Ann")))


def test_scores_that_overflow_are_refused():
    big = np.full((2, 1), 1e30, np.float32)
    factors = Factors(big, np.ones((1, 1, 1), np.float32), np.zeros(1), Names(PEOPLE[:2]), Names(["likes"]))
    with pytest.raises(FitError, match="scores must be finite, got 2 that are not"):
        evaluate(factors, likes(("Ann", "Bob")))


def test_a_bias_that_is_not_finite_is_refused():
    factors = Factors(np.ones((2, 1)), np.ones((1, 1, 1)), np.array([np.nan]), Names(PEOPLE[:2]), Names(["likes"]))
    with pytest.raises(FitError, match="scores must be finite, got 1 biases that are not"):
        evaluate(factors, likes(("Ann", "Bob")))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [({"batch_size": 0}, "batch_size must be at least 1, got 0"), ({"hits": (1, 0)}, "hits must be at least 1, got 0")],
)
def test_keywords_out_of_range_are_refused(keywords, message):
    with pytest.raises(InputError, match=message):
        evaluate(scored(np.eye(2).tolist()), likes(("Ann", "Bob")), **keywords)


def test_facts_may_be_data_frames_and_anything_else_is_one_line():
    factors, facts = scored([[0, 3, 1], [0, 0, 0], [0, 0, 0]]), likes(("Ann", "Bob"))
    frame = facts.to_pandas()
    assert evaluate(factors, frame, known=frame).mrr == evaluate(factors, facts, known=facts).mrr
    with pytest.raises(InputError, match=r"test must be Facts or a data frame, got list; use relatent.read\(…\)"):
        evaluate(factors, [("Ann", "likes", "Bob")])


def test_an_empty_test_set_is_refused():
    with pytest.raises(InputError, match="test must contain at least one fact, got none"):
        evaluate(scored(np.eye(2).tolist()), Facts.from_arrays([], [], [], entity_names=PEOPLE, n_relations=1))
