"""RESCAL-ALS: least squares over all cells by alternating closed-form updates.

    Σ_k Σ_ij w_ijk (x_ijk − a_iᵀ R_k a_j)²  +  λ_A ‖A‖²  +  λ_R Σ_k ‖R_k‖²   [ + ‖D − A V‖² + λ_V ‖V‖² ]

Updates of Nickel, Tresp & Kriegel (2011, 2012), with A on the right-hand side from the previous sweep:

    R_k ← argmin
    A   ← [Σ_k X_k A R_kᵀ + X_kᵀ A R_k + D Vᵀ] [Σ_k R_k G R_kᵀ + R_kᵀ G R_k + V Vᵀ + λ_A I]⁻¹

A sweep visits each relation once, for R_k, the loss and the sums of the next A. It works with B = A U and C_k = UᵀR_kU
for AᵀA = U diag(g) Uᵀ: there C_k is BᵀX_kB divided entry by entry, BᵀB is diagonal, and R_k itself is not needed.

Weights and unobserved cells (w = 0) are handled by majorisation: where w ≤ w_max, Σ w (x − θ)² lies below
w_max Σ (z − θ)² + const with z = θ_old + (w / w_max)(x − θ_old), and touches it at θ_old. Z = α A R_old Aᵀ + S with
α = 1 − 1/w_max and S sparse, so a sweep stays linear in the listed cells. Everything r × r is float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...arrays import Matrix, Slices, Vector
from ...backend import gram_matrix as gram
from ...backend.protocol import Backend
from ...cells.sparse.layout import RelationBlock, SparseLayout, WeightedCells, choose_layout
from ...data.facts import Facts
from ...data.shard import Shard


class AlsState(NamedTuple):
    """A, the R and V that are best for it, their objective, and the sums that give the next A."""

    A: Matrix  # (N, r)
    C: Slices  # (K, r, r), float64: UᵀR_kU
    U: Matrix  # (r, r), float64: the eigenvectors of AᵀA
    V: Matrix  # (r, M), float64; M = 0 without attributes
    objective: float
    F: Matrix  # (N, r), with B = A U: Σ_k Z_k B C_kᵀ + Z_kᵀ B C_k + D VᵀU; each worker has the rows that it owns
    E: Matrix  # (r, r): Σ_k C_k diag(g) C_kᵀ + C_kᵀ diag(g) C_k + UᵀV VᵀU

    @property
    def R(self) -> Slices:
        """(K, r, r), float64; computed when it is asked for."""
        return between(self.U, self.C, self.U.T)


class GramBasis(NamedTuple):
    """AᵀA = U diag(g) Uᵀ, as arrays of the backend in float64."""

    g: Vector
    U: Matrix
    inverse: Matrix  # of the equations for C_k, which are diagonal


class Als:
    """The solver: one step is one sweep."""

    window = 1

    def __init__(
        self,
        facts: Facts | Shard,
        rank: int,
        *,
        l2_entities: float,
        l2_relations: float,
        l2_attributes: float,
        backend: Backend,
        layout: SparseLayout | None = None,
    ):
        self.shard = shard = Shard.of(facts)
        self.backend = backend
        self.layout = choose_layout(shard, rank, backend) if layout is None else layout
        self.l2_entities, self.l2_relations, self.l2_attributes = l2_entities, l2_relations, l2_attributes
        self.w_max = max(1.0, shard.max_weight)
        self.alpha = 1 - 1 / self.w_max  # factor of θ_old in the target z of an ordinary zero
        self.D = shard.facts.attributes
        self.zero_objective = shard.total_weight + (0.0 if self.D is None else float(np.nansum(self.D**2)))

    def start(self, A: Matrix, R: Slices | None = None) -> AlsState:
        """The state before the first sweep: the best R for the given A. `R` matters only if cells are unobserved."""
        r = A.shape[1]
        R = np.zeros((self.shard.n_relations, r, r)) if R is None else R.astype(np.float64)
        V = np.zeros((r, 0 if self.D is None else self.D.shape[1]))
        A, R = self.backend.from_numpy(A), self.backend.from_numpy_float64(R)
        U = self.backend.from_numpy_float64(np.eye(r))
        return self.visit(self.shard.broadcast(A), self.shard.broadcast(R), U, V)

    def finished(self, state: AlsState) -> str | None:
        """Never: the loop judges by the change of the objective."""
        return None

    def step(self, state: AlsState) -> AlsState:
        """One sweep: A from the sums of the last visit, then every R_k from A."""
        inverse = gram.inverse(state.E, self.l2_entities / self.w_max) @ self.backend.to_numpy(state.U).T
        A, G = self.layout.product_and_gram(state.F, inverse)
        A, G = self.shard.gather_rows(A, self.backend), self.shard.workers.sum(G)
        return self.visit(A, state.C, state.U, state.V, G)

    def whole(self, state: AlsState) -> AlsState:
        """The state with the rows of all workers."""
        return state._replace(F=self.shard.gather_rows(state.F, self.backend))

    def own_part(self, state: AlsState) -> AlsState:
        """The part of a whole state that this worker keeps."""
        return state._replace(F=state.F[self.shard.entity_range])

    def visit(self, A: Matrix, C_old: Slices, U_old: Matrix, V_old: Matrix, G: Matrix | None = None) -> AlsState:
        """Visit each relation once: R_k, its loss, and its terms of the sums for the next A; G: AᵀA, if it is known."""
        G = self.shard.gram(A, self.backend) if G is None else G
        basis = self._basis(G)
        if self.layout.blocks[0].weighted is not None:  # otherwise the best R_k does not depend on the last one
            turn = basis.U.T @ U_old
            C_old = between(turn, C_old, turn.T)
        F, E = self.backend.zeros(A[self.shard.entity_range].shape, A), np.zeros_like(G)
        objective, solved = 0.0, []
        B = self.layout.prepare(A, basis.U)
        for block in self.layout.blocks:
            loss, C = self._visit_block(block, B, C_old[block.relations], basis, F, E)
            objective += loss + self.l2_relations * self.backend.dot(C, C)
            solved.append(C)
        objective += self.l2_entities * float(np.trace(G))
        V = V_old
        if self.D is not None:
            V, D, loss = self._update_attributes(self.backend.to_numpy(A), G, V_old)
            objective += loss + self.l2_attributes * float(np.sum(V**2))
            turned = self.backend.to_numpy(basis.U).T @ V
            F += self.backend.from_numpy(D[self.shard.entity_range] @ turned.T / self.w_max)
            E += turned @ turned.T / self.w_max
        C = solved[0] if len(solved) == 1 else np.concatenate(solved)  # several blocks are NumPy arrays
        return AlsState(A, C, basis.U, V, objective, F, E)

    def _basis(self, G: Matrix) -> GramBasis:
        g, U = np.linalg.eigh(G)
        g, U = np.maximum(g, 0), self.shard.broadcast(np.ascontiguousarray(U))  # signs may differ between machines
        inverse = relation_inverse(g, self.l2_relations / self.w_max)
        return GramBasis(*(self.backend.from_numpy_float64(part) for part in (g, U, inverse)))

    def _visit_block(
        self, block: RelationBlock, B: Matrix, C_old: Slices, basis: GramBasis, F: Matrix, E: Matrix
    ) -> tuple[float, Slices]:
        """The loss of a block of relations and their C; adds their terms to F and E."""
        weighted = block.weighted
        M, SB = block.project(B, None if weighted is None else self._target(weighted[0], B, C_old)[0])
        if self.alpha:
            M += self.alpha * basis.g[:, None] * C_old * basis.g
        C = M * basis.inverse
        loss, normal = _squares(C, basis.g)
        normal = self.backend.to_numpy(normal)
        E += normal
        if weighted is None:
            loss += int(self.shard.facts_per_relation[block.relations].sum()) - 2 * self.backend.dot(M, C)
            block.add_right_side(F, B, C, SB, None, None)
            return loss, C
        by_subject, by_object = weighted
        del SB  # the target has moved: the majoriser touches at the newest point
        values, theta = self._target(by_subject, B, C)
        loss += by_subject.squared_error_change(theta)
        back = values if by_object is by_subject else self._target(by_object, B, C)[0]
        block.add_right_side(F, B, C, None, (values, back), self.alpha * normal if self.alpha else None)
        return loss, C

    def _target(self, cells: WeightedCells, B: Matrix, C_old: Slices) -> tuple[Vector, Vector]:
        """Values of the sparse part of Z at the listed cells, and θ_old there."""
        theta, share = cells.scores(B, C_old), cells.weights / self.w_max
        return share * cells.truth + (1 - share - self.alpha) * theta, theta

    def _update_attributes(self, A: Matrix, G: Matrix, V_old: Matrix) -> tuple[Matrix, Matrix, float]:
        """V, the attributes with unknown values filled in from A V, and the loss on the known values."""
        assert self.D is not None
        known = ~np.isnan(self.D)
        A = A.astype(np.float64)
        D = np.where(known, self.D, A @ V_old)
        V = gram.inverse(G, self.l2_attributes) @ (A.T @ D)
        fitted = A @ V
        loss = float(np.sum((self.D[known] - fitted[known]) ** 2))
        return V, np.where(known, self.D, fitted), loss


def relation_inverse(g: Vector, l2: float) -> Matrix:
    """1 / (g_p g_q + l2), which times BᵀZB is argmin_C Σ (z − b_iᵀ C b_j)² + l2 ‖C‖² where BᵀB = diag(g).

    With l2 = 0 and B of deficient rank there are many minima; this gives the one of least norm.
    """
    scale = g[:, None] * g + l2
    usable = scale > scale.max() * np.finfo(np.float64).eps * len(g)
    return np.divide(1, scale, out=np.zeros_like(scale), where=usable)


def _squares(C: Slices, g: Vector) -> gram.Quadratic:
    """The sums over all cells of relations C_k where the Gram matrix is diagonal: two products of long matrices."""
    k, r, _ = C.shape
    root = g[:, None] ** 0.5
    tall, wide = ((root * X).reshape(k * r, r) for X in (C, C.swapaxes(1, 2)))
    backward = tall.T @ tall  # Σ_k C_kᵀ diag(g) C_k
    return gram.Quadratic(float((backward.diagonal() * g).sum()), backward + wide.T @ wide)


def between(L: Matrix, X: Slices, R: Matrix) -> Slices:
    """L X_k R for every k, by two products of long matrices: faster than many small ones."""
    k, r, _ = X.shape
    turned = (X.swapaxes(1, 2).reshape(k * r, r) @ L.T).reshape(k, r, r)  # (L X_k)ᵀ
    return (turned.swapaxes(1, 2).reshape(k * r, r) @ R).reshape(k, r, r)  # contiguous
