"""Entities that were split in two: are the halves found, and are the probabilities right?"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from timing import bar

import relatent
from relatent.evaluation.reliability import reliability
from relatent.serve import duplicates as twins
from relatent.serve.queries import profiles

THRESHOLDS = (0.2, 0.5, 0.8)
KINDS = {"no fact shared": 0.0, "a fifth shared": 0.2}
Array = np.ndarray[Any, Any]
Facts = relatent.Facts


def duplicates(seed: int) -> dict[str, Any]:
    """CoDEx-S with 100 entities of 20 facts or more in two halves, and Kinships with a tenth of the persons."""
    codex, kinships = relatent.load_dataset("codex-s"), relatent.load_dataset("kinships")
    found: dict[str, Any] = {}
    for kind, shared in KINDS.items():
        found[f"codex-s, {kind}"] = _measure(codex, 100, 20, shared, seed)
        found[f"kinships, {kind}"] = _measure(kinships, kinships.n_entities // 10, 4, shared, seed)
    return {
        "rank": 50,
        **found,
        "bars": {
            f"codex-s, {kind}, {what}": bar(found[f"codex-s, {kind}"][what], least=least)
            for kind in KINDS
            for what, least in (("top 1", 0.7), ("top 10", 0.9))
        },
    }


def _measure(facts: Facts, count: int, least: int, shared: float, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    chosen = twins.to_split(facts, count, rng, least)
    split, other = twins.split_entities(facts, chosen, shared, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.ConvergenceWarning)
        factors = relatent.RescalALS(50, 1.0, 1.0).fit(split).factors_
    began = time.perf_counter()
    pairs = twins.candidates(factors, split)
    weighing = twins.learned(factors, split, seed)
    seconds = time.perf_counter() - began
    truth = set(zip(chosen.tolist(), other.tolist(), strict=True))
    is_twin = np.array([pair in truth for pair in zip(pairs.i.tolist(), pairs.j.tolist(), strict=True)])
    p = twins.probabilities(pairs, weighing, 2 * len(chosen) / split.n_entities)
    ranks = _ranks(pairs, p, truth)
    B = profiles(factors)
    plain = [int((B @ B[i] > B[i] @ B[j]).sum()) - 1 for a, b in truth for i, j in ((a, b), (b, a))]
    curve = reliability(is_twin, p, bins=10, above=0.05)
    return {
        "split entities": len(chosen),
        "entities": split.n_entities,
        "top 1": float(np.mean(ranks < 1)),
        "top 10": float(np.mean(ranks < 10)),
        "top 1 of 'similar'": float(np.mean(np.array(plain) < 1)),
        "top 10 of 'similar'": float(np.mean(np.array(plain) < 10)),
        "candidates that are twins": int(is_twin.sum()),
        "proposal": {str(at): _proposal(split, pairs, p, truth, at) for at in THRESHOLDS},
        "calibration": {
            "expected error, p > .05": curve.error,
            "predicted": curve.predicted.round(3).tolist(),
            "observed": curve.observed.round(3).tolist(),
            "pairs": curve.mass.tolist(),
        },
        "seconds": seconds,
    }


def _ranks(pairs: twins.Pairs, p: Array, truth: set[tuple[int, int]]) -> Array:
    """How many are before the twin, for either half; endless where the twin is no candidate."""
    found = []
    for pair in truth:
        for own, twin in (pair, pair[::-1]):
            here = (pairs.i == own) | (pairs.j == own)
            partner = np.where(pairs.i[here] == own, pairs.j[here], pairs.i[here])
            right = p[here][partner == twin]
            found.append(float((p[here] >= right[0]).sum() - 1) if len(right) else np.inf)
    return np.array(found)


def _proposal(facts: Facts, pairs: twins.Pairs, p: Array, truth: set[tuple[int, int]], least: float) -> dict[str, Any]:
    """Precision and recall of the pairs that would be merged."""
    n_facts = np.bincount(facts.triples[:, [0, 2]].ravel(), minlength=facts.n_entities)
    groups = twins.merge_groups(pairs, p, n_facts, twins.joined_pairs(facts), least)
    merged = {(min(a, b), max(a, b)) for members, _ in groups for a in members for b in members if a < b}
    right = len(merged & truth)
    return {"merged": len(merged), "precision": right / len(merged) if merged else None, "recall": right / len(truth)}
