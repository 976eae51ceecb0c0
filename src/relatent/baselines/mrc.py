"""Multiple relational clusterings: log odds that add up over clusterings which cut across each other.

    logit p_ijk = b_k + Σ_m  W_m[q_m(k), z_m(i), z_m(j)]

After Kok & Domingos (2007): each clustering m puts the entities into clusters z_m and the relations into clusters q_m,
and each combination of clusters has a smoothed log odds. They search greedily for all clusterings at once; here each
is fitted to what the former ones leave unexplained. With the residuals g = w (x − p) and their variances
h = w p (1 − p), but no less than |g| / 4, summed over the cells of a combination to G and H, a clustering is a local
maximum of

    Σ_qab  G_qab² / (H_qab + λ),       W_qab = ν G_qab / (H_qab + λ)

found by moving one entity or relation at a time: half of it is the rise of the log likelihood, to second order. The
bound on h holds where the second order does not: among rare facts, p (1 − p) knows nothing of the steep log odds ahead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import expit

from ..arrays import Ids, Matrix, Triples, Vector
from ..data.cell_keys import cells_of
from ..data.facts import Facts
from ..data.heldout import HeldOut, sample_zeros
from ..errors import InputError
from ..fit import init as start
from ..fit import losses
from ..fit.estimators.base import Estimator, FitArguments, check_count, check_penalty
from ..fit.loop import Watch, run
from ..model.factors import Factors
from ..model.links import LogisticLink
from ..model.objective_term import ObjectiveTerm
from ..random_state import RandomState
from . import block_model as blocks

SWEEPS = 5  # over entities and relations, for one clustering; most have settled by then
STEEPEST = 4.0  # G / H at most, so that no step of a log odds is longer than 4 ν
MOST_CELLS = 1 << 20  # beyond, each clustering sees all facts and its own sample of the zeros


class MrcState(NamedTuple):
    """The clusterings so far, M of them."""

    z: Ids  # (M, N)
    q: Ids  # (M, K)
    W: NDArray[np.float64]  # (M, Q, C, C)
    theta: Vector  # log odds of all observed cells; none where they are sampled
    objective: float  # −log likelihood of the cells


class Cells(NamedTuple):
    """Observed cells, their truth and weight, and their order by subject and by object."""

    n_entities: int
    n_relations: int
    triples: Triples  # (n, 3)
    x: Vector
    w: Vector
    rows: blocks.Lines
    columns: blocks.Lines


class Stagewise:
    """The solver: a step is one more clustering."""

    def __init__(
        self,
        facts: Facts,
        *,
        n_clusterings: int,
        n_clusters: int,
        n_relation_clusters: int,
        smoothing: float,
        learning_rate: float,
        random_state: int,
    ):
        self.facts = facts
        self.n_clusterings = n_clusterings
        self.C = min(n_clusters, facts.n_entities)
        self.Q = min(n_relation_clusters, facts.n_relations)
        self.smoothing = smoothing
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.window = n_clusterings + 1  # their number is the only end
        self.bias = losses.Logistic().bias(*start.ones_and_zeros(facts))
        self.all_cells = _cells(facts, _zeros(facts), 1.0) if facts.n_cells <= MOST_CELLS else None

    def start(self) -> MrcState:
        """No clustering: only the base rates."""
        n, k = self.facts.n_entities, self.facts.n_relations
        theta = np.empty(0) if self.all_cells is None else self.bias[self.all_cells.triples[:, 1]]
        none = np.empty((0, n), np.int32), np.empty((0, k), np.int32), np.empty((0, self.Q, self.C, self.C))
        return MrcState(*none, theta, np.inf)

    def finished(self, state: MrcState) -> str | None:
        """When all clusterings are made."""
        return f"all {self.n_clusterings} clusterings are made" if len(state.z) == self.n_clusterings else None

    def step(self, state: MrcState) -> MrcState:
        """One more clustering, of what the others leave unexplained."""
        rng = np.random.default_rng([self.random_state, len(state.z)])  # so that a fit can be resumed here
        if self.all_cells is not None:
            cells, theta = self.all_cells, state.theta
        else:
            cells = self._sample(rng)
            theta = self.bias[cells.triples[:, 1]]
            for earlier in zip(state.z, state.q, state.W, strict=True):
                theta = _add(theta, cells.triples, *earlier)
        p = expit(theta)
        g = cells.w * (cells.x - p)
        gh = np.stack([g, np.maximum(cells.w * p * (1 - p), np.abs(g) / STEEPEST)], axis=1)
        z, q, sums = cluster(cells, gh, self.C, self.Q, self.smoothing, rng)
        W = self.learning_rate * sums[..., 0] / (sums[..., 1] + self.smoothing)
        theta = _add(theta, cells.triples, z, q, W)
        return MrcState(
            np.concatenate([state.z, z[None].astype(np.int32)]),
            np.concatenate([state.q, q[None].astype(np.int32)]),
            np.concatenate([state.W, W[None]]),
            theta if self.all_cells is not None else state.theta,
            float(np.sum(cells.w * (np.logaddexp(0, theta) - cells.x * theta))),
        )

    def factors(self, state: MrcState, dtype: Any) -> blocks.Bilinear:
        """a_iᵀ R_k a_j = Σ_m W_m[q_m(k), z_m(i), z_m(j)]."""
        return blocks.bilinear(state.z, [W[q] for W, q in zip(state.W, state.q, strict=True)], dtype)

    def _sample(self, rng: np.random.Generator) -> Cells:
        zeros, weight = sample_zeros([self.facts], max(MOST_CELLS - len(self.facts), len(self.facts)), rng)
        return _cells(self.facts, zeros, weight)


def _zeros(facts: Facts) -> Triples:
    """All cells observed to be false."""
    cells = cells_of(np.arange(facts.n_cells), facts.n_entities)
    return cells[~(facts.contains(cells) | facts.is_unobserved(cells))]


def _cells(facts: Facts, zeros: Triples, weight: float) -> Cells:
    triples = np.concatenate([facts.triples, zeros]).astype(np.int64)
    x = np.repeat([1.0, 0.0], [len(facts), len(zeros)])
    w = np.full(len(triples), weight)
    w[: len(facts)] = facts.confidences
    n = facts.n_entities
    return Cells(n, facts.n_relations, triples, x, w, blocks.sorted_by(triples, n, 0), blocks.sorted_by(triples, n, 2))


class Clustering(NamedTuple):
    """Clusters of entities and of relations, and G and H of each combination."""

    z: Ids  # (N,)
    q: Ids  # (K,)
    sums: NDArray[np.float64]  # (Q, C, C, 2)


def cluster(
    cells: Cells, gh: Matrix, n_clusters: int, n_relation_clusters: int, smoothing: float, rng: np.random.Generator
) -> Clustering:
    """A local maximum of Σ G² / (H + λ), from a random start; gh: (n, 2) residual and variance of each cell."""
    n, k = cells.n_entities, cells.n_relations
    z = rng.integers(0, n_clusters, n)
    q = np.arange(k) if n_relation_clusters == k else rng.integers(0, n_relation_clusters, k)
    rows, columns = gh[cells.rows.places], gh[cells.columns.places]
    of_relations = _block_sums(cells.triples, gh, z, k, n_clusters)
    for _ in range(SWEEPS):
        sums = _by_cluster(of_relations, q, n_relation_clusters)
        moved = _move_entities(
            *cells.rows[:3], rows, *cells.columns[:3], columns, z, q, sums, rng.permutation(n), smoothing
        )
        of_relations = _block_sums(cells.triples, gh, z, k, n_clusters)
        if n_relation_clusters < k:
            sums = _by_cluster(of_relations, q, n_relation_clusters)
            moved += _move_relations(of_relations, q, sums, rng.permutation(k), smoothing)
        if not moved:
            break
    return Clustering(z, q, _by_cluster(of_relations, q, n_relation_clusters))


def _by_cluster(of_relations: NDArray[np.float64], q: Ids, n_relation_clusters: int) -> NDArray[np.float64]:
    sums = np.zeros((n_relation_clusters, *of_relations.shape[1:]))
    np.add.at(sums, q, of_relations)
    return sums


@njit(cache=True, nogil=True)
def _block_sums(triples, gh, z, n_relations, n_clusters):  # type: ignore[no-untyped-def]
    """G and H for each relation and pair of clusters, (K, C, C, 2)."""
    sums = np.zeros((n_relations, n_clusters, n_clusters, 2))
    for c in range(len(triples)):
        k, a, b = triples[c, 1], z[triples[c, 0]], z[triples[c, 2]]
        sums[k, a, b, 0] += gh[c, 0]
        sums[k, a, b, 1] += gh[c, 1]
    return sums


@njit(cache=True, nogil=True)
def _add(theta, triples, z, q, W):  # type: ignore[no-untyped-def]
    """θ with one more clustering."""
    new = np.empty_like(theta)
    for c in range(len(theta)):
        new[c] = theta[c] + W[q[triples[c, 1]], z[triples[c, 0]], z[triples[c, 2]]]
    return new


@njit(cache=True, nogil=True)
def _gain(G, H, g, h, smoothing):  # type: ignore[no-untyped-def]
    """What it is worth to add cells with sums g and h to a block with sums G and H."""
    return (G + g) * (G + g) / (H + h + smoothing) - G * G / (H + smoothing)


@njit(cache=True, nogil=True)
def _line_sums(starts, relations, others, gh, i, z, q, line, loop):  # type: ignore[no-untyped-def]
    """G and H of the cells of i by relation cluster and cluster of the other, and of the cells (i, k, i)."""
    for e in range(starts[i], starts[i + 1]):
        u, j = q[relations[e]], others[e]
        if j == i:
            loop[u, 0] += gh[e, 0]
            loop[u, 1] += gh[e, 1]
        else:
            line[u, z[j], 0] += gh[e, 0]
            line[u, z[j], 1] += gh[e, 1]


@njit(cache=True, nogil=True)
def _shift(sums, s, row, column, loop, sign):  # type: ignore[no-untyped-def]
    """Put an entity into cluster s (sign 1) or take it out (sign −1)."""
    for u in range(sums.shape[0]):
        for d in range(2):
            for c in range(sums.shape[1]):
                sums[u, s, c, d] += sign * row[u, c, d]
                sums[u, c, s, d] += sign * column[u, c, d]
            sums[u, s, s, d] += sign * loop[u, d]


@njit(cache=True, nogil=True)
def _join_gain(sums, a, row, column, loop, smoothing):  # type: ignore[no-untyped-def]
    """What it is worth that the entity joins cluster a."""
    total = 0.0
    for u in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            if c != a:
                total += _gain(sums[u, a, c, 0], sums[u, a, c, 1], row[u, c, 0], row[u, c, 1], smoothing)
                total += _gain(sums[u, c, a, 0], sums[u, c, a, 1], column[u, c, 0], column[u, c, 1], smoothing)
        g = row[u, a, 0] + column[u, a, 0] + loop[u, 0]
        h = row[u, a, 1] + column[u, a, 1] + loop[u, 1]
        total += _gain(sums[u, a, a, 0], sums[u, a, a, 1], g, h, smoothing)
    return total


@njit(cache=True, nogil=True)
def _move_entities(  # type: ignore[no-untyped-def]
    row_starts,
    row_relations,
    row_others,
    row_gh,
    column_starts,
    column_relations,
    column_others,
    column_gh,
    z,
    q,
    sums,
    order,
    smoothing,
):
    """Move each entity to the cluster where it is worth most; z and sums change. Returns how many moved."""
    n_relation_clusters, n_clusters = sums.shape[:2]
    loop, unused = np.empty((n_relation_clusters, 2)), np.empty((n_relation_clusters, 2))
    row = np.empty((n_relation_clusters, n_clusters, 2))
    column = np.empty_like(row)
    moved = 0
    for i in order:
        row[:], column[:], loop[:] = 0.0, 0.0, 0.0
        _line_sums(row_starts, row_relations, row_others, row_gh, i, z, q, row, loop)
        _line_sums(column_starts, column_relations, column_others, column_gh, i, z, q, column, unused)
        _shift(sums, z[i], row, column, loop, -1)
        best, most = z[i], _join_gain(sums, z[i], row, column, loop, smoothing)
        for a in range(n_clusters):
            worth = _join_gain(sums, a, row, column, loop, smoothing)
            if worth > most + 1e-9:  # a tie is no reason to move
                best, most = a, worth
        moved += best != z[i]
        z[i] = best
        _shift(sums, best, row, column, loop, 1)
    return moved


@njit(cache=True, nogil=True)
def _transfer(sums, u, of_relations, k, sign):  # type: ignore[no-untyped-def]
    """Put relation k into cluster u (sign 1) or take it out (sign −1)."""
    for a in range(sums.shape[1]):
        for b in range(sums.shape[1]):
            sums[u, a, b, 0] += sign * of_relations[k, a, b, 0]
            sums[u, a, b, 1] += sign * of_relations[k, a, b, 1]


@njit(cache=True, nogil=True)
def _move_relations(of_relations, q, sums, order, smoothing):  # type: ignore[no-untyped-def]
    """Move each relation to the cluster where it is worth most; q and sums change. Returns how many moved."""
    n_clusters = sums.shape[1]
    moved = 0
    for k in order:
        _transfer(sums, q[k], of_relations, k, -1)
        best, most = q[k], -np.inf
        for u in range(sums.shape[0]):
            worth = 0.0
            for a in range(n_clusters):
                for b in range(n_clusters):
                    g, h = of_relations[k, a, b, 0], of_relations[k, a, b, 1]
                    worth += _gain(sums[u, a, b, 0], sums[u, a, b, 1], g, h, smoothing)
            if worth > most + 1e-9 or (worth >= most and u == q[k]):
                best, most = u, worth
        moved += best != q[k]
        q[k] = best
        _transfer(sums, best, of_relations, k, 1)
    return moved


class MRC(Estimator):
    """Multiple relational clusterings: many ways to group entities and relations, their log odds added.

    Entities and relations are clustered together, several times over: people by age, again by sex, again by section.
    Each clustering explains what the former ones leave unexplained. Unobserved cells count nothing; a fact of weight w
    counts as w true cells. Beyond a million cells each clustering sees all facts and a fresh sample of the zeros.

    Parameters
    ----------
    n_clusterings : how many clusterings
    n_clusters : clusters of entities in each, at most
    n_relation_clusters : clusters of relations in each, at most
    smoothing : λ; how much evidence, as variance of cells, it takes for a log odds to be believed by half
    learning_rate : ν, the share of its log odds that each clustering adds
    dtype : "float32" or "float64", the type of the factors
    random_state : seed of the clusterings' starts
    patience : looks at the validation cells, one every five clusterings, without improvement before the fit stops

    Attributes
    ----------
    clusterings_ : a list of (N,) arrays, the cluster of each entity, the largest cluster being 0
    clusters_ : the first of them
    relation_clusterings_ : a list of (K,) arrays, likewise for the relations

    >>> import relatent
    >>> from relatent.baselines.mrc import MRC
    >>> facts = relatent.Facts.from_arrays(["Ann", "Ann", "Bob", "Bob"], ["likes"] * 4, ["Cid", "Dan", "Cid", "Dan"])
    >>> model = MRC(n_clusterings=20, n_clusters=2).fit(facts)
    >>> model.clusters_.tolist()
    [0, 0, 1, 1]
    >>> bool(model.factors_.probability("Ann", "likes", "Dan") > 0.8)
    True
    """

    _unsupported = ("workers",)

    def __init__(
        self,
        n_clusterings: int = 60,
        n_clusters: int = 10,
        n_relation_clusters: int = 20,
        smoothing: float = 1.0,
        learning_rate: float = 0.5,
        dtype: str = "float32",
        random_state: RandomState = 0,
        *,
        patience: int = 10,
    ):
        self.n_clusterings = n_clusterings
        self.n_clusters = n_clusters
        self.n_relation_clusters = n_relation_clusters
        self.smoothing = smoothing
        self.learning_rate = learning_rate
        self.dtype = dtype
        self.random_state = random_state
        self.patience = patience

    def _fit(self, arguments: FitArguments) -> None:
        shard, validation, progress, _ = arguments
        facts = shard.facts
        dtype = start.float_type(self.dtype)
        solver = Stagewise(
            facts,
            n_clusterings=self.n_clusterings,
            n_clusters=self.n_clusters,
            n_relation_clusters=self.n_relation_clusters,
            smoothing=self.smoothing,
            learning_rate=self.learning_rate,
            random_state=self.seed_,
        )
        state, trace = run(
            solver,
            solver.start(),
            max_iter=self.n_clusterings,
            tol=0.0,
            watch=self._watch(facts, validation, solver),
            progress=progress,
            checkpoint=self._checkpoint(arguments),
        )
        self.clusterings_ = [blocks.by_size(z) for z in state.z]
        self.clusters_ = self.clusterings_[0]
        self.relation_clusterings_ = [blocks.by_size(q) for q in state.q]
        learned = {"n_clusterings": len(state.z), "n_clusters": [int(z.max()) + 1 for z in self.clusterings_]}
        A, R = solver.factors(state, dtype)
        loss = ObjectiveTerm("clustered-relations")
        self._finish(shard, A, R, solver.bias, LogisticLink(), trace, learned, loss=loss)

    def _check_settings(self, facts: Facts) -> None:
        super()._check_settings(facts)
        for name in ("n_clusterings", "n_clusters", "n_relation_clusters"):
            check_count(name, getattr(self, name))
        for name in ("smoothing", "learning_rate"):
            value = getattr(self, name)
            check_penalty(name, value)
            if not value:
                raise InputError(f"{name} must be above 0, got {value!r}")

    def _watch(self, facts: Facts, validation: Facts | HeldOut | None, solver: Stagewise) -> Watch | None:
        if validation is None:
            return None
        heldout = HeldOut.of(validation, facts, self.seed_)

        def loss(state: MrcState) -> float:
            A, R = solver.factors(state, np.float64)
            return heldout.log_loss(Factors(A, R, solver.bias, facts.entities, facts.relations, LogisticLink()))

        return Watch(loss, every=5, patience=self.patience)
