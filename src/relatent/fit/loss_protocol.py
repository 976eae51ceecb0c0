"""What a loss must have for `Rescal(loss=…)` (`Loss`), and if it chooses who computes its sum (`ResolvedLoss`)."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ..arrays import Vector
from ..backend.protocol import Backend
from ..cells.cell_sum import CellMemory, CellSum, ModelSize, SampledSum
from ..data.facts import Facts
from ..data.shard import Shard
from ..model import links


class Loss(Protocol):
    """What a loss of single cells must have."""

    @property
    def name(self) -> str:
        """The name in settings and files."""

    @property
    def link(self) -> links.Link:
        """The link from θ to a probability."""

    @property
    def steepness(self) -> float:
        """The factor for θ of a least-squares start."""

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """Value and slope dℓ/dθ of each cell; x is 1 (or a count) for facts, 0 otherwise, and broadcasts."""

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The initial b_k from the number of true and false cells of each relation."""


class ResolvedLoss(Loss, Protocol):
    """A loss with its sums over all cells, as `resolve` returns it."""

    @property
    def ranks_only(self) -> bool:
        """Whether θ only ranks cells: there is no bias, and validation uses the loss itself."""

    @property
    def runs_on_gpu(self) -> bool:
        """Whether `cell_sum` accepts the backend of a GPU."""

    @property
    def of_single_cells(self) -> bool:
        """Whether the loss of a cell depends on that cell alone."""

    @property
    def takes_compact(self) -> bool:
        """Whether `cell_sum` takes compact relation matrices; if not, it gets whole ones."""

    @property
    def can_be_sampled(self) -> bool:
        """Whether there is a `sampled_sum` of zeros."""

    @property
    def batch_size(self) -> int | None:
        """Facts per step if the `sampled_sum` is one of batches of facts, on every device; None if it is not."""

    @property
    def reciprocal(self) -> bool:
        """Whether the sums take each fact in both directions, as `with_inverses` lists them."""

    def cell_sum(self, facts: Facts | Shard, backend: Backend, *, typed: bool = False) -> CellSum:
        """The exact sum over all observed cells; `typed`: only over cells that the types of entities allow."""

    def sampled_sum(
        self, facts: Facts | Shard, backend: Backend, *, typed: bool, redraws: bool, random_state: int
    ) -> SampledSum:
        """An estimate of that sum; without `redraws` it sums all facts in every call, and draws zeros once."""

    def facts_per_step(self, facts: Facts) -> Facts:
        """As many facts as a penalty sees in a step of a sampled fit, for estimates of memory."""

    def memory(self, facts: Facts, size: ModelSize, *, sampled: bool = False, on_gpu: bool = False) -> CellMemory:
        """The memory of the exact or the sampled sum on a CPU, or on a GPU if the loss runs there."""


class ExactOnly:
    """What losses without a sampled sum, and without a sum on a GPU, have in common."""

    ranks_only: ClassVar[bool] = False
    of_single_cells: ClassVar[bool] = True
    runs_on_gpu: ClassVar[bool] = False
    takes_compact: ClassVar[bool] = False
    can_be_sampled: ClassVar[bool] = False
    batch_size: int | None = None
    reciprocal: ClassVar[bool] = False

    def facts_per_step(self, facts: Facts) -> Facts:
        """All of them."""
        return facts

    def sampled_sum(
        self, facts: Facts | Shard, backend: Backend, *, typed: bool, redraws: bool, random_state: int
    ) -> SampledSum:
        """There is none."""
        raise NotImplementedError(f"{type(self).__name__} has no sampled sum")
