"""The softmax likelihood of facts, exactly: who else could stand there, among all entities.

    value = Σ over facts w [log Σ_j exp θ_skj − θ_sko] + w [log Σ_i exp θ_iko − θ_sko]
                         + c w [log Σ_k' exp θ_sk'o − θ_sko]

Only the rows (subject, relation) and (relation, object) that occur in facts are summed, each once however many facts
it has; unobserved cells are no rivals. A fact may count by how many facts the entity asked for has (`hubs`). The last
term, of weight c, asks for the relation (`contest`). The bias of a
relation would cancel in the first two and is left out of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Vector
from ..backend.protocol import Backend
from ..data.facts import Facts
from ..data.shard import Shard
from .cell_sum import Reduction
from .relation_softmax import Contest
from .sparse.by_row import RelationRows


def by_degree(facts: Facts | Shard, hubs: float, place: int) -> Vector:
    """How much an answer in this place counts, (N,): all alike, or in part by its facts; 1 on average over facts."""
    shard = Shard.of(facts)
    s, _, o = shard.facts.triples.T
    as_subject, as_object = (shard.workers.sum(np.bincount(ids, minlength=shard.n_entities)) for ids in (s, o))
    degree = as_subject + as_object
    weights = 1 - hubs + hubs * degree / max(degree.max(initial=0), 1)
    return weights / np.average(weights, weights=as_subject if place == 0 else as_object)  # type: ignore[no-any-return]


class SoftmaxSum:
    """Value and gradient of the softmax likelihood of some facts; arrays are those of `backend`."""

    def __init__(self, facts: Facts | Shard, backend: Backend, *, relations: float = 0.0, hubs: float = 0.0):
        of_targets = None if not hubs else (by_degree(facts, hubs, 2), by_degree(facts, hubs, 0))
        self.sides = [(side, side.unobserved(facts)) for side in RelationRows.of_facts(facts, backend, of_targets)]
        self.backend = backend
        self.contest = Contest(Shard.of(facts).facts, relations, backend) if relations else None

    def __call__(self, A: Any, R: Any, b: Any, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives; b has no part in it. Without `value` the sum is NaN."""
        dA, dR, total = 0 * A, 0 * R, 0.0
        for side, hidden in self.sides:
            X = side.own(A)
            Q = side.times(X, R)
            among_all, dQ, dA_side = self.backend.softmax_sums(Q, A, side.totals, hidden)
            true = side.gathered(A)  # (m, r): Σ w a of the facts
            if value:
                total += among_all - self.backend.dot(Q, true)
            dQ = side.totals * dQ - true
            dA += dA_side - side.scattered(Q) + side.spread(side.times(dQ, R, back=True))
            side.add_outer(X, dQ, dR)
        if self.contest is not None:
            total += self.contest.add(A, R, dA, dR)
        return Reduction(total if value else np.nan, dA, dR, 0 * b)
