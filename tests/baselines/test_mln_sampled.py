"""Markov logic from sampled zeros: sums and weights are those of all cells, and rules are matched right."""

import functools
import itertools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

import relatent
from interruptions import InterruptedFitError, interrupt_at
from relatent import MarkovLogic
from relatent.baselines import mln_sampled
from relatent.baselines.clause_weights import learn_weights, loss_and_gradient
from relatent.baselines.clauses import BODIES, Shape, body_codes, body_of
from relatent.baselines.mln_sampled import ClauseLimits, RuleSearch, listed_cells
from relatent.errors import InputError, ModelFileError
from relatent.fit.checkpoint import Checkpoint
from relatent.fit.estimators import base
from relatent.model.patterns import Patterns
from relatent.model.step_graph import StepGraph
from sparse_graphs import sparse_graph

N, K = 14, 3
BODIES_TRIED = [(), (2,), (3,), (2, 4), (2, 5), (3, 4), (5, 5), (1, 0)]


@functools.cache
def small_world():
    """Facts with weights, facts of an entity with itself and unobserved cells."""
    rng = np.random.default_rng(0)
    cells = np.unique(np.stack([rng.integers(n, size=90) for n in (N, K, N)], axis=1), axis=0)
    cells = rng.permutation(cells)
    names = {"n_entities": N, "n_relations": K}
    weights = rng.choice([0.0, 0.5, 2.0], len(cells) - 10)
    return relatent.Facts.from_arrays(*cells[10:].T, **names, weights=weights, unobserved=cells[:10])


def count(body, x, y, holds):
    """The number of ways in which a body connects x and y, by trying all z."""
    if not body:
        return int(x == y)
    if x == y:
        return 0

    def step(code, s, o):
        return s != o and (code // 2, *((s, o) if code % 2 == 0 else (o, s))) in holds

    if len(body) == 1:
        return int(step(body[0], x, y))
    return sum(step(body[0], x, z) and step(body[1], z, y) for z in range(N))


def brute_force(facts, k, weights, each_z):
    """Σ w [softplus(θ) − x θ] over all observed cells of a relation, one by one."""
    w = {(r, s, o): c for (s, r, o), c in zip(facts.triples.tolist(), facts.confidences.tolist(), strict=True)}
    holds, total = {fact for fact, c in w.items() if c > 0}, 0.0
    unobserved = {(r, s, o) for s, r, o in facts.unobserved.tolist()}
    for x, y in itertools.product(range(N), repeat=2):
        if (k, x, y) in unobserved:
            continue
        counts = np.array([1, *(count(body, x, y, holds) for body in BODIES_TRIED)])
        theta = weights @ (counts if each_z else np.minimum(counts, 1))
        total += w.get((k, x, y), 1.0) * (np.logaddexp(0, theta) - theta * ((k, x, y) in w))
    return total


def estimate(facts, k, weights, each_z, seed=0):
    graph = StepGraph(facts.subset(facts.confidences > 0))
    cells = listed_cells(graph, facts, k, BODIES_TRIED, np.random.default_rng(seed), each_z=each_z)
    return loss_and_gradient([cells], weights)[0]


WEIGHTS = np.array([-1.0, 0.7, 1.2, -0.4, 0.9, 0.5, -0.8, 0.3, 0.6])


@pytest.mark.parametrize("each_z", [False, True])
def test_with_all_subjects_the_sum_is_that_over_all_cells(each_z):
    for k in range(K):
        wanted = brute_force(small_world(), k, WEIGHTS, each_z)
        assert estimate(small_world(), k, WEIGHTS, each_z) == pytest.approx(wanted)


def test_with_some_subjects_the_sum_is_right_on_average(monkeypatch):
    monkeypatch.setattr(mln_sampled, "LISTED_PER_STRATUM", 1)
    monkeypatch.setattr(mln_sampled, "MIN_SUBJECTS", 3)
    wanted = brute_force(small_world(), 0, WEIGHTS, False)
    found = np.array([estimate(small_world(), 0, WEIGHTS, False, seed) for seed in range(60)])
    assert found.std() > 0.5
    assert abs(found.mean() - wanted) < 4 * found.std() / np.sqrt(len(found))


def test_bodies_and_clauses_are_the_same_thing():
    bodies = [(), (0,), (3,), *itertools.product((2, 5), (0, 3))]
    codes = body_codes(bodies, 1)
    assert [body_of(code) for code in codes] == bodies
    assert {Shape(int(code[0])) for code in codes} == set(BODIES) - {Shape.UNIT}
    assert codes[:, 3].tolist() == [1] * len(bodies)


def test_scores_of_rows_and_of_cells_are_those_of_the_bodies():
    facts = small_world()
    evidence = facts.subset(facts.confidences > 0)
    holds = {(k, s, o) for s, k, o in evidence.triples.tolist()}
    for each_z in (False, True):
        heads = np.full(len(BODIES_TRIED), 1)
        rules = Patterns.of_rules(evidence, heads, list(BODIES_TRIED), WEIGHTS[1:], each_z=each_z)
        counts = np.array([[[count(b, x, y, holds) for b in BODIES_TRIED] for y in range(N)] for x in range(N)])
        counts[..., [body == (2,) for body in BODIES_TRIED]] = 0  # a fact of the head is no evidence for itself
        wanted = (counts if each_z else np.minimum(counts, 1)) @ WEIGHTS[1:]
        everyone = np.arange(N)
        np.testing.assert_allclose(rules.rows(everyone, 1), wanted)
        np.testing.assert_allclose(rules.rows(everyone[3:7], 1, of_objects=True), wanted.T[3:7])
        np.testing.assert_allclose(rules.cells(everyone[:, None], 1, everyone[None]), wanted)
        assert not rules.cells(everyone, 0, everyone).any()
        assert rules.largest(1) >= wanted.max()


# --- fits

RULE = "born_in(x,z) ∧ located_in(z,y) ⇒ citizen_of(x,y)"


@pytest.fixture(scope="module")
def films():
    return relatent.split(sparse_graph("films", 1), test_size=0.1, random_state=0)


@pytest.fixture(scope="module")
def model(films):
    return MarkovLogic(method="sampled", calibrate=False).fit(films[0])


def weights_of(model):
    return {clause.text: clause.weight for clause in model.clauses_}


def test_planted_rules_are_found_and_predict_better_than_frequency(films, model):
    assert RULE in weights_of(model)
    ranking = relatent.evaluate(model.factors_, films[1], known=films[0])
    assert ranking.mrr > 1.5 * ranking.baseline.mrr
    assert model.trace_.converged
    assert len(model.trace_) == films[0].n_relations


def test_sampled_weights_agree_with_those_of_all_zeros(films, model, monkeypatch):
    monkeypatch.setattr(mln_sampled, "LISTED_PER_STRATUM", 1 << 40)  # all subjects
    exact = weights_of(MarkovLogic(method="sampled", calibrate=False).fit(films[0]))
    monkeypatch.setattr(mln_sampled, "LISTED_PER_STRATUM", 10_000)
    sampled = weights_of(MarkovLogic(method="sampled", calibrate=False).fit(films[0]))
    clear = {text for text, weight in exact.items() if abs(weight) > 2}
    assert len(clear) > 8
    for text in clear:
        assert sampled[text] == pytest.approx(exact[text], rel=0.15), text


def test_the_sampled_and_the_exact_method_find_the_same_rule():
    n = 40
    people = [f"person {i}" for i in range(n)]
    rows = [(people[i], "parent", people[i + 1]) for i in range(n - 1)]
    facts = relatent.read([*rows, *((people[i], "grandparent", people[i + 2]) for i in range(n - 2))])
    best = [MarkovLogic(method=method, calibrate=False).fit(facts).clauses_[0] for method in ("exact", "sampled")]
    assert {clause.text for clause in best} == {"parent(x,z) ∧ parent(z,y) ⇒ grandparent(x,y)"}


def test_large_data_are_sampled_without_being_told():
    facts = relatent.Facts.from_arrays([0, 1], [0, 1], [1, 2], n_entities=5000, n_relations=2)
    f = MarkovLogic(calibrate=False).fit(facts).factors_
    assert (f.rank, f.about.fit.method) == (0, "sampled")
    with pytest.raises(InputError, match=r"at most 20,000,000, got 50,000,000; use method='sampled'"):
        MarkovLogic(method="exact", calibrate=False).fit(facts)
    with pytest.raises(InputError, match="method must be auto, exact, sampled, got 'some'"):
        MarkovLogic(method="some", calibrate=False).fit(facts)
    with pytest.raises(InputError, match="leave validation out"):
        MarkovLogic(calibrate=False).fit(facts, facts)


def test_answers_scores_and_missing_facts_follow_the_rules(films, model, tmp_path):
    train, f = films[0], model.factors_
    f.save(tmp_path / "films.relatent")
    loaded = relatent.load(tmp_path / "films.relatent")
    s, k, o = train.triples[::50].T
    np.testing.assert_array_equal(loaded.score(s, k, o), f.score(s, k, o))
    rule = next(clause for clause in model.clauses_ if clause.text == RULE)
    born, located = train.matrix(train.relations.id("born_in")), train.matrix(train.relations.id("located_in"))
    x, y = np.argwhere((born @ located).toarray() > 0)[0].tolist()
    assert f.score(x, "citizen_of", y) >= f.bias[train.relations.id("citizen_of")] + rule.weight - 1
    citizen_of = train.relations.id("citizen_of")
    own = f.score(x, citizen_of, np.arange(train.n_entities))
    own[np.append(f.candidates.known.objects(x, citizen_of), x)] = -np.inf
    assert f.top(subject=x, relation="citizen_of", k=1).scores[0] == pytest.approx(own.max())
    both = f.top(subject=x, object=y, k=99, known="mark")
    np.testing.assert_allclose(both.scores, f.score(x, both.names, y))
    found = relatent.missing(f, k=20, relations=["citizen_of"])
    everyone = np.arange(train.n_entities)
    all_scores = f.scores_of_all(everyone, train.relations.id("citizen_of"))
    all_scores[train.subjects[k_is(train, "citizen_of")], train.objects[k_is(train, "citizen_of")]] = -np.inf
    np.fill_diagonal(all_scores, -np.inf)
    wanted = np.sort(all_scores.ravel())[::-1][:20]
    np.testing.assert_allclose([fact.score for fact in found.missing], wanted, rtol=1e-5)
    assert found.missing[0].probability == pytest.approx(expit(wanted[0]), rel=1e-5)


def k_is(facts, relation):
    return facts.triples[:, 1] == facts.relations.id(relation)


def test_questions_that_need_vectors_are_refused_and_explanations_give_the_rules(films, model):
    train, f = films[0], model.factors_
    for ask in (
        lambda: relatent.similar(f, train.entities[0]),
        lambda: relatent.groups(f),
        lambda: f.fold_in(relatent.read([("Eve", "citizen_of", train.entities[0])])),
        lambda: relatent.duplicates(f),
    ):
        with pytest.raises(InputError, match="has rules and no vectors"):
            ask()
    fact = relatent.missing(f, k=1, relations=["citizen_of"]).missing[0]
    found = relatent.explain(f, fact.subject, fact.relation, fact.object)
    assert found.reasons == found.components == []
    assert any(path.body == RULE.split(" ⇒ ")[0] for path in found.paths)
    assert RULE in found.sentence
    assert len(relatent.doubt(f, k=5).doubtful) == 5


def test_a_damaged_file_of_rules_is_refused(model, tmp_path):
    path = tmp_path / "films.relatent"
    model.factors_.save(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"pattern_codes", b"pattern_kodes"))
    with pytest.raises(ModelFileError, match="does not hold the tensors of a model"):
        relatent.load(path)


def test_max_length_and_max_clauses_bound_the_clauses(films):
    for length in (1, 2):
        found = MarkovLogic(method="sampled", max_length=length, calibrate=False).fit(films[0]).clauses_
        assert max(len(clause.body) for clause in found) < length
    found = MarkovLogic(method="sampled", max_clauses=8, calibrate=False).fit(films[0]).clauses_
    assert len(found) <= 16


def test_the_same_seed_gives_the_same_and_an_interrupted_fit_resumes(films, model, monkeypatch, tmp_path):
    monkeypatch.setattr(base, "Checkpoint", functools.partial(Checkpoint, every=0.0))
    again = clone(model)
    with pytest.raises(InterruptedFitError):
        again.fit(films[0], checkpoint=tmp_path / "fit.checkpoint", progress=interrupt_at(3))
    again.fit(films[0], checkpoint=tmp_path / "fit.checkpoint")
    assert again.clauses_ == model.clauses_


def test_the_bias_alone_is_the_share_of_facts():
    search = RuleSearch(small_world(), ClauseLimits(1, 5, each_z=False, l1=1e9, l2=0.0), seed=0)
    facts, state = small_world(), search.step(search.start())
    k_facts = facts.triples[:, 1] == 0
    true = facts.confidences[k_facts].sum()
    zeros = facts.n_observed()[0] - k_facts.sum()
    assert expit(state.weights[0]) == pytest.approx(true / (true + zeros), rel=1e-3)
    assert learn_weights([], np.zeros(1), 1, 0.0, 1.0, steps=3)[0][0] == 0
