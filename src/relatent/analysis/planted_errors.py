"""The probability that a fact is wrong, learned from errors that are planted into the data.

How strongly the rest of the data contradicts a wrong fact can be learned from wrong facts alone. So some facts get
another subject or object, one that the relation has in that place, the model is fitted again, and the errors are ranked
among the other facts by the evidence against them. If a share `prior` of the known facts is wrong, then a fact is wrong
with probability prior · (density of the planted errors at its rank). Ranks are carried over from one fit to the other,
and not the evidence, which is weaker where there are more errors.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.optimize import brentq
from sklearn.isotonic import isotonic_regression

from ..arrays import Mask, Triples, Vector
from ..data.facts import Facts
from ..model.known_facts import KnownFacts

PLANTED_SHARE = 0.02  # of the facts: more of them would hide each other
MIN_PLANTED, MAX_FITS = 200, 5  # as many fits as plant so many errors, but no more
MAX_PROBABILITY = 0.99
FACTS_PER_STEP = 3  # planted errors per step of their density


def exchanged_cells(known: KnownFacts, rng: np.random.Generator) -> tuple[Triples, Mask]:
    """Each fact with another subject or object that is seen in that place, and whether the cell is no fact."""
    cells = known.facts.triples.astype(np.int64)
    is_object = rng.random(len(cells)) < 0.5
    for k in range(known.n_relations):
        of_relation = np.zeros(len(cells), bool)
        of_relation[slice(*known.facts.starts[k : k + 2])] = True
        for place, ids in zip((0, 2), known.ends(k), strict=True):
            rows = of_relation & (is_object == (place == 2))
            cells[rows, place] = rng.choice(ids, int(rows.sum())) if len(ids) else 0
    return cells, ~known.facts.contains(cells) & (cells[:, 0] != cells[:, 2])


def n_fits(n_facts: int) -> int:
    """How many fits plant enough errors."""
    return min(MAX_FITS, -(-MIN_PLANTED // max(1, int(PLANTED_SHARE * n_facts))))


def with_planted_errors(facts: Facts, known: KnownFacts, rng: np.random.Generator) -> Facts:
    """The facts, a share of which is exchanged; `known` has the same ones. Errors are the cells that `facts` lacks."""
    cells, is_error = exchanged_cells(known, rng)
    is_error &= ~_in_cells(cells, facts.unobserved, facts)
    once = facts.once
    possible = np.flatnonzero(is_error & once)
    n_planted = max(1, int(PLANTED_SHARE * np.count_nonzero(once)))
    planted = rng.choice(possible, min(len(possible), n_planted), replace=False)
    triples = facts.triples.astype(np.int64)
    triples[planted] = cells[planted]
    changed = Facts.from_ids(
        triples[once],
        facts.entities,
        facts.relations,
        weights=None if facts.weights is None else facts.weights[once],
        unobserved=facts.unobserved,
        times=None if facts.times is None else facts.times[once],
        undirected=facts.undirected,
    )
    return dataclasses.replace(
        changed, attributes=facts.attributes, attribute_table=facts.attribute_table, types=facts.types
    )


def _in_cells(cells: Triples, others: Triples, facts: Facts) -> Mask:
    return Facts.from_ids(others, facts.entities, facts.relations).contains(cells)


def ranks(values: Vector, among: Vector) -> Vector:
    """The share of numbers that are larger than each value, and half of those that are equal."""
    ordered = np.sort(among)
    below = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    found: Vector = (len(ordered) - below / 2 + 0.5) / (len(ordered) + 1)
    return found


def error_probabilities(at: Vector, planted: Vector, prior: float) -> Vector:
    """The probability that each of all facts, at these ranks, is wrong, given the ranks of planted errors.

    The ranks of all facts, wrong ones among them, are even, so that by Bayes' rule a probability is the prior times the
    density of the planted errors. It falls with the rank, and the probabilities sum to the expected number of wrong
    facts.
    """
    ordered = np.sort(planted)
    edges = np.unique(np.concatenate([[0.0], ordered[FACTS_PER_STEP - 1 :: FACTS_PER_STEP], [1.0]]))
    n_below = np.searchsorted(ordered, edges, side="right")  # equal ranks are in the step that they end
    width, counts = np.diff(edges), np.diff(n_below)
    density = -isotonic_regression(-(counts + 0.5 * width) / width, sample_weight=width)  # falling with the rank
    ratio = density[np.searchsorted(edges, at) - 1]

    def capped(factor: float) -> Vector:
        found: Vector = np.minimum(factor * ratio, MAX_PROBABILITY)
        return found

    expected = prior * len(at)
    most = MAX_PROBABILITY / ratio.min()
    if capped(most).sum() <= expected:
        return capped(most)
    return capped(brentq(lambda factor: float(capped(factor).sum()) - expected, 0.0, most))
