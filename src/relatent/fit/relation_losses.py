"""A loss and a weight per relation (MrWTD: London, Rekatsinas, Huang & Getoor 2013).

    objective = Σ_k w_k Σ over the cells of relation k  loss_k(x, θ) + penalty

Relations with the same loss and weight are summed together, by the sum that their loss has for all cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..arrays import Ids, Matrix, Slices, Vector
from ..backend.protocol import Backend
from ..cells.cell_sum import CellMemory, CellSum, ModelSize, Reduction
from ..data.facts import Facts
from ..data.names import Names
from ..data.shard import Shard
from ..errors import InputError
from ..model.links import Link, RelationLinks
from ..model.objective_description import PER_RELATION, ObjectiveTerm
from ..parameter_checks import check_penalty
from . import losses
from .loss_protocol import ExactOnly, Loss, ResolvedLoss

LossGiven = str | Loss | Mapping[str, str | Loss]
DEFAULT_LOSS = "logistic"  # of relations that a mapping does not name


def resolve(
    given: LossGiven, weights: Mapping[str, float] | None = None, relations: Names | None = None
) -> ResolvedLoss:
    """The loss with its sums over all cells; with `relations`, a loss per relation knows which relation has which."""
    by_relation, default = _divided(given)
    if not isinstance(given, Mapping) and weights is None:
        return losses.resolve(default)
    by_name = {name: losses.resolve(one) for name, one in by_relation.items()}
    found = RelationLosses(losses.resolve(default), by_name, dict(weights or {}), relations)
    for one in (found.other, *by_name.values()):
        if not one.of_single_cells:
            raise InputError(f"losses and weights by relation need losses of single cells, got {one.name!r}")
    for name, weight in found.weights.items():
        check_penalty(f"the weight of relation {name!r}", weight)
    for name in (*by_name, *found.weights):
        if relations is not None and name not in relations:
            raise InputError(f"loss and relation_weights name the relation {name!r}, which the facts do not have")
    return found


def describe(given: LossGiven, weights: Mapping[str, float] | None = None) -> ObjectiveTerm:
    """The loss as a model file holds it."""
    by_relation, default = _divided(given)
    if not isinstance(given, Mapping) and weights is None:
        return losses.describe(default)
    named = {name: losses.describe(one).name for name, one in by_relation.items()}
    return ObjectiveTerm(
        PER_RELATION, {"losses": named, "other": losses.describe(default).name, "weights": dict(weights or {})}
    )


def _divided(given: LossGiven) -> tuple[Mapping[str, str | Loss], str | Loss]:
    """The losses by relation, and that of all other relations."""
    return (given, DEFAULT_LOSS) if isinstance(given, Mapping) else ({}, given)


@dataclass(frozen=True)
class RelationLosses(ExactOnly):
    """Losses of single cells by relation, each with a weight."""

    other: ResolvedLoss
    by_name: dict[str, ResolvedLoss] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    relations: Names | None = None
    name: ClassVar[str] = PER_RELATION

    def _losses(self) -> list[ResolvedLoss]:
        """The loss of each relation."""
        assert self.relations is not None
        return [self.by_name.get(name, self.other) for name in self.relations]

    @property
    def link(self) -> Link:
        """The link of each relation."""
        return RelationLinks(tuple(loss.link.name for loss in self._losses()))

    @property
    def steepness(self) -> Any:
        """The factor for θ of a least-squares start, (K, 1, 1)."""
        return np.array([loss.steepness for loss in self._losses()])[:, None, None]

    def at(self, x: Vector, theta: Vector) -> tuple[Vector, Vector]:
        """Not defined: the loss of a cell depends on its relation."""
        raise NotImplementedError("relations have losses of their own; see cell_sum")

    def bias(self, ones: Vector, zeros: Vector) -> Vector:
        """The initial bias of each relation by its loss."""
        return np.array([loss.bias(ones[[k]], zeros[[k]])[0] for k, loss in enumerate(self._losses())])

    def cell_sum(self, facts: Facts | Shard, backend: Backend, *, typed: bool = False) -> CellSum:
        """One sum per loss and weight."""
        assert self.relations is not None
        groups: dict[tuple[int, float], list[int]] = {}
        found = self._losses()
        for k, (loss, name) in enumerate(zip(found, self.relations, strict=True)):
            groups.setdefault((found.index(loss), self.weights.get(name, 1.0)), []).append(k)
        parts = [
            _Part(np.array(ks), weight, found[ks[0]].cell_sum(_of_relations(Shard.of(facts), ks), backend))
            for (_, weight), ks in groups.items()
            if weight
        ]
        return RelationLossSum(parts)

    def memory(self, facts: Facts, size: ModelSize, *, sampled: bool = False, on_gpu: bool = False) -> CellMemory:
        """That of all losses, as if each had all facts."""
        found = [loss.memory(facts, size) for loss in (self.other, *self.by_name.values())]
        own = RelationLossSum.memory(facts, size)
        return CellMemory(
            max(each.building for each in found),
            own.held + sum(each.held for each in found),
            max(each.call for each in found),
        )


@dataclass(frozen=True)
class _Part:
    """Relations with one loss and weight."""

    relations: Ids
    weight: float
    cells: CellSum


class RelationLossSum:
    """Value and gradient of Σ_k w_k loss_k over all observed cells."""

    def __init__(self, parts: list[_Part]):
        self.parts = parts

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """Σ of the weighted losses and its derivatives."""
        total, dA, dR, db = 0.0, np.zeros_like(A), np.zeros_like(R), np.zeros_like(b)
        for part in self.parts:
            k, w = part.relations, part.weight
            of_part, dA_part, dR_part, db_part = part.cells(A, R[k], b[k], value=value)
            total += w * of_part
            dA += w * dA_part
            dR[k], db[k] = w * dR_part, w * db_part
        return Reduction(total, dA, dR, db)

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """A gradient beside those of the parts."""
        return CellMemory(0, size.gradient)


def _of_relations(shard: Shard, relations: list[int]) -> Shard:
    """The facts of some relations, which are the only ones of the new shard."""
    names = Names([shard.relations[k] for k in relations], what="relation")

    def restricted(facts: Facts) -> Facts:
        return facts.over(facts.entities, names)

    own = restricted(shard.facts)
    by_object = own if shard.facts_by_object is shard.facts else restricted(shard.facts_by_object)
    return replace(
        shard,
        facts=own,
        facts_by_object=by_object,
        facts_per_relation=shard.facts_per_relation[relations],
        n_unobserved=shard.workers.sum_int(len(own.unobserved)),
    )
