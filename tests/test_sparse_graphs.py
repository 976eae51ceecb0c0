import numpy as np
import pytest

from relatent import Facts
from sparse_graphs import KINDS, sparse_graph


def _names(facts: Facts) -> set[tuple[str, str, str]]:
    return {(facts.entities[s], facts.relations[k], facts.entities[o]) for s, k, o in facts.triples.tolist()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_is_sparse_and_depends_on_its_seed_alone(kind: str) -> None:
    facts, again, other = (sparse_graph(kind, seed) for seed in (0, 0, 1))
    assert np.array_equal(facts.triples, again.triples)
    assert _names(facts) == _names(again) != _names(other)
    assert 1_500 < facts.n_entities < 2_500
    assert 7 <= facts.n_relations <= 8
    assert 2 < len(facts) / facts.n_entities < 6


def test_a_citizenship_mostly_follows_from_the_birthplace() -> None:
    rows = KINDS["films"](3)
    country = {city: place for city, relation, place in rows if relation == "located_in"}
    birthplace = {person: city for person, relation, city in rows if relation == "born_in"}
    follows = [country[birthplace[p]] == place for p, relation, place in rows if relation == "citizen_of"]
    assert 0.85 < np.mean(follows) < 0.97
