"""The softmax likelihood in batches: a step of an optimiser sees some facts, whose answers compete with all entities.

The batches are fixed, by a hash of each fact and the seed; a pass over the facts visits them in a random order. A sum
over a batch counts as many times as there are batches, so that it estimates the sum over all facts.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..arrays import Ids, Matrix, Slices, Vector
from ..backend.protocol import Backend
from ..data.cell_keys import cell_keys
from ..data.facts import Facts
from ..data.fingerprint import mixed
from ..data.shard import Shard
from .cell_sum import CellKeys, CellMemory, Reduction
from .softmax import SoftmaxSum, answer_weights


class BatchedSoftmaxSum:
    """Estimates of the softmax likelihood and its gradient from one batch of facts at a time."""

    def __init__(
        self,
        facts: Facts | Shard,
        backend: Backend,
        *,
        batch_size: int,
        relation_weight: float = 0.0,
        degree_weight: float = 0.0,
        only_objects: bool = False,
        random_state: int = 0,
    ):
        self.shard, self.backend, self.random_state = Shard.of(facts), backend, random_state
        self.n_batches = max(1, round(self.shard.n_facts / batch_size))
        self.batch, self.relation_weight, self.only_objects = 0, relation_weight, only_objects
        self._answer_weights = answer_weights(facts, degree_weight)
        self._sums: dict[int, SoftmaxSum] = {}

    @classmethod
    def memory(cls, facts: Facts, rank: int, dtype: Any) -> CellMemory:
        """No more than the sum over all facts at once."""
        return SoftmaxSum.memory(facts, rank, dtype)

    @cached_property
    def batches(self) -> list[Shard]:
        """The facts of each batch; those of weight 0, which stand for unobserved cells, are in every one."""
        both = (self.shard.facts, self.shard.facts_by_object)
        batch_of = {id(facts): _batch_of(facts, self.n_batches, self.random_state) for facts in both}

        def chosen(batch: int, facts: Facts) -> Facts:
            return facts.subset(np.isin(batch_of[id(facts)], (batch, -1)))

        return [self.shard.map_facts(partial(chosen, batch)) for batch in range(self.n_batches)]

    def draw(self, number: int, *, find: bool = True) -> None:
        """Choose the batch that later calls sum."""
        one_pass, place = divmod(number, self.n_batches)
        order = np.random.default_rng([self.random_state, one_pass]).permutation(self.n_batches)
        self.batch = int(order[place])

    def restore(self, listed: CellKeys, found: CellKeys) -> None:
        """There are no zeros to list."""

    def update(self, A: Matrix, R: Slices, b: Vector) -> tuple[CellKeys, CellKeys]:
        """There are no zeros to list."""
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """An estimate from the batch of the last draw."""
        if self.batch not in self._sums:
            self._sums[self.batch] = SoftmaxSum(
                self.batches[self.batch],
                self.backend,
                relation_weight=self.relation_weight,
                answer_weights=self._answer_weights,
                only_objects=self.only_objects,
            )
        total, dA, dR, db = self._sums[self.batch](A, R, b, value=value)
        count = self.n_batches
        dA *= count
        dR *= count
        return Reduction(total * count, dA, dR, db)

    def penalty(self, penalty: Any) -> Any:
        """A penalty that is a sum over facts, over those of the batch; any other penalty as it is."""
        if not (penalty.over_facts and is_dataclass(penalty) and hasattr(penalty, "weight")):
            return penalty.bound(self.shard, self.backend)
        scaled: Any = replace(penalty, weight=penalty.weight * self.n_batches)  # type: ignore[type-var]
        of_part = getattr(scaled, "bound_to_part", lambda part, whole, backend: scaled.bound(part, backend))
        bounds: dict[int, Any] = {}

        def add(A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> float:
            if self.batch not in bounds:
                bounds[self.batch] = of_part(self.batches[self.batch], self.shard, self.backend)
            return float(bounds[self.batch](A, R, dA, dR))

        return add


def _batch_of(facts: Facts, n_batches: int, random_state: int) -> Ids:
    """The batch of each fact, the same on every worker; −1 if its weight is 0."""
    keys = cell_keys(facts.triples, facts.n_entities).astype(np.uint64)
    batches = (mixed(keys + np.uint64(random_state)) % np.uint64(n_batches)).astype(np.int64)
    return np.where(facts.confidences == 0, -1, batches)
