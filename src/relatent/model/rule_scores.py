"""Scores by weighted rules: θ = b_k + Σ w over the rules of relation k whose body connects subject and object.

Nothing of N × N is stored: rules are matched with the facts they were learned from when a score is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Vector
from ..data.facts import Facts
from ..errors import InputError
from .step_graph import Body, StepGraph

MAX_STEPS = 2  # of a body


def check_has_vectors(A: Matrix) -> None:
    """Raise InputError if a model has no entity vectors, for questions that are about them."""
    if not A.shape[1]:
        raise InputError("the model has rules and no vectors; ask a model of another kind, such as logit")


@dataclass(frozen=True, eq=False)
class RuleScores:
    """Weighted rules, and the facts that their bodies are matched with."""

    facts: Facts
    heads: NDArray[np.int32]  # (m,) relations
    steps: NDArray[np.int32]  # (m, 2) as of StepGraph; −1: none; the body of k(x,x) has none
    weights: Vector  # (m,)
    each_z: bool = False  # a weight counts for every path, not once

    def __post_init__(self) -> None:
        m, K = len(self.heads), self.facts.n_relations
        fits = self.steps.shape == (m, MAX_STEPS) and self.weights.shape == (m,) and np.isfinite(self.weights).all()
        if not fits or (m and not (self.heads.min() >= 0 and self.heads.max() < K)):
            raise InputError(f"each rule must have a head among {K} relations, two steps and a finite weight")
        if m and not (self.steps.min() >= -1 and self.steps.max() < 2 * K):
            raise InputError(f"steps of rules must be −1 to {2 * K - 1}, got {self.steps.min()} to {self.steps.max()}")

    @cached_property
    def _graph(self) -> StepGraph:
        return StepGraph(self.facts)

    def with_symmetric(self, relations: frozenset[int]) -> RuleScores:
        """Rules of which those of these relations add the same to a cell and to its mirror: the mean of both."""
        mirrored = np.flatnonzero(np.isin(self.heads, sorted(relations)) & (self.steps[:, 0] >= 0))
        back = np.where(self.steps[mirrored] >= 0, self.steps[mirrored] ^ 1, -1)
        has_two = back[:, 1] >= 0
        back[has_two] = back[has_two, ::-1]
        weights = self.weights.copy()
        weights[mirrored] /= 2
        return replace(
            self,
            heads=np.concatenate([self.heads, self.heads[mirrored]]),
            steps=np.concatenate([self.steps, back]),
            weights=np.concatenate([weights, weights[mirrored]]),
        )

    def of(self, relation: int) -> Iterator[tuple[Body, float]]:
        """The body and the weight of each rule of a relation."""
        for rule in np.flatnonzero(self.heads == relation).tolist():
            yield tuple(step for step in self.steps[rule].tolist() if step >= 0), float(self.weights[rule])

    def largest(self, relation: int) -> float:
        """What the rules of a relation add to a score at most; with `each_z` there is no limit."""
        positive = self.weights[(self.heads == relation) & (self.weights > 0)]
        return np.inf if self.each_z and len(positive) else float(positive.sum())

    def rows(self, entities: Ids, relation: int, *, of_objects: bool = False) -> Matrix:
        """What rules add to the score of each of some subjects with every object, or of objects with every subject."""
        theta = np.zeros((len(entities), self.facts.n_entities))
        for body, weight in self.of(relation):
            if not body:
                theta[np.arange(len(entities)), entities] += weight
                continue
            P = self._graph.paths_from(entities, tuple(step ^ 1 for step in body[::-1]) if of_objects else body)
            row = np.repeat(np.arange(len(entities)), np.diff(P.indptr))
            theta[row, P.indices] += weight * P.data if self.each_z else weight
        return theta

    def cells(self, s: Ids, k: Ids | int, o: Ids) -> Vector:
        """What rules add to the score of each cell, in the shape of the ids."""
        s, k, o = np.broadcast_arrays(s, k, o)
        flat_s, flat_k, flat_o = s.ravel(), k.ravel(), o.ravel()
        theta = np.zeros(flat_k.shape)
        for relation in np.unique(flat_k).tolist():
            here = np.flatnonzero(flat_k == relation)
            for body, weight in self.of(relation):
                n = self._graph.n_paths(body, flat_s[here], flat_o[here]) if body else flat_s[here] == flat_o[here]
                theta[here] += weight * (n if self.each_z else n > 0)
        return theta.reshape(k.shape)
