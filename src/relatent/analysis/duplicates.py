"""Entities that may be one and the same, with a probability for each pair, and a proposal which to merge.

What speaks for a pair is told by `evidence`. How it counts together is learned, never set: some entities are split in
two, a model is fitted to the facts with these planted twins, and a logistic regression tells twins from other pairs.
The splits come before the fit: halves of an entity that the model has seen whole are far too easy to tell.

Whether twins share facts is not known in advance. Two records of one person often have facts in common, but records
that were filled from different sources may have none. So some planted twins share none, others a fifth or more of
their facts, and pairs with and without a common fact are judged apart: what is shared is evidence of its own, and among
those who share something a pair without it would never be seen. Who knows better says so.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ..arrays import Ids, Mask, Matrix, Vector
from ..atomic_write import replacing
from ..data.facts import Facts
from ..errors import ConvergenceWarning, InputError
from ..fit.estimators.als import RescalALS
from ..model.factors import Factors
from ..progress import Progress
from .duplicate_features import FEWEST_FACTS, OF_HALVES, SIGNS, Pairs, collect

PLANTED = 12  # one entity of so many is split in two to learn from: more would make another world of it
FEWEST, MOST = 5, 500  # but at least and at most so many, if there are
ENOUGH, ROUNDS = 240, (4, 10)  # twins in all, and rounds of splitting and fitting: at least and at most
LEAST_TWINS = 3  # planted among those who share a fact, or share none, to learn from
RIDGE = 1.0  # on weights of evidence of unit spread
SHARED = (0.0, 0.2, 0.6, 1.0)  # of the facts, by both halves of planted pairs, in turn, where nothing is known of it
SWEEPS = 40  # of least squares
RANK, L2 = 100, 1.0  # of fits, at most, and where the model is not of least squares
MOST_ENTITIES = 50_000  # all are compared with all


class Duplicate(NamedTuple):
    """Two entities and the probability that they are one."""

    name: str
    other: str
    probability: float
    shared: int  # facts that both have
    joined: bool  # whether a fact says something of both: then they are not merged


class Merge(NamedTuple):
    """An entity that should go by another's name."""

    name: str
    into: str
    probability: float  # mean over the pairs it forms with its group
    facts: int


class Duplicates(NamedTuple):
    """Pairs, best first, and what to merge."""

    pairs: list[Duplicate]
    merges: list[Merge]


class Lesson(NamedTuple):
    """Pairs of planted halves with each other and with others.

    Pairs without a planted half are left out: among them are the duplicates that are looked for.
    """

    evidence: Matrix  # (n, len(SIGNS))
    shares: Mask  # (n,) whether the two have a fact in common
    is_twin: Mask  # (n,)


class Judge(NamedTuple):
    """How evidence makes log-odds."""

    weights: Vector
    intercept: float


Judges = tuple[Judge | None, Judge | None]  # of pairs that share no fact, and that share some; None: no duplicates


def duplicates(
    factors: Factors,
    known: Facts,
    entity: str | int | None = None,
    *,
    top: int = 100,
    least: float = 0.5,
    expected: float = 0.1,
    shared: float | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Duplicates:
    """Pairs of entities that may be the same, best first, and which of them to merge.

    Parameters
    ----------
    known : Facts
        The facts the model was learned from.
    entity : str, int or None
        Whose duplicates; None: of all entities.
    top : int
        How many pairs at most.
    least : float
        The probability from which on pairs are merged.
    expected : float
        The share of entities that are thought to have a duplicate. Facts alone cannot tell it: it moves all
        probabilities, and leaves their order.
    shared : float or None
        How much of its facts an entity is thought to share with its duplicate: 0 where every fact is under one of
        the two names only. None: not known.
    random_state : int
        For the choice of the entities that are split to learn from.
    progress : function or None
        Is told (done, of how many, what).
    """
    _check(top, least, expected, shared)
    one = None if entity is None else int(factors.entities.ids(entity))
    facts = known.over(factors.entities, factors.relations)
    _check_facts(facts)
    if progress is not None:
        progress(0, _rounds(facts) + 1, "comparing entities")
    pairs = collect(_by_squares(factors, facts), facts)
    judges = learned(factors, facts, shared, random_state, progress)
    p = probabilities(pairs, judges, expected)
    order = np.argsort(-p, kind="stable")
    if one is not None:
        order = order[(pairs.i[order] == one) | (pairs.j[order] == one)]
    joined = joined_pairs(facts)
    found = []
    for row in order[:top].tolist():
        i, j = int(pairs.i[row]), int(pairs.j[row])
        names = [factors.entities[k] for k in ((i, j) if one in (None, i) else (j, i))]
        found.append(Duplicate(names[0], names[1], float(p[row]), int(pairs.shared[row]), (i, j) in joined))
    n_facts = np.bincount(facts.triples[:, [0, 2]].ravel(), minlength=facts.n_entities)
    grouped = merge_groups(pairs, p, n_facts, joined, least)
    if one is not None:
        grouped = [group for group in grouped if one in group[0]]
    return Duplicates(found, _merges(factors, grouped, n_facts))


def _check(top: int, least: float, expected: float, shared: float | None) -> None:
    if top < 1:
        raise InputError(f"top must be at least 1, got {top}")
    if not 0 < least <= 1:
        raise InputError(f"least must be above 0 and at most 1, got {least}")
    if not 0 < expected <= 1:
        raise InputError(f"expected must be above 0 and at most 1, got {expected}")
    if shared is not None and not 0 <= shared <= 1:
        raise InputError(f"shared must be between 0 and 1, got {shared}")


def _check_facts(facts: Facts) -> None:
    if not len(facts):
        raise InputError("known has no fact about the model's entities; give the facts the model was learned from")
    if facts.n_entities > MOST_ENTITIES:
        raise InputError(
            f"duplicates are looked for among at most {MOST_ENTITIES:,} entities, there are {facts.n_entities:,}; "
            "leave out kinds that have none"
        )


# --- how much it counts


def learned(
    factors: Factors, facts: Facts, shared: float | None, random_state: int, progress: Progress | None = None
) -> Judges:
    """What planted twins teach."""
    found, rounds = [], _rounds(facts)
    for turn in range(rounds):
        if progress is not None:
            progress(turn + 1, rounds + 1, f"learning from entities split in two, {turn + 1} of {rounds}")
        found.append(_planted(factors, facts, shared, np.random.default_rng([random_state, turn])))
    evidence, shares, is_twin = (np.concatenate(column) for column in zip(*found, strict=True))
    evidence[shares, OF_HALVES] = 0
    return _judge(evidence[~shares], is_twin[~shares]), _judge(evidence[shares], is_twin[shares])


def _judge(evidence: Matrix, is_twin: Mask) -> Judge | None:
    """Logistic regression on evidence of unit spread; None if there are next to no twins.

    Weights have the sign that their evidence must have: who has more of it than any planted twin shall not lose by it.
    """
    if is_twin.sum() < LEAST_TWINS or is_twin.all():
        return None
    mean, spread = evidence.mean(axis=0), evidence.std(axis=0)
    scale = np.where(spread > 1e-9, SIGNS / np.maximum(spread, 1e-9), 0)  # what all have alike tells nothing
    X, y = (evidence - mean) * scale, is_twin.astype(np.float64)

    def loss(w: Vector) -> tuple[float, Vector]:
        theta = X @ w[1:] + w[0]
        slope = expit(theta) - y
        value = (np.logaddexp(0, theta) - y * theta).sum() + 0.5 * RIDGE * (w[1:] @ w[1:])
        return float(value), np.concatenate([[slope.sum()], X.T @ slope + RIDGE * w[1:]])

    start = np.concatenate([[np.log(y.mean() / (1 - y.mean()))], np.full(len(SIGNS), 0.1)])
    bounds = [(None, None)] + [(0.0, None)] * len(SIGNS)
    w = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Judge(w[1:] * scale, float(w[0] - (w[1:] * scale) @ mean))


def _rounds(facts: Facts) -> int:
    return int(np.clip(-(-ENOUGH // _how_many(facts)), *ROUNDS))


def _how_many(facts: Facts) -> int:
    """How many entities are split at a time."""
    return min(max(FEWEST, facts.n_entities // PLANTED), MOST, max(2, facts.n_entities // 2))


def _planted(factors: Factors, facts: Facts, shared: float | None, rng: np.random.Generator) -> Lesson:
    """What there is to learn after a split of some entities."""
    chosen = to_split(facts, _how_many(facts), rng)
    if len(chosen) < 2:
        raise InputError(
            f"at least 2 entities with {FEWEST_FACTS} facts or more are needed to learn from, got {len(chosen)}"
        )
    kinds = SHARED if shared is None else (shared,)
    planted, twins = split_entities(facts, chosen, rng.permutation(np.resize(kinds, len(chosen))), rng)
    pairs = collect(_fitted(factors, planted), planted)
    twin_of = np.full(planted.n_entities, -1)
    twin_of[chosen], twin_of[twins] = twins, chosen
    of_a_half = (twin_of[pairs.i] >= 0) | (twin_of[pairs.j] >= 0)
    is_twin = twin_of[pairs.i] == pairs.j
    return Lesson(pairs.evidence[of_a_half], pairs.shared[of_a_half] > 0, is_twin[of_a_half])


def _by_squares(factors: Factors, facts: Facts) -> Factors:
    """The model, if it is of least squares; otherwise one that is: what is learned from is of that kind as well."""
    return factors if _is_alike(factors) else _fitted(factors, facts)


def _is_alike(factors: Factors) -> bool:
    return factors.about.get("model") == RescalALS.__name__ and factors.rank <= RANK


def _fitted(factors: Factors, facts: Facts) -> Factors:
    """Least squares with the rank and the penalty of a model, if it has such."""
    l2 = float(factors.about.get("settings", {}).get("l2_entities", L2)) if _is_alike(factors) else L2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return RescalALS(min(factors.rank, RANK), l2, l2, max_iter=SWEEPS).fit(facts).factors_


def to_split(facts: Facts, count: int, rng: np.random.Generator, least: int | None = None) -> Ids:
    """Entities with at least so many facts; None: as many as half of the entities have, and FEWEST_FACTS."""
    degree = np.bincount(facts.triples[:, [0, 2]].ravel(), minlength=facts.n_entities)
    least = max(FEWEST_FACTS, int(np.median(degree[degree > 0]))) if least is None else least
    enough = np.flatnonzero(degree >= least)
    return np.sort(rng.choice(enough, min(count, len(enough)), replace=False))


def split_entities(facts: Facts, chosen: Ids, shared: Vector | float, rng: np.random.Generator) -> tuple[Facts, Ids]:
    """Facts in which each chosen entity has a twin, and the ids of the twins.

    A fact goes to both with the probability `shared`, otherwise to one of the two.
    """
    n, T = facts.n_entities, facts.triples.astype(np.int64)
    share, twin = np.zeros(n + len(chosen)), np.full(n + len(chosen), -1)
    share[chosen], twin[chosen] = shared, n + np.arange(len(chosen))
    for column in (0, 2):
        own, u = T[:, column], rng.random(len(T))
        split = twin[own] >= 0
        copied = T[split & (u < share[own])]
        copied[:, column] = twin[copied[:, column]]
        moves = split & (u >= (1 + share[own]) / 2)
        T[moves, column] = twin[own[moves]]
        T = np.concatenate([T, copied])
    names = facts.entities.extended(_new_names(facts, chosen))
    return Facts.from_ids(T.astype(np.int32), names, facts.relations), twin[chosen]


def _new_names(facts: Facts, chosen: Ids) -> list[str]:
    found = []
    for i in chosen.tolist():
        name = f"{facts.entities[i]} (2)"
        while name in facts.entities:
            name += "'"
        found.append(name)
    return found


def probabilities(pairs: Pairs, judges: Judges, expected: float) -> Vector:
    """The probability of each pair. Of the planted halves all have a twin, of entities the share that is expected."""
    p, shares = np.zeros(len(pairs.i)), pairs.shared > 0
    for judge, rows in zip(judges, (~shares, shares), strict=True):
        if judge is not None and rows.any():
            theta = pairs.evidence[rows] @ judge.weights + judge.intercept
            p[rows] = expit(theta + np.log(expected))
    return p


# --- what to merge


def joined_pairs(facts: Facts) -> set[tuple[int, int]]:
    """Pairs i < j with a fact between the two: one entity would have it with itself."""
    pairs = np.sort(facts.triples[:, [0, 2]], axis=1)
    return set(map(tuple, np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0).tolist()))


def merge_groups(
    pairs: Pairs, p: Vector, n_facts: NDArray[np.int64], apart: set[tuple[int, int]], least: float
) -> list[tuple[list[int], float]]:
    """Groups to be merged, the entity with most facts first, each with the mean probability of its pairs.

    Best pairs first; two groups become one if the mean over the pairs between them, 0 where a pair is no candidate,
    is still `least`, and no fact joins them. So a chain of doubtful pairs does not grow.
    """
    order = np.argsort(-p, kind="stable")
    order = order[p[order] >= least]
    listed = {(int(pairs.i[row]), int(pairs.j[row])): float(p[row]) for row in order.tolist()}
    group: dict[int, list[int]] = {}
    for i, j in listed:
        left, right = group.get(i, [i]), group.get(j, [j])
        if left is right:
            continue
        between = [(min(a, b), max(a, b)) for a in left for b in right]
        if any(pair in apart for pair in between) or np.mean([listed.get(pair, 0.0) for pair in between]) < least:
            continue
        together = left + right
        for member in together:
            group[member] = together
    found = []
    for members in {id(members): members for members in group.values()}.values():
        ranked = sorted(members, key=lambda i: (-int(n_facts[i]), i))
        inside = [listed.get((min(a, b), max(a, b)), 0.0) for k, a in enumerate(ranked) for b in ranked[:k]]
        found.append((ranked, float(np.mean(inside))))
    return sorted(found, key=lambda one: -one[1])


def _merges(factors: Factors, grouped: Sequence[tuple[list[int], float]], n_facts: NDArray[np.int64]) -> list[Merge]:
    return [
        Merge(factors.entities[i], factors.entities[members[0]], probability, int(n_facts[i]))
        for members, probability in grouped
        for i in members[1:]
    ]


def write_merges(merges: Sequence[Merge], path: Path) -> None:
    """A TSV file with a heading: which entity goes into which, how probably, and how many facts it has."""
    try:
        with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, delimiter="\t", lineterminator="\n")
            rows.writerow(Merge._fields)
            rows.writerows((one.name, one.into, f"{one.probability:.4f}", one.facts) for one in merges)
    except OSError as error:
        raise InputError(f"{path}: the table could not be written: {error.strerror or error}") from error
