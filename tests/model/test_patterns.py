"""Observed patterns: what the facts give for a pair, and scores of rows and of cells."""

from __future__ import annotations

import numpy as np
import pytest

import relatent
from relatent.data.names import Names
from relatent.errors import InputError, ModelFileError
from relatent.model import patterns as observed
from relatent.model.patterns import ALIKE, PATHS, Kind, Pattern, Patterns, PatternValues

N, K = 9, 3
EVERYONE = np.arange(N)


@pytest.fixture(autouse=True, params=["dense", "sparse"])
def matrices(request, monkeypatch):
    """Both kinds of matrices, which larger graphs choose by their size."""
    if request.param == "sparse":
        monkeypatch.setattr(observed, "DENSE_ENTITIES", 0)


def world(seed: int = 0, share: float = 0.2) -> relatent.Facts:
    """Random facts, some of entities with themselves."""
    s, k, o = np.nonzero(np.random.default_rng(seed).random((N, K, N)) < share)
    return relatent.Facts.from_arrays(s, k, o, n_entities=N, n_relations=K)


def every_pattern(relation: int) -> list[Pattern]:
    """Patterns of every kind and step, without the fact itself as a step."""
    single = [kind for kind in Kind if kind not in (*PATHS, Kind.SAME)]
    found = [Pattern(kind, m) for kind in single for m in range(2 * K) if (kind, m) != (Kind.STEP, 2 * relation)]
    paths = [Pattern(kind, a, b) for kind in PATHS for a in range(2 * K) for b in range(2 * K)]
    return [Pattern(Kind.SAME), *found, *paths]


def random_patterns(facts: relatent.Facts, seed: int = 0, n_pairs: int = 4) -> Patterns:
    """Patterns of every kind with random weights, and products."""
    rng = np.random.default_rng(seed)
    codes = np.array([(k, *pattern) for k in range(K) for pattern in every_pattern(k)], np.int32)
    pairs = np.concatenate([rng.choice(np.flatnonzero(codes[:, 0] == k), (n_pairs, 2)) for k in range(K)])
    weights = rng.normal(size=len(codes)), rng.normal(size=len(pairs))
    return Patterns(facts, codes, weights[0], pairs.astype(np.int32), weights[1], rng.normal(size=K), rng.random(K))


def plain_value(facts: relatent.Facts, pattern: Pattern, relation: int, x: int, y: int) -> float:
    """The definition of a pattern, by loops over entities."""
    X = [facts.matrix(k).toarray() * (1 - np.eye(N)) for k in range(K)]
    steps = [M for k in range(K) for M in (X[k], X[k].T)]
    kind, a, b = pattern
    if kind in (Kind.SAME, Kind.STEP):
        return float(x == y) if kind == Kind.SAME else steps[a][x, y]
    if kind in PATHS:
        between = [z for z in range(N) if steps[a][x, z] and steps[b][z, y] and x != y]
        walk = sum(1 / steps[b][z].sum() for z in between) ** 0.25
        n = len(between)
        return {Kind.ANY_PATH: n > 0, Kind.N_PATHS: n, Kind.LOG_PATHS: np.log1p(n), Kind.WALK: walk}[kind]
    if kind in ALIKE:
        own, other, R = (x, y, X[relation]) if kind == Kind.ALIKE_SUBJECTS else (y, x, X[relation].T)
        shared = np.flatnonzero(steps[a][own])
        share = [np.mean([R[i, other] for i in np.flatnonzero(steps[a][:, z])]) for z in shared]
        return float(np.mean(share) ** 0.25) if len(share) else 0.0
    n = steps[a][x if kind in (Kind.SUBJECT_HAS, Kind.SUBJECT_DEGREE) else y].sum()
    return float(n > 0) if kind in (Kind.SUBJECT_HAS, Kind.OBJECT_HAS) else float(np.log1p(n))


@pytest.mark.parametrize("relation", range(K))
def test_values_are_those_of_the_definition(relation):
    facts = world()
    values, listed = PatternValues(facts), facts.matrix(relation).toarray() > 0
    s, o = np.nonzero(~listed)
    at = values.at(relation, s, o)
    for pattern in every_pattern(relation):
        wanted = [plain_value(facts, pattern, relation, x, y) for x, y in zip(s, o, strict=True)]
        np.testing.assert_allclose(at(pattern), wanted, atol=1e-12, err_msg=str(pattern))


def test_a_fact_is_no_evidence_for_itself():
    facts = world(1)
    patterns = random_patterns(facts)
    for row, (s, k, o) in enumerate(facts.triples.tolist()):
        without = patterns.over(facts.subset(np.arange(len(facts)) != row))
        np.testing.assert_allclose(patterns.cells(s, k, o), without.cells(s, k, o), atol=1e-9)


@pytest.mark.parametrize("of_objects", [False, True])
def test_scores_of_rows_are_those_of_cells(of_objects):
    patterns = random_patterns(world(2))
    for k in range(K):
        found = patterns.rows(EVERYONE[2:6], k, of_objects=of_objects)
        ends = (EVERYONE[None], EVERYONE[2:6, None]) if of_objects else (EVERYONE[2:6, None], EVERYONE[None])
        np.testing.assert_allclose(found, patterns.cells(ends[0], k, ends[1]), atol=1e-9)
        assert patterns.largest(k) >= found.max()


@pytest.mark.parametrize("undirected", [(), (0, 2)])
def test_terms_add_up_to_the_score(undirected):
    patterns = random_patterns(world(3).with_undirected(list(undirected)))
    for s, k, o in ((1, 0, 5), (5, 0, 1), (2, 1, 4), (3, 2, 6), *patterns.facts.triples[::9].tolist()):
        added = sum(term.added for term in patterns.terms(s, k, o))
        assert added + patterns.base(k) == pytest.approx(float(patterns.cells(s, k, o)))
        if k in undirected:
            assert added == pytest.approx(sum(term.added for term in patterns.terms(o, k, s)))


def test_patterns_of_an_undirected_relation_are_named_from_the_subject_asked_for():
    """Both directions of a pair are one cell: a pattern of the other direction is one of this, turned."""
    facts = world(6).with_undirected([0])
    codes = [(0, Kind.STEP, 2, -1), (0, Kind.LOG_PATHS, 2, 4), (0, Kind.SUBJECT_DEGREE, 5, -1)]
    parts = np.array(codes, np.int32), np.ones(3), np.empty((0, 2), np.int32), np.empty(0), np.zeros(K), np.ones(K)
    patterns = Patterns(facts, *parts)
    seen = {(term.pattern, term.value) for s in range(4) for term in patterns.terms(s, 0, 7)}
    assert {pattern for pattern, _ in seen} == {
        Pattern(kind, *steps)
        for kind, *steps in (
            (Kind.STEP, 2), (Kind.STEP, 3), (Kind.LOG_PATHS, 2, 4), (Kind.LOG_PATHS, 5, 3),
            (Kind.SUBJECT_DEGREE, 5), (Kind.OBJECT_DEGREE, 5),
        )
    }  # fmt: skip
    values = patterns.values.at(0, np.arange(4), np.full(4, 7))
    for pattern, value in seen:
        assert value in values(pattern)


def test_facts_of_weight_zero_are_no_evidence():
    facts = world(4)
    some = np.random.default_rng(0).random(len(facts)) < 0.5
    s, k, o = facts.triples.T
    weighted = relatent.Facts.from_arrays(s, k, o, weights=some * 1.0, n_entities=N, n_relations=K)
    a, b = (PatternValues(part).at(0, EVERYONE, EVERYONE[::-1]) for part in (weighted, facts.subset(some)))
    np.testing.assert_array_equal(a(Pattern(Kind.LOG_PATHS, 0, 3)), b(Pattern(Kind.LOG_PATHS, 0, 3)))


def test_a_model_scores_by_factors_and_patterns_alike_everywhere():
    facts, rng = world(5), np.random.default_rng(5)
    patterns = random_patterns(facts)
    A, R, bias = rng.normal(size=(N, 4)), rng.normal(size=(K, 4, 4)), rng.normal(size=K)
    f = relatent.Factors(A, R, bias, list("abcdefghi"), list("klm"), facts=facts.over(*names()), patterns=patterns)
    s, k, o = (ids.ravel() for ids in np.indices((N, K, N)))
    wanted = patterns.scale[k] * (np.einsum("na,nab,nb->n", A[s], R[k], A[o]) + bias[k]) + f.patterns.cells(s, k, o)
    np.testing.assert_allclose(f.score(s, k, o), wanted, atol=1e-9)
    for relation in range(K):
        np.testing.assert_allclose(f.scores_of_all(EVERYONE, relation), f.score(*cells_of(relation)), atol=1e-9)


def names() -> tuple[Names, Names]:
    """The names of the entities and of the relations."""
    return Names(list("abcdefghi")), Names(list("klm"))


def cells_of(relation: int) -> tuple[np.ndarray, int, np.ndarray]:
    """All cells of a relation."""
    return EVERYONE[:, None], relation, EVERYONE[None]


def test_patterns_follow_facts_that_become_known():
    rows = [(f"p{i}", "bought", f"x{i}") for i in range(9)] + [(f"p{i}", "viewed", f"x{i}") for i in range(9)]
    facts = relatent.read([*rows, ("q", "bought", "y")])
    codes = np.array([(facts.relations.id("viewed"), Kind.STEP, 2 * facts.relations.id("bought"), -1)], np.int32)
    none = np.empty((0, 2), np.int32), np.empty(0)
    patterns = Patterns(facts, codes, np.array([5.0]), *none, np.zeros(2), np.ones(2))
    n = facts.n_entities
    f = relatent.Factors(
        np.zeros((n, 1)), np.zeros((2, 1, 1)), np.zeros(2), facts.entities, facts.relations, facts=facts,
        patterns=patterns,
    )  # fmt: skip
    assert f.top(subject="q", relation="viewed", k=1).names == ["y"]
    more = relatent.read([("q", "bought", "x3")])
    found = relatent.answers(f, subject="q", relation="viewed", known=more, k=2)
    assert {answer.name for answer in found.answers} == {"y", "x3"}


def test_patterns_are_kept_in_the_model_file(tmp_path):
    facts = world(6)
    patterns, path = random_patterns(facts), tmp_path / "seen.relatent"
    for kept in (facts, None):
        A, R = np.zeros((N, 1)), np.zeros((K, 1, 1))
        f = relatent.Factors(A, R, np.zeros(K), facts.entities, facts.relations, facts=kept, patterns=patterns)
        f.save(path)
        again = relatent.load(path)
        np.testing.assert_array_equal(again.score(*np.indices((N, K, N))), f.score(*np.indices((N, K, N))))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"pattern_codes", b"pattern_kodes"))
    with pytest.raises(ModelFileError, match="does not hold the tensors of a model"):
        relatent.load(path)


def test_patterns_that_cannot_be_are_refused():
    good = random_patterns(world())
    fields = (good.codes, good.weights, good.pairs, good.pair_weights, good.bias, good.scale)
    wrong = {
        "steps of patterns must be": (0, good.codes + np.array([0, 0, 100, 100], np.int32)),
        "one of 3 relations": (0, good.codes + np.array([7, 0, 0, 0], np.int32)),
        "finite weights": (1, good.weights * np.nan),
        "pairs of patterns must be of": (2, good.pairs + 10_000),
        "must be of one relation": (2, np.array([[0, len(good.codes) - 1]] * len(good.pairs), np.int32)),
    }
    for message, (place, value) in wrong.items():
        with pytest.raises(InputError, match=message):
            Patterns(good.facts, *fields[:place], value, *fields[place + 1 :])
