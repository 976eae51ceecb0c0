"""`Summand`: what a sum of models remembers of each of its parts.

A sum has one matrix A with the vectors of all parts side by side, a direct sum of relation matrices, and the sum of the
biases. Everything that goes on from a fit (folding in, reasons, `update`, `calibrate`) does so for each part with the
part's own bias, loss and penalty, because each part was fitted by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..arrays import Vector
from .entity_attributes import EntityAttributes
from .links import Link, LogisticLink, RankingLink, SummedLink
from .objective_description import ObjectiveTerm
from .provenance import Provenance

LOG_ODDS_LINKS = (LogisticLink, RankingLink)  # of scores that are log-odds, of a cell or between answers


@dataclass(frozen=True, eq=False)
class Summand:
    """One part of a sum."""

    weight: float  # of its scores
    bias: Vector  # (K,), before it was weighted
    link: Link
    about: Provenance  # as of a model by itself
    loss: ObjectiveTerm | None = None
    penalty: ObjectiveTerm | None = None


class SummedTerms(NamedTuple):
    """What a sum is described by beside its factors."""

    link: Link
    loss: ObjectiveTerm | None
    penalty: ObjectiveTerm | None

    @classmethod
    def of(cls, parts: Sequence[Summand]) -> SummedTerms:
        """The terms that all parts have."""
        loss, penalty = parts[0].loss, parts[0].penalty
        return cls(
            SummedLink.of([part.link for part in parts], sum(part.weight for part in parts)),
            loss if all(part.loss == loss for part in parts) else ObjectiveTerm("sum"),
            penalty if all(part.penalty == penalty for part in parts) else ObjectiveTerm("sum"),
        )


def on_one_scale(links: Sequence[Link]) -> bool:
    """Whether scores with these links can be added: they are all of one kind, or all log-odds."""
    return all(link == links[0] for link in links) or all(isinstance(link, LOG_ODDS_LINKS) for link in links)


def attributes_of(attributes: EntityAttributes | None, components: slice) -> EntityAttributes | None:
    """What attributes say about some components of the vectors."""
    if attributes is None:
        return None
    precision = attributes.precision[components, components]
    return EntityAttributes(attributes.columns, attributes.weights[:, components], precision)
