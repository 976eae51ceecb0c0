"""Entities that may be one and the same, with a probability for each pair, and a proposal which to merge.

What speaks for a pair is told by a few scores, each of which alone would do on easy data:

    latent        how much likelier the two vectors are if one entity made both (two-covariance PLDA). Vectors are found
                  anew from the entity's facts, zeros counting little: a fact of one is a zero of its twin.
    companions    facts of the one that often come together with facts of the other
    neighbours    entities that both have to do with, rare ones counting more, whatever the relation
    kinds         relations in which both have facts

A score is told beside the best that either entity has with anybody (as speaker recognition normalises scores): a
pair must stand out among the pairs of both. How the scores count together is learned, never set: some entities are
split in two, a model is fitted to the facts with these planted twins, and a logistic regression tells twins from the
others. Its weights are at least 0. Otherwise planted twins, of which many share no fact, would teach that having
nothing in common speaks for a pair.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ..arrays import Ids, Mask, Matrix, Vector
from ..data.facts import Facts
from ..errors import ConvergenceWarning, InputError
from ..fit.estimators import RescalALS
from ..model.factors import Factors
from ..model.folding import Listed, by_squares
from ..writing import beside

EVIDENCE = ("latent", "companions", "neighbours", "kinds")
OTHERS = 0.02  # weight of an unlisted cell as a zero, when vectors are found anew
HALVED = 800  # entities whose halves show how much vectors of one entity differ
PLANTED = 20  # one entity of so many is split in two to learn from: more would make another world of it
FEWEST, MOST = 20, 500  # but at least and at most so many, if there are
ROUNDS = 2  # of splitting and fitting
SHARED = (0.0, 0.2, 0.6)  # of the facts, by both halves of planted pairs, in turn
RIVALS = 50  # best scores of an entity that others are told beside
CANDIDATES = 20  # of each entity by each score
CELLS = 1 << 23  # scores in memory at a time
HUB = 2000  # facts of an entity, beyond which its pairs of facts are not counted
SWEEPS = 40  # of least squares, to facts with planted twins
BOUNDS, BENDS = (-5.0, 20.0), (0.0, 2.0, 5.0)  # of scores, in spreads of an entity's best


class Duplicate(NamedTuple):
    """Two entities and the probability that they are one."""

    name: str
    other: str
    probability: float
    shared: int  # facts that both have


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


class Pairs(NamedTuple):
    """Candidate pairs i < j and what speaks for each."""

    i: Ids  # (n,)
    j: Ids  # (n,)
    scores: Matrix  # (n, len(EVIDENCE))


class Weighing(NamedTuple):
    """How bent scores make log-odds, beside the logarithm of the share of entities that have a duplicate."""

    weights: Vector
    intercept: float


def duplicates(
    factors: Factors,
    known: Facts,
    entity: str | int | None = None,
    *,
    top: int = 100,
    least: float = 0.5,
    expected: float = 0.1,
    random_state: int = 0,
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
    random_state : int
        For the choice of the entities that are split to learn from.
    """
    _check(top, least, expected)
    one = None if entity is None else int(factors.entities.ids(entity))
    facts = known.over(factors.entities, factors.relations)
    if not len(facts):
        raise InputError("known has no fact about the model's entities; give the facts the model was learned from")
    pairs = candidates(factors, facts)
    weighing = learned(factors, facts, random_state)
    p = probabilities(pairs, weighing, expected)
    order = np.argsort(-p, kind="stable")
    if one is not None:
        order = order[(pairs.i[order] == one) | (pairs.j[order] == one)]
    X, _ = fact_table(facts)
    n_facts = np.asarray(X.sum(axis=1)).ravel().astype(np.int64)
    found = []
    for row in order[:top].tolist():
        i, j = int(pairs.i[row]), int(pairs.j[row])
        a, b = (i, j) if one in (None, i) else (j, i)
        shared = int(X[i].multiply(X[j]).sum())
        found.append(Duplicate(factors.entities[a], factors.entities[b], float(p[row]), shared))
    grouped = merge_groups(pairs, p, n_facts, joined_pairs(facts), least)
    if one is not None:
        grouped = [group for group in grouped if one in group[0]]
    return Duplicates(found, _merges(factors, grouped, n_facts))


def _check(top: int, least: float, expected: float) -> None:
    if top < 1:
        raise InputError(f"top must be at least 1, got {top}")
    if not 0 < least <= 1:
        raise InputError(f"least must be above 0 and at most 1, got {least}")
    if not 0 < expected <= 1:
        raise InputError(f"expected must be above 0 and at most 1, got {expected}")


# --- what speaks for a pair


def fact_table(facts: Facts) -> tuple[sp.csr_matrix, NDArray[np.int64]]:
    """Which entity has which fact, (N, D), a fact being relation, role and partner; and relation and role, (D,)."""
    s, k, o = facts.triples.astype(np.int64).T
    n = facts.n_entities
    rows, codes = np.concatenate([s, o]), np.concatenate([2 * k * n + o, (2 * k + 1) * n + s])
    distinct, columns = np.unique(codes, return_inverse=True)
    X = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, len(distinct)))
    return X, distinct // n


def candidates(factors: Factors, facts: Facts) -> Pairs:
    """The pairs that are best by some score for one of both, with all scores."""
    n = facts.n_entities
    X, code = fact_table(facts)
    sides = [latent(factors, facts), companions(X), neighbours(facts), kinds(X, code, facts.n_relations)]
    mean, spread = np.zeros((len(sides), n)), np.ones((len(sides), n))
    keys: list[Ids] = []
    values: list[Matrix] = []
    step = max(1, CELLS // max(n, 1))
    has_facts = np.diff(X.indptr) > 0
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        S = np.stack([_product(left[rows], right) for left, right in sides])  # (scores, b, N)
        S[:, rows - start, rows] = -np.inf
        S[:, :, ~has_facts] = -np.inf
        chosen = []
        for number, scores in enumerate(S):
            best = _best(scores, min(RIVALS, n - 1))
            mean[number, rows], spread[number, rows] = _rivals(np.take_along_axis(scores, best, axis=1))
            chosen.append(_best(scores, min(CANDIDATES, n - 1)))
        at = np.concatenate(chosen, axis=1)
        here = np.repeat(np.arange(len(rows)), at.shape[1])
        there = at.ravel()
        key, first = np.unique(here * n + there, return_index=True)
        here, there = here[first], there[first]
        fine = has_facts[rows[here]] & np.isfinite(S[0, here, there])
        here, there = here[fine], there[fine]
        keys.append(np.minimum(rows[here], there) * np.int64(n) + np.maximum(rows[here], there))
        values.append(S[:, here, there].T)
    key, first = np.unique(np.concatenate(keys), return_index=True)
    i, j = key // n, key % n
    raw = np.concatenate(values)[first].T  # (scores, pairs)
    apart = (raw - mean[:, i]) / spread[:, i] + (raw - mean[:, j]) / spread[:, j]
    return Pairs(i, j, np.clip(apart.T / 2, *BOUNDS))


def _product(left: Matrix | sp.csr_matrix, right: Matrix | sp.csr_matrix) -> Matrix:
    S = left @ right.T
    return S.toarray() if sp.issparse(S) else S  # type: ignore[union-attr]


def _best(scores: Matrix, count: int) -> Ids:
    return np.argpartition(-scores, max(count - 1, 0), axis=1)[:, :count]


def _rivals(best: Matrix) -> tuple[Vector, Vector]:
    """Mean and spread of the best scores of each row, those of nobody left out."""
    some = np.isfinite(best)
    count = np.maximum(some.sum(axis=1), 1)
    mean = np.where(some, best, 0).sum(axis=1) / count
    spread = np.sqrt((np.where(some, best - mean[:, None], 0) ** 2).sum(axis=1) / count)
    return mean, np.maximum(spread, 1e-3 * np.maximum(np.abs(mean), 1e-3))


def latent(factors: Factors, facts: Facts) -> tuple[Matrix, Matrix]:
    """Two tables whose product is log p(x, y | one entity) − log p(x) p(y), but for a constant."""
    listed = _listed(facts)
    rng = np.random.default_rng(0)
    vectors = by_squares(factors, listed, OTHERS)
    many = np.flatnonzero([len(one.x) >= 4 for one in listed])
    chosen = rng.permutation(many)[:HALVED]
    if len(chosen) < 2:
        return vectors, vectors
    halves: list[list[Listed]] = [[], []]
    for i in chosen.tolist():
        first = rng.random(len(listed[i].x)) < 0.5
        for half, rows in zip(halves, (first, ~first), strict=True):
            half.append(Listed(*(column[rows] for column in listed[i])))
    U, V = (by_squares(factors, half, OTHERS) for half in halves)
    return _plda(vectors, U, V)


def _plda(x: Matrix, U: Matrix, V: Matrix) -> tuple[Matrix, Matrix]:
    """x = y + noise; the covariance of y and that of the noise are seen in halves U, V of the same entities."""
    r, n = x.shape[1], len(U)
    mu = np.concatenate([U, V]).mean(axis=0)
    D, u, v = (U - V) / np.sqrt(2), U - mu, V - mu
    W = D.T @ D / n
    W = W + (0.01 * np.trace(W) / r + np.finfo(float).tiny) * np.eye(r)
    g, Q = np.linalg.eigh((u.T @ v + v.T @ u) / (2 * n))
    B = (Q * np.maximum(g, 1e-6 * max(g.max(), 0))) @ Q.T
    both = np.linalg.inv(np.block([[B + W, B], [B, B + W]]))
    own, cross = np.linalg.inv(B + W) - both[:r, :r], -both[:r, r:]
    C = x - mu
    q = 0.5 * np.einsum("ij,jk,ik->i", C, own, C)[:, None]
    ones = np.ones_like(q)
    return np.concatenate([C @ cross, q, ones], axis=1), np.concatenate([C, ones, q], axis=1)


def _listed(facts: Facts) -> list[Listed]:
    """The facts of each entity, both ways."""
    s, k, o = facts.triples.astype(np.int64).T
    proper = s != o
    entity, partner = np.concatenate([s[proper], o[proper]]), np.concatenate([o[proper], s[proper]])
    relation = np.concatenate([k[proper], k[proper]])
    way = np.repeat([0, 1], int(proper.sum()))
    order = np.argsort(entity, kind="stable")
    bounds = np.searchsorted(entity[order], np.arange(facts.n_entities + 1))
    found = []
    for i in range(facts.n_entities):
        rows = order[bounds[i] : bounds[i + 1]]
        found.append(Listed(way[rows], relation[rows], partner[rows], np.ones(len(rows)), np.ones(len(rows))))
    return found


def companions(X: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Two tables whose product is the mean, over facts f of one and g of the other, of how far f and g come together.

    That is log (n_fg + 1) / (n_f n_g / N + 1), both ways the same.
    """
    n, degree = X.shape[0], np.asarray(X.sum(axis=1)).ravel()
    counted = X[degree <= HUB]
    G = (counted.T @ counted).tocoo()
    df = np.maximum(np.asarray(X.sum(axis=0)).ravel(), 1)
    apart = G.row != G.col
    f, g, seen = G.row[apart], G.col[apart], G.data[apart]
    L = sp.csr_matrix((np.log((seen + 1) / (df[f] * df[g] / n + 1)), (f, g)), shape=G.shape)
    mean = sp.diags(1 / np.maximum(degree, 1)) @ X
    return (mean @ L).tocsr(), mean.tocsr()


def neighbours(facts: Facts) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """A table of unit rows: whom each entity has to do with, by rarity; twice."""
    s, o, n = facts.subjects, facts.objects, facts.n_entities
    Y = sp.csr_matrix((np.ones(2 * len(s)), (np.concatenate([s, o]), np.concatenate([o, s]))), shape=(n, n))
    Y.data[:] = 1
    count = np.maximum(np.asarray(Y.sum(axis=0)).ravel(), 1)
    Y = Y @ sp.diags(np.log1p(n / count))
    length = np.sqrt(np.asarray(Y.multiply(Y).sum(axis=1)).ravel())
    Y = (sp.diags(1 / np.maximum(length, 1e-12)) @ Y).tocsr()
    return Y, Y


def kinds(X: sp.csr_matrix, code: NDArray[np.int64], n_relations: int) -> tuple[Matrix, Matrix]:
    """A table of unit rows: how many facts each entity has in each relation and role, by rarity; twice."""
    D = len(code)
    role = sp.csr_matrix((np.ones(D), (np.arange(D), code)), shape=(D, 2 * n_relations))
    C = np.log1p((X @ role).toarray())
    C = C * np.log1p(len(C) / np.maximum((C > 0).sum(axis=0), 1))
    C = C / np.maximum(np.linalg.norm(C, axis=1, keepdims=True), 1e-12)
    return C, C


# --- how much it counts


def learned(factors: Factors, facts: Facts, random_state: int = 0) -> Weighing:
    """The weights by which planted twins are told from other pairs."""
    found = [_planted(factors, facts, np.random.default_rng([random_state, one])) for one in range(ROUNDS)]
    scores, is_twin, shares = zip(*found, strict=True)
    return weigh(bent(np.concatenate(scores)), np.concatenate(is_twin), float(np.mean(shares)))


def _planted(factors: Factors, facts: Facts, rng: np.random.Generator) -> tuple[Matrix, Mask, float]:
    """Scores of all candidates after a split of some entities, which pairs are halves, and the share of halves."""
    count = min(max(FEWEST, facts.n_entities // PLANTED), MOST, max(2, facts.n_entities // 2))
    chosen = to_split(facts, count, rng)
    if len(chosen) < 2:
        raise InputError(f"at least 2 entities with 4 facts or more are needed to learn from, got {len(chosen)}")
    shared = np.resize(SHARED, len(chosen))
    planted, twins = split_entities(facts, chosen, shared, rng)
    l2 = float(factors.about.get("settings", {}).get("l2_entities", 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = RescalALS(factors.rank, l2, l2, max_iter=SWEEPS).fit(planted).factors_
    pairs = candidates(fitted, planted)
    twin_of = np.full(planted.n_entities, -1)
    twin_of[chosen], twin_of[twins] = twins, chosen
    return pairs.scores, twin_of[pairs.i] == pairs.j, 2 * len(chosen) / planted.n_entities


def to_split(facts: Facts, count: int, rng: np.random.Generator, least: int | None = None) -> Ids:
    """Entities with at least so many facts; None: as many as half of the entities have, and 4."""
    degree = np.bincount(facts.triples[:, [0, 2]].ravel(), minlength=facts.n_entities)
    least = max(4, int(np.median(degree[degree > 0]))) if least is None else least
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


def bent(scores: Matrix) -> Matrix:
    """Scores, and how far they are beyond each of BENDS: what stands far out may count more than in proportion.

    To have fewer neighbours in common than others is no evidence: who is there twice may share few facts or none.
    """
    plain = np.delete(scores, EVIDENCE.index("neighbours"), axis=1)
    return np.concatenate([plain, *(np.maximum(scores - bend, 0) for bend in BENDS)], axis=1)


def weigh(scores: Matrix, is_twin: Mask, share: float) -> Weighing:
    """Logistic regression with weights of at least 0; `share` of the entities have a twin."""
    y, n = is_twin.astype(float), len(scores)

    def loss(w: Vector) -> tuple[float, Vector]:
        theta = scores @ w[1:] + w[0]
        slope = expit(theta) - y
        value = (np.logaddexp(0, theta) - y * theta).sum() + 0.5 * (w[1:] @ w[1:])
        return float(value) / n, np.concatenate([[slope.sum()], scores.T @ slope + w[1:]]) / n

    start = np.concatenate([[-3.0], np.full(scores.shape[1], 0.5)])
    bounds = [(None, None)] + [(0.0, None)] * scores.shape[1]
    w = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Weighing(w[1:], float(w[0]) - np.log(share))


def probabilities(pairs: Pairs, weighing: Weighing, expected: float) -> Vector:
    """The probability of each pair."""
    theta = bent(pairs.scores) @ weighing.weights + weighing.intercept + np.log(expected)
    return expit(theta)  # type: ignore[no-any-return]


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


def check_table(path: Path) -> None:
    """Refuse a place where the table cannot be written."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; create it first")


def write_merges(merges: Sequence[Merge], path: Path) -> None:
    """A TSV file with a heading: which entity goes into which, how probably, and how many facts it has."""
    with beside(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="\t", lineterminator="\n")
        rows.writerow(Merge._fields)
        rows.writerows((one.name, one.into, f"{one.probability:.4f}", one.facts) for one in merges)
