"""What large factors cost, each penalty stated once: value and slopes in A and R.

A penalty is a small object given to `Rescal(penalty=…)` in place of λ_A ‖A‖² + λ_R Σ ‖R_k‖². Bound to facts it is a
function that adds its slopes to dA and dR and returns its value, on NumPy arrays or on a GPU's alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ..backend.protocol import Backend
from ..cells.sparse.by_row import RelationRows
from ..data.facts import Facts
from ..data.shard import Shard
from ..errors import InputError
from .estimators.base import check_penalty

Bound = Callable[[Any, Any, Any, Any], float]  # A, R, dA, dR → value


class Penalty(Protocol):
    """What factors cost beside the loss."""

    @property
    def over_facts(self) -> bool:
        """Whether it is a sum over facts, of which several workers have a part each."""

    def bound(self, facts: Facts | Shard, backend: Backend) -> Bound:
        """The penalty on models of these facts, with arrays of `backend`."""


@dataclass(frozen=True)
class L2:
    """λ_A ‖A‖² + λ_R Σ ‖R_k‖²: the paper's."""

    entities: float = 1.0
    relations: float = 1.0
    name: ClassVar[str] = "l2"
    over_facts: ClassVar[bool] = False

    def bound(self, facts: Facts | Shard, backend: Backend) -> Bound:
        """Without a look at the facts."""

        def add(A: Any, R: Any, dA: Any, dR: Any) -> float:
            dA += 2 * self.entities * A
            dR += 2 * self.relations * R
            return self.entities * backend.dot(A, A) + self.relations * backend.dot(R, R)

        return add


@dataclass(frozen=True)
class Dura:
    """weight · Σ over facts |a_s|² + |a_o|² + |a_s R_k|² + |R_k a_o|² (Zhang, Cai & Wang 2020).

    What a row (subject, relation) costs does not depend on the object, so it is worked out once and counted as often as
    it has facts: A and R_k of frequent entities and relations are held down more.
    """

    weight: float = 0.05
    name: ClassVar[str] = "dura"
    over_facts: ClassVar[bool] = True

    def bound(self, facts: Facts | Shard, backend: Backend) -> Bound:
        """On the rows of both sides that occur in facts."""
        sides = RelationRows.of_facts(facts, backend)

        def add(A: Any, R: Any, dA: Any, dR: Any) -> float:
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


@dataclass(frozen=True)
class N3:
    """weight · Σ over facts ‖a_s‖₃³ + ‖a_o‖₃³ + ‖R_k‖₃³, entry by entry (Lacroix, Usunier & Obozinski 2018)."""

    weight: float = 0.01
    name: ClassVar[str] = "n3"
    over_facts: ClassVar[bool] = True

    def bound(self, facts: Facts | Shard, backend: Backend) -> Bound:
        """Entities and relations count as often as they occur in facts."""
        facts = Shard.of(facts).facts
        n, (s, k, o), w = facts.n_entities, facts.triples.T, facts.confidences
        degree = np.bincount(s, w, n) + np.bincount(o, w, n)
        of_entities = backend.from_numpy(degree[:, None])
        of_relations = backend.from_numpy(np.bincount(k, w, facts.n_relations)[:, None, None])

        def add(A: Any, R: Any, dA: Any, dR: Any) -> float:
            total = 0.0
            for x, dx, count in ((A, dA, of_entities), (R, dR, of_relations)):
                slope = 3 * self.weight * count * x * abs(x)
                dx += slope
                total += backend.dot(x, slope) / 3
            return total

        return add


PENALTIES: dict[str, Callable[..., Penalty]] = {penalty.name: penalty for penalty in (L2, Dura, N3)}


def resolve(penalty: Penalty | None, l2_entities: float, l2_relations: float) -> Penalty:
    """The penalty given, checked; without one the squares by λ_A and λ_R."""
    if penalty is None:
        return L2(l2_entities, l2_relations)
    if isinstance(penalty, type) or not hasattr(penalty, "bound"):
        raise InputError(f"penalty must be an object such as relatent.Dura(0.05) or relatent.N3(0.01), got {penalty!r}")
    check_penalty("a penalty's weight", getattr(penalty, "weight", 0.0))
    return penalty
