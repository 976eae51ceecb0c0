"""Penalties on the size of factors: value and derivatives in A and R.

A penalty is a small object given to `Rescal(penalty=…)` in place of λ_A ‖A‖² + λ_R Σ ‖R_k‖². `bound` turns it into a
function for some facts, which adds its derivatives to dA and dR and returns its value, with the arrays of a backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from ..arrays import Matrix, Slices
from ..backend.compact_matrices import MAX_ROW_NUMBERS, squared_moduli
from ..backend.protocol import Backend
from ..cells.sparse.by_row import RelationRows, rows_memory
from ..data.facts import Facts
from ..data.shard import Shard
from ..errors import InputError
from ..model.structure import COMPLEX, FULL, is_compact, parameter_shape
from ..parameter_checks import check_penalty

# A, R, dA, dR → value, which may be a number that a GPU has not computed yet (`Backend.deferred_dot`)
BoundPenalty = Callable[[Matrix, Slices, Matrix, Slices], Any]


class Penalty(Protocol):
    """A penalty on factors, added to the loss."""

    @property
    def over_facts(self) -> bool:
        """Whether it is a sum over facts, so that each of several workers adds the part of its facts."""

    # Optional: `bound_to_part(part, whole, backend)`, the penalty on some of the facts where it depends on all of them.
    def bound(self, facts: Facts | Shard, backend: Backend) -> BoundPenalty:
        """The penalty of models of these facts, for arrays of `backend`."""


@dataclass(frozen=True)
class L2:
    """λ_A ‖A‖² + λ_R Σ ‖R_k‖², the penalty of the paper.

    >>> import relatent
    >>> relatent.Rescal(rank=5, penalty=relatent.L2(0.5, 0.1)).penalty
    L2(entities=0.5, relations=0.1)
    """

    entities: float = 1.0
    relations: float = 1.0
    name: ClassVar[str] = "l2"
    over_facts: ClassVar[bool] = False

    def bound(self, facts: Facts | Shard, backend: Backend) -> BoundPenalty:
        """The penalty, which does not depend on the facts."""

        def add(A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> Any:
            backend.add_scaled(dA, 2 * self.entities, A)
            relations = self.relations * (2 if R.ndim == 2 else 1)  # a complex R_k holds each parameter twice
            backend.add_scaled(dR, 2 * relations, R)
            return self.entities * backend.deferred_dot(A, A) + relations * backend.deferred_dot(R, R)

        return add


class RelationEntities:
    """How often each entity occurs in the facts of each relation, as sums in both directions; see `Dura`."""

    def __init__(self, part: Facts | Shard, whole: Facts | Shard, power: float, backend: Backend):
        by_role = _counts_by_role(part)
        if power != 1:
            of_whole = by_role if part is whole else _counts_by_role(whole)
            by_role = [some.multiply(every.power(power - 1)) for some, every in zip(by_role, of_whole, strict=True)]
        counts = (by_role[0] + by_role[1]).tocsr()
        self.backend = backend
        self.by_entity = backend.segment_sums(counts.indptr, counts.indices, counts.data)
        turned = counts.T.tocsr()
        self.by_relation = backend.segment_sums(turned.indptr, turned.indices, turned.data)


def _counts_by_role(facts: Facts | Shard) -> list[sp.csr_matrix]:
    """The number of facts, by weight, of each entity as a subject of each relation, and as an object, (N, K) each."""
    shard = Shard.of(facts)
    counts = []
    for own, column in ((shard.facts, 0), (shard.facts_by_object, 2)):
        known = own.confidences > 0
        cells = own.triples[known]
        shape = (own.n_entities, own.n_relations)
        counts.append(sp.csr_matrix((own.confidences[known], (cells[:, column], cells[:, 1])), shape=shape))
    return counts


@dataclass(frozen=True)
class Dura:
    """weight · Σ over facts |a_s|² + |a_o|² + |a_s R_k|² + |R_k a_o|² (Zhang, Cai & Wang 2020).

    The terms of a row (subject, relation) do not depend on the object, so they are computed once and counted as often
    as the row has facts. Frequent entities and relations are penalised more; with `frequency_power` p the terms of a
    row of n facts count n**p times, which for p below 1 is less for frequent ones.

    >>> import relatent
    >>> relatent.RescalLogit(rank=5, penalty=relatent.Dura(0.02)).penalty
    Dura(weight=0.02, frequency_power=1.0)
    """

    weight: float = 0.05
    frequency_power: float = 1.0
    name: ClassVar[str] = "dura"
    over_facts: ClassVar[bool] = True

    def bound(self, facts: Facts | Shard, backend: Backend) -> BoundPenalty:
        """The penalty over the rows of both sides that occur in these facts."""
        return self.bound_to_part(facts, facts, backend)

    def bound_to_part(self, part: Facts | Shard, whole: Facts | Shard, backend: Backend) -> BoundPenalty:
        """The penalty over the rows of some facts, which count by the number of facts that they have in all."""
        rows = cache(partial(self._counted_rows, part, whole, backend))
        counts = cache(partial(RelationEntities, part, whole, self.frequency_power, backend))

        def add(A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> Any:
            if R.ndim == 2:
                return self._add_complex(counts(), A, R, dA, dR)
            return sum(self._add_rows(*counted, A, R, dA, dR) for counted in rows(A.shape[1]))

        return add

    def _add_rows(self, side: RelationRows, count: Matrix, A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> Any:
        """The terms of some rows; a function of its own, which releases its matrices before the next rows."""
        X = side.own(A)
        Q = side.times(X, R)
        weighted = 2 * self.weight * count
        dX, dQ = weighted * X, weighted * Q
        total = (side.backend.deferred_dot(X, dX) + side.backend.deferred_dot(Q, dQ)) / 2
        side.add_outer(X, dQ, dR)
        del X, Q
        dX += side.times(dQ, R, back=True)
        side.add_spread(dA, dX)
        return total

    def _counted_rows(
        self, part: Facts | Shard, whole: Facts | Shard, backend: Backend, rank: int
    ) -> list[tuple[RelationRows, Matrix]]:
        """Pieces of the rows of each side, and how often the terms of each row count, (m, 1)."""
        pieces = RelationRows.of_facts(part, backend, rank=rank)
        if self.frequency_power == 1:
            return [(piece, piece.totals) for piece in pieces]
        sides_of_whole = {side.index.by_object: side for side in RelationRows.of_facts(whole, backend)}
        counted: list[tuple[RelationRows, Matrix]] = []
        for piece in pieces:
            every = sides_of_whole[piece.index.by_object]
            place = backend.from_numpy(np.searchsorted(every.index.keys, piece.index.keys))
            counted.append((piece, piece.totals * every.totals[place] ** (self.frequency_power - 1)))
        return counted

    def _add_complex(self, counts: RelationEntities, A: Matrix, P: Matrix, dA: Matrix, dP: Matrix) -> Any:
        """|a p|² = Σ_d |a_d|² |p_d|²: a sum over the entities of each relation, whatever the number of its facts."""
        a, p = squared_moduli(A), squared_moduli(P)
        of_entities, of_relations = counts.by_entity(p + 1), counts.by_relation(a)  # (N, r/2), (K, r/2)
        d = a.shape[1]
        for x, dx, slope in ((A, dA, of_entities), (P, dP, of_relations)):
            dx[:, :d] += 2 * self.weight * slope * x[:, :d]
            dx[:, d:] += 2 * self.weight * slope * x[:, d:]
        return self.weight * counts.backend.deferred_dot(of_entities, a)

    def memory(self, facts: Facts, rank: int, dtype: np.dtype[Any], structure: Any = FULL) -> int:
        """Bytes of the rows that occur in facts, or of the entities of each relation."""
        if structure != COMPLEX:
            rows = rows_memory(facts, rank, dtype.itemsize)
            return rows.held + rows.call
        pairs = min(2 * len(facts), facts.n_entities * facts.n_relations)  # of an entity and a relation
        return 24 * pairs + 3 * dtype.itemsize * facts.n_entities * rank


@dataclass(frozen=True)
class N3:
    """weight · Σ over facts ‖a_s‖₃³ + ‖a_o‖₃³ + ‖R_k‖₃³ (Lacroix, Usunier & Obozinski 2018).

    Entry by entry; of a complex structure the moduli of the complex numbers.

    >>> import relatent
    >>> relatent.RescalLogit(rank=6, structure="complex", penalty=relatent.N3(0.01)).penalty
    N3(weight=0.01)
    """

    weight: float = 0.01
    name: ClassVar[str] = "n3"
    over_facts: ClassVar[bool] = True

    def bound(self, facts: Facts | Shard, backend: Backend) -> BoundPenalty:
        """The penalty, with entities and relations counted as often as they occur in these facts."""
        facts = Shard.of(facts).facts
        n, (s, k, o), w = facts.n_entities, facts.triples.T, facts.confidences
        degree = np.bincount(s, w, n) + np.bincount(o, w, n)
        of_entities = backend.from_numpy(degree[:, None])
        of_relations = backend.from_numpy(np.bincount(k, w, facts.n_relations)[:, None])

        def add(A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> Any:
            k, paired = len(R), R.ndim == 2
            parts = ((A, of_entities, dA), (R.reshape(k, -1), of_relations, dR.reshape(k, -1)))
            return sum(backend.add_cubes(x, count, self.weight, dx, paired=paired) for x, count, dx in parts)

        return add

    def memory(self, facts: Facts, rank: int, dtype: np.dtype[Any], structure: Any = FULL) -> int:
        """Bytes of three temporary arrays of some rows."""
        k = facts.n_relations
        whole = k * rank * rank if not is_compact(structure) else math.prod(parameter_shape(structure, k, rank))
        numbers = max(facts.n_entities * rank, whole)
        return 3 * dtype.itemsize * min(numbers, max(MAX_ROW_NUMBERS, whole // max(1, k)))


PENALTIES: dict[str, Callable[..., Penalty]] = {penalty.name: penalty for penalty in (L2, Dura, N3)}


def resolve(penalty: Penalty | None, l2_entities: float, l2_relations: float) -> Penalty:
    """The penalty given, checked; without one, `L2(l2_entities, l2_relations)`."""
    if penalty is None:
        return L2(l2_entities, l2_relations)
    if isinstance(penalty, type) or not hasattr(penalty, "bound"):
        raise InputError(f"penalty must be an object such as relatent.Dura(0.05) or relatent.N3(0.01), got {penalty!r}")
    check_penalty("the weight of a penalty", getattr(penalty, "weight", 0.0))
    check_penalty("frequency_power of Dura", getattr(penalty, "frequency_power", 1.0))
    return penalty


def memory(penalty: Penalty, facts: Facts, rank: int, dtype: np.dtype[Any], structure: Any) -> int:
    """Bytes that a penalty takes beyond the gradient; 0 for one that does not say."""
    estimate = getattr(penalty, "memory", None)
    return 0 if estimate is None else int(estimate(facts, rank, dtype, structure))
