"""Block models of entities in clusters: counts of true and false cells, and the likelihood of a partition.

    log p(X | z) = Σ_k Σ_ab  log B(m¹_kab + β¹, m⁰_kab + β⁰) − log B(β¹, β⁰)

m¹ sums the weights of the facts of relation k from cluster a to cluster b, m⁰ counts the cells observed to be false.
Cells are stored sparse: listed cells (facts and unobserved cells) are stored in compressed rows and columns, and all
others are false, so m⁰_kab = n_a n_b − listed_kab. `block_moves` has the moves of entities between clusters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids
from ..data.facts import Facts
from ..data.listed_cells import listed_cells
from .partitions import SortedCells, sort_by_entity

MAX_TABLE_COUNT = 1 << 16  # smaller counts have their log Γ in a table


class BlockCells(NamedTuple):
    """Facts (weight w) and unobserved cells (weight 0)."""

    rows: SortedCells  # by subject
    columns: SortedCells  # by object, without the cells (i, k, i)


class BlockCounts(NamedTuple):
    """A partition, the counts of its blocks, and the gains of joining a slot. A slot holds a cluster or is empty."""

    z: Ids  # (N,) slot of each entity, −1 where it has none
    sizes: Ids  # (C,)
    true: NDArray[np.float64]  # (K, C, C): m¹
    listed: NDArray[np.float64]  # (K, C, C)
    row_next: NDArray[np.float64]  # (K, C, C): log B of block (a, b) after an entity without listed cells joins slot a
    column_next: NDArray[np.float64]  # (K, C, C): log B of block (b, a) after that
    gain: NDArray[np.float64]  # (C, C): the change of log p(X | z) by these two blocks, summed over relations
    own_gain: NDArray[np.float64]  # (C,): the change by block (a, a)


class LogBeta(NamedTuple):
    """log B(m¹ + β¹, m⁰ + β⁰) for whole counts by table: log Γ(n + β) for β = β¹, β⁰ and β¹ + β⁰.

    The last row of the table is log B(β¹, n + β⁰): most blocks hold no fact.
    """

    true: float
    false: float
    tables: NDArray[np.float64]  # (4, T)


def block_cells(facts: Facts) -> BlockCells:
    """The listed cells of each entity."""
    cells, _, w = listed_cells(facts)
    cells = cells.astype(np.int64)
    off = cells[:, 0] != cells[:, 2]  # off the diagonal
    return BlockCells(
        sort_by_entity(cells, facts.n_entities, 0).with_values(w),
        sort_by_entity(cells[off], facts.n_entities, 2).with_values(w[off]),
    )


def log_beta(beta_true: float, beta_false: float, max_count: int) -> LogBeta:
    """Tables for counts up to `max_count`."""
    tables = np.empty((4, min(max_count + 1, MAX_TABLE_COUNT)))
    _fill(tables, beta_true, beta_false)
    return LogBeta(beta_true, beta_false, tables)


def empty_counts(n_entities: int, n_relations: int, slots: int) -> BlockCounts:
    """Counts with no entity in any slot."""
    return BlockCounts(
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
def log_beta_of(m1, m0, lb):  # type: ignore[no-untyped-def]
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
def refresh(counts, s, lb):  # type: ignore[no-untyped-def]
    """Recompute the gains of joining, for all pairs of slots that contain s."""
    n = counts.sizes
    n_relations = counts.true.shape[0]
    for c in range(len(n)):
        counts.gain[s, c] = counts.gain[c, s] = 0.0
        if c == s or n[c] == 0:
            continue
        joins_s, joins_c = 0.0, 0.0
        if n[s] == 0:
            now, then = log_beta_of(0.0, 0.0, lb), log_beta_of(0.0, float(n[c]), lb)
            for k in range(n_relations):
                counts.row_next[k, s, c] = counts.column_next[k, s, c] = then
                counts.row_next[k, c, s] = counts.column_next[k, c, s] = now
            counts.gain[s, c] = 2 * n_relations * (then - now)
            continue
        for k in range(n_relations):
            m1, m0 = counts.true[k, s, c], n[s] * n[c] - counts.listed[k, s, c]
            now = log_beta_of(m1, m0, lb)
            counts.row_next[k, s, c] = log_beta_of(m1, m0 + n[c], lb)
            counts.column_next[k, c, s] = log_beta_of(m1, m0 + n[s], lb)
            joins_s += counts.row_next[k, s, c] - now
            joins_c += counts.column_next[k, c, s] - now
            m1, m0 = counts.true[k, c, s], n[s] * n[c] - counts.listed[k, c, s]
            now = log_beta_of(m1, m0, lb)
            counts.column_next[k, s, c] = log_beta_of(m1, m0 + n[c], lb)
            counts.row_next[k, c, s] = log_beta_of(m1, m0 + n[s], lb)
            joins_s += counts.column_next[k, s, c] - now
            joins_c += counts.row_next[k, c, s] - now
        counts.gain[s, c], counts.gain[c, s] = joins_s, joins_c
    own = 0.0
    for k in range(n_relations):
        m1, m0 = counts.true[k, s, s], n[s] * n[s] - counts.listed[k, s, s]
        own += log_beta_of(m1, m0 + 2 * n[s] + 1, lb) - log_beta_of(m1, m0, lb)
    counts.own_gain[s] = own


@njit(cache=True, nogil=True)
def recount(cells, counts, lb, slots):  # type: ignore[no-untyped-def]
    """Recompute all counts from z, and the gains of the given slots, whose members may have changed."""
    counts.true[:] = 0.0
    counts.listed[:] = 0.0
    counts.sizes[:] = 0
    z, rows = counts.z, cells.rows
    for i in range(len(z)):
        if z[i] < 0:
            continue
        counts.sizes[z[i]] += 1
        for e in range(rows.starts[i], rows.starts[i + 1]):
            c = z[rows.others[e]]
            if c >= 0:
                counts.true[rows.relations[e], z[i], c] += rows.values[e]
                counts.listed[rows.relations[e], z[i], c] += 1.0
    for s in slots:
        refresh(counts, s, lb)


@njit(cache=True, nogil=True)
def log_evidence(counts, lb):  # type: ignore[no-untyped-def]
    """log p(X | z)."""
    n = counts.sizes
    total, empty = 0.0, log_beta_of(0.0, 0.0, lb)
    for k in range(counts.true.shape[0]):
        for a in range(len(n)):
            for b in range(len(n)):
                if n[a] and n[b]:
                    total += log_beta_of(counts.true[k, a, b], n[a] * n[b] - counts.listed[k, a, b], lb) - empty
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
