"""Links: maps from a score θ to a probability, as the loss of a fit defines them.

What a fit knows beyond the loss (held-out facts, other answers) is in `Calibration`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ..arrays import Vector
from ..errors import InputError


class Link(Protocol):
    """Maps scores to probabilities, monotonically."""

    @property
    def name(self) -> str:
        """The name in model files and reports."""

    @property
    def gives_probabilities(self) -> bool:
        """Whether `probability` is one: it is not where a loss only ranks answers."""

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """p(θ), in [0, 1]; relations: their ids, in a shape that broadcasts, for links that differ by relation."""

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """The prediction of x: the probability, or θ itself for least squares."""


@dataclass(frozen=True)
class LogisticLink:
    """σ(θ): the canonical link of the Bernoulli likelihood."""

    name: ClassVar[str] = "logistic"
    gives_probabilities: ClassVar[bool] = True

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
    gives_probabilities: ClassVar[bool] = True

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
    gives_probabilities: ClassVar[bool] = True

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
    gives_probabilities: ClassVar[bool] = True

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """θ clipped to [0, 1]."""
        return np.clip(theta, 0, 1)

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """θ."""
        return theta


@dataclass(frozen=True)
class RankingLink:
    """θ only ranks the answers to a question, as that of a softmax or hinge loss: there are no probabilities."""

    name: ClassVar[str] = "ranking"
    gives_probabilities: ClassVar[bool] = False

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """σ(θ), which has the order of θ but is no probability."""
        return expit(theta)  # type: ignore[no-any-return]

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """σ(θ)."""
        return self.probability(theta)


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

    @property
    def gives_probabilities(self) -> bool:
        """Whether those of all relations do."""
        return RankingLink.name not in self.links

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


_PLAIN_LINKS: tuple[type[LogisticLink | SmoothLink | CountLink | RankingLink], ...] = (
    LogisticLink,
    SmoothLink,
    CountLink,
    RankingLink,
)


@dataclass(frozen=True)
class SummedLink:
    """The link of a sum of models with one link: that of the mean of their scores."""

    links: tuple[str, ...]  # the name of a plain link, or those of all relations
    weight: float  # of the models together
    name: ClassVar[str] = "sum"

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", RelationLinks(self.links).links)
        if isinstance(self.weight, bool) or not 0 < self.weight < np.inf:
            raise InputError(f"the weight of a sum must be finite and above 0, got {self.weight!r}")

    @classmethod
    def of(cls, links: Sequence[Link], weight: float) -> Link:
        """The link of a sum of models with these links; scores of different links only rank."""
        first = links[0]
        if any(link != first for link in links):
            return RankingLink()
        if isinstance(first, RelationLinks):
            return cls(first.links, weight) if weight != 1 else first
        is_plain = any(first == kind() for kind in _PLAIN_LINKS)
        return first if weight == 1 else cls((first.name,), weight) if is_plain else RankingLink()

    @property
    def gives_probabilities(self) -> bool:
        """Whether the link of the models does."""
        return RankingLink.name not in self.links

    def probability(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """p of the mean score."""
        return self._link.probability(np.asarray(theta) / self.weight, relations)

    def response(self, theta: Vector, relations: ArrayLike | None = None) -> Vector:
        """The prediction of x by the mean score."""
        return self._link.response(np.asarray(theta) / self.weight, relations)

    @property
    def _link(self) -> Link:
        return LINKS[self.links[0]]() if len(self.links) == 1 else RelationLinks(self.links)


LINKS: dict[str, Callable[..., Link]] = {
    link.name: link
    for link in (LogisticLink, SmoothLink, CountLink, IdentityLink, RankingLink, RelationLinks, SummedLink)
}
