"""Products X_k A and X_kᵀ A of the sparse relation matrices, behind one protocol with three implementations.

`StreamedLayout` is the fastest where every cell has weight 1, `GroupedLayout` takes weights and unobserved cells, and
`RowLayout` is for graphs where few rows (relation, entity) have cells; it also runs on a GPU. `choose_layout` chooses.

The products are those of matrices S_k with a value at each listed cell (fact or unobserved cell). Without weights and
unobserved cells S_k = X_k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from ...arrays import Matrix, Slices, Vector
from ...backend.numpy_backend import NumpyBackend
from ...backend.protocol import Backend
from ...data.facts import Facts
from ...data.shard import Shard
from . import grouped, streamed
from .by_row import RowLayout
from .grouped import GroupedLayout
from .products import CellValues
from .streamed import StreamedLayout

MAX_FILLED_ROWS = 1 / 4  # use only non-empty (relation, entity) rows when at most this fraction has listed cells
ROW_BYTES_PER_CELL = 200  # ids, orders and weights of both sides, and the arrays that sort them


class WeightedCells(Protocol):
    """The listed cells of a block, by subject or by object."""

    @property
    def truth(self) -> Vector:
        """1 for facts, 0 for unobserved cells."""

    @property
    def weights(self) -> Vector:
        """The confidence of facts, 0 for unobserved cells."""

    def scores(self, A: Matrix, R: Slices) -> Vector:
        """θ of each cell; R holds the relations of the block."""

    def squared_error_change(self, theta: Vector) -> float:
        """Σ over listed cells of w (x − θ)² − θ², over all workers: what they add to Σ θ² over all cells."""


class RelationBlock(Protocol):
    """Relations that are visited together."""

    @property
    def relations(self) -> slice:
        """Their range."""

    @property
    def weighted(self) -> tuple[WeightedCells, WeightedCells] | None:
        """Listed cells by subject and by object; None if every cell has weight 1."""

    def project(self, A: Matrix, values: Vector | None) -> tuple[Slices, Any]:
        """AᵀS_kA in float64, over all workers, and the products S_k A for `add_right_side`.

        `values` are those of S_k at the cells by subject; None: 1 for facts, 0 for unobserved cells.
        """

    def add_right_side(
        self, F: Matrix, A: Matrix, R: Slices, SA: Any, values: CellValues, low_rank: Matrix | None
    ) -> None:
        """F += Σ_k S_k A R_kᵀ + S_kᵀ A R_k + A low_rank, for the rows of F that this worker owns.

        `SA` are the products from `project`; None if `values` (by subject, by object) have changed since.
        """


class SparseLayout(Protocol):
    """The listed cells of all relations, laid out for products with A."""

    @property
    def blocks(self) -> Sequence[RelationBlock]:
        """All relations, in order."""

    def product_and_gram(self, F: Matrix, T: Matrix) -> tuple[Matrix, Matrix]:
        """A = F T and AᵀA in float64, of the rows that this worker owns; T is square and a float64 array of NumPy."""

    def prepare(self, A: Matrix, U: Matrix) -> Matrix:
        """A U, for a square U in float64, in the form that the methods of the blocks take as A."""


def choose_layout(shard: Shard, rank: int, backend: Backend) -> SparseLayout:
    """The fastest layout for these facts."""
    if not isinstance(backend, NumpyBackend) or _has_few_rows(shard):
        return RowLayout(shard, backend)
    if shard.has_uniform_weights:
        return StreamedLayout(shard, rank, backend.dtype)
    return GroupedLayout(shard, rank, backend.dtype)


def layout_bytes(facts: Facts, rank: int, dtype: DTypeLike) -> int:
    """Approximate memory of the chosen layout on a CPU and of what a sweep of ALS computes with it."""
    n, k, item = facts.n_entities, facts.n_relations, int(np.dtype(dtype).itemsize)
    shard, cells = Shard.of(facts), len(facts) + len(facts.unobserved)
    if _has_few_rows(shard):
        return ROW_BYTES_PER_CELL * cells + item * rank * (3 * cells + 6 * n) + 8 * 6 * k * rank * rank
    states = item * 4 * n * rank + 8 * 3 * k * rank * rank  # A, F and R before and after a sweep
    if shard.has_uniform_weights:
        return states + streamed.layout_bytes(facts, rank, dtype)
    return states + grouped.layout_bytes(facts, rank, dtype)


def _has_few_rows(shard: Shard) -> bool:
    """Whether most rows (relation, entity) have no listed cell, as in a graph with many relations."""
    return shard.n_listed <= MAX_FILLED_ROWS * shard.n_entities * shard.n_relations
