"""Lists to work through: missing facts beside brute force and frequency, and planted errors among doubtful facts."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from timing import bar

import relatent
from relatent import Factors, Facts
from relatent.model.candidates import OPEN, Judged
from relatent.model.candidates import best_first as likeliest_first
from relatent.model.known_facts import KnownFacts
from relatent.model.scores import best_first
from sparse_graphs import sparse_graph

SHARE_WRONG = 0.02
DOUBT_GRAPHS = ("films", "shopping", "taxonomy", "biology", "kinships", "nations")
MIN_EXPECTED, MAX_RATIO = 30, 1.5  # of wrong facts in a group whose expected and true numbers are compared
MISSING_GRAPHS = ("films", "shopping", "codex-s")
K_EQUAL, SHARE_WITHHELD = 1000, 0.1
NEAR = 1e-6  # log-odds: a rounding error
N_LARGE, K_LARGE, RANK_LARGE, FACTS_LARGE = 100_000, 100, 64, 1_000_000
Array = np.ndarray[Any, Any]


def doubt(seed: int) -> dict[str, Any]:
    """Precision at the number planted: by the score alone and by `doubt`; any entity, and one seen in that place.

    Fits are plain (calibrate=False): doubts have probabilities of their own.
    """
    found: dict[str, Any] = {}
    for name in DOUBT_GRAPHS:
        for how in ("any", "seen there"):
            facts, is_wrong = _planted(_data(name), how == "seen there", np.random.default_rng(seed))
            factors = _fit(facts, calibrate=False)
            began = time.perf_counter()
            listed = relatent.doubt(factors, len(facts), prior=SHARE_WRONG)
            seconds = time.perf_counter() - began
            wrong = set(facts.named(facts.triples[is_wrong]))
            found_wrong = np.array([fact[:3] in wrong for fact in listed.doubtful])
            expected = np.array([fact.doubt for fact in listed.doubtful])
            theta = np.asarray(factors.score(*facts.triples.T), np.float64)
            found[f"{name}, {how}"] = {
                "facts": len(facts),
                "planted": len(wrong),
                "chance": float(is_wrong.mean()),
                "score alone": float(is_wrong[best_first(-theta, len(wrong))].mean()),
                "doubt": float(found_wrong[: len(wrong)].mean()),
                "expected wrong in that list": float(expected[: len(wrong)].sum()),
                "expected and wrong by groups": _groups(expected, found_wrong),
                "seconds": seconds,
            }
    bars = {}
    for name, row in found.items():
        bars[f"{name}, times chance"] = bar(row["doubt"] / row["chance"], least=5.0)
        bars[f"{name}, minus the score alone"] = bar(row["doubt"] - row["score alone"], least=0.0)
        ratios = [said / max(true, 0.5) for said, true in row["expected and wrong by groups"]]
        if ratios:
            furthest = max(max(ratio, 1 / ratio) for ratio in ratios)
            bars[f"{name}, expected over wrong, furthest group"] = bar(furthest, most=MAX_RATIO)
    return {**found, "bars": bars}


def _groups(expected: Array, is_wrong: Array) -> list[list[float]]:
    """Expected and true numbers of wrong facts, of consecutive facts that are expected to have 30 of them."""
    group = (np.cumsum(expected) // MIN_EXPECTED).astype(int)
    sums = [np.bincount(group, column) for column in (expected, is_wrong)]
    return [[float(said), float(true)] for said, true in zip(*sums, strict=True) if said >= 0.9 * MIN_EXPECTED]


def missing(seed: int) -> dict[str, Any]:
    """The list of a calibrated model and of sorting all cells; precision on withheld facts; seconds on 10¹² cells."""
    found: dict[str, Any] = {name: _missing_of(name, seed) for name in MISSING_GRAPHS}
    found["100,000 entities, 100 relations"] = large = _large(seed)
    bars = {
        f"{name}, equal": bar(float(found[name]["equal to sorting all cells"]), least=1.0) for name in MISSING_GRAPHS
    }
    return {**found, "bars": {**bars, "100,000 entities, 100 relations, seconds": bar(large["seconds"], most=60.0)}}


def _missing_of(name: str, seed: int) -> dict[str, Any]:
    facts = _data(name)
    train, withheld = relatent.split(facts, test_size=SHARE_WITHHELD, random_state=seed)
    factors, k = _fit(train), len(withheld)
    began = time.perf_counter()
    listed = relatent.missing(factors, max(k, K_EQUAL))
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    sorted_all = _sorted(factors, K_EQUAL)
    true, by_frequency = set(withheld.named()), _most_frequent(train, k)
    return {
        "cells": listed.n_cells,
        "share of cells scored": listed.n_scored / listed.n_cells,
        "seconds": seconds,
        "seconds of sorting all cells": time.perf_counter() - began,
        "equal to sorting all cells": [fact[:3] for fact in listed.missing[:K_EQUAL]] == sorted_all,
        "withheld": k,
        "precision at 100": float(np.mean([fact[:3] in true for fact in listed.missing[:100]])),
        "precision at the number withheld": float(np.mean([fact[:3] in true for fact in listed.missing[:k]])),
        "of frequency, at 100": float(np.mean([fact in true for fact in by_frequency[:100]])),
        "of frequency, at the number withheld": float(np.mean([fact in true for fact in by_frequency])),
    }


def _places(known: KnownFacts) -> list[tuple[Array, Array, Array]]:
    """Subjects and objects seen in each relation, and which of their cells are absent."""
    found = []
    for k in range(known.n_relations):
        s, o = known.ends(k)
        absent = np.asarray(known.facts.matrix(k)[s][:, o].todense() == 0)
        loops = known.facts.matrix(k).diagonal().any()
        found.append((s, o, absent & (loops | (s[:, None] != o))))
    return found


def _sorted(factors: Factors, k: int) -> list[tuple[str, str, str]]:
    """The best absent cells by sorting all of them: by fast products, then those that come near in double precision."""
    facts, asked, parts = factors.facts, factors.candidates, []
    assert facts is not None
    everyone, R = np.arange(facts.n_entities), factors.relation_matrices.astype(np.float64)
    A, bias = factors.A.astype(np.float64), factors.bias.astype(np.float64)
    for relation in range(facts.n_relations):
        theta = R.times(A, relation) @ A.T + bias[relation]
        X = facts.matrix(relation)
        theta[X.nonzero()] = -np.inf
        if not X.diagonal().any():
            np.fill_diagonal(theta, -np.inf)
        questions = np.stack([everyone, np.full(len(everyone), relation), np.full(len(everyone), OPEN)], axis=1)
        log_odds = asked.all_log_odds(questions, 2, theta)
        s, o = np.nonzero(log_odds >= np.partition(log_odds.ravel(), -k)[-k] - NEAR)
        parts.append(np.stack([s, np.full(len(s), relation), o], axis=1)[log_odds[s, o] > -np.inf])
    judged: Judged = asked.judge(np.concatenate(parts))
    best: Array = judged.cells[likeliest_first(judged)[:k]]
    return facts.named(best)


def _most_frequent(facts: Facts, k: int) -> list[tuple[str, str, str]]:
    """The absent cells whose subject and object are most frequent in their places of the relation."""
    parts, known = [], KnownFacts(facts)
    for relation, (s, o, absent) in enumerate(_places(known)):
        X = known.facts.matrix(relation)
        out, into = np.asarray(X.sum(axis=1)).ravel()[s], np.asarray(X.sum(axis=0)).ravel()[o]
        row, column = np.nonzero(absent)
        expected = out[row] * into[column] / max(X.nnz, 1)
        parts.append(np.stack([expected, s[row], np.full(len(row), relation), o[column]], axis=1))
    cells = np.concatenate(parts)
    return facts.named(cells[best_first(cells[:, 0], k), 1:].astype(int))


def _large(seed: int) -> dict[str, Any]:
    """Random factors and facts; each relation has places of some thousands of entities, as typed data has."""
    rng = np.random.default_rng(seed)
    n_per_relation = FACTS_LARGE // K_LARGE
    columns = []
    for k in range(K_LARGE):
        places = [rng.choice(N_LARGE, size, replace=False) for size in rng.integers(1000, 20_000, 2)]
        s, o = (ids[(len(ids) * rng.random(n_per_relation) ** 2).astype(int)] for ids in places)
        columns.append(np.stack([s, np.full(n_per_relation, k), o]))
    facts = Facts.from_arrays(*np.concatenate(columns, axis=1), n_entities=N_LARGE, n_relations=K_LARGE)
    A = rng.normal(size=(N_LARGE, RANK_LARGE)).astype(np.float32)
    R = (rng.normal(size=(K_LARGE, RANK_LARGE, RANK_LARGE)) / RANK_LARGE**1.5).astype(np.float32)
    factors = Factors(A, R, np.full(K_LARGE, -8, np.float32), facts.entities, facts.relations)
    began, cpu = time.perf_counter(), time.process_time()
    listed = relatent.missing(factors, 1000, known=facts)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "facts": len(facts),
        "CPU seconds": cpu,
        "rank": RANK_LARGE,
        "all cells": float(N_LARGE) ** 2 * K_LARGE,
        "cells whose entities are seen there": listed.n_cells,
        "share of these scored": listed.n_scored / listed.n_cells,
        "seconds": seconds,
    }


def _data(name: str) -> Facts:
    if name == "codex-s":
        return relatent.load_splits(name)[0]
    return relatent.load_dataset(name) if name in ("kinships", "nations") else sparse_graph(name, 0)


def _fit(facts: Facts, *, calibrate: bool = True) -> Factors:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.RelatentWarning)
        max_iter = 60 if len(facts) > 20_000 else 500
        return relatent.RescalLogit(max_iter=max_iter, calibrate=calibrate).fit(facts).factors_


def _planted(facts: Facts, seen_there: bool, rng: np.random.Generator) -> tuple[Facts, Array]:
    """2 % of the facts with another subject or object; which of the facts that makes are wrong."""
    cells = facts.triples.astype(np.int64)
    for i in rng.choice(len(cells), int(SHARE_WRONG * len(cells)), replace=False):
        cell, place = cells[i].copy(), 2 * int(rng.integers(2))
        pool = np.unique(facts.triples[facts.triples[:, 1] == cell[1], place]) if seen_there else facts.n_entities
        for _ in range(100):
            cell[place] = rng.choice(pool)
            if not facts.contains(cell[None])[0] and cell[0] != cell[2]:
                cells[i] = cell
                break
    planted = Facts.from_ids(cells, facts.entities, facts.relations)
    return planted, ~facts.contains(planted.triples)
