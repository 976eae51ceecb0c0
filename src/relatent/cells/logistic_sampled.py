"""An unbiased estimate of the logistic sum over all cells, linear in the facts.

    Σ over facts w softplus(−θ)   +   Σ over zeros softplus(θ)

Listed cells are summed one by one, a batch of them a call: every P-th of the sorted list, so that a batch has its
share of each relation and needs no list of its own. Facts are listed, and so are *active* zeros: those which the model
takes for likely. All other zeros are too many, and nearly all of them are worth nothing; what counts is between
entities that have many facts. So for each relation a few subjects I and objects J are drawn,

- at equally spaced positions, with a random start, in the sorted column of subjects: one is drawn in proportion to how
  many facts it has, and is always there if it fills the space between two positions,
- at equally spaced positions, with another random start, among all entities,

and the dense block I × J is summed with weights 1 / (π_i π_j), its listed and unobserved cells left out. Each zero is
in the block with probability π_i π_j > 0, so sum and gradient are right on average, whatever the factors are. A
block costs what a tile of the exact sum costs: three BLAS products and one pass. A zero found in a block that adds
much to the variance, (1 / (π_i π_j) − 1) σ(θ)², is reported, so that it can be listed from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices, Triples, Vector
from ..data.cell_keys import cells_of
from ..data.facts import Facts
from ..data.shard import Shard
from ..distributed.workers import Workers
from . import sigmoid
from .sparse.prefetch import LINE, PREFETCH_ROWS, prefetch

ZEROS_PER_FACT = 64  # in a batch they then cost about as much as the facts
ALIKE = 0.5  # the share of a side's draws that treats all entities alike
LEAST_SIDE = 16  # entities
STRIP = 512  # rows of a block, and columns of a tile of it
CHUNK = 512  # subjects worked on at once: their rows stay in the second cache
CELLS_A_TASK = 1 << 14
CELL_COST = 15.0  # of a listed cell, in cells of a block: for sharing work between threads
ACTIVE = -1.0  # the weight of a listed zero
WORTH = 0.25  # the variance from which on a zero is worth listing
AT_ONCE = 1 << 12  # entities that are drawn sooner than threads are woken
ALONE = 1 << 16  # cells that one thread sums sooner than another is woken
LISTED, BLOCK = 0, 1  # what a task is


class Sides(NamedTuple):
    """How many entities are drawn for each relation, on each side."""

    by_degree: NDArray[np.int64]  # (2, K) in proportion to their facts; all with facts where there are no more
    alike: NDArray[np.int64]  # (2, K) of all entities
    distinct: NDArray[np.int64]  # (2, K) entities with facts


class Drawn(NamedTuple):
    """The entities of one side of every block, relation by relation."""

    starts: NDArray[np.int64]  # (K + 1,)
    ids: Ids  # (starts[-1],), sorted within a relation
    weights: Vector  # 1 / π


class Column(NamedTuple):
    """One side of the facts, sorted within each relation; of several workers, each has the ids that it owns."""

    ids: Ids
    starts: NDArray[np.int64]  # (K + 1,)
    firsts: NDArray[np.int64]  # (K,) where they begin in the column of all workers
    all_starts: NDArray[np.int64]  # (K + 1,) of that column


class Listed(NamedTuple):
    """Cells that no block may count, in order: facts, unobserved cells, and active zeros."""

    starts: NDArray[np.int64]  # (K + 1,)
    subjects: Ids
    objects: Ids
    weights: Vector  # w of a fact, 0 of an unobserved cell, ACTIVE of a zero; a single 1 where all are facts like that


class Sampled:
    """Estimates of the logistic loss and its gradient over all observed cells of some facts.

    Several workers draw what one alone would draw: each draws the subjects and the objects that it owns, and sums the
    cells, listed ones and those of the blocks, whose subject it owns. Then estimates are the same but for rounding.
    """

    def __init__(
        self,
        facts: Facts | Shard,
        dtype: Any = np.float32,
        *,
        n_batches: int = 1,
        zeros_per_fact: float = ZEROS_PER_FACT,
        typed: bool = False,
        n_threads: int | None = None,
    ):
        shard = Shard.of(facts)
        self.n, self.k, self.dtype = shard.n_entities, shard.n_relations, np.dtype(dtype)
        self.typed, self.n_batches, self.n_facts = typed, n_batches, shard.n_facts
        self.workers, self.own = shard.workers, shard.entity_range
        by_object = _sorted_within(shard.facts_by_object.objects, shard.facts_by_object.starts)
        self.columns = (
            _column(np.ascontiguousarray(shard.facts.subjects), shard.facts.starts, self.workers),
            _column(by_object, shard.facts_by_object.starts, self.workers),
        )
        self.sides = _sides(shard, self.columns, zeros_per_fact / n_batches)
        self._known = self.listed = _listed(shard.facts, self.dtype)
        self._firsts = _firsts(self.listed.starts, self.workers)
        self._active: NDArray[np.int64] | None = None
        self.n_threads = n_threads or (numba.get_num_threads() if self._cost() > ALONE else 1)
        self.pool = ThreadPoolExecutor(self.n_threads)

    def _cost(self) -> float:
        """Of a call, in cells of a block."""
        blocks = (self.sides.by_degree + self.sides.alike).prod(axis=0, dtype=float).sum()
        return float(blocks) + CELL_COST * len(self.listed.subjects) / self.n_batches

    def activate(self, active: NDArray[np.int64]) -> None:
        """List these zeros, given as sorted cell numbers, in place of those listed so far."""
        if self._active is active:  # the very array that is in force
            return
        self._active = active
        self.listed = _merged(self._known, cells_of(active, self.n), self.k) if len(active) else self._known
        self._firsts = _firsts(self.listed.starts, self.workers)

    def draw(self, uniforms: NDArray[np.float64]) -> tuple[Drawn, Drawn]:
        """Subjects and objects of every block from numbers in [0, 1): (2 sides, 2 strata, K)."""
        many = int(self.sides.by_degree.sum() + self.sides.alike.sum()) > AT_ONCE
        each = self.pool.map if many else map
        subjects, objects = each(self._draw_side, (0, 1), uniforms)
        return subjects, _by_relation(objects, self.workers)

    def _draw_side(self, side: int, uniforms: NDArray[np.float64]) -> Drawn:
        by_degree, alike, distinct = (part[side] for part in self.sides)
        room, found = int(np.sum(np.minimum(by_degree, distinct) + alike + 1)), np.zeros(self.k + 1, np.int64)
        chosen, weights = np.empty(room, np.int32), np.empty(room, self.dtype)
        own = (self.own.start, self.own.stop)
        counts = (by_degree, alike, distinct)
        _draw(*self.columns[side], self.n, *own, self.typed, *counts, *uniforms, chosen, weights, found[1:])  # type: ignore[call-arg]
        return Drawn(np.cumsum(found), chosen, weights)

    def __call__(
        self,
        A: Matrix,
        R: Slices,
        b: Vector,
        *,
        batch: int,
        uniforms: NDArray[np.float64],
        parts: Slices,
        found: NDArray[np.int64],
    ) -> tuple[float, Slices, Vector, Sequence[int]]:
        """An estimate from one batch of listed cells and one draw of zeros: value, dR, db.

        Gradients of A are added to `parts`, (threads, N, r). Numbers of cells worth listing are written to `found`,
        (threads, room), as far as there is room; how many each has is the last result. Of several workers, each has its
        part of all this.
        """
        A, R, b = (np.ascontiguousarray(array, self.dtype) for array in (A, R, b))
        rows, columns = self.draw(uniforms)
        listed = (self.listed.starts, self._firsts, self.n_batches, batch)
        tasks, edges = _tasks(*listed, rows.starts, columns.starts, len(parts))
        R_t = np.ascontiguousarray(R.transpose(0, 2, 1))

        def work(share: int) -> tuple[float, Slices, Vector, int]:
            dR, db = np.zeros_like(R), np.zeros(self.k)
            mine = tasks[edges[share] : edges[share + 1]]
            value, count = _work(
                mine, A, R, R_t, b, *self.listed, self.n_batches, *rows, *columns, parts[share], dR, db, found[share]
            )
            return value, dR, db, count

        others = [self.pool.submit(work, share) for share in range(1, len(parts))]
        shares = [work(0), *(other.result() for other in others)]
        values, dRs, dbs, counts = zip(*shares, strict=True)
        return sum(values), sum(dRs[1:], dRs[0]), sum(dbs[1:], dbs[0]), counts


def _listed(facts: Facts, dtype: Any) -> Listed:
    """Facts and unobserved cells."""
    weights = np.ones(1, dtype) if facts.weights is None else facts.weights.astype(dtype)
    known = Listed(facts.starts, np.ascontiguousarray(facts.subjects), np.ascontiguousarray(facts.objects), weights)
    if not len(facts.unobserved):
        return known
    return _merged(known, facts.unobserved, facts.n_relations, dtype.type(0))


def _merged(known: Listed, cells: Triples, n_relations: int, weight: float = ACTIVE) -> Listed:
    """The list with these cells, sorted and none of them in it, that all have one weight."""
    starts = np.searchsorted(cells[:, 1], np.arange(n_relations + 1)).astype(np.int64)
    count = len(known.subjects) + len(cells)
    merged = Listed(
        known.starts + starts,
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, known.weights.dtype),
    )
    columns = [np.ascontiguousarray(cells[:, place]) for place in (0, 2)]
    _merge(known.starts, *known[1:], starts, *columns, weight, *merged[1:])  # type: ignore[call-arg]
    return merged


@njit(nogil=True, cache=True)
def _merge(starts, subjects, objects, weights, new_starts, new_subjects, new_objects, weight, s, o, w):  # type: ignore[no-untyped-def]
    at = 0
    for k in range(len(starts) - 1):
        c, end, d, new_end = starts[k], starts[k + 1], new_starts[k], new_starts[k + 1]
        while c < end or d < new_end:
            old = d == new_end or (
                c < end
                and (subjects[c] < new_subjects[d] or (subjects[c] == new_subjects[d] and objects[c] < new_objects[d]))
            )
            if old:
                s[at], o[at], w[at] = subjects[c], objects[c], weights[c if len(weights) > 1 else 0]
                c += 1
            else:
                s[at], o[at], w[at] = new_subjects[d], new_objects[d], weight
                d += 1
            at += 1


def _sorted_within(objects: Ids, starts: NDArray[np.int64]) -> Ids:
    """Objects sorted within each relation, (n,)."""
    ordered = np.array(objects)
    for k in range(len(starts) - 1):
        ordered[starts[k] : starts[k + 1]].sort()
    return ordered


def _firsts(starts: NDArray[np.int64], workers: Workers) -> NDArray[np.int64]:
    """Where this worker's cells of each relation begin in the list of all, owner after owner, (K,)."""
    if workers.size == 1:
        return starts[:-1]
    counts = np.stack(workers.gather(np.diff(starts)))  # (workers, K)
    begin = np.concatenate([[0], np.cumsum(counts.sum(axis=0))[:-1]])
    firsts: NDArray[np.int64] = begin + counts[: workers.rank].sum(axis=0)
    return firsts


def _column(ids: Ids, starts: NDArray[np.int64], workers: Workers) -> Column:
    ends = workers.sum(np.cumsum(np.diff(starts)))
    return Column(ids, starts, _firsts(starts, workers), np.concatenate([[0], ends]))


def _by_relation(drawn: Drawn, workers: Workers) -> Drawn:
    """What all workers have drawn, in the order in which one alone would have it."""
    if workers.size == 1:
        return drawn
    count, k = drawn.starts[-1], len(drawn.starts) - 1
    tables = workers.gather(np.concatenate([np.diff(drawn.starts), drawn.ids[:count]]).astype(np.int32))
    weights = np.concatenate(workers.gather(drawn.weights[:count]))
    counts = np.stack([table[:k] for table in tables])  # (workers, K)
    order = np.argsort(np.concatenate([np.repeat(np.arange(k), each) for each in counts]), kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0, dtype=np.int64))])
    return Drawn(starts, np.concatenate([table[k:] for table in tables])[order], weights[order])


def _sides(shard: Shard, columns: Sequence[Column], zeros_per_fact: float) -> Sides:
    """Blocks of as many cells as asked for; if one side has few entities to draw from, the other gets more."""
    n = shard.n_entities
    distinct = shard.workers.sum(np.stack([_distinct(column.ids, column.starts) for column in columns]))
    cells = zeros_per_fact * np.maximum(shard.facts_per_relation, 1)  # zeros of a relation without facts count too
    side = np.sqrt(cells)
    width = np.minimum((1 - ALIKE) * side, distinct) + np.minimum(ALIKE * side, n)
    sides = np.maximum(side, cells / np.maximum(width[::-1], 1))  # (2, K) the other side's width decides
    sides = np.clip(sides, min(n, LEAST_SIDE), n / ALIKE)
    by_degree, alike = np.ceil((1 - ALIKE) * sides), np.ceil(np.minimum(ALIKE * sides, n))
    return Sides(by_degree.astype(np.int64), alike.astype(np.int64), distinct)


@njit(nogil=True, cache=True)
def _distinct(ids, starts):  # type: ignore[no-untyped-def]
    counts = np.zeros(len(starts) - 1, np.int64)
    for k in range(len(counts)):
        for c in range(starts[k], starts[k + 1]):
            counts[k] += c == starts[k] or ids[c] != ids[c - 1]
    return counts


# --- the draw


@njit(nogil=True, cache=True)
def _draw(  # type: ignore[no-untyped-def]
    ids, starts, firsts, all_starts, n, own_low, own_high, typed, by_degree, alike, distinct, u_degree, u_alike, chosen,
    weights, found,
):  # fmt: skip
    """Fill chosen and weights, relation by relation without gaps, and how many each has."""
    filled = 0
    for k in range(len(by_degree)):
        low, high = starts[k], starts[k + 1]
        begin, end = all_starts[k], all_starts[k + 1]
        space = (end - begin) / by_degree[k] if by_degree[k] < distinct[k] else 1.0
        first = filled
        filled = _draw_by_degree(ids, low, high, firsts[k] - low, begin, end, space, u_degree[k], chosen, filled)
        middle = filled
        filled = _draw_alike(n, own_low, own_high, alike[k], u_alike[k], chosen, filled)
        if first < middle < filled:
            chosen[first:filled].sort()
        end = first
        for c in range(first, filled):
            if c == first or chosen[c] != chosen[c - 1]:
                begin, stop = _run(ids, low, high, chosen[c])
                degree = stop - begin
                if typed and not degree:
                    continue
                chosen[end] = chosen[c]
                missed = (1 - min(1.0, degree / space)) * (1 - min(1.0, alike[k] / n))
                weights[end] = 1 / (1 - missed)
                end += 1
        filled = end
        found[k] = end - first


@njit(inline="always")
def _draw_by_degree(ids, low, high, shift, begin, end, space, u, chosen, filled):  # type: ignore[no-untyped-def]
    """Entities at equally spaced positions, from begin to end, of a sorted column; those that stand here."""
    at, last = begin + u * space, low - 1
    while at < end:
        here = min(np.int64(at), end - 1) - shift
        if low <= here < high:
            if last < low or ids[here] != ids[last]:
                chosen[filled] = ids[here]
                filled += 1
            last = here
        at += space
    return filled


@njit(inline="always")
def _draw_alike(n, own_low, own_high, m, u, chosen, filled):  # type: ignore[no-untyped-def]
    """m equally spaced ones of all entities; those that this worker owns."""
    for a in range(m):
        i = min(np.int64((u + a) * (n / m)), n - 1)
        if own_low <= i < own_high:
            chosen[filled] = i
            filled += 1
    return filled


@njit(inline="always")
def _run(ids, low, high, i):  # type: ignore[no-untyped-def]
    """Where an id begins and ends in a sorted column; an empty stretch where it does not stand there."""
    at = _lower_bound(ids, low, high, i)
    return at, (_run_end(ids, at, high) if at < high and ids[at] == i else at)


@njit(inline="always")
def _lower_bound(ids, low, high, i):  # type: ignore[no-untyped-def]
    """The first position in low … high whose id is not below i."""
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < i:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")
def _run_end(ids, at, high):  # type: ignore[no-untyped-def]
    """Where the run of equal ids around a position ends; steps double, since most runs are short."""
    i, step = ids[at], 1
    while at + step < high and ids[at + step] == i:
        at += step
        step *= 2
    return _lower_bound(ids, at, min(at + step, high), i + 1)


# --- the sums


@njit(nogil=True, cache=True)
def _tasks(starts, firsts, n_batches, batch, row_starts, column_starts, n_shares):  # type: ignore[no-untyped-def]
    """Tasks (kind, k, low, high) in order, and where each thread's share begins; shares cost about the same."""
    n_relations = len(starts) - 1
    count = 0
    for k in range(n_relations):
        count += (starts[k + 1] - starts[k]) // (n_batches * CELLS_A_TASK) + 2
        count += (row_starts[k + 1] - row_starts[k]) // STRIP + 1
    tasks, cost = np.empty((count, 4), np.int64), np.zeros(count + 1)
    n = 0
    for k in range(n_relations):
        low = starts[k] + (batch - firsts[k]) % n_batches  # the batch's first cell of k
        while low < starts[k + 1]:
            high = min(low + n_batches * CELLS_A_TASK, starts[k + 1])
            tasks[n] = LISTED, k, low, high
            cost[n + 1] = cost[n] + CELL_COST * (high - low) / n_batches
            low, n = high + (low - high) % n_batches, n + 1
        width = column_starts[k + 1] - column_starts[k]
        for low in range(row_starts[k], row_starts[k + 1], STRIP):
            high = min(low + STRIP, row_starts[k + 1])
            tasks[n] = BLOCK, k, low, high
            cost[n + 1] = cost[n] + np.float64(high - low) * width
            n += 1
    edges = np.searchsorted(cost[: n + 1], cost[n] * np.arange(n_shares + 1) / n_shares)
    edges[n_shares] = n
    return tasks[:n], edges


@njit(nogil=True, cache=True, fastmath=sigmoid.FAST, error_model="numpy")
def _work(  # type: ignore[no-untyped-def]
    tasks,
    A,
    R,
    R_t,
    b,
    starts,
    subjects,
    objects,
    weights,
    n_batches,
    row_starts,
    row_ids,
    row_weights,
    column_starts,
    column_ids,
    column_weights,
    dA,
    dR,
    db,
    found,
):
    """Work through tasks: adds to dA, dR and db, returns the loss and how many cells were found worth listing."""
    n, r = A.shape
    scratch = np.empty(STRIP * STRIP, A.dtype)
    rows = np.empty((4, CHUNK, r), A.dtype)
    ids = np.empty(CHUNK, np.int64)
    dR_part = np.empty((r, r), A.dtype)
    total, count = 0.0, 0
    for task in range(len(tasks)):
        kind, k, low, high = tasks[task]
        if kind == LISTED:
            total += _sum_listed(
                A, R[k], R_t[k], b[k], subjects, objects, weights, n_batches, low, high, ids, rows, dR_part,
                dA, dR[k], db[k : k + 1],
            )  # fmt: skip
        else:
            J = slice(column_starts[k], column_starts[k + 1])
            value, count = _sum_block(
                A, R[k], R_t[k], b[k], row_ids[low:high], row_weights[low:high], column_ids[J], column_weights[J],
                subjects, objects, starts[k], starts[k + 1], scratch, dR_part, dA, dR[k], db[k : k + 1],
                k * n * n, found, count,
            )  # fmt: skip
            total += value
    return total, count


@njit(inline="always")
def _sum_listed(  # type: ignore[no-untyped-def]
    A, R_k, R_t, b_k, subjects, objects, weights, n_batches, low, high, ids, rows, dR_part, dA, dR_k, db_k
):  # fmt: skip
    """Every n_batches-th listed cell from low to high, each standing for n_batches; a product a subject, not a cell."""
    r = A.shape[1]
    total, slopes = 0.0, 0.0
    row_bytes = r * A.itemsize
    scale = A.dtype.type(n_batches)
    while low < high:
        m, end, last = 0, low, np.int64(-1)
        while end < high:  # CHUNK subjects at most
            i = np.int64(subjects[end])
            if i != last:
                if m == CHUNK:
                    break
                ids[m], last = i, i
                m += 1
            end += n_batches
        A_s, Q, dQ, dA_s = rows[0, :m], rows[1, :m], rows[2, :m], rows[3, :m]
        for row in range(m):
            coming = ids[min(row + PREFETCH_ROWS, m - 1)]
            for byte in range(0, row_bytes, LINE):
                prefetch(A, coming, np.int64(byte))  # type: ignore[call-arg]
            a = A[ids[row]]
            for p in range(r):
                A_s[row, p] = a[p]
                dQ[row, p] = 0
        np.dot(A_s, R_k, Q)
        row = 0
        for c in range(low, end, n_batches):
            coming = np.int64(objects[min(c + PREFETCH_ROWS * n_batches, high - 1)])
            for byte in range(0, row_bytes, LINE):
                prefetch(A, coming, np.int64(byte))  # type: ignore[call-arg]
                prefetch(dA, coming, np.int64(byte))
            if subjects[c] != ids[row]:
                row += 1
            a, d, q, dq = A[objects[c]], dA[objects[c]], Q[row], dQ[row]
            theta = A.dtype.type(0)
            for p in range(r):
                theta += q[p] * a[p]
            w = weights[c] if len(weights) > 1 else weights[0]
            t = theta + b_k
            t = t if w < 0 else -t  # softplus of it is what the cell costs
            s, softplus = sigmoid.one_cell(t)
            total += np.float64(abs(w) * scale * softplus)
            slope = -w * scale * s
            slopes += slope
            for p in range(r):
                dq[p] += slope * a[p]
            for p in range(r):
                d[p] += slope * q[p]
        np.dot(A_s.T, dQ, dR_part)
        dR_k += dR_part
        np.dot(dQ, R_t, dA_s)
        for row in range(m):
            d = dA[ids[row]]
            for p in range(r):
                d[p] += dA_s[row, p]
        low = end
    db_k[0] += slopes
    return total


@njit(inline="always")
def _sum_block(  # type: ignore[no-untyped-def]
    A, R_k, R_t, b_k, rows, u, columns, v, subjects, objects, low, high, scratch, dR_part, dA, dR_k, db_k,
    first_cell, found, count,
):  # fmt: skip
    """The zeros of I × J that are not listed, cell (i, j) weighing u_i v_j."""
    m, r, n = len(rows), A.shape[1], np.int64(A.shape[0])
    A_I = np.empty((m, r), A.dtype)
    begin, end = np.empty(m, np.int64), np.empty(m, np.int64)
    for row in range(m):
        A_I[row] = A[rows[row]]
        begin[row], end[row] = _run(subjects, low, high, rows[row])
    Q = np.dot(A_I, R_k)
    Q_u = np.empty_like(Q)
    for row in range(m):
        for p in range(r):
            Q_u[row, p] = u[row] * Q[row, p]
    dQ = np.zeros_like(Q)
    slopes, values = np.zeros(m), np.zeros(m)
    for first in range(0, len(columns), STRIP):
        tile, v_here = columns[first : first + STRIP], v[first : first + STRIP]
        width = len(tile)
        A_J, A_v = np.empty((width, r), A.dtype), np.empty((width, r), A.dtype)
        for column in range(width):
            a, weight = A[tile[column]], v_here[column]
            for p in range(r):
                A_J[column, p] = a[p]
                A_v[column, p] = weight * a[p]
        D = scratch[: m * width].reshape(m, width)
        np.dot(Q, A_J.T, D)
        _hide(D, tile, objects, begin, end)
        sigmoid.weighted_pass(D, b_k, v_here, slopes, values)
        if count < len(found):
            count = _find(D, rows, u, tile, v_here, first_cell, n, found, count)
        dQ += np.dot(D, A_v)
        dA_J = np.dot(D.T, Q_u)
        for column in range(width):
            d, weight = dA[tile[column]], v_here[column]
            for p in range(r):
                d[p] += weight * dA_J[column, p]
    for row in range(m):
        for p in range(r):
            dQ[row, p] *= u[row]
    np.dot(A_I.T, dQ, dR_part)
    dR_k += dR_part
    dA_I = np.dot(dQ, R_t)
    total = 0.0
    for row in range(m):
        d = dA[rows[row]]
        for p in range(r):
            d[p] += dA_I[row, p]
        weight = np.float64(u[row])
        total += weight * values[row]
        db_k[0] += weight * slopes[row]
    return total, count


@njit(inline="always")
def _find(S, rows, u, columns, v, first_cell, n, found, count):  # type: ignore[no-untyped-def]
    """Write down cells whose variance, (u v − 1) σ², is above WORTH."""
    for row in range(len(S)):
        most = S.dtype.type(0)
        for column in range(len(columns)):
            most = max(most, v[column] * S[row, column] * S[row, column])
        if most * u[row] > WORTH:
            for column in range(len(columns)):
                s = S[row, column]
                if (u[row] * v[column] - 1) * s * s > WORTH and count < len(found):
                    found[count] = first_cell + np.int64(rows[row]) * n + columns[column]
                    count += 1
    return count


@njit(inline="always")
def _hide(T, J, objects, begin, end):  # type: ignore[no-untyped-def]
    """Take cells that are no zeros out of a tile; begin moves past those that lie in it or before it."""
    width = len(J)
    for row in range(len(T)):
        c, stop = begin[row], end[row]
        if stop - c > 16 * width:  # an entity with very many facts: look for the few columns among them
            for column in range(width):
                c = _lower_bound(objects, c, stop, J[column])
                if c < stop and objects[c] == J[column]:
                    T[row, column] = sigmoid.HIDDEN
        else:
            column = 0
            while c < stop and objects[c] <= J[width - 1]:
                column = _lower_bound(J, column, width, objects[c])
                if J[column] == objects[c]:
                    T[row, column] = sigmoid.HIDDEN
                c += 1
        begin[row] = c
