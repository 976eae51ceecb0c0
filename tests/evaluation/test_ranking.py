import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import relatent
from relatent.data.facts import Facts
from relatent.data.names import Names
from relatent.errors import DataWarning, FitError, InputError
from relatent.evaluation.ranking import Ranking, evaluate
from relatent.fit.estimators.als import RescalALS
from relatent.model.factors import Factors
from small_graphs import blocks

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


def names_of(factors: Factors) -> set[str]:
    return {*factors.entities, *factors.relations}


def may_be_itself(factors: Factors, test: Facts, known: list[Facts]) -> set[str]:
    """Relations of which a known fact has one entity at both ends, or of which there is no known fact."""
    facts = {fact for facts in known for fact in facts.named() if names_of(factors).issuperset(fact)}
    facts -= set(test.named())
    return set(factors.relations) - {k for _, k, _ in facts} | {k for s, k, o in facts if s == o}


def plain_ranks(
    factors: Factors,
    test: Facts,
    known: list[Facts],
    score: Callable[..., float] | None = None,
    protocol: str = "benchmark",
) -> tuple[np.ndarray, np.ndarray]:
    """The definition, one candidate at a time."""
    of_model, score_of = names_of(factors), score or (lambda s, k, o, side: float(factors.score(s, k, o)))
    true = {fact for facts in (test, *known) for fact in facts.named()}
    everyone = list(factors.entities)
    everyone += sorted({x for s, _, o in test.named() for x in (s, o)} - set(everyone))
    loops = may_be_itself(factors, test, known)
    optimistic = np.empty((len(test), 2), int)
    pessimistic = np.empty((len(test), 2), int)
    for row, (s, k, o) in enumerate(test.named()):
        for side in (0, 1):
            is_known = of_model.issuperset((s, k, o))
            candidates = list(factors.entities) if is_known and score is None else everyone
            if is_known and protocol == "answers" and k not in loops:
                candidates = [x for x in candidates if x != (o, s)[side]]
            rivals = [(x, k, o) if side == 0 else (s, k, x) for x in candidates]
            rivals = [rival for rival in rivals if rival not in true]
            if is_known or score is not None:
                own, scores = score_of(s, k, o, side), np.array([score_of(*rival, side) for rival in rivals])
            else:  # at random
                own, scores = 0, np.zeros(len(rivals))
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
    for protocol in ("answers", "benchmark"):
        optimistic, pessimistic = plain_ranks(factors, test, known, protocol=protocol)
        for batch_size in (None, 1, 5):
            ranking = evaluate(factors, test, known=known, protocol=protocol, batch_size=batch_size)
            assert ranking.protocol == protocol
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


# --- which candidates are ranked


def test_an_entity_is_no_answer_to_a_question_about_itself_unless_the_relation_has_such_facts():
    factors, test = scored([[9, 5, 1], [0, 9, 0], [0, 0, 9]]), likes(("Ann", "Bob"))
    one_way, with_itself = likes(("Cid", "Ann")), likes(("Cid", "Cid"))
    assert evaluate(factors, test).ranks.tolist() == [[2, 2]]  # no fact is there to tell
    assert evaluate(factors, test, known=one_way).ranks.tolist() == [[1, 1]]
    assert evaluate(factors, test, known=with_itself).ranks.tolist() == [[2, 2]]
    assert evaluate(factors, test, known=one_way, protocol="benchmark").ranks.tolist() == [[2, 2]]
    assert evaluate(factors, likes(("Bob", "Bob")), known=one_way).ranks.tolist() == [[1, 1]]


def test_the_facts_of_the_model_are_known():
    bare, test = scored([[0, 5, 9, 8], [0, 0, 0, 0], [0, 6, 0, 0], [0, 0, 0, 0]]), likes(("Ann", "Bob"))
    factors = replace(bare, facts=likes(("Ann", "Cid")))
    assert evaluate(factors, test).ranks.tolist() == [[2, 2]]
    assert evaluate(factors, test).n_known == 1
    further = likes(("Ann", "Dan"), ("Cid", "Bob"))
    assert evaluate(factors, test, known=further).ranks.tolist() == [[1, 1]]
    assert evaluate(factors, test, known=further).n_known == 3


def test_candidates_of_a_wrong_type_are_left_out_and_a_right_answer_of_one_comes_last():
    facts = Facts.from_arrays(["Ann", "Bob", "Cid"], ["in"] * 3, ["x", "x", "y"])
    typed = facts.with_types({"Ann": {"p"}, "Bob": {"p"}, "Cid": {"p"}, "x": {"t"}, "y": {"t"}})
    model = RescalALS(2, 0.01, 0.01, calibrate=False).fit(typed).factors_
    n = len(model.entities)
    R = np.zeros((1, n, n))
    place = {name: i for i, name in enumerate(model.entities)}
    R[0, place["Ann"]] = [{"Ann": 0, "Bob": 4, "Cid": 3, "x": 0, "y": 2}[name] for name in model.entities]
    factors = replace(model, A=np.eye(n), R=R, bias=np.zeros(1), calibration=None)
    right, wrong = (Facts.from_arrays(["Ann"], ["in"], [name]) for name in ("y", "Bob"))
    assert evaluate(factors, right).ranks[0, 1] == 1
    assert evaluate(factors, right, protocol="benchmark").ranks[0, 1] == 3
    assert evaluate(factors.without_types(), right).ranks[0, 1] == 3
    assert evaluate(factors, right).n_wrong_type == 0
    found = evaluate(factors, wrong)
    assert found.n_wrong_type == found.to_dict()["n_wrong_type"] == 1
    assert found.ranks[0, 1] == 2  # after y, which is of a right type; x is known
    assert evaluate(factors, wrong, protocol="benchmark").n_wrong_type == 0


def test_an_unknown_protocol_is_refused():
    with pytest.raises(InputError, match="protocol must be 'answers' or 'benchmark', got 'filtered'"):
        evaluate(scored(np.eye(2).tolist()), likes(("Ann", "Bob")), protocol="filtered")


@pytest.fixture(scope="module")
def births() -> tuple[Factors, Facts]:
    """Everyone is born in one town and has visited some, so that one relation has one answer and one has many."""
    rng = np.random.default_rng(0)
    home = rng.integers(0, 8, 90)
    rows = [(f"p{i}", "born in", f"town{home[i]}") for i in range(90)]
    rows += [(f"p{i}", "visited", f"town{j}") for i in range(90) for j in {home[i], *rng.integers(0, 8, 2).tolist()}]
    train, test = relatent.split(relatent.read(rows), test_size=0.1)
    return RescalALS(8, 0.5, 0.5, tol=1e-3).fit(train).factors_, test


@pytest.mark.parametrize("is_calibrated", [True, False])
def test_candidates_are_in_the_order_of_lists_of_answers(births, is_calibrated):
    calibrated, test = births
    factors = calibrated if is_calibrated else replace(calibrated, R=calibrated.relation_matrices, calibration=None)
    assert not is_calibrated or calibrated.calibration.one_answer[:, 0].any()
    n = len(factors.entities)
    for row, (s, k, o) in zip(range(0, len(test), 3), test.named()[::3], strict=False):
        ranking = evaluate(factors, test.subset(np.arange(len(test)) == row))
        for column, (given, answer) in enumerate((({"object": o}, s), ({"subject": s}, o))):
            rank = factors.top(relation=k, k=n, **given).names.index(answer) + 1
            assert ranking.optimistic[0, column] <= rank <= ranking.pessimistic[0, column]


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
    factors = RescalALS(1, 0.01, 0.01, calibrate=False).fit(train).factors_
    test = likes(("Ann", "Bob"), ("Ann", "Cid"))
    with pytest.warns(DataWarning, match="the model was fitted to 1 of the 2 test facts; evaluate it on other facts"):
        ranking = evaluate(factors, test)
    assert ranking.n_trained_on == ranking.to_dict()["n_trained_on"] == 1
    assert evaluate(factors, likes(("Ann", "Cid"))).n_trained_on == 0


def test_facts_are_recognised_by_their_names_and_also_those_of_weight_or_of_entities_folded_in():
    train = replace(blocks(12), weights=np.random.default_rng(0).random(len(blocks(12))))
    grown = RescalALS(3, 0.1, 0.1, calibrate=False).fit(train).factors_
    grown = grown.fold_in(relatent.read([("Eve", "0", "1"), ("Zoe", "1", "2")]))
    rows = train.named()[::4]
    new = [("Eve", "1", "4"), ("Zoe", "0", "3")]
    with pytest.warns(DataWarning, match=rf"fitted to {len(rows)} of the {len(rows) + 2} test facts"):
        found = evaluate(grown, relatent.read(rows[::-1] + new))
    assert found.n_trained_on == len(rows)
    assert evaluate(grown, relatent.read(new)).n_trained_on == 0


def test_a_model_without_its_facts_cannot_tell_what_it_was_fitted_to():
    train = likes(("Ann", "Bob"), ("Bob", "Cid"))
    factors = RescalALS(1, 0.01, 0.01, keep_facts=False, calibrate=False).fit(train).factors_
    for known in ((), train):
        assert evaluate(factors, train, known=known).n_trained_on is None


def test_a_test_fact_that_was_trained_on_does_not_answer_for_itself():
    """Known facts and the test facts among them: neither ranks nor kinds of cells depend on which."""
    train = blocks(15)
    factors = RescalALS(3, 0.1, 0.1, calibrate=False).fit(train).factors_
    test = train.subset(np.arange(len(train)) % 9 == 0)
    without = replace(factors, R=factors.relation_matrices, facts=train.subset(~test.contains(train.triples)))
    with pytest.warns(DataWarning, match="the model was fitted to"):
        found = evaluate(factors, test)
    np.testing.assert_array_equal(found.ranks, evaluate(without, test).ranks)
    np.testing.assert_array_equal(found.baseline.ranks, evaluate(without, test).baseline.ranks)


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


def test_questions_about_unseen_entities_are_answered_at_random():
    factors = scored([[-1, 5, -2], [0, 0, 0], [0, 0, 0]])
    ranking = evaluate(factors, likes(("Ann", "Zoe"), ("Ann", "Yan")))
    assert ranking.n_unseen == 2
    assert ranking.optimistic.tolist() == [[1, 1], [1, 1]]
    assert ranking.pessimistic[:, 1].tolist() == [4, 4]  # of five entities, without the other right answer
    assert ranking.pessimistic[:, 0].tolist() == [5, 5]


def test_an_unseen_relation_leaves_everything_tied():
    test = Facts.from_arrays(["Ann", "Bob"], ["hates", "likes"], ["Bob", "Cid"])
    ranking = evaluate(scored([[0, 5, 9], [0, 0, 7], [0, 0, 0]]), test)
    assert ranking.n_unseen == 1
    [of_hates] = ranking.ranks[ranking.relation_ids == test.relations.id("hates")].tolist()
    assert of_hates == [2, 2]
    assert ranking.by_relation["likes"].mrr > 0.5


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("Ann", "hates", "Bob"), "the model knows no relation of the test facts: it has 'likes', they have 'hates'"),
        (("Yan", "likes", "Zoe"), "the model knows no entity of the test facts: it has 'Ann', 'Bob', they have 'Y"),
    ],
)
def test_test_facts_of_another_world_are_refused(row, message):
    with pytest.raises(InputError, match=message):
        evaluate(scored(np.eye(2).tolist()), Facts.from_arrays(*([name] for name in row)))


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
    assert (found["protocol"], found["n_wrong_type"], found["n_trained_on"]) == ("answers", 0, None)
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
