"""What a newcomer gets: models without a single option, on data of very different kinds."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import relatent
from relatent.data.split import presidents_folds
from sparse_graphs import KINDS, sparse_graph

SEEDS = 5  # graphs per kind
PRESIDENTS_SEEDS = 3  # partitions into ten folds


def without_options(seed: int) -> dict[str, Any]:
    """Filtered MRR of withheld or test facts, average precision among unlisted cells, masked AUC-PR, accuracy.

    Fits are calibrated, as they are without options, and seconds count both fits.
    """
    relatent.RescalLogit(max_iter=1).fit(sparse_graph("films", seed))  # compiles
    seeds = range(seed + 1, seed + 1 + SEEDS)
    sparse = {kind: _columns([_on_sparse_graph(kind, s) for s in seeds]) for kind in KINDS}
    benchmarks = {name: _on_benchmark(name) for name in ("codex-s", "wn18rr", "fb15k-237")}
    return {"sparse": sparse, "benchmarks": benchmarks, "dense": _on_dense_data(seed)}


def _columns(graphs: list[dict[str, float]]) -> dict[str, Any]:
    """The figures of all graphs side by side, with their means."""
    values = {name: [graph[name] for graph in graphs] for name in graphs[0]}
    return {name: {"mean": float(np.mean(values[name])), "graphs": values[name]} for name in values}


def _on_sparse_graph(kind: str, seed: int) -> dict[str, float]:
    """One tenth of the facts is withheld, with their mirrors in symmetric relations."""
    train, test = relatent.split(sparse_graph(kind, seed), test_size=0.1, random_state=seed)
    found: dict[str, float] = {}
    for name, estimator in (("logit", relatent.RescalLogit()), ("als", relatent.RescalALS())):
        factors, found[f"{name}_seconds"] = _timed_fit(estimator, train)
        ranking = relatent.evaluate(factors, test)
        found |= {f"{name}_mrr": ranking.mrr, f"{name}_hits_10": ranking.hits[10]}
        found[f"{name}_average_precision"] = average_precision(factors, train, test)
    assert ranking.baseline is not None
    return found | {"frequency_mrr": ranking.baseline.mrr}


def _timed_fit(estimator: Any, train: relatent.Facts) -> tuple[relatent.Factors, float]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.RelatentWarning)
        estimator.fit(train)
    return estimator.factors_, time.perf_counter() - started


def average_precision(factors: relatent.Factors, train: relatent.Facts, test: relatent.Facts) -> float:
    """Of the withheld facts among all cells that are not in training, by probability."""
    scores, truth, everyone = [], [], np.arange(train.n_entities)
    for k in range(train.n_relations):
        questions = np.stack([everyone, np.full(len(everyone), k), np.full(len(everyone), -1)], axis=1)
        log_odds = factors.candidates.all_log_odds(questions, 2, factors.scores_of_all(everyone, k))
        unlisted, withheld = np.ones(log_odds.shape, bool), np.zeros(log_odds.shape, bool)
        for facts, mask, value in ((train, unlisted, False), (test, withheld, True)):
            s, _, o = facts.triples[facts.triples[:, 1] == k].T
            mask[s, o] = value
        scores.append(log_odds[unlisted])
        truth.append(withheld[unlisted])
    log_odds, is_true = np.concatenate(scores), np.concatenate(truth)
    above = log_odds >= log_odds[is_true].min()
    log_odds, is_true = log_odds[above], is_true[above]
    order = np.argsort(-log_odds, kind="stable")
    precision = np.cumsum(is_true[order]) / np.arange(1, len(order) + 1)
    return float(precision[is_true[order]].sum() / len(test))


def _on_benchmark(name: str) -> dict[str, Any]:
    """Test facts of a known benchmark among all entities; CoDEx-S also has statements verified to be false."""
    train, valid, test = relatent.load_splits(name)
    estimator = relatent.RescalLogit()
    factors, seconds = _timed_fit(estimator, train)
    ranking = relatent.evaluate(factors, test, known=valid, protocol="benchmark")
    assert ranking.baseline is not None
    found = {
        "mrr": ranking.mrr,
        "hits_10": ranking.hits[10],
        "frequency_mrr": ranking.baseline.mrr,
        "seconds": seconds,
        "chosen": factors.to_dict()["about"].get("chosen"),
    }
    if name == "codex-s":
        false_valid, false_test = relatent.load_negatives(name)
        truth = relatent.truth_test(factors, test, false_test, validation=valid, validation_negatives=false_valid)
        found["hard_negatives"] = truth.to_dict()
    return found


def _on_dense_data(seed: int) -> dict[str, Any]:
    """Ten folds, held-out cells masked; Presidents: the party of presidents, held-out facts set to zero."""
    found: dict[str, Any] = {}
    for name in ("kinships", "nations"):
        started = time.perf_counter()
        report = relatent.cross_validate(relatent.RescalLogit(), relatent.load_dataset(name), random_state=seed)
        found[name] = {"auc_pr": report.auc_pr, "std": report.auc_pr_std, "seconds": time.perf_counter() - started}
    facts = relatent.load_dataset("presidents")
    partitions = [
        presidents_folds(facts, persons="presidents", folds=10, random_state=s) for s in range(PRESIDENTS_SEEDS)
    ]
    reports = [
        relatent.cross_validate(relatent.RescalLogit(), facts, folds=folds, heldout="zero") for folds in partitions
    ]
    found["presidents"] = {"auc_pr": float(np.mean([report.auc_pr for report in reports]))}
    return found
