"""The rows (relation, entity) that occur in facts, and sums along them: what softmax and the penalties on facts need.

A row of the first side is a subject with a relation, its cells the objects of its facts; a row of the other side is
an object with a relation, its cells the subjects. Rows are sorted by relation, so that x R_k of all rows is one product
for each relation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Ids, Triples, Vector
from ..data.facts import Facts


class Side(NamedTuple):
    """The cells of some facts by row; `turned`: by (relation, object)."""

    turned: bool
    bounds: Ids  # (K + 1,) where the rows of each relation begin
    entity: Ids  # (m,) of each row
    starts: Ids  # (m + 1,) where the cells of each row begin
    row: Ids  # (n,) of each cell
    target: Ids  # (n,) the other entity of each cell
    weights: Vector  # (n,) of the facts
    hidden: tuple[Ids, Ids]  # rows and other entities of cells that are neither true nor false, by row


def side_of(facts: Facts, turned: bool) -> Side:
    """The rows by subject, or by object."""
    n, k = facts.n_entities, facts.n_relations
    known = facts.confidences > 0
    keys, target = _row_keys(facts.triples[known], n, turned)
    weights = facts.confidences[known]
    if turned:
        order = np.lexsort((target, keys))
        keys, target, weights = keys[order], target[order], weights[order]
    rows, starts, row = np.unique(keys, return_index=True, return_inverse=True)
    return Side(
        turned,
        np.searchsorted(rows // n, np.arange(k + 1)),
        rows % n,
        np.append(starts, len(keys)),
        row,
        target,
        weights,
        _hidden(np.concatenate([facts.unobserved, facts.triples[~known]]), rows, n, turned),
    )


def _hidden(cells: Triples, rows: Ids, n: int, turned: bool) -> tuple[Ids, Ids]:
    """The row and other entity of each cell that lies in one of the rows, sorted by row."""
    keys, target = _row_keys(cells, n, turned)
    keys, target = keys[np.isin(keys, rows)], target[np.isin(keys, rows)]
    order = np.argsort(keys, kind="stable")
    return np.searchsorted(rows, keys[order]), target[order]


def _row_keys(cells: Triples, n: int, turned: bool) -> tuple[Ids, Ids]:
    """A number for the row of each cell, and its other entity."""
    s, k, o = cells.T.astype(np.int64)
    return (k * n + o, s) if turned else (k * n + s, o)


class Rows:
    """Sums along the rows of one side; arrays are those of `on`, a `Host` or a `Device`."""

    def __init__(self, facts: Facts, turned: bool, on: Any):
        side = side_of(facts, turned)
        n, m = facts.n_entities, len(side.entity)
        self.turned, self.on, self.n_rows = turned, on, m
        self.entity, self.hidden = on.place(side.entity), tuple(on.place(ids) for ids in side.hidden)
        totals = np.bincount(side.row, weights=side.weights, minlength=m).astype(np.float64)
        self.totals = on.place(totals[:, None])  # (m, 1) weight of each row's facts together
        self._products = on.products(side.bounds)
        self._by_row = on.sums(side.starts, side.target, side.weights)
        self._by_target = on.sums(*_by(side.target, n, side.row, side.weights))
        self._by_entity = on.sums(*_by(side.entity, n, np.arange(m), np.ones(m)))

    def own(self, A: Any) -> Any:
        """Each row's entity, (m, r)."""
        return A[self.entity]

    def times(self, X: Any, R: Any, *, back: bool = False) -> Any:
        """Each row times R_k, or R_kᵀ on the turned side; `back`: the transpose of that."""
        return self._products.times(X, R, self.turned != back)

    def add_outer(self, X: Any, dQ: Any, dR: Any) -> None:
        """Add Σ x dqᵀ over the rows of each relation to dR_k, or its transpose on the turned side."""
        self._products.add_outer(*((dQ, X) if self.turned else (X, dQ)), dR)

    def gathered(self, A: Any) -> Any:
        """Σ w a over the cells of each row, (m, r)."""
        return self._by_row(A)

    def scattered(self, Q: Any) -> Any:
        """Σ w q over the cells that an entity is the other end of, (N, r)."""
        return self._by_target(Q)

    def spread(self, X: Any) -> Any:
        """The sum of the rows of each entity, (N, r)."""
        return self._by_entity(X)

    def attend(self, Q: Any, A: Any) -> tuple[float, Any, Any]:
        """The softmax P over all entities along each row: Σ totals · log Σ exp, P A and Pᵀ diag(totals) Q."""
        return self.on.attend(Q, A, self.totals, self.hidden)  # type: ignore[no-any-return]


def _by(key: Ids, n: int, index: Ids, weights: Vector) -> tuple[Ids, Ids, Vector]:
    """Segments of an index, one for each of n keys."""
    order = np.argsort(key, kind="stable")
    return np.searchsorted(key[order], np.arange(n + 1)), index[order], weights[order]
