"""Rules of one and two steps: planted ones are found, and counts are those of a plain count."""

import collections
import itertools

import numpy as np
import pytest

import relatent
from relatent.analysis.rules import rule_paths
from relatent.errors import InputError
from relatent.model import step_graph
from relatent.model.step_graph import StepGraph
from sparse_graphs import sparse_graph


@pytest.fixture(scope="module")
def films():
    return sparse_graph("films", 3)


def test_planted_rules_are_found(films):
    found = {(rule.body, rule.head): rule for rule in relatent.rules(films)}
    planted = found["born_in(x,z) ∧ located_in(z,y)", "citizen_of(x,y)"]
    assert planted.confidence == pytest.approx(0.9, abs=0.03)
    assert planted.support > 1000
    assert found["married_to(y,x)", "married_to(x,y)"].confidence == 1
    assert all(rule.support >= 5 for rule in found.values())
    one = relatent.rules(films, relations=["citizen_of"], k=1)
    assert [(rule.body, rule.head) for rule in one] == [(planted.body, planted.head)]


def small_world():
    rng = np.random.default_rng(0)
    return relatent.Facts.from_arrays(*(rng.integers(size, size=150) for size in (12, 3, 12)))


def test_support_and_confidence_are_those_of_a_plain_count():
    facts = small_world()
    graph, rng = StepGraph(facts), np.random.default_rng(0)
    holds = {(k, s, o) for s, k, o in facts.triples.tolist() if s != o}

    def step(code, x, y):
        return (code // 2, *((x, y) if code % 2 == 0 else (y, x))) in holds

    def has_body(body, x, y):
        if len(body) == 1:
            return step(body[0], x, y)
        return any(step(body[0], x, z) and step(body[1], z, y) for z in range(12))

    pairs = list(itertools.permutations(range(12), 2))
    for head, body in itertools.product(range(3), [(0,), (3,), (0, 2), (1, 4), (5, 3)]):
        if body == (2 * head,):
            continue
        subjects = {x for k, x, _ in holds if k == head}
        with_body = [(x, y) for x, y in pairs if x in subjects and has_body(body, x, y)]
        support = sum((head, x, y) in holds for x, y in with_body)
        assert graph.count(body, head, rng) == (support, len(with_body))


def test_many_subjects_are_sampled(films, monkeypatch):
    exact = relatent.rules(films, relations=["citizen_of"], k=1)[0]
    monkeypatch.setattr(step_graph, "MAX_SUBJECTS", 300)
    sampled = relatent.rules(films, relations=["citizen_of"], k=1)[0]
    assert sampled.body == exact.body
    assert sampled.confidence == pytest.approx(exact.confidence, abs=0.06)
    assert sampled == relatent.rules(films, relations=["citizen_of"], k=1)[0]  # same seed, same result


def test_paths_of_a_fact_name_the_entities_on_the_way_and_do_not_count_the_fact(films):
    graph = StepGraph(films)
    head = films.relations.id("citizen_of")
    born, located = films.matrix(films.relations.id("born_in")), films.matrix(films.relations.id("located_in"))
    x, y = np.argwhere((born @ located).multiply(films.matrix(head)).toarray())[0].tolist()
    path = rule_paths(graph, x, head, y, 1)[0]
    rule = relatent.rules(films, relations=["citizen_of"], k=1)[0]
    assert (path.body, path.support) == (rule.body, rule.support - 1)
    assert path.via == [films.entities[born[x].indices[0]]]


def test_explain_has_the_rules_that_predict_the_fact():
    facts = relatent.load_dataset("presidents")
    model = relatent.RescalALS(rank=10, l2_entities=0.1, l2_relations=0.1, calibrate=False).fit(facts).factors_
    found = relatent.explain(model, "Al Gore", "party", "Democratic")
    path = next(path for path in found.paths if path.body == "vicePresident(z,x) ∧ party(z,y)")
    assert path.via == ["Bill Clinton"]
    assert 0.5 < path.confidence <= 1
    assert found.to_dict()["paths"][0]["head"] == "party(x,y)"


def test_wrong_arguments_are_refused(films):
    with pytest.raises(InputError, match="k and min_support must be at least 1, got 0 and 5"):
        relatent.rules(films, k=0)


@pytest.mark.parametrize("undirected", [False, True])
def test_bodies_are_counted_as_they_are_listed(undirected, monkeypatch):
    monkeypatch.setattr(step_graph, "MAX_BODIES", 7)
    s, k, o = np.nonzero(np.random.default_rng(0).random((9, 3, 9)) < 0.15)
    facts = relatent.Facts.from_arrays(s, k, o).with_undirected([1] if undirected else [])
    graph = StepGraph(facts)
    for head in range(3):
        cells = [cell for cell in facts.triples.tolist() if cell[1] == head and cell[0] != cell[2]]
        counts = collections.Counter(body for s, _, o in cells for body in graph.bodies(s, head, o))
        wanted = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:7]
        assert graph.candidates(head, np.random.default_rng(0)) == [body for body, _ in wanted]
