"""Each fact in both directions, in one process and on several workers' shards."""

import numpy as np

from relatent.data.inverse_facts import with_inverses
from relatent.data.shard import Shard
from small_graphs import random_facts


def test_inverse_facts_have_relations_of_their_own_and_keep_weights_and_unobserved_cells() -> None:
    facts = random_facts(12, 3, 40, unobserved=10, weighted=True)
    doubled = with_inverses(facts)
    assert doubled.n_relations == 6
    assert doubled.n_facts == 2 * len(facts)
    assert doubled.facts_by_object is doubled.facts
    assert doubled.facts_per_relation.tolist() == doubled.facts.counts().tolist()
    turned = facts.triples[:, ::-1] + [0, 3, 0]
    for cells, weights in ((facts.triples, facts.weights), (turned, facts.weights)):
        place = [doubled.facts.triples.tolist().index(cell) for cell in cells.tolist()]
        assert np.array_equal(doubled.facts.weights[place], weights)  # type: ignore[index]
    assert doubled.n_unobserved == len(doubled.facts.unobserved) == 20


def test_a_worker_has_the_inverse_facts_of_the_entities_that_it_owns() -> None:
    facts = random_facts(12, 3, 40)
    s, _, o = facts.triples.T
    whole = Shard.of(facts)
    part = Shard(facts.subset(s < 6), facts.subset(o < 6), slice(0, 6), whole.workers, whole.facts_per_relation, 0, 1.0)
    doubled = with_inverses(part)
    assert (doubled.facts.subjects < 6).all()
    assert (doubled.facts_by_object.objects < 6).all()
    everything = with_inverses(facts).facts
    assert len(doubled.facts) == (everything.subjects < 6).sum()
    assert len(doubled.facts_by_object) == (everything.objects < 6).sum()
