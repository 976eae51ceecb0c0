"""The sums of a sampled logistic loss: listed cells one by one, and the zeros of drawn blocks I × J.

A block costs what a tile of the exact sum costs: three BLAS products and one pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices, Vector
from . import sigmoid
from .logistic_sampled_cell_list import CellList, id_range, lower_bound
from .logistic_sampled_zeros import DrawnSide
from .sparse.prefetch import LINE, PREFETCH_ROWS, prefetch
from .structured_products import add_outer, times

STRIP = 512  # rows of a block, and columns of a tile of it
CHUNK = 512  # subjects worked on at once: their rows stay in the second-level cache
CELLS_PER_TASK = 1 << 14
LISTED_CELL_COST = 15.0  # in cells of a block, to give threads equal work
MIN_VARIANCE = 0.25  # from which on a zero is worth listing
LISTED, BLOCK = 0, 1  # kinds of tasks


class SampledModel(NamedTuple):
    """The parameters as the kernels read them."""

    A: Matrix
    R: Slices  # (K, r, r), or compact
    R_t: Slices  # the parameters of R_kᵀ
    b: Vector


class SampledCells(NamedTuple):
    """The cells of one call."""

    listed: CellList
    n_batches: int  # every n_batches-th listed cell is summed, and counts n_batches times
    rows: DrawnSide
    columns: DrawnSide


class FoundZeros(NamedTuple):
    """Numbers of zeros that are worth listing, as far as there is space."""

    keys: NDArray[np.int64]
    filled: NDArray[np.int64]  # (1,) how many there are
    n: int  # entities


class SampleScratch(NamedTuple):
    """Work space of one thread."""

    scores: Vector  # (STRIP · STRIP,)
    rows: Slices  # (4, CHUNK, r)
    ids: Ids  # (CHUNK,)
    dR: Matrix  # noqa: N815  as one relation of R


def divide_into_tasks(
    listed: CellList, firsts: NDArray[np.int64], n_batches: int, batch: int, rows: DrawnSide, columns: DrawnSide
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Tasks (kind, k, low, high) by relation, and the cost of all tasks before each, then of all."""
    per_task = np.array([[n_batches * CELLS_PER_TASK], [STRIP]])  # positions, by kind
    lows = np.stack([listed.starts[:-1] + (batch - firsts) % n_batches, rows.starts[:-1]])  # (2, K)
    highs = np.stack([listed.starts[1:], rows.starts[1:]])
    counts = np.maximum(-((lows - highs) // per_task), 0).T.ravel()  # k by k, listed cells before the block
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    k, kind = np.divmod(np.repeat(np.arange(len(counts)), counts), 2)
    step = per_task[kind, 0]
    low = lows[kind, k] + place * step
    high = np.minimum(low + step, highs[kind, k])
    costs = (high - low) * np.where(kind == LISTED, LISTED_CELL_COST / n_batches, np.diff(columns.starts)[k])
    return np.stack([kind, k, low, high], axis=1), np.concatenate([[0.0], np.cumsum(costs)])


@njit(nogil=True, cache=True, fastmath=sigmoid.FAST, error_model="numpy")
def sum_tasks(tasks, model, cells, gradient, found):  # type: ignore[no-untyped-def]
    """Work through tasks: adds to the gradient and to the found zeros, and returns the loss."""
    r, dtype = model.A.shape[1], model.A.dtype
    scratch = SampleScratch(
        np.empty(STRIP * STRIP, dtype),
        np.empty((4, CHUNK, r), dtype),
        np.empty(CHUNK, np.int64),
        np.empty_like(model.R[0]),
    )
    total = 0.0
    for task in range(len(tasks)):
        kind, k, low, high = tasks[task]
        if kind == LISTED:
            total += _sum_listed(k, low, high, model, cells, gradient, scratch)
        else:
            total += _sum_block(k, low, high, model, cells, gradient, scratch, found)
    return total


@njit(inline="always")
def _sum_listed(k, low, high, model, cells, gradient, scratch):  # type: ignore[no-untyped-def]
    """Every n_batches-th listed cell from low to high, with one product per subject, not per cell."""
    A, dA, b_k, n_batches, ids = model.A, gradient.dA, model.b[k], cells.n_batches, scratch.ids
    subjects, objects, weights = cells.listed.subjects, cells.listed.objects, cells.listed.weights
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
        A_s, Q, dQ, dA_s = scratch.rows[0, :m], scratch.rows[1, :m], scratch.rows[2, :m], scratch.rows[3, :m]
        for row in range(m):
            coming = ids[min(row + PREFETCH_ROWS, m - 1)]
            for byte in range(0, row_bytes, LINE):
                prefetch(A, coming, np.int64(byte))  # type: ignore[call-arg]
            a = A[ids[row]]
            for p in range(r):
                A_s[row, p] = a[p]
                dQ[row, p] = 0
        times(A_s, model.R[k], Q)
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
            t = t if w < 0 else -t  # the cell costs softplus(t)
            s, softplus = sigmoid.one_cell(t)
            total += np.float64(abs(w) * scale * softplus)
            slope = -w * scale * s
            slopes += slope
            for p in range(r):
                dq[p] += slope * a[p]
            for p in range(r):
                d[p] += slope * q[p]
        add_outer(A_s, dQ, gradient.dR[k], scratch.dR)
        times(dQ, model.R_t[k], dA_s)
        for row in range(m):
            d = dA[ids[row]]
            for p in range(r):
                d[p] += dA_s[row, p]
        low = end
    gradient.db[k] += slopes
    return total


@njit(inline="always")
def _sum_block(k, low, high, model, cells, gradient, scratch, found):  # type: ignore[no-untyped-def]
    """The zeros of I × J that are not listed, cell (i, j) weighing u_i v_j; I is rows low to high."""
    A, dA, listed = model.A, gradient.dA, cells.listed
    rows, u = cells.rows.ids[low:high], cells.rows.weights[low:high]
    J = slice(cells.columns.starts[k], cells.columns.starts[k + 1])
    columns, v = cells.columns.ids[J], cells.columns.weights[J]
    m, r = len(rows), A.shape[1]
    A_I = np.empty((m, r), A.dtype)
    begin, end = np.empty(m, np.int64), np.empty(m, np.int64)
    for row in range(m):
        for p in range(r):
            A_I[row, p] = A[rows[row], p]
        begin[row], end[row] = id_range(listed.subjects, listed.starts[k], listed.starts[k + 1], rows[row])
    Q = np.empty_like(A_I)
    times(A_I, model.R[k], Q)
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
        D = scratch.scores[: m * width].reshape(m, width)
        np.dot(Q, A_J.T, D)
        _mask_listed(D, tile, listed.objects, begin, end)
        sigmoid.weighted_pass(D, model.b[k], v_here, slopes, values)
        if found.filled[0] < len(found.keys):
            _find_zeros(D, rows, u, tile, v_here, k, found)
        dQ_J = np.dot(D, A_v)
        for row in range(m):
            for p in range(r):
                dQ[row, p] += dQ_J[row, p]
        dA_J = np.dot(D.T, Q_u)
        for column in range(width):
            d, weight = dA[tile[column]], v_here[column]
            for p in range(r):
                d[p] += weight * dA_J[column, p]
    for row in range(m):
        for p in range(r):
            dQ[row, p] *= u[row]
    add_outer(A_I, dQ, gradient.dR[k], scratch.dR)
    dA_I = np.empty_like(A_I)
    times(dQ, model.R_t[k], dA_I)
    total = 0.0
    for row in range(m):
        d = dA[rows[row]]
        for p in range(r):
            d[p] += dA_I[row, p]
        weight = np.float64(u[row])
        total += weight * values[row]
        gradient.db[k] += weight * slopes[row]
    return total


@njit(inline="always")
def _find_zeros(S, rows, u, columns, v, k, found):  # type: ignore[no-untyped-def]
    """Write down cells whose variance, (u v − 1) σ², is above MIN_VARIANCE; S holds σ."""
    n = np.int64(found.n)
    for row in range(len(S)):
        most = S.dtype.type(0)
        for column in range(len(columns)):
            most = max(most, v[column] * S[row, column] * S[row, column])
        if most * u[row] > MIN_VARIANCE:
            for column in range(len(columns)):
                s = S[row, column]
                if (u[row] * v[column] - 1) * s * s > MIN_VARIANCE and found.filled[0] < len(found.keys):
                    found.keys[found.filled[0]] = (k * n + rows[row]) * n + columns[column]
                    found.filled[0] += 1


@njit(inline="always")
def _mask_listed(T, J, objects, begin, end):  # type: ignore[no-untyped-def]
    """Take listed cells out of a tile; begin moves past those that lie in it or before it."""
    width = len(J)
    for row in range(len(T)):
        c, stop = begin[row], end[row]
        if stop - c > 16 * width:  # for an entity with very many facts, search the few columns among them
            for column in range(width):
                c = lower_bound(objects, c, stop, J[column])
                if c < stop and objects[c] == J[column]:
                    T[row, column] = sigmoid.MASKED
        else:
            column = 0
            while c < stop and objects[c] <= J[width - 1]:
                column = lower_bound(J, column, width, objects[c])
                if J[column] == objects[c]:
                    T[row, column] = sigmoid.MASKED
                c += 1
        begin[row] = c
