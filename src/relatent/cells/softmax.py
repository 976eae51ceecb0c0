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

from ..arrays import Array, Matrix, Slices, Vector
from ..backend.numpy_backend import MAX_SCORES
from ..backend.protocol import Backend
from ..data.facts import Facts
from ..data.shard import Shard
from .cell_sum import CellMemory, ModelSize, Reduction
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
        accurate: bool = True,
    ):
        """`answer_weights`: of each entity as an object and as a subject. `only_objects`: without the second term.

        Without `accurate`, a GPU does not correct the value for the rounding of factors.
        """
        self._accurate = accurate
        self.shard, self.backend = Shard.of(facts), backend
        self._answer_weights, self._only_objects = answer_weights, only_objects
        self._pieces: dict[int, list[tuple[RelationRows, tuple[Array, Array]]]] = {}  # by rank
        self.over_relations = RelationSoftmax(self.shard.facts, relation_weight, backend) if relation_weight else None

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """The indices of rows, and a gradient; matrices of rows, scores, and two more gradients during a call."""
        rows = rows_memory(facts, size.rank, size.itemsize)
        scores = size.itemsize * min(MAX_SCORES, len(facts) * size.entities)
        return CellMemory(0, rows.held + size.gradient, rows.call + scores + 2 * size.gradient)

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives; without `value` the sum is NaN. The bias has no part in it."""
        dA, dR, total = 0 * A, 0 * R, 0.0
        for side, unobserved in self._rows(A.shape[1]):
            total += self._add_rows(side, unobserved, A, R, dA, dR, value)
        if self.over_relations is not None:
            total += self.over_relations.add(A, R, dA, dR)
        return Reduction(total if value else np.nan, dA, dR, 0 * b)

    def _add_rows(
        self,
        side: RelationRows,
        unobserved: tuple[Array, Array],
        A: Matrix,
        R: Slices,
        dA: Matrix,
        dR: Slices,
        value: bool,
    ) -> Any:
        """The terms of some rows; a function of its own, which releases its matrices before the next rows."""
        X = side.own(A)
        Q = side.times(X, R)
        accurate = value and self._accurate
        among_all, dQ, dA_side = self.backend.softmax_sums(Q, A, side.totals, unobserved, accurate=accurate)
        true = side.gathered(A)  # (m, r): Σ w a over the facts of each row
        total = among_all - self.backend.deferred_dot(Q, true) if value else 0.0
        dQ *= side.totals
        dQ -= true
        side.add_outer(X, dQ, dR)
        side.add_scattered(dA_side, Q, -1.0)
        del X, Q, true
        side.add_spread(dA_side, side.times(dQ, R, back=True))
        dA += dA_side
        return total

    def _rows(self, rank: int) -> list[tuple[RelationRows, tuple[Array, Array]]]:
        """Pieces of the rows of each side, with the unobserved cells of each."""
        if rank not in self._pieces:
            rows = RelationRows.of_facts(self.shard, self.backend, self._answer_weights, rank=rank)
            self._pieces = {
                rank: [
                    (piece, piece.unobserved(self.shard))
                    for piece in rows
                    if not (self._only_objects and piece.index.by_object)
                ]
            }
        return self._pieces[rank]
