"""The likeliest absent facts: equal to sorting all cells, without known facts, wrong places and rejected cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relatent
import small_graphs
from relatent import Factors, Facts, InputError
from relatent.arrays import Mask, Vector
from relatent.data.types_in_facts import rdf_types
from relatent.model import best_cells, links
from relatent.model.calibration import Calibration
from relatent.model.objective_description import ObjectiveTerm
from relatent.model.scores import against_others
from relatent.model.structure import DirectSum
from sparse_graphs import sparse_graph

Cell = tuple[int, int, int]
N, K, RANK = 60, 5, 6


def sorted_cells(factors: Factors, k: int, types: str, only: int | None = None) -> list[Cell]:
    """The k best absent cells, by sorting all of them."""
    n, facts = len(factors.entities), factors.facts
    assert facts is not None
    absent = np.ones((len(factors.relations), n, n), bool)
    for relation in range(len(absent)):
        s, o = facts.matrix(relation).nonzero()
        absent[relation, s, o] = False
        if not (s == o).any():
            np.fill_diagonal(absent[relation], False)
        if types == "seen":
            absent[relation] &= np.isin(np.arange(n), s)[:, None] & np.isin(np.arange(n), o)
        elif types == "roles":
            alike = (roles_of(facts) @ roles_of(facts).T) > 0  # entities that share a role
            absent[relation] &= alike[:, np.unique(s)].any(axis=1)[:, None] & alike[:, np.unique(o)].any(axis=1)
    if only is not None:
        absent &= (np.arange(n) == only)[:, None] | (np.arange(n) == only)
    relation, s, o = np.nonzero(absent)
    score, p = score_and_probability(factors, absent)
    if len(p) > k:  # sort only what can be among the k best, ties included
        first = p if factors.has_probabilities else score
        kept = first >= np.partition(first, -k)[-k]
        relation, s, o, score, p = (values[kept] for values in (relation, s, o, score, p))
    order = np.lexsort((o, relation, s, -score, -p))[:k]
    return [tuple(cell) for cell in np.stack([s, relation, o], axis=1)[order].tolist()]  # type: ignore[misc]


def score_and_probability(factors: Factors, chosen: Mask) -> tuple[Vector, Vector]:
    """Of these cells, (K, N, N): of a calibrated model by `judge`, which tests/model/test_candidates.py checks."""
    relation, s, o = np.nonzero(chosen)
    if factors.calibration is not None:
        judged = factors.candidates.judge(np.stack([s, relation, o], axis=1))
        return judged.score, judged.probability
    A, R = factors.A.astype(np.float64), factors.R.astype(np.float64)
    theta = np.einsum("ia,kab,jb->kij", A, R, A, optimize=True) + factors.bias.astype(np.float64)[:, None, None]
    if factors.exclusive:
        flat = theta.reshape(len(R), -1)
        theta = np.stack([against_others(flat, np.full(flat.shape[1], k)) for k in range(len(R))]).reshape(theta.shape)
    score = theta[chosen]
    return score, factors.link.probability(score, relation) if factors.has_probabilities else np.zeros(len(score))


def each_pair_once(cells: list[Cell], undirected: set[int]) -> list[Cell]:
    """The cells, those of undirected relations with the lower id first and not twice."""
    return list(dict.fromkeys((min(s, o), k, max(s, o)) if k in undirected else (s, k, o) for s, k, o in cells))


def roles_of(facts: Facts) -> Any:
    """Whether each entity is subject, and object, of each relation, (N, 2 K); those that are nothing may be all."""
    s, k, o = facts.triples.T
    played = np.zeros((facts.n_entities, 2 * facts.n_relations), int)
    played[s, 2 * k] = played[o, 2 * k + 1] = 1
    played[played.sum(axis=1) == 0] = 1
    return played


def found_cells(factors: Factors, k: int, **options: Any) -> list[Cell]:
    rows = relatent.missing(factors, k, **options).missing
    assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
    return [(factors.entities.id(s), factors.relations.id(r), factors.entities.id(o)) for s, r, o, *_ in rows]


def random_facts(seed: int = 0, n_facts: int = 400) -> Facts:
    rng = np.random.default_rng(seed)
    cells = np.stack([rng.integers(0, N, n_facts), rng.integers(0, K, n_facts), rng.integers(0, N // 2, n_facts)])
    cells = cells[:, (cells[0] != cells[2]) | (cells[1] == 0)]  # only relation 0 has facts of an entity with itself
    return Facts.from_arrays(*cells, n_entities=N, n_relations=K)


def random_factors(R: Any = None, seed: int = 0, scale: float = 1.0, **fields: Any) -> Factors:
    """A model of random vectors that knows its facts."""
    rng, facts = np.random.default_rng(seed), random_facts()
    A = (rng.normal(size=(N, RANK)) * rng.gamma(1, scale, (N, 1))).astype(np.float32)
    R = rng.normal(size=(K, RANK, RANK)).astype(np.float32) if R is None else R
    bias = rng.normal(size=K).astype(np.float32)
    return Factors(A, R, bias, facts.entities, facts.relations, **({"facts": facts} | fields))


LINES = [([-2.0 - k, 0.5 * k, 1.0 + k], [-6.0, -3.0, -1.0 + 0.2 * k]) for k in range(K)]
KINDS = {"shifts": np.random.default_rng(0).normal(0, 2, (K, 4))}
COMPETING = {"one_answer": np.arange(2 * K).reshape(K, 2) % 3 == 0}
FLAT = [([-1.0, 0.0, 1.0, 2.0], [-2.0, -0.4, -0.4, -0.4])] * K
MODELS: dict[str, dict[str, Any]] = {
    "logistic": {},
    "least squares": {"link": links.SmoothLink()},
    "calibrated": {"calibration": Calibration.of_lines(LINES)},
    "calibrated, with plateaus": {"calibration": Calibration.of_lines(FLAT)},
    "calibrated, by kinds of cells": {"calibration": Calibration.of_lines(LINES, **KINDS)},
    "calibrated, with questions of one answer": {"calibration": Calibration.of_lines(LINES, **KINDS, **COMPETING)},
    "losses of relations": {"link": links.RelationLinks(("logistic", "smooth", "count", "smooth", "logistic"))},
    "no probabilities": {"loss": ObjectiveTerm("softmax"), "link": links.RankingLink()},
    "exclusive": {"loss": ObjectiveTerm("categorical")},
    "saturated": {"scale": 20.0},
    "all scores equal": {"R": np.zeros((K, RANK, RANK), np.float32)},
}


@pytest.mark.parametrize("types", ["seen", "roles", "all"])
@pytest.mark.parametrize("model", MODELS)
def test_the_best_cells_are_those_of_sorting_all(model: str, types: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_cells, "CELLS_PER_BLOCK", 700)  # many blocks
    monkeypatch.setattr(best_cells, "MIN_CHUNK", 16)
    factors = random_factors(**MODELS[model])
    for k in (1, 40, 300):
        assert found_cells(factors, k, types=types) == sorted_cells(factors, k, types)


@pytest.mark.filterwarnings("ignore::relatent.PoorFitWarning")
@pytest.mark.parametrize(("kind", "calibrate", "share"), [("films", False, 1 / 2), ("taxonomy", True, 1 / 4)])
def test_the_first_1000_of_a_fitted_model_are_those_of_sorting_all(kind: str, calibrate: bool, share: float) -> None:
    whole = sparse_graph(kind, 0)
    part = (whole.triples[:, [0, 2]] < share * whole.n_entities).all(axis=1)  # sorting all cells would take long
    facts = relatent.read(whole.named(whole.triples[part]))
    factors = relatent.RescalALS(10, 0.5, 0.5, max_iter=5, tol=0.5, calibrate=calibrate).fit(facts).factors_
    assert found_cells(factors, 1000) == sorted_cells(factors, 1000, "all")


@pytest.mark.filterwarnings("ignore::relatent.ConvergenceWarning")
@pytest.mark.parametrize(
    "structure",
    [
        "complex",
        "diagonal",
        "symmetric",
        relatent.Blocks(2),
        relatent.Shared(3),
        DirectSum((("complex", 2), (relatent.Shared(2), 2))),
    ],
    ids=str,
)
def test_structures_give_the_same_as_whole_matrices(structure: Any) -> None:
    facts = small_graphs.blocks()
    factors = relatent.Rescal(rank=4, structure=structure, max_iter=3, tol=1.0, calibrate=False).fit(facts).factors_
    assert found_cells(factors, 50, types="all") == sorted_cells(factors, 50, "all")


def test_bounds_skip_most_of_the_work_where_lengths_differ() -> None:
    facts = Facts.from_arrays([0], [0], [1], n_entities=2000)
    A = np.random.default_rng(0).normal(size=(2000, 8)) * np.geomspace(1, 1e-3, 2000)[:, None]
    factors = Factors(A, np.eye(8)[None], np.zeros(1), facts.entities, facts.relations, facts=facts)
    found = relatent.missing(factors, 10, types="all")
    assert found.n_cells == 2000**2
    assert found.n_scored < 0.5 * found.n_cells


def test_relations_and_entities_restrict_the_result() -> None:
    factors = random_factors()
    everything = sorted_cells(factors, N * N * K, "all")
    of_relations = [cell for cell in everything if cell[1] in (1, 3)]
    assert found_cells(factors, 30, relations=["1", "3"]) == of_relations[:30]
    assert found_cells(factors, 30, entities="7") == sorted_cells(factors, 30, "all", only=7)


def test_each_pair_of_an_undirected_relation_is_listed_once() -> None:
    facts = random_facts().with_undirected("2")
    R = np.random.default_rng(0).normal(size=(K, RANK, RANK)).astype(np.float32)
    R[2] += R[2].T
    factors = random_factors(R, facts=facts, undirected=facts.undirected)
    expected = each_pair_once(sorted_cells(factors, N * N * K, "all"), {2})
    for options in ({}, {"relations": ["2"]}, {"entities": ["7"]}):
        kept = [cell for cell in expected if not ("relations" in options and cell[1] != 2)]
        kept = [cell for cell in kept if not ("entities" in options and 7 not in cell[::2])]
        for k in (1, 50, 700):
            assert found_cells(factors, k, **options) == kept[:k]
    s, k, o = next(cell for cell in expected if cell[1] == 2)
    rejected = Facts.from_ids(np.array([[o, k, s]]), facts.entities, facts.relations)
    rest = found_cells(factors, 700, relations=["2"], rejected=rejected)
    assert not {(s, k, o), (o, k, s)} & set(rest)


def test_rejected_facts_of_other_data_are_refused() -> None:
    factors = random_factors()
    with pytest.raises(InputError, match="knows no relation of the rejected facts"):
        found_cells(factors, 1, rejected=Facts.from_arrays(["x"], ["unheard of"], ["y"]))


def test_known_and_rejected_facts_are_left_out_and_unobserved_cells_are_not() -> None:
    factors, facts = random_factors(), random_facts()
    first, second, third = sorted_cells(factors, 3, "all")
    masked = Facts.from_ids(facts.triples, facts.entities, facts.relations, unobserved=np.array([first]))
    assert found_cells(random_factors(facts=masked), 2) == [first, second]
    accepted, rejected = (Facts.from_ids(np.array([cell]), facts.entities, facts.relations) for cell in (first, second))
    for further in (accepted, [accepted, facts]):
        assert found_cells(factors, 1, known=further, rejected=rejected) == [third]
    assert found_cells(factors, 1, rejected=[accepted, rejected]) == [third]


def test_of_too_many_cells_the_widest_choice_of_entities_with_few_enough_is_considered(monkeypatch: Any) -> None:
    factors = random_factors()
    sizes = {types: relatent.missing(factors, 5, types=types).n_cells for types in ("all", "roles", "seen")}
    assert sizes["all"] >= sizes["roles"] > sizes["seen"]
    for limit, chosen in ((sizes["all"], "all"), (sizes["seen"] - 1, "seen")):
        monkeypatch.setattr("relatent.analysis.missing.MAX_CELLS", limit)
        found = relatent.missing(factors, 5)
        assert (found.candidates, found.n_cells) == (chosen, sizes[chosen])


def test_types_of_an_object_with_a_method_allowed_are_respected() -> None:
    class Even:
        def allowed(self, relation: int, place: int) -> Any:
            return np.arange(N) % 2 == 0

    assert all(s % 2 == 0 == o % 2 for s, _, o in found_cells(random_factors(), 200, types=Even()))


@pytest.mark.parametrize("calibrate", [False, True])
def test_lift_probability_and_reason_of_a_row(calibrate: bool) -> None:
    facts = small_graphs.two_camps()
    fewer = facts.hold_out(facts.triples[5:6], masked=False)
    factors = relatent.RescalLogit(4, 0.1, 0.1, calibrate=calibrate).fit(fewer).factors_
    found = relatent.missing(factors, 1, reasons=True)
    [row] = found.missing
    assert (row.subject, row.relation, row.object) == fewer.named(facts.triples[5:6])[0]
    assert row.probability == factors.probability(row.subject, row.relation, row.object)
    rate = factors.calibration.base_rates[0] if factors.calibration else len(fewer) / 400
    assert row.lift == pytest.approx(row.probability / rate)
    assert row.reason is not None
    assert {row.subject, row.object} & {row.reason.subject, row.reason.object}
    assert found.to_dict()["missing"][0]["reason"]["influence"] > 0
    assert found.to_pandas().loc[0, "reason"] == " ".join(row.reason[:3])


def test_a_model_without_probabilities_orders_by_score() -> None:
    rows = relatent.missing(random_factors(**MODELS["no probabilities"]), 20).missing
    assert {row.probability for row in rows} == {None}
    assert [row.score for row in rows] == sorted((row.score for row in rows), reverse=True)


def test_progress_ends_with_all_cells() -> None:
    seen: list[tuple[int, int]] = []
    relatent.missing(random_factors(), 5, progress=lambda done, total, note: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1, got 0"),
        ({"k": True}, "k must be a whole number of at least 1, got True"),
        ({"types": "some"}, "types must be 'all', 'roles', 'seen' or an object"),
        ({"relations": "hates"}, "unknown relation 'hates'"),
        ({"entities": ["nobody"]}, "unknown entity 'nobody'"),
    ],
)
def test_impossible_requests_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        relatent.missing(random_factors(), **given)


def test_known_facts_of_another_graph_are_refused_and_so_is_a_model_without_any() -> None:
    with pytest.raises(InputError, match="the model knows no relation of the known facts"):
        relatent.missing(random_factors(), 3, known=relatent.read([("x", "y", "z")]))
    without = random_factors(facts=None)
    with pytest.raises(InputError, match="does not hold its facts, so all would be missing: give them, as known"):
        relatent.missing(without, 3)
    assert found_cells(without, 30, known=random_facts()) == found_cells(random_factors(), 30)


def test_facts_that_are_the_types_are_not_offered_unless_asked_for() -> None:
    kinds = [(f"p{i}", "rdf:type", "person") for i in range(6)] + [(f"c{i}", "rdf:type", "city") for i in range(3)]
    rows = [(f"p{i}", "lives in", f"c{i % 3}") for i in range(6)]
    facts = relatent.read([*kinds, *rows])
    typed = facts.with_types(rdf_types(facts))
    factors = relatent.RescalALS(3, 0.1, 0.1, max_iter=5, tol=1.0, calibrate=False).fit(typed).factors_
    assert {fact.relation for fact in relatent.missing(factors, 100).missing} == {"lives in"}
    assert relatent.missing(factors, 5, relations="rdf:type").missing
    offered = relatent.missing(factors, 100, relations="lives in").missing
    assert {fact.object for fact in offered} <= {"c0", "c1", "c2"}  # neither person nor city, which are types
