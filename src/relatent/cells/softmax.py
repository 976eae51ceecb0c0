"""The exact softmax likelihood of facts: the answer of each fact competes with all entities.

    value = Σ over facts w [log Σ_j exp θ_skj − θ_sko] + w [log Σ_i exp θ_iko − θ_sko]
                         + c w [log Σ_k' exp θ_sk'o − θ_sko]

Only the rows (subject, relation) and (relation, object) that occur in facts are summed, each once however many facts
it has. Unobserved cells do not compete. The weight of a fact can depend on the number of facts of its answer
(`degree_weight`). The last term, with weight c, is the softmax over relations (`relation_softmax`). The bias of a
relation would cancel in the first two terms, and no term has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Matrix, Slices, Vector
from ..backend.numpy_backend import MAX_SCORES
from ..backend.protocol import Backend
from ..data.facts import Facts
from ..data.shard import Shard
from .cell_sum import CellMemory, Reduction
from .relation_softmax import RelationSoftmax
from .sparse.by_row import RelationRows, rows_memory


def answer_weights(facts: Facts | Shard, degree_weight: float) -> tuple[Vector, Vector] | None:
    """The weight of each entity as an object and as a subject, (N,) each, 1 on average over facts.

    The weight is the same for all at `degree_weight` 0 (None), and proportional to the number of facts at 1.
    """
    if not degree_weight:
        return None
    shard = Shard.of(facts)
    s, _, o = shard.facts.triples.T
    as_subject, as_object = (shard.workers.sum(np.bincount(ids, minlength=shard.n_entities)) for ids in (s, o))
    degree = as_subject + as_object
    weights = 1 - degree_weight + degree_weight * degree / max(degree.max(initial=0), 1)
    return tuple(weights / np.average(weights, weights=counts) for counts in (as_object, as_subject))


class SoftmaxSum:
    """Value and gradient of the softmax likelihood of some facts, with the arrays of a backend."""

    def __init__(
        self,
        facts: Facts | Shard,
        backend: Backend,
        *,
        relation_weight: float = 0.0,
        answer_weights: tuple[Vector, Vector] | None = None,
        only_objects: bool = False,
    ):
        """`answer_weights`: of each entity as an object and as a subject. `only_objects`: without the second term."""
        rows = RelationRows.of_facts(facts, backend, answer_weights)[: 1 if only_objects else 2]
        self.sides = [(side, side.unobserved(facts)) for side in rows]
        self.backend = backend
        self.over_relations = (
            RelationSoftmax(Shard.of(facts).facts, relation_weight, backend) if relation_weight else None
        )

    @classmethod
    def memory(cls, facts: Facts, rank: int, dtype: Any) -> CellMemory:
        """The rows of both sides, three matrices of scores, and two gradients."""
        item, numbers = np.dtype(dtype).itemsize, facts.n_entities * rank + facts.n_relations * rank * rank
        return CellMemory(0, rows_memory(facts, rank, item) + item * (3 * MAX_SCORES + 2 * numbers))

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives; without `value` the sum is NaN. The bias has no part in it."""
        dA, dR, total = 0 * A, 0 * R, 0.0
        for side, unobserved in self.sides:
            X = side.own(A)
            Q = side.times(X, R)
            among_all, dQ, dA_side = self.backend.softmax_sums(Q, A, side.totals, unobserved)
            true = side.gathered(A)  # (m, r): Σ w a over the facts of each row
            if value:
                total += among_all - self.backend.dot(Q, true)
            dQ = side.totals * dQ - true
            dA += dA_side - side.scattered(Q) + side.spread(side.times(dQ, R, back=True))
            side.add_outer(X, dQ, dR)
        if self.over_relations is not None:
            total += self.over_relations.add(A, R, dA, dR)
        return Reduction(total if value else np.nan, dA, dR, 0 * b)
