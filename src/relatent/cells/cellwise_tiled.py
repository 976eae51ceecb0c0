"""The exact sum of any loss of single cells on a CPU: a function of arrays, applied to the blocks of `tiling`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..arrays import Vector
from ..data.facts import Facts
from ..data.shard import Shard
from .cell_sum import CellFunction, CellMemory, Parameters, PartialGradient
from .tiling import COLUMNS, RowBlocks, TileCells, TiledSum, TileKernel, TileScratch, tiled_memory


class TiledCellwiseSum(TiledSum):
    """Value and gradient of Σ w loss(x, θ) over all observed cells; x is how often a fact was seen."""

    def __init__(self, facts: Facts | Shard, loss: CellFunction, dtype: Any = np.float32, n_threads: int | None = None):
        super().__init__(facts, dtype, n_threads)
        facts = Shard.of(facts).facts
        times = np.ones(len(facts)) if facts.times is None else facts.times
        self._kernel = partial(_reduce_blocks, loss, self.by_tile(facts.triples, times).weights)

    @property
    def kernel(self) -> TileKernel:
        """The pass over blocks with this loss."""
        return self._kernel

    @classmethod
    def memory(cls, facts: Facts, rank: int, dtype: Any) -> CellMemory:
        """Cells by tile, and per thread a tile of scores, values and slopes each, with what a loss computes between."""
        return tiled_memory(facts, rank, dtype, tiles=6)


@np.errstate(over="ignore", invalid="ignore")
def _reduce_blocks(
    loss: CellFunction,
    x: Vector,
    parameters: Parameters,
    blocks: RowBlocks,
    facts: TileCells,
    unobserved: TileCells,
    scratch: TileScratch,
    gradient: PartialGradient,
    value: bool,
) -> float:
    """As the compiled kernel of `logistic_tiled`; x is what was observed at each fact.

    Beyond the range of a float the value is infinite and the gradient useless; a line search then shortens its step.
    """
    A, R, b = parameters
    dA, dR, db = gradient
    dA[:], dR[:], db[:] = 0, 0, 0
    n, r = A.shape
    zero = np.zeros((), A.dtype)
    column_tiles = -(-n // COLUMNS)
    total = 0.0
    for number, (k_low, k_high, i_low, i_high) in enumerate(blocks.bounds.tolist(), blocks.first):
        A_I, width = A[i_low:i_high], k_high - k_low
        R_I = np.concatenate(list(R[k_low:k_high]), axis=1)  # (r, width · r)
        Q = (A_I @ R_I).reshape(-1, r)
        bias = np.tile(b[k_low:k_high], len(A_I))[:, None]
        dQ, sums = np.zeros_like(Q), np.zeros(len(Q))
        for tile in range(column_tiles):
            J = slice(tile * COLUMNS, (tile + 1) * COLUMNS)
            at = number * column_tiles + tile
            f = slice(facts.starts[at], facts.starts[at + 1])
            u = slice(unobserved.starts[at], unobserved.starts[at + 1])
            true, masked = (facts.rows[f], facts.columns[f]), (unobserved.rows[u], unobserved.columns[u])
            T = scratch.scores[: len(Q) * len(A[J])].reshape(len(Q), -1)
            np.matmul(Q, A[J].T, out=T)
            T += bias
            values, D = loss(zero, T)
            true_values, true_slopes = loss(x[f], T[true])
            values[true], D[true] = facts.weights[f] * true_values, facts.weights[f] * true_slopes
            values[masked], D[masked] = 0, 0
            total += float(values.sum(dtype=np.float64)) if value else 0.0
            sums += D.sum(axis=1, dtype=np.float64)
            dQ += D @ A[J]
            dA[J] += D.T @ Q
        dQ_I, k = dQ.reshape(len(A_I), -1), k_low - blocks.bounds[0, 0]
        dR[k : k + width] += (A_I.T @ dQ_I).reshape(r, width, r).transpose(1, 0, 2)
        dA[i_low:i_high] += dQ_I @ R_I.T
        db[k : k + width] += sums.reshape(-1, width).sum(axis=0)
    return total
