"""Relations that may have no direction: what the order of the two names in an edge list says.

Where no pair is listed twice, two models of who comes first are compared. By chance: either, with probability ½, so
that an entity is first in f of its d pairs with the binomial probability. By role: f of d is whatever it is, with
probabilities of its own for each d (a flat Dirichlet prior). A child is always second to two parents, a product never
buys. Every pair is counted at both of its ends, so half of the difference of the log-likelihoods is the evidence.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from ..arrays import Triples
from .facts import Facts

LOG_PRIOR_ODDS = float(np.log(1 / 9))  # one in ten relations that list no pair twice has no direction
MAX_NAMED = 3


def undirected_note(facts: Facts) -> str | None:
    """Which relations may have no direction, and what to do."""
    both, once = [], []
    for k, name in enumerate(facts.relations):
        cells = facts.triples[slice(*facts.starts[k : k + 2])]
        cells = cells[cells[:, 0] != cells[:, 2]]
        if k in facts.undirected or not len(cells):
            continue
        if facts.symmetric[k]:
            both.append(name)
        elif log_odds(cells, facts.n_entities) > 0 and not facts.contains(cells[:, ::-1]).any():
            once.append(name)
    reason = "no pair is listed twice, and which of its two names comes first is like a coin's toss"
    reasons = ((once, reason), (both, "every pair is listed in both directions"))
    notes = [f"{_listed(names)} may have no direction: {reason}" for names, reason in reasons if names]
    if not notes:
        return None
    chosen = [*once, *both][:MAX_NAMED]
    value = repr(chosen[0]) if len(chosen) == 1 else repr(chosen)
    return f"{'; '.join(notes)}; if so, undirected={value} makes both directions of a pair one fact"


def log_odds(cells: Triples, n_entities: int) -> float:
    """Of chance against roles, for the pairs of two entities of one relation, listed once."""
    first, second = (np.bincount(cells[:, place], minlength=n_entities) for place in (0, 2))
    kinds, counts = np.unique(np.stack([first + second, first]), axis=1, return_counts=True)
    degree, f = kinds
    by_chance = float(counts @ (gammaln(degree + 1) - gammaln(f + 1) - gammaln(degree - f + 1) - degree * np.log(2)))
    d, of_degree = np.unique(degree, return_inverse=True)
    n = np.bincount(of_degree, counts)
    by_role = float((gammaln(d + 1) - gammaln(n + d + 1)).sum() + gammaln(counts + 1).sum())
    return LOG_PRIOR_ODDS + (by_chance - by_role) / 2


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(map(repr, names[:MAX_NAMED])) + more
