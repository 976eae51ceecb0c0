"""Known facts found by binary search, against plain loops over all cells."""

import dataclasses

import numpy as np

import relatent
import small_graphs
from relatent import Factors
from relatent.analysis.known_facts import KnownFacts
from relatent.data.names import Names
from relatent.model import entity_regression


def world():
    facts = small_graphs.random_facts(n=12, n_relations=3, count=50)
    A, R, b = small_graphs.random_parameters(facts, rank=4)
    names = Names([f"e{i}" for i in range(12)]), Names(["likes", "knows", "owes"], what="relation")
    named = relatent.Facts.from_ids(facts.triples, *names)
    return relatent.Factors(A, R, b, *names), named


def test_known_answers_are_those_of_a_plain_loop():
    factors, facts = world()
    known, triples = KnownFacts(facts, factors), set(map(tuple, facts.triples.tolist()))
    for a in range(12):
        for k in range(3):
            assert known.objects(a, k).tolist() == [o for o in range(12) if (a, k, o) in triples]
            assert known.subjects(k, a).tolist() == [s for s in range(12) if (s, k, a) in triples]
            assert known.degrees[a] == sum((s == a) + (o == a) for s, _, o in triples)
        for b in range(12):
            assert known.relations(a, b).tolist() == [k for k in range(3) if (a, k, b) in triples]


def test_the_kind_of_a_cell_says_which_of_its_ends_have_other_facts_of_the_relation():
    rng = np.random.default_rng(0)
    facts = relatent.Facts.from_arrays(*rng.integers(0, (12, 2, 12), (20, 3)).T, n_entities=12, n_relations=2)
    model = relatent.Factors(np.zeros((12, 1)), np.zeros((2, 1, 1)), np.zeros(2), facts.entities, facts.relations)
    cells = np.indices((12, 2, 12)).reshape(3, -1).T
    rows = {tuple(cell) for cell in facts.triples.tolist()}
    wanted = [
        2 * any((s, k, j) in rows for j in range(12) if j != o) + any((i, k, o) in rows for i in range(12) if i != s)
        for s, k, o in cells.tolist()
    ]
    assert set(wanted) == {0, 1, 2, 3}
    assert KnownFacts(facts, model).answered(cells).tolist() == wanted


def test_facts_of_several_sources_and_other_vocabularies_count_once():
    factors, facts = world()
    other = relatent.Facts.from_arrays(["e0", "Zoe"], ["likes", "likes"], ["e1", "e0"])
    assert set(map(tuple, KnownFacts([facts, other], factors).facts.triples.tolist())) == {
        *map(tuple, facts.triples.tolist()),
        (0, 0, 1),
    }


def test_several_sources_keep_their_weights_and_unobserved_cells():
    factors, _ = world()
    first = relatent.Facts.from_arrays(
        ["e0", "e1"], ["likes", "likes"], ["e1", "e2"], weights=[0.5, 0.25], unobserved=[("e3", "knows", "e4")]
    )
    second = relatent.Facts.from_arrays(
        ["e1", "e3"], ["likes", "knows"], ["e2", "e4"], unobserved=[("e5", "owes", "e6")]
    )
    known = KnownFacts([first, second], factors)
    assert dict(zip(map(tuple, known.facts.triples.tolist()), known.facts.weights.tolist(), strict=True)) == {
        (0, 0, 1): 0.5,
        (1, 0, 2): 1.0,  # the largest weight
        (3, 1, 4): 1.0,  # unobserved in one source, a fact in the other
    }
    assert known.facts.unobserved.tolist() == [[5, 2, 6]]
    assert known.listed(5).w.tolist() == [0.0]


def test_the_listed_cells_of_an_entity_are_those_of_a_pass_over_all_facts():
    facts = small_graphs.random_facts(n=12, n_relations=3, count=90, unobserved=40, weighted=True)
    f = Factors(np.ones((12, 1)), np.ones((3, 1, 1)), np.zeros(3), facts.entities, facts.relations)
    for given in (facts, dataclasses.replace(facts, weights=None)):
        known = KnownFacts(given, f)
        for i, plain in enumerate(entity_regression.cells_of_entities(given, np.arange(12))):
            for found, wanted in zip(known.listed(i), plain, strict=True):
                np.testing.assert_array_equal(found, wanted)
        for k in range(3):
            rows = given.triples[:, 1] == k
            for found, wanted in zip(known.ends(k), (given.subjects[rows], given.objects[rows]), strict=True):
                np.testing.assert_array_equal(found, np.unique(wanted))
