"""Cells that are not ordinary zeros: facts and unobserved cells, each with its truth and its weight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Triples, Vector
from .facts import Facts


class ListedCells(NamedTuple):
    """Facts, then unobserved cells."""

    cells: Triples  # (n, 3)
    truth: Vector  # (n,) x: 1 for a fact, 0 for an unobserved cell
    weights: Vector  # (n,) w: the confidence of a fact, 0 for an unobserved cell


def listed_cells(facts: Facts, relations: slice | None = None) -> ListedCells:
    """The facts and unobserved cells of all relations, or of a range of them."""
    first, stop = (0, facts.n_relations) if relations is None else (relations.start, relations.stop)
    known = slice(facts.starts[first], facts.starts[stop])
    unobserved = facts.unobserved[slice(*np.searchsorted(facts.unobserved[:, 1], [first, stop]))]
    cells = np.concatenate([facts.triples[known], unobserved])
    n_facts, zeros = known.stop - known.start, np.zeros(len(unobserved))
    weights = np.ones(n_facts) if facts.weights is None else facts.weights[known]
    return ListedCells(cells, np.append(np.ones(n_facts), zeros), np.append(weights, zeros))
