import numpy as np
import pytest

from answer_graphs import KINDS
from relatent import Facts

SIZES = {  # kind: about how many entities, relations and facts
    "company": (2900, 9, 21_500),
    "medicine": (4800, 7, 37_000),
    "family": (660, 5, 4_500),
    "shop": (2100, 3, 29_000),
    "films": (1060, 8, 3_900),
    "survey": (40, 12, 3_264),
    "coauthors": (1500, 1, 6_700),
    "projects": (200, 7, 815),
    "catalogue": (1390, 7, 10_900),
    "trade": (90, 10, 10_448),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_has_its_size_and_depends_on_its_seed_alone(kind: str) -> None:
    facts, again, other = (KINDS[kind](seed) for seed in (0, 0, 1))
    assert sorted(facts.named()) == sorted(again.named()) != sorted(other.named())
    assert np.allclose((facts.n_entities, facts.n_relations, len(facts)), SIZES[kind], rtol=0.08)
    assert (facts.subjects != facts.objects).all()


def test_functional_and_symmetric_relations_are_so() -> None:
    functional = {
        "company": ("works_in", "reports_to"),
        "films": ("born_in", "spouse"),
        "projects": ("reports_to", "sits_in", "meets_in"),
        "catalogue": ("is_a", "in_class", "made_of", "made_by"),
    }
    symmetric = {"medicine": ("interacts",), "films": ("spouse",), "trade": ("treaty_with", "borders")}
    for kind, names in functional.items():
        facts = KINDS[kind](2)
        assert [_dense(facts, name).sum(axis=1).max() for name in names] == [1] * len(names)
    for kind, names in symmetric.items():
        facts = KINDS[kind](2)
        assert facts.symmetric[facts.relations.ids(names)].all()


def test_a_family_follows_its_rules_without_exceptions() -> None:
    facts = KINDS["family"](3)
    X: dict[str, np.ndarray] = {name: _dense(facts, name) for name in facts.relations}
    parent = X["has_parent"]
    assert np.array_equal(X["has_child"], parent.T)
    assert np.array_equal(X["has_grandparent"], parent @ parent > 0)
    assert np.array_equal(X["sibling"], (parent @ parent.T > 0) & ~np.eye(len(parent), dtype=bool))
    assert np.array_equal(X["spouse"], X["spouse"].T)


def test_coauthors_are_listed_once_and_share_coauthors() -> None:
    X = _dense(KINDS["coauthors"](3), "coauthor")
    assert not (X & X.T).any()
    pairs = (X | X.T).astype(np.float32)
    together = pairs @ pairs > 0
    apart = (pairs == 0) & ~np.eye(len(X), dtype=bool)
    assert together[X].mean() > 0.5 > 5 * together[apart].mean()


def test_the_colleagues_of_a_boss_share_rooms() -> None:
    facts = KINDS["projects"](3)
    same_boss, same_room = (_pairs_with_the_same(facts, name) for name in ("reports_to", "sits_in"))
    people = _dense(facts, "sits_in").any(axis=1)
    assert same_room[same_boss].mean() > 3 * same_room[np.ix_(people, people)].mean()


def test_a_class_hands_down_its_features_and_articles_of_a_class_share_makers() -> None:
    facts = KINDS["catalogue"](3)
    above, in_class, own = (facts.matrix(facts.relations.id(name)) for name in ("is_a", "in_class", "typical_feature"))
    features = own
    for _ in range(10):  # a tree of fewer levels
        features = own + above @ features
    expected = (in_class @ features).toarray() > 0
    assert 0.83 < _dense(facts, "has_feature")[expected].mean() < 0.9
    same_class, same_maker = (_pairs_with_the_same(facts, name) for name in ("in_class", "made_by"))
    articles = _dense(facts, "made_by").any(axis=1)
    assert same_maker[same_class].mean() > 2 * same_maker[np.ix_(articles, articles)].mean()


def test_neighbours_trade_more() -> None:
    facts = KINDS["trade"](3)
    border = _dense(facts, "borders")
    for name in facts.relations:
        if name.startswith("exports"):
            assert _dense(facts, name)[border].mean() > 1.5 * _dense(facts, name).mean()


def _pairs_with_the_same(facts: Facts, relation: str) -> np.ndarray:
    """Whether two different subjects share an object."""
    X = _dense(facts, relation)
    counts = X.astype(np.float32)  # whose product is faster
    return (counts @ counts.T > 0) & ~np.eye(len(X), dtype=bool)


def _dense(facts: Facts, relation: str) -> np.ndarray:
    return np.asarray(facts.matrix(facts.relations.id(relation)).toarray() > 0)
