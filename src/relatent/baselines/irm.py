"""The infinite relational model: entities in clusters, and a share of true cells for each pair of clusters.

    z ~ CRP(γ),   η_kab ~ Beta(β¹, β⁰),   x_ijk ~ Bernoulli(η_k z_i z_j)

(Kemp, Tenenbaum, Griffiths, Yamada & Ueda 2006.) η is integrated out; z is drawn by Gibbs passes and by splits and
mergers, γ, β¹ and β⁰ along with it. What is predicted is the mean of η over the kept samples of all chains: block
models side by side, so a bilinear form of one-hot memberships, which is what `Factors` hold.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Slices
from ..data.facts import Facts
from ..fit import init as start
from ..fit.estimators.base import Estimator, FitArguments
from ..fit.loop import run
from ..model.links import IdentityLink
from ..model.objective_description import ObjectiveTerm
from ..model.provenance import LearnedRecord
from ..parameter_checks import check_count
from ..random_state import RandomState
from . import block_model, block_moves
from .block_moves import NO_SLOTS
from .partitions import Bilinear, bilinear, by_size, n_components

NEW_SLOTS_PER_SWEEP = 16  # clusters that a sweep may add
PROPOSALS_PER_SWEEP = 10  # splits or mergers
LAUNCH_PASSES = 3  # restricted Gibbs passes to the launch state of a split
BETA_STEPS_PER_SWEEP = 4  # Metropolis steps of β¹ and β⁰
GAMMA_GRID = np.geomspace(0.02, 50, 40)
MAX_R_ENTRIES = 1 << 24  # samples are thinned out until R has no more entries
MAX_NAMED_ENTITIES = 1000  # up to this number the model file names the members of each cluster


class Chain(NamedTuple):
    """The state of one Markov chain."""

    z: Ids  # (N,) cluster of each entity, the largest being 0; −1 before the first sweep
    gamma: float
    beta_true: float
    beta_false: float
    log_posterior: float


class IrmState(NamedTuple):
    """All chains, one per row, and the samples kept so far."""

    sweep: int
    z: Ids  # (chains, N)
    hyper: NDArray[np.float64]  # (chains, 4): γ, β¹, β⁰, log posterior
    objective: float  # minus the log posterior of the best chain
    kept_z: Ids  # (S, N), by sweep, then by chain
    kept_hyper: NDArray[np.float64]  # (S, 4)


class Gibbs:
    """The solver: a step is one sweep of every chain."""

    growing = ("kept_z", "kept_hyper")  # fields of the state that have more rows after each step

    def __init__(self, facts: Facts, *, chains: int, burn_in: int, n_samples: int, random_state: int):
        self.n_entities, self.n_relations = facts.n_entities, facts.n_relations
        self.cells = block_model.block_cells(facts)
        self.chains = chains
        self.burn_in = burn_in
        self.sweeps = burn_in + n_samples
        self.random_state = random_state
        self.window = self.sweeps + 1  # a Markov chain ends only by its length

    def start(self) -> IrmState:
        """No entity has a cluster yet: the first sweep adds one after the other."""
        z = np.full((self.chains, self.n_entities), -1, np.int32)
        hyper = np.tile([1.0, 0.1, 1.0, -np.inf], (self.chains, 1))
        return IrmState(0, z, hyper, np.inf, z[:0], hyper[:0])

    def is_valid(self, state: IrmState) -> bool:
        """Whether every entity has a cluster in a state that was read, and each sample its positive numbers."""
        labels, hyper = np.concatenate([state.z, state.kept_z]), np.concatenate([state.hyper, state.kept_hyper])
        same = len(state.kept_z) == len(state.kept_hyper) and bool((hyper[:, :3] > 0).all())
        return state.sweep > 0 and same and labels.min() >= 0 and bool(labels.max() < self.n_entities)

    def finished(self, state: IrmState) -> str | None:
        """When all sweeps are done."""
        return f"all {self.sweeps} sweeps are drawn" if state.sweep == self.sweeps else None

    def step(self, state: IrmState) -> IrmState:
        """One sweep of every chain; after the burn-in its partition is kept as a sample."""
        begin = [Chain(z, *hyper.tolist()) for z, hyper in zip(state.z, state.hyper, strict=True)]
        with ThreadPoolExecutor(min(self.chains, numba.get_num_threads())) as pool:
            ends = list(pool.map(lambda c: self._sweep(begin[c], self._random(c, state.sweep)), range(self.chains)))
        z = np.stack([chain.z for chain in ends]).astype(np.int32)
        hyper = np.array([chain[1:] for chain in ends])
        keep = slice(None) if state.sweep >= self.burn_in else slice(0)
        return IrmState(
            state.sweep + 1,
            z,
            hyper,
            -float(hyper[:, 3].max()),
            np.concatenate([state.kept_z, z[keep]]),
            np.concatenate([state.kept_hyper, hyper[keep]]),
        )

    def block_means(self, z: Ids, beta_true: float, beta_false: float) -> Slices:
        """E[η | X, z], (K, C, C)."""
        counts = block_model.empty_counts(self.n_entities, self.n_relations, int(z.max()) + 1)
        counts.z[:] = z
        block_model.recount(self.cells, counts, block_model.log_beta(beta_true, beta_false, 0), NO_SLOTS)
        zeros = np.outer(counts.sizes, counts.sizes) - counts.listed
        return (counts.true + beta_true) / (counts.true + zeros + beta_true + beta_false)

    def _random(self, chain: int, sweep: int) -> np.random.Generator:
        """A generator for each chain and sweep, so that a fit can be resumed after any sweep."""
        return np.random.default_rng([self.random_state, chain, sweep])

    def _sweep(self, chain: Chain, rng: np.random.Generator) -> Chain:
        z, gamma, beta_true, beta_false, _ = chain
        n = self.n_entities
        slots = int(z.max()) + 1 + NEW_SLOTS_PER_SWEEP
        counts = block_model.empty_counts(n, self.n_relations, slots)
        work = block_moves.move_workspace(self.cells, self.n_relations, slots)
        counts.z[:] = z
        log_beta = block_model.log_beta(beta_true, beta_false, n * n)
        block_model.recount(self.cells, counts, log_beta, np.arange(slots))
        state = block_moves.BlockState(self.cells, counts, work, log_beta)
        block_moves.gibbs_pass(state, gamma, rng.permutation(n), NO_SLOTS, rng.random(n), NO_SLOTS)
        for _ in range(PROPOSALS_PER_SWEEP if n > 1 else 0):
            block_moves.split_or_merge(state, gamma, rng.random((LAUNCH_PASSES + 3, max(n, 3))))
        beta_true, beta_false, log_evidence = _draw_beta(counts, beta_true, beta_false, rng)
        gamma = _draw_gamma(counts.sizes, rng)
        log_prior = block_model.log_partition(counts.sizes, gamma) - gamma - beta_true - beta_false
        return Chain(by_size(counts.z), gamma, beta_true, beta_false, log_evidence + log_prior)


def _draw_beta(
    counts: block_model.BlockCounts, beta_true: float, beta_false: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Metropolis steps on log β¹ and log β⁰ in turn, under p(β) ∝ exp(−β); and log p(X | z) there."""
    beta = [beta_true, beta_false]
    now = block_model.log_evidence(counts, block_model.log_beta(beta_true, beta_false, 0))
    for step in range(BETA_STEPS_PER_SWEEP):
        which = step % 2
        proposed = beta.copy()
        proposed[which] *= math.exp(0.5 * rng.normal())
        then = block_model.log_evidence(counts, block_model.log_beta(proposed[0], proposed[1], 0))
        log_jacobian = math.log(proposed[which] / beta[which])
        if math.log(1 - rng.random()) < then - now + beta[which] - proposed[which] + log_jacobian:
            beta, now = proposed, then
    return beta[0], beta[1], now


def _draw_gamma(sizes: Ids, rng: np.random.Generator) -> float:
    """γ from a grid, under p(γ) ∝ exp(−γ)."""
    logs = np.array([block_model.log_partition(sizes, gamma) - gamma + math.log(gamma) for gamma in GAMMA_GRID])
    shares = np.exp(logs - logs.max())
    return float(rng.choice(GAMMA_GRID, p=shares / shares.sum()))


def predictive_mean(solver: Gibbs, z: Ids, hyper: NDArray[np.float64], dtype: Any) -> Bilinear:
    """a_iᵀ R_k a_j = the mean over samples of E[η_k z_i z_j | X, z]."""
    chosen = _samples_that_fit(z, math.isqrt(MAX_R_ENTRIES // solver.n_relations))
    partitions, partition = np.unique(z[chosen], axis=0, return_inverse=True)
    tables: list[Slices] = [np.zeros(())] * len(partitions)  # many samples differ in γ and β alone
    for s, p in zip(chosen, partition.reshape(-1), strict=True):
        tables[p] = tables[p] + solver.block_means(z[s], *hyper[s, 1:3]) / len(chosen)
    return bilinear(partitions, tables, dtype)


def _samples_that_fit(z: Ids, max_components: int) -> Ids:
    """As many evenly spaced samples as need at most this number of components, and at least one."""
    count = len(z)
    while True:
        chosen = np.linspace(0, len(z) - 1, count).round().astype(np.int64)
        if count == 1 or n_components(z[chosen]) <= max_components:
            return chosen
        count = (count + 1) // 2


def groups(facts: Facts, clusters: Ids) -> list[list[str]]:
    """The names of the members of each cluster."""
    names: list[list[str]] = [[] for _ in range(int(clusters.max()) + 1)]
    for name, c in zip(facts.entities, clusters.tolist(), strict=True):
        names[c].append(name)
    return names


@dataclass(eq=False, repr=False)
class IRM(Estimator):
    """Infinite relational model: clusters of entities, as many as the facts ask for.

    Whether a relation holds depends on the clusters of subject and object alone. Partitions are drawn from their
    posterior by Gibbs sampling with splits and mergers; probabilities are posterior means, averaged over the samples
    of all chains. Unobserved cells count nothing; a fact of weight w counts as w true cells, and as none if w = 0.

    Parameters
    ----------
    chains : Markov chains, each from a start of its own; their samples are averaged
    burn_in : sweeps of each chain before its first sample
    n_samples : samples of each chain, one per sweep
    dtype : "float32" or "float64", the type of the factors
    random_state : seed of the chains

    Attributes
    ----------
    clusters_ : (N,) cluster of each entity in the sample of highest posterior, the largest cluster being 0
    groups_ : the names of the members of each cluster

    >>> import relatent
    >>> from relatent.baselines.irm import IRM
    >>> boys, girls = ["Al", "Bo", "Cy", "Di"], ["Eva", "Fay", "Gil", "Hal"]
    >>> pairs = [(one, "likes", other) for one in boys for other in girls]
    >>> model = IRM(chains=1, burn_in=5, n_samples=5).fit(relatent.Facts.from_arrays(*zip(*pairs)))
    >>> model.groups_
    [['Al', 'Bo', 'Cy', 'Di'], ['Eva', 'Fay', 'Gil', 'Hal']]
    >>> bool(model.factors_.probability("Al", "likes", "Fay") > 0.8)
    True
    """

    _unsupported = ("validation", "workers")  # it averages all its samples: there is no best one to keep

    chains: int = 3
    burn_in: int = 30
    n_samples: int = 10
    dtype: str = "float32"
    random_state: RandomState = 0

    def _fit(self, arguments: FitArguments) -> None:
        shard, _, progress, _ = arguments
        facts = shard.facts
        dtype = start.float_type(self.dtype)
        solver = Gibbs(
            facts,
            chains=self.chains,
            burn_in=self.burn_in,
            n_samples=self.n_samples,
            random_state=self.seed_,
        )
        state, trace = run(
            solver,
            solver.start(),
            max_iter=solver.sweeps,
            tol=0.0,
            progress=progress,
            checkpoint=self._checkpoint(arguments),
        )
        self.clusters_ = state.kept_z[np.argmax(state.kept_hyper[:, 3])].astype(np.int64)
        self.groups_ = groups(facts, self.clusters_)
        named = self.groups_ if facts.n_entities <= MAX_NAMED_ENTITIES else []
        learned = LearnedRecord(n_clusters=(len(self.groups_),), groups=tuple(map(tuple, named)))
        A, R = predictive_mean(solver, state.kept_z, state.kept_hyper, dtype)
        b = np.zeros(facts.n_relations)
        self._finish(shard, A, R, b, IdentityLink(), trace, learned, loss=ObjectiveTerm("block-model"))

    def _check_settings(self, facts: Facts) -> None:
        super()._check_settings(facts)
        for name in ("chains", "burn_in", "n_samples"):
            check_count(name, getattr(self, name))
