"""What the probabilities of a model mean, and lift: a probability relative to the base rate of its relation."""

from __future__ import annotations

import numpy as np

from ..arrays import Triples, Vector
from ..model.factors import Factors
from ..model.links import UnlistedLink
from .known_facts import KnownFacts


def cell_probabilities(factors: Factors, known: KnownFacts | None, cells: Triples, theta: Vector) -> Vector:
    """The probability of each cell, given its score and what is known of its subject and object in the relation."""
    link, relations = factors.link, cells[:, 1]
    if known is None or not uses_answered(factors):
        return np.atleast_1d(np.asarray(link.probability(theta, relations), np.float64))
    assert isinstance(link, UnlistedLink)
    return np.atleast_1d(link.probability(theta, relations, known.answered(cells)))


def uses_answered(factors: Factors) -> bool:
    """Whether the probability of a cell depends on the other facts of its subject and object in the relation."""
    return isinstance(factors.link, UnlistedLink) and bool(factors.link.answered)


def base_rates(factors: Factors, known: KnownFacts | None = None) -> Vector | None:
    """Facts per observed cell of each relation, (K,): of the training data, or of the known facts for older models."""
    rates = factors.about.get("data", {}).get("base_rates", ())
    if len(rates) == len(factors.relations):
        return np.asarray(rates, np.float64)
    return None if known is None else known.facts.counts() / np.maximum(known.facts.n_observed(), 1)


def with_lift(
    factors: Factors, probability: float, relation: int, rates: Vector | None
) -> tuple[float | None, float | None]:
    """The probability, None if the model has none, and its lift, None without a base rate of the relation."""
    if not factors.has_probabilities:
        return None, None
    rate = 0.0 if rates is None else float(rates[relation])
    return probability, probability / rate if rate else None


def describe_probabilities(factors: Factors) -> str:
    """One sentence: which cells the probabilities are for, and what they assume; or that there are none."""
    found = factors.about.get("calibration")
    if not factors.has_probabilities:
        loss = factors.loss.name if factors.loss else "this"
        return f"scores of a {loss} model rank answers but are not probabilities; fit it with --calibrate for those"
    if found is None and "rescaled" in factors.about:
        return (
            "probabilities are roughly those of unlisted cells if a tenth of the true facts is missing; fit with "
            "--missing 0.1 for better ones"
        )
    if found is None:
        return "probabilities are not calibrated"
    if found.get("calibrated_for") != "unlisted":
        return "probabilities are calibrated for unobserved cells; those of unlisted cells are lower"
    share, expected = f"{found['missing']:.3g}", f"{found['expected']:,.0f}"
    prior = f"the assumed share {share}" if found["missing_is_assumed"] else f"a share {share}"
    change = "; give the share that is missing if you know better" if found["missing_is_assumed"] else ""
    return (
        f"probabilities are those of unlisted cells if {prior} of the true facts is missing: {expected} facts among "
        f"{found['unlisted_cells']:,} cells{change}"
    )
