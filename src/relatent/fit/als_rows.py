"""RESCAL-ALS along the rows that occur in listed cells: the sweeps of `als`, for arrays that may be on a GPU.

X_k A has a row for each subject of the relation that has facts, and only those are worked on, all relations at once:

    M_k = AᵀX_kA = Σ over rows a_s y_sᵀ,  y_s = Σ a_o over the row's cells
    Σ_k X_k A R_kᵀ + X_kᵀ A R_k          = y_s R_kᵀ and z_o R_k, added up by entity

M_k, R_k and everything r × r are float64; only eigenvectors are found on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Matrix, Slices
from ..cells.rows import Rows
from ..data.facts import Facts
from ..model import gram
from .als import Als, AlsState, update_relations

CELLS = 1 << 20  # whose scores are worked out at once


class AlsRows(Als):
    """The solver for arrays of `on`, a `Host` or a `Device`: a step is one sweep."""

    def __init__(
        self, facts: Facts, rank: int, *, l2_entities: float, l2_relations: float, l2_attributes: float, on: Any
    ):
        self._describe(facts, l2_entities, l2_relations, l2_attributes)
        self.on, self.dtype = on, on.dtype
        cells = np.concatenate([facts.triples, facts.unobserved])
        weights = np.concatenate([facts.confidences, np.zeros(len(facts.unobserved))])
        x = np.repeat([1.0, 0.0], [len(facts), len(facts.unobserved)])
        shape = (facts.n_entities, facts.n_relations)
        self.by_subject, self.by_object = (Rows(cells, x, *shape, turned, on) for turned in (False, True))
        order = self.by_subject.side.order
        self.x, self.w = on.place(x[order]), on.place(weights[order])
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.to_objects = on.place(place[self.by_object.side.order])  # from the one order of cells to the other
        self.row, self.target = on.place(self.by_subject.side.row), on.place(self.by_subject.side.target)

    def start(self, A: Matrix, R: Slices | None = None) -> AlsState:
        """The state before the first sweep: the best R for the given A. `R` helps only where cells are unobserved."""
        r = A.shape[1]
        R = np.zeros((self.n_relations, r, r)) if R is None else R
        V = np.zeros((r, 0 if self.D is None else self.D.shape[1]))
        return self.visit(self.on.place(np.asarray(A, np.float64)), self.on.wide(R), V)

    def step(self, state: AlsState) -> AlsState:
        """One sweep: A from the sums of the last visit, then every R_k from A."""
        inverse = gram.inverse(state.E, self.lambdas[0] / self.w_max)
        return self.visit(state.F @ self.on.place(inverse), state.R, state.V)

    def visit(self, A: Matrix, R_old: Slices, V_old: Matrix) -> AlsState:
        """All relations at once: R, the loss, and the sums for the next A."""
        on, w_max, (l2_entities, l2_relations, l2_attributes) = self.on, self.w_max, self.lambdas
        G = on.gram(A)
        g, U = np.linalg.eigh(G)
        G_on = on.wide(G)
        X = self.by_subject.own(A)
        values = self._values(self._scores(X, A, R_old))
        Y = self.by_subject.gathered(A, values)
        M = self._projected(X, Y)
        if self._alpha:
            M += self._alpha * (G_on @ R_old @ G_on)
        R = update_relations(M, on.wide(np.maximum(g, 0)), on.wide(U), l2_relations / w_max)
        theta_squared, normal = gram.quadratic(R, G_on)
        if self.exact:
            objective = float(self.counts.sum()) - 2 * on.dot(M, R) + theta_squared
        else:
            theta = self._scores(X, A, R)
            off = self.x - theta
            objective = theta_squared + on.dot(self.w * off, off) - on.dot(theta, theta)
            values = self._values(theta)  # the majoriser touches at the newest point
            Y = self.by_subject.gathered(A, values)
        objective += l2_relations * on.dot(R, R) + l2_entities * float(np.trace(G))
        E, narrow = on.fetch(normal), on.narrow(R)
        F = self.by_subject.spread(self.by_subject.times(Y, narrow, back=True))
        Z = self.by_object.gathered(A, None if values is None else values[self.to_objects])
        F += self.by_object.spread(self.by_object.times(Z, narrow, back=True))
        if self._alpha:
            F += A @ on.place(self._alpha * E)
        V = V_old
        if self.D is not None:
            V, D, loss = self._attributes(on.fetch(A), G, V_old)
            objective += loss + l2_attributes * float(np.sum(V**2))
            F += on.place(D @ V.T / w_max)
            E = E + V @ V.T / w_max
        return AlsState(A, R, V, objective, F, E)

    def _projected(self, X: Matrix, Y: Matrix) -> Slices:
        """Σ x yᵀ over the rows of each relation, then in float64."""
        r = X.shape[1]
        M = self.on.zeros((self.n_relations, r, r), X)
        self.by_subject.add_outer(X, Y, M)
        return self.on.widened(M)  # type: ignore[no-any-return]

    def _scores(self, X: Matrix, A: Matrix, R: Slices) -> Any:
        """θ at the listed cells; None where they are not asked for."""
        if self.exact:
            return None
        Q = self.by_subject.times(X, self.on.narrow(R))
        theta = self.on.zeros(self.x.shape, A)
        for low in range(0, len(theta), CELLS):
            here = slice(low, low + CELLS)
            theta[here] = (Q[self.row[here]] * A[self.target[here]]).sum(1)
        return theta

    def _values(self, theta: Any) -> Any:
        """Values at the listed cells of the sparse part of Z = α A R Aᵀ + S; None where each is x."""
        if theta is None:
            return None
        share = self.w / self.w_max
        return share * self.x + (1 - share - self._alpha) * theta
