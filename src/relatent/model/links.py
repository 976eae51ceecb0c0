"""Links: from a score θ to a probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

from ..arrays import Vector
from ..errors import InputError


class Link(Protocol):
    """Maps scores to probabilities, monotonically."""

    @property
    def name(self) -> str:
        """What files and reports call it."""

    def probability(self, theta: Vector) -> Vector:
        """p(θ), in [0, 1]."""

    def response(self, theta: Vector) -> Vector:
        """What the model predicts for x: the probability, or θ itself for least squares."""


@dataclass(frozen=True)
class Logistic:
    """σ(θ): the Bernoulli likelihood's own link."""

    name: ClassVar[str] = "logistic"

    def probability(self, theta: Vector) -> Vector:
        """σ(θ)."""
        return expit(theta)  # type: ignore[no-any-return]

    def response(self, theta: Vector) -> Vector:
        """σ(θ)."""
        return self.probability(theta)


@dataclass(frozen=True)
class Smooth:
    """σ_ε of the paper's source: θ itself inside (ε, 1 − ε), bent exponentially into [0, 1] outside.

    For least squares, whose θ already estimates x but may leave [0, 1].
    """

    epsilon: float = 0.05
    name: ClassVar[str] = "smooth"

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= 0.5:
            raise InputError(f"epsilon must be above 0 and at most 0.5, got {self.epsilon}")

    def probability(self, theta: Vector) -> Vector:
        """σ_ε(θ), monotonic and continuous with its derivative."""
        e = self.epsilon
        theta = np.asarray(theta, np.float64)
        low = e * np.exp(np.minimum(theta / e, 1) - 1)
        high = 1 - e * np.exp(np.minimum((1 - theta) / e, 1) - 1)
        return np.where(theta <= e, low, np.where(theta >= 1 - e, high, theta))[()]

    def response(self, theta: Vector) -> Vector:
        """θ, as least squares fits it to x."""
        return theta


LINKS: dict[str, type[Logistic] | type[Smooth]] = {link.name: link for link in (Logistic, Smooth)}
