"""Features of candidate duplicate pairs.

    halves, …               log p(x, y) / p(x) p(y): how much likelier two entities are as halves of one entity than as
                            two, with x the entity's vector, its number of facts per relation and role, or both
    common neighbours       cosine of the neighbours of both, rare ones weighted more, whatever the relation
    common facts            cosine of the facts of both, rare ones weighted more
    lift, …                 how often facts f of one and g of the other occur together among all entities,
                            log (n_fg + α) / (n_f n_g / N + α): their mean, the best and the worst
    … relative              the same compared with the other candidate pairs of both entities

The halves of one entity divide its facts, so one half lacks what the other has: their joint Gaussian is described by a
covariance, which may be negative, not by a distance. Vectors are computed anew from an entity's facts with a small
weight on zeros, because a fact of one half is a zero of the other. Cosines assume PRIOR_FACTS facts that differ:
entities of which one fact is known, the same one, are not known to be alike.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import get_num_threads, njit
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ..arrays import Ids, Matrix, Vector
from ..data.facts import Facts
from ..model.entity_regression import EntityCells, cells_of_entities, least_squares_vectors
from ..model.factors import Factors

ZERO_WEIGHT = 0.02  # weight of an unlisted cell as a zero, when vectors are computed anew
MAX_SPLIT_ENTITIES = 3000  # entities whose halves estimate the covariance between halves
SPLITS_PER_ENTITY = 2
MIN_FACTS = 4  # of an entity that is split into halves
MAX_CANDIDATES = 40  # per entity: among those that share a fact with it, and as many among the others
PRIOR_FACTS = 2.0  # facts of a pair assumed to differ, beside those that are known: one common fact is no full overlap
BLOCK_CELLS = 1 << 22  # scores computed at a time
MAX_LIFT_FACTS = 24  # facts of an entity that enter its lifts; of more, evenly spaced ones
LIFT_PRIOR_COUNT = 0.3  # α
MAX_COUNTED_PAIRS = 3e7  # pairs of facts that are counted; beyond, entities with the most facts are left out
MAX_HALF_CORRELATION = 0.98
MIN_HALF_CORRELATION = -0.3  # where entities have equally many facts, the sizes of two halves determine each other
MAX_LOG_RATIO = 30.0  # Gaussian tails fall off too fast to believe more
LIFTS = ("lift", "best lift", "worst lift", "worst lifts")
FEATURES = ("halves", "halves by vector", "halves by counts", "common neighbours", "common facts", *LIFTS)
RELATIVE_FEATURES = ("halves", "common facts", "lift", "best lift")  # also compared with other pairs, 3 numbers each
HALVES_BY_COUNTS = FEATURES.index("halves by counts")  # not valid for pairs that share facts: copies are not halves
FEATURE_SIGNS = np.array([1.0] * len(FEATURES) + [1.0, -1.0, -1.0] * len(RELATIVE_FEATURES))  # of a duplicate


class CandidatePairs(NamedTuple):
    """Pairs of entities i < j that may be duplicates."""

    i: Ids  # (n,)
    j: Ids  # (n,)
    features: Matrix  # (n, len(FEATURE_SIGNS))
    n_shared: NDArray[np.int64]  # (n,) facts that both have


PairTables = tuple[Matrix, Matrix]  # row i of the first times row j of the second is the score of the pair (i, j)


class FactIndex(NamedTuple):
    """The facts of each entity, as compressed rows."""

    starts: Ids  # (N + 1,)
    columns: Ids
    n_entities: float
    frequency: Vector  # (D,) entities that have each fact


class FactCounts(NamedTuple):
    """The number of entities that have two facts, as compressed sorted rows."""

    starts: Ids  # (D + 1,)
    columns: Ids
    counts: Vector


def candidate_pairs(factors: Factors, facts: Facts, others: tuple[Ids, Ids] | None = None) -> CandidatePairs:
    """Select candidate pairs and compute their features; of other pairs i < j as well."""
    n, (X, code) = facts.n_entities, fact_table(facts)
    counts = role_counts(X, code, facts.n_relations)
    Y = neighbour_table(facts)
    halves = _halves_tables(factors, facts, counts)
    T = _unit_rows(X @ sp.diags(_rarity(X)))
    has_facts = np.diff(X.indptr) > 0
    i, j = select_candidates(halves["halves"], T, has_facts)
    if others is not None:
        have = has_facts[others[0]] & has_facts[others[1]]
        key = np.union1d(i.astype(np.int64) * n + j, others[0][have].astype(np.int64) * n + others[1][have])
        i, j = np.divmod(key, n)
    n_shared = row_products(X, X, i, j).astype(np.int64)
    columns = {
        name: np.clip(row_products(*tables, i, j), -MAX_LOG_RATIO, MAX_LOG_RATIO) for name, tables in halves.items()
    }
    columns |= {"common neighbours": row_products(Y, Y, i, j), "common facts": row_products(T, T, i, j)}
    columns |= dict(zip(LIFTS, pair_lifts(X, i, j).T, strict=True))
    relative = [relative_to_other_pairs(i, j, columns[name], n_shared > 0, n) for name in RELATIVE_FEATURES]
    return CandidatePairs(i, j, np.column_stack([*(columns[name] for name in FEATURES), *relative]), n_shared)


# --- facts as tables


def fact_table(facts: Facts) -> tuple[sp.csr_matrix, NDArray[np.int64]]:
    """Entities × facts, (N, D), a fact being (relation, role, partner); and the code of relation and role, (D,)."""
    s, k, o = facts.triples.astype(np.int64).T
    n = facts.n_entities
    rows, codes = np.concatenate([s, o]), np.concatenate([2 * k * n + o, (2 * k + 1) * n + s])
    distinct, columns = np.unique(codes, return_inverse=True)
    X = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, len(distinct)))
    X.sort_indices()
    return X, distinct // n


def role_counts(X: sp.csr_matrix, code: NDArray[np.int64], n_relations: int) -> Matrix:
    """The number of facts of each entity per relation and role, (N, 2K)."""
    role = sp.csr_matrix((np.ones(len(code)), (np.arange(len(code)), code)), shape=(len(code), 2 * n_relations))
    counts: Matrix = (X @ role).toarray()
    return counts


def kinds_of_entities(facts: Facts) -> NDArray[np.int64]:
    """The kind of each entity, as a number: that of the commonest of its roles in relations.

    Two roles are of one kind if more than half of the entities with one of them have the other as well.
    """
    has_role = (role_counts(*fact_table(facts), facts.n_relations) > 0).astype(np.float64)
    both, n_with = has_role.T @ has_role, np.maximum(has_role.sum(axis=0), 1)
    _, kind_of_role = connected_components(sp.csr_matrix(both > 0.5 * n_with[:, None]), directed=False)
    kinds: NDArray[np.int64] = kind_of_role[np.argmax(has_role * n_with, axis=1)].astype(np.int64)
    return kinds


def neighbour_table(facts: Facts) -> sp.csr_matrix:
    """The neighbours of each entity, (N, N), rare ones weighted more; rows of unit length."""
    s, o, n = facts.subjects, facts.objects, facts.n_entities
    Y = sp.csr_matrix((np.ones(2 * len(s)), (np.concatenate([s, o]), np.concatenate([o, s]))), shape=(n, n))
    Y.data[:] = 1
    return _unit_rows(Y @ sp.diags(_rarity(Y)))


def _rarity(X: sp.csr_matrix) -> Vector:
    count = np.asarray(X.sum(axis=0)).ravel()
    return np.log1p(X.shape[0] / np.maximum(count, 1))  # type: ignore[no-any-return]


def _unit_rows(X: sp.spmatrix) -> sp.csr_matrix:
    squares = X.multiply(X)
    length = np.sqrt(np.asarray(squares.sum(axis=1)).ravel() + PRIOR_FACTS * squares.sum() / max(squares.nnz, 1))
    return (sp.diags(1 / np.maximum(length, 1e-12)) @ X).tocsr()


def row_products(X: Matrix | sp.csr_matrix, Y: Matrix | sp.csr_matrix, i: Ids, j: Ids) -> Vector:
    """x_i · y_j of each pair, in blocks."""
    found = np.zeros(len(i))
    width = X.shape[1] if isinstance(X, np.ndarray) else max(1, X.nnz // max(X.shape[0], 1))
    block = max(1, BLOCK_CELLS // max(width, 1))
    for at in range(0, len(i), block):
        x, y = X[i[at : at + block]], Y[j[at : at + block]]
        if isinstance(x, np.ndarray):
            found[at : at + block] = np.einsum("ij,ij->i", x, y)
        else:
            found[at : at + block] = np.asarray(x.multiply(y).sum(axis=1)).ravel()
    return found


# --- halves of one entity


def _halves_tables(factors: Factors, facts: Facts, counts: Matrix) -> dict[str, PairTables]:
    """Log-ratios that two entities are halves of one: by vectors and counts together, and by each."""
    plain = Facts.from_ids(facts.triples, facts.entities, facts.relations)  # without weights and unobserved cells
    listed = cells_of_entities(plain, np.arange(facts.n_entities))
    rng = np.random.default_rng(0)
    splittable = np.flatnonzero([len(cells.x) >= MIN_FACTS for cells in listed])
    chosen = rng.permutation(splittable)[:MAX_SPLIT_ENTITIES].tolist()
    vectors, log_counts = least_squares_vectors(factors, listed, ZERO_WEIGHT), np.log1p(counts)
    sides: list[list[Matrix]] = [[], []]
    for _ in range(SPLITS_PER_ENTITY):
        first = [rng.random(len(listed[i].x)) < 0.5 for i in chosen]
        for side, rows in zip(sides, (first, [~half for half in first]), strict=True):
            half = [EntityCells(*(column[r] for column in listed[i])) for i, r in zip(chosen, rows, strict=True)]
            side.append(
                np.hstack([least_squares_vectors(factors, half, ZERO_WEIGHT), _log_counts(half, facts.n_relations)])
            )
    U, V = np.concatenate(sides[0]), np.concatenate(sides[1])
    r = factors.rank
    return {
        "halves": log_ratio(np.hstack([vectors, log_counts]), U, V),
        "halves by vector": log_ratio(vectors, U[:, :r], V[:, :r]),
        "halves by counts": log_ratio(log_counts, U[:, r:], V[:, r:]),
    }


def _log_counts(listed: list[EntityCells], n_relations: int) -> Matrix:
    counts = np.zeros((len(listed), 2 * n_relations))
    owner = np.repeat(np.arange(len(listed)), [len(cells.x) for cells in listed])
    role = np.concatenate([2 * cells.relation + cells.role for cells in listed]) if listed else np.zeros(0, np.int64)
    np.add.at(counts, (owner, role), 1)
    return np.log1p(counts)


def log_ratio(x: Matrix, U: Matrix, V: Matrix) -> PairTables:
    """Tables whose product is log p(x, y) / p(x) p(y) up to a constant, if x and y are halves as U and V are.

    In coordinates in which each half has unit covariance and the two have correlations g, the ratio is
    Σ g/(1−g²) z z' − g²/(2(1−g²)) (z² + z'²).
    """
    if len(U) < 2:
        return x, x
    both = np.concatenate([U, V])
    mu, sd = both.mean(axis=0), both.std(axis=0)
    scale = np.where(sd > 1e-9, 1 / np.maximum(sd, 1e-9), 0)
    u, v, c = ((rows - mu) * scale for rows in (U, V, x))
    S = (u.T @ u + v.T @ v) / (2 * len(u))
    S = S + (0.01 * np.trace(S) / len(S) + 1e-9) * np.eye(len(S))
    whiten = np.linalg.inv(np.linalg.cholesky(S))
    g, Q = np.linalg.eigh(whiten @ ((u.T @ v + v.T @ u) / (2 * len(u))) @ whiten.T)
    g = np.clip(g, MIN_HALF_CORRELATION, MAX_HALF_CORRELATION)
    z = c @ whiten.T @ Q
    own = -(z**2 @ (g**2 / (2 * (1 - g**2))))[:, None]
    ones = np.ones_like(own)
    return np.hstack([z * (g / (1 - g**2)), own, ones]), np.hstack([z, ones, own])


# --- candidates


def select_candidates(halves: PairTables, T: sp.csr_matrix, has_facts: NDArray[np.bool_]) -> tuple[Ids, Ids]:
    """Pairs i < j: the best of each entity among those that share a fact with it, and among the others.

    Pairs are ranked by `halves`; those that share a fact also by T, whose rows of unit length have the overlap of two
    entities as their product.
    """
    left, right = halves
    n = len(left)
    keys: list[NDArray[np.int64]] = []
    block = max(1, BLOCK_CELLS // max(n, 1))
    for start in range(0, n, block):
        rows = np.arange(start, min(start + block, n))
        L = left[rows] @ right.T
        L[rows - start, rows] = -np.inf
        L[:, ~has_facts] = -np.inf
        S = (T[rows] @ T.T).toarray()
        shares = S > 0
        for scores in (
            np.where(shares, -np.inf, L),
            np.where(shares, L, -np.inf),
            np.where(shares & np.isfinite(L), S, -np.inf),
        ):
            at = np.argpartition(-scores, min(MAX_CANDIDATES, n - 1), axis=1)[:, :MAX_CANDIDATES]
            here, there = np.repeat(rows, at.shape[1]), at.ravel()
            valid = np.isfinite(scores[here - start, there]) & has_facts[here]
            here, there = here[valid], there[valid]
            keys.append(np.minimum(here, there) * np.int64(n) + np.maximum(here, there))
    key = np.unique(np.concatenate(keys)) if keys else np.zeros(0, np.int64)
    return key // max(n, 1), key % max(n, 1)


# --- facts that occur together


def pair_lifts(X: sp.csr_matrix, i: Ids, j: Ids) -> Matrix:
    """Four numbers per pair: the mean lift of its facts, the mean of the best, the worst, the mean of the worst."""
    degree = np.diff(X.indptr)
    counted = X[degree <= _max_counted_facts(degree)]
    G = (counted.T @ counted).tocsr()
    G.sort_indices()
    out = np.zeros((len(i), len(LIFTS)))
    index = FactIndex(X.indptr, X.indices, float(X.shape[0]), np.asarray(X.sum(axis=0)).ravel())
    together = FactCounts(G.indptr, G.indices, G.data)
    threads = get_num_threads()
    bounds = np.linspace(0, len(i), 4 * threads + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        for task in [
            pool.submit(_lifts, i[a:b], j[a:b], index, together, MAX_LIFT_FACTS, LIFT_PRIOR_COUNT, out[a:b])
            for a, b in pairwise(bounds)
        ]:
            task.result()
    return out


def _max_counted_facts(degree: NDArray[np.int64]) -> float:
    """The most facts of an entity whose pairs of facts are counted: Σ degree² stays below MAX_COUNTED_PAIRS."""
    ranked = np.sort(degree)
    within = int(np.searchsorted(np.cumsum(ranked.astype(np.float64) ** 2), MAX_COUNTED_PAIRS))
    return float(ranked[min(within, len(ranked) - 1)])


@njit(cache=True, nogil=True)
def _count(together: FactCounts, f: int, g: int) -> float:
    """The number of entities that have both facts."""
    low, high = together.starts[f], together.starts[f + 1]
    at = low + np.searchsorted(together.columns[low:high], g)
    return together.counts[at] if at < high and together.columns[at] == g else 0.0


@njit(cache=True, nogil=True)
def _lifts(i: Ids, j: Ids, index: FactIndex, together: FactCounts, max_facts: int, alpha: float, out: Matrix) -> None:
    """Fill in the four numbers of `pair_lifts`, without the lift of a fact with itself."""
    starts, columns, frequency = index.starts, index.columns, index.frequency
    for p in range(len(i)):
        own, other = columns[starts[i[p]] : starts[i[p] + 1]], columns[starts[j[p]] : starts[j[p] + 1]]
        a = own[:: max(1, -(-len(own) // max_facts))]
        b = other[:: max(1, -(-len(other) // max_facts))]
        best, worst = np.full(len(b), -np.inf), np.full(len(b), np.inf)
        total, n_lifts, best_sum, worst_sum, rows = 0.0, 0, 0.0, 0.0, 0
        lowest = np.inf
        for f in a:
            high, low = -np.inf, np.inf
            for v in range(len(b)):
                if f == b[v]:
                    continue
                expected = frequency[f] * frequency[b[v]] / index.n_entities
                lift = np.log((_count(together, f, b[v]) + alpha) / (expected + alpha))
                total += lift
                n_lifts += 1
                high, low = max(high, lift), min(low, lift)
                best[v], worst[v] = max(best[v], lift), min(worst[v], lift)
            if high > -np.inf:
                best_sum, worst_sum, rows = best_sum + high, worst_sum + low, rows + 1
                lowest = min(lowest, low)
        if not n_lifts:
            continue
        compared = best > -np.inf
        out[p, 0] = total / n_lifts
        out[p, 1] = best_sum / rows + best[compared].mean()
        out[p, 2] = lowest
        out[p, 3] = worst_sum / rows + worst[compared].mean()


# --- compared with other pairs


def relative_to_other_pairs(i: Ids, j: Ids, score: Vector, shares: NDArray[np.bool_], n: int) -> Matrix:
    """A pair's score relative to the other candidate pairs of each of its entities, (pairs, 3).

    Pairs that share a fact are compared with such pairs, the others with the others. The columns: the smaller of the
    two standardised scores, and the logarithm of the number of pairs that are at least as good, in the
    better and in the worse of the two orders.
    """
    owner = 2 * np.concatenate([i, j]) + np.concatenate([shares, shares])
    both = np.concatenate([score, score])
    count = np.maximum(np.bincount(owner, minlength=2 * n), 1)
    mean = np.bincount(owner, both, minlength=2 * n) / count
    spread = np.sqrt(np.bincount(owner, (both - mean[owner]) ** 2, minlength=2 * n) / count)
    spread = np.maximum(spread, 0.05 * np.abs(mean) + 1e-6)
    z = ((both - mean[owner]) / spread[owner]).reshape(2, -1)
    _, level = np.unique(np.round(both, 9), return_inverse=True)
    key = owner * (level.max(initial=0) + 1) - level  # by entity, best first, equal scores together
    ordered = np.sort(key)
    n_as_good = np.searchsorted(ordered, key, side="right") - np.searchsorted(owner[np.argsort(key)], owner)
    rank = np.log(n_as_good).reshape(2, -1)
    return np.column_stack([z.min(axis=0), rank.min(axis=0), rank.max(axis=0)])
