"""What speaks for it that two entities are one and the same: some numbers for each pair that comes into question.

    one, latent, kinds    how much likelier the two are as halves of one entity than as two, log p(x, y) / p(x) p(y),
                          with x the entity's vector, the number of its facts in each relation, or both
    cosine                facts that both have, rare ones counting more
    neighbours            entities that both have to do with, whatever the relation
    lift, …               how often facts f of one come together with facts g of the other elsewhere,
                          log (n_fg + α) / (n_f n_g / N + α): their mean, the best and the worst
    … standing out        the same beside the other pairs of both: a pair must stand out among them

Halves of one entity are dealt out of its facts, so what the one has the other has not: a joint Gaussian of both is
told by its covariance, which may be negative, and not by a distance. Vectors are found anew from an entity's facts,
zeros counting little: a fact of one is a zero of its twin.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import get_num_threads, njit
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Vector
from ..data.facts import Facts
from ..model.factors import Factors
from ..model.fold_in import Listed, by_squares, listed_cells

OTHERS = 0.02  # weight of an unlisted cell as a zero, when vectors are found anew
HALVED, DEALS = 3000, 2  # entities whose halves tell how much of one half the other knows, and how often each is dealt
FEWEST_FACTS = 4  # of an entity that is dealt into halves
CANDIDATES = 40  # of each entity: among those it shares a fact with, and as many among those it shares none with
CELLS = 1 << 22  # scores in memory at a time
LIFTED = 24  # facts of an entity that are compared one by one; of more, evenly chosen ones
ALPHA = 0.3  # added to counts of facts that come together
COUNTED = 3e7  # pairs of facts that are counted; entities with most facts are left out beyond
CLOSEST = 0.98  # correlation of halves, at most
SURE = 30.0  # log-ratio, at most: Gaussians fall off too fast
OPPOSED = 0.3  # and below 0: if all entities had as many facts, the sizes of two halves would exclude all others
LIFTS = ("lift", "best lift", "worst lift", "worst lifts")
EVIDENCE = ("one", "latent", "kinds", "neighbours", "cosine", *LIFTS)
STANDING = ("one", "cosine", "lift", "best lift")  # told beside the other pairs of both, in three numbers each
OF_HALVES = EVIDENCE.index("kinds")  # halves complete each other, copies do not: no evidence where facts are shared
SIGNS = np.array([1.0] * len(EVIDENCE) + [1.0, -1.0, -1.0] * len(STANDING))  # what speaks for a pair: much, or little


class Pairs(NamedTuple):
    """Pairs i < j that come into question, and what speaks for each."""

    i: Ids  # (n,)
    j: Ids  # (n,)
    evidence: Matrix  # (n, len(SIGNS))
    shared: NDArray[np.int64]  # (n,) facts that both have


Halves = tuple[Matrix, Matrix]  # two tables whose product is a score for each pair


def collect(factors: Factors, facts: Facts) -> Pairs:
    """The pairs that come into question, with all that speaks for them."""
    X, code = fact_table(facts)
    counts = role_counts(X, code, facts.n_relations)
    Y = neighbour_table(facts)
    likely = _as_halves(factors, facts, counts)
    T = _unit(X @ sp.diags(_rarity(X)))
    i, j = candidates(likely["one"], T, np.diff(X.indptr) > 0)
    shared = row_products(X, X, i, j).astype(np.int64)
    columns = {name: np.clip(row_products(*tables, i, j), -SURE, SURE) for name, tables in likely.items()}
    columns |= {"neighbours": row_products(Y, Y, i, j), "cosine": row_products(T, T, i, j)}
    columns |= dict(zip(LIFTS, pair_lifts(X, i, j).T, strict=True))
    beside = [standing_out(i, j, columns[name], shared > 0, facts.n_entities) for name in STANDING]
    return Pairs(i, j, np.column_stack([*(columns[name] for name in EVIDENCE), *beside]), shared)


# --- facts as tables


def fact_table(facts: Facts) -> tuple[sp.csr_matrix, NDArray[np.int64]]:
    """Which entity has which fact, (N, D), a fact being relation, role and partner; and relation and role, (D,)."""
    s, k, o = facts.triples.astype(np.int64).T
    n = facts.n_entities
    rows, codes = np.concatenate([s, o]), np.concatenate([2 * k * n + o, (2 * k + 1) * n + s])
    distinct, columns = np.unique(codes, return_inverse=True)
    X = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, len(distinct)))
    X.sort_indices()
    return X, distinct // n


def role_counts(X: sp.csr_matrix, code: NDArray[np.int64], n_relations: int) -> Matrix:
    """How many facts each entity has in each relation, as subject and as object, (N, 2K)."""
    role = sp.csr_matrix((np.ones(len(code)), (np.arange(len(code)), code)), shape=(len(code), 2 * n_relations))
    counts: Matrix = (X @ role).toarray()
    return counts


def neighbour_table(facts: Facts) -> sp.csr_matrix:
    """Whom each entity has to do with, (N, N), rare ones counting more; rows of unit length."""
    s, o, n = facts.subjects, facts.objects, facts.n_entities
    Y = sp.csr_matrix((np.ones(2 * len(s)), (np.concatenate([s, o]), np.concatenate([o, s]))), shape=(n, n))
    Y.data[:] = 1
    return _unit(Y @ sp.diags(_rarity(Y)))


def _rarity(X: sp.csr_matrix) -> Vector:
    count = np.asarray(X.sum(axis=0)).ravel()
    return np.log1p(X.shape[0] / np.maximum(count, 1))  # type: ignore[no-any-return]


def _unit(X: sp.spmatrix) -> sp.csr_matrix:
    length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return (sp.diags(1 / np.maximum(length, 1e-12)) @ X).tocsr()


def row_products(X: Matrix | sp.csr_matrix, Y: Matrix | sp.csr_matrix, i: Ids, j: Ids) -> Vector:
    """x_i · y_j of each pair, some at a time."""
    found = np.zeros(len(i))
    width = X.shape[1] if isinstance(X, np.ndarray) else max(1, X.nnz // max(X.shape[0], 1))
    step = max(1, CELLS // max(width, 1))
    for at in range(0, len(i), step):
        x, y = X[i[at : at + step]], Y[j[at : at + step]]
        if isinstance(x, np.ndarray):
            found[at : at + step] = np.einsum("ij,ij->i", x, y)
        else:
            found[at : at + step] = np.asarray(x.multiply(y).sum(axis=1)).ravel()
    return found


# --- halves of one entity


def _as_halves(factors: Factors, facts: Facts, counts: Matrix) -> dict[str, Halves]:
    """How much likelier two entities are as halves of one, by vectors, by kinds of facts, and by both."""
    plain = Facts.from_ids(facts.triples, facts.entities, facts.relations)  # each counts once, and only what is true
    listed = listed_cells(plain, np.arange(facts.n_entities))
    rng = np.random.default_rng(0)
    chosen = rng.permutation(np.flatnonzero([len(one.x) >= FEWEST_FACTS for one in listed]))[:HALVED].tolist()
    vectors, kinds = by_squares(factors, listed, OTHERS), np.log1p(counts)
    dealt: list[list[Matrix]] = [[], []]
    for _ in range(DEALS):
        first = [rng.random(len(listed[i].x)) < 0.5 for i in chosen]
        for side, rows in zip(dealt, (first, [~half for half in first]), strict=True):
            half = [Listed(*(column[r] for column in listed[i])) for i, r in zip(chosen, rows, strict=True)]
            side.append(np.hstack([by_squares(factors, half, OTHERS), _log_counts(half, facts.n_relations)]))
    U, V = np.concatenate(dealt[0]), np.concatenate(dealt[1])
    r = factors.rank
    return {
        "one": log_ratio(np.hstack([vectors, kinds]), U, V),
        "latent": log_ratio(vectors, U[:, :r], V[:, :r]),
        "kinds": log_ratio(kinds, U[:, r:], V[:, r:]),
    }


def _log_counts(listed: list[Listed], n_relations: int) -> Matrix:
    counts = np.zeros((len(listed), 2 * n_relations))
    owner = np.repeat(np.arange(len(listed)), [len(one.x) for one in listed])
    role = np.concatenate([2 * one.relation + one.way for one in listed]) if listed else np.zeros(0, np.int64)
    np.add.at(counts, (owner, role), 1)
    return np.log1p(counts)


def log_ratio(x: Matrix, U: Matrix, V: Matrix) -> Halves:
    """Two tables whose product is log p(x, y) / p(x) p(y) but for a constant, if x, y are halves as U, V are.

    In coordinates in which each half has unit covariance and the two have correlations g, the ratio is
    Σ g/(1−g²) z z' − g²/(2(1−g²)) (z² + z'²).
    """
    if len(U) < 2:
        return x, x
    both = np.concatenate([U, V])
    mu, sd = both.mean(axis=0), both.std(axis=0)
    scale = np.where(sd > 1e-9, 1 / np.maximum(sd, 1e-9), 0)
    u, v, c = ((one - mu) * scale for one in (U, V, x))
    S = (u.T @ u + v.T @ v) / (2 * len(u))
    S = S + (0.01 * np.trace(S) / len(S) + 1e-9) * np.eye(len(S))
    whiten = np.linalg.inv(np.linalg.cholesky(S))
    g, Q = np.linalg.eigh(whiten @ ((u.T @ v + v.T @ u) / (2 * len(u))) @ whiten.T)
    g = np.clip(g, -OPPOSED, CLOSEST)
    z = c @ whiten.T @ Q
    own = -(z**2 @ (g**2 / (2 * (1 - g**2))))[:, None]
    ones = np.ones_like(own)
    return np.hstack([z * (g / (1 - g**2)), own, ones]), np.hstack([z, ones, own])


# --- which pairs come into question


def candidates(likely: Halves, T: sp.csr_matrix, has_facts: NDArray[np.bool_]) -> tuple[Ids, Ids]:
    """Pairs i < j: the best of each entity by `likely`, among those it shares a fact with and among the others.

    T: rows of unit length, products of which tell how much two share; the best by that come into question too.
    """
    left, right = likely
    n = len(left)
    keys: list[NDArray[np.int64]] = []
    step = max(1, CELLS // max(n, 1))
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
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
            at = np.argpartition(-scores, min(CANDIDATES, n - 1), axis=1)[:, :CANDIDATES]
            here, there = np.repeat(rows, at.shape[1]), at.ravel()
            fine = np.isfinite(scores[here - start, there]) & has_facts[here]
            here, there = here[fine], there[fine]
            keys.append(np.minimum(here, there) * np.int64(n) + np.maximum(here, there))
    key = np.unique(np.concatenate(keys)) if keys else np.zeros(0, np.int64)
    return key // max(n, 1), key % max(n, 1)


# --- facts that come together


def pair_lifts(X: sp.csr_matrix, i: Ids, j: Ids) -> Matrix:
    """Four numbers a pair: the mean lift of its facts, the mean of the best, the worst, and the mean of the worst."""
    degree = np.diff(X.indptr)
    counted = X[degree <= _most_facts(degree)]
    G = (counted.T @ counted).tocsr()
    G.sort_indices()
    frequency = np.asarray(X.sum(axis=0)).ravel()
    out = np.zeros((len(i), len(LIFTS)))
    tables = (X.indptr, X.indices, G.indptr, G.indices, G.data, frequency, float(X.shape[0]))
    threads = get_num_threads()
    bounds = np.linspace(0, len(i), 4 * threads + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        for part in [
            pool.submit(_lifts, i[a:b], j[a:b], *tables, LIFTED, ALPHA, out[a:b]) for a, b in pairwise(bounds)
        ]:
            part.result()
    return out


def _most_facts(degree: NDArray[np.int64]) -> float:
    """How many facts an entity may have for its pairs of facts to be counted: Σ degree² stays below COUNTED."""
    ranked = np.sort(degree)
    within = int(np.searchsorted(np.cumsum(ranked.astype(np.float64) ** 2), COUNTED))
    return float(ranked[min(within, len(ranked) - 1)])


@njit(cache=True, nogil=True)
def _count(g_starts, g_columns, g_counts, f, g):  # type: ignore[no-untyped-def]
    """How many entities have both facts."""
    low, high = g_starts[f], g_starts[f + 1]
    while low < high:
        middle = (low + high) // 2
        if g_columns[middle] < g:
            low = middle + 1
        else:
            high = middle
    return g_counts[low] if low < g_starts[f + 1] and g_columns[low] == g else 0.0


@njit(cache=True, nogil=True)
def _lifts(i, j, starts, columns, g_starts, g_columns, g_counts, frequency, n, most, alpha, out):  # type: ignore[no-untyped-def]
    """Fill in the four numbers of `pair_lifts`; what a fact has with itself is left out."""
    for p in range(len(i)):
        own, other = columns[starts[i[p]] : starts[i[p] + 1]], columns[starts[j[p]] : starts[j[p] + 1]]
        a = own[:: max(1, -(-len(own) // most))]
        b = other[:: max(1, -(-len(other) // most))]
        best, worst = np.full(len(b), -np.inf), np.full(len(b), np.inf)
        total, seen, bests, worsts, rows = 0.0, 0, 0.0, 0.0, 0
        lowest = np.inf
        for f in a:
            high, low = -np.inf, np.inf
            for v in range(len(b)):
                if f == b[v]:
                    continue
                lift = np.log(
                    (_count(g_starts, g_columns, g_counts, f, b[v]) + alpha)
                    / (frequency[f] * frequency[b[v]] / n + alpha)
                )
                total += lift
                seen += 1
                high, low = max(high, lift), min(low, lift)
                best[v], worst[v] = max(best[v], lift), min(worst[v], lift)
            if high > -np.inf:
                bests, worsts, rows = bests + high, worsts + low, rows + 1
                lowest = min(lowest, low)
        if not seen:
            continue
        some = best > -np.inf
        out[p, 0] = total / seen
        out[p, 1] = bests / rows + best[some].mean()
        out[p, 2] = lowest
        out[p, 3] = worsts / rows + worst[some].mean()


# --- beside other pairs


def standing_out(i: Ids, j: Ids, score: Vector, shares: NDArray[np.bool_], n: int) -> Matrix:
    """A pair's score beside those of the other pairs of both that share facts as well, or as little, (pairs, 3).

    The lesser of both distances from the mean, in spreads; logarithms of both places in the order, better and worse.
    """
    owner = 2 * np.concatenate([i, j]) + np.concatenate([shares, shares])
    both = np.concatenate([score, score])
    count = np.maximum(np.bincount(owner, minlength=2 * n), 1)
    mean = np.bincount(owner, both, minlength=2 * n) / count
    spread = np.sqrt(np.bincount(owner, (both - mean[owner]) ** 2, minlength=2 * n) / count)
    spread = np.maximum(spread, 0.05 * np.abs(mean) + 1e-6)
    z = ((both - mean[owner]) / spread[owner]).reshape(2, -1)
    order = np.lexsort((-both, owner))
    first = np.searchsorted(owner[order], owner)
    place = np.empty(len(both))
    place[order] = np.arange(len(both))
    rank = np.log1p(place - first).reshape(2, -1)
    return np.column_stack([z.min(axis=0), rank.min(axis=0), rank.max(axis=0)])
