"""Undirected relations: whichever directions are listed, facts, models and answers are the same."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import relatent
from commands import run
from relatent import Facts
from relatent.analysis.doubt import _found
from relatent.backend.compact_matrices import make_symmetric, transposed
from relatent.data.facts_union import union
from relatent.data.names import Names
from relatent.data.undirected_note import undirected_note
from relatent.errors import DataError, InputError
from relatent.fit.calibration import heldout_facts
from relatent.model.known_facts import KnownFacts
from relatent.model.structure import DirectSum, nearest_parameters, resolve, with_symmetric

pytestmark = pytest.mark.filterwarnings("ignore::relatent.errors.ConvergenceWarning")
N = 24
QUICK = {"rank": 4, "max_iter": 20, "calibrate": False}
STRUCTURES = {
    "full": "full",
    "complex": "complex",
    "diagonal": "diagonal",
    "symmetric": "symmetric",
    "blocks": relatent.Blocks(2),
    "shared": relatent.Shared(2),
    "sum": DirectSum((("complex", 2), ("full", 2))),
}
LOSSES = ("logistic", "squared", "hinge", "poisson", "categorical", "softmax")
ESTIMATORS = {
    f"{loss}, {name}": relatent.Rescal(**QUICK, loss=loss, structure=structure)
    for loss in LOSSES
    for name, structure in STRUCTURES.items()
}
ESTIMATORS |= {
    f"sampled {loss}, {name}": relatent.Rescal(**QUICK, loss=loss, structure=structure, method="sampled")
    for loss in ("logistic", "softmax")
    for name, structure in STRUCTURES.items()
}
ESTIMATORS |= {
    f"reciprocal, {name}": relatent.Rescal(**QUICK, loss=relatent.Softmax(reciprocal=True), structure=STRUCTURES[name])
    for name in ("full", "complex", "diagonal", "blocks")
}
ESTIMATORS |= {
    "als": relatent.RescalALS(rank=4, calibrate=False),
    "nonnegative": relatent.NonnegativeRescal(rank=4, max_iter=50, calibrate=False),
    "adam": relatent.RescalLogit(**QUICK, method="exact", optimiser=relatent.Adam(0.1)),
    "dura": relatent.RescalLogit(**QUICK, penalty=relatent.Dura(0.01), structure="full", init="small"),
    "without options": relatent.RescalLogit(),
    "IRM": relatent.IRM(calibrate=False),
    "MRC": relatent.MRC(calibrate=False),
    "Markov logic": relatent.MarkovLogic(),
    "Markov logic, sampled": relatent.MarkovLogic(method="sampled"),
}


@cache
def pairs():
    """Pairs of entities of three groups, in a direction of chance."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, N)
    found = [(i, j) for i in range(N) for j in range(i + 1, N) if rng.random() < (0.9 if group[i] == group[j] else 0.1)]
    return np.array([pair[::-1] if rng.random() < 0.5 else pair for pair in found])


def n_facts() -> int:
    """Facts, of which a pair is one."""
    return int(facts().once.sum())


def facts(listed: str = "one", *, undirected=(0,), **fields) -> Facts:
    """Relation 0 of the pairs, listed in one direction, the other or both; relation 1, of some of them, is directed."""
    one = pairs()
    friends = {"one": one, "other": one[:, ::-1], "both": np.concatenate([one, one[:, ::-1]])}[listed]
    others = np.concatenate([np.stack([np.arange(N), (np.arange(N) + 1) % N], axis=1), one[::3]])
    s, o = np.concatenate([friends, others]).T
    k = np.repeat([0, 1], [len(friends), len(others)])
    names = {"entity_names": [f"e{i:02}" for i in range(N)], "relation_names": ["friend", "follows"]}
    return Facts.from_arrays(s, k, o, undirected=undirected, **names, **fields)


def assert_same(a: Facts, b: Facts) -> None:
    for name in ("triples", "weights", "times", "unobserved"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.undirected == b.undirected
    assert a.fingerprint == b.fingerprint


def scores_of(model, relation: int = 0):
    i, j = np.meshgrid(np.arange(N), np.arange(N), indexing="ij")
    return np.asarray(model.score(i, relation, j), float), (
        np.asarray(model.probability(i, relation, j)) if model.has_probabilities else np.zeros((N, N))
    )


# --- facts


@pytest.mark.parametrize("listed", ["other", "both"])
def test_one_direction_the_other_or_both_are_the_same_facts(listed):
    assert_same(facts(), facts(listed))
    given = facts("one", undirected=())
    assert_same(facts(), given.with_undirected("friend"))
    assert_same(facts(), given.with_undirected([0]))
    assert given.fingerprint != facts().fingerprint
    assert facts().symmetric.tolist() == [True, False]
    assert [row.facts for row in facts().describe()] == [len(pairs()), n_facts() - len(pairs())]


@pytest.mark.parametrize(
    ("listed", "counts", "wanted"),
    [
        ([(0, 1), (1, 2)], [5, 2], {(0, 1): 5, (1, 2): 2}),  # each pair once
        ([(0, 1), (1, 0), (1, 2), (2, 1)], [5, 5, 2, 2], {(0, 1): 5, (1, 2): 2}),  # a symmetric matrix
        ([(0, 1), (1, 0), (1, 2)], [5, 3, 2], {(0, 1): 8, (1, 2): 2}),  # events
        ([(0, 0), (0, 1)], [4, 1], {(0, 0): 4, (0, 1): 1}),  # a cell of its own is no pair
    ],
)
def test_counts_of_both_directions_are_those_of_a_pair(listed, counts, wanted):
    s, o = np.array(listed).T
    found = Facts.from_arrays(s, 0 * s, o, times=counts, undirected=True)
    both = {cell: n for i, j in wanted for cell, n in (((i, j), wanted[i, j]), ((j, i), wanted[i, j]))}
    cells = [tuple(cell) for cell in found.triples[:, ::2].tolist()]
    assert dict(zip(cells, found.times.tolist(), strict=True)) == both
    again = Facts.from_ids(found.triples, *(found.entities, found.relations), times=found.times, undirected={0})
    np.testing.assert_array_equal(found.times, again.times)


def test_both_directions_must_have_one_weight():
    given = (["Ann", "Bob"], ["knows"] * 2, ["Bob", "Ann"])
    assert Facts.from_arrays(*given, weights=[0.5, 0.5], undirected=True).weights.tolist() == [0.5, 0.5]
    with pytest.raises(DataError, match=r"got 0.5 and 0.25 for the two directions of 'Ann' and 'Bob'"):
        Facts.from_arrays(*given, weights=[0.5, 0.25], undirected=True)
    with pytest.raises(InputError, match="unknown relation 'hates'"):
        Facts.from_arrays(*given, undirected="hates")
    with pytest.raises(InputError, match="must be True, or relations"):
        Facts.from_arrays(*given, undirected=[None])


def test_what_is_made_of_facts_holds_both_directions():
    whole = facts()
    train, test = relatent.split(whole, test_size=0.2)
    leaky = relatent.split(whole, test_size=0.2, leaky=True)
    renamed = whole.over(whole.entities.extended(["new"]), Names(["follows", "friend"]))
    parts = [train, test, *leaky, *heldout_facts(whole, 0), renamed, whole.hold_out(pairs_as_cells()[:3], masked=True)]
    for part in parts:
        [k] = part.undirected
        own = part.triples[part.triples[:, 1] == k]
        assert part.contains(own[:, ::-1]).all()
    assert parts[-1].is_unobserved(pairs_as_cells()[:3, ::-1]).all()
    assert not train.contains(test.triples).any()
    one_way = facts("other", undirected=()).subset(np.arange(len(facts("other", undirected=()))) % 2 == 0)
    joined = union([train, one_way])
    assert joined.undirected == {joined.relations.id("friend")}
    assert joined.contains(joined.triples[joined.triples[:, 1] == joined.relations.id("friend")][:, ::-1]).all()


def n_listed():
    return len(pairs()) + N + len(pairs()[::3])  # before duplicates are merged


def pairs_as_cells():
    return np.insert(pairs(), 1, 0, axis=1)


# --- models


@pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_listing_either_direction_or_both_gives_one_symmetric_model(name, one_thread):
    models = [ESTIMATORS[name].fit(facts(listed)).factors_ for listed in ("one", "other", "both")]
    theta, p = scores_of(models[0])
    for other in models[1:]:
        np.testing.assert_array_equal(other.A, models[0].A)
        np.testing.assert_array_equal(scores_of(other), (theta, p))
    np.testing.assert_allclose(theta, theta.T, atol=1e-6 * max(1, np.abs(theta).max()))
    np.testing.assert_allclose(p, p.T, atol=1e-6)
    assert models[0].undirected == {0}
    assert theta.std() > 1e-3


def test_directions_of_other_relations_are_learned():
    model = relatent.RescalLogit(**QUICK | {"max_iter": 200}, structure="full").fit(facts()).factors_
    theta, _ = scores_of(model, 1)
    assert np.abs(theta - theta.T).max() > 1
    assert np.array_equal(model.relation_matrices[0], model.relation_matrices[0].T)


@pytest.mark.parametrize("name", STRUCTURES)
def test_derivatives_of_symmetric_relations_agree_with_differences(name, numbers):
    """Of the projection itself: a step along the derivatives stays among symmetric matrices."""
    K, r = 3, 4
    plain = resolve(STRUCTURES[name], K, r)
    structure = with_symmetric(plain, [0, 2])
    R = numbers.normal(size=(K, r, r))
    P = nearest_parameters(structure, R)
    if structure is plain:  # compact: `Layout` makes its parameters symmetric
        P = make_symmetric(P, [0, 2])
        np.testing.assert_array_equal(P[[0, 2]], transposed(P)[[0, 2]])
        return
    M, P = numbers.normal(size=(K, r, r)), P + 0.1 * numbers.normal(size=P.shape)
    for k in (0, 2):
        np.testing.assert_allclose(structure.matrices(P)[k], structure.matrices(P)[k].T)
    gradient, step = structure.gradient(M, P), 1e-6
    for i in range(0, P.size, 5):
        ends = []
        for sign in (1, -1):
            moved = P.copy()
            moved.reshape(-1)[i] += sign * step
            ends.append(np.sum(M * structure.matrices(moved)))
        assert gradient.reshape(-1)[i] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


@pytest.fixture
def numbers():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def model():
    return relatent.RescalLogit(rank=6, l2_entities=0.05, l2_relations=0.05).fit(facts()).factors_


def test_a_model_file_holds_each_pair_once_and_says_so(model, tmp_path):
    model.save(tmp_path / "m.relatent")
    again = relatent.load(tmp_path / "m.relatent")
    assert again.undirected == {0}
    assert_same(again.facts, model.facts)
    np.testing.assert_array_equal(scores_of(again), scores_of(model))
    one_way = replace(model, R=model.relation_matrices, facts=facts("both", undirected=()), undirected=frozenset())
    one_way.save(tmp_path / "other.relatent")
    assert (tmp_path / "m.relatent").stat().st_size < (tmp_path / "other.relatent").stat().st_size
    for counted in (facts(times=np.arange(1, n_listed() + 1)), facts(weights=np.full(n_listed(), 0.5))):
        replace(model, R=model.relation_matrices, facts=counted).save(tmp_path / "m.relatent")
        assert_same(relatent.load(tmp_path / "m.relatent").facts, counted)


def test_missing_lists_a_pair_once_and_no_mirror_of_a_known_one(model):
    found = relatent.missing(model, k=10_000, relations="friend").missing
    rows = [frozenset(row[::2]) for row in found]
    known = {frozenset((f"e{i:02}", f"e{j:02}")) for i, j in pairs().tolist()}
    assert len(rows) == len(set(rows)) == N * (N - 1) // 2 - len(known)
    assert not known & set(rows)
    assert [row[:3] for row in relatent.missing(model, k=20).missing] == [
        row[:3] for row in relatent.missing(model, k=10_000).missing[:20]
    ]
    s, _, o = found[0][:3]
    without = relatent.missing(model, k=5, relations="friend", rejected=relatent.read([(o, "friend", s)])).missing
    assert without[0][:3] == found[1][:3]


def test_data_that_comes_later_is_closed_as_the_model_is(model):
    train, test = relatent.split(facts(), test_size=0.2)
    fitted = relatent.RescalLogit(rank=6, l2_entities=0.05, l2_relations=0.05, calibrate=False).fit(train).factors_
    one = test.named(test.triples[test.once])
    results = [
        relatent.evaluate(fitted, relatent.read(rows))
        for rows in (one, [(o, r, s) if r == "friend" else (s, r, o) for s, r, o in one], test.named())
    ]
    assert results[0].n == test.once.sum()
    for other in results[1:]:
        assert (other.n, other.mrr) == (results[0].n, pytest.approx(results[0].mrr, abs=1e-9))
    with pytest.warns(relatent.DataWarning, match="fitted to 1 of the 1 test facts"):
        relatent.evaluate(model, relatent.read([(b, r, a) for a, r, b in model.facts.named()[:1]]))
    s, r, o = relatent.missing(model, k=1, relations="friend").missing[0][:3]
    told = model.asked(relatent.read([(o, r, s)])).known.facts
    assert told.contains(np.array([[model.entities.id(s), 0, model.entities.id(o)]])).all()
    for grown in (model.fold_in, lambda new: relatent.update(model, new)):
        later = [grown(relatent.read(rows)) for rows in ([("new", "friend", "e03")], [("e03", "friend", "new")])]
        np.testing.assert_allclose(later[0].A, later[1].A, atol=1e-6)
        assert ("new", "friend", "e03") in later[1].facts.named()
        assert later[0].undirected == {0}


def test_the_mirror_of_a_fact_is_no_reason_for_it_and_no_rule(model):
    s, _, o = model.facts.named()[0]
    found = relatent.explain(model, s, "friend", o, k=10)
    cells = [tuple(reason[:3]) for reason in found.reasons]
    assert not {(s, "friend", o), (o, "friend", s)} & set(cells)
    assert len({frozenset(cell) for cell in cells}) == len(cells)
    assert all(rule.body != "friend(y,x)" for rule in relatent.rules(facts(), min_support=1))
    for method in ("exact", "sampled"):
        clauses = relatent.MarkovLogic(method=method, calibrate=False).fit(facts()).clauses_
        assert "friend(y,x) ⇒ friend(x,y)" not in [clause.text for clause in clauses]


def test_doubt_leaves_out_both_directions_and_lists_a_pair_once(model):
    found = relatent.doubt(model, k=1000, refit=False)
    friends = [frozenset(row[::2]) for row in found.doubtful if row.relation == "friend"]
    assert len(friends) == len(set(friends)) == len(pairs())
    assert found.n_facts == n_facts()
    known = KnownFacts(model.facts)
    left_out = _found(model, known, np.random.default_rng(0), None)
    once = known.facts.once & (known.facts.triples[:, 1] == 0)
    back = [known.facts.triples.tolist().index(cell[::-1]) for cell in known.facts.triples[once].tolist()]
    np.testing.assert_allclose(left_out.left_out[once], left_out.left_out[back], atol=1e-4)
    assert (left_out.left_out[once] <= left_out.own[once] + 1e-9).all()
    assert all(row.doubt is not None for row in relatent.doubt(model, k=3).doubtful)


def test_cross_validation_and_calibration_hold_out_pairs():
    estimator = relatent.RescalALS(rank=4, calibrate=False)
    report = relatent.cross_validate(estimator, facts(), folds=3)
    assert 0 < report.auc_pr <= 1
    fitted = relatent.RescalLogit(rank=4, l2_entities=0.1, l2_relations=0.1).fit(facts()).factors_
    assert fitted.calibration.shifts[0, 1] == fitted.calibration.shifts[0, 2]
    n_pairs = n_facts()
    assert fitted.calibration.expected < 0.2 * n_pairs  # a ninth of the pairs and facts, not of their cells
    assert fitted.about.data.facts == n_pairs


# --- reading


def test_read_takes_undirected_relations():
    rows = [("Ann", "knows", "Bob"), ("Bob", "hires", "Cid")]
    assert relatent.read(rows, undirected="knows").named() == [
        ("Bob", "hires", "Cid"),
        ("Ann", "knows", "Bob"),
        ("Bob", "knows", "Ann"),
    ]
    assert len(relatent.read(rows, undirected=True)) == 4
    assert len(relatent.read(relatent.read(rows), undirected=["knows", "hires"])) == 4
    frame = pytest.importorskip("pandas").DataFrame(rows, columns=["subject", "relation", "object"])
    assert relatent.read(frame, undirected=True).undirected == {0, 1}


def test_undirected_graphs_of_networkx_have_undirected_relations():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph([("Ann", "Bob"), ("Bob", "Cid"), ("Cid", "Cid")])
    found = relatent.read(graph)
    assert found.undirected == {0}
    assert len(found) == 5
    assert relatent.read(networkx.DiGraph(graph.edges)).undirected == frozenset()


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "edges.csv"
    rows = [f"e{i:02},friend,e{j:02}\n" for i, j in pairs().tolist()]
    path.write_text("subject,relation,object\n" + "".join(rows) + "e00,follows,e01\n")
    return path


@pytest.mark.parametrize("option", [["--undirected", "friend"], ["--undirected"]])
def test_commands_take_undirected_relations(capsys, tmp_path, edges, option):
    target = tmp_path / "m.relatent"
    code, out, err = run(capsys, "fit", edges, "-o", target, "--model", "als", "--json", *option)
    assert code == 0, err
    assert "may have no direction" not in err
    assert json.loads(out)["data"]["facts"] == len(pairs()) + 1
    assert relatent.load(target).undirected == (
        {0, 1} if len(option) == 1 else {relatent.load(target).relations.id("friend")}
    )
    found = json.loads(run(capsys, "missing", target, "--json", "--top", 1000, "--relation", "friend")[1])["missing"]
    assert len({frozenset((row["subject"], row["object"])) for row in found}) == len(found)
    assert "undirected" in run(capsys, "info", target)[1]
    assert run(capsys, "split", edges, "-o", tmp_path / "parts", *option)[0] == 0
    lines = [(tmp_path / "parts" / f"{name}.tsv").read_text().count("\n") - 1 for name in ("train", "test")]
    assert sum(lines) == len(pairs()) + 1
    code, out, err = run(capsys, "info", edges, "--json", *option)
    assert json.loads(out)["facts"] == len(pairs()) + 1
    code, _, err = run(capsys, "fit", edges, "-o", target, "--undirected", "hates")
    assert code == 1
    assert "unknown relation 'hates'" in err


def test_fit_and_info_suggest_that_pairs_have_no_direction(capsys, tmp_path, edges):
    _, _, err = run(capsys, "fit", edges, "-o", tmp_path / "m.relatent", "--model", "als")
    assert err.count("'friend' may have no direction: no pair is listed twice") == 1
    assert "--undirected 'friend' makes both directions of a pair one fact" in err
    assert "--undirected 'friend'" in run(capsys, "info", edges)[1]


def test_what_is_said_of_directions():
    rng = np.random.default_rng(0)
    assert "'friend' may have no direction: no pair" in undirected_note(facts(undirected=()))
    assert "'friend' may have no direction: every pair is listed in both" in undirected_note(
        facts("both", undirected=())
    )
    assert undirected_note(facts()) is None
    bought = Facts.from_arrays(rng.integers(0, 30, 200), np.zeros(200, int), rng.integers(30, 60, 200))
    older = np.sort(rng.choice(60, (200, 2)), axis=1)
    older = older[older[:, 0] < older[:, 1]]
    parents = Facts.from_arrays(older[:, 0], np.zeros(len(older), int), older[:, 1])
    mixed = Facts.from_arrays(*np.insert(np.concatenate([pairs(), pairs()[:3, ::-1]]), 1, 0, axis=1).T)
    few = Facts.from_arrays([0, 1], [0, 0], [1, 2])
    assert [undirected_note(found) for found in (bought, parents, mixed, few)] == [None] * 4
