"""RESCAL-ALS: least squares over all cells by alternating closed-form updates.

    Σ_k Σ_ij w_ijk (x_ijk − a_iᵀ R_k a_j)²  +  λ_A ‖A‖²  +  λ_R Σ_k ‖R_k‖²   [ + ‖D − A V‖² + λ_V ‖V‖² ]

Updates of Nickel, Tresp & Kriegel (2011, 2012), A on the right-hand side taken from the sweep before:

    R_k ← argmin, through the eigenvectors of AᵀA
    A   ← [Σ_k X_k A R_kᵀ + X_kᵀ A R_k + D Vᵀ] [Σ_k R_k G R_kᵀ + R_kᵀ G R_k + V Vᵀ + λ_A I]⁻¹

Each relation is visited once a sweep. Weights and unobserved cells (w = 0) go one way: majorisation. Where
w ≤ w_max, Σ w (x − θ)² lies below w_max Σ (z − θ)² + const with z = θ_old + (w / w_max)(x − θ_old), and touches it at
θ_old. z is α·θ_old (low rank, α = 1 − 1/w_max) plus a sparse part, so a sweep stays linear in the listed cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..arrays import Ids, Matrix, Slices, Vector
from ..cells import gram
from ..data.facts import Facts


class AlsState(NamedTuple):
    """A before the visit of all relations, and the R and V that were best for the A before it."""

    A: Matrix  # (N, r)
    R: Slices  # (K, r, r), float64
    V: Matrix  # (r, M), float64; M = 0 without attributes
    objective: float


@dataclass(frozen=True)
class Listed:
    """The cells of one relation that are not ordinary zeros: facts first, then unobserved ones."""

    rows: Ids
    columns: Ids
    x: Vector
    w: Vector  # weight, 0 where unobserved
    pattern: sp.csr_matrix  # its data are positions in the arrays above

    def matrix(self, values: Vector) -> sp.csr_matrix:
        """A sparse N × N matrix with these values at the listed cells."""
        return sp.csr_matrix((values[self.pattern.data], self.pattern.indices, self.pattern.indptr), self.pattern.shape)


class Als:
    """The solver: a step is one sweep."""

    window = 1

    def __init__(self, facts: Facts, *, l2_entities: float, l2_relations: float, l2_attributes: float, dtype: Any):
        self.dtype = np.dtype(dtype)
        self.lambdas = (l2_entities, l2_relations, l2_attributes)
        self.n = facts.n_entities
        self.cells = [_listed(facts, k) for k in range(facts.n_relations)]
        weights = facts.weights if facts.weights is not None and len(facts) else np.ones(1)
        self.w_max = max(1.0, float(weights.max()))
        self.exact = facts.weights is None and not len(facts.unobserved)
        self.ones = [cell.matrix(np.ones(len(cell.rows), self.dtype)) if self.exact else None for cell in self.cells]
        self.D = None if facts.attributes is None else facts.attributes

    def start(self, A: Matrix, R: Slices | None = None) -> AlsState:
        """The state before the first sweep."""
        r = A.shape[1]
        R = np.zeros((len(self.cells), r, r)) if R is None else R.astype(np.float64)
        V = np.zeros((r, 0 if self.D is None else self.D.shape[1]))
        return AlsState(np.ascontiguousarray(A, self.dtype), R, V, np.inf)

    def stalled(self, state: AlsState) -> bool:
        """Never: the loop judges by the change of the objective."""
        return False

    def step(self, state: AlsState) -> AlsState:
        """Visit every relation (R_k from A), then A from the sums of the visit."""
        visit = self._visit(state, update_A=True)
        return visit

    def finish(self, state: AlsState) -> AlsState:
        """R and V for the A that is returned, and the objective of the three."""
        return self._visit(state, update_A=False)

    def _visit(self, state: AlsState, *, update_A: bool) -> AlsState:
        A, w_max = state.A, self.w_max
        l2_entities, l2_relations, l2_attributes = self.lambdas
        G = gram.product(A, A)
        g, U = np.linalg.eigh(G)
        g = np.maximum(g, 0)
        R = np.empty_like(state.R)
        F = np.zeros(A.shape, self.dtype)  # Σ_k Z_k A R_kᵀ + Z_kᵀ A R_k
        E = np.zeros_like(G)
        objective = l2_entities * float(np.trace(G))
        for k in range(len(self.cells)):
            Y, M = self._target_times_A(k, A, state.R[k], G)  # Z_k A, Aᵀ Z_k A
            R[k] = update_relation(M, g, U, l2_relations / w_max)
            loss, Y = self._loss(k, A, R[k], G, M, Y)
            objective += loss + l2_relations * float(np.sum(R[k] ** 2))
            if update_A:
                F += Y[0] @ R[k].T.astype(self.dtype) + Y[1] @ R[k].astype(self.dtype)
                E += R[k] @ G @ R[k].T + R[k].T @ G @ R[k]
        V = state.V
        if self.D is not None:
            V, D, loss = self._attributes(A, G, V)
            objective += loss + l2_attributes * float(np.sum(V**2))
            F += (D / w_max @ V.T).astype(self.dtype)
            E += V @ V.T / w_max
        if update_A:
            A = F @ inverse(E, l2_entities / w_max).astype(self.dtype)
        return AlsState(A, R, V, objective)

    # Z_k A and its transpose for the majoriser's target; without weights and masks Z_k = X_k.

    def _target_times_A(self, k: int, A: Matrix, R_old: Matrix, G: Matrix) -> tuple[Any, Matrix]:
        if self.exact:
            Y = self.ones[k] @ A
            return (Y, self.ones[k]), gram.product(A, Y)
        S, alpha, _ = self._sparse_part(k, A, R_old)
        Y = S @ A
        return (Y, S), gram.product(A, Y) + alpha * G @ R_old @ G

    def _sparse_part(self, k: int, A: Matrix, R_k: Matrix) -> tuple[sp.csr_matrix, float, Vector]:
        """S of Z = α A R_k Aᵀ + S, α, and θ at the listed cells."""
        cells, alpha = self.cells[k], 1 - 1 / self.w_max
        theta = gram.theta_at(A @ R_k.astype(self.dtype), A, cells.rows, cells.columns)
        share = cells.w / self.w_max
        values = share * cells.x + (1 - share - alpha) * theta.astype(np.float64)
        return cells.matrix(values.astype(self.dtype)), alpha, theta

    def _loss(
        self, k: int, A: Matrix, R_k: Matrix, G: Matrix, M: Matrix, Y: Any
    ) -> tuple[float, tuple[Matrix, Matrix]]:
        """The loss of relation k, exact in r × r terms, and (Z_k A, Z_kᵀ A) for the update of A."""
        product, S = Y
        squares = gram.sum_of_squares(R_k, G)
        if self.exact:
            loss = S.nnz - 2 * float(np.sum(M * R_k)) + squares
            return loss, (product, S.T @ A)
        cells = self.cells[k]
        S, alpha, theta = self._sparse_part(k, A, R_k)
        t = theta.astype(np.float64)
        loss = squares + float(np.sum(cells.w * (cells.x - t) ** 2) - np.sum(t * t))
        Y1, Y2 = S @ A, S.T @ A
        if alpha:
            Y1 += A @ (alpha * R_k @ G).astype(self.dtype)
            Y2 += A @ (alpha * R_k.T @ G).astype(self.dtype)
        return loss, (Y1, Y2)

    def _attributes(self, A: Matrix, G: Matrix, V_old: Matrix) -> tuple[Matrix, Matrix, float]:
        """V, the attributes with unknown values filled from A V, and the loss on the known ones."""
        assert self.D is not None
        known = ~np.isnan(self.D)
        wide = A.astype(np.float64)
        D = np.where(known, self.D, wide @ V_old)
        V = inverse(G, self.lambdas[2]) @ (wide.T @ D)
        fitted = wide @ V
        loss = float(np.sum((self.D[known] - fitted[known]) ** 2))
        return V, np.where(known, self.D, fitted), loss


def update_relation(M: Matrix, g: Vector, U: Matrix, l2: float) -> Matrix:
    """argmin_R Σ (z − a_iᵀ R a_j)² + l2 ‖R‖², from M = AᵀZA and AᵀA = U diag(g) Uᵀ.

    With l2 = 0 and A of deficient rank there are many minima; the one of least norm is taken.
    """
    scale = np.outer(g, g) + l2
    rotated = U.T @ M @ U
    usable = scale > scale.max(initial=0) * np.finfo(np.float64).eps * len(g)
    return U @ np.divide(rotated, scale, out=np.zeros_like(rotated), where=usable) @ U.T  # type: ignore[no-any-return]


def inverse(E: Matrix, l2: float) -> Matrix:
    """(E + l2 I)⁻¹ for symmetric E ≥ 0; the pseudo-inverse where that is singular."""
    values, U = np.linalg.eigh(E)
    values = np.maximum(values, 0) + l2
    usable = values > values.max(initial=0) * np.finfo(np.float64).eps * len(values)
    return U @ (np.divide(1, values, out=np.zeros_like(values), where=usable)[:, None] * U.T)  # type: ignore[no-any-return]


def _listed(facts: Facts, k: int) -> Listed:
    ones = slice(facts.starts[k], facts.starts[k + 1])
    hidden = facts.unobserved[facts.unobserved[:, 1] == k]
    n_ones = ones.stop - ones.start
    rows = np.concatenate([facts.subjects[ones], hidden[:, 0]])
    columns = np.concatenate([facts.objects[ones], hidden[:, 2]])
    x = np.concatenate([np.ones(n_ones), np.zeros(len(hidden))])
    w = np.concatenate([np.ones(n_ones) if facts.weights is None else facts.weights[ones], np.zeros(len(hidden))])
    n = facts.n_entities
    order = np.lexsort((columns, rows))
    indptr = np.searchsorted(rows[order], np.arange(n + 1)).astype(np.int32)
    pattern = sp.csr_matrix((order.astype(np.int64), columns[order].astype(np.int32), indptr), shape=(n, n))
    return Listed(rows, columns, x, w, pattern)
