"""RESCAL-ALS: least squares over all cells by alternating closed-form updates.

    Σ_k Σ_ij w_ijk (x_ijk − a_iᵀ R_k a_j)²  +  λ_A ‖A‖²  +  λ_R Σ_k ‖R_k‖²   [ + ‖D − A V‖² + λ_V ‖V‖² ]

Updates of Nickel, Tresp & Kriegel (2011, 2012), with A on the right-hand side from the previous sweep:

    R_k ← argmin, through the eigenvectors of AᵀA
    A   ← [Σ_k X_k A R_kᵀ + X_kᵀ A R_k + D Vᵀ] [Σ_k R_k G R_kᵀ + R_kᵀ G R_k + V Vᵀ + λ_A I]⁻¹

A sweep visits each relation once, for R_k, the loss and the sums of the next A. Weights and unobserved cells (w = 0)
are handled by majorisation: where w ≤ w_max, Σ w (x − θ)² lies below w_max Σ (z − θ)² + const with
z = θ_old + (w / w_max)(x − θ_old), and touches it at θ_old. Z = α A R_old Aᵀ + S with α = 1 − 1/w_max and S sparse, so
a sweep stays linear in the listed cells. Everything r × r is float64.
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
    R: Slices  # (K, r, r), float64
    V: Matrix  # (r, M), float64; M = 0 without attributes
    objective: float
    F: Matrix  # (N, r): Σ_k Z_k A R_kᵀ + Z_kᵀ A R_k + D Vᵀ; each worker has the rows that it owns
    E: Matrix  # (r, r): Σ_k R_k G R_kᵀ + R_kᵀ G R_k + V Vᵀ


class GramBasis(NamedTuple):
    """G = AᵀA = U diag(g) Uᵀ, as arrays of the backend in float64."""

    G: Matrix
    g: Vector
    U: Matrix


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
        return self.visit(self.shard.broadcast(A), self.shard.broadcast(R), V)

    def finished(self, state: AlsState) -> str | None:
        """Never: the loop judges by the change of the objective."""
        return None

    def step(self, state: AlsState) -> AlsState:
        """One sweep: A from the sums of the last visit, then every R_k from A."""
        inverse = self.backend.from_numpy(gram.inverse(state.E, self.l2_entities / self.w_max))
        return self.visit(self.shard.gather_rows(state.F @ inverse, self.backend), state.R, state.V)

    def whole(self, state: AlsState) -> AlsState:
        """The state with the rows of all workers."""
        return state._replace(F=self.shard.gather_rows(state.F, self.backend))

    def own_part(self, state: AlsState) -> AlsState:
        """The part of a whole state that this worker keeps."""
        return state._replace(F=state.F[self.shard.entity_range])

    def visit(self, A: Matrix, R_old: Slices, V_old: Matrix) -> AlsState:
        """Visit each relation once: R_k, its loss, and its terms of the sums for the next A."""
        G = self.shard.gram(A, self.backend)
        basis = self._basis(G)
        F, E = self.backend.zeros(A[self.shard.entity_range].shape, A), np.zeros_like(G)
        objective, solved = 0.0, []
        laid_out = self.layout.prepare(A)
        for block in self.layout.blocks:
            loss, R = self._visit_block(block, laid_out, R_old[block.relations], basis, F, E)
            objective += loss + self.l2_relations * self.backend.dot(R, R)
            solved.append(R)
        objective += self.l2_entities * float(np.trace(G))
        V = V_old
        if self.D is not None:
            V, D, loss = self._update_attributes(self.backend.to_numpy(A), G, V_old)
            objective += loss + self.l2_attributes * float(np.sum(V**2))
            F += self.backend.from_numpy(D[self.shard.entity_range] @ V.T / self.w_max)
            E += V @ V.T / self.w_max
        return AlsState(A, _concatenated(solved), V, objective, F, E)

    def _basis(self, G: Matrix) -> GramBasis:
        g, U = np.linalg.eigh(G)
        return GramBasis(*(self.backend.from_numpy_float64(part) for part in (G, np.maximum(g, 0), U)))

    def _visit_block(
        self, block: RelationBlock, A: Matrix, R_old: Slices, basis: GramBasis, F: Matrix, E: Matrix
    ) -> tuple[float, Slices]:
        """The loss of a block of relations and their R; adds their terms to F and E."""
        weighted = block.weighted
        M, SA = block.project(A, None if weighted is None else self._target(weighted[0], A, R_old)[0])
        if self.alpha:
            M += self.alpha * (basis.G @ R_old @ basis.G)
        updates = [
            update_relations(M[part], basis.g, basis.U, self.l2_relations / self.w_max) for part in block.updates
        ]
        R = _concatenated([update.R for update in updates])
        loss = sum(update.squares.sum_of_squares for update in updates)
        for update in updates:
            E += self.backend.to_numpy(update.squares.normal)
        if weighted is None:
            loss += int(self.shard.facts_per_relation[block.relations].sum()) - 2 * self.backend.dot(M, R)
            block.add_right_side(F, A, R, SA, None, None)
            return loss, R
        by_subject, by_object = weighted
        del SA  # the target has moved: the majoriser touches at the newest point
        values, theta = self._target(by_subject, A, R)
        loss += by_subject.squared_error_change(theta)
        back = values if by_object is by_subject else self._target(by_object, A, R)[0]
        low_rank = self.alpha * self.backend.to_numpy(updates[0].squares.normal) if self.alpha else None
        block.add_right_side(F, A, R, None, (values, back), low_rank)
        return loss, R

    def _target(self, cells: WeightedCells, A: Matrix, R_old: Slices) -> tuple[Vector, Vector]:
        """Values of S at the listed cells, and θ_old there."""
        theta, share = cells.scores(A, R_old), cells.weights / self.w_max
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


def _concatenated(parts: list[Slices]) -> Slices:
    """One stack of matrices; several parts are NumPy arrays."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class RelationUpdate(NamedTuple):
    """Relation matrices, and what they add to the sums over all cells."""

    R: Slices
    squares: gram.Quadratic


def update_relations(M: Slices, g: Vector, U: Matrix, l2: float) -> RelationUpdate:
    """argmin_R Σ (z − a_iᵀ R a_j)² + l2 ‖R‖², from M = AᵀZA and AᵀA = U diag(g) Uᵀ.

    With l2 = 0 and A of deficient rank there are many minima; this is the one of least norm. In the basis U, where the
    Gram matrix is diagonal, the sums over relations are two products of long matrices.
    """
    scale = g[:, None] * g + l2
    usable = 1.0 * (scale > scale.max() * np.finfo(np.float64).eps * len(g))  # a product: arrays may be on a GPU
    S = _between(U.T, M, U) * (usable / (scale + (1 - usable)))
    k, r, _ = S.shape
    tall, wide = S.reshape(k * r, r), S.swapaxes(1, 2).reshape(k * r, r)  # S_k, and S_kᵀ, below each other
    weighted = (g[:, None] * S).reshape(k * r, r)
    turned = (g[:, None] * S.swapaxes(1, 2)).reshape(k * r, r)
    normal = U @ (turned.T @ wide + weighted.T @ tall) @ U.T  # Σ_k S_k g S_kᵀ + S_kᵀ g S_k
    sum_of_squares = float((weighted * tall * g).sum())
    return RelationUpdate(_between(U, S, U.T), gram.Quadratic(sum_of_squares, normal))


def _between(L: Matrix, X: Slices, R: Matrix) -> Slices:
    """L X_k R for every k, by two products of long matrices: faster than many small ones."""
    k, r, _ = X.shape
    turned = (X.swapaxes(1, 2).reshape(k * r, r) @ L.T).reshape(k, r, r)  # (L X_k)ᵀ
    return (turned.swapaxes(1, 2).reshape(k * r, r) @ R).reshape(k, r, r)  # contiguous
