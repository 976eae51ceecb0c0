"""The exact logistic loss over all cells on a CPU: a compiled kernel over the blocks of `tiling`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ..data.facts import Facts
from ..data.shard import Shard
from . import sigmoid
from .cell_sum import CellMemory
from .tiling import COLUMNS, TiledSum, TileKernel, tiled_memory


class TiledLogisticSum(TiledSum):
    """Value and gradient of Σ w [softplus(θ) − x θ] over all observed cells of some facts."""

    def __init__(self, facts: Facts | Shard, dtype: Any = np.float32, n_threads: int | None = None):
        super().__init__(facts, dtype, n_threads)

    @property
    def kernel(self) -> TileKernel:
        """The compiled pass over blocks."""
        return _reduce_blocks

    @classmethod
    def memory(cls, facts: Facts, rank: int, dtype: Any) -> CellMemory:
        """Cells by tile, and one tile of scores per thread."""
        return tiled_memory(facts, rank, dtype, tiles=1)


@njit(nogil=True, cache=True, fastmath=sigmoid.FAST, error_model="numpy")
def _reduce_blocks(parameters, blocks, facts, unobserved, scratch, gradient, value):  # type: ignore[no-untyped-def]
    """Overwrite the gradient of these blocks, whose dR and db begin at the first one's k, and return the loss."""
    A, R, b = parameters
    dA, dR, db = gradient
    dA[:], dR[:], db[:] = 0, 0, 0
    n, r = A.shape
    k_first = blocks.bounds[0, 0]
    column_tiles = (n + COLUMNS - 1) // COLUMNS
    total = 0.0
    for number in range(len(blocks.bounds)):
        k_low, k_high, i_low, i_high = blocks.bounds[number]
        A_I, height, width = A[i_low:i_high], i_high - i_low, k_high - k_low
        rows = height * width
        R_I = _side_by_side(R[k_low:k_high])  # (r, width · r)
        Q = np.dot(A_I, R_I).reshape(rows, r)
        dQ, sums = np.zeros((rows, r), A.dtype), np.zeros(rows, A.dtype)
        bias = np.empty((height, width), A.dtype)
        bias[:] = b[k_low:k_high]
        bias_rows = bias.reshape(rows)
        for tile in range(column_tiles):
            A_J = A[tile * COLUMNS : (tile + 1) * COLUMNS]
            dA_J = dA[tile * COLUMNS : (tile + 1) * COLUMNS]
            at = (blocks.first + number) * column_tiles + tile
            f = slice(facts.starts[at], facts.starts[at + 1])
            u = slice(unobserved.starts[at], unobserved.starts[at + 1])
            D = scratch.scores[: rows * len(A_J)].reshape(rows, len(A_J))
            np.dot(Q, A_J.T, D)
            if value:
                total += sigmoid.prepare_facts(D, bias_rows, facts.rows[f], facts.columns[f], facts.weights[f])
            sigmoid.mask_cells(D, unobserved.rows[u], unobserved.columns[u])
            total += sigmoid.pass_over_tile(D, bias_rows, sums, scratch.exponentials, value)
            sigmoid.finish_facts(D, sums, facts.rows[f], facts.columns[f], facts.weights[f])
            dQ += np.dot(D, A_J)
            dA_J += np.dot(D.T, Q)
        dQ_I = dQ.reshape(height, width * r)
        dR_I = np.dot(A_I.T, dQ_I)
        dA[i_low:i_high] += np.dot(dQ_I, R_I.T)
        for k in range(width):
            dR[k_low - k_first + k] += dR_I[:, k * r : (k + 1) * r]
        for row in range(rows):
            db[k_low - k_first + row % width] += sums[row]
    return total


@njit(inline="always")
def _side_by_side(R):  # type: ignore[no-untyped-def]
    """[R_1 … R_m], (r, m · r): the products with all of them are one product."""
    m, r, _ = R.shape
    wide = np.empty((r, m * r), R.dtype)
    for k in range(m):
        wide[:, k * r : (k + 1) * r] = R[k]
    return wide
