"""Links: maps from a score θ to a probability."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ..arrays import Vector
from ..errors import InputError

N_ANSWERED = 4  # kinds of cells: whether the subject has other facts of the relation, and whether the object has
MAX_LOG_ODDS = 4.6  # of an unlisted cell: p = .99


class Link(Protocol):
    """Maps scores to probabilities, monotonically."""

    @property
    def name(self) -> str:
        """The name in model files and reports."""

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """p(θ), in [0, 1]; relations: their ids, in a shape that broadcasts, for links that differ by relation."""

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """The prediction of x: the probability, or θ itself for least squares."""


@dataclass(frozen=True)
class LogisticLink:
    """σ(θ): the canonical link of the Bernoulli likelihood."""

    name: ClassVar[str] = "logistic"

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """σ(θ)."""
        return expit(theta)  # type: ignore[no-any-return]

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """σ(θ)."""
        return self.probability(theta)


@dataclass(frozen=True)
class SmoothLink:
    """σ_ε of the paper: θ inside (ε, 1 − ε), with exponential tails that stay inside [0, 1].

    For least squares, whose θ estimates x directly but may leave [0, 1].
    """

    epsilon: float = 0.05
    name: ClassVar[str] = "smooth"

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= 0.5:
            raise InputError(f"epsilon must be above 0 and at most 0.5, got {self.epsilon}")

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """σ_ε(θ), monotonic and continuous with its derivative."""
        e = self.epsilon
        theta = np.asarray(theta, np.float64)
        low = e * np.exp(np.minimum(theta / e, 1) - 1)
        high = 1 - e * np.exp(np.minimum((1 - theta) / e, 1) - 1)
        return np.where(theta <= e, low, np.where(theta >= 1 - e, high, theta))[()]

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """θ, as least squares fits it to x."""
        return theta


@dataclass(frozen=True)
class CountLink:
    """The probability that a Poisson count with mean exp(θ) is not 0."""

    name: ClassVar[str] = "count"

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """1 − exp(−exp(θ))."""
        return -np.expm1(-self.response(theta))

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """exp(θ), the mean count."""
        with np.errstate(over="ignore"):  # an infinite mean gives probability 1
            return np.exp(theta)


@dataclass(frozen=True)
class IdentityLink:
    """θ itself, for block models, whose scores are shares of true cells."""

    name: ClassVar[str] = "identity"

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """θ clipped to [0, 1]."""
        return np.clip(theta, 0, 1)

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """θ."""
        return theta


@dataclass(frozen=True)
class PlattLink:
    """σ(slope·θ + intercept): the logistic link, calibrated on held-out cells by two numbers (Platt scaling)."""

    slope: float
    intercept: float
    name: ClassVar[str] = "platt"

    def __post_init__(self) -> None:
        for what, value in (("slope", self.slope), ("intercept", self.intercept)):
            if not _is_finite(value):
                raise InputError(f"{what} must be a finite number, got {value!r}")
        if self.slope < 0:
            raise InputError(f"slope must be at least 0, so that probabilities rise with scores, got {self.slope}")

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """σ(slope·θ + intercept)."""
        return expit(self.slope * np.asarray(theta, np.float64) + self.intercept)  # type: ignore[no-any-return]

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """The probability."""
        return self.probability(theta)


@dataclass(frozen=True)
class IsotonicLink:
    """Linear between knots (score, probability), constant before the first and after the last."""

    scores: Sequence[float]
    probabilities: Sequence[float]
    name: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        for what in ("scores", "probabilities"):
            values = getattr(self, what)
            if not isinstance(values, (list, tuple)) or not all(map(_is_finite, values)):
                raise InputError(f"{what} must be a list of finite numbers")
            object.__setattr__(self, what, tuple(values))  # lists come from JSON; tuples compare and hash
        x, p = self.scores, self.probabilities
        if len(x) != len(p) or not x:
            raise InputError(f"scores and probabilities need the same length, at least 1, got {len(x)} and {len(p)}")
        if any(left >= right for left, right in pairwise(x)):
            raise InputError("scores must increase from knot to knot")
        if any(left > right for left, right in pairwise(p)):
            raise InputError("probabilities must not decrease from knot to knot")
        if p[0] < 0 or p[-1] > 1:
            raise InputError(f"probabilities must be within 0 and 1, got {p[0]} to {p[-1]}")

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """Linear between the knots."""
        return np.interp(theta, self.scores, self.probabilities)

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """The probability."""
        return self.probability(theta)


@dataclass(frozen=True)
class UnlistedLink:
    """Log-odds that are linear between knots, for each relation: probabilities of cells that are not listed.

    Constant before the first knot and after the last. For a listed cell, the probability if it were not listed.

    `answered` shifts them by what other facts the ends of a cell have in the relation: none; the object has one; the
    subject; both. Who has a place of birth has hardly another one.
    """

    scores: Sequence[Sequence[float]]  # per relation
    log_odds: Sequence[Sequence[float]]
    answered: Sequence[Sequence[float]] = ()  # four numbers per relation; none in models of older versions
    name: ClassVar[str] = "unlisted"

    def __post_init__(self) -> None:
        for what in ("scores", "log_odds", "answered"):
            rows = getattr(self, what)
            is_nested = isinstance(rows, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in rows)
            if not is_nested or not all(_is_finite(value) for row in rows for value in row):
                raise InputError(f"{what} must be a list of finite numbers per relation")
            object.__setattr__(self, what, tuple(map(tuple, rows)))
        if list(map(len, self.scores)) != list(map(len, self.log_odds)) or not all(self.scores) or not self.scores:
            raise InputError("scores and log_odds need the same length for each relation, at least 1")
        if any(left >= right for row in self.scores for left, right in pairwise(row)):
            raise InputError("scores must increase from knot to knot")
        if any(left > right for row in self.log_odds for left, right in pairwise(row)):
            raise InputError("log_odds must not decrease from knot to knot")
        if self.answered and list(map(len, self.answered)) != [N_ANSWERED] * len(self.scores):
            raise InputError(f"answered must have {N_ANSWERED} numbers for each relation")

    def probability(
        self, theta: Vector, relations: ArrayLike | None = None, answered: ArrayLike | None = None
    ) -> Vector:
        """Linear in the log-odds between the knots of the relation; `answered`: the kind of each cell, 0 to 3."""
        if relations is None:
            raise InputError("the probability of an unlisted cell depends on its relation; use Factors.probability")
        theta, k = np.broadcast_arrays(np.asarray(theta, np.float64), np.asarray(relations))
        log_odds = np.empty(theta.shape)
        for relation in np.unique(k).tolist():
            chosen = k == relation
            log_odds[chosen] = np.interp(theta[chosen], self.scores[relation], self.log_odds[relation])
        if answered is not None and self.answered:
            log_odds = np.minimum(log_odds + np.asarray(self.answered)[k, np.asarray(answered)], MAX_LOG_ODDS)
        return expit(log_odds)[()]  # type: ignore[no-any-return]

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """The probability."""
        return self.probability(theta, relations)


def _is_finite(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class RelationLinks:
    """The link of each relation by its name, for relations with losses of their own."""

    links: tuple[str, ...]
    name: ClassVar[str] = "per-relation"

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", tuple(self.links))
        unknown = set(self.links) - {kind.name for kind in _PLAIN_LINKS}
        if unknown or not self.links:
            raise InputError(f"links of relations must be plain ones, got {', '.join(map(repr, unknown)) or 'none'}")

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """p(θ) by the link of each cell's relation."""
        return self._by_relation(theta, relations, "probability")

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """The prediction of x by the link of each cell's relation."""
        return self._by_relation(theta, relations, "response")

    def _by_relation(self, theta: Vector, relations: ArrayLike | None, what: str) -> Vector:
        if relations is None:
            raise InputError("links differ by relation, so the relations of the scores are needed")
        theta, k = np.broadcast_arrays(np.asarray(theta, np.float64), np.asarray(relations))
        kinds = np.array([[link.name for link in _PLAIN_LINKS].index(name) for name in self.links])[k]
        found = np.empty(theta.shape)
        for number, kind in enumerate(_PLAIN_LINKS):
            here = kinds == number
            found[here] = getattr(kind(), what)(theta[here])
        return found[()]


_PLAIN_LINKS: tuple[type[LogisticLink | SmoothLink | CountLink], ...] = (LogisticLink, SmoothLink, CountLink)
LINKS: dict[str, Callable[..., Link]] = {
    link.name: link
    for link in (
        LogisticLink,
        SmoothLink,
        CountLink,
        IdentityLink,
        PlattLink,
        IsotonicLink,
        UnlistedLink,
        RelationLinks,
    )
}
