"""Entities that were split in two: are the halves found, and are the probabilities right?"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from timing import bar

import relatent
from relatent.analysis import duplicates as twins
from relatent.analysis.duplicate_features import CandidatePairs, candidate_pairs
from relatent.analysis.similarity import profiles
from relatent.evaluation.reliability import reliability

THRESHOLDS = (0.2, 0.5, 0.8)
WORLDS = {  # data, entities split, facts they have at least, facts that both halves get
    "codex-s, facts divided": ("codex-s", 100, 4, 0.0),
    "codex-s, facts divided, entities of 20 facts or more": ("codex-s", 100, 20, 0.0),
    "codex-s, a fifth of the facts shared": ("codex-s", 100, 4, 0.2),
    "kinships, facts divided": ("kinships", 10, 4, 0.0),
    "kinships, a fifth of the facts shared": ("kinships", 10, 4, 0.2),
}
SEEDS = (11, 12)  # evidence and settings were chosen on worlds of other seeds
Array = np.ndarray[Any, Any]
Facts = relatent.Facts


def duplicates(seed: int) -> dict[str, Any]:
    """Entities of CoDEx-S and of Kinships in two halves; the share of common facts told and not told.

    The models are plain fits (calibrate=False): only their vectors are compared.
    """
    found = {
        name: {f"seed {seed + one}": _measure(*world, seed + one) for one in SEEDS} for name, world in WORLDS.items()
    }
    return {
        "rank": 50,
        **found,
        "bars": {
            f"{name}, {told}, {what}": bar(
                float(np.mean([one[told][what] for one in found[name].values()])), least=least
            )
            for name in list(WORLDS)[:2]
            for told in ("told", "not told")
            for what, least in (("top 1", 0.7), ("top 10", 0.9))
        },
    }


def _measure(data: str, count: int, least: int, shared: float, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    facts = relatent.load_dataset(data)
    chosen = twins.entities_to_split(facts, count, rng, least)
    split, other = twins.split_entities(facts, chosen, shared, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.ConvergenceWarning)
        factors = relatent.RescalALS(50, 1.0, 1.0, calibrate=False).fit(split).factors_
    truth = set(zip(chosen.tolist(), other.tolist(), strict=True))
    B = profiles(factors)
    plain = np.array([int((B @ B[i] > B[i] @ B[j]).sum()) - 1 for a, b in truth for i, j in ((a, b), (b, a))])
    began = time.perf_counter()
    pairs = candidate_pairs(factors, split)
    seconds = time.perf_counter() - began
    return {
        "split entities": len(chosen),
        "entities": split.n_entities,
        "candidates": len(pairs.i),
        "seconds to collect them": seconds,
        "similar": {"top 1": float(np.mean(plain < 1)), "top 10": float(np.mean(plain < 10))},
        "not told": _judged(factors, split, pairs, truth, None, seed),
        "told": _judged(factors, split, pairs, truth, shared, seed),
    }


def _judged(
    factors: relatent.Factors,
    split: Facts,
    pairs: CandidatePairs,
    truth: set[tuple[int, int]],
    shared: float | None,
    seed: int,
) -> dict[str, Any]:
    began = time.perf_counter()
    classifiers = twins.learn_classifiers(factors, split, shared, seed)
    seconds = time.perf_counter() - began
    p = twins.pair_probabilities(pairs, classifiers, 2 * len(truth) / split.n_entities)
    is_twin = np.array([pair in truth for pair in zip(pairs.i.tolist(), pairs.j.tolist(), strict=True)])
    ranks = _ranks(pairs, p, truth)
    curve = reliability(is_twin, p, bins=10, above=0.05)
    return {
        "top 1": float(np.mean(ranks < 1)),
        "top 10": float(np.mean(ranks < 10)),
        "proposal": {str(at): _proposal(split, pairs, p, truth, at) for at in THRESHOLDS},
        "calibration": {
            "expected error, p > .05": curve.error,
            "predicted": curve.predicted.round(3).tolist(),
            "observed": curve.observed.round(3).tolist(),
            "pairs": curve.mass.tolist(),
        },
        "seconds to learn": seconds,
    }


def _ranks(pairs: CandidatePairs, p: Array, truth: set[tuple[int, int]]) -> Array:
    """How many are before the twin, for either half; endless where the twin is no candidate."""
    found = []
    for pair in truth:
        for own, twin in (pair, pair[::-1]):
            here = (pairs.i == own) | (pairs.j == own)
            partner = np.where(pairs.i[here] == own, pairs.j[here], pairs.i[here])
            right = p[here][partner == twin]
            found.append(float((p[here] >= right[0]).sum() - 1) if len(right) else np.inf)
    return np.array(found)


def _proposal(
    facts: Facts, pairs: CandidatePairs, p: Array, truth: set[tuple[int, int]], least: float
) -> dict[str, Any]:
    """Precision and recall of the pairs that would be merged."""
    n_facts = np.bincount(facts.triples[:, [0, 2]].ravel(), minlength=facts.n_entities)
    groups = twins.merge_groups(pairs, p, n_facts, twins.joined_pairs(facts), least)
    merged = {(min(a, b), max(a, b)) for members, _ in groups for a in members for b in members if a < b}
    right = len(merged & truth)
    return {"merged": len(merged), "precision": right / len(merged) if merged else None, "recall": right / len(truth)}
