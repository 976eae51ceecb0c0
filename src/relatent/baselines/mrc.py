"""Multiple relational clusterings: log odds that add up over clusterings which cut across each other.

    logit p_ijk = b_k + Σ_m  W_m[q_m(k), z_m(i), z_m(j)]

After Kok & Domingos (2007): each clustering m puts the entities into clusters z_m and the relations into clusters q_m,
and each combination of clusters has a smoothed log odds. They search greedily for all clusterings at once; here each
is fitted to the residuals of the earlier ones. With the residuals g = w (x − p) and their variances
h = w p (1 − p), but no less than |g| / 4, summed over the cells of a combination to G and H, a clustering is a local
maximum of

    Σ_qab  G_qab² / (H_qab + λ),       W_qab = ν G_qab / (H_qab + λ)

found by moving one entity or relation at a time; half of it is the rise of the log likelihood, to second order. The
bound on h is for rare facts, where p (1 − p) is so small that the second-order step would be far too long.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..arrays import Ids, Triples, Vector
from ..data.cell_keys import cells_of
from ..data.facts import Facts
from ..data.heldout import HeldOut, sample_zeros
from ..errors import InputError
from ..fit import init as start
from ..fit import losses
from ..fit.early_stopping import Watch
from ..fit.estimators.base import Estimator, FitArguments
from ..fit.loop import run
from ..model.factors import Factors
from ..model.links import LogisticLink
from ..model.objective_description import ObjectiveTerm
from ..model.provenance import LearnedRecord
from ..parameter_checks import check_count, check_penalty
from ..random_state import RandomState
from .partitions import Bilinear, bilinear, by_size, sort_by_entity
from .relational_clustering import ResidualCells, add_clustering, cluster

MAX_STEP = 4.0  # of G / H, so that a log odds changes by at most 4 ν per clustering
MAX_CELLS = 1 << 20  # of more cells each clustering sees all facts and its own sample of the zeros


class MrcState(NamedTuple):
    """The clusterings so far, M of them."""

    z: Ids  # (M, N)
    q: Ids  # (M, K)
    W: NDArray[np.float64]  # (M, Q, C, C)
    theta: Vector  # log odds of all observed cells; none where they are sampled
    objective: float  # −log likelihood of the cells


class Stagewise:
    """The solver: a step is one more clustering."""

    growing = ("z", "q", "W")  # fields of the state that have more rows after each step

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
        self.window = n_clusterings + 1  # a fit ends only by their number
        self.bias = losses.Logistic().bias(*start.ones_and_zeros(facts))
        self.all_cells = _cells(facts, _zeros(facts), 1.0) if facts.n_cells <= MAX_CELLS else None

    def start(self) -> MrcState:
        """No clustering: the base rates alone."""
        n, k = self.facts.n_entities, self.facts.n_relations
        theta = np.empty(0) if self.all_cells is None else self.bias[self.all_cells.triples[:, 1]]
        none = np.empty((0, n), np.int32), np.empty((0, k), np.int32), np.empty((0, self.Q, self.C, self.C))
        return MrcState(*none, theta, np.inf)

    def is_valid(self, state: MrcState) -> bool:
        """Whether the clusters of a state that was read exist."""
        same = len(state.z) == len(state.q) == len(state.W)
        limits = ((state.z, self.C), (state.q, self.Q))
        return same and all(ids.min(initial=0) >= 0 and ids.max(initial=0) < count for ids, count in limits)

    def finished(self, state: MrcState) -> str | None:
        """Finished when all clusterings are made."""
        return f"all {self.n_clusterings} clusterings are made" if len(state.z) == self.n_clusterings else None

    def step(self, state: MrcState) -> MrcState:
        """One more clustering, of the residuals of the earlier ones."""
        rng = np.random.default_rng([self.random_state, len(state.z)])  # so that a fit can be resumed here
        if self.all_cells is not None:
            cells, theta = self.all_cells, state.theta
        else:
            cells = self._sample(rng)
            theta = self.bias[cells.triples[:, 1]]
            for earlier in zip(state.z, state.q, state.W, strict=True):
                theta = add_clustering(theta, cells.triples, *earlier)
        p = expit(theta)
        g = cells.w * (cells.x - p)
        gh = np.stack([g, np.maximum(cells.w * p * (1 - p), np.abs(g) / MAX_STEP)], axis=1)
        z, q, sums = cluster(cells, gh, self.C, self.Q, self.smoothing, rng)
        W = self.learning_rate * sums[..., 0] / (sums[..., 1] + self.smoothing)
        theta = add_clustering(theta, cells.triples, z, q, W)
        return MrcState(
            np.concatenate([state.z, z[None].astype(np.int32)]),
            np.concatenate([state.q, q[None].astype(np.int32)]),
            np.concatenate([state.W, W[None]]),
            theta if self.all_cells is not None else state.theta,
            float(np.sum(cells.w * (np.logaddexp(0, theta) - cells.x * theta))),
        )

    def factors(self, state: MrcState, dtype: Any) -> Bilinear:
        """a_iᵀ R_k a_j = Σ_m W_m[q_m(k), z_m(i), z_m(j)]."""
        return bilinear(state.z, [W[q] for W, q in zip(state.W, state.q, strict=True)], dtype)

    def _sample(self, rng: np.random.Generator) -> ResidualCells:
        zeros, weight = sample_zeros([self.facts], max(MAX_CELLS - len(self.facts), len(self.facts)), rng)
        return _cells(self.facts, zeros, weight)


def _zeros(facts: Facts) -> Triples:
    """All cells observed to be false."""
    cells = cells_of(np.arange(facts.n_cells), facts.n_entities)
    return cells[~(facts.contains(cells) | facts.is_unobserved(cells))]


def _cells(facts: Facts, zeros: Triples, weight: float) -> ResidualCells:
    triples = np.concatenate([facts.triples, zeros]).astype(np.int64)
    x = np.repeat([1.0, 0.0], [len(facts), len(zeros)])
    w = np.full(len(triples), weight)
    w[: len(facts)] = facts.confidences
    n = facts.n_entities
    return ResidualCells(
        n, facts.n_relations, triples, x, w, sort_by_entity(triples, n, 0), sort_by_entity(triples, n, 2)
    )


@dataclass(eq=False, repr=False)
class MRC(Estimator):
    """Multiple relational clusterings: many ways to group entities and relations, their log odds added.

    Entities and relations are clustered together, several times over: people by age, again by sex, again by section.
    Each clustering is fitted to the residuals of the earlier ones. Unobserved cells do not count; a fact of weight w
    counts as w true cells. Of more than a million cells each clustering sees all facts and a new sample of the zeros.

    Parameters
    ----------
    n_clusterings : number of clusterings
    n_clusters : maximum number of clusters of entities in each
    n_relation_clusters : maximum number of clusters of relations in each
    smoothing : λ; a log odds is halved where the variances of its cells sum to λ
    learning_rate : ν, the share of its log odds that each clustering adds
    dtype : "float32" or "float64", the type of the factors
    random_state : seed of the clusterings' starts
    patience : validations, one every five clusterings, without improvement before the fit stops

    Attributes
    ----------
    clusterings_ : a list of (N,) arrays, the cluster of each entity, the largest cluster being 0
    clusters_ : the first of them
    relation_clusterings_ : a list of (K,) arrays, likewise for the relations

    >>> import relatent
    >>> from relatent.baselines.mrc import MRC
    >>> facts = relatent.Facts.from_arrays(["Ann", "Ann", "Bob", "Bob"], ["likes"] * 4, ["Cid", "Dan", "Cid", "Dan"])
    >>> model = MRC(n_clusterings=20, n_clusters=2, calibrate=False).fit(facts)
    >>> model.clusters_.tolist()
    [0, 0, 1, 1]
    >>> bool(model.factors_.probability("Ann", "likes", "Dan") > 0.8)
    True
    """

    _unsupported = ("workers",)

    n_clusterings: int = 60
    n_clusters: int = 10
    n_relation_clusters: int = 20
    smoothing: float = 1.0
    learning_rate: float = 0.5
    dtype: str = "float32"
    random_state: RandomState = 0
    _: KW_ONLY
    patience: int = 10

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
        self.clusterings_ = [by_size(z) for z in state.z]
        self.clusters_ = self.clusterings_[0]
        self.relation_clusterings_ = [by_size(q) for q in state.q]
        learned = LearnedRecord(n_clusters=tuple(int(z.max()) + 1 for z in self.clusterings_))
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
