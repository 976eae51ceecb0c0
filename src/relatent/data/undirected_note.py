"""Relations that may have no direction: what the order of the two names in an edge list says.

Where no pair is listed twice, two models of who comes first are compared. By chance: either, with probability ½. By
role: each entity comes first with a probability of its own, of which nothing is known before (uniform); a child is
always second to its parents, a cited paper to those that cite it. Every pair tells of one of its entities, the one with
more pairs. The log-likelihoods differ by Σ over entities of log B(f + 1, m − f + 1) + m log 2, for an entity that is
first in f of its m pairs.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln

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
    """Of no direction against roles, for pairs of two entities of one relation that are listed once."""
    s, o = cells[:, 0], cells[:, 2]
    degree = np.bincount(np.concatenate([s, o]), minlength=n_entities)
    is_of_subject = (degree[s] > degree[o]) | ((degree[s] == degree[o]) & (s < o))
    first = np.bincount(s[is_of_subject], minlength=n_entities)
    second = np.bincount(o[~is_of_subject], minlength=n_entities)
    by_role = float(betaln(first + 1, second + 1).sum())
    return LOG_PRIOR_ODDS - len(cells) * float(np.log(2)) - by_role


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(map(repr, names[:MAX_NAMED])) + more
