"""The seam between a loss and its solver: who computes the sum over all cells, and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix, Slices, Vector
from ..data.facts import Facts

CellFunction = Callable[[Vector, Vector], tuple[Vector, Vector]]  # x, θ → value, slope
CellKeys = NDArray[np.int64]  # sorted cell numbers, see `data.cell_keys`


class Parameters(NamedTuple):
    """The parameters of a model: A (N, r), R (K, r, r) and b (K,)."""

    A: Matrix
    R: Slices
    b: Vector


class Reduction(NamedTuple):
    """A sum over cells and its derivatives."""

    value: float  # on a GPU it may be a tensor of one number: float() waits for it
    dA: Matrix  # noqa: N815  (N, r)
    dR: Slices  # noqa: N815  (K, r, r)
    db: Vector  # (K,)


class PartialGradient(NamedTuple):
    """What one thread adds to the gradient."""

    dA: Matrix  # noqa: N815
    dR: Slices  # noqa: N815
    db: Vector


class CellMemory(NamedTuple):
    """Bytes that a sum over cells takes beyond the facts, estimated before anything is allocated."""

    building: int  # while the sum is set up, before the solver has its vectors
    held: int  # during the fit
    call: int = 0  # more during a call; a penalty, which comes after it, takes the same memory


class ModelSize(NamedTuple):
    """The size of a model as a sum over cells sees it, for estimates of memory."""

    entities: int
    relations: int
    rank: int
    relation_numbers: int  # of all R_k: K r², or less where the sum takes compact matrices
    itemsize: int  # bytes per number

    @classmethod
    def of(cls, facts: Facts, rank: int, dtype: Any) -> ModelSize:
        """The size of a model of these facts with whole matrices R_k."""
        k = facts.n_relations
        return cls(facts.n_entities, k, rank, k * rank * rank, np.dtype(dtype).itemsize)

    @property
    def gradient(self) -> int:
        """Bytes of the derivatives in A, R and b."""
        return self.itemsize * (self.entities * self.rank + self.relation_numbers + self.relations)


class CellSum(Protocol):
    """One way to sum a loss over all observed cells. Several workers each sum their part."""

    def __call__(self, A: Any, R: Any, b: Any, *, value: bool = True) -> Reduction:
        """The sum and its derivatives, which stay valid until the next call; without `value` the sum may be NaN."""

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """The memory that a sum over these facts needs, for a model of this size."""


class SampledSum(CellSum, Protocol):
    """A sum that is estimated from a random sample of cells.

    Each draw has a number, and the same number draws the same cells. Zeros that add much to the variance are found on
    the way; once listed, they are summed exactly. Number, listed zeros and found zeros are the whole state of the sum.
    """

    def draw(self, number: int, *, find: bool = True) -> None:
        """Choose the cells that later calls sum; with `find`, they report zeros that are worth listing."""

    def restore(self, listed: CellKeys, found: CellKeys) -> None:
        """Continue from these zeros."""

    def update(self, A: Matrix, R: Slices, b: Vector) -> tuple[CellKeys, CellKeys]:
        """List found zeros if they are many, drop listed zeros that became unlikely; return listed and found zeros."""


def n_listed_cells(facts: Facts) -> int:
    """The number of facts and unobserved cells."""
    return len(facts) + len(facts.unobserved)
