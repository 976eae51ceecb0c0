"""Moves of entities between the clusters of a block model: Gibbs passes, splits and mergers.

A move of one entity costs O(clusters · (its listed cells + relations)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids
from .block_model import BlockCells, BlockCounts, LogBeta, log_beta_of, log_evidence, log_partition, recount, refresh

NO_SLOTS: Ids = np.empty(0, np.int64)


class SlotSums(NamedTuple):
    """The listed cells of one entity, summed by relation and slot of the other entity."""

    keys: Ids  # (D, 2): relation and slot
    sums: NDArray[np.float64]  # (D, 2): weights and number of cells


class MoveWorkspace(NamedTuple):
    """Arrays that the kernels write to while they move one entity."""

    position: Ids  # (K, C): of a sum in `SlotSums`, −1 where there is none
    rows: SlotSums
    columns: SlotSums
    loop_sums: NDArray[np.float64]  # (K, 2): the cells (i, k, i)
    own_sums: NDArray[np.float64]  # (K, 2): all cells in the block of one slot with itself
    logs: NDArray[np.float64]  # (C,)
    saved: NDArray[np.float64]  # (4 K + 3, C)


class BlockState(NamedTuple):
    """All that a move reads and changes."""

    cells: BlockCells
    counts: BlockCounts
    work: MoveWorkspace
    log_beta: LogBeta


def move_workspace(cells: BlockCells, n_relations: int, slots: int) -> MoveWorkspace:
    """A workspace large enough for any entity."""
    lengths = [min(int(np.diff(part.starts).max()), n_relations * slots) for part in cells]
    rows, columns = (SlotSums(np.empty((length, 2), np.int64), np.empty((length, 2))) for length in lengths)
    return MoveWorkspace(
        position=np.full((n_relations, slots), -1, np.int64),
        rows=rows,
        columns=columns,
        loop_sums=np.zeros((n_relations, 2)),
        own_sums=np.zeros((n_relations, 2)),
        logs=np.empty(slots),
        saved=np.empty((4 * n_relations + 3, slots)),
    )


@njit(cache=True, nogil=True)
def _gather(cells, i, z, position, slot_sums):  # type: ignore[no-untyped-def]
    """Sum the listed cells of i with other entities that are in a slot; returns the number of sums."""
    others, keys, sums = cells.others, slot_sums.keys, slot_sums.sums
    found = 0
    for e in range(cells.starts[i], cells.starts[i + 1]):
        c = z[others[e]]
        if c < 0 or others[e] == i:
            continue
        k = cells.relations[e]
        at = position[k, c]
        if at < 0:
            at = found
            position[k, c] = at
            keys[at, 0], keys[at, 1] = k, c
            sums[at, 0], sums[at, 1] = 0.0, 0.0
            found += 1
        sums[at, 0] += cells.values[e]
        sums[at, 1] += 1.0
    for at in range(found):
        position[keys[at, 0], keys[at, 1]] = -1
    return found


@njit(cache=True, nogil=True)
def _gather_loops(rows, i, sums):  # type: ignore[no-untyped-def]
    """Sum the listed cells (i, k, i)."""
    for k in range(len(sums)):
        sums[k, 0] = sums[k, 1] = 0.0
    for e in range(rows.starts[i], rows.starts[i + 1]):
        if rows.others[e] == i:
            sums[rows.relations[e], 0] += rows.values[e]
            sums[rows.relations[e], 1] += 1.0


@njit(cache=True, nogil=True)
def _count(counts, work, i, s, n_row, n_column, sign):  # type: ignore[no-untyped-def]
    """Put the gathered entity i into slot s (sign 1) or take it out (sign −1)."""
    for at in range(n_row):
        k, c = work.rows.keys[at, 0], work.rows.keys[at, 1]
        counts.true[k, s, c] += sign * work.rows.sums[at, 0]
        counts.listed[k, s, c] += sign * work.rows.sums[at, 1]
    for at in range(n_column):
        k, c = work.columns.keys[at, 0], work.columns.keys[at, 1]
        counts.true[k, c, s] += sign * work.columns.sums[at, 0]
        counts.listed[k, c, s] += sign * work.columns.sums[at, 1]
    for k in range(counts.true.shape[0]):
        counts.true[k, s, s] += sign * work.loop_sums[k, 0]
        counts.listed[k, s, s] += sign * work.loop_sums[k, 1]
    counts.sizes[s] += sign
    counts.z[i] = s if sign > 0 else -1
    if counts.sizes[s] == 0:  # sums of fractional weights leave rounding errors
        for k in range(counts.true.shape[0]):
            for c in range(len(counts.sizes)):
                counts.true[k, s, c] = counts.true[k, c, s] = 0.0


@njit(cache=True, nogil=True)
def _join_gain(counts, work, a, n_row, n_column, lb):  # type: ignore[no-untyped-def]
    """The rise of log p(X | z) when the gathered entity joins slot a."""
    n = counts.sizes
    n_relations = counts.true.shape[0]
    own = work.own_sums
    for k in range(n_relations):
        own[k, 0], own[k, 1] = work.loop_sums[k, 0], work.loop_sums[k, 1]
    gain = 0.0
    for c in range(len(n)):
        if n[c] and c != a:
            gain += counts.gain[a, c]
    gain += counts.own_gain[a]
    for at in range(n_row):
        k, c = work.rows.keys[at, 0], work.rows.keys[at, 1]
        if c == a:
            own[k, 0] += work.rows.sums[at, 0]
            own[k, 1] += work.rows.sums[at, 1]
        else:
            m1 = counts.true[k, a, c] + work.rows.sums[at, 0]
            m0 = (n[a] + 1) * n[c] - counts.listed[k, a, c] - work.rows.sums[at, 1]
            gain += log_beta_of(m1, m0, lb) - counts.row_next[k, a, c]
    for at in range(n_column):
        k, c = work.columns.keys[at, 0], work.columns.keys[at, 1]
        if c == a:
            own[k, 0] += work.columns.sums[at, 0]
            own[k, 1] += work.columns.sums[at, 1]
        else:
            m1 = counts.true[k, c, a] + work.columns.sums[at, 0]
            m0 = (n[a] + 1) * n[c] - counts.listed[k, c, a] - work.columns.sums[at, 1]
            gain += log_beta_of(m1, m0, lb) - counts.column_next[k, a, c]
    cells = (n[a] + 1) * (n[a] + 1)
    for k in range(n_relations):
        if own[k, 1]:
            m1, m0 = counts.true[k, a, a], cells - counts.listed[k, a, a]
            gain += log_beta_of(m1 + own[k, 0], m0 - own[k, 1], lb) - log_beta_of(m1, m0, lb)
    return gain


@njit(cache=True, nogil=True)
def _draw(logs, u):  # type: ignore[no-untyped-def]
    """Draw a position with probability ∝ exp(logs) by the uniform number u; logs become log probabilities."""
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
def _prior_weights(counts, logs, slots, concentration, lb):  # type: ignore[no-untyped-def]
    """Set the log prior weight of each slot that an entity may join, −∞ for the others."""
    new = np.int64(-1)  # a plain −1 is a type of its own, for which `refresh` would be compiled again
    for s in range(len(logs)):
        logs[s] = -np.inf
        if counts.sizes[s] and not len(slots):
            logs[s] = math.log(counts.sizes[s])
        elif counts.sizes[s] == 0 and new < 0:
            new = np.int64(s)
    if len(slots):
        for s in slots:
            logs[s] = math.log(counts.sizes[s])
    elif new >= 0:
        logs[new] = math.log(concentration)
        refresh(counts, new, lb)


@njit(cache=True, nogil=True)
def gibbs_pass(state, concentration, entities, slots, uniforms, forced):  # type: ignore[no-untyped-def]
    """Redraw the slot of each of the entities; returns the log probability of the slots drawn.

    slots: the two slots to choose from; if empty, any slot, and an unused one with weight `concentration`.
    forced: the slots to take in place of drawn ones; if empty, all are drawn.
    """
    cells, counts, work, lb = state
    n = counts.sizes
    log_probability = 0.0
    for t in range(len(entities)):
        i = entities[t]
        old = counts.z[i]
        counts.z[i] = -1
        n_row = _gather(cells.rows, i, counts.z, work.position, work.rows)
        n_column = _gather(cells.columns, i, counts.z, work.position, work.columns)
        _gather_loops(cells.rows, i, work.loop_sums)
        if old >= 0:
            _save_slot(counts, old, work.saved)
            _count(counts, work, i, old, n_row, n_column, np.int64(-1))
            refresh(counts, old, lb)
        _prior_weights(counts, work.logs, slots, concentration, lb)
        for s in range(len(n)):
            if work.logs[s] > -np.inf:
                work.logs[s] += _join_gain(counts, work, s, n_row, n_column, lb)
        chosen = _draw(work.logs, uniforms[t])
        if len(forced):
            chosen = forced[t]
        log_probability += work.logs[chosen]
        _count(counts, work, i, chosen, n_row, n_column, np.int64(1))
        if chosen == old:
            _restore_slot(counts, old, work.saved)
        else:
            refresh(counts, chosen, lb)
    return log_probability


@njit(cache=True, nogil=True)
def _save_slot(counts, s, saved):  # type: ignore[no-untyped-def]
    """Save what `refresh` overwrites."""
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
def _restore_slot(counts, s, saved):  # type: ignore[no-untyped-def]
    """Restore what `_save_slot` saved; the sizes must be the same again."""
    K = counts.true.shape[0]
    for c in range(len(counts.sizes)):
        if counts.sizes[c] == 0:
            continue
        counts.gain[s, c], counts.gain[c, s] = saved[0, c], saved[1, c]
        for k in range(K):
            counts.row_next[k, s, c], counts.row_next[k, c, s] = saved[3 + k, c], saved[3 + K + k, c]
            counts.column_next[k, s, c], counts.column_next[k, c, s] = saved[3 + 2 * K + k, c], saved[3 + 3 * K + k, c]
    counts.own_gain[s] = saved[2, 0]


def split_or_merge(state: BlockState, concentration: float, uniforms: NDArray[np.float64]) -> bool:
    """One proposal of Jain & Neal (2004) for two random entities: split their slot, or merge their two slots.

    uniforms: (passes + 2, N). The launch state of the split is drawn at random and moved by restricted Gibbs passes.
    Returns whether the proposal is accepted. Only what it calls is compiled: compiled as a whole, it takes 7 s.
    """
    cells, counts, _, lb = state
    z, n = counts.z, counts.sizes
    i = int(uniforms[0, 0] * len(z))
    j = int(uniforms[0, 1] * (len(z) - 1))
    j += j >= i
    before = z.copy()
    first, second = z[i], z[j]
    is_split = first == second
    if is_split:
        unused = np.flatnonzero(n == 0)
        if not len(unused):
            return False
        second = unused[0]
    slots = np.array([first, second])
    is_member = (z == first) | (z == second)
    is_member[[i, j]] = False
    members = np.flatnonzero(is_member)
    old = log_evidence(counts, lb) + log_partition(n, concentration)
    z[members] = np.where(uniforms[1, : len(members)] < 0.5, first, second)
    z[i], z[j] = first, second
    recount(cells, counts, lb, slots)
    log_q = 0.0
    for step in range(2, len(uniforms)):
        forced = NO_SLOTS if is_split or step < len(uniforms) - 1 else before[members]
        log_q = gibbs_pass(state, concentration, members, slots, uniforms[step], forced)
    if not is_split:
        z[members] = z[j] = first
        recount(cells, counts, lb, slots)
    new = log_evidence(counts, lb) + log_partition(n, concentration)
    accepted = math.log(1.0 - uniforms[0, 2]) < new - old + (-log_q if is_split else log_q)
    if not accepted:
        z[:] = before
        recount(cells, counts, lb, slots)
    return bool(accepted)
