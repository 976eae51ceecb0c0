"""RESCAL-ALS: least squares over all cells by alternating closed-form updates.

    Σ_k Σ_ij w_ijk (x_ijk − a_iᵀ R_k a_j)²  +  λ_A ‖A‖²  +  λ_R Σ_k ‖R_k‖²   [ + ‖D − A V‖² + λ_V ‖V‖² ]

Updates of Nickel, Tresp & Kriegel (2011, 2012), A on the right-hand side taken from the sweep before:

    R_k ← argmin, through the eigenvectors of AᵀA
    A   ← [Σ_k X_k A R_kᵀ + X_kᵀ A R_k + D Vᵀ] [Σ_k R_k G R_kᵀ + R_kᵀ G R_k + V Vᵀ + λ_A I]⁻¹

Each relation is visited once a sweep, for R_k, the loss and the sums of the next A. Weights and unobserved cells
(w = 0) go one way: majorisation. Where w ≤ w_max, Σ w (x − θ)² lies below w_max Σ (z − θ)² + const with
z = θ_old + (w / w_max)(x − θ_old), and touches it at θ_old. z is α·θ_old (low rank, α = 1 − 1/w_max) plus a sparse
part, so a sweep stays linear in the listed cells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...arrays import ROWS_PER_BLOCK, Matrix, Slices, Vector
from ...backend import gram_matrix as gram
from ...backend.numpy_backend import NumpyBackend
from ...backend.protocol import Backend
from ...cells.sparse import streamed as stream
from ...cells.sparse.grouped import AT_ONCE, Group, listed
from ...cells.sparse.streamed import Stream
from ...data.facts import Facts
from ...data.shard import Shard

MANY = 1 << 20  # facts: from here on what is gathered outweighs what a call costs

Basis = tuple[Vector, Matrix]  # g and U of AᵀA = U diag(g) Uᵀ
Visited = tuple[Slices, Matrix, Matrix, float]  # R, F, E and the objective without A's penalty


class AlsState(NamedTuple):
    """A, the R and V that are best for it, their objective, and the sums that give the next A."""

    A: Matrix  # (N, r)
    R: Slices  # (K, r, r), float64
    V: Matrix  # (r, M), float64; M = 0 without attributes
    objective: float
    F: Matrix  # (N, r): Σ_k Z_k A R_kᵀ + Z_kᵀ A R_k + D Vᵀ; of several workers each has the rows it owns
    E: Matrix  # (r, r): Σ_k R_k G R_kᵀ + R_kᵀ G R_k + V Vᵀ


class Als:
    """The solver: a step is one sweep."""

    window = 1

    def __init__(
        self,
        facts: Facts | Shard,
        rank: int,
        *,
        l2_entities: float,
        l2_relations: float,
        l2_attributes: float,
        dtype: Any,
    ):
        self._describe(Shard.of(facts), l2_entities, l2_relations, l2_attributes)
        shard, self.dtype = Shard.of(facts), np.dtype(dtype)
        self.backend: Backend = NumpyBackend(dtype)
        self.stream = Stream(shard, rank, self.dtype) if _streams(shard, rank) else None
        self.groups = listed(shard, rank, self.dtype) if self.stream is None else []

    def _describe(self, shard: Shard, *lambdas: float) -> None:
        """What sweeps need to know of the facts beside their cells."""
        self.lambdas = lambdas
        self.workers, self.own = shard.workers, shard.entity_range
        self.n_relations, self.counts = shard.n_relations, shard.facts_per_relation
        self.w_max = max(1.0, shard.max_weight)
        self.exact = shard.has_uniform_weights
        self.D, weights = shard.facts.attributes, shard.facts.weights
        known = shard.n_facts if weights is None else shard.workers.sum_float(float(weights.sum()))
        self.nothing = known + (0.0 if self.D is None else float(np.nansum(self.D**2)))  # objective of zero factors

    def start(self, A: Matrix, R: Slices | None = None) -> AlsState:
        """The state before the first sweep: the best R for the given A. `R` helps only where cells are unobserved."""
        r = A.shape[1]
        R = np.zeros((self.n_relations, r, r)) if R is None else R.astype(np.float64)
        V = np.zeros((r, 0 if self.D is None else self.D.shape[1]))
        A, R = self.backend.from_numpy(A), self.backend.from_numpy_float64(R)
        return self.visit(self.workers.broadcast(A), self.workers.broadcast(R), V)

    def finished(self, state: AlsState) -> str | None:
        """Never: the loop judges by the change of the objective."""
        return None

    def step(self, state: AlsState) -> AlsState:
        """One sweep: A from the sums of the last visit, then every R_k from A."""
        A = np.empty_like(state.A)
        np.matmul(state.F, gram.inverse(state.E, self.lambdas[0] / self.w_max).astype(self.dtype), out=A[self.own])
        return self.visit(self.workers.gather_rows(A), state.R, state.V)

    def whole(self, state: AlsState) -> AlsState:
        """The state with the rows of all workers."""
        F = self.backend.zeros(state.A.shape, state.A)
        F[self.own] = state.F
        return state._replace(F=self.workers.gather_rows(F))

    def own_part(self, state: AlsState) -> AlsState:
        """Of a whole state, what this worker goes on from."""
        return state._replace(F=state.F[self.own])

    def visit(self, A: Matrix, R_old: Slices, V_old: Matrix) -> AlsState:
        """Each relation once: R_k, its loss, and its share of the sums for the next A."""
        w_max = self.w_max
        l2_entities, _, l2_attributes = self.lambdas
        G = self.workers.sum(gram.product(A[self.own], A[self.own]))
        g, U = np.linalg.eigh(G)
        basis = (np.maximum(g, 0), U)
        if self.stream is None:
            R, F, E, objective = self._visit_groups(A, G, basis, R_old)
        else:
            R, F, E, objective = self._visit_stream(A, G, basis, self.stream)
        objective += l2_entities * float(np.trace(G))
        V = V_old
        if self.D is not None:
            V, D, loss = self._attributes(A, G, V_old)
            objective += loss + l2_attributes * float(np.sum(V**2))
            F += (D[self.own] @ V.T / w_max).astype(self.dtype)
            E += V @ V.T / w_max
        return AlsState(A, R, V, objective, F, E)

    def _visit_stream(self, A: Matrix, G: Matrix, basis: Basis, facts: Stream) -> Visited:
        """One relation after the other, where each is large."""
        l2_relations, r = self.lambdas[1], A.shape[1]
        wide = facts.padded(A)
        F, E, R, objective = np.zeros_like(A[self.own]), np.zeros_like(G), np.empty((self.n_relations, r, r)), 0.0
        for group in facts.groups:
            room = facts.room(group)
            M = self.workers.sum(np.stack([facts.project(k, wide, Y) for k, Y in zip(group, room, strict=True)]))
            for k, M_k in zip(group, M, strict=True):
                R[k] = update_relations(M_k, *basis, l2_relations)
                theta_squared, normal = gram.quadratic(R[k : k + 1], G)
                loss = self.counts[k] - 2 * np.sum(M_k * R[k]) + theta_squared
                objective += float(loss + l2_relations * np.sum(R[k] ** 2))
                E += normal
            facts.pull(group, wide, room, R[group], F)
        return R, F, E, objective

    def _visit_groups(self, A: Matrix, G: Matrix, basis: Basis, R_old: Slices) -> Visited:
        """Several small relations at once."""
        w_max, l2_relations = self.w_max, self.lambdas[1]
        R = np.empty_like(R_old)
        F, E, objective = np.zeros_like(A[self.own], self.dtype), np.zeros_like(G), 0.0
        for group in self.groups:
            values, _ = self._target(group, A, R_old[group.relations])
            Y = group.forward.times(A, values)
            M = self.workers.sum(gram.product(A[self.own], Y))
            if self._alpha:
                M += self._alpha * (G @ R_old[group.relations] @ G)
            R_k = update_relations(M, *basis, l2_relations / w_max)
            R[group.relations] = R_k
            theta_squared, normal = gram.quadratic(R_k, G)
            if self.exact:
                loss = int(self.counts[group.relations].sum()) - 2 * float(np.sum(M * R_k)) + theta_squared
            else:
                values, theta = self._target(group, A, R_k)  # the majoriser touches at the newest point
                loss = theta_squared + self.workers.sum_float(self._correction(group, theta))
            objective += loss + l2_relations * float(np.sum(R_k**2))
            Y = Y if self.exact else group.forward.times(A, values)
            F += self._right_side(group, A, R_k, normal, Y, values)
            E += normal
        return R, F, E, objective

    @property
    def _alpha(self) -> float:
        """The share of θ_old in the target of an ordinary zero."""
        return 1 - 1 / self.w_max

    def _target(self, group: Group, A: Matrix, R_old: Slices) -> tuple[Vector, Vector]:
        """Values at the listed cells of the sparse part of Z = α A R Aᵀ + S, and θ there."""
        if self.exact:
            return group.x, group.x
        theta = group.scores(A, R_old)
        share = group.w / self.w_max
        return (share * group.x + (1 - share - self.dtype.type(self._alpha)) * theta).astype(self.dtype), theta

    def _correction(self, group: Group, theta: Vector) -> float:
        """Σ over listed cells of w (x − θ)² − θ²: what they add to the sum of θ² over all cells."""
        t, x, w = theta.astype(np.float64), group.x.astype(np.float64), group.w.astype(np.float64)
        return float(np.sum(w * (x - t) ** 2) - np.sum(t * t))

    def _right_side(self, group: Group, A: Matrix, R_k: Slices, normal: Matrix, Y: Matrix, values: Vector) -> Matrix:
        """Σ_k Z_k A R_kᵀ + Z_kᵀ A R_k over the group."""
        R_own = R_k.astype(self.dtype)
        if group.mirror is not None:
            values, _ = self._target(group.mirror, A, R_k.transpose(0, 2, 1))
        F = np.matmul(Y, R_own.transpose(0, 2, 1)) + np.matmul(group.backward.times(A, values), R_own)
        total: Matrix = F.sum(axis=0)
        if self._alpha:
            total = total + A[self.own] @ (self._alpha * normal).astype(self.dtype)
        return total

    def _attributes(self, A: Matrix, G: Matrix, V_old: Matrix) -> tuple[Matrix, Matrix, float]:
        """V, the attributes with unknown values filled from A V, and the loss on the known ones."""
        assert self.D is not None
        known = ~np.isnan(self.D)
        wide = A.astype(np.float64)
        D = np.where(known, self.D, wide @ V_old)
        V = gram.inverse(G, self.lambdas[2]) @ (wide.T @ D)
        fitted = wide @ V
        loss = float(np.sum((self.D[known] - fitted[known]) ** 2))
        return V, np.where(known, self.D, fitted), loss


def needs(facts: Facts, rank: int, dtype: Any) -> int:
    """Bytes that sweeps take beyond the facts and the A they start from, about: nothing is allocated to find out."""
    n, k, item = facts.n_entities, facts.n_relations, int(np.dtype(dtype).itemsize)
    states = item * 4 * n * rank + 8 * 3 * k * rank * rank  # A, F and R before and after a sweep
    if _streams(Shard.of(facts), rank):
        return states + stream.needs(facts, rank, dtype) + 16 * min(n, ROWS_PER_BLOCK) * rank
    together = min(max(1, AT_ONCE // (n * rank)), k)
    cells = len(facts) + len(facts.unobserved)
    laid_out = cells * (40 + 2 * item) + 16 * n * k  # ids, x, w; columns and places both ways; starts
    return states + laid_out + cells * 34 * together // k + 4 * item * together * n * rank


def _streams(shard: Shard, rank: int) -> bool:
    """Whether the facts, or the relations, are large enough for relations to be visited one by one."""
    return shard.has_uniform_weights and (2 * shard.n_entities * rank > AT_ONCE or shard.n_facts > MANY)


def update_relations(M: Slices, g: Vector, U: Matrix, l2: float) -> Slices:
    """argmin_R Σ (z − a_iᵀ R a_j)² + l2 ‖R‖², from M = AᵀZA and AᵀA = U diag(g) Uᵀ.

    With l2 = 0 and A of deficient rank there are many minima; the one of least norm is taken.
    """
    scale = g[:, None] * g + l2
    usable = 1.0 * (scale > scale.max() * np.finfo(np.float64).eps * len(g))  # arrays may be on a GPU
    return U @ (U.T @ M @ U * usable / (scale + (1 - usable))) @ U.T  # type: ignore[no-any-return]
