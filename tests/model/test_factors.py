import numpy as np
import pytest

from relatent.data.facts import Facts
from relatent.data.names import Names
from relatent.errors import InputError, UnknownNameError
from relatent.model.factors import Factors, load
from relatent.model.links import SmoothLink
from relatent.model.scores import CELLS_PER_BLOCK, scores

ENTITIES = ["Ann", "Bob", "Cid", "Dan"]


@pytest.fixture
def town() -> Factors:
    """With A the identity, R_k[i, j] is the score of (i, k, j)."""
    likes = [[0, 5, 3, 1], [0, 0, 0, 9], [4, 0, 0, 0], [2, 2, 2, 2]]
    knows = [[1, 1, 1, 1], [7, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    R = np.array([likes, knows], float)
    return Factors(np.eye(4), R, np.array([0.5, -0.5]), Names(ENTITIES), Names(["likes", "knows"], what="relation"))


def random_factors(n: int = 7, k: int = 3, r: int = 2) -> Factors:
    rng = np.random.default_rng(0)
    return Factors(rng.normal(size=(n, r)), rng.normal(size=(k, r, r)), rng.normal(size=k), Names(n), Names(k))


# --- scores


def test_a_score_is_the_bilinear_form_plus_the_bias(town):
    assert town.score("Ann", "likes", "Bob") == 5.5
    assert town.score("Bob", "likes", "Ann") == 0.5
    assert town.score(["Ann", "Bob"], ["likes", "knows"], ["Cid", "Ann"]).tolist() == [3.5, 6.5]


def test_scores_of_listed_cells_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    A, R, b = (rng.normal(size=shape).astype(np.float32) for shape in ((20, 3), (3, 3, 3), (3,)))
    s, k, o = (rng.integers(0, high, 150) for high in (20, 3, 20))
    theta = np.einsum("np,npq,nq->n", A[s], R[k], A[o]) + b[k]
    np.testing.assert_allclose(scores(A, R, b, s, k, o), theta, rtol=1e-5, atol=1e-5)


def test_scores_agree_with_the_plain_sum_in_any_order_of_relations():
    f = random_factors()
    s, k, o = np.random.default_rng(1).integers(0, [[7], [3], [7]], (3, 50))
    plain = [f.A[i] @ f.R[m] @ f.A[j] + f.bias[m] for i, m, j in zip(s, k, o, strict=True)]
    np.testing.assert_allclose(f.score(s, k, o), plain)


def test_the_three_arguments_broadcast(town):
    grid = town.score(np.arange(4)[:, None], "likes", np.arange(4)[None, :])
    np.testing.assert_array_equal(grid, town.R[0] + 0.5)
    assert town.score([], [], []).shape == (0,)


def test_many_cells_are_scored_in_pieces():
    f = random_factors()
    s = np.arange(CELLS_PER_BLOCK + 5) % 7
    np.testing.assert_allclose(f.score(s, 1, 2), (f.A @ f.R[1] @ f.A[2] + f.bias[1])[s])


def test_scores_keep_the_precision_of_the_factors():
    f = random_factors()
    single = Factors(*(x.astype(np.float32) for x in (f.A, f.R, f.bias)), f.entities, f.relations)
    assert single.score([0], [0], [1]).dtype == np.float32
    assert f.score([0], [0], [1]).dtype == np.float64


def test_a_probability_is_the_link_of_the_score(town):
    assert town.probability("Ann", "likes", "Bob") == pytest.approx(1 / (1 + np.exp(-5.5)))
    smooth = Factors(town.A, town.R / 10, np.zeros(2), town.entities, town.relations, SmoothLink())
    assert smooth.probability("Ann", "likes", "Bob") == 0.5


def test_an_unknown_name_is_refused_with_a_near_one(town):
    with pytest.raises(UnknownNameError, match="unknown entity 'Anne'; did you mean 'Ann'"):
        town.score("Anne", "likes", "Bob")
    with pytest.raises(UnknownNameError, match="unknown relation 'like'; did you mean 'likes'"):
        town.score("Ann", "like", "Bob")
    with pytest.raises(UnknownNameError, match="unknown entity id 4: ids run from 0 to 3"):
        town.score(4, 0, 0)


# --- questions


def test_top_answers_with_the_best_objects(town):
    top = town.top(subject="Ann", relation="likes", k=2)
    assert top.names == ["Bob", "Cid"]
    assert top.scores.tolist() == [5.5, 3.5]
    np.testing.assert_allclose(top.probabilities, town.probability("Ann", "likes", ["Bob", "Cid"]))


def test_top_answers_with_the_best_subjects(town):
    top = town.top(relation="likes", object="Dan", k=2)
    assert top.names == ["Bob", "Dan"]
    assert top.scores.tolist() == [9.5, 2.5]


def test_top_answers_with_the_best_relations(town):
    top = town.top(subject="Bob", object="Ann")
    assert top.names == ["knows", "likes"]
    assert top.scores.tolist() == [6.5, 0.5]


def test_top_takes_ids_as_well(town):
    assert town.top(subject=0, relation=0, k=1).names == ["Bob"]
    assert town.top(relation=np.int64(0), object=np.int64(3), k=1).names == ["Bob"]


def test_top_agrees_with_score_for_every_open_place():
    f = random_factors()
    for place, keywords in enumerate(
        ({"relation": 1, "object": 2}, {"subject": 3, "object": 2}, {"subject": 3, "relation": 1})
    ):
        top = f.top(**keywords, k=99)
        cells = {"subject": top.names, "relation": top.names, "object": top.names, **keywords}
        np.testing.assert_allclose(top.scores, f.score(cells["subject"], cells["relation"], cells["object"]))
        assert len(top.names) == (7, 3, 7)[place]
        assert (np.diff(top.scores) <= 0).all()


def test_ties_go_to_the_lower_id_whatever_k_is(town):
    for k in (1, 2, 3, 4):
        assert town.top(subject="Ann", relation="knows", k=k).names == ENTITIES[:k]


def test_k_beyond_what_there_is_gives_all_there_is(town):
    assert len(town.top(subject="Ann", relation="likes", k=100).names) == 4


def test_known_facts_are_left_out(town):
    known = Facts.from_arrays(["Ann"], ["likes"], ["Bob"], entity_names=ENTITIES, relation_names=["likes", "knows"])
    assert town.top(subject="Ann", relation="likes", exclude=known).names == ["Cid", "Dan"]  # nobody likes oneself
    assert town.top(relation="likes", object="Bob", exclude=known).names == ["Dan", "Cid"]
    assert town.top(subject="Ann", object="Bob", exclude=known).names == ["knows"]
    assert town.top(subject="Bob", relation="likes", k=1, exclude=known).names == ["Dan"]


def test_facts_of_another_vocabulary_are_left_out_by_name(town):
    known = [
        Facts.from_arrays(["Ann", "Ann"], ["likes", "likes"], ["Zoe", "Cid"]),
        Facts.from_arrays(["Ann"], ["likes"], ["Bob"]),
        Facts.from_arrays(["Zoe", "Ann"], ["hates", "likes"], ["Ann", "Cid"]),
    ]
    assert town.top(subject="Ann", relation="likes", exclude=known).names == ["Dan"]


def test_facts_about_something_else_are_refused(town):
    for strange in (Facts.from_arrays(["Zoe"], ["hates"], ["Ann"]), Facts.from_arrays(["Zoe"], ["likes"], ["Eve"])):
        for known in (strange, [Facts.from_arrays(["Ann"], ["likes"], ["Bob"]), strange]):
            with pytest.raises(InputError, match=r"the model knows no (relation|entity) of the known facts"):
                town.top(subject="Ann", relation="likes", exclude=known)


def test_there_may_be_no_answer_left(town):
    known = Facts.from_arrays(["Ann"] * 4, ["likes"] * 4, ENTITIES)
    top = town.top(subject="Ann", relation="likes", exclude=known)
    assert top.names == []
    assert top.scores.shape == top.probabilities.shape == (0,)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "give exactly two of subject, relation and object, got none"),
        ({"subject": "Ann"}, "got subject"),
        ({"subject": "Ann", "relation": "likes", "object": "Bob"}, "got subject and relation and object"),
        ({"subject": "Ann", "relation": "likes", "k": 0}, "k must be at least 1, got 0"),
        ({"subject": "Eve", "relation": "likes"}, "unknown entity 'Eve'"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(town, keywords, message):
    with pytest.raises(InputError, match=message):
        town.top(**keywords)


def test_answering_leaves_the_factors_alone(town):
    before = [x.copy() for x in (town.A, town.R, town.bias)]
    town.top(subject="Ann", relation="likes", exclude=Facts.from_arrays(["Ann"], ["likes"], ["Bob"]))
    town.score("Ann", "likes", "Bob")
    for array, copy in zip((town.A, town.R, town.bias), before, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- the object itself


@pytest.mark.parametrize(
    ("A", "R", "bias", "message"),
    [
        ((3, 2), (1, 2, 2), (1,), r"A must have shape \(2, 2\) for 2 entities and 1 relations, got \(3, 2\)"),
        ((2, 2), (1, 2, 3), (1,), r"R must have shape \(1, 2, 2\) for 2 entities and 1 relations, got \(1, 2, 3\)"),
        ((2, 2), (1, 2, 2), (2,), r"bias must have shape \(1,\) for 2 entities and 1 relations, got \(2,\)"),
    ],
)
def test_arrays_must_fit_the_names(A, R, bias, message):
    with pytest.raises(InputError, match=message):
        Factors(np.zeros(A), np.zeros(R), np.zeros(bias), Names(2), Names(1))


def test_factors_introduce_themselves(town):
    assert repr(town) == "Factors(4 entities, 2 relations, rank 4, logistic link)"
    assert town.rank == 4


# --- one relation a pair


def competing(n=6, k=4, rank=3):
    rng = np.random.default_rng(0)
    A, R = rng.normal(size=(n, rank)), rng.normal(size=(k, rank, rank)) * 2
    return Factors(A, R, rng.normal(size=k), Names(n), Names(k, what="relation"), exclusive=True)


def softmax(f):
    """Probabilities of every cell and of none, by definition, (K, N, N)."""
    theta = f.A @ f.R @ f.A.T + f.bias[:, None, None]
    e = np.exp(theta)
    return e / (1 + e.sum(axis=0))


def test_exclusive_relations_share_the_probability_of_a_pair():
    f = competing()
    p = f.probability(np.arange(6)[:, None], np.arange(4)[:, None, None], np.arange(6))
    np.testing.assert_allclose(p, softmax(f), rtol=1e-8)  # scores are rounded to 32 binary digits
    assert (p.sum(axis=0) < 1).all()


def test_questions_about_exclusive_relations_are_answered_by_their_odds():
    f = competing()
    p = softmax(f)
    for k in range(4):
        np.testing.assert_allclose(np.sort(f.top(subject=1, relation=k, k=6).probabilities), np.sort(p[k, 1]))
        np.testing.assert_allclose(np.sort(f.top(object=2, relation=k, k=6).probabilities), np.sort(p[k, :, 2]))
    np.testing.assert_allclose(np.sort(f.top(subject=1, object=2, k=4).probabilities), np.sort(p[:, 1, 2]))
    best = f.top(subject=1, relation=0, k=1)
    assert best.scores[0] == pytest.approx(f.score(1, 0, int(best.names[0])))


def test_a_single_exclusive_relation_competes_with_none_alone():
    f = competing(k=1)
    np.testing.assert_allclose(f.score(0, 0, np.arange(6)), f.A[0] @ f.R[0] @ f.A.T + f.bias[0])


def test_far_exclusive_scores_stay_finite():
    f = Factors(np.full((1, 1), 30.0), np.array([[[1.0]], [[-1.0]]]), np.zeros(2), Names(1), Names(2), exclusive=True)
    np.testing.assert_allclose(f.score(0, [0, 1], 0), [900, -1800])


def test_names_may_be_plain_lists(tmp_path):
    model = Factors(np.eye(2), np.ones((1, 2, 2)), np.zeros(1), ["Ann", "Bob"], ["likes"])
    model.save(tmp_path / "m.relatent")
    assert list(load(tmp_path / "m.relatent").entities) == ["Ann", "Bob"]
