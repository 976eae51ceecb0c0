"""One worker's part of the facts of a fit; in a fit by one process, all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Ids, Mask, Matrix, Triples, Vector
from ..backend.protocol import Backend
from ..distributed.workers import ALONE, Workers
from ..errors import InputError
from .cell_keys import cell_keys, cells_of
from .facts import Facts
from .names import Names


@dataclass(frozen=True, eq=False)
class Shard:
    """The facts of the entities that one worker owns, and totals over all workers.

    Ids are those of the vocabulary that all workers share. `is_listed`, `sum_by_relation` and `fingerprint` are
    collective: all workers must call them.
    """

    facts: Facts  # facts and unobserved cells whose subject this worker owns
    facts_by_object: Facts  # facts and unobserved cells whose object this worker owns
    entity_range: slice  # the entities this worker owns
    workers: Workers
    facts_per_relation: NDArray[np.int64]  # (K,) over all workers
    n_unobserved: int  # over all workers
    max_weight: float  # of all facts; 1 without weights
    n_mirrors: int = 0  # facts that are the other direction of a pair, over all workers

    @classmethod
    def of(cls, facts: Facts | Shard, workers: Workers = ALONE) -> Shard:
        """This worker's shard of the facts that all workers pass; a fact that several pass counts once."""
        if isinstance(facts, Shard):
            return facts
        with workers.raise_together():
            entity_range = workers.entity_range(facts.n_entities)
        own = by_object = facts
        if workers.size > 1:
            workers.check_same(f"{facts.entities.digest()} {facts.relations.digest()}", "entities and relations")
            workers.check_same(_digest(facts.attributes), "attributes")
            facts = _undirected_together(facts, workers)
            own = move_to_owners(facts, workers)
            by_object = move_to_owners(own, workers, by=2)
        return cls(
            own,
            by_object,
            entity_range,
            workers,
            workers.sum(own.counts()),
            workers.sum_int(len(own.unobserved)),
            1.0 if own.weights is None else workers.max(float(own.weights.max(initial=0))),
            workers.sum_int(int(np.count_nonzero(~own.once))) if own.undirected else 0,
        )

    @property
    def n_facts(self) -> int:
        """Facts of all workers."""
        return int(self.facts_per_relation.sum())

    @property
    def base_rates(self) -> NDArray[np.float64]:
        """Facts per observed cell of each relation, over all workers, (K,)."""
        observed = self.n_entities**2 - self.sum_by_relation(self.facts.unobserved)
        rates: NDArray[np.float64] = self.facts_per_relation / np.maximum(observed, 1)
        return rates

    @property
    def self_facts(self) -> NDArray[np.float64]:
        """Facts of an entity with itself of each relation, over all workers, (K,)."""
        return self.sum_by_relation(self.facts.triples[self.facts.subjects == self.facts.objects])

    @property
    def n_listed(self) -> int:
        """Facts and unobserved cells of all workers."""
        return self.n_facts + self.n_unobserved

    @property
    def has_uniform_weights(self) -> bool:
        """Whether every cell has weight 1: no fact has a weight of its own, and no cell is unobserved."""
        return self.facts.weights is None and not self.n_unobserved

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the facts of all workers together."""
        if self.workers.size == 1:
            return self.facts.fingerprint
        return self.facts.fingerprint_of(self.workers.sum(self.facts.checksums.view(np.int64)).view(np.uint64))

    @property
    def n_entities(self) -> int:
        """How many entities the vocabulary has."""
        return self.facts.n_entities

    @property
    def n_relations(self) -> int:
        """How many relations the vocabulary has."""
        return self.facts.n_relations

    @property
    def n_cells(self) -> int:
        """All N × K × N cells, unobserved ones included."""
        return self.facts.n_cells

    @property
    def entities(self) -> Names:
        """The entities, by id."""
        return self.facts.entities

    @property
    def relations(self) -> Names:
        """The relations, by id."""
        return self.facts.relations

    def map_facts(self, change: Callable[[Facts], Facts]) -> Shard:
        """A shard of changed facts; the change must keep the vocabulary and each fact's subject and object."""
        own = change(self.facts)
        by_object = own if self.facts_by_object is self.facts else change(self.facts_by_object)
        counts = self.workers.sum(own.counts())
        return replace(self, facts=own, facts_by_object=by_object, facts_per_relation=counts)

    def gathered(self) -> Shard:
        """The facts of all workers, on each of them, as a shard of one process: for few facts."""
        if self.workers.size == 1:
            return self
        facts, gather = self.facts, self.workers.gather
        triples, unobserved = (np.concatenate(gather(cells)) for cells in (facts.triples, facts.unobserved))
        weights, times = (
            None if values is None else np.concatenate(gather(values)) for values in (facts.weights, facts.times)
        )
        names = (facts.entities, facts.relations)
        whole = Facts.from_ids(
            triples, *names, weights=weights, unobserved=unobserved, times=times, undirected=facts.undirected
        )
        return Shard.of(whole)

    @property
    def total_weight(self) -> float:
        """Σ w over the facts of all workers."""
        weights = self.facts.weights
        return float(self.n_facts) if weights is None else self.workers.sum_float(float(weights.sum()))

    # --- arrays with one row per entity, of which each worker has computed the rows that it owns

    def broadcast(self, array: Array) -> Array:
        """The first worker's array, in place."""
        return self.workers.broadcast(array)

    def gather_rows(self, own: Matrix, backend: Backend) -> Matrix:
        """The rows of all entities, from the rows that each worker owns."""
        if self.workers.size == 1:
            return own
        rows = backend.zeros((self.n_entities, *own.shape[1:]), own)
        rows[self.entity_range] = own
        return self.workers.gather_rows(rows)

    def gram(self, A: Matrix, backend: Backend) -> Matrix:
        """AᵀA in float64; each worker multiplies the rows that it owns."""
        return self.workers.sum(backend.gram(A[self.entity_range]))

    def is_listed(self, cells: Triples) -> Mask:
        """For each cell whether it is a fact or unobserved; all workers pass the same cells."""
        found = self.facts.contains(cells) | self.facts.is_unobserved(cells)
        return found if self.workers.size == 1 else self.workers.sum(found.astype(np.uint8)) > 0

    def sum_by_relation(self, cells: Triples, weights: Vector | None = None) -> NDArray[np.float64]:
        """Count of the cells, or sum of their weights, per relation over all workers, (K,)."""
        return self.workers.sum(np.bincount(cells[:, 1], weights, self.n_relations).astype(np.float64))


def _undirected_together(facts: Facts, workers: Workers) -> Facts:
    """The facts with the relations that any worker has as undirected ones."""
    own = np.isin(np.arange(facts.n_relations), sorted(facts.undirected))
    relations = frozenset(np.flatnonzero(workers.sum(own.astype(np.int64))).tolist())
    with workers.raise_together():
        if relations and workers.any(facts.times is not None):
            raise InputError("counts of undirected relations need one process; leave out the workers or the counts")
        return facts.with_undirected(relations)


def move_to_owners(facts: Facts, workers: Workers, *, by: int = 0) -> Facts:
    """Send facts and unobserved cells to the workers that own their subject (by=0) or object (by=2)."""
    n = facts.n_entities
    weighted, counted = workers.any(facts.weights is not None), workers.any(facts.times is not None)
    owners = [_owners(cells[:, by], workers.entity_edges(n)) for cells in (facts.triples, facts.unobserved)]
    complete = weighted == (facts.weights is not None) and counted == (facts.times is not None)
    if not workers.any(not complete or any((owner != workers.rank).any() for owner in owners)):
        return facts  # as workers read them: every fact is at its owner already

    def send(values: NDArray[Any], owner: Ids) -> NDArray[Any]:
        order = np.argsort(owner, kind="stable")
        received: NDArray[Any] = workers.exchange(values[order], np.bincount(owner, minlength=workers.size).tolist())
        return received

    times = np.ones(len(facts)) if facts.times is None else facts.times
    keys, unobserved = (
        send(cell_keys(cells, n), owner) for cells, owner in zip((facts.triples, facts.unobserved), owners, strict=True)
    )
    weights = send(facts.confidences, owners[0]) if weighted else None
    seen = send(times, owners[0]) if counted else None
    with workers.raise_together():
        owned = Facts.from_ids(
            cells_of(keys, n),
            facts.entities,
            facts.relations,
            weights=weights,
            unobserved=cells_of(unobserved, n),
            attributes=facts.attributes,
            times=seen,
            types=facts.types,
        )
    # not closed: the other direction of a pair may be with another worker
    return replace(owned, attribute_table=facts.attribute_table, undirected=facts.undirected)


def _owners(ids: Ids, edges: NDArray[np.int64]) -> Ids:
    owners: Ids = np.searchsorted(edges, ids, side="right") - 1
    return owners


def _digest(attributes: NDArray[Any] | None) -> str:
    return "none" if attributes is None else hashlib.sha256(np.ascontiguousarray(attributes).data).hexdigest()
