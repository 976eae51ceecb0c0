"""The exact sum of any loss of single cells on a CPU: a function of arrays, applied to the blocks of `tiling`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Matrix, Vector
from ..data.facts import Facts
from ..data.shard import Shard
from .cell_sum import CellFunction, CellMemory, ModelSize
from .tiling import TiledSum, TileScratch, tiled_memory


class TiledCellwiseSum(TiledSum):
    """Value and gradient of Σ w loss(x, θ) over all observed cells; x is how often a fact was seen."""

    def __init__(self, facts: Facts | Shard, loss: CellFunction, dtype: Any = np.float32, n_threads: int | None = None):
        super().__init__(facts, dtype, n_threads)
        facts = Shard.of(facts).facts
        times = np.ones(len(facts)) if facts.times is None else facts.times
        self._loss, self._x = loss, self.by_tile(facts.triples, times).weights

    def pass_over_tile(
        self, T: Matrix, bias: Vector, tile: int, sums: Vector, scratch: TileScratch, value: bool
    ) -> tuple[float, Matrix]:
        """The loss at all cells as zeros, then at the facts of the tile."""
        f, true = self.facts.of(tile)
        _, masked = self.unobserved.of(tile)
        T += bias[:, None]
        values, D = self._loss(np.zeros((), T.dtype), T)
        true_values, true_slopes = self._loss(self._x[f], T[true])
        weights = self.facts.weights[f]
        values[true], D[true] = weights * true_values, weights * true_slopes
        values[masked], D[masked] = 0, 0
        sums += D.sum(axis=1, dtype=np.float64)
        return float(values.sum(dtype=np.float64)) if value else 0.0, D

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """Cells by tile, and per thread a tile of scores, values and slopes each, with what a loss computes between."""
        return tiled_memory(facts, size, tiles=6)
