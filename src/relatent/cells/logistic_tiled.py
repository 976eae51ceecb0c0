"""The exact logistic loss over all cells on a CPU: one compiled pass over each tile of `tiling`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ..arrays import Matrix, Vector
from ..data.facts import Facts
from ..data.shard import Shard
from . import sigmoid
from .cell_sum import CellMemory
from .tiling import TiledSum, TileScratch, tiled_memory


class TiledLogisticSum(TiledSum):
    """Value and gradient of Σ w [softplus(θ) − x θ] over all observed cells of some facts."""

    def __init__(self, facts: Facts | Shard, dtype: Any = np.float32, n_threads: int | None = None):
        super().__init__(facts, dtype, n_threads)

    def pass_over_tile(
        self, T: Matrix, bias: Vector, tile: int, sums: Vector, scratch: TileScratch, value: bool
    ) -> tuple[float, Matrix]:
        """One compiled pass, in place."""
        compiled = _pass32 if self.dtype == np.float32 else _pass64
        return compiled(T, bias, self.facts, self.unobserved, tile, sums, scratch.exponentials, value), T

    @classmethod
    def memory(cls, facts: Facts, rank: int, dtype: Any) -> CellMemory:
        """Cells by tile, and one tile of scores per thread."""
        return tiled_memory(facts, rank, dtype, tiles=1)


# The compiled part is small, and has neither products nor array expressions, as those take long to compile.


@njit(nogil=True, cache=True, fastmath=sigmoid.FAST, error_model="numpy")
def _pass32(T, bias, facts, unobserved, tile, sums, E, value):  # type: ignore[no-untyped-def]
    loss = sigmoid.prepare_facts(T, bias, facts, tile) if value else 0.0
    sigmoid.mask_cells(T, unobserved, tile)
    if value:
        loss += sigmoid.sigmoid_softplus32(T, bias, sums, E)
    else:
        sigmoid.sigmoid32(T, bias, sums)
    sigmoid.finish_facts(T, sums, facts, tile)
    return loss


@njit(nogil=True, cache=True, fastmath=sigmoid.FAST, error_model="numpy")
def _pass64(T, bias, facts, unobserved, tile, sums, E, value):  # type: ignore[no-untyped-def]
    loss = sigmoid.prepare_facts(T, bias, facts, tile)
    sigmoid.mask_cells(T, unobserved, tile)
    loss += sigmoid.sigmoid_softplus64(T, bias, sums)
    sigmoid.finish_facts(T, sums, facts, tile)
    return loss
