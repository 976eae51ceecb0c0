import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from relatent import Factors, Facts, RescalALS, RescalLogit, groups
from relatent.analysis import groups as groups_module
from relatent.analysis import types_by_role as roles
from relatent.analysis.groups import METHODS
from relatent.analysis.types_by_role import types_by_role
from relatent.errors import InputError
from sparse_graphs import sparse_graph


@pytest.mark.parametrize("method", [method for method in METHODS if method != "roles"])
def test_camps_are_found_with_their_typical_facts(two_camps, method):
    found = groups(two_camps[1], method)
    assert sorted(sorted(group.names) for group in found) == [
        sorted(f"p{i}" for i in range(camp, 20, 2)) for camp in (0, 1)
    ]
    for group in found:
        for typical in group.typical:
            assert typical.relation == "likes"
            assert typical.neighbour in group.names
            assert typical.probability > typical.elsewhere + 0.2


def test_the_requested_number_of_groups_comes_largest_first(two_camps):
    found = groups(two_camps[1], "hierarchical", 5)
    assert [group.number for group in found] == [0, 1, 2, 3, 4]
    sizes = [len(group.names) for group in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == 20


@pytest.fixture(scope="module")
def typed():
    """A sparse graph of four types: people know people, live in towns and read books; books have genres."""
    rng = np.random.default_rng(0)
    rows = [(f"person_{i}", "lives_in", f"town_{i % 10}") for i in range(80)]
    rows += [(f"person_{i}", "knows", f"person_{j}") for i, j in rng.integers(80, size=(120, 2)) if i != j]
    rows += [(f"person_{i}", "reads", f"book_{rng.integers(40)}") for i in range(80) for _ in range(2)]
    rows += [(f"book_{i}", "has_genre", f"genre_{i % 6}") for i in range(40)]
    return Facts.from_arrays(*zip(*dict.fromkeys(rows), strict=True))


def test_the_types_of_a_sparse_graph_are_found_without_options(typed):
    found = groups(RescalLogit(8, 0.1, 0.1, tol=1e-3, calibrate=False).fit(typed).factors_)
    assert [(len(group.names), {name.split("_")[0] for name in group.names}) for group in found] == [
        (80, {"person"}),
        (40, {"book"}),
        (10, {"town"}),
        (6, {"genre"}),
    ]


def test_types_are_found_by_least_squares(typed):
    f = RescalALS(8, 0.1, 0.1, calibrate=False).fit(typed).factors_
    truth = [name.split("_")[0] for name in f.entities]
    assert adjusted_rand_score(truth, types_by_role(f)) > 0.95


def test_entities_that_play_the_same_roles_are_one_type(two_camps):
    assert [len(group.names) for group in groups(two_camps[1], "roles")] == [20]


def test_types_are_found_on_samples_of_entities_and_partners(typed, monkeypatch):
    f = RescalLogit(8, 0.1, 0.1, tol=1e-3, calibrate=False).fit(typed).factors_
    whole = types_by_role(f)
    monkeypatch.setattr(roles, "MAX_ENTITIES_CLUSTERED", 100)
    monkeypatch.setattr(roles, "MAX_PARTNERS", 60)
    monkeypatch.setattr(roles, "CELLS_PER_BLOCK", 1000)
    assert adjusted_rand_score(whole, types_by_role(f, 1)) > 0.9


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "magic"}, "method must be one of auto, roles, k-means, hierarchical, hdbscan, got 'magic'"),
        ({"n_groups": 0}, "n_groups must be between 1 and 20, the number of entities, got 0"),
        ({"method": "hdbscan", "n_groups": 3}, "method='hdbscan' finds the number of groups itself"),
        ({"method": "roles", "n_groups": 3}, "method='roles' finds the number of groups itself"),
    ],
)
def test_impossible_options_are_refused_with_a_remedy(two_camps, options, text):
    with pytest.raises(InputError, match=text):
        groups(two_camps[1], **options)


def test_hierarchical_clustering_refuses_too_many_entities(two_camps, monkeypatch):
    monkeypatch.setattr(groups_module, "MAX_ENTITIES_HIERARCHICAL", 10)
    with pytest.raises(InputError, match="takes at most 10 entities, got 20; use method='k-means'"):
        groups(two_camps[1], "hierarchical")


def test_k_limits_the_typical_facts(two_camps):
    found = groups(two_camps[1], n_groups=2, k=1)
    assert [len(group.typical) for group in found] == [1, 1]


def test_a_group_is_plain_data(two_camps):
    found = groups(two_camps[1], n_groups=2, k=1)[0]
    assert found.to_dict() == {"number": 0, "names": found.names, "typical": [found.typical[0]._asdict()], "roles": []}


def test_groups_say_which_roles_their_members_play_where_no_single_fact_is_typical():
    facts = sparse_graph("films", 0)
    model = RescalLogit(rank=16, max_iter=30, calibrate=False).fit(facts).factors_
    found = groups(model)
    of_films = next(group for group in found if group.names[0].startswith("film_"))
    assert of_films.roles[0][:2] == ("acted_in", "object")
    for group in found:
        assert group.roles
        assert 0.1 <= group.roles[-1].share <= group.roles[0].share <= 1
        assert str(group.roles[0]) == f"{group.roles[0].role} of {group.roles[0].relation}"


@pytest.mark.parametrize("method", ["auto", "hdbscan", "k-means", "hierarchical", "roles"])
def test_a_model_of_one_entity_has_one_group(method):
    factors = Factors(np.ones((1, 2)), np.ones((1, 2, 2)), np.zeros(1), ["a"], ["r"])
    assert [group.names for group in groups(factors, method)] == [["a"]]


def test_equal_entities_are_grouped_without_a_warning():
    factors = Factors(np.ones((12, 2)), np.ones((1, 2, 2)), np.zeros(1), list("abcdefghijkl"), ["r"])
    assert sum(len(group.names) for group in groups(factors, "k-means", 3)) == 12
