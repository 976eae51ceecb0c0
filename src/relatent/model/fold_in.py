"""Folding in: the vector of a new entity from a handful of facts, while all others and every R_k stay as they are.

To its cells an entity's own vector a is a plain regression. As a subject of relation k beside entity j the score is
aᵀ (R_k a_j) + b_k, as an object it is aᵀ (R_kᵀ a_j) + b_k: each cell is a row v with θ = aᵀ v + b.

    least squares      (Σ w v vᵀ + λ I) a = Σ w (x − b) v        one r × r solve; Σ over all cells from G = AᵀA
    likelihood         min Σ w [softplus(θ) − x θ] + λ ‖a‖²      convex; Newton's method

Cells that nobody lists are zeros of weight `others`, as in the fit. For the likelihood they are summed one by one, or,
where that would be many, from a draw in which each stands for several, and those which then look likely one by one.
The cell between an entity and itself is left out: there the score is no line in a.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from ..arrays import Ids, Matrix, Slices, Vector
from ..backend import gram_matrix as gram
from ..backend.blas_threads import one_blas_thread
from ..data.facts import Facts
from ..errors import InputError
from . import links

if TYPE_CHECKING:
    from .factors import Factors

FOLD_IN_LOSSES = ("squared", "logistic")
DEFAULT_L2 = 1.0  # where the factors do not say what they were fitted with
ROUNDS = 4  # through entities that are joined by facts and folded in together
ROWS = 1 << 15  # zeros summed one by one; of more, as many are drawn
LIKELY = 1 << 12  # zeros that are listed after a first look
STEPS = 50  # of Newton's method
HALVINGS = 30
TOLERANCE = 1e-9  # what Newton's method expects to gain by another step, relative to the loss


class Listed(NamedTuple):
    """Cells of one entity whose truth, or whose not being known, was given."""

    way: NDArray[np.int64]  # (n,) 0 where it is the subject, 1 where it is the object
    relation: Ids  # (n,)
    partner: Ids  # (n,) the entity at the other end
    x: Vector  # (n,) 1 for facts
    w: Vector  # (n,) 0 where unobserved


class Rows(NamedTuple):
    """A regression: θ = V a + b against x."""

    V: Matrix  # (n, r)
    b: Vector  # (n,)
    x: Vector  # (n,)
    w: Vector  # (n,)


def fold_in(
    factors: Factors,
    facts: Facts,
    *,
    entities: Sequence[str] | None = None,
    others: float = 1.0,
    l2_entities: float | None = None,
    random_state: int = 0,
) -> Factors:
    """New factors with vectors for the entities that `facts` brings, without fitting again.

    All other vectors and the relations stay as they are. For least squares and the logistic likelihood.

    Parameters
    ----------
    facts : Facts
        All that is known of those entities, by name; relations must be the model's.
    entities : sequence of str or None
        Whose vectors to find. None: those the model does not know. A known entity gets a new vector from these
        facts alone, so give its old facts as well.
    others : float
        How much a cell that is not listed counts as false: 1 as in a fit, 0 not at all, as for an entity of which
        a few facts are known and the rest is open.
    l2_entities : float or None
        The penalty on the new vectors; None: that of the fit.
    random_state : int
        For the draw of zeros where there are very many.
    """
    if not isinstance(facts, Facts):
        raise InputError(f"fold_in takes Facts, got {type(facts).__name__}; see relatent.read and Facts.from_arrays")
    if not 0 <= others <= 1:
        raise InputError(f"others must be between 0 and 1, got {others}")
    l2 = _l2_of(factors, l2_entities)
    solve = _solver(factors, others, l2, random_state)
    names = _chosen(factors, facts, entities)
    factors.relations.ids(list(facts.relations))  # every one of them must be the model's
    grown = factors.entities.extended([name for name in names if name not in factors.entities])
    chosen = grown.ids(names)
    cells = listed_cells(facts.over(grown, factors.relations), chosen)
    A = np.zeros((len(grown), factors.rank), factors.A.dtype)
    A[: len(factors.A)] = factors.A
    A[chosen] = 0  # a folded entity is not there until it has a vector
    joined = any(np.isin(one.partner, chosen).any() for one in cells)
    with one_blas_thread():
        for _ in range(ROUNDS if joined else 1):
            solve.look_at(A)
            for i, listed in zip(chosen.tolist(), cells, strict=True):
                A[i] = solve(A, i, listed)
    about = {**factors.about, "folded_in": [*factors.about.get("folded_in", []), *names]}
    return dataclasses.replace(factors, A=A, entities=grown, about=about)


def pulls(factors: Factors, entity: int, listed: Listed, along: Vector, most: int) -> tuple[Listed, Vector]:
    """The facts of an entity that add most to its score along a vector v, and what the score would lose without each.

    Were a fact false, the entity's vector would move by −w H⁻¹ v_fact, with H the curvature of its regression: to the
    letter for least squares. For the likelihood that is only good enough to choose by, and those chosen are tried.
    """
    solve = _solver(factors, 1.0, _l2_of(factors, None), 0)
    with one_blas_thread():
        solve.look_at(factors.A, but=entity)
        strongest, lost = solve.pulls(factors.A, entity, listed, along.astype(np.float64), most)
    return Listed(*(column[strongest] for column in listed)), lost  # type: ignore[arg-type]


def by_squares(factors: Factors, cells: Sequence[Listed], others: float) -> Matrix:
    """A vector for each list of cells, by least squares whatever the factors were fitted by, and without biases."""
    l2 = max(_l2_of(factors, None), 1e-6)
    solve = _Squares(dataclasses.replace(factors, bias=np.zeros_like(factors.bias)), others, l2)
    found = np.zeros((len(cells), factors.rank))
    with one_blas_thread():
        solve.look_at(factors.A)
        for row, listed in zip(found, cells, strict=True):
            V = _vectors(factors.A, solve.R, listed.way, listed.relation, listed.partner)
            E = solve._normal(V, listed)
            # Thousands of them, and surely positive: half the work of the inverse that fold_in takes, or less.
            row[:] = cho_solve(cho_factor(E + l2 * np.eye(len(E))), V.T @ (listed.w * listed.x))
    return found


def can_fold(factors: Factors) -> bool:
    """Whether these factors are of a kind that `fold_in` and `pulls` know the regression of."""
    try:
        _loss_of(factors)
    except InputError:
        return False
    return True


def _solver(factors: Factors, others: float, l2: float, random_state: int) -> _Squares | _Likelihood:
    """How vectors are found: by the loss the factors were fitted with."""
    if _loss_of(factors) == "squared":
        return _Squares(factors, others, l2)
    return _Likelihood(factors, others, l2, random_state)


def _loss_of(factors: Factors) -> str:
    """The loss the factors were fitted with; that of their link where it is unknown."""
    by_link = {links.LogisticLink.name: "logistic", links.SmoothLink.name: "squared"}
    loss = by_link.get(factors.link.name) if factors.loss is None else factors.loss.name
    if loss not in FOLD_IN_LOSSES:
        what = f"a {loss} loss" if loss else f"a {factors.link.name} link"
        raise InputError(
            "folding in, and reasons, are for least squares and the logistic likelihood, "
            f"got factors of {what}; fit with --model logit or als"
        )
    if factors.penalty is not None and factors.penalty.name not in ("l2", "dura", "n3"):
        raise InputError(f"folding in needs an L2, DURA or N3 penalty, got {factors.penalty.name!r}")
    return loss


def _l2_of(factors: Factors, given: float | None) -> float:
    l2 = given
    if l2 is None:
        known = factors.penalty is not None and factors.penalty.name == "l2"
        l2 = factors.penalty.parameters["entities"] if known and factors.penalty else DEFAULT_L2
    if not np.isfinite(l2) or l2 < 0:
        raise InputError(f"l2_entities must be a finite number of at least 0, got {l2!r}")
    return float(l2)


def _chosen(factors: Factors, facts: Facts, entities: Sequence[str] | None) -> list[str]:
    """Names of those whose vectors are wanted: all that the model does not know, unless others are named."""
    touched = np.unique(np.concatenate([facts.triples[:, [0, 2]].ravel(), facts.unobserved[:, [0, 2]].ravel()]))
    mentioned = [facts.entities[i] for i in touched.tolist()]
    unknown = [name for name in mentioned if name not in factors.entities]
    if entities is None:
        if not unknown:
            raise InputError("the model knows every entity of these facts; name those to fold in anew: entities=[…]")
        return unknown
    names = list(dict.fromkeys([entities] if isinstance(entities, str) else entities))
    for name in names:
        if name not in mentioned:
            raise InputError(f"no fact is about {name!r}, so there is nothing to fold it in by")
    if left := [name for name in unknown if name not in names]:
        raise InputError(f"the model does not know {left[0]!r}; name it too, or leave its facts out")
    return names


def listed_cells(facts: Facts, chosen: Ids) -> list[Listed]:
    """The listed cells of each chosen entity, as subject and then as object, but those with itself."""
    triples = np.concatenate([facts.triples, facts.unobserved])
    proper = triples[:, 0] != triples[:, 2]
    s, k, o = triples[proper].T
    x = np.repeat([1.0, 0.0], [len(facts), len(facts.unobserved)])[proper]
    w = np.concatenate([facts.confidences, np.zeros(len(facts.unobserved))])[proper]
    owner, partner, way = np.concatenate([s, o]), np.concatenate([o, s]), np.repeat([0, 1], len(s))
    order = np.argsort(owner, kind="stable")
    starts, stops = (np.searchsorted(owner, chosen, side, sorter=order) for side in ("left", "right"))
    columns = (way, np.tile(k, 2), partner, np.tile(x, 2), np.tile(w, 2))
    rows = [order[start:stop] for start, stop in zip(starts, stops, strict=True)]
    return [Listed(*(column[own] for column in columns)) for own in rows]


def _strongest(pull: Vector, listed: Listed, most: int) -> Ids:
    """The facts among listed cells that pull most, so many at most."""
    order: Ids = np.argsort(-np.where(listed.x > 0, pull, -np.inf), kind="stable")
    return order[: min(most, int(listed.x.sum()))]


def _vectors(A: Matrix, R: Slices, way: NDArray[np.int64], relation: Ids, partner: Ids) -> Matrix:
    """v of each cell: R_k a_j where the entity is the subject, R_kᵀ a_j where it is the object; float64."""
    V = np.empty((len(way), A.shape[1]))
    for code in np.unique(2 * relation + way):
        here = (2 * relation + way) == code
        R_k = R[code // 2].astype(np.float64)
        V[here] = A[partner[here]] @ (R_k if code % 2 else R_k.T)
    return V


# --- least squares


class _Squares:
    """One r × r solve an entity; what all cells together contribute is found once."""

    def __init__(self, factors: Factors, others: float, l2: float):
        self.R, self.bias = factors.R.astype(np.float64), factors.bias.astype(np.float64)
        self.others, self.l2 = others, l2
        self._base: tuple[Matrix, Vector] | None = None

    def look_at(self, A: Matrix, *, but: int | None = None) -> None:
        """Σ over all cells of v vᵀ, and of −b v; those beside one entity may be left out."""
        r = A.shape[1]
        E: Matrix = np.zeros((r, r))
        f: Vector = np.zeros(r)
        if self.others:
            own = np.zeros(r) if but is None else A[but].astype(np.float64)
            G, total = gram.product(A, A) - np.outer(own, own), A.sum(axis=0, dtype=np.float64) - own
            E = gram.quadratic(self.R, G).normal
            f = -self.bias @ (self.R @ total + self.R.transpose(0, 2, 1) @ total)
        self._base = (self.others * E, self.others * f)

    def __call__(self, A: Matrix, i: int, listed: Listed) -> Vector:
        assert self._base is not None
        V, b = _vectors(A, self.R, listed.way, listed.relation, listed.partner), self.bias[listed.relation]
        f = self._base[1] + V.T @ (listed.w * (listed.x - b) + self.others * b)
        return _solved(self._normal(V, listed), self.l2, f)

    def pulls(self, A: Matrix, i: int, listed: Listed, along: Vector, most: int) -> tuple[Ids, Vector]:
        """The facts that add most to aᵀ v, and what it would lose without each."""
        V = _vectors(A, self.R, listed.way, listed.relation, listed.partner)
        pull = listed.w * (V @ _solved(self._normal(V, listed), self.l2, along))
        strongest = _strongest(pull, listed, most)
        return strongest, pull[strongest]

    def _normal(self, V: Matrix, listed: Listed) -> Matrix:
        assert self._base is not None
        E: Matrix = self._base[0] + V.T @ ((listed.w - self.others)[:, None] * V)  # listed cells are no others
        return E


def _solved(E: Matrix, l2: float, f: Vector) -> Vector:
    """(E + l2 I)⁻¹ f."""
    solution: Vector = gram.inverse(E, l2) @ f
    return solution


# --- the likelihood


class _Likelihood:
    """Newton's method an entity, on all of its cells or on a draw of them."""

    def __init__(self, factors: Factors, others: float, l2: float, random_state: int):
        self.R, self.bias = factors.R, factors.bias.astype(np.float64)
        self.others, self.l2, self.random_state = others, l2, random_state

    def look_at(self, A: Matrix, *, but: int | None = None) -> None:
        """Nothing is shared between entities."""

    def __call__(self, A: Matrix, i: int, listed: Listed) -> Vector:
        a = newton(self._rows(A, i, listed, None), self.l2, np.zeros(A.shape[1]))
        return a if self._rows_are_few(A) else newton(self._rows(A, i, listed, a), self.l2, a)

    def pulls(self, A: Matrix, i: int, listed: Listed, along: Vector, most: int) -> tuple[Ids, Vector]:
        """The facts that add most to aᵀ v to first order, and what it does lose when each is false."""
        a = A[i].astype(np.float64)
        rows = self._rows(A, i, listed, a)
        H = _bent(rows, expit(rows.V @ a + rows.b))
        pull = listed.w * (rows.V[: len(listed.x)] @ _solved(H, 2 * self.l2, along))  # listed cells are the first rows
        strongest = _strongest(pull, listed, most)
        best, lost = newton(rows, self.l2, a), []
        for cell in strongest.tolist():
            x = np.where(np.arange(len(rows.x)) == cell, 0.0, rows.x)
            lost.append((best - newton(rows._replace(x=x), self.l2, best)) @ along)
        return strongest, np.array(lost)

    def _rows_are_few(self, A: Matrix) -> bool:
        return not self.others or 2 * len(self.R) * len(A) <= ROWS

    def _rows(self, A: Matrix, i: int, listed: Listed, a: Vector | None) -> Rows:
        """Listed cells, and zeros: all, or a draw of them with those that a vector takes for likely."""
        way, relation, partner, x, w = listed
        own = Rows(_vectors(A, self.R, way, relation, partner), self.bias[relation], x, w)
        if not self.others:
            return own
        n_cells = 2 * len(self.R) * len(A)
        taken = np.union1d(
            _cell_numbers(way, relation, partner, len(A)),
            np.arange(2 * len(self.R)) * len(A) + i,  # the cells with itself
        )
        if self._rows_are_few(A):
            return _joined(own, self._zeros(A, np.setdiff1d(np.arange(n_cells), taken), 1.0))
        rng = np.random.default_rng([self.random_state, i])
        space = n_cells / ROWS
        drawn = ((np.arange(ROWS) + rng.random()) * space).astype(np.int64)
        drawn = np.setdiff1d(np.minimum(drawn, n_cells - 1), taken)
        if a is None:
            return _joined(own, self._zeros(A, drawn, space))
        theta = self._all_scores(A, a)
        theta[taken] = -np.inf
        likely = np.sort(np.argpartition(-theta, LIKELY)[:LIKELY])
        likely = likely[np.isfinite(theta[likely])]
        return _joined(own, self._zeros(A, likely, 1.0), self._zeros(A, np.setdiff1d(drawn, likely), space))

    def _zeros(self, A: Matrix, cells: NDArray[np.int64], stands_for: float) -> Rows:
        """Rows of zeros with these cell numbers."""
        way, relation, partner = (cells // len(A)) % 2, cells // (2 * len(A)), cells % len(A)
        weights = np.full(len(cells), self.others * stands_for)
        return Rows(_vectors(A, self.R, way, relation, partner), self.bias[relation], np.zeros(len(cells)), weights)

    def _all_scores(self, A: Matrix, a: Vector) -> Vector:
        """θ of every cell of an entity with the vector a, in the order of cell numbers."""
        rows = [vector for R_k in self.R for vector in (a @ R_k, R_k @ a)]
        theta = np.asarray(rows, A.dtype) @ A.T + np.repeat(self.bias, 2)[:, None].astype(A.dtype)
        return theta.reshape(-1)


def _cell_numbers(way: NDArray[np.int64], relation: Ids, partner: Ids, n: int) -> NDArray[np.int64]:
    """One number for each cell of an entity."""
    return (2 * relation + way) * np.int64(n) + partner


def _joined(*parts: Rows) -> Rows:
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def newton(rows: Rows, l2: float, a: Vector) -> Vector:
    """argmin Σ w [softplus(θ) − x θ] + l2 ‖a‖², from a on; a step is halved until the loss falls."""
    value = _value(rows, l2, a)
    for _ in range(STEPS):
        p = expit(rows.V @ a + rows.b)
        gradient = rows.V.T @ (rows.w * (p - rows.x)) + 2 * l2 * a
        step = _solved(_bent(rows, p), 2 * l2, gradient)
        gain = float(gradient @ step)  # twice what the parabola promises
        if gain <= TOLERANCE * (abs(value) + TOLERANCE):
            break
        for _ in range(HALVINGS):
            tried = _value(rows, l2, a - step)
            if tried <= value - gain / 10000:
                break
            step, gain = step / 2, gain / 2
        else:
            break
        a, value = a - step, tried
    return a


def _bent(rows: Rows, p: Vector) -> Matrix:
    """Σ w p (1 − p) v vᵀ."""
    return rows.V.T @ ((rows.w * p * (1 - p))[:, None] * rows.V)


def _value(rows: Rows, l2: float, a: Vector) -> float:
    theta = rows.V @ a + rows.b
    return float(rows.w @ (np.logaddexp(0, theta) - rows.x * theta) + l2 * (a @ a))
