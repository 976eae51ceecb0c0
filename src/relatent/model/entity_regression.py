"""The vector of one entity as a regression on its cells, with all other vectors and every R_k held fixed.

As a subject of relation k with entity j the score is aᵀ (R_k a_j) + b_k, as an object it is aᵀ (R_kᵀ a_j) + b_k: each
cell is a row v with θ = aᵀ v + b.

    least squares      min Σ w (x − θ)²  + penalty(a)              Σ over all cells is closed in G = AᵀA
    likelihood         min Σ w [softplus(θ) − x θ] + penalty(a)    convex; Newton's method

Penalties of the fit, for one entity: L2 λ |a|²; DURA weight · Σ over its facts |a|² + |a R_k|² as subject and
|a|² + |R_k a|² as object (n facts of one role and relation count n**frequency_power times); N3 weight · (number of its
facts) · ‖a‖₃³, of the moduli in a complex structure. To the penalty the distribution of the model's entities may be
added (`entity_prior`), as the negative logarithm of its density.

Unlisted cells are zeros of weight `others`. Least squares sums them in closed form. The likelihood sums them one by
one, or, if they are many, a systematic sample in which each stands for several, plus those that look likely one by one.
The cell of an entity with itself is left out: its score is quadratic in a.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from ..arrays import Ids, Matrix, Slices, Vector
from ..backend import gram_matrix as gram
from ..backend.blas_threads import one_blas_thread
from ..data.facts import Facts
from ..errors import InputError
from .entity_objective import LogisticLoss, SquaredLoss, VectorPenalty, minimise, newton
from .entity_prior import EntityPrior
from .links import Link, LogisticLink, SmoothLink
from .objective_description import ObjectiveTerm
from .patterns import check_has_vectors
from .relation_matrices import RelationMatrices
from .structure import COMPLEX

FOLD_IN_LOSSES = ("squared", "logistic")
FOLD_IN_PENALTIES = ("l2", "dura", "n3")
DEFAULT_PENALTY = ObjectiveTerm("l2", {"entities": 1.0})  # of factors that do not say what they were fitted with
MAX_ZEROS = 1 << 15  # zeros summed one by one; if there are more, the size of the sample
MAX_LIKELY = 1 << 12  # zeros with the highest scores that are summed one by one beside a sample


class Model(Protocol):
    """What the regression needs of a model."""

    @property
    def A(self) -> Matrix:
        """Entity vectors, (N, r)."""

    @property
    def R(self) -> Slices:
        """Relation matrices, (K, r, r)."""

    @property
    def relation_matrices(self) -> RelationMatrices:
        """Relation matrices by the parameters of their structure."""

    @property
    def bias(self) -> Vector:
        """One bias per relation, (K,)."""

    @property
    def link(self) -> Link:
        """From θ to a probability."""

    @property
    def loss(self) -> ObjectiveTerm | None:
        """The loss of the fit, if known."""

    @property
    def penalty(self) -> ObjectiveTerm | None:
        """The penalty of the fit, if known."""

    @property
    def parts(self) -> Sequence[Model]:
        """The models of a sum, each of which was fitted by itself; of another model, itself."""


class EntityCells(NamedTuple):
    """The listed cells of one entity: facts and unobserved cells."""

    role: NDArray[np.int64]  # (n,) 0 where the entity is the subject, 1 where it is the object
    relation: Ids  # (n,)
    partner: Ids  # (n,) the entity at the other end
    x: Vector  # (n,) 1 for facts
    w: Vector  # (n,) 0 for unobserved cells


def cells_of_entities(facts: Facts, entities: Ids) -> list[EntityCells]:
    """The listed cells of each entity, as subject and then as object, without those with itself."""
    triples = np.concatenate([facts.triples, facts.unobserved])
    proper = triples[:, 0] != triples[:, 2]
    s, k, o = triples[proper].T
    x = np.repeat([1.0, 0.0], [len(facts), len(facts.unobserved)])[proper]
    w = np.concatenate([facts.confidences, np.zeros(len(facts.unobserved))])[proper]
    owner, partner, role = np.concatenate([s, o]), np.concatenate([o, s]), np.repeat([0, 1], len(s))
    order = np.argsort(owner, kind="stable")
    starts, stops = (np.searchsorted(owner, entities, side, sorter=order) for side in ("left", "right"))
    columns = (role, np.tile(k, 2), partner, np.tile(x, 2), np.tile(w, 2))
    rows = [order[start:stop] for start, stop in zip(starts, stops, strict=True)]
    return [EntityCells(*(column[own] for column in columns)) for own in rows]


# --- what the factors were fitted by


def loss_name(model: Model) -> str:
    """The loss of the fit; where it is unknown, the loss whose link the factors have."""
    check_has_vectors(model.A)
    by_link = {LogisticLink.name: "logistic", SmoothLink.name: "squared"}
    loss = by_link.get(model.link.name) if model.loss is None else model.loss.name
    if loss not in FOLD_IN_LOSSES:
        what = f"a {loss} loss" if loss else f"a {model.link.name} link"
        raise InputError(
            "folding in and explanations need a model fitted by least squares or by the likelihood, with --model als "
            f"or logit; this one has {what}"
        )
    if model.penalty is not None and model.penalty.name not in FOLD_IN_PENALTIES:
        raise InputError(
            "folding in and explanations need a model with an L2, DURA or N3 penalty, as --model als or logit has; "
            f"this one has the penalty {model.penalty.name!r}"
        )
    return loss


def check_folds(model: Model) -> None:
    """Raise InputError if the loss or the penalty of a part is none that folding in and explanations can handle."""
    for part in model.parts:
        loss_name(part)


def can_fold(model: Model) -> bool:
    """Whether the factors have a loss and a penalty that folding in and explanations can handle."""
    try:
        check_folds(model)
    except InputError:
        return False
    return True


def _number(penalty: ObjectiveTerm, parameter: str, default: float | None = None) -> float:
    """A parameter of a penalty, checked."""
    value = penalty.parameters.get(parameter, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= sys.float_info.max:
        name, shown = {"entities": "l2_entities"}.get(parameter, parameter), repr(value)[:80]
        raise InputError(f"{name} must be a finite number of at least 0, got {shown}")
    return float(value)


# --- penalties on one vector


class PenaltyOnEntity:
    """The penalty on an entity with given cells: that of the fit, and the prior of each group of entities if given."""

    def __init__(
        self, R: RelationMatrices, penalty: ObjectiveTerm | None, prior: EntityPrior | None = None, scale: float = 1.0
    ):
        self.R, self.penalty = R, penalty or DEFAULT_PENALTY
        self.prior, self.scale = prior, scale  # scale: the value of one unit of log-density in units of the loss
        _number(self.penalty, "entities" if self.penalty.name == "l2" else "weight")

    def __call__(self, cells: EntityCells) -> list[VectorPenalty]:
        """One penalty for each group of the prior, a single one without it."""
        with np.errstate(over="ignore", invalid="ignore"):
            Q, cubic = self._of_fit(cells)
        if not np.isfinite([cubic, Q.sum()]).all():
            raise InputError(
                f"the penalty of the factors is too large: {str(self.penalty)[:80]}; fit with a smaller one"
            )
        of_moduli = bool(cubic) and self.R.structure == COMPLEX
        if self.prior is None:
            return [VectorPenalty(Q, cubic, np.zeros_like(Q), np.zeros(len(Q)), 0.0, of_moduli)]
        P = self.scale / 2 * self.prior.precision
        return [
            VectorPenalty(Q, cubic, P, mean, -self.scale * float(log_weight), of_moduli)
            for mean, log_weight in zip(self.prior.means, self.prior.log_weights, strict=True)
        ]

    def _of_fit(self, cells: EntityCells) -> tuple[Matrix, float]:
        """Q and the cubic weight of the fit's penalty."""
        r, weights = self.R.shape[1], cells.w * cells.x
        if self.penalty.name == "l2":
            return _number(self.penalty, "entities") * np.eye(r), 0.0
        weight = _number(self.penalty, "weight")
        if self.penalty.name == "n3":
            return np.zeros((r, r)), weight * float(weights.sum())
        codes = 2 * cells.relation + cells.role
        totals = np.bincount(codes, weights, minlength=2 * len(self.R)).astype(np.float64)  # of no cells: integers
        totals[totals > 0] **= _number(self.penalty, "frequency_power", 1.0)
        Q: Matrix = float(totals.sum()) * np.eye(r)
        for code in np.flatnonzero(totals):
            R_k = self.R[int(code // 2)].astype(np.float64)
            Q += totals[code] * (R_k.T @ R_k if code % 2 else R_k @ R_k.T)
        return weight * Q, 0.0


def noise_variance(model: Model, prior: EntityPrior) -> float:
    """The residual variance of least squares, mean (x − θ)² over all cells, from the moments of the entities.

    x² = x, mean x ≈ mean θ, and at the minimum Σ (x − θ) θ = λ_A ‖A‖² / 2; so it is mean θ (1 − θ) − λ_A ‖A‖² / n.
    """
    weights, R, b = np.exp(prior.log_weights), model.R.astype(np.float64), model.bias.astype(np.float64)
    mean = weights @ prior.means
    moments = np.linalg.inv(prior.precision) + (prior.means * weights[:, None]).T @ prior.means
    means = np.einsum("i,kij,j->k", mean, R, mean, optimize=True)
    squares = sum(gram.quadratic(R_k[None], moments).sum_of_squares for R_k in R) + float(b @ (2 * means + b))
    l2 = _number(model.penalty, "entities") if model.penalty is not None and model.penalty.name == "l2" else 0.0
    shrinkage = l2 * float(np.trace(moments)) / len(model.A)
    return float(np.clip(np.mean(means + b) - (squares + shrinkage) / len(R), 1e-6, 0.25))


# --- solvers: the loss of an entity's cells, and its minimum


class SquaredSolver:
    """Least squares: one r × r solve per entity; the sum over all cells is computed once."""

    def __init__(self, model: Model, others: float, penalty: PenaltyOnEntity):
        self.matrices, self.bias = model.relation_matrices, model.bias.astype(np.float64)
        self.R = self.matrices.astype(np.float64).expanded()
        self.others, self.penalty = others, penalty
        r = self.R.shape[1]
        self.E: Matrix = np.zeros((r, r))
        self.f: Vector = np.zeros(r)

    def sum_all_cells(self, A: Matrix, *, leave_out: int | None = None) -> None:
        """Σ over all cells of v vᵀ and of −b v, without the cells of one entity if wanted."""
        if self.others:
            own = np.zeros(A.shape[1]) if leave_out is None else A[leave_out].astype(np.float64)
            G, total = gram.product(A, A) - np.outer(own, own), A.sum(axis=0, dtype=np.float64) - own
            normals = (gram.quadratic(R_k[None], G).normal for R_k in self.R)
            self.E = self.others * sum(normals, np.zeros_like(self.E))
            self.f = -self.others * (self.bias @ (self.R @ total + self.R.transpose(0, 2, 1) @ total))

    def loss(self, A: Matrix, i: int, cells: EntityCells, a: Vector | None = None) -> SquaredLoss:
        """The loss of the cells of entity i."""
        V, b = rows_of_cells(A, self.matrices, cells.role, cells.relation, cells.partner), self.bias[cells.relation]
        E = self.E + V.T @ ((cells.w - self.others)[:, None] * V)  # listed cells are not among the others
        return SquaredLoss(E, self.f + V.T @ (cells.w * (cells.x - b) + self.others * b), V, cells.w)

    def __call__(self, A: Matrix, i: int, cells: EntityCells) -> Vector:
        """The vector of entity i."""
        return minimise(self.loss(A, i, cells), self.penalty(cells), np.zeros(A.shape[1]))[0]


class LogisticSolver:
    """The likelihood: Newton's method per entity, on all of its cells or a sample of them."""

    def __init__(self, model: Model, others: float, penalty: PenaltyOnEntity, random_state: int):
        self.R, self.bias = model.relation_matrices, model.bias.astype(np.float64)
        self.others, self.penalty, self.random_state = others, penalty, random_state

    def sum_all_cells(self, A: Matrix, *, leave_out: int | None = None) -> None:
        """Entities share no sums."""

    def __call__(self, A: Matrix, i: int, cells: EntityCells) -> Vector:
        """The vector of entity i."""
        penalties = self.penalty(cells)
        a, group = minimise(self.loss(A, i, cells), penalties, np.zeros(A.shape[1]))
        if self._sums_every_cell(A):
            return a
        return newton(self.loss(A, i, cells, a), penalties[group], a)

    def _sums_every_cell(self, A: Matrix) -> bool:
        return not self.others or 2 * len(self.R) * len(A) <= MAX_ZEROS

    def loss(self, A: Matrix, i: int, cells: EntityCells, a: Vector | None = None) -> LogisticLoss:
        """The loss of the cells of entity i: listed cells first, then zeros; a sample includes those likely under a."""
        role, relation, partner, x, w = cells
        listed = LogisticLoss(rows_of_cells(A, self.R, role, relation, partner), self.bias[relation], x, w)
        if not self.others:
            return listed
        n_cells = 2 * len(self.R) * len(A)
        taken = np.union1d(
            (2 * relation + role) * np.int64(len(A)) + partner,
            np.arange(2 * len(self.R)) * len(A) + i,  # the cells with itself
        )
        if self._sums_every_cell(A):
            return _concatenated(listed, self._zeros(A, np.setdiff1d(np.arange(n_cells), taken), 1.0))
        rng = np.random.default_rng([self.random_state, i])
        spacing = n_cells / MAX_ZEROS
        sample = ((np.arange(MAX_ZEROS) + rng.random()) * spacing).astype(np.int64)
        sample = np.setdiff1d(np.minimum(sample, n_cells - 1), taken)
        if a is None:
            return _concatenated(listed, self._zeros(A, sample, spacing))
        theta = self._all_scores(A, a)
        theta[taken] = -np.inf
        likely = np.sort(np.argpartition(-theta, MAX_LIKELY)[:MAX_LIKELY])
        likely = likely[np.isfinite(theta[likely])]
        rest = np.setdiff1d(sample, likely)
        return _concatenated(listed, self._zeros(A, likely, 1.0), self._zeros(A, rest, spacing))

    def _zeros(self, A: Matrix, cells: NDArray[np.int64], stands_for: float) -> LogisticLoss:
        """Rows of zeros with these cell numbers, (2 k + role) N + partner."""
        role, relation, partner = (cells // len(A)) % 2, cells // (2 * len(A)), cells % len(A)
        weights = np.full(len(cells), self.others * stands_for)
        V = rows_of_cells(A, self.R, role, relation, partner)
        return LogisticLoss(V, self.bias[relation], np.zeros(len(cells)), weights)

    def _all_scores(self, A: Matrix, a: Vector) -> Vector:
        """θ of every cell of an entity with the vector a, in the order of cell numbers."""
        rows = [self.R.times(a[None], k, back=back)[0] for k in range(len(self.R)) for back in (False, True)]
        theta = np.asarray(rows, A.dtype) @ A.T + np.repeat(self.bias, 2)[:, None].astype(A.dtype)
        return theta.reshape(-1)


def solver(
    model: Model, others: float, penalty: PenaltyOnEntity, random_state: int = 0
) -> SquaredSolver | LogisticSolver:
    """The solver for the loss of the factors."""
    if loss_name(model) == "squared":
        return SquaredSolver(model, others, penalty)
    return LogisticSolver(model, others, penalty, random_state)


def rows_of_cells(A: Matrix, R: RelationMatrices, role: NDArray[np.int64], relation: Ids, partner: Ids) -> Matrix:
    """v of each cell: R_k a_j where the entity is the subject, R_kᵀ a_j where it is the object; float64."""
    V = np.empty((len(role), A.shape[1]))
    codes = 2 * relation + role
    for code in np.unique(codes):
        here = codes == code
        V[here] = R.times(A[partner[here]].astype(np.float64), int(code // 2), back=code % 2 == 0)
    return V


def _concatenated(*parts: LogisticLoss) -> LogisticLoss:
    return LogisticLoss(*(np.concatenate(columns) for columns in zip(*(part[:4] for part in parts), strict=True)))


# --- uses other than folding in


class FactInfluences(NamedTuple):
    """Facts of an entity, and what aᵀ `along` depends on through each of them."""

    cells: EntityCells  # (n,)
    lost: Vector  # (n,) the decrease if the fact were false
    through: Matrix  # (n, r) the derivative by the vector of the fact's other entity


def fact_influences(
    model: Model, entity: int, cells: EntityCells, along: Vector, most: int, with_entity: int | None = None
) -> FactInfluences:
    """The facts of an entity (with another one if given) that add most to aᵀ `along`, and what each adds.

    The fit's own objective is solved again as if each of the candidates were false. Candidates are chosen by the
    first-order change of a, w H⁻¹ v, with H the Hessian of the objective. In a sum of models, that of each part.
    """
    check_folds(model)
    ends = np.cumsum([part.A.shape[1] for part in model.parts])[:-1]
    with one_blas_thread():
        own = list(zip(model.parts, np.split(along.astype(np.float64), ends), strict=True))
        parts = [_Influence(part, entity, cells, share) for part, share in own]
        first_order = sum(part.first_order() for part in parts)
        candidate = (cells.x > 0) & ((cells.partner == with_entity) if with_entity is not None else True)
        order = np.argsort(-np.where(candidate, first_order, -np.inf), kind="stable")
        strongest = order[: min(most, int(candidate.sum()))]
        lost = [sum(part.lost(cell) for part in parts) for cell in strongest.tolist()]
        role, relation, partner, x, w = cells
        chosen = EntityCells(role[strongest], relation[strongest], partner[strongest], x[strongest], w[strongest])
        through = np.hstack([part.through(strongest, chosen) for part in parts])
    return FactInfluences(chosen, np.array(lost), through)


class _Influence:
    """What the facts of an entity change in aᵀ `along`, in a model that is no sum."""

    def __init__(self, model: Model, entity: int, cells: EntityCells, along: Vector):
        self.model, self.cells, self.along = model, cells, along
        self.solve = solver(model, 1.0, PenaltyOnEntity(model.relation_matrices, model.penalty))
        A, a = model.A, model.A[entity].astype(np.float64)
        self.solve.sum_all_cells(A, leave_out=entity)
        loss, (penalty,) = self.solve.loss(A, entity, cells, a), self.solve.penalty(cells)
        self.best, _ = minimise(loss, [penalty], a)
        self.loss = loss.near(self.best, len(cells.x))
        hessian = self.loss.slopes(self.best)[1] + penalty.slopes(self.best)[1]
        self.step: Vector = gram.inverse(hessian, 0.0) @ along

    def first_order(self) -> Vector:
        """The decrease if each fact were false, roughly."""
        found: Vector = self.cells.w * (self.loss.V[: len(self.cells.x)] @ self.step)
        return found

    def lost(self, cell: int) -> float:
        """The decrease if a fact were false."""
        x = np.where(np.arange(len(self.cells.x)) == cell, 0.0, self.cells.x)
        without, _ = minimise(self.loss.without(cell), self.solve.penalty(self.cells._replace(x=x)), self.best)
        return float((self.best - without) @ self.along)

    def through(self, strongest: Ids, chosen: EntityCells) -> Matrix:
        """The derivative by the vector of each fact's other entity."""
        V = self.loss.V[strongest]
        theta = V @ self.best + self.model.bias[chosen.relation]
        slope, curvature = self.loss.cell_slopes(theta, chosen.x, chosen.w)
        other_end = (1 - chosen.role, chosen.relation, np.zeros_like(chosen.relation))
        along_best, along_step = (
            rows_of_cells(vector[None], self.model.relation_matrices, *other_end) for vector in (self.best, self.step)
        )
        found: Matrix = -(slope[:, None] * along_step + (curvature * (V @ self.step))[:, None] * along_best)
        return found


def least_squares_vectors(model: Model, cells: Sequence[EntityCells], others: float) -> Matrix:
    """A vector for each list of cells by least squares, whatever loss the factors were fitted with, and without bias.

    The penalty is λ |a|² with the λ of an L2 fit, and λ = 1 for others, whose penalties have the scale of their loss.
    In a sum of models, each part has such vectors of its own.
    """
    if len(model.parts) > 1:
        return np.hstack([least_squares_vectors(part, cells, others) for part in model.parts])
    known = model.penalty if model.penalty is not None and model.penalty.name == "l2" else DEFAULT_PENALTY
    l2 = max(_number(known, "entities"), 1e-6)
    solve = SquaredSolver(model, others, PenaltyOnEntity(model.relation_matrices, known))
    solve.bias = np.zeros_like(solve.bias)
    vectors = np.zeros((len(cells), model.A.shape[1]))
    with one_blas_thread():
        solve.sum_all_cells(model.A)
        for row, listed in zip(vectors, cells, strict=True):
            loss = solve.loss(model.A, -1, listed)
            # Thousands of positive definite systems: Cholesky takes less than half the time of an eigendecomposition.
            row[:] = cho_solve(cho_factor(loss.E + l2 * np.eye(len(loss.E))), loss.f)
    return vectors
