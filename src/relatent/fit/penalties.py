"""Penalties on the size of factors: value and derivatives in A and R.

A penalty is a small object given to `Rescal(penalty=…)` in place of λ_A ‖A‖² + λ_R Σ ‖R_k‖². `bound` turns it into a
function for some facts, which adds its derivatives to dA and dR and returns its value, with the arrays of a backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ..arrays import Matrix, Slices
from ..backend.protocol import Backend
from ..cells.sparse.by_row import RelationRows, rows_memory
from ..data.facts import Facts
from ..data.shard import Shard
from ..errors import InputError
from .estimators.base import check_penalty

BoundPenalty = Callable[[Matrix, Slices, Matrix, Slices], float]  # A, R, dA, dR → value


class Penalty(Protocol):
    """A penalty on factors, added to the loss."""

    @property
    def over_facts(self) -> bool:
        """Whether it is a sum over facts, so that each of several workers adds the part of its facts."""

    def bound(self, facts: Facts | Shard, backend: Backend) -> BoundPenalty:
        """The penalty of models of these facts, for arrays of `backend`."""


@dataclass(frozen=True)
class L2:
    """λ_A ‖A‖² + λ_R Σ ‖R_k‖², the penalty of the paper."""

    entities: float = 1.0
    relations: float = 1.0
    name: ClassVar[str] = "l2"
    over_facts: ClassVar[bool] = False

    def bound(self, facts: Facts | Shard, backend: Backend) -> BoundPenalty:
        """The penalty, which does not depend on the facts."""

        def add(A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> float:
            backend.add_scaled(dA, 2 * self.entities, A)
            backend.add_scaled(dR, 2 * self.relations, R)
            return self.entities * backend.dot(A, A) + self.relations * backend.dot(R, R)

        return add


@dataclass(frozen=True)
class Dura:
    """weight · Σ over facts |a_s|² + |a_o|² + |a_s R_k|² + |R_k a_o|² (Zhang, Cai & Wang 2020).

    The terms of a row (subject, relation) do not depend on the object, so they are computed once and counted as often
    as the row has facts. Frequent entities and relations are penalised more.
    """

    weight: float = 0.05
    name: ClassVar[str] = "dura"
    over_facts: ClassVar[bool] = True

    def bound(self, facts: Facts | Shard, backend: Backend) -> BoundPenalty:
        """The penalty over the rows of both sides that occur in these facts."""
        sides = RelationRows.of_facts(facts, backend)

        def add(A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> float:
            total = 0.0
            for side in sides:
                X = side.own(A)
                Q = side.times(X, R)
                weighted = 2 * self.weight * side.totals
                dX, dQ = weighted * X, weighted * Q
                total += (backend.dot(X, dX) + backend.dot(Q, dQ)) / 2
                dA += side.spread(dX + side.times(dQ, R, back=True))
                side.add_outer(X, dQ, dR)
            return total

        return add

    def memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        """Bytes of the rows that occur in facts."""
        return rows_memory(facts, rank, dtype.itemsize)


@dataclass(frozen=True)
class N3:
    """weight · Σ over facts ‖a_s‖₃³ + ‖a_o‖₃³ + ‖R_k‖₃³, entry by entry (Lacroix, Usunier & Obozinski 2018)."""

    weight: float = 0.01
    name: ClassVar[str] = "n3"
    over_facts: ClassVar[bool] = True

    def bound(self, facts: Facts | Shard, backend: Backend) -> BoundPenalty:
        """The penalty, with entities and relations counted as often as they occur in these facts."""
        facts = Shard.of(facts).facts
        n, (s, k, o), w = facts.n_entities, facts.triples.T, facts.confidences
        degree = np.bincount(s, w, n) + np.bincount(o, w, n)
        of_entities = backend.from_numpy(degree[:, None])
        of_relations = backend.from_numpy(np.bincount(k, w, facts.n_relations)[:, None, None])

        def add(A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> float:
            total = 0.0
            for x, dx, count in ((A, dA, of_entities), (R, dR, of_relations)):
                slope = 3 * self.weight * count * x * abs(x)
                dx += slope
                total += backend.dot(x, slope) / 3
            return total

        return add

    def memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        """Bytes of the temporary arrays."""
        return 3 * dtype.itemsize * facts.n_entities * rank


PENALTIES: dict[str, Callable[..., Penalty]] = {penalty.name: penalty for penalty in (L2, Dura, N3)}


def resolve(penalty: Penalty | None, l2_entities: float, l2_relations: float) -> Penalty:
    """The penalty given, checked; without one, `L2(l2_entities, l2_relations)`."""
    if penalty is None:
        return L2(l2_entities, l2_relations)
    if isinstance(penalty, type) or not hasattr(penalty, "bound"):
        raise InputError(f"penalty must be an object such as relatent.Dura(0.05) or relatent.N3(0.01), got {penalty!r}")
    check_penalty("the weight of a penalty", getattr(penalty, "weight", 0.0))
    return penalty


def memory(penalty: Penalty, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
    """Bytes that a penalty takes beyond the gradient; 0 for one that does not say."""
    estimate = getattr(penalty, "memory", None)
    return 0 if estimate is None else int(estimate(facts, rank, dtype))
