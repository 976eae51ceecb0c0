"""Entities that come after the fit: how good their folded vectors are, and how long they take."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from timing import bar, summary, timed

import relatent
from relatent.data.names import Names
from relatent.evaluation.metrics import measure
from relatent.model.links import SmoothLink

RANK, GIVEN = 50, 20  # facts of each newcomer
Array = np.ndarray[Any, Any]
Facts = relatent.Facts


def fold_in(seed: int, rounds: int = 3) -> dict[str, Any]:
    """Kinships without a tenth of the persons, who come back with 20 facts each; and a newcomer among a million.

    Fits are plain (calibrate=False): scores are compared.
    """
    models = {
        "als": relatent.RescalALS(RANK, 10.0, 10.0, calibrate=False),
        "logit": relatent.RescalLogit(RANK, 1.0, 1.0, calibrate=False),
    }
    found: dict[str, Any] = {name: _kinships(model, seed, rounds) for name, model in models.items()}
    million = _million(seed)
    return {
        "rank": RANK,
        "facts given": GIVEN,
        **found,
        "a million entities, least squares": million,
        "bars": {
            "als: AUC-PR over a refit's": bar(found["als"]["auc_pr"] / found["als"]["auc_pr_of_refit"], least=0.9),
            "logit: AUC-PR over a refit's": bar(
                found["logit"]["auc_pr"] / found["logit"]["auc_pr_of_refit"], least=0.9
            ),
            "als: ms an entity": bar(found["als"]["ms_an_entity"]["best"], most=5),
            "logit: ms an entity": bar(found["logit"]["ms_an_entity"]["best"], most=50),
            "als among a million: ms an entity": bar(million["ms_an_entity"]["best"], most=5),
        },
    }


def _kinships(model: Any, seed: int, rounds: int) -> dict[str, Any]:
    """Mean AUC-PR over the newcomers' other cells, by folding in and by a refit that has the same facts."""
    facts = relatent.load_dataset("kinships")
    scores, refits, seconds = [], [], []
    for one in range(seed, seed + rounds):
        stayed, given, cells = _left_out(facts, one)
        fitted = model.fit(_named(facts, stayed))
        newcomers = _named(facts, given)
        fitted.factors_.fold_in(newcomers, others=1.0)  # warm
        took, grown = timed(lambda: fitted.factors_.fold_in(newcomers, others=1.0))  # noqa: B023  (called at once)
        seconds.append(1e3 * took / (facts.n_entities // 10))
        scores.append(_auc_pr(grown, facts, cells))
        with_all = Facts.from_ids(np.concatenate([stayed, given]), facts.entities, facts.relations, unobserved=cells)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", relatent.ConvergenceWarning)
            refits.append(_auc_pr(model.fit(with_all).factors_, facts, cells))
    return {
        "auc_pr": float(np.mean(scores)),
        "auc_pr_of_refit": float(np.mean(refits)),
        "auc_pr_by_round": scores,
        "auc_pr_of_refit_by_round": refits,
        "ms_an_entity": summary(seconds),
    }


def _left_out(facts: Facts, seed: int) -> tuple[Array, Array, Array]:
    """Facts among those who stayed, 20 facts of each newcomer with them, and the newcomers' other cells."""
    rng, n = np.random.default_rng(seed), facts.n_entities
    new = np.zeros(n, bool)
    new[rng.choice(n, n // 10, replace=False)] = True
    s_new, o_new = new[facts.subjects], new[facts.objects]
    given = []
    for i in np.flatnonzero(new):
        own = np.flatnonzero(((facts.subjects == i) & ~o_new) | ((facts.objects == i) & ~s_new))
        given.append(facts.triples[rng.choice(own, GIVEN, replace=False)])
    chosen = np.concatenate(given)
    grid = np.stack(np.meshgrid(np.arange(n), np.arange(facts.n_relations), np.arange(n), indexing="ij"), axis=-1)
    cells = grid.reshape(-1, 3)
    cells = cells[new[cells[:, 0]] | new[cells[:, 2]]]
    known = Facts.from_ids(chosen, facts.entities, facts.relations).contains(cells)
    return facts.triples[~s_new & ~o_new], chosen, cells[~known]


def _named(facts: Facts, triples: Array) -> Facts:
    """These facts over a vocabulary of their own."""
    return Facts.from_arrays(*zip(*facts.named(triples), strict=True), relation_names=list(facts.relations))


def _auc_pr(factors: relatent.Factors, facts: Facts, cells: Array) -> float:
    entities, relations = factors.entities.translate(facts.entities), factors.relations.translate(facts.relations)
    here = np.stack([entities[cells[:, 0]], relations[cells[:, 1]], entities[cells[:, 2]]], axis=1)
    theta = np.asarray(factors.score(*here.T), np.float64)
    return measure(facts.contains(cells), theta, factors.link.probability(theta, here[:, 1])).auc_pr


def _million(seed: int, n: int = 1_000_000, n_relations: int = 5, newcomers: int = 100) -> dict[str, Any]:
    """Random factors of a million entities, and newcomers with 20 facts each, all in one call."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, RANK)).astype(np.float32)
    R = rng.normal(size=(n_relations, RANK, RANK)).astype(np.float32)
    factors = relatent.Factors(
        A, R, np.zeros(n_relations, np.float32), Names(n), Names(n_relations, what="relation"), SmoothLink()
    )
    names = [f"newcomer {i}" for i in range(newcomers)]
    facts = Facts.from_arrays(
        np.repeat(names, GIVEN),
        rng.integers(n_relations, size=newcomers * GIVEN).astype(str),
        rng.integers(n, size=newcomers * GIVEN).astype(str),
    )
    seconds = [timed(lambda: factors.fold_in(facts, others=1.0))[0] for _ in range(3)]
    return {"newcomers": newcomers, "ms_an_entity": summary([1e3 * one / newcomers for one in seconds])}
