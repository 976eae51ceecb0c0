"""Scores that facts would have if they were unobserved, without a refit for each.

A fact pulls the vectors of its two entities. With all other vectors and R held fixed, the vector of an entity is a
regression on its cells (`entity_regression`). Leaving out the cell with row v, slope g and curvature c of its loss
moves the minimum by one Newton step, g H₋⁻¹ v with H₋ = H − c v vᵀ, so the score changes by g h / (1 − c h) with
h = vᵀ H⁻¹ v. The changes through both ends add up.

H is that of the fit: the penalty, the listed cells, and the zeros; of the likelihood's zeros, one sample of cells that
all entities share.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from ..arrays import Matrix, Vector
from ..backend.blas_threads import one_blas_thread
from ..data.cell_keys import cell_keys
from ..data.facts import Facts
from ..data.undirected import has_relation
from ..progress import Progress, share_of
from .entity_regression import (
    EntityCells,
    LogisticSolver,
    PenaltyOnEntity,
    SquaredSolver,
    cells_of_entities,
    check_folds,
    rows_of_cells,
    solver,
)
from .factors import Factors

N_SAMPLED_ZEROS = 4096
MIN_REMAINING = 0.05  # least 1 − c h: what is left of a direction that the fact alone determines
ENTITIES_PER_REPORT = 64


def left_out_scores(factors: Factors, facts: Facts, progress: Progress, random_state: int = 0) -> Vector:
    """θ of each fact if it were unobserved, (n,); facts must have the ids of the factors. Self-loops keep their θ."""
    check_folds(factors)  # refuses models whose loss or penalty is another
    theta = np.array(factors.score(*facts.triples.T), np.float64)
    weights = [summand.weight for summand in factors.summands] or [1.0]
    change = np.zeros(len(theta))
    for number, (part, weight) in enumerate(zip(factors.parts, weights, strict=True)):
        report = share_of(progress, number, len(weights))
        change += weight * _changes_of_scores(part, facts, report, random_state)
    scale = 1.0 if factors.patterns is None else factors.patterns.scale[facts.triples[:, 1]]
    found: Vector = theta + scale * change
    return found


def _changes_of_scores(factors: Factors, facts: Facts, progress: Progress, random_state: int) -> Vector:
    """The change of the score of each fact, if it were unobserved, in a model that is no sum."""
    entities = np.unique(facts.triples[:, ::2])
    solve = solver(factors, 1.0, PenaltyOnEntity(factors.relation_matrices, factors.penalty))
    zeros = None if isinstance(solve, SquaredSolver) else _sampled_zeros(factors, random_state)
    change = np.zeros(len(facts))
    with one_blas_thread():
        solve.sum_all_cells(factors.A)
        for done, (entity, cells) in enumerate(zip(entities.tolist(), cells_of_entities(facts, entities), strict=True)):
            is_fact = cells.x > 0
            own = np.full(int(is_fact.sum()), entity)
            ends = np.stack([own, cells.relation[is_fact], cells.partner[is_fact]], axis=1)
            flipped = cells.role[is_fact] == 1
            ends[flipped] = ends[flipped][:, ::-1]
            position = np.searchsorted(facts.keys, cell_keys(ends, facts.n_entities))
            np.add.at(change, position, _changes(factors, solve, entity, cells, zeros)[is_fact])
            if done % ENTITIES_PER_REPORT == 0:
                progress(done, len(entities), "entities")
    return change


def _changes(
    factors: Factors, solve: SquaredSolver | LogisticSolver, entity: int, cells: EntityCells, zeros: _Zeros | None
) -> Vector:
    """The change of the score of each listed cell of an entity, if it were left out, through the entity's vector.

    A pair of an undirected relation is two cells of the same row, which are left out together.
    """
    a, [penalty] = factors.A[entity].astype(np.float64), solve.penalty(cells)
    hessian = penalty.slopes(a)[1]
    if isinstance(solve, SquaredSolver):
        loss = solve.loss(factors.A, entity, cells)
        V, cell_slopes = loss.V, loss.cell_slopes
        hessian = hessian + loss.slopes(a)[1]
        slope, curvature = cell_slopes(V @ a + solve.bias[cells.relation], cells.x, cells.w)
    else:
        V = rows_of_cells(factors.A, factors.relation_matrices, cells.role, cells.relation, cells.partner)
        p = expit(V @ a + solve.bias[cells.relation])
        slope, curvature = cells.w * (p - cells.x), cells.w * p * (1 - p)
        assert zeros is not None
        hessian = hessian + V.T @ (curvature[:, None] * V) + zeros.curvature(a)
    hessian = hessian + 1e-6 * np.trace(hessian) / len(a) * np.eye(len(a))
    h = np.einsum("nr,rn->n", V, cho_solve(cho_factor(hessian), V.T))
    h = h * (1 + has_relation(factors.undirected, cells.relation))
    return slope * h / np.maximum(1 - curvature * h, MIN_REMAINING)  # type: ignore[no-any-return]


class _Zeros:
    """Rows of a sample of cells, as those of any entity; each stands for several."""

    def __init__(self, V: Matrix, bias: Vector, stands_for: float):
        self.V, self.bias, self.stands_for = V.astype(np.float32), bias.astype(np.float32), stands_for

    def curvature(self, a: Vector) -> Matrix:
        """Their part of the Hessian of the logistic loss at a."""
        p = expit(self.V @ a.astype(np.float32) + self.bias)
        return (self.V.T @ ((self.stands_for * p * (1 - p))[:, None] * self.V)).astype(np.float64)  # type: ignore[no-any-return]


def _sampled_zeros(factors: Factors, random_state: int) -> _Zeros:
    n, k = len(factors.entities), len(factors.relations)
    rng, n_cells = np.random.default_rng(random_state), 2 * k * n
    chosen = np.arange(n_cells)
    if n_cells > N_SAMPLED_ZEROS:
        chosen = ((np.arange(N_SAMPLED_ZEROS) + rng.random()) * (n_cells / N_SAMPLED_ZEROS)).astype(np.int64)
    role, relation, partner = (chosen // n) % 2, chosen // (2 * n), chosen % n
    V = rows_of_cells(factors.A, factors.relation_matrices, role, relation, partner)
    return _Zeros(V, factors.bias[relation].astype(np.float64), n_cells / len(chosen))
