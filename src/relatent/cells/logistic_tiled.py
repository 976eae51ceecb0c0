"""The exact logistic loss over all cells on a CPU: one compiled pass over each tile of `tiling`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ..arrays import Mask, Matrix, Vector
from ..data.facts import Facts
from ..data.shard import Shard
from ..model.entity_types import OBJECT, SUBJECT, entities_in_place
from . import sigmoid
from .cell_sum import CellMemory, ModelSize
from .tiling import COLUMNS, TiledSum, TileScratch, tiled_memory


class TiledLogisticSum(TiledSum):
    """Value and gradient of Σ w [softplus(θ) − x θ] over all observed cells of some facts.

    typed: only over cells between entities that may be subjects and objects of the relation (`entities_in_place`). The
        others are masked in each tile, so that the sum takes no less time than one over all cells.
    """

    def __init__(
        self, facts: Facts | Shard, dtype: Any = np.float32, n_threads: int | None = None, *, typed: bool = False
    ):
        super().__init__(facts, dtype, n_threads)
        self.allowed = [self._allowed(facts, place) for place in (SUBJECT, OBJECT)] if typed else None

    def _allowed(self, facts: Facts | Shard, place: int) -> Mask:
        """For each relation and entity whether it may be there, (K, N)."""
        found = np.zeros((self.k, self.n), bool)
        for row, entities in zip(found, entities_in_place(facts, place), strict=True):
            row[entities] = True
        return found

    def _mask_wrong_types(self, T: Matrix, tile: int) -> None:
        assert self.allowed is not None
        block, column_tile = divmod(tile, -(-self.n // COLUMNS))
        k_low, k_high, i_low, i_high = self.blocks[block].tolist()
        subjects = self.allowed[0][k_low:k_high, i_low:i_high].T  # (rows of T) = (subject, relation)
        objects = self.allowed[1][k_low:k_high, column_tile * COLUMNS : (column_tile + 1) * COLUMNS]
        np.copyto(T.reshape(*subjects.shape, -1), T.dtype.type(sigmoid.MASKED), where=~(subjects[:, :, None] & objects))

    def pass_over_tile(
        self, T: Matrix, bias: Vector, tile: int, sums: Vector, scratch: TileScratch, value: bool
    ) -> tuple[float, Matrix]:
        """One compiled pass, in place."""
        if self.allowed is not None:
            self._mask_wrong_types(T, tile)
        compiled = _pass32 if self.dtype == np.float32 else _pass64
        return compiled(T, bias, self.facts, self.unobserved, tile, sums, scratch.exponentials, value), T

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """Cells by tile, and one tile of scores per thread."""
        return tiled_memory(facts, size, tiles=1)


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
