"""Graphs of any size whose truth is known: facts drawn from planted RESCAL factors.

Each entity has a type, a propensity d, whose distribution has a power-law tail, and a point x on the unit sphere in
q = rank − types − 1 dimensions, close to the centre of its cluster. For a relation between subjects of one
type and objects of another,

    θ_ij = log d_i + log d_j + α x_iᵀ Q x_j + b        α = signal · √q,    Q orthogonal,    p_ij = σ(θ_ij)

and 20 less where a type does not fit: one bilinear form for all cells. Q favours no direction, so degrees follow the
propensities, but for how many centres happen to lie close and for cells that are next to certain.

Cells are drawn without visiting them all. If each cell is hit by a Poisson process at rate softplus(θ), it is hit at
least once with probability 1 − exp(−softplus(θ)) = σ(θ): distinct hits are independent draws from the model. The hits
come from an envelope that is constant, apart from d_i d_j, on each pair of clusters, and are thinned to the rate.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from relatent.arrays import Ids, Mask, Matrix, Triples, Vector
from relatent.data.cell_keys import cell_keys, cells_of, sorted_unique
from relatent.data.facts import Facts
from relatent.data.heldout import HeldOut, sample_zeros
from relatent.data.names import Names
from relatent.errors import InputError
from relatent.model.factors import Factors

N_TYPES = 3  # where none are asked for, and relations and rank allow
MOST_GROUPS = 1024  # of a type: a relation has as many pairs of them, squared
SPREAD = 0.7  # how far the log-odds of an entity may be from those of its cluster's centre, roughly
ROUNDING = 1e-5  # room for the float32 of vectors, relative
MISMATCH = -20.0  # added to θ where a type does not fit: of 70 M facts, about one would be such a cell
AT_ONCE = 256  # proposals worked on together: what they need for it fits the first cache
PILOT = 1 << 18  # cells at most that the number of facts is estimated from: right to half a percent


class Types(NamedTuple):
    """Which entities may be the subject and the object of each relation."""

    entities: Ids  # (N,) the type of each
    relations: Ids  # (K, 2) the type of its subjects and of its objects

    def fit(self, cells: Triples) -> Mask:
        """For each cell (subject, relation, object) whether both types fit."""
        wanted = self.relations[cells[:, 1]]
        fits: Mask = (self.entities[cells[:, [0, 2]]] == wanted).all(axis=1)
        return fits


class Planted(NamedTuple):
    """A drawn graph, facts held out of it, and what both were drawn from."""

    train: Facts
    test: Facts
    factors: Factors  # θ of every cell
    types: Types


class _Side(NamedTuple):
    """The entities that may take one place of a relation, cluster by cluster."""

    ids: Ids  # (n,)
    edges: Ids  # (C + 1,) cluster c is rows edges[c] to edges[c + 1]
    X: Matrix  # (n, q) points on the unit sphere
    log_d: Vector  # (n,)
    share: Vector  # (n,) alias table for d within each cluster: a uniform row is kept with this probability,
    other: Ids  # (n,) or exchanged for this one
    centres: Matrix  # (C, q)


class _Envelope(NamedTuple):
    """Rates above softplus(θ), for each pair of clusters."""

    rate: Matrix  # (C, C) total over the cells of the pair
    bound: Matrix  # (C, C) of α xᵀ Q x
    level: Matrix  # (C, C) where above 0, the rate of each cell; else it is d_i d_j exp(bound + b)


def planted(
    n_entities: int,
    n_relations: int,
    n_facts: int,
    *,
    rank: int = 16,
    n_types: int | None = None,
    n_groups: int = 256,
    exponent: float = 2.75,
    signal: float = 2.75,
    test_share: float = 0.05,
    random_state: int = 0,
    n_threads: int | None = None,
) -> Planted:
    """A graph drawn from factors of known rank, with held-out facts.

    Names are numbers, and every relation has the same number of facts, give or take one. The number of threads does
    not change the graph.

    Parameters
    ----------
    n_facts : int
        Training and test facts together; at most half of the cells whose types fit.
    n_types : int or None
        Types of equal size; 3 where `n_relations` and `rank` allow it. Each is among the subjects of a relation.
    n_groups : int
        Clusters of like entities in each type, at most. Few make probabilities themselves nearly of low rank, which
        least squares needs; many make log-odds of low rank, and probabilities not.
    exponent : float
        The number of entities with degree x falls as x to the minus this. Above 2; infinite: all are alike.
    signal : float
        Standard deviation of what latent vectors add to the log-odds, from 0 to 10.
    test_share : float
        The share of each relation's facts that is held out at random, from 0 to below 1.

    >>> graph = planted(1000, 4, 20_000)
    >>> len(graph.train), len(graph.test), graph.factors
    (19000, 1000, Factors(1000 entities, 4 relations, rank 16, logistic link))
    """
    n_entities, n_relations, n_facts = _checked_size(n_entities, n_relations, n_facts)
    n_types = max(1, min(N_TYPES, n_entities, n_relations, rank - 2)) if n_types is None else n_types
    _check_model(n_entities, n_relations, rank, n_types, n_groups, exponent, signal, test_share)
    k = np.arange(n_relations)
    fitting = np.stack([k % n_types, (k + 1 + k // n_types) % n_types], axis=1)  # (K, 2), distinct as long as can be
    counts = n_facts // n_relations + (k < n_facts % n_relations)
    _check_room(n_facts, n_relations, (n_entities // n_types) ** 2 // 2)

    rng, *streams = np.random.default_rng(random_state).spawn(n_relations + 1)
    q = rank - n_types - 1
    alpha = signal * math.sqrt(q)  # xᵀ Q x has standard deviation 1 / √q
    spread = min(SPREAD / max(alpha, SPREAD), 0.9)
    sides = _sides(n_entities, n_types, n_groups, q, spread, exponent, rng)
    rotations = alpha * np.linalg.qr(rng.normal(size=(n_relations, q, q)))[0]
    draw = partial(_draw_relation, sides, spread, test_share)
    with ThreadPoolExecutor(n_threads or numba.get_num_threads()) as pool:
        drawn = list(pool.map(draw, k.tolist(), fitting, rotations, counts.tolist(), streams))

    entities, relations = Names(n_entities), Names(n_relations, what="relation")
    train = Facts(np.asfortranarray(np.concatenate([one.train for one in drawn])), entities, relations)
    test = Facts(np.asfortranarray(np.concatenate([one.test for one in drawn])), entities, relations)
    A, R = _stacked_A(sides, n_entities), _stacked_R(fitting, rotations, n_types)
    factors = Factors(A, R, np.array([one.bias for one in drawn], np.float32), entities, relations)
    return Planted(train, test, factors, Types(A[:, :n_types].argmax(axis=1).astype(np.int32), fitting))


def uniform(n_entities: int, n_relations: int, n_facts: int, random_state: int = 0) -> Facts:
    """Distinct facts, every set of them as likely as any other.

    >>> uniform(1000, 3, 20_000)
    Facts(20000 facts, 1000 entities, 3 relations)
    """
    n_entities, n_relations, n_facts = _checked_size(n_entities, n_relations, n_facts)
    n_cells = n_entities**2 * n_relations
    if n_facts > n_cells:
        raise InputError(
            f"n_facts must be at most {n_cells}, the cells of {n_entities} entities and {n_relations} relations,"
            f" got {n_facts}"
        )
    rng = np.random.default_rng(random_state)
    if n_facts > n_cells // 2:  # the few that are left out are quicker to draw
        keys = np.delete(np.arange(n_cells), _distinct(n_cells, n_cells - n_facts, rng))
    else:
        keys = _distinct(n_cells, n_facts, rng)
    return Facts(cells_of(keys, n_entities), Names(n_entities), Names(n_relations, what="relation"))


def heldout_cells(
    graph: Planted,
    zeros_per_fact: int = 50,
    random_state: int = 0,
    *,
    n_facts: int = 100_000,
    fitting: bool = False,
) -> HeldOut:
    """Test facts, `n_facts` of them at most, with zeros that are neither in train nor in test.

    Zeros are drawn from all cells, or with `fitting` from those whose types fit, where they are harder to tell.
    Each cell counts once. In a small world about half of all zeros are drawn at most.
    """
    for what, value in (("zeros_per_fact", zeros_per_fact), ("n_facts", n_facts)):
        if value < 1:
            raise InputError(f"{what} must be at least 1, got {value}")
    if not len(graph.test):
        raise InputError("the graph has no test facts; plant it with a test_share above 0")
    rng = np.random.default_rng(random_state)
    facts = graph.test.triples
    if len(facts) > n_facts:
        facts = facts[np.sort(rng.choice(len(facts), n_facts, replace=False))]
    count = zeros_per_fact * len(facts)
    zeros = _fitting_zeros(graph, count, rng) if fitting else sample_zeros([graph.train, graph.test], count, rng)[0]
    return HeldOut(np.concatenate([facts, zeros]), np.repeat([True, False], [len(facts), len(zeros)]))


# --- what may be asked for


def _checked_size(n_entities: int, n_relations: int, n_facts: int) -> tuple[int, int, int]:
    for what, value in (("n_entities", n_entities), ("n_relations", n_relations), ("n_facts", n_facts)):
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise InputError(f"{what} must be a whole number of at least 1, got {value!r}")
    n_entities, n_relations, n_facts = int(n_entities), int(n_relations), int(n_facts)  # NumPy's would overflow
    if n_facts < n_relations:
        raise InputError(f"n_facts must be at least {n_relations}, one for each relation, got {n_facts}")
    if n_entities >= 2**31 or n_entities**2 * n_relations >= 2**63:
        raise InputError(
            f"{n_entities} entities and {n_relations} relations are more than 32-bit ids"
            " or 64-bit cell numbers can hold"
        )
    return n_entities, n_relations, n_facts


def _check_model(
    n_entities: int,
    n_relations: int,
    rank: int,
    n_types: int,
    n_groups: int,
    exponent: float,
    signal: float,
    test_share: float,
) -> None:
    most = min(n_entities, n_relations)
    if not 1 <= n_types <= most:
        raise InputError(f"n_types must be between 1 and {most}, the entities or relations there are, got {n_types}")
    if rank < n_types + 2:
        raise InputError(f"rank must be at least {n_types + 2}, two more than the types, got {rank}")
    if not 1 <= n_groups <= MOST_GROUPS:
        raise InputError(f"n_groups must be between 1 and {MOST_GROUPS}, got {n_groups}")
    if not exponent > 2:
        raise InputError(f"exponent must be above 2, or degrees have no mean, got {exponent}")
    if not 0 <= signal <= 10:
        raise InputError(f"signal must be between 0 and 10, got {signal}")
    if not 0 <= test_share < 1:
        raise InputError(f"test_share must be at least 0 and below 1, got {test_share}")


def _check_room(n_facts: int, n_relations: int, room: int) -> None:
    if -(-n_facts // n_relations) > room:
        raise InputError(
            f"n_facts must be at most {room * n_relations}, half of the cells whose types fit, got {n_facts};"
            " ask for more entities or fewer types"
        )


# --- the entities


def _sides(
    n: int, n_types: int, n_groups: int, q: int, spread: float, exponent: float, rng: np.random.Generator
) -> list[_Side]:
    """The entities of each type; ids are shuffled, so that neighbours in memory have nothing in common."""
    size = n // n_types
    n_clusters = min(n_groups, 2 * math.isqrt(size), size)
    edges = np.arange(n_types * n_clusters + 1) * n // (n_types * n_clusters)
    ids = rng.permutation(n).astype(np.int32)
    centres = _on_sphere(rng.normal(size=(len(edges) - 1, q)))
    X = np.repeat(centres, np.diff(edges), axis=0)
    X += spread * _on_sphere(rng.standard_normal(size=(n, q), dtype=np.float32))
    X = _on_sphere(X).astype(np.float32)
    log_d = rng.exponential(1 / (exponent - 1), n).astype(np.float32)
    share, other = _alias(np.exp(log_d, dtype=np.float64), edges)
    sides = []
    for c in range(0, len(edges) - 1, n_clusters):
        low, high = edges[c], edges[c + n_clusters]
        rows = slice(low, high)
        own = edges[c : c + n_clusters + 1] - low
        sides.append(
            _Side(
                ids[rows],
                own,
                X[rows],
                log_d[rows],
                share[rows],
                other[rows] - np.int32(low),
                centres[c : c + n_clusters],
            )
        )
    return sides


def _on_sphere(X: Matrix) -> Matrix:
    X /= np.sqrt(np.einsum("nq,nq->n", X, X))[:, None]
    return X


@njit(cache=True, nogil=True)
def _alias(d, edges):  # type: ignore[no-untyped-def]
    """Walker's alias table for each stretch between edges: a uniform row, exchanged for another now and then."""
    share, other = np.ones(len(d)), np.arange(len(d), dtype=np.int32)
    small, large = np.empty(len(d), np.int64), np.empty(len(d), np.int64)
    for c in range(len(edges) - 1):
        low, high = edges[c], edges[c + 1]
        mean = d[low:high].sum() / (high - low)
        n_small, n_large = 0, 0
        for i in range(low, high):
            share[i] = d[i] / mean
            if share[i] < 1:
                small[n_small] = i
                n_small += 1
            else:
                large[n_large] = i
                n_large += 1
        while n_small > 0 and n_large > 0:
            i, j = small[n_small - 1], large[n_large - 1]
            other[i] = j
            share[j] -= 1 - share[i]
            n_small -= 1
            if share[j] < 1:
                n_large -= 1
                small[n_small] = j
                n_small += 1
        for left in range(n_small):  # rounding: nothing is left to exchange them for
            share[small[left]] = 1
    return share.astype(np.float32), other


def _stacked_A(sides: list[_Side], n: int) -> Matrix:
    """The type in unary, log d, x. (N, r)."""
    n_types, q = len(sides), sides[0].X.shape[1]
    A = np.zeros((n, n_types + 1 + q), np.float32)
    for t, side in enumerate(sides):
        A[side.ids, t] = 1
        A[side.ids, n_types] = side.log_d
        A[side.ids, n_types + 1 :] = side.X
    return A


def _stacked_R(fitting: Ids, rotations: Matrix, n_types: int) -> Matrix:
    """What makes aᵀ R a the log-odds without bias: the sum of the type components is 1. (K, r, r)."""
    n_relations, q = rotations.shape[:2]
    R = np.zeros((n_relations, n_types + 1 + q, n_types + 1 + q), np.float32)
    R[:, :n_types, :n_types] = MISMATCH
    R[np.arange(n_relations), fitting[:, 0], fitting[:, 1]] = 0
    R[:, :n_types, n_types] = R[:, n_types, :n_types] = 1
    R[:, n_types + 1 :, n_types + 1 :] = rotations
    return R


# --- the facts of one relation


class _Drawn(NamedTuple):
    bias: float
    train: Triples
    test: Triples


def _draw_relation(
    sides: list[_Side],
    spread: float,
    test_share: float,
    relation: int,
    fitting: Ids,
    rotation: Matrix,
    count: int,
    rng: np.random.Generator,
) -> _Drawn:
    subjects, objects = sides[fitting[0]], sides[fitting[1]]
    # einsum adds in the same order however many threads BLAS has
    turned = np.einsum("nq,qp->np", subjects.X, rotation.astype(np.float32))
    subjects = subjects._replace(X=turned, centres=np.einsum("aq,qp->ap", subjects.centres, rotation))
    bound = _bound(subjects.centres, objects.centres, spread)
    bias = _bias(subjects, objects, bound, count, rng)
    envelope = _envelope(subjects, objects, bound, bias)
    n_entities = sum(len(side.ids) for side in sides)
    keys = relation * n_entities**2 + _distinct_hits(subjects, objects, envelope, bias, count, n_entities, rng)
    held_out = np.zeros(count, bool)
    held_out[rng.choice(count, round(test_share * count), replace=False, shuffle=False)] = True
    return _Drawn(bias, cells_of(keys[~held_out], n_entities), cells_of(keys[held_out], n_entities))


def _bound(turned: Matrix, centres: Matrix, spread: float) -> Matrix:
    """The most that α xᵀ Q x can be for members of two clusters, from the angle between their centres."""
    alpha = np.sqrt(np.einsum("aq,aq->a", turned, turned))[:, None]
    cosine = np.einsum("aq,bq->ab", turned, centres) / np.maximum(alpha, 1e-300)
    least_angle = np.maximum(np.arccos(np.clip(cosine, -1, 1)) - 2 * math.asin(spread), 0)
    bound: Matrix = alpha * np.cos(least_angle) + ROUNDING * (1 + alpha)
    return bound


def _bias(subjects: _Side, objects: _Side, bound: Matrix, count: int, rng: np.random.Generator) -> float:
    """b for which Σ σ(θ) over the cells of the relation is `count`, by importance sampling.

    Half of the sample is uniform and half ∝ d_i d_j exp(bound): one serves where most cells are likely, the other
    where few are.
    """
    half = min(PILOT, 4096 + 4 * count) // 2  # the number of a few facts varies by chance as well
    tilt = np.exp(bound - bound.max())
    mass = _mass(subjects)[:, None] * _mass(objects) * tilt
    total, n_cells = mass.sum(), float(len(subjects.ids)) * len(objects.ids)
    pairs = np.repeat(np.arange(mass.size), rng.multinomial(half, (mass / total).ravel()))
    a, b = np.divmod(pairs, mass.shape[1])
    i = np.concatenate([rng.integers(0, len(subjects.ids), half), _pick(subjects, a, rng)])
    j = np.concatenate([rng.integers(0, len(objects.ids), half), _pick(objects, b, rng)])
    log_dd = subjects.log_d[i].astype(np.float64) + objects.log_d[j]
    theta = log_dd + np.einsum("nq,nq->n", subjects.X[i], objects.X[j])
    density = 0.5 / n_cells + 0.5 * np.exp(log_dd) * tilt[_cluster(subjects, i), _cluster(objects, j)] / total
    weight = 1 / (2 * half * density)  # Σ weight · f(cell) estimates Σ f over all cells

    def surplus(bias: float) -> float:
        return float((weight * expit(theta + bias)).sum()) - count  # not by BLAS, whose threads change the last digits

    low, step = math.log(count) - float(logsumexp(theta, b=weight)), 0.1  # not above b, as σ(θ) < exp(θ)
    while surplus(low + step) < 0:
        step *= 2
    return float(brentq(surplus, low, low + step, xtol=1e-4))


def _mass(side: _Side) -> Vector:
    """Σ d of each cluster."""
    return np.add.reduceat(np.exp(side.log_d, dtype=np.float64), side.edges[:-1])


def _cluster(side: _Side, rows: Ids) -> Ids:
    return np.searchsorted(side.edges, rows, side="right") - 1


def _pick(side: _Side, clusters: Ids, rng: np.random.Generator) -> Ids:
    """A row of each of these clusters, ∝ d."""
    place = rng.random(len(clusters)) * np.diff(side.edges)[clusters]
    rows = side.edges[clusters] + place.astype(np.int64)
    return np.where(place % 1 < side.share[rows], rows, side.other[rows])


def _envelope(subjects: _Side, objects: _Side, bound: Matrix, bias: float) -> _Envelope:
    """d_i d_j exp(bound + b) or, where it is lower in total, softplus of the greatest θ."""
    most = [np.maximum.reduceat(side.log_d, side.edges[:-1]).astype(np.float64) for side in (subjects, objects)]
    level = np.logaddexp(0, bound + bias + most[0][:, None] + most[1] + ROUNDING)
    flat = np.diff(subjects.edges)[:, None] * np.diff(objects.edges) * level
    with np.errstate(over="ignore"):  # an infinite rate is not the lower one
        steep = _mass(subjects)[:, None] * _mass(objects) * np.exp(bound + bias)
    return _Envelope(np.minimum(flat, steep), bound, np.where(flat < steep, level, 0))


def _distinct_hits(
    subjects: _Side,
    objects: _Side,
    envelope: _Envelope,
    bias: float,
    count: int,
    n_entities: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Sorted numbers of the first `count` cells hit; the process runs for time 1, or a little longer if need be."""
    found, time = np.empty(0, np.int64), 1.0
    while len(found) < count:
        proposals = rng.poisson(envelope.rate * time)
        hits = sorted_unique(_hits(rng, proposals, envelope.bound, envelope.level, subjects, objects, bias, n_entities))
        fresh = hits[~_among(hits, found)] if len(found) else hits
        fresh = _thinned(fresh, count - len(found), rng)
        found = np.sort(np.concatenate([found, fresh])) if len(found) else fresh
        time = 1.2 * (count - len(found) + 1) / count
    return found


def _thinned(keys: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most so many of them, in order, each as likely to stay."""
    surplus = len(keys) - most
    return np.delete(keys, rng.choice(len(keys), surplus, replace=False, shuffle=False)) if surplus > 0 else keys


def _among(keys: NDArray[np.int64], ordered: NDArray[np.int64]) -> Mask:
    among: Mask = ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys
    return among


@njit(cache=True, nogil=True)
def _hits(rng, proposals, bound, level, subjects, objects, bias, n_entities):  # type: ignore[no-untyped-def]
    """Cells hit at rate softplus(θ): proposed by the envelope, kept with probability softplus(θ) / envelope.

    Many proposals go through each step together: their rows are far apart in memory, and fetched at the same time.
    """
    s_ids, s_edges, s_X, s_log_d, s_share, s_other, _ = subjects
    o_ids, o_edges, o_X, o_log_d, o_share, o_other, _ = objects
    i, j = np.empty(AT_ONCE, np.int64), np.empty(AT_ONCE, np.int64)
    latent, u = np.empty(AT_ONCE), np.empty(AT_ONCE)
    keys, filled = np.empty(2 * AT_ONCE, np.int64), 0
    for a in range(proposals.shape[0]):
        for b in range(proposals.shape[1]):
            even, most = level[a, b] > 0, bound[a, b]
            for done in range(0, proposals[a, b], AT_ONCE):
                m = min(AT_ONCE, proposals[a, b] - done)
                _draw_rows(rng, s_edges[a], s_edges[a + 1], s_share, s_other, even, u, i[:m])
                _draw_rows(rng, o_edges[b], o_edges[b + 1], o_share, o_other, even, u, j[:m])
                for c in range(m):
                    total = 0.0
                    for x in range(s_X.shape[1]):
                        total += s_X[i[c], x] * o_X[j[c], x]
                    latent[c] = total
                if filled + m > len(keys):
                    keys = np.concatenate((keys, np.empty_like(keys)))
                for c in range(m):
                    height = rng.random()  # a point under the envelope, in units of exp(θ)
                    if even:
                        theta = bias + s_log_d[i[c]] + o_log_d[j[c]] + latent[c]
                        height *= level[a, b] * math.exp(-theta)
                    else:
                        height *= math.exp(most - latent[c])
                        if height >= 1:  # most end here, as softplus(θ) < exp(θ)
                            continue
                        theta = bias + s_log_d[i[c]] + o_log_d[j[c]] + latent[c]
                    if height < _softplus_share(theta):
                        keys[filled] = np.int64(s_ids[i[c]]) * n_entities + o_ids[j[c]]
                        filled += 1
    return keys[:filled]


@njit(inline="always")
def _draw_rows(rng, low, high, share, other, even, u, rows):  # type: ignore[no-untyped-def]
    """Rows from low to high, evenly or by the alias table. u: scratch, at least as long."""
    for c in range(len(rows)):
        u[c] = rng.random() * (high - low)
    for c in range(len(rows)):
        row = low + np.int64(u[c])
        step = other[row] - row
        rows[c] = row + step * (not even and u[c] - np.floor(u[c]) >= share[row])  # a branch could not be foreseen


@njit(inline="always")
def _softplus_share(theta):  # type: ignore[no-untyped-def]
    """softplus(θ) / exp(θ)."""
    e = math.exp(-abs(theta))
    if theta < 0:
        return math.log1p(e) / e if e > 1e-12 else 1.0
    return (theta + math.log1p(e)) * e


# --- cells drawn evenly


def _distinct(n_cells: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sorted distinct numbers below n_cells."""
    found = np.empty(0, np.int64)
    while len(found) < count:
        missing = count - len(found)
        found = sorted_unique(np.concatenate([found, rng.integers(0, n_cells, missing + missing // 16 + 16)]))
    return _thinned(found, count, rng)


def _fitting_zeros(graph: Planted, count: int, rng: np.random.Generator) -> Triples:
    """Distinct cells of fitting types that are in neither set of facts; at most half of those there are."""
    train, types, n = graph.train, graph.types, graph.train.n_entities
    ids = np.argsort(types.entities, kind="stable")
    edges = np.searchsorted(types.entities[ids], np.arange(types.relations.max() + 2))
    n_cells = np.diff(edges)[types.relations].astype(np.float64).prod(axis=1)  # (K,)
    count = min(count, int(n_cells.sum() - len(train) - len(graph.test)) // 2 + 1)
    found = np.empty(0, np.int64)
    while len(found) < count:
        k = rng.choice(len(n_cells), 2 * count, p=n_cells / n_cells.sum())
        s, o = (ids[rng.integers(edges[role], edges[role + 1])] for role in types.relations[k].T)
        cells = np.stack([s, k, o], axis=1)
        fresh = ~(train.contains(cells) | graph.test.contains(cells))
        found = sorted_unique(np.concatenate([found, cell_keys(cells[fresh], n)]))
    return cells_of(_thinned(found, count, rng), n)
