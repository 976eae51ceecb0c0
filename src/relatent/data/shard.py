"""Facts that several workers hold together: each has those of the entities it owns, once by subject, once by object."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Triples, Vector
from ..distributed.workers import ALONE, Workers
from .cell_keys import cell_keys, cells_of
from .facts import Facts
from .names import Names


@dataclass(frozen=True, eq=False)
class Share:
    """One worker's part of the facts of all, and what all of them come to; alone, everything.

    Facts and unobserved cells of `facts` have their subject among the `rows`, those of `mirrored` their object; ids are
    those of the common vocabulary. `contains`, `hides` and `fingerprint` are asked by all workers at once.
    """

    facts: Facts
    mirrored: Facts
    rows: slice  # the entities this worker owns
    workers: Workers
    counts: NDArray[np.int64]  # (K,) facts of each relation, of all workers
    n_unobserved: int  # of all workers
    heaviest: float  # the largest weight of a fact, 1 where there are none

    @classmethod
    def of(cls, facts: Facts | Share, workers: Workers = ALONE) -> Share:
        """This worker's share of the facts that all of them give, over one vocabulary; a fact counts once."""
        if isinstance(facts, Share):
            return facts
        with workers.together():
            rows = workers.rows(facts.n_entities)
        own = mirrored = facts
        if workers.size > 1:
            workers.check_same(f"{facts.entities.digest()} {facts.relations.digest()}", "entities and relations")
            workers.check_same(_digest(facts.attributes), "attributes")
            own = at_owners(facts, workers)
            mirrored = at_owners(own, workers, by=2)
        return cls(
            own,
            mirrored,
            rows,
            workers,
            workers.sum(own.counts()),
            workers.total(len(own.unobserved)),
            1.0 if own.weights is None else workers.most(float(own.weights.max(initial=0))),
        )

    @property
    def n_facts(self) -> int:
        """Facts of all workers."""
        return int(self.counts.sum())

    @property
    def n_listed(self) -> int:
        """Facts and unobserved cells of all workers."""
        return self.n_facts + self.n_unobserved

    @property
    def is_plain(self) -> bool:
        """Whether every cell counts alike: no fact has a weight, and none is unobserved."""
        return self.facts.weights is None and not self.n_unobserved

    @cached_property
    def fingerprint(self) -> str:
        """That of the facts of all, were they in one place."""
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

    def each(self, change: Callable[[Facts], Facts]) -> Share:
        """The share with both its sides changed alike, which leaves the vocabulary and the owners as they are."""
        own = change(self.facts)
        mirrored = own if self.mirrored is self.facts else change(self.mirrored)
        counts = self.workers.sum(own.counts())
        return replace(self, facts=own, mirrored=mirrored, counts=counts)

    def lists(self, cells: Triples) -> Mask:
        """For each cell whether it is a fact or unobserved; all ask about the same ones."""
        found = self.facts.contains(cells) | self.facts.is_unobserved(cells)
        return found if self.workers.size == 1 else self.workers.sum(found.astype(np.uint8)) > 0

    def by_relation(self, cells: Triples, weights: Vector | None = None) -> NDArray[np.float64]:
        """How many of these cells, or how much of these weights, all workers have of each relation, (K,)."""
        return self.workers.sum(np.bincount(cells[:, 1], weights, self.n_relations).astype(np.float64))


def at_owners(facts: Facts, workers: Workers, *, by: int = 0) -> Facts:
    """The facts and unobserved cells, of all workers, whose subject (by=0) or object (by=2) this worker owns."""
    n = facts.n_entities
    weighted, counted = workers.any(facts.weights is not None), workers.any(facts.times is not None)
    owners = [_owners(cells[:, by], workers.edges(n)) for cells in (facts.triples, facts.unobserved)]
    complete = weighted == (facts.weights is not None) and counted == (facts.times is not None)
    if not workers.any(not complete or any((owner != workers.rank).any() for owner in owners)):
        return facts  # read by workers, they are where they belong

    def sent(values: NDArray[Any], owner: Ids) -> NDArray[Any]:
        order = np.argsort(owner, kind="stable")
        return workers.exchange(values[order], np.bincount(owner, minlength=workers.size).tolist())

    times = np.ones(len(facts)) if facts.times is None else facts.times
    keys, hidden = (
        sent(cell_keys(cells, n), owner) for cells, owner in zip((facts.triples, facts.unobserved), owners, strict=True)
    )
    weights = sent(facts.confidences, owners[0]) if weighted else None
    seen = sent(times, owners[0]) if counted else None
    with workers.together():
        owned = Facts.from_ids(
            cells_of(keys, n),
            facts.entities,
            facts.relations,
            weights=weights,
            unobserved=cells_of(hidden, n),
            attributes=facts.attributes,
            times=seen,
        )
    return owned


def _owners(ids: Ids, edges: NDArray[np.int64]) -> Ids:
    owners: Ids = np.searchsorted(edges, ids, side="right") - 1
    return owners


def _digest(attributes: NDArray[Any] | None) -> str:
    return "none" if attributes is None else hashlib.sha256(np.ascontiguousarray(attributes).data).hexdigest()
