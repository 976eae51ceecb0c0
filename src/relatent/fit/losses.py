"""Losses of single cells, each stated once: value and slope in θ, for the observed x.

    objective = Σ over observed cells w · loss(x, θ) + λ_A ‖A‖² + λ_R Σ_k ‖R_k‖²

A loss also names its link, the start of a bias, and the steepness by which the start of least squares, whose θ runs
from 0 to 1, is stretched. Anything with these members can be given to `Rescal(loss=…)`. The categorical loss is no sum
over single cells and has an evaluator of its own (`cells.exclusive`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import expit

from ..arrays import Vector
from ..backend.numpy_backend import NumpyBackend
from ..backend.protocol import Backend
from ..cells.categorical import Exclusive
from ..cells.gram import SquaredSum
from ..cells.logistic_tiled import Tiled
from ..cells.softmax import SoftmaxSum
from ..data.facts import Facts
from ..data.shard import Shard
from ..errors import InputError
from ..model import links
from .estimators.base import check_penalty


class Loss(Protocol):
    """What a cell costs."""

    @property
    def name(self) -> str:
        """What settings and files call it."""

    @property
    def link(self) -> links.Link:
        """From θ to a probability."""

    @property
    def steepness(self) -> float:
        """What one unit of least squares' θ is worth."""

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """Value and slope dℓ/dθ of each cell; x is 1 (or a count) for facts, 0 otherwise, and broadcasts."""

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """A start for b_k from the number of true and false cells of each relation."""


@dataclass(frozen=True)
class Logistic:
    """softplus(θ) − x θ: the Bernoulli likelihood."""

    name: ClassVar[str] = "logistic"
    link: ClassVar[links.Link] = links.LogisticLink()
    steepness: ClassVar[float] = 4.0  # slope of the logit at ½

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """softplus(θ) − x θ and σ(θ) − x."""
        softplus = np.maximum(theta, 0) + np.log1p(np.exp(-np.abs(theta)))
        return softplus - x * theta, expit(theta) - x

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The logit of the base rate, half a fact added."""
        return np.log((ones + 0.5) / (zeros + 0.5))


@dataclass(frozen=True)
class Squared:
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


@dataclass(frozen=True)
class SmoothHinge:
    """The hinge max(0, 1 − m) of the margin m = ±θ, its corner rounded to a parabola (Rennie & Srebro 2005).

    Cells on the right side of the margin cost nothing. θ is a margin, not a log-odds: for probabilities to be trusted,
    wrap the estimator in `Calibrated`.
    """

    name: ClassVar[str] = "hinge"
    link: ClassVar[links.Link] = links.LogisticLink()
    steepness: ClassVar[float] = 2.0  # from −1 to 1

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """½ − m below 0, ½ (1 − m)² up to 1, then 0; and its slope."""
        sign = 2 * np.asarray(x > 0, theta.dtype) - 1
        short = 1 - sign * theta
        inside = np.clip(short, 0, 1)
        return inside * (short - inside / 2), -sign * inside

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """−1 where most cells are false, 1 where most are true: they cost nothing."""
        return np.where(ones > zeros, 1.0, -1.0)


@dataclass(frozen=True)
class Poisson:
    """exp(θ) − x θ: the likelihood of counts with mean exp(θ), up to log x!; x is `Facts.times`."""

    name: ClassVar[str] = "poisson"
    link: ClassVar[links.Link] = links.CountLink()
    steepness: ClassVar[float] = 4.0

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """exp(θ) − x θ and exp(θ) − x."""
        with np.errstate(over="ignore"):  # a step too far is infinitely bad, and the line search comes back
            mean = np.exp(theta)
        return mean - x * theta, mean - x

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The logarithm of the mean count, half a fact added."""
        return np.log((ones + 0.5) / (ones + zeros + 1))


@dataclass(frozen=True)
class Categorical:
    """−log of the softmax over a pair's relations and "none": for data where a pair has one relation at most.

    A pair with unobserved cells and no known fact costs −log of the share of "none" and the unobserved relations
    together: the likelihood of what is known. A pair with several facts counts once for each.
    """

    name: ClassVar[str] = "categorical"
    link: ClassVar[links.Link] = links.LogisticLink()
    steepness: ClassVar[float] = 4.0

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """There is none: what a cell costs depends on the other relations of its pair."""
        raise NotImplementedError("the categorical loss is a sum over pairs; see cells.exclusive")

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The logit of the base rate: a little low, as "none" competes with all relations together."""
        return Logistic().bias(ones, zeros)


@dataclass(frozen=True)
class Softmax:
    """−log of the softmax over all objects and over all subjects, summed over facts: trained for ranking.

    `relations`: weight of −log of the softmax over relations. `hubs`: from 0 to 1, how much a fact counts by the number
    of facts of the entity asked for. θ says who is likelier than whom, not how likely: there is no bias, and for
    probabilities wrap the estimator in `Calibrated`.
    """

    relations: float = 0.0
    hubs: float = 0.0
    name: ClassVar[str] = "softmax"
    link: ClassVar[links.Link] = links.LogisticLink()
    steepness: ClassVar[float] = 4.0

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """There is none: what a cell costs depends on the other cells of its row."""
        raise NotImplementedError("the softmax loss is a sum over rows; see cells.softmax")

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """None: it would cancel."""
        return np.zeros_like(ones)


LOSSES: dict[str, Callable[[], Loss]] = {
    loss.name: loss for loss in (Logistic, Squared, SmoothHinge, Poisson, Categorical, Softmax)
}


def resolve(loss: str | Loss) -> Loss:
    """The loss of this name, or the given one."""
    if not isinstance(loss, str):
        missing = [part for part in ("name", "link", "steepness", "at", "bias") if not hasattr(loss, part)]
        if isinstance(loss, type) or missing:
            raise InputError(f"loss must be a name or a loss object with {', '.join(missing) or '()'}, got {loss!r}")
        if isinstance(loss, Softmax):
            _check_softmax(loss)
        return loss
    if loss not in LOSSES:
        raise InputError(f"loss must be {', '.join(map(repr, LOSSES))} or a loss object, got {loss!r}")
    return LOSSES[loss]()


def _check_softmax(loss: Softmax) -> None:
    check_penalty("relations of Softmax", loss.relations)
    hubs = loss.hubs
    if isinstance(hubs, bool) or not isinstance(hubs, (int, float, np.number)) or not 0 <= hubs <= 1:
        raise InputError(f"hubs of Softmax must be from 0 to 1, got {hubs!r}")


def evaluator(loss: Loss, facts: Facts | Shard, backend: Backend, *, typed: bool = False) -> Any:
    """The fastest exact sum of this loss over all observed cells, as a function of A, R and b of `backend`.

    By the very type: a loss of one's own may descend from one of these and state another `at`.
    """
    if type(loss) is Softmax:
        return SoftmaxSum(facts, backend, relations=loss.relations, hubs=loss.hubs)
    if not isinstance(backend, NumpyBackend):
        from ..backend.torch_backend import TorchBackend
        from ..cells.logistic_gpu import Fused

        assert isinstance(backend, TorchBackend)
        shard = Shard.of(facts)
        return Fused(shard.facts, backend, typed=typed, rows=(shard.entity_range.start, shard.entity_range.stop))
    dtype = backend.dtype
    if type(loss) is Logistic:
        return Tiled(facts, dtype)
    if type(loss) is Squared:
        return SquaredSum(facts, dtype)
    if type(loss) is Categorical:
        return Exclusive(facts, dtype)
    return Tiled(facts, dtype, loss=loss.at)
