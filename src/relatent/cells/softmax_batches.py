"""The softmax likelihood in batches: a step of an optimiser sees some facts, whose answers compete with all entities.

The batches are fixed, by a hash of facts and the seed; a pass over the facts visits them in a random order. A sum over
a batch counts as many times as there are batches, so that it estimates the sum over all facts. The terms of objects and
those of subjects are divided apart, each into groups of facts that share a row, and with it the sum over all entities.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Slices, Vector
from ..backend.protocol import Backend
from ..data.cell_keys import cell_keys
from ..data.facts import Facts
from ..data.fingerprint import mixed
from ..data.shard import Shard
from .cell_sum import CellKeys, CellMemory, ModelSize, Reduction
from .softmax import SoftmaxSum, answer_weights

Keys = NDArray[np.uint64]
MAX_KEPT_ENTITIES = 1 << 24  # entities times batches: the rows of more batches are sorted again in every pass
BATCH_BYTES_PER_FACT = 100
BATCH_BYTES_PER_ENTITY = 32  # where the cells and the rows of each entity begin, by subject and by object


class BatchedSoftmaxSum:
    """Estimates of the softmax likelihood and its gradient from one batch of facts at a time."""

    def __init__(
        self,
        facts: Facts | Shard,
        backend: Backend,
        *,
        batch_size: int,
        group_size: int = 1,
        relation_weight: float = 0.0,
        degree_weight: float = 0.0,
        only_objects: bool = False,
        random_state: int = 0,
    ):
        self.shard, self.backend, self.random_state = Shard.of(facts), backend, random_state
        self.group_size = group_size
        self.n_batches = max(1, round(self.shard.n_facts / batch_size))
        self.batch, self.relation_weight, self.only_objects = 0, relation_weight, only_objects
        self._answer_weights = answer_weights(facts, degree_weight)
        self._sums: dict[int, SoftmaxSum] = {}
        self._max_kept = max(1, MAX_KEPT_ENTITIES // self.shard.n_entities)

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """That of one batch of all facts; `batches_memory` has what more batches keep."""
        return SoftmaxSum.memory(facts, size)

    @cached_property
    def batches(self) -> list[Shard]:
        """The facts of each batch, by subject and by object; those of weight 0, for unobserved cells, are in all."""
        facts, by_object = self.shard.facts, self.shard.facts_by_object
        of_subjects, of_objects = self._batch_of(facts, by_object=False), self._batch_of(by_object, by_object=True)

        def shard_of(batch: int) -> Shard:
            own = facts.subset(np.isin(of_subjects, (batch, -1)))
            others = by_object.subset(np.isin(of_objects, (batch, -1)))
            counts = self.shard.workers.sum(own.counts())
            return replace(self.shard, facts=own, facts_by_object=others, facts_per_relation=counts)

        return [shard_of(batch) for batch in range(self.n_batches)]

    def _batch_of(self, facts: Facts, *, by_object: bool) -> Ids:
        """The batch of each fact, the same on every worker; −1 if its weight is 0."""
        keys = cell_keys(facts.triples, facts.n_entities).astype(np.uint64)
        if self.group_size > 1:
            keys = _group_keys(facts, keys, by_object, self.group_size)
        batches = (mixed(keys + np.uint64(self.random_state)) % np.uint64(self.n_batches)).astype(np.int64)
        return np.where(facts.confidences == 0, -1, batches)

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
            if len(self._sums) >= self._max_kept:
                self._sums.clear()
            self._sums[self.batch] = SoftmaxSum(
                self.batches[self.batch],
                self.backend,
                relation_weight=self.relation_weight,
                answer_weights=self._answer_weights,
                only_objects=self.only_objects,
                accurate=False,  # an estimate is less accurate than rounded factors
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

        def add(A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> Any:
            if self.batch not in bounds:
                if len(bounds) >= self._max_kept:
                    bounds.clear()
                bounds[self.batch] = of_part(self.batches[self.batch], self.shard, self.backend)
            return bounds[self.batch](A, R, dA, dR)

        return add


def batches_memory(facts: Facts, batch_size: int) -> int:
    """Bytes of the rows that batches of these facts keep, for the sum and for a penalty."""
    kept = max(facts.n_entities, min(MAX_KEPT_ENTITIES, len(facts) // batch_size * facts.n_entities))
    return 2 * (BATCH_BYTES_PER_ENTITY * kept + BATCH_BYTES_PER_FACT * len(facts))


def _group_keys(facts: Facts, keys: Keys, by_object: bool, group_size: int) -> Keys:
    """A key for each group of facts of a row (subject, relation), or (object, relation), in an order that is random.

    A group takes one sum over all entities. Whole rows would take fewer, but some have thousands of facts.
    """
    cells = facts.triples.astype(np.int64)
    rows = (cells[:, 1] * facts.n_entities + cells[:, 2 if by_object else 0]).astype(np.uint64)
    order = np.lexsort((mixed(keys), rows))
    starts = np.flatnonzero(np.diff(rows[order], prepend=rows[order][:1] + np.uint64(1)))
    place = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    group = np.empty(len(rows), np.uint64)
    group[order] = place // group_size
    return mixed(rows) + group
