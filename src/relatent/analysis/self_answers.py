"""Whether an entity may be the answer to a question about itself."""

from __future__ import annotations

import numpy as np

from ..arrays import Mask
from ..model.factors import Factors
from .known_facts import KnownFacts


def may_be_itself(factors: Factors, known: KnownFacts | None) -> Mask:
    """For each relation whether an entity may be related to itself, (K,).

    It may if a training fact or a known fact of the relation has one entity as subject and object, or if no fact of the
    relation is there to tell.
    """
    K = len(factors.relations)
    n_facts, n_self = np.zeros(K), np.zeros(K)
    trained = factors.about.get("data", {})
    if len(trained.get("self_facts", ())) == K == len(trained.get("base_rates", ())):
        n_facts, n_self = np.array(trained["base_rates"]), np.array(trained["self_facts"])
    if known is not None:
        n_facts, n_self = n_facts + known.facts.counts(), n_self + known.n_self_facts
    found: Mask = (n_self > 0) | (n_facts == 0)
    return found
