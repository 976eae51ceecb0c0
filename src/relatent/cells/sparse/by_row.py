"""The rows (relation, entity) that occur in facts, and sums along them: what softmax and the penalties on facts need.

A row of the first side is a subject with a relation, its cells the objects of its facts; a row of the other side is
an object with a relation, its cells the subjects. Rows are sorted by relation, so that x R_k of all rows is one product
for each relation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...arrays import Ids, Triples, Vector
from ...backend.protocol import Backend
from ...data.facts import Facts
from ...data.shard import Shard


class Side(NamedTuple):
    """Cells by row; `turned`: by (relation, object)."""

    turned: bool
    order: Ids  # (n,) in which the cells are taken
    bounds: Ids  # (K + 1,) where the rows of each relation begin
    keys: Ids  # (m,) a number for each row, k · N + entity
    entity: Ids  # (m,) of each row
    starts: Ids  # (m + 1,) where the cells of each row begin
    row: Ids  # (n,) of each cell
    target: Ids  # (n,) the other entity of each cell


def side_of(cells: Triples, n: int, k: int, turned: bool) -> Side:
    """The rows by subject, or by object, of some cells among n entities and k relations."""
    keys, target = _row_keys(cells, n, turned)
    order = np.lexsort((target, keys))
    rows, starts, row = np.unique(keys[order], return_index=True, return_inverse=True)
    bounds = np.searchsorted(rows // n, np.arange(k + 1))
    return Side(turned, order, bounds, rows, rows % n, np.append(starts, len(keys)), row, target[order])


def _row_keys(cells: Triples, n: int, turned: bool) -> tuple[Ids, Ids]:
    """A number for the row of each cell, and its other entity."""
    s, k, o = cells.T.astype(np.int64)
    return (k * n + o, s) if turned else (k * n + s, o)


class Rows:
    """Sums along the rows of one side; arrays are those of `backend`."""

    def __init__(self, cells: Triples, weights: Vector, n: int, k: int, turned: bool, backend: Backend):
        side = side_of(cells, n, k, turned)
        m, weights = len(side.entity), weights[side.order]
        self.side, self.backend, self.n = side, backend, n
        self.entity = backend.from_numpy(side.entity)
        totals = np.bincount(side.row, weights=weights, minlength=m).astype(np.float64)
        self.totals = backend.from_numpy(totals[:, None])  # (m, 1) weight of each row's cells together
        self._products = backend.relation_products(side.bounds)
        self._by_row = backend.segment_sums(side.starts, side.target, weights)
        self._by_target = backend.segment_sums(*_by(side.target, n, side.row, weights))
        self._by_entity = backend.segment_sums(*_by(side.entity, n, np.arange(m), np.ones(m)))

    @classmethod
    def of_facts(
        cls, facts: Facts | Shard, backend: Backend, of_targets: tuple[Vector, Vector] | None = None
    ) -> list[Rows]:
        """Both sides of the facts that are believed at all; `of_targets`: weights of objects, and of subjects.

        Of several workers each has the rows of the subjects, and of the objects, that it owns.
        """
        shard, targets = Shard.of(facts), of_targets or (None, None)
        return [
            cls._of_side(shard.facts, False, backend, targets[0]),
            cls._of_side(shard.facts_by_object, True, backend, targets[1]),
        ]

    @classmethod
    def _of_side(cls, facts: Facts, turned: bool, backend: Backend, of_target: Vector | None) -> Rows:
        known = facts.confidences > 0
        cells, weights = facts.triples[known], facts.confidences[known]
        if of_target is not None:
            weights = weights * of_target[cells[:, 0 if turned else 2]]
        return cls(cells, weights, facts.n_entities, facts.n_relations, turned, backend)

    def own(self, A: Any) -> Any:
        """Each row's entity, (m, r)."""
        return A[self.entity]

    def times(self, X: Any, R: Any, *, back: bool = False) -> Any:
        """Each row times R_k, or R_kᵀ on the turned side; `back`: the transpose of that."""
        return self._products.times(X, R, self.side.turned != back)

    def add_outer(self, X: Any, dQ: Any, dR: Any) -> None:
        """Add Σ x dqᵀ over the rows of each relation to dR_k, or its transpose on the turned side."""
        self._products.add_outer(*((dQ, X) if self.side.turned else (X, dQ)), dR)

    def gathered(self, A: Any, values: Any = None) -> Any:
        """Σ w a over the cells of each row, (m, r); `values` in place of w, in the order of the side."""
        return self._by_row(A, values)

    def scattered(self, Q: Any) -> Any:
        """Σ w q over the cells that an entity is the other end of, (N, r)."""
        return self._by_target(Q)

    def spread(self, X: Any) -> Any:
        """The sum of the rows of each entity, (N, r)."""
        return self._by_entity(X)

    def hidden(self, facts: Facts | Shard) -> tuple[Any, Any]:
        """Rows and other entities of unobserved cells that lie in one of the rows, sorted by row."""
        shard = Shard.of(facts)
        facts = shard.facts_by_object if self.side.turned else shard.facts
        doubted = facts.triples[facts.confidences == 0]
        keys, target = _row_keys(np.concatenate([facts.unobserved, doubted]), self.n, self.side.turned)
        inside = np.isin(keys, self.side.keys)
        order = np.argsort(keys[inside], kind="stable")
        rows = np.searchsorted(self.side.keys, keys[inside][order])
        return self.backend.from_numpy(rows), self.backend.from_numpy(target[inside][order])


def _by(key: Ids, n: int, index: Ids, weights: Vector) -> tuple[Ids, Ids, Vector]:
    """Segments of an index, one for each of n keys."""
    order = np.argsort(key, kind="stable")
    return np.searchsorted(key[order], np.arange(n + 1)), index[order], weights[order]
