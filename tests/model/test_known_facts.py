"""Known facts found by binary search, against plain loops over all cells."""

import dataclasses

import numpy as np
import pytest

import relatent
import small_graphs
from relatent import Factors, Facts
from relatent.data.names import Names
from relatent.errors import InputError
from relatent.model import entity_regression
from relatent.model.known_facts import KnownFacts

NAMES = Names([f"e{i}" for i in range(12)]), Names(["likes", "knows", "owes"], what="relation")


def random_facts():
    return Facts.from_ids(small_graphs.random_facts(n=12, n_relations=3, count=50).triples, *NAMES)


def model(facts=None):
    return Factors(np.ones((12, 4)), np.ones((3, 4, 4)), np.zeros(3), *NAMES, facts=facts)


def test_known_answers_are_those_of_a_plain_loop():
    facts = random_facts()
    known, triples = KnownFacts(facts), set(map(tuple, facts.triples.tolist()))
    for a in range(12):
        for k in range(3):
            objects, subjects = ([i for i in range(12) if cell(i) in triples] for cell in (
                lambda i, a=a, k=k: (a, k, i), lambda i, a=a, k=k: (i, k, a)
            ))  # fmt: skip
            assert known.objects(a, k).tolist() == known.answers(a, k, None).tolist() == objects
            assert known.subjects(k, a).tolist() == known.answers(None, k, a).tolist() == subjects
            assert known.n_answers(k, of_objects=False)[a] == len(objects)
            assert known.n_answers(k, of_objects=True)[a] == len(subjects)
            assert known.degrees[a] == sum((s == a) + (o == a) for s, _, o in triples)
        for b in range(12):
            relations = [k for k in range(3) if (a, k, b) in triples]
            assert known.relations(a, b).tolist() == known.answers(a, None, b).tolist() == relations
    assert known.n_self_facts.tolist() == [sum((i, k, i) in triples for i in range(12)) for k in range(3)]


@pytest.mark.parametrize("of_objects", [False, True])
def test_partners_of_many_entities_are_those_of_each(of_objects):
    facts = random_facts()
    known, entities = KnownFacts(facts), np.array([7, 0, 7, 3, 11])
    for k in range(3):
        places, found = known.partners(k, entities, of_objects=of_objects)
        for place, entity in enumerate(entities.tolist()):
            own = known.subjects(k, entity) if of_objects else known.objects(entity, k)
            assert found[places == place].tolist() == own.tolist()
    for entity in range(12):
        wanted = [(known.subjects(k, entity) if of_objects else known.objects(entity, k)).tolist() for k in (1, 2)]
        assert [
            ids.tolist() for ids in known.partners_by_relation(entity, range(1, 3), of_objects=of_objects)
        ] == wanted


def test_the_kind_of_a_cell_says_which_of_its_ends_have_other_facts_of_the_relation():
    rng = np.random.default_rng(0)
    facts = Facts.from_arrays(*rng.integers(0, (12, 2, 12), (20, 3)).T, n_entities=12, n_relations=2)
    cells = np.indices((12, 2, 12)).reshape(3, -1).T
    rows = {tuple(cell) for cell in facts.triples.tolist()}
    wanted = [
        [any((s, k, j) in rows for j in range(12) if j != o), any((i, k, o) in rows for i in range(12) if i != s)]
        for s, k, o in cells.tolist()
    ]
    assert set(map(tuple, wanted)) == {(False, False), (False, True), (True, False), (True, True)}
    assert KnownFacts(facts).answered(cells).tolist() == wanted


def test_nothing_is_known_without_facts():
    known = model().candidates.known
    assert len(known) == 0
    assert known.objects(0, 0).tolist() == known.subjects(0, 0).tolist() == known.relations(0, 1).tolist() == []
    assert not known.answered(np.array([[0, 0, 1]])).any()


# --- facts of several sources


def test_facts_of_several_sources_and_other_vocabularies_count_once():
    facts = random_facts()
    other = Facts.from_arrays(["e0", "Zoe"], ["likes", "likes"], ["e1", "e0"])
    wanted = {*map(tuple, facts.triples.tolist()), (0, 0, 1)}
    for factors, known in ((model(facts), other), (model(facts), [other, facts]), (model(), [facts, other])):
        joined = factors.facts_with(known)
        assert len(joined) == len(wanted)
        assert set(map(tuple, joined.triples.tolist())) == wanted
        assert factors.asked(known).known.facts.triples.tolist() == joined.triples.tolist()
    assert model(facts).asked().known.facts.triples.tolist() == facts.triples.tolist()


def test_several_sources_keep_their_weights_and_unobserved_cells():
    first = Facts.from_arrays(
        ["e0", "e1"], ["likes", "likes"], ["e1", "e2"], weights=[0.5, 0.25], unobserved=[("e3", "knows", "e4")]
    )
    second = Facts.from_arrays(["e1", "e3"], ["likes", "knows"], ["e2", "e4"], unobserved=[("e5", "owes", "e6")])
    for known in (model().asked([first, second]).known, model(first).asked(second).known):
        assert dict(zip(map(tuple, known.facts.triples.tolist()), known.facts.weights.tolist(), strict=True)) == {
            (0, 0, 1): 0.5,
            (1, 0, 2): 1.0,  # the largest weight
            (3, 1, 4): 1.0,  # unobserved in one source, a fact in the other
        }
        assert known.facts.unobserved.tolist() == [[5, 2, 6]]
        assert known.listed(5).w.tolist() == [0.0]


def test_facts_of_another_graph_and_no_facts_at_all_are_refused():
    with pytest.raises(InputError, match="the model knows no relation of the known facts"):
        model(random_facts()).asked(relatent.read([("x", "y", "z")]))
    with pytest.raises(InputError, match="does not hold the facts that it was fitted to: give them, as known="):
        model().facts_with()


# --- the listed cells of an entity


def test_the_listed_cells_of_an_entity_are_those_of_a_pass_over_all_facts():
    facts = small_graphs.random_facts(n=12, n_relations=3, count=90, unobserved=40, weighted=True)
    for given in (facts, dataclasses.replace(facts, weights=None)):
        known = KnownFacts(given)
        for i, plain in enumerate(entity_regression.cells_of_entities(given, np.arange(12))):
            for found, wanted in zip(known.listed(i), plain, strict=True):
                np.testing.assert_array_equal(found, wanted)
        for k in range(3):
            rows = given.triples[:, 1] == k
            for found, wanted in zip(known.ends(k), (given.subjects[rows], given.objects[rows]), strict=True):
                np.testing.assert_array_equal(found, np.unique(wanted))
