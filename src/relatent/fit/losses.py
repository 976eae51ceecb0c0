"""Losses, each defined once: the value and the slope in θ of a cell, for the observed x.

    objective = Σ over observed cells w · loss(x, θ) + penalty

A loss also names its link, the initial bias, and its steepness: the factor for θ of a least-squares start.
`Rescal(loss=…)` accepts any object with the members of `Loss`; one with those of `ResolvedLoss` has its own sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from ..arrays import Vector
from ..backend.numpy_backend import NumpyBackend
from ..backend.protocol import Backend
from ..cells import gpu_memory
from ..cells.categorical import CategoricalSum
from ..cells.cell_sum import CellMemory, CellSum, ModelSize, SampledSum
from ..cells.cellwise_tiled import TiledCellwiseSum
from ..cells.logistic_sampled import SampledLogisticSum, default_batches
from ..cells.logistic_tiled import TiledLogisticSum
from ..cells.relation_softmax import RelationSoftmax
from ..cells.softmax import SoftmaxSum, answer_weights
from ..cells.softmax_batches import BatchedSoftmaxSum, batches_memory
from ..cells.squared import SquaredSum
from ..data.facts import Facts
from ..data.shard import Shard
from ..errors import InputError
from ..model import links
from ..model.objective_description import ObjectiveTerm
from ..parameter_checks import check_count, check_penalty
from .loss_protocol import ExactOnly, Loss, ResolvedLoss


@dataclass(frozen=True)
class Logistic:
    """softplus(θ) − x θ: the Bernoulli likelihood."""

    name: ClassVar[str] = "logistic"
    link: ClassVar[links.Link] = links.LogisticLink()
    steepness: ClassVar[float] = 4.0  # slope of the logit at ½
    ranks_only: ClassVar[bool] = False
    of_single_cells: ClassVar[bool] = True
    runs_on_gpu: ClassVar[bool] = True
    takes_compact: ClassVar[bool] = True
    can_be_sampled: ClassVar[bool] = True
    batch_size: ClassVar[None] = None
    reciprocal: ClassVar[bool] = False

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """softplus(θ) − x θ and σ(θ) − x."""
        softplus = np.maximum(theta, 0) + np.log1p(np.exp(-np.abs(theta)))
        return softplus - x * theta, expit(theta) - x

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The logit of the base rate, with half a fact added."""
        return np.log((ones + 0.5) / (zeros + 0.5))

    def cell_sum(self, facts: Facts | Shard, backend: Backend, *, typed: bool = False) -> CellSum:
        """Compiled tiles on a CPU, Triton kernels on a GPU."""
        if isinstance(backend, NumpyBackend):
            return TiledLogisticSum(facts, backend.dtype, typed=typed)
        from ..cells.logistic_gpu import GpuLogisticSum

        return GpuLogisticSum.of_shard(Shard.of(facts), backend, typed=typed)

    def sampled_sum(
        self, facts: Facts | Shard, backend: Backend, *, typed: bool, redraws: bool, random_state: int
    ) -> SampledSum:
        """Facts in batches, and zeros in dense blocks that are drawn at random."""
        n_batches = default_batches(facts) if redraws else 1
        if isinstance(backend, NumpyBackend):
            return SampledLogisticSum(facts, backend.dtype, n_batches=n_batches, typed=typed, random_state=random_state)
        from ..cells.logistic_sampled_gpu import GpuSampledLogisticSum

        return GpuSampledLogisticSum(facts, backend, n_batches=n_batches, typed=typed, random_state=random_state)  # type: ignore[arg-type]

    def facts_per_step(self, facts: Facts) -> Facts:
        """All facts: penalties are not sampled."""
        return facts

    def memory(self, facts: Facts, size: ModelSize, *, sampled: bool = False, on_gpu: bool = False) -> CellMemory:
        """That of the tiles, or of the sample."""
        if not on_gpu:
            return (SampledLogisticSum if sampled else TiledLogisticSum).memory(facts, size)
        return (gpu_memory.sampled_logistic if sampled else gpu_memory.exact_logistic)(facts, size)


@dataclass(frozen=True)
class Squared(ExactOnly):
    """(x − θ)²: what RescalALS minimises, here by gradients and with a bias."""

    name: ClassVar[str] = "squared"
    link: ClassVar[links.Link] = links.SmoothLink()
    steepness: ClassVar[float] = 1.0

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """(θ − x)² and 2 (θ − x)."""
        residual = theta - x
        return residual * residual, 2 * residual

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The base rate."""
        return ones / np.maximum(ones + zeros, 1)

    def cell_sum(self, facts: Facts | Shard, backend: Backend, *, typed: bool = False) -> CellSum:
        """A closed form, linear in the facts."""
        return SquaredSum(facts, backend.dtype)

    def memory(self, facts: Facts, size: ModelSize, *, sampled: bool = False, on_gpu: bool = False) -> CellMemory:
        """That of the closed form."""
        return SquaredSum.memory(facts, size)


@dataclass(frozen=True)
class SmoothHinge:
    """The hinge max(0, 1 − m) of the margin m = ±θ, its corner rounded to a parabola (Rennie & Srebro 2005).

    Cells on the right side of the margin cost nothing. θ is a margin, not a log-odds: probabilities come from
    the calibration of the fit.
    """

    name: ClassVar[str] = "hinge"
    link: ClassVar[links.Link] = links.RankingLink()
    steepness: ClassVar[float] = 2.0  # from −1 to 1

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """½ − m below 0, ½ (1 − m)² up to 1, then 0; and its slope."""
        sign = 2 * np.asarray(x > 0, theta.dtype) - 1
        short = 1 - sign * theta
        inside = np.clip(short, 0, 1)
        return inside * (short - inside / 2), -sign * inside

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """−1 if most cells are false, 1 if most are true: those cells then cost nothing."""
        return np.where(ones > zeros, 1.0, -1.0)


@dataclass(frozen=True)
class Poisson:
    """exp(θ) − x θ: the likelihood of counts with mean exp(θ), up to log x!; x is `Facts.times`."""

    name: ClassVar[str] = "poisson"
    link: ClassVar[links.Link] = links.CountLink()
    steepness: ClassVar[float] = 4.0

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """exp(θ) − x θ and exp(θ) − x."""
        with np.errstate(over="ignore"):  # the value is infinite then, and a line search shortens its step
            mean = np.exp(theta)
        return mean - x * theta, mean - x

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The logarithm of the mean count, with half a fact added."""
        return np.log((ones + 0.5) / (ones + zeros + 1))


@dataclass(frozen=True)
class Categorical(ExactOnly):
    """−log of the softmax over a pair's relations and "none": for data where a pair has one relation at most.

    A pair with unobserved cells and no known fact costs −log of the probability of "none" and the unobserved relations
    together, which is the likelihood of what is known. A pair with several facts counts once per fact.
    """

    name: ClassVar[str] = "categorical"
    of_single_cells: ClassVar[bool] = False
    link: ClassVar[links.Link] = links.LogisticLink()
    steepness: ClassVar[float] = 4.0

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """Not defined: the loss of a cell depends on the other relations of its pair."""
        raise NotImplementedError("the categorical loss is a sum over pairs; see cells.categorical")

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The logit of the base rate: slightly too low, as "none" competes with all relations together."""
        return Logistic().bias(ones, zeros)

    def cell_sum(self, facts: Facts | Shard, backend: Backend, *, typed: bool = False) -> CellSum:
        """A sum over pairs."""
        return CategoricalSum(facts, backend.dtype)

    def memory(self, facts: Facts, size: ModelSize, *, sampled: bool = False, on_gpu: bool = False) -> CellMemory:
        """That of the sum over pairs."""
        return CategoricalSum.memory(facts, size)


@dataclass(frozen=True)
class Softmax(ExactOnly):
    """−log of the softmax over all objects and over all subjects, summed over facts: the best loss for ranking.

    `relation_weight`: weight of −log of the softmax over relations. `degree_weight`: from 0 to 1, how much the weight
    of a fact depends on the number of facts of its answer. `batch_size`: facts per step with `method="sampled"`, which
    for Adam needs far fewer passes over the facts. `group_size`: facts of a row (subject, relation), or (object,
    relation), that are in a batch together; groups take less time, single facts make smoother steps. `reciprocal`: fit
    one R_k for the questions (s, k, ?) and another for (?, k, o), and take their mean at the end (reciprocal relations,
    Lacroix, Usunier & Obozinski 2018). θ ranks entities; `Calibrated` gives probabilities.

    >>> loss = Softmax(relation_weight=0.5, degree_weight=0.2)  # of Rescal(loss=loss)
    """

    relation_weight: float = 0.0
    degree_weight: float = 0.0
    batch_size: int = 1024
    reciprocal: bool = False  # type: ignore[misc]
    group_size: int = 4
    name: ClassVar[str] = "softmax"
    of_single_cells: ClassVar[bool] = False
    link: ClassVar[links.Link] = links.RankingLink()
    steepness: ClassVar[float] = 4.0
    ranks_only: ClassVar[bool] = True
    runs_on_gpu: ClassVar[bool] = True
    takes_compact: ClassVar[bool] = True

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """Not defined: the loss of a cell depends on the other cells of its row."""
        raise NotImplementedError("the softmax loss is a sum over rows; see cells.softmax")

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """Zero: a bias would cancel."""
        return np.zeros_like(ones)

    def check(self) -> None:
        """Refuse weights out of range."""
        check_penalty("relation_weight of Softmax", self.relation_weight)
        weight = self.degree_weight
        if isinstance(weight, bool) or not isinstance(weight, (int, float, np.number)) or not 0 <= weight <= 1:
            raise InputError(f"degree_weight of Softmax must be from 0 to 1, got {weight!r}")
        check_count("batch_size of Softmax", self.batch_size)
        check_count("group_size of Softmax", self.group_size)
        if not isinstance(self.reciprocal, bool):
            raise InputError(f"reciprocal of Softmax must be True or False, got {self.reciprocal!r}")

    def cell_sum(self, facts: Facts | Shard, backend: Backend, *, typed: bool = False) -> CellSum:
        """A sum over the rows that occur in facts."""
        weights = answer_weights(facts, self.degree_weight)
        return SoftmaxSum(
            facts,
            backend,
            relation_weight=self.relation_weight,
            answer_weights=weights,
            only_objects=self.reciprocal,
        )

    def sampled_sum(
        self, facts: Facts | Shard, backend: Backend, *, typed: bool, redraws: bool, random_state: int
    ) -> SampledSum:
        """Batches of facts; without `redraws` one batch of all facts."""
        return BatchedSoftmaxSum(
            facts,
            backend,
            batch_size=self.batch_size * (1 + self.reciprocal) if redraws else max(1, Shard.of(facts).n_facts),
            group_size=self.group_size,
            relation_weight=self.relation_weight,
            degree_weight=self.degree_weight,
            only_objects=self.reciprocal,
            random_state=random_state,
        )

    def memory(self, facts: Facts, size: ModelSize, *, sampled: bool = False, on_gpu: bool = False) -> CellMemory:
        """That of the sum over rows, of all facts or of a batch, and of the softmax over relations."""
        part = self.facts_per_step(facts) if sampled else facts
        rows = gpu_memory.softmax(part, size) if on_gpu else SoftmaxSum.memory(part, size)
        kept = 0 if part is facts else batches_memory(facts, len(part))
        over_relations = RelationSoftmax.memory(part, size) if self.relation_weight else 0
        over_relations += over_relations // 3 if on_gpu else 0  # vectors of facts, padded to the longest row of a block
        return CellMemory(0, rows.held + kept, max(rows.call, over_relations))

    def facts_per_step(self, facts: Facts) -> Facts:
        """As many facts as a batch has."""
        size = self.batch_size * (1 + self.reciprocal)
        return facts if len(facts) < 2 * size else facts.subset(np.arange(len(facts)) < size)


@dataclass(frozen=True)
class CellwiseLoss(ExactOnly):
    """A loss that only has the members of `Loss`, summed in tiles by its own `at`."""

    loss: Loss
    takes_compact: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name in settings and files."""
        return self.loss.name

    @property
    def link(self) -> links.Link:
        """The link from θ to a probability."""
        return self.loss.link

    @property
    def steepness(self) -> float:
        """The factor for θ of a least-squares start."""
        return self.loss.steepness

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """Value and slope of each cell."""
        return self.loss.at(x, theta)

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The initial bias."""
        return self.loss.bias(ones, zeros)

    def cell_sum(self, facts: Facts | Shard, backend: Backend, *, typed: bool = False) -> CellSum:
        """NumPy tiles."""
        return TiledCellwiseSum(facts, self.loss.at, backend.dtype)

    def memory(self, facts: Facts, size: ModelSize, *, sampled: bool = False, on_gpu: bool = False) -> CellMemory:
        """That of the tiles."""
        return TiledCellwiseSum.memory(facts, size)


LOSSES: dict[str, Callable[[], Loss]] = {
    loss.name: loss for loss in (Logistic, Squared, SmoothHinge, Poisson, Categorical, Softmax)
}
LOSS_MEMBERS = ("name", "link", "steepness", "at", "bias")


def resolve(loss: str | Loss) -> ResolvedLoss:
    """The loss of this name, or the given one, with its sums over all cells.

    A subclass that overrides `at` without overriding `cell_sum` is summed by its own `at`, not by the inherited kernel.
    """
    loss = _checked(loss)
    cell_sum, at = _depth(loss, "cell_sum"), _depth(loss, "at")
    return loss if cell_sum is not None and at is not None and cell_sum <= at else CellwiseLoss(loss)  # type: ignore[return-value]


def describe(loss: str | Loss) -> ObjectiveTerm:
    """The loss as a model file holds it."""
    return ObjectiveTerm.of(_checked(loss), LOSSES)


def _checked(loss: str | Loss) -> Loss:
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise InputError(f"loss must be {', '.join(map(repr, LOSSES))} or a loss object, got {loss!r}")
        return LOSSES[loss]()
    missing = [member for member in LOSS_MEMBERS if not hasattr(loss, member)]
    if isinstance(loss, type) or missing:
        raise InputError(f"loss must be a name or a loss object with {', '.join(missing) or '()'}, got {loss!r}")
    if hasattr(loss, "check"):
        loss.check()
    return loss


def _depth(loss: Loss, member: str) -> int | None:
    """How far up the inheritance a member is defined: 0 is the loss's own class."""
    return next((depth for depth, cls in enumerate(type(loss).__mro__) if member in vars(cls)), None)
