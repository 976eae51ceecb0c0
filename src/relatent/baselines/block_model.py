"""Block models of entities in clusters: counts of true and false cells, and Gibbs moves between clusters.

    log p(X | z) = Σ_k Σ_ab  log B(m¹_kab + β¹, m⁰_kab + β⁰) − log B(β¹, β⁰)

m¹ sums the weights of the facts of relation k from cluster a to cluster b, m⁰ counts the cells observed to be false.
Cells are stored sparse: those listed (facts and unobserved cells) stand in compressed rows and columns, and all others
are false, so m⁰_kab = n_a n_b − listed_kab. A move of one entity costs O(clusters · (its listed cells + relations)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices, Triples, Vector
from ..data.facts import Facts
from ..data.listed_cells import listed_cells

TABLE = 1 << 16  # counts below it have their log Γ in a table


class Lines(NamedTuple):
    """Cells in the order of one of their entities: those of i are starts[i] to starts[i + 1]."""

    starts: Ids  # (N + 1,)
    relations: Ids
    others: Ids
    places: Ids  # where each cell stands in the list they come from


class Listed(NamedTuple):
    """Facts (weight w) and unobserved cells (weight 0), by subject and again by object."""

    row_starts: Ids  # (N + 1,)
    row_relations: Ids
    row_others: Ids
    row_weights: Vector
    column_starts: Ids  # (N + 1,); without the cells (i, k, i), which the rows have
    column_relations: Ids
    column_others: Ids
    column_weights: Vector


class Counts(NamedTuple):
    """A partition and what follows from it; one slot of `sizes` may stand empty between others."""

    z: Ids  # (N,) slot of each entity, −1 where it has none
    sizes: Ids  # (C,)
    true: NDArray[np.float64]  # (K, C, C): m¹
    listed: NDArray[np.float64]  # (K, C, C)
    row_next: NDArray[np.float64]  # (K, C, C): log B of the block (a, b) if slot a gets an entity with no listed cells
    column_next: NDArray[np.float64]  # (K, C, C): log B of the block (b, a) then
    gain: NDArray[np.float64]  # (C, C): by how much the two then change log p(X | z), summed over the relations
    own_gain: NDArray[np.float64]  # (C,): and by how much the block (a, a) does


class LogBeta(NamedTuple):
    """log B(m¹ + β¹, m⁰ + β⁰) for whole counts by table: log Γ(n + β) for β = β¹, β⁰ and β¹ + β⁰.

    The last row of the table is log B(β¹, n + β⁰): most blocks hold no fact.
    """

    true: float
    false: float
    tables: NDArray[np.float64]  # (4, T)


class Bilinear(NamedTuple):
    """Block models added up: a_iᵀ R_k a_j = Σ_m T_m[k, z_mi, z_mj]."""

    A: Matrix  # (N, r)
    R: Slices  # (K, r, r)


def bilinear(z: Ids, tables: Sequence[Slices], dtype: Any) -> Bilinear:
    """The sum of block models with partitions z (M, N) and tables (K, C_m, C_m), in few components.

    A component is a set of entities that no partition separates, or a cluster of one partition, whichever are fewer.
    """
    classes, member_of = np.unique(z, axis=1, return_inverse=True)  # (M, r), (N,)
    r, n_relations = n_components(z), len(tables[0])
    R = np.zeros((n_relations, r, r), dtype)
    if r == classes.shape[1]:
        for c, table in zip(classes, tables, strict=True):
            R += table.astype(dtype)[:, c[:, None], c[None, :]]
        return Bilinear(np.eye(r, dtype=dtype)[member_of.reshape(-1)], R)
    A = np.zeros((z.shape[1], r), dtype)
    first = 0
    for c, table in zip(z, tables, strict=True):
        last = first + int(c.max()) + 1
        A[np.arange(len(c)), first + c] = 1
        R[:, first:last, first:last] = table[:, : last - first, : last - first]
        first = last
    return Bilinear(A, R)


def n_components(z: Ids) -> int:
    """How many components `bilinear` needs."""
    return min(int(np.unique(z, axis=1).shape[1]), int((z.max(axis=1) + 1).sum()))


def by_size(z: Ids) -> Ids:
    """The same clusters, numbered from the largest; of two of a size, the one that an earlier entity is in first."""
    _, firsts, cluster, sizes = np.unique(z, return_index=True, return_inverse=True, return_counts=True)
    number = np.empty(len(sizes), np.int64)
    number[np.lexsort((firsts, -sizes))] = np.arange(len(sizes))
    return number[cluster.reshape(-1)]


def listed_by_entity(facts: Facts) -> Listed:
    """The cells that are not plain zeros, ready for the kernels."""
    cells, _, w = listed_cells(facts)
    cells = cells.astype(np.int64)
    off = cells[:, 0] != cells[:, 2]
    return Listed(
        *_with_values(sorted_by(cells, facts.n_entities, 0), w),
        *_with_values(sorted_by(cells[off], facts.n_entities, 2), w[off]),
    )


def _with_values(lines: Lines, values: Vector) -> tuple[Ids, Ids, Ids, Vector]:
    return lines.starts, lines.relations, lines.others, values[lines.places]


def sorted_by(cells: Triples, n_entities: int, column: int) -> Lines:
    """Cells by their subject (column 0) or object (column 2)."""
    places = np.lexsort((cells[:, 2 - column], cells[:, 1], cells[:, column]))
    own, relations, others = (cells[places, at].astype(np.int64) for at in (column, 1, 2 - column))
    return Lines(np.searchsorted(own, np.arange(n_entities + 1)).astype(np.int64), relations, others, places)


def log_beta(beta_true: float, beta_false: float, most: int) -> LogBeta:
    """Tables for counts up to `most`."""
    tables = np.empty((4, min(most + 1, TABLE)))
    _fill(tables, beta_true, beta_false)
    return LogBeta(beta_true, beta_false, tables)


def empty_counts(n_entities: int, n_relations: int, slots: int) -> Counts:
    """No entity in any cluster."""
    return Counts(
        np.full(n_entities, -1, np.int64),
        np.zeros(slots, np.int64),
        np.zeros((n_relations, slots, slots)),
        np.zeros((n_relations, slots, slots)),
        np.zeros((n_relations, slots, slots)),
        np.zeros((n_relations, slots, slots)),
        np.zeros((slots, slots)),
        np.zeros(slots),
    )


@njit(cache=True, nogil=True)
def _fill(tables, beta_true, beta_false):  # type: ignore[no-untyped-def]
    for n in range(tables.shape[1]):
        tables[0, n] = math.lgamma(n + beta_true)
        tables[1, n] = math.lgamma(n + beta_false)
        tables[2, n] = math.lgamma(n + beta_true + beta_false)
        tables[3, n] = tables[0, 0] + tables[1, n] - tables[2, n]


@njit(cache=True, nogil=True)
def _log_gamma(x, beta, table):  # type: ignore[no-untyped-def]
    n = int(x)
    return table[n] if n == x and n < len(table) else math.lgamma(x + beta)


@njit(cache=True, nogil=True)
def _f(m1, m0, lb):  # type: ignore[no-untyped-def]
    """log B(m¹ + β¹, m⁰ + β⁰)."""
    if m1 == 0.0:
        n = int(m0)
        if n < lb.tables.shape[1]:
            return lb.tables[3, n]
    return (
        _log_gamma(m1, lb.true, lb.tables[0])
        + _log_gamma(m0, lb.false, lb.tables[1])
        - _log_gamma(m1 + m0, lb.true + lb.false, lb.tables[2])
    )


@njit(cache=True, nogil=True)
def _refresh(counts, s, lb):  # type: ignore[no-untyped-def]
    """What would follow of an entity joining, for all pairs of slots that s is one of."""
    n = counts.sizes
    n_relations = counts.true.shape[0]
    for c in range(len(n)):
        counts.gain[s, c] = counts.gain[c, s] = 0.0
        if c == s or n[c] == 0:
            continue
        joins_s, joins_c = 0.0, 0.0
        if n[s] == 0:
            now, then = _f(0.0, 0.0, lb), _f(0.0, float(n[c]), lb)
            for k in range(n_relations):
                counts.row_next[k, s, c] = counts.column_next[k, s, c] = then
                counts.row_next[k, c, s] = counts.column_next[k, c, s] = now
            counts.gain[s, c] = 2 * n_relations * (then - now)
            continue
        for k in range(n_relations):
            m1, m0 = counts.true[k, s, c], n[s] * n[c] - counts.listed[k, s, c]
            now = _f(m1, m0, lb)
            counts.row_next[k, s, c] = _f(m1, m0 + n[c], lb)
            counts.column_next[k, c, s] = _f(m1, m0 + n[s], lb)
            joins_s += counts.row_next[k, s, c] - now
            joins_c += counts.column_next[k, c, s] - now
            m1, m0 = counts.true[k, c, s], n[s] * n[c] - counts.listed[k, c, s]
            now = _f(m1, m0, lb)
            counts.column_next[k, s, c] = _f(m1, m0 + n[c], lb)
            counts.row_next[k, c, s] = _f(m1, m0 + n[s], lb)
            joins_s += counts.column_next[k, s, c] - now
            joins_c += counts.row_next[k, c, s] - now
        counts.gain[s, c], counts.gain[c, s] = joins_s, joins_c
    own = 0.0
    for k in range(n_relations):
        m1, m0 = counts.true[k, s, s], n[s] * n[s] - counts.listed[k, s, s]
        own += _f(m1, m0 + 2 * n[s] + 1, lb) - _f(m1, m0, lb)
    counts.own_gain[s] = own


class Room(NamedTuple):
    """Where the kernels work: the listed cells of one entity, summed by relation and slot of the other entity."""

    place: Ids  # (K, C): the position of a sum below, −1 where there is none
    row_keys: Ids  # (D, 2): relation and slot
    row_sums: NDArray[np.float64]  # (D, 2): weights and number
    column_keys: Ids
    column_sums: NDArray[np.float64]
    loop_sums: NDArray[np.float64]  # (K, 2): the cells (i, k, i)
    own_sums: NDArray[np.float64]  # (K, 2): all that falls into the block of one slot with itself
    logs: NDArray[np.float64]  # (C,)
    saved: NDArray[np.float64]  # (4 K + 3, C)


def room(listed: Listed, n_relations: int, slots: int) -> Room:
    """Enough room for any entity."""
    d_row, d_column = (
        min(int(np.diff(starts).max()), n_relations * slots) for starts in (listed.row_starts, listed.column_starts)
    )
    return Room(
        place=np.full((n_relations, slots), -1, np.int64),
        row_keys=np.empty((d_row, 2), np.int64),
        row_sums=np.empty((d_row, 2)),
        column_keys=np.empty((d_column, 2), np.int64),
        column_sums=np.empty((d_column, 2)),
        loop_sums=np.zeros((n_relations, 2)),
        own_sums=np.zeros((n_relations, 2)),
        logs=np.empty(slots),
        saved=np.empty((4 * n_relations + 3, slots)),
    )


@njit(cache=True, nogil=True)
def _gather(starts, relations, others, weights, i, z, place, keys, sums):  # type: ignore[no-untyped-def]
    """Sum the listed cells of i with others that are in a slot; returns how many sums there are."""
    found = 0
    for e in range(starts[i], starts[i + 1]):
        c = z[others[e]]
        if c < 0 or others[e] == i:
            continue
        k = relations[e]
        at = place[k, c]
        if at < 0:
            at = found
            place[k, c] = at
            keys[at, 0], keys[at, 1] = k, c
            sums[at, 0], sums[at, 1] = 0.0, 0.0
            found += 1
        sums[at, 0] += weights[e]
        sums[at, 1] += 1.0
    for at in range(found):
        place[keys[at, 0], keys[at, 1]] = -1
    return found


@njit(cache=True, nogil=True)
def _loops(listed, i, sums):  # type: ignore[no-untyped-def]
    """The listed cells (i, k, i)."""
    for k in range(len(sums)):
        sums[k, 0] = sums[k, 1] = 0.0
    for e in range(listed.row_starts[i], listed.row_starts[i + 1]):
        if listed.row_others[e] == i:
            sums[listed.row_relations[e], 0] += listed.row_weights[e]
            sums[listed.row_relations[e], 1] += 1.0


@njit(cache=True, nogil=True)
def _count(counts, room, i, s, n_row, n_column, sign):  # type: ignore[no-untyped-def]
    """Put the gathered entity i into slot s (sign 1) or take it out (sign −1); `_gather` must not have seen i."""
    for at in range(n_row):
        k, c = room.row_keys[at, 0], room.row_keys[at, 1]
        counts.true[k, s, c] += sign * room.row_sums[at, 0]
        counts.listed[k, s, c] += sign * room.row_sums[at, 1]
    for at in range(n_column):
        k, c = room.column_keys[at, 0], room.column_keys[at, 1]
        counts.true[k, c, s] += sign * room.column_sums[at, 0]
        counts.listed[k, c, s] += sign * room.column_sums[at, 1]
    for k in range(counts.true.shape[0]):
        counts.true[k, s, s] += sign * room.loop_sums[k, 0]
        counts.listed[k, s, s] += sign * room.loop_sums[k, 1]
    counts.sizes[s] += sign
    counts.z[i] = s if sign > 0 else -1
    if counts.sizes[s] == 0:  # sums of fractions leave crumbs
        for k in range(counts.true.shape[0]):
            for c in range(len(counts.sizes)):
                counts.true[k, s, c] = counts.true[k, c, s] = 0.0


@njit(cache=True, nogil=True)
def _join_gain(counts, room, a, n_row, n_column, lb):  # type: ignore[no-untyped-def]
    """By how much log p(X | z) rises when the gathered entity joins slot a."""
    n = counts.sizes
    n_relations = counts.true.shape[0]
    own = room.own_sums
    for k in range(n_relations):
        own[k, 0], own[k, 1] = room.loop_sums[k, 0], room.loop_sums[k, 1]
    gain = 0.0
    for c in range(len(n)):
        if n[c] and c != a:
            gain += counts.gain[a, c]
    gain += counts.own_gain[a]
    for at in range(n_row):
        k, c = room.row_keys[at, 0], room.row_keys[at, 1]
        if c == a:
            own[k, 0] += room.row_sums[at, 0]
            own[k, 1] += room.row_sums[at, 1]
        else:
            m1 = counts.true[k, a, c] + room.row_sums[at, 0]
            m0 = (n[a] + 1) * n[c] - counts.listed[k, a, c] - room.row_sums[at, 1]
            gain += _f(m1, m0, lb) - counts.row_next[k, a, c]
    for at in range(n_column):
        k, c = room.column_keys[at, 0], room.column_keys[at, 1]
        if c == a:
            own[k, 0] += room.column_sums[at, 0]
            own[k, 1] += room.column_sums[at, 1]
        else:
            m1 = counts.true[k, c, a] + room.column_sums[at, 0]
            m0 = (n[a] + 1) * n[c] - counts.listed[k, c, a] - room.column_sums[at, 1]
            gain += _f(m1, m0, lb) - counts.column_next[k, a, c]
    cells = (n[a] + 1) * (n[a] + 1)
    for k in range(n_relations):
        if own[k, 1]:
            m1, m0 = counts.true[k, a, a], cells - counts.listed[k, a, a]
            gain += _f(m1 + own[k, 0], m0 - own[k, 1], lb) - _f(m1, m0, lb)
    return gain


@njit(cache=True, nogil=True)
def _draw(logs, u):  # type: ignore[no-untyped-def]
    """A position with probability ∝ exp(logs), by the uniform number u; logs become log probabilities."""
    top = -np.inf
    for value in logs:
        top = max(top, value)
    total = 0.0
    for value in logs:
        total += math.exp(value - top)
    chosen, left = -1, u
    for c in range(len(logs)):
        logs[c] -= top + math.log(total)
        if left >= 0 and logs[c] > -np.inf:
            chosen = c
            left -= math.exp(logs[c])
    return chosen


@njit(cache=True, nogil=True)
def _weigh(counts, logs, slots, concentration, lb):  # type: ignore[no-untyped-def]
    """The log prior weight of each slot an entity may join, −∞ for the others."""
    new = -1
    for s in range(len(logs)):
        logs[s] = -np.inf
        if counts.sizes[s] and not len(slots):
            logs[s] = math.log(counts.sizes[s])
        elif counts.sizes[s] == 0 and new < 0:
            new = s
    if len(slots):
        for s in slots:
            logs[s] = math.log(counts.sizes[s])
    elif new >= 0:
        logs[new] = math.log(concentration)
        _refresh(counts, new, lb)


@njit(cache=True, nogil=True)
def gibbs_pass(listed, counts, room, lb, concentration, who, slots, uniforms, forced):  # type: ignore[no-untyped-def]
    """Draw anew the slot of each entity in `who`; returns the log probability of the slots drawn.

    slots: two slots between which each goes, or none: then any, and an empty one with weight `concentration`.
    forced: the slots to take instead of drawing them, or none.
    """
    n = counts.sizes
    log_probability = 0.0
    for t in range(len(who)):
        i = who[t]
        old = counts.z[i]
        counts.z[i] = -1
        n_row = _gather(
            listed.row_starts,
            listed.row_relations,
            listed.row_others,
            listed.row_weights,
            i,
            counts.z,
            room.place,
            room.row_keys,
            room.row_sums,
        )
        n_column = _gather(
            listed.column_starts,
            listed.column_relations,
            listed.column_others,
            listed.column_weights,
            i,
            counts.z,
            room.place,
            room.column_keys,
            room.column_sums,
        )
        _loops(listed, i, room.loop_sums)
        if old >= 0:
            _keep(counts, old, room.saved)
            _count(counts, room, i, old, n_row, n_column, -1)
            _refresh(counts, old, lb)
        _weigh(counts, room.logs, slots, concentration, lb)
        for s in range(len(n)):
            if room.logs[s] > -np.inf:
                room.logs[s] += _join_gain(counts, room, s, n_row, n_column, lb)
        chosen = _draw(room.logs, uniforms[t])
        if len(forced):
            chosen = forced[t]
        log_probability += room.logs[chosen]
        _count(counts, room, i, chosen, n_row, n_column, 1)
        if chosen == old:
            _put_back(counts, old, room.saved)
        else:
            _refresh(counts, chosen, lb)
    return log_probability


@njit(cache=True, nogil=True)
def _keep(counts, s, saved):  # type: ignore[no-untyped-def]
    """What `_refresh` would overwrite."""
    K = counts.true.shape[0]
    for c in range(len(counts.sizes)):
        if counts.sizes[c] == 0:
            continue
        saved[0, c], saved[1, c] = counts.gain[s, c], counts.gain[c, s]
        for k in range(K):
            saved[3 + k, c], saved[3 + K + k, c] = counts.row_next[k, s, c], counts.row_next[k, c, s]
            saved[3 + 2 * K + k, c], saved[3 + 3 * K + k, c] = counts.column_next[k, s, c], counts.column_next[k, c, s]
    saved[2, 0] = counts.own_gain[s]


@njit(cache=True, nogil=True)
def _put_back(counts, s, saved):  # type: ignore[no-untyped-def]
    """What `_keep` has kept, the sizes being as they were."""
    K = counts.true.shape[0]
    for c in range(len(counts.sizes)):
        if counts.sizes[c] == 0:
            continue
        counts.gain[s, c], counts.gain[c, s] = saved[0, c], saved[1, c]
        for k in range(K):
            counts.row_next[k, s, c], counts.row_next[k, c, s] = saved[3 + k, c], saved[3 + K + k, c]
            counts.column_next[k, s, c], counts.column_next[k, c, s] = saved[3 + 2 * K + k, c], saved[3 + 3 * K + k, c]
    counts.own_gain[s] = saved[2, 0]


@njit(cache=True, nogil=True)
def recount(listed, counts, lb, slots):  # type: ignore[no-untyped-def]
    """All counts from z, and the gains of the given slots: those whose members may have changed."""
    counts.true[:] = 0.0
    counts.listed[:] = 0.0
    counts.sizes[:] = 0
    z = counts.z
    for i in range(len(z)):
        if z[i] < 0:
            continue
        counts.sizes[z[i]] += 1
        for e in range(listed.row_starts[i], listed.row_starts[i + 1]):
            c = z[listed.row_others[e]]
            if c >= 0:
                counts.true[listed.row_relations[e], z[i], c] += listed.row_weights[e]
                counts.listed[listed.row_relations[e], z[i], c] += 1.0
    for s in slots:
        _refresh(counts, s, lb)


@njit(cache=True, nogil=True)
def log_evidence(counts, lb):  # type: ignore[no-untyped-def]
    """log p(X | z)."""
    n = counts.sizes
    total, nothing = 0.0, _f(0.0, 0.0, lb)
    for k in range(counts.true.shape[0]):
        for a in range(len(n)):
            for b in range(len(n)):
                if n[a] and n[b]:
                    total += _f(counts.true[k, a, b], n[a] * n[b] - counts.listed[k, a, b], lb) - nothing
    return total


@njit(cache=True, nogil=True)
def log_partition(sizes, concentration):  # type: ignore[no-untyped-def]
    """log p(z) under the Chinese restaurant process."""
    total, entities = math.lgamma(concentration), 0
    for n in sizes:
        if n:
            total += math.log(concentration) + math.lgamma(n)
            entities += n
    return total - math.lgamma(concentration + entities)


@njit(cache=True, nogil=True)
def split_or_merge(listed, counts, room, lb, concentration, uniforms):  # type: ignore[no-untyped-def]
    """One proposal of Jain & Neal (2004): two entities, and the split of their slot or the merger of their slots.

    uniforms: (passes + 2, N). The launch state of the split is drawn at random and moved by restricted Gibbs passes.
    Returns whether the proposal is accepted.
    """
    z, n = counts.z, counts.sizes
    n_entities = len(z)
    i = int(uniforms[0, 0] * n_entities)
    j = int(uniforms[0, 1] * (n_entities - 1))
    j += j >= i
    before = z.copy()
    first, second = z[i], z[j]
    is_split = first == second
    if is_split:
        second = -1
        for s in range(len(n)):
            if n[s] == 0:
                second = s
                break
        if second < 0:
            return False
    who = np.empty(n_entities, np.int64)
    size = 0
    for e in range(n_entities):
        if e != i and e != j and (z[e] == first or z[e] == second):
            who[size] = e
            size += 1
    who = who[:size]
    old = log_evidence(counts, lb) + log_partition(n, concentration)
    for t in range(size):
        z[who[t]] = first if uniforms[1, t] < 0.5 else second
    z[i], z[j] = first, second
    slots = np.array([first, second])
    recount(listed, counts, lb, slots)
    nothing = np.empty(0, np.int64)
    log_q = 0.0
    for step in range(2, len(uniforms)):
        forced = nothing if is_split or step < len(uniforms) - 1 else before[who]
        log_q = gibbs_pass(listed, counts, room, lb, concentration, who, slots, uniforms[step], forced)
    if not is_split:
        for t in range(size):
            z[who[t]] = first
        z[j] = first
        recount(listed, counts, lb, slots)
    new = log_evidence(counts, lb) + log_partition(n, concentration)
    accepted = math.log(1.0 - uniforms[0, 2]) < new - old + (-log_q if is_split else log_q)
    if not accepted:
        z[:] = before
        recount(listed, counts, lb, slots)
    return accepted
