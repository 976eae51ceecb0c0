"""Facts as dense tensors: N × N × K numbers, for small data only."""

from __future__ import annotations

import numpy as np

from ..arrays import Slices
from .facts import Facts


def dense_tensors(facts: Facts) -> tuple[Slices, Slices]:
    """The tensor X of facts and the tensor W of weights (0 where unobserved), both (K, N, N)."""
    X = np.zeros((facts.n_relations, facts.n_entities, facts.n_entities))
    W = np.ones_like(X)
    s, k, o = facts.triples.T
    X[k, s, o] = 1
    if facts.weights is not None:
        W[k, s, o] = facts.weights
    s, k, o = facts.unobserved.T
    W[k, s, o] = 0
    return X, W
