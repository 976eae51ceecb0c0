"""The penalised likelihood as a function of one vector: what an optimiser minimises.

Exact and sampled sums stand behind it alike. Sums over workers happen here, and nowhere else in a gradient-based fit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Matrix, Slices, Vector
from ..backend.compact_matrices import contracted, expanded, make_symmetric
from ..backend.protocol import Backend
from ..cells.cell_sum import CellMemory, CellSum, ModelSize, Parameters, Reduction, SampledSum
from ..data.facts import Facts
from ..distributed.workers import ALONE, Workers
from ..model.structure import FULL, is_compact, parameter_shape
from .attribute_prior import AttributePrior
from .penalties import BoundPenalty


class Layout(NamedTuple):
    """How A, R and b lie in one vector."""

    n: int
    k: int
    r: int
    structure: Any = FULL
    symmetric: tuple[int, ...] = ()  # undirected relations: their R_k start symmetric, and so do their derivatives

    def pack(self, A: Matrix, R: Slices, b: Vector, dtype: Any) -> Vector:
        """One vector of all three."""
        if self.symmetric and is_compact(self.structure):
            R = make_symmetric(0 + R, self.symmetric)
        return np.concatenate([A.ravel(), R.ravel(), b]).astype(dtype)

    def views(self, x: Vector) -> Parameters:
        """All three, as views of the vector."""
        n, k, r, structure, _ = self
        shape = parameter_shape(structure, k, r)
        of_entities, of_relations = n * r, math.prod(shape)
        A, R = x[:of_entities], x[of_entities : of_entities + of_relations]
        return Parameters(A.reshape(n, r), R.reshape(shape), x[of_entities + of_relations :])

    def parameters(self, x: Vector) -> Parameters:
        """A, R and b as sums over cells take them: with whole matrices if the structure is not compact."""
        A, R, b = self.views(x)
        return Parameters(A, R if is_compact(self.structure) else self.structure.matrices(R), b)


class ExpandedSum:
    """A sum over cells that needs whole matrices R_k, as a function of compact parameters."""

    def __init__(self, cells: CellSum, backend: Backend):
        self.cells, self.backend = cells, backend

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """Three arrays of whole matrices, beside the memory of the sum itself."""
        return CellMemory(0, 3 * size.itemsize * size.relation_numbers)

    def __call__(self, A: Any, R: Any, b: Any, *, value: bool = True) -> Reduction:
        """The sum and its derivatives in A, the parameters R and b."""
        loss, dA, dR, db = self.cells(A, expanded(R, lambda shape: self.backend.zeros(shape, R)), b, value=value)
        return Reduction(loss, dA, contracted(dR, self.backend.zeros(R.shape, R)), db)


class PenalisedLikelihood:
    """The loss over cells plus the penalty; the bias is not penalised, and stays fixed without `bias`.

    `sample` is the sum over cells itself if it is sampled: the optimiser decides when to draw other cells.
    """

    def __init__(
        self,
        cells: CellSum,
        layout: Layout,
        penalty: BoundPenalty,
        *,
        bias: bool,
        backend: Backend,
        workers: Workers = ALONE,
        over_facts: bool = False,
        sample: SampledSum | None = None,
        attributes: AttributePrior | None = None,
    ):
        self.cells, self.layout, self.penalty, self.bias, self.backend = cells, layout, penalty, bias, backend
        self.workers, self.sample = workers, sample
        self.attributes = attributes if workers.rank == 0 else None  # all workers have the same ones
        self._adds_penalty = over_facts or workers.rank == 0  # a penalty that is no sum over facts is added once

    @property
    def own_entities(self) -> slice:
        """The rows of A that this worker updates."""
        return self.workers.entity_range(self.layout.n)

    def __call__(self, x: Vector, *, value: bool = True) -> tuple[float, Vector]:
        """The objective, NaN if it is not wanted, and its gradient: the same on all workers."""
        part = self._own_part(x, value)
        dA, dR = (self.workers.sum(self._contiguous(array)) for array in (part.dA, part.dR))
        total, db = self._sum_numbers(part)
        total = float(total)
        gradient = self.backend.zeros(x.shape, x)
        for view, derivative in zip(self.layout.views(gradient), (dA, dR, db), strict=True):
            view[:] = derivative
        return total, gradient

    def own_rows(self, x: Vector, *, value: bool = True) -> Reduction:
        """The objective and its derivatives, valid until the next call; dA has only the rows of `own_entities`.

        The objective may be a number that a GPU has not computed yet (`Backend.deferred_dot`).

        Compared with a call, this takes no vector of its own, and half of what several workers send.
        """
        part = self._own_part(x, value)
        dA, dR = self.workers.sum_rows(part.dA), self.workers.sum(self._contiguous(part.dR))
        total, db = self._sum_numbers(part)
        return Reduction(total, dA, dR, db)

    def _own_part(self, x: Vector, value: bool) -> Reduction:
        """What this worker adds to the objective and its derivatives."""
        A, R, b = self.layout.parameters(x)
        loss, dA, dR, db = self.cells(A, R, b, value=value)
        if self._adds_penalty:
            loss += self.penalty(A, R, dA, dR)
        if self.attributes is not None:
            loss += self.attributes(A, dA)
        if not is_compact(self.layout.structure):
            dR = self.layout.structure.gradient(dR, self.layout.views(x).R)
        elif self.layout.symmetric:  # those of a sample of the cells are not symmetric by themselves
            dR = make_symmetric(dR, self.layout.symmetric)
        return Reduction(loss, dA, dR, db if self.bias else self.backend.zeros(db.shape, db))

    def _contiguous(self, array: Any) -> Any:
        return array if self.workers.size == 1 else self.backend.contiguous(array)

    def _sum_numbers(self, part: Reduction) -> tuple[float, Vector]:
        """The objective and db of all workers."""
        if self.workers.size == 1:
            return part.value, part.db
        total, *db = self.workers.sum(np.array([float(part.value), *part.db.tolist()], np.float64)).tolist()
        return total, self.backend.from_numpy(np.array(db))
