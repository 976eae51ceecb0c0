import numpy as np
import pytest

from planted_graphs import heldout_cells, planted, uniform
from relatent.data.facts import Facts
from relatent.errors import InputError
from relatent.evaluation.metrics import measure
from relatent.model.factors import Factors
from relatent.model.links import LogisticLink


@pytest.fixture(scope="module")
def graph():
    return planted(20_000, 6, 300_000)


def all_facts(graph):
    return np.sort(np.concatenate([graph.train.keys, graph.test.keys]))


def degrees(graph):
    return np.bincount(graph.train.triples[:, [0, 2]].ravel(), minlength=graph.train.n_entities)


def cells_that_fit(graph):
    """All cells of fitting types, (m, 3)."""
    kinds = graph.types.entities
    cells = []
    for k, (subjects, objects) in enumerate(graph.types.relations):
        s, o = np.meshgrid(np.flatnonzero(kinds == subjects), np.flatnonzero(kinds == objects), indexing="ij")
        cells.append(np.stack([s.ravel(), np.full(s.size, k), o.ravel()], axis=1))
    return np.concatenate(cells)


def auc_pr(graph, factors, **options):
    heldout = heldout_cells(graph, **options)
    return measure(heldout.truth, factors.score(*heldout.cells.T), factors.probability(*heldout.cells.T)).auc_pr


# --- the graph


@pytest.mark.parametrize(("n", "n_relations", "n_facts"), [(5000, 3, 60_000), (50, 3, 100), (300, 7, 12_345)])
def test_there_are_exactly_as_many_facts_as_asked_for(n, n_relations, n_facts):
    graph = planted(n, n_relations, n_facts)
    assert len(graph.train) + len(graph.test) == n_facts == len(np.unique(all_facts(graph)))
    counts = graph.train.counts() + graph.test.counts()
    assert counts.max() - counts.min() <= 1


def test_facts_are_in_the_order_that_facts_have_to_be_in(graph):
    for facts in (graph.train, graph.test):
        again = Facts.from_ids(facts.triples, facts.entities, facts.relations)
        np.testing.assert_array_equal(facts.triples, again.triples)
        assert facts.triples.dtype == again.triples.dtype
        assert facts.triples.flags.f_contiguous


def test_training_and_test_facts_are_disjoint_over_one_vocabulary(graph):
    assert graph.train.entities is graph.test.entities is graph.factors.entities
    assert graph.train.relations is graph.test.relations is graph.factors.relations
    assert len(graph.test) == 15_000
    assert not graph.train.contains(graph.test.triples).any()


def test_test_facts_are_like_training_facts(graph):
    train, test = (graph.factors.score(*facts.triples.T) for facts in (graph.train, graph.test))
    assert abs(train.mean() - test.mean()) < 5 * train.std() / len(test) ** 0.5


def test_without_a_test_share_nothing_is_held_out():
    graph = planted(100, 2, 500, test_share=0)
    assert (len(graph.train), len(graph.test)) == (500, 0)
    with pytest.raises(InputError, match=r"^the graph has no test facts; plant it with a test_share above 0$"):
        heldout_cells(graph)


def test_the_same_seed_gives_the_same_graph_and_another_seed_another():
    first, again, other = (planted(500, 3, 5000, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.train.triples, again.train.triples)
    np.testing.assert_array_equal(first.test.triples, again.test.triples)
    np.testing.assert_array_equal(first.factors.A, again.factors.A)
    assert not np.array_equal(first.train.triples, other.train.triples)


def test_sizes_may_be_numpy_integers():
    graph = planted(np.int16(500), np.int16(3), np.int16(5000))
    np.testing.assert_array_equal(graph.train.triples, planted(500, 3, 5000).train.triples)


def test_the_number_of_threads_does_not_change_the_graph():
    one, four = (planted(500, 5, 5000, n_threads=n) for n in (1, 4))
    np.testing.assert_array_equal(one.train.triples, four.train.triples)
    np.testing.assert_array_equal(one.test.triples, four.test.triples)
    np.testing.assert_array_equal(one.factors.bias, four.factors.bias)


def test_types_are_respected(graph):
    assert graph.types.fit(graph.train.triples).all()
    assert graph.types.fit(graph.test.triples).all()
    np.testing.assert_allclose(np.bincount(graph.types.entities), 20_000 / 3, atol=1)
    assert set(graph.types.relations[:, 0]) == set(graph.types.relations[:, 1]) == {0, 1, 2}
    assert len(np.unique(graph.types.relations, axis=0)) == 6


def test_types_say_which_cells_fit(graph):
    k = 0
    subject, object_ = (np.flatnonzero(graph.types.entities == t)[0] for t in graph.types.relations[k])
    np.testing.assert_array_equal(graph.types.fit(np.array([(subject, k, object_), (object_, k, subject)])), [1, 0])


def test_degrees_have_the_tail_asked_for(graph):
    largest = np.sort(degrees(graph))[-500:].astype(float)
    tail = 1 + 1 / np.log(largest / largest[0]).mean()  # Hill's estimator
    assert 2.3 < tail < 3.2
    assert largest[-1] > 20 * degrees(graph).mean()


def test_without_a_tail_all_entities_are_alike():
    graph = planted(5000, 3, 60_000, exponent=np.inf)
    assert degrees(graph).max() < 6 * degrees(graph).mean()


def test_entities_of_a_type_fall_into_the_groups_asked_for():
    graph = planted(300, 3, 3000, n_groups=4)
    for kind in range(3):
        points = graph.factors.A[graph.types.entities == kind][:, 4:]
        alike = points @ points.T / np.sum(points[0] ** 2) > 0.97
        np.testing.assert_array_equal(alike.sum(axis=1), 25)  # of 100 each group has its quarter
        np.testing.assert_array_equal(alike @ alike, alike)


def test_neighbouring_ids_have_nothing_in_common(graph):
    kinds, log_d = graph.types.entities, graph.factors.A[:, 3]
    assert abs((kinds[1:] == kinds[:-1]).mean() - 1 / 3) < 0.03
    assert abs(np.corrcoef(log_d[1:], log_d[:-1])[0, 1]) < 0.03


# --- the truth


def test_the_truth_has_the_rank_asked_for(graph):
    assert isinstance(graph.factors, Factors)
    assert graph.factors.rank == 16
    assert graph.factors.link == LogisticLink()
    assert graph.factors.A.dtype == graph.factors.R.dtype == np.float32
    assert np.linalg.matrix_rank(graph.factors.A) == 16


@pytest.mark.parametrize(
    ("n_facts", "options"),
    [
        (1_000, {}),
        (15_000, {}),
        (20_000, {}),  # so dense that many cells are next to certain
        (15_000, {"exponent": np.inf, "signal": 1.0}),
        (15_000, {"signal": 0.0, "n_types": 1}),
        (15_000, {"n_groups": 2}),
        (15_000, {"signal": 10.0}),
        (15_000, {"rank": 5, "signal": 5.0, "exponent": 2.2}),
    ],
)
def test_cells_are_true_as_often_as_their_probability_says(n_facts, options):
    graph = planted(300, 4, n_facts, test_share=0.3, **options)
    cells = cells_that_fit(graph)
    theta, p = graph.factors.score(*cells.T), graph.factors.probability(*cells.T).astype(np.float64)
    truth = graph.train.contains(cells) | graph.test.contains(cells)
    rows = np.array_split(np.argsort(theta), 30)
    for some in [*rows, rows[-1][-200:], rows[-1][-30:]]:  # and the hubs
        drawn, expected, variance = truth[some].sum(), p[some].sum(), (p[some] * (1 - p[some])).sum()
        assert abs(drawn - expected) < 4 * variance**0.5 + 0.015 * expected + 1


def test_cells_that_do_not_fit_have_next_to_no_probability(graph):
    cells = np.random.default_rng(0).integers(0, (20_000, 6, 20_000), (100_000, 3))
    p = graph.factors.probability(*cells.T)
    assert p[~graph.types.fit(cells)].sum() < 1e-4 * p.sum()


def test_expected_degrees_follow_the_propensities(graph):
    log_d = graph.factors.A[:, 3]
    rate = [
        degrees(graph)[some].sum() / np.exp(log_d[some]).sum()
        for some in (log_d < 0.3, (log_d >= 0.3) & (log_d < 1), (log_d >= 1) & (log_d < 2))
    ]
    np.testing.assert_allclose(rate, np.mean(rate), rtol=0.1)


# --- held-out cells


def test_held_out_cells_are_test_facts_and_zeros_known_nowhere(graph):
    heldout = heldout_cells(graph, zeros_per_fact=5)
    assert heldout.weights is None
    assert (heldout.truth.sum(), len(heldout.truth)) == (15_000, 90_000)
    np.testing.assert_array_equal(heldout.truth, graph.test.contains(heldout.cells))
    assert not graph.train.contains(heldout.cells).any()
    assert len(np.unique(heldout.cells, axis=0)) == len(heldout.cells)


def test_zeros_may_be_kept_to_fitting_types(graph):
    heldout = heldout_cells(graph, 5, fitting=True)
    assert (heldout.truth.sum(), len(heldout.truth)) == (15_000, 90_000)
    assert graph.types.fit(heldout.cells).all()
    np.testing.assert_array_equal(heldout.truth, graph.test.contains(heldout.cells))
    assert not graph.train.contains(heldout.cells).any()
    zeros = heldout.cells[~heldout.truth]
    assert len(np.unique(zeros, axis=0)) == len(zeros)
    np.testing.assert_allclose(np.bincount(zeros[:, 1]), 75_000 / 6, rtol=0.05)


def test_a_few_of_many_test_facts_may_do(graph):
    heldout = heldout_cells(graph, 2, n_facts=100)
    assert (heldout.truth.sum(), len(heldout.truth)) == (100, 300)
    assert len(set(heldout.cells[heldout.truth, 1])) == 6


@pytest.mark.parametrize("fitting", [False, True])
def test_held_out_cells_depend_on_the_seed_only(graph, fitting):
    first, again, other = (heldout_cells(graph, 2, seed, n_facts=50, fitting=fitting) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.cells, again.cells)
    assert not np.array_equal(first.cells, other.cells)


def test_the_truth_predicts_held_out_facts_and_factors_at_random_do_not(graph):
    rng = np.random.default_rng(0)
    A, R, bias = (rng.normal(size=x.shape) for x in (graph.factors.A, graph.factors.R, graph.factors.bias))
    at_random = Factors(A, R, bias, graph.factors.entities, graph.factors.relations)
    assert 0.6 < auc_pr(graph, graph.factors, n_facts=1000) < 0.9
    assert 0.4 < auc_pr(graph, graph.factors, n_facts=1000, fitting=True) < 0.7
    assert auc_pr(graph, at_random, n_facts=1000) < 0.1


def test_types_and_degrees_alone_predict_much_less(graph):
    R = graph.factors.R.copy()
    R[:, 4:, 4:] = 0
    degrees_only = Factors(graph.factors.A, R, graph.factors.bias, graph.factors.entities, graph.factors.relations)
    assert auc_pr(graph, degrees_only, n_facts=1000) < auc_pr(graph, graph.factors, n_facts=2000) - 0.2


# --- uniform facts


def test_uniform_facts_are_distinct_and_as_many_as_asked_for():
    facts = uniform(1000, 4, 100_000)
    assert repr(facts) == "Facts(100000 facts, 1000 entities, 4 relations)"
    assert (np.diff(facts.keys) > 0).all()
    np.testing.assert_array_equal(facts.triples, Facts.from_ids(facts.triples, facts.entities, facts.relations).triples)


@pytest.mark.parametrize("n_facts", [10, 40, 75])
def test_every_cell_is_drawn_equally_often(n_facts):
    drawn = np.zeros(4 * 4 * 5)
    for seed in range(2000):
        drawn[uniform(4, 5, n_facts, random_state=seed).keys] += 1
    expected = 2000 * n_facts / 80
    assert np.abs(drawn - expected).max() < 4.5 * (expected * (1 - n_facts / 80)) ** 0.5


def test_all_cells_can_be_facts():
    np.testing.assert_array_equal(uniform(3, 2, 18).keys, np.arange(18))


def test_uniform_facts_depend_on_the_seed_only():
    first, again, other = (uniform(100, 2, 500, random_state=seed).keys for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# --- what cannot be had


def test_more_facts_than_there_is_room_for_are_refused():
    limit = "n_facts must be at most 5000, half of the cells whose types fit, got 5001; ask for more entities or fewer"
    with pytest.raises(InputError, match=f"^{limit} types$"):
        planted(100, 4, 5001, n_types=2)
    assert len(planted(100, 4, 5000, n_types=2, test_share=0).train) == 5000
    with pytest.raises(
        InputError, match=r"^n_facts must be at most 18, the cells of 3 entities and 2 relations, got 19$"
    ):
        uniform(3, 2, 19)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((0, 1, 1), "n_entities must be a whole number of at least 1, got 0"),
        ((10, 0, 1), "n_relations must be a whole number of at least 1, got 0"),
        ((10, 1, 0), "n_facts must be a whole number of at least 1, got 0"),
        ((1e3, 1, 10), "n_entities must be a whole number of at least 1, got 1000.0"),
        ((10, 3, 2), "n_facts must be at least 3, one for each relation, got 2"),
        (
            (2**31, 1, 10),
            "2147483648 entities and 1 relations are more than 32-bit ids or 64-bit cell numbers can hold",
        ),
    ],
)
@pytest.mark.parametrize("draw", [planted, uniform])
def test_sizes_that_make_no_graph_are_refused(draw, size, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        draw(*size)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_types": 0}, "n_types must be between 1 and 5, the entities or relations there are, got 0"),
        ({"n_types": 6}, "n_types must be between 1 and 5, the entities or relations there are, got 6"),
        ({"n_types": 4, "rank": 5}, "rank must be at least 6, two more than the types, got 5"),
        ({"rank": 2}, "rank must be at least 3, two more than the types, got 2"),
        ({"exponent": 2.0}, "exponent must be above 2, or degrees have no mean, got 2.0"),
        ({"exponent": np.nan}, "exponent must be above 2, or degrees have no mean, got nan"),
        ({"n_groups": 0}, "n_groups must be between 1 and 1024, got 0"),
        ({"signal": -1.0}, "signal must be between 0 and 10, got -1.0"),
        ({"signal": np.inf}, "signal must be between 0 and 10, got inf"),
        ({"test_share": 1.0}, "test_share must be at least 0 and below 1, got 1.0"),
        ({"test_share": -0.1}, "test_share must be at least 0 and below 1, got -0.1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        planted(1000, 5, 5000, **options)


@pytest.mark.parametrize("what", ["zeros_per_fact", "n_facts"])
def test_held_out_cells_without_zeros_or_facts_are_refused(graph, what):
    with pytest.raises(InputError, match=f"^{what} must be at least 1, got 0$"):
        heldout_cells(graph, **{what: 0})
