"""RESCAL-ALS along the rows that occur in listed cells: the sweeps of `als`, for arrays that may be on a GPU.

X_k A has a row for each subject of the relation that has facts, and only those are worked on, all relations at once:

    M_k = AᵀX_kA = Σ over rows a_s y_sᵀ,  y_s = Σ a_o over the row's cells
    Σ_k X_k A R_kᵀ + X_kᵀ A R_k          = y_s R_kᵀ and z_o R_k, added up by entity

M_k, R_k and everything r × r are float64; only eigenvectors are found on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import Matrix, Slices
from ...backend import gram_matrix as gram
from ...backend.numpy_backend import NumpyBackend
from ...backend.protocol import Backend
from ...cells.sparse.by_row import Rows
from ...data.facts import Facts
from ...data.shard import Shard
from .als import Als, AlsState, update_relations

CELLS = 1 << 20  # whose scores are worked out at once
FEW = 4  # rows of all relations for one that occurs, from which on those that occur are worked on alone
LISTED = 200  # bytes a cell: ids, orders and weights of both sides, and what sorts them


class Listed(Rows):
    """Facts and unobserved cells by row, with what is known of each, x, and how much it counts, w."""

    def __init__(self, facts: Facts, turned: bool, backend: Backend):
        cells = np.concatenate([facts.triples, facts.unobserved])
        unknown = np.zeros(len(facts.unobserved))
        x, w = np.append(np.ones(len(facts)), unknown), np.append(facts.confidences, unknown)
        super().__init__(cells, x, facts.n_entities, facts.n_relations, turned, backend)
        self.x, self.w = backend.from_numpy(x[self.side.order]), backend.from_numpy(w[self.side.order])
        self.row, self.target = backend.from_numpy(self.side.row), backend.from_numpy(self.side.target)

    def scores(self, A: Any, R: Any) -> Any:
        """θ at the listed cells, in the order of the side."""
        Q = self.times(self.own(A), R)
        theta = self.backend.zeros(self.x.shape, A)
        for low in range(0, len(theta), CELLS):
            here = slice(low, low + CELLS)
            theta[here] = (Q[self.row[here]] * A[self.target[here]]).sum(1)
        return theta


class AlsRows(Als):
    """The solver for arrays of `backend`: a step is one sweep."""

    def __init__(
        self,
        facts: Facts | Shard,
        rank: int,
        *,
        l2_entities: float,
        l2_relations: float,
        l2_attributes: float,
        backend: Backend,
    ):
        shard = Shard.of(facts)
        self._describe(shard, l2_entities, l2_relations, l2_attributes)
        self.backend, self.dtype = backend, backend.dtype
        self.by_subject, self.by_object = (
            Listed(shard.facts, False, backend),
            Listed(shard.facts_by_object, True, backend),
        )

    def step(self, state: AlsState) -> AlsState:
        """One sweep: A from the sums of the last visit, then every R_k from A."""
        inverse = self.backend.from_numpy(gram.inverse(state.E, self.lambdas[0] / self.w_max))
        if self.workers.size == 1:
            return self.visit(state.F @ inverse, state.R, state.V)
        A = self.backend.zeros(state.A.shape, state.A)
        A[self.own] = state.F @ inverse
        return self.visit(self.workers.gather_rows(A), state.R, state.V)

    def visit(self, A: Matrix, R_old: Slices, V_old: Matrix) -> AlsState:
        """All relations at once: R, the loss, and the sums for the next A."""
        backend, w_max, (l2_entities, l2_relations, l2_attributes) = self.backend, self.w_max, self.lambdas
        G = self.workers.sum(backend.gram(A[self.own]))
        g, U = np.linalg.eigh(G)
        G_on = backend.from_numpy_float64(G)
        rows, columns = self.by_subject, self.by_object
        X = rows.own(A)
        values, _ = self._aim(rows, A, R_old)
        Y = rows.gathered(A, values)
        M = self._projected(X, Y)
        if self._alpha:
            M += self._alpha * (G_on @ R_old @ G_on)
        R = update_relations(
            M, backend.from_numpy_float64(np.maximum(g, 0)), backend.from_numpy_float64(U), l2_relations / w_max
        )
        theta_squared, normal = gram.quadratic(R, G_on)
        if self.exact:
            objective = float(self.counts.sum()) - 2 * backend.dot(M, R) + theta_squared
        else:
            values, theta = self._aim(rows, A, R)  # the majoriser touches at the newest point
            off = rows.x - theta
            objective = theta_squared + self.workers.sum_float(
                backend.dot(rows.w * off, off) - backend.dot(theta, theta)
            )
            Y = rows.gathered(A, values)
        objective += l2_relations * backend.dot(R, R) + l2_entities * float(np.trace(G))
        E, narrow = backend.to_numpy(normal), backend.to_dtype(R)
        F = rows.spread(rows.times(Y, narrow, back=True))
        Z = columns.gathered(A, self._aim(columns, A, R)[0])
        F += columns.spread(columns.times(Z, narrow, back=True))
        F = F[self.own]
        if self._alpha:
            F += A[self.own] @ backend.from_numpy(self._alpha * E)
        V = V_old
        if self.D is not None:
            V, D, loss = self._attributes(backend.to_numpy(A), G, V_old)
            objective += loss + l2_attributes * float(np.sum(V**2))
            F += backend.from_numpy(D[self.own] @ V.T / w_max)
            E = E + V @ V.T / w_max
        return AlsState(A, R, V, objective, F, E)

    def _projected(self, X: Matrix, Y: Matrix) -> Slices:
        """Σ x yᵀ over the rows of each relation, then in float64."""
        r = X.shape[1]
        M = self.backend.zeros((self.n_relations, r, r), X)
        self.by_subject.add_outer(X, Y, M)
        return self.workers.sum(self.backend.to_float64(M))

    def _aim(self, rows: Listed, A: Matrix, R: Slices) -> tuple[Any, Any]:
        """Values at the listed cells of the sparse part of Z = α A R Aᵀ + S, and θ there; None where each is x."""
        if self.exact:
            return None, None
        theta, share = rows.scores(A, self.backend.to_dtype(R)), rows.w / self.w_max
        return share * rows.x + (1 - share - self._alpha) * theta, theta


def sweeps(facts: Facts | Shard, rank: int, lambdas: dict[str, float], backend: Backend) -> Als:
    """The quicker way to sweep: along the rows that occur, if they are few or on a GPU, or over all rows."""
    shard = Shard.of(facts)
    if not isinstance(backend, NumpyBackend) or occur_rarely(shard):
        return AlsRows(shard, rank, **lambdas, backend=backend)
    return Als(shard, rank, **lambdas, dtype=backend.dtype)


def occur_rarely(facts: Facts | Shard) -> bool:
    """Whether most rows (relation, entity) have no listed cell: a graph of many relations."""
    return FEW * Shard.of(facts).n_listed <= facts.n_entities * facts.n_relations


def needs(facts: Facts, rank: int, dtype: Any) -> int:
    """Bytes that sweeps along rows take beyond the facts and the A they start from, about."""
    n, k, item = facts.n_entities, facts.n_relations, int(np.dtype(dtype).itemsize)
    cells = len(facts) + len(facts.unobserved)
    return LISTED * cells + item * rank * (5 * cells + 6 * n) + 8 * 6 * k * rank * rank
