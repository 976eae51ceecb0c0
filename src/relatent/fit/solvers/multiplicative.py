"""Non-negative RESCAL by multiplicative updates.

Minimises Σ w (x − a_iᵀ R_k a_j)² over observed cells + λ_A ‖A‖² + λ_R Σ ‖R_k‖² + μ_A Σ A + μ_R Σ R, all of A and R ≥ 0.

    R_k ← R_k ∘ [Aᵀ (W∘X_k) A] / [Aᵀ (W∘Θ_k) A + λ_R R_k + μ_R / 2]
    A   ← A ∘ ( [Σ_k (W∘X_k) A R_kᵀ + (W∘X_k)ᵀ A R_k] / [Σ_k (W∘Θ_k) A R_kᵀ + (W∘Θ_k)ᵀ A R_k + λ_A A + μ_A / 2] )^p

W∘Θ is A R_k Aᵀ, whose products reduce to AᵀA, plus (w − 1) θ at the listed cells: a sweep is linear in the facts. The
update of R_k never raises the objective (Lee & Seung 2001). The update of A, which stands on both sides of R_k, may
raise it with p = 1: then it is undone and p halved, since roots of the step approach its starting point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ...arrays import Matrix, Slices
from ...backend import gram_matrix as gram
from ...cells.sparse.grouped import relation_groups
from ...data.facts import Facts

MIN_DENOMINATOR = 1e-12  # keeps quotients finite; with a numerator of 0 the factor stays 0
MIN_RELATIVE_ENTRY = 1e-9  # smaller entries, relative to the largest, become 0: denormal numbers are very slow
MAX_HALVINGS = 6  # of p before the solver gives up


class NonnegativeState(NamedTuple):
    """Factors, their objective, numerator and denominator of the next update of A, and its exponent."""

    A: Matrix  # (N, r)
    R: Slices  # (K, r, r), float64
    objective: float
    upper: Matrix  # (N, r) numerator
    lower: Matrix  # (N, r) denominator
    power: float
    stuck: int  # sweeps in a row without a lower objective


class Nonnegative:
    """The solver: one step is one sweep."""

    window = 10  # single multiplicative steps are too small to measure convergence

    def __init__(
        self,
        facts: Facts,
        rank: int,
        *,
        l2_entities: float,
        l2_relations: float,
        l1_entities: float,
        l1_relations: float,
        dtype: DTypeLike,
    ):
        self.dtype = np.dtype(dtype)
        self.groups = relation_groups(facts, rank, self.dtype)
        self.l2 = (float(l2_entities), float(l2_relations))
        self.l1 = (float(l1_entities), float(l1_relations))

    def start(self, A: Matrix, R: Slices) -> NonnegativeState:
        """The state before the first sweep: R already updated once."""
        return self.visit(np.ascontiguousarray(A, self.dtype), np.asarray(R, np.float64), 1.0)

    def finished(self, state: NonnegativeState) -> str | None:
        """When no power of the step lowers the objective."""
        return "no step lowers the objective at this precision" if state.stuck else None

    def step(self, state: NonnegativeState) -> NonnegativeState:
        """One sweep: A with the largest power that does not raise the objective, then every R_k."""
        ratio = state.upper / np.maximum(state.lower, MIN_DENOMINATOR)
        power = state.power
        for _ in range(MAX_HALVINGS):
            found = self.visit(_clear_tiny(state.A * ratio**power).astype(self.dtype), state.R, power)
            if found.objective <= state.objective:
                return found._replace(power=min(1.0, 1.5 * power))
            power /= 2
        return state._replace(stuck=state.stuck + 1)

    def visit(self, A: Matrix, R_old: Slices, power: float) -> NonnegativeState:
        """Visit each relation once: R_k, its loss, and its terms of the update of A."""
        (l2_A, l2_R), (l1_A, l1_R) = self.l2, self.l1
        G = gram.product(A, A)
        R = np.empty_like(R_old)
        upper, lower = np.zeros_like(A), A * l2_A + l1_A / 2
        objective = l2_A * float(np.trace(G)) + l1_A * float(A.sum(dtype=np.float64))
        for group in self.groups:
            k, cells = group.relations, group.by_subject
            x, w = cells.truth, cells.weights
            observed = w * x
            X_A = group.forward.times(A, observed)  # (W∘X_k) A
            theta = cells.scores(A, R_old[k])
            below = G @ R_old[k] @ G + gram.product(A, group.forward.times(A, (w - 1) * theta))
            R_k = _clear_tiny(
                R_old[k] * gram.product(A, X_A) / np.maximum(below + l2_R * R_old[k] + l1_R / 2, MIN_DENOMINATOR)
            )
            R[k] = R_k
            theta = cells.scores(A, R_k)
            wide = theta.astype(np.float64)
            sum_of_squares, normal = gram.quadratic(R_k, G)
            objective += sum_of_squares + float(np.sum(w * (x - wide) ** 2) - np.sum(wide * wide))
            objective += l2_R * float(np.sum(R_k**2)) + l1_R * float(R_k.sum())
            own = R_k.astype(self.dtype)
            own_t, known = own.transpose(0, 2, 1), (w - 1) * theta
            upper += (X_A @ own_t + group.backward.times(A, observed) @ own).sum(axis=0)
            lower += A @ normal.astype(self.dtype)
            lower += (group.forward.times(A, known) @ own_t + group.backward.times(A, known) @ own).sum(axis=0)
        return NonnegativeState(A, R, objective, upper, lower, power, 0)


def _clear_tiny(factor: Matrix) -> Matrix:
    """Set entries that are tiny relative to the largest to 0."""
    return np.where(factor < MIN_RELATIVE_ENTRY * factor.max(initial=0), 0, factor)
