"""Weights of clauses on graphs of any size: conditional likelihood of the heads, from all facts and sampled zeros.

Given its body, a clause acts on its head alone, so that relation k has the log-odds θ = b_k + Σ_c w_c n_c over the
clauses with head k, where n_c is 1 if the body connects x and y (with `each_z`, the number of z that do): the
conditional likelihood of Markov logic, a logistic regression (Huynh & Mooney 2008). Minimised for each relation is

    Σ over facts c [softplus(θ) − θ]  +  Σ over zeros softplus(θ)  +  l1 Σ |w|  +  l2 (b² + Σ w²)

Where no body connects a pair, θ is b_k: these zeros need no list, only their number. The others are enumerated by
sparse products from some subjects, drawn among those with facts of k and among all others, and weighted by 1 / the
share that was drawn. With all subjects the sum is exact; else it is unbiased, for any weights:

    Σ over zeros softplus(θ)  ≈  Σ over the listed zeros v softplus(θ)  +  (n_zeros − Σ v) softplus(b_k)

Candidates are bodies that hold for some of the facts of the head (`StepGraph.candidates`), worth adding by their gain
at the model without them, as in the exact search.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..arrays import Ids, Vector
from ..data.cell_keys import cells_of, sorted_unique
from ..data.facts import Facts
from ..model.step_graph import Body, StepGraph
from .clause_weights import MIN_WEIGHT, Features, learn_weights
from .clauses import ClauseCandidates, Codes, Shape, affordable, body_codes, gain, unit_clauses

LISTED_PER_STRATUM = 200_000  # zeros times clauses, about, per relation and stratum of subjects
MIN_SUBJECTS = 32  # drawn per stratum
STEPS = 200  # of L-BFGS-B per relation


class ClauseLimits(NamedTuple):
    """Which clauses are learned, and their penalties, as in `MarkovLogic`."""

    max_length: int
    per_head: int
    each_z: bool
    l1: float
    l2: float


class RuleSearchState(NamedTuple):
    """The clauses of the relations so far and their weights."""

    codes: Codes  # (m, 4)
    weights: Vector  # (m,), float64
    objective: float
    relations: int  # those done


class RuleSearch:
    """The solver: a step learns the clauses of one relation."""

    window = 1 << 62  # the search ends with the last relation, not by a small change
    growing = ("codes", "weights")

    def __init__(self, facts: Facts, limits: ClauseLimits, seed: int):
        self.facts, self.limits, self.seed = facts, limits, seed
        self.graph = StepGraph(facts.subset(facts.confidences > 0))

    def start(self) -> RuleSearchState:
        """No clauses."""
        return RuleSearchState(np.empty((0, 4), np.int64), np.empty(0), 0.0, 0)

    def is_valid(self, state: RuleSearchState) -> bool:
        """Whether the clauses of a state that was read consist of relations that exist."""
        shapes, relations, k = state.codes[:, 0], state.codes[:, 1:], self.facts.n_relations
        if not 0 < state.relations <= k or not 0 < len(state.codes) == len(state.weights):
            return False
        possible = np.isin(shapes, list(Shape)).all() and relations.min() >= -1 and relations.max() < k
        return bool(possible) and bool(relations[:, 2].min() >= 0)

    def finished(self, state: RuleSearchState) -> str | None:
        """All relations are done."""
        return "every relation has its clauses" if state.relations == self.facts.n_relations else None

    def step(self, state: RuleSearchState) -> RuleSearchState:
        """The clauses of the next relation."""
        k = state.relations
        bodies = self._bodies(k)
        cells = listed_cells(self.graph, self.facts, k, bodies, self._rng(k, 1), each_z=self.limits.each_z)
        chosen = self._promising(cells)
        rows = np.concatenate([[0], 1 + chosen])  # with the unit clause
        cells = Features(np.arange(len(rows)), cells.F[rows], cells.x, cells.c)
        start = np.zeros(len(rows))
        start[0] = np.log((cells.c @ cells.x + 0.5) / (cells.c @ (1 - cells.x) + 0.5))
        weights, objective = learn_weights([cells], start, 1, self.limits.l1, self.limits.l2, steps=STEPS)
        codes = np.concatenate([unit_clauses(k + 1)[k:], body_codes([bodies[c] for c in chosen], k)])
        kept = np.abs(weights) >= MIN_WEIGHT
        kept[0] = True
        return RuleSearchState(
            np.concatenate([state.codes, codes[kept]]),
            np.concatenate([state.weights, weights[kept]]),
            state.objective + objective,
            k + 1,
        )

    def _bodies(self, k: int) -> list[Body]:
        """That of k(x,x), then candidates of allowed length."""
        found = self.graph.candidates(k, self._rng(k, 0)) if self.limits.max_length > 1 else []
        return [(), *(body for body in found if len(body) < self.limits.max_length)]

    def _rng(self, *numbers: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *numbers])  # a resumed fit draws the same

    def _promising(self, cells: Features) -> Ids:
        """The bodies worth their penalty, most promising first."""
        F, p = cells.F[1:], float(cells.c @ cells.x) / float(cells.c.sum())
        G, H = F @ (cells.c * (cells.x - p)), F.multiply(F) @ (cells.c * p * (1 - p))
        numbers = np.arange(F.shape[0])[:, None]
        K = self.facts.n_relations
        possible = {1: K, 2: 2 * K**2}.get(self.limits.max_length, 4 * K**3)
        return affordable(ClauseCandidates(numbers, gain(G, G, H, self.limits.l1)), possible).codes[
            : self.limits.per_head, 0
        ]


def listed_cells(
    graph: StepGraph, facts: Facts, k: int, bodies: list[Body], rng: np.random.Generator, *, each_z: bool = False
) -> Features:
    """Facts of a relation and zeros that bodies connect, of some subjects; the last two stand for all other zeros.

    The first clause is k(x,y) and the first body must be () of k(x,x).
    """
    own = slice(facts.starts[k], facts.starts[k + 1])
    s, o = facts.subjects[own], facts.objects[own]
    counts = [np.ones(len(s)), s == o, *(graph.n_paths(body, s, o) for body in bodies[1:])]
    F, x, c = [sp.csc_matrix(np.stack(counts).astype(np.float64))], [np.ones(len(s))], [facts.confidences[own]]
    for subjects, weight in _strata(graph, k, bodies[1:], rng):
        zeros = _zeros_from(graph, facts, k, bodies[1:], subjects)
        n = zeros.shape[1]
        F.append(sp.vstack([np.ones((1, n)), sp.csr_matrix((1, n)), zeros]))
        x.append(np.zeros(n))
        c.append(np.full(n, weight))
    n_zeros, n_diagonal = facts.n_observed()[k] - len(s), _n_zeros_on_diagonal(facts, k)
    rest = n_zeros - n_diagonal - sum(float(part.sum()) for part in c[1:])
    others = np.zeros((1 + len(bodies), 2))
    others[0], others[1, 0] = 1, 1
    F.append(sp.csc_matrix(others))
    joined = sp.hstack(F).tocsr()
    if not each_z:
        joined.data[:] = 1
    weights = np.concatenate([*c, [n_diagonal, rest]])
    return Features(np.arange(1 + len(bodies)), joined, np.concatenate([*x, np.zeros(2)]), weights)


def _n_zeros_on_diagonal(facts: Facts, k: int) -> int:
    listed = np.concatenate([facts.triples[facts.starts[k] : facts.starts[k + 1]], facts.unobserved])
    return facts.n_entities - int(np.sum((listed[:, 1] == k) & (listed[:, 0] == listed[:, 2])))


def _strata(graph: StepGraph, k: int, bodies: list[Body], rng: np.random.Generator) -> Iterator[tuple[Ids, float]]:
    """Subjects drawn among those with facts of a relation and among others with a first step; 1 / the share drawn."""
    if not bodies:
        return
    n_steps = [np.diff(graph.matrix(step).indptr) for step in {body[0] for body in bodies}]
    can_start, has_facts = np.any(n_steps, axis=0), np.diff(graph.matrix(2 * k).indptr) > 0
    for population in (np.flatnonzero(can_start & has_facts), np.flatnonzero(can_start & ~has_facts)):
        if not len(population):
            continue
        pilot = rng.choice(population, min(MIN_SUBJECTS, len(population)), replace=False)
        size = max(1, sum(graph.paths_from(pilot, body).nnz for body in bodies)) / len(pilot)
        n = min(len(population), max(MIN_SUBJECTS, int(LISTED_PER_STRATUM / size)))
        yield np.sort(rng.choice(population, n, replace=False)), len(population) / n


def _zeros_from(graph: StepGraph, facts: Facts, k: int, bodies: list[Body], subjects: Ids) -> sp.csr_matrix:
    """How many paths of each body lead from some subjects to objects that are zeros, (bodies, zeros)."""
    keys, counts = [], []
    for body in bodies:
        P = graph.paths_from(subjects, body)
        rows = np.repeat(subjects.astype(np.int64), np.diff(P.indptr))
        keys.append((k * facts.n_entities + rows) * facts.n_entities + P.indices)
        counts.append(P.data)
    everything = np.concatenate(keys)
    cells = sorted_unique(everything)
    place = np.searchsorted(cells, everything)
    which = np.repeat(np.arange(len(bodies)), [len(part) for part in keys])
    F = sp.csc_matrix((np.concatenate(counts).astype(np.float64), (which, place)), shape=(len(bodies), len(cells)))
    triples = cells_of(cells, facts.n_entities)
    return F[:, np.flatnonzero(~(facts.contains(triples) | facts.is_unobserved(triples)))]
