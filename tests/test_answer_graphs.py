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
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_has_its_size_and_depends_on_its_seed_alone(kind: str) -> None:
    facts, again, other = (KINDS[kind](seed) for seed in (0, 0, 1))
    assert sorted(facts.named()) == sorted(again.named()) != sorted(other.named())
    assert np.allclose((facts.n_entities, facts.n_relations, len(facts)), SIZES[kind], rtol=0.08)
    assert (facts.subjects != facts.objects).all()


def test_functional_and_symmetric_relations_are_so() -> None:
    company, medicine, films = (KINDS[kind](2) for kind in ("company", "medicine", "films"))
    for facts, name in ((company, "works_in"), (company, "reports_to"), (films, "born_in"), (films, "spouse")):
        assert facts.matrix(facts.relations.id(name)).sum(axis=1).max() == 1
    for facts, name in ((medicine, "interacts"), (films, "spouse")):
        assert facts.symmetric[facts.relations.id(name)]


def test_a_family_follows_its_rules_without_exceptions() -> None:
    facts = KINDS["family"](3)
    X: dict[str, np.ndarray] = {name: _dense(facts, name) for name in facts.relations}
    parent = X["has_parent"]
    assert np.array_equal(X["has_child"], parent.T)
    assert np.array_equal(X["has_grandparent"], parent @ parent > 0)
    assert np.array_equal(X["sibling"], (parent @ parent.T > 0) & ~np.eye(len(parent), dtype=bool))
    assert np.array_equal(X["spouse"], X["spouse"].T)


def _dense(facts: Facts, relation: str) -> np.ndarray:
    return facts.matrix(facts.relations.id(relation)).toarray() > 0
