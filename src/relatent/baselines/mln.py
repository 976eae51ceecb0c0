"""A clausal Markov logic network: clauses found by structure search, weights by weighted pseudo-likelihood.

    WPLL(w) = Σ_k (n̄ / n_k) Σ_ij c_ijk log P(x_ijk | all other atoms),    log-odds θ = Σ_c w_c Δ_c    (clauses.py)

n_k counts the observed atoms of relation k, n̄ is their mean, c the confidence in a fact. Minimised is
−WPLL + l1 Σ |w_c| (unit clauses apart) + l2 Σ w_c². The search is grafting (Perkins, Lacker & Theiler 2003), shortest
clauses first as in Kok & Domingos (2005): score every candidate by the gradient at the current model, add the best,
refit all weights, drop those that are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ..arrays import Ids, Mask, Slices, Vector
from ..backend.blas_threads import one_blas_thread
from ..data.dense_tensors import dense_tensors
from ..data.facts import Facts
from ..data.heldout import HeldOut, log_loss
from ..errors import InputError
from ..fit.early_stopping import Watch
from ..fit.estimators.base import Estimator, FitArguments
from ..fit.loop import run
from ..model.links import LogisticLink
from ..model.objective_description import PSEUDO_LIKELIHOOD, ObjectiveTerm
from ..model.patterns import Patterns
from ..model.provenance import LearnedRecord, WeightedClause
from ..parameter_checks import check_count, check_penalty
from ..random_state import RandomState
from .clause_weights import MIN_WEIGHT, Features, learn_weights
from .clauses import (
    Clause,
    ClauseCandidates,
    Codes,
    Evidence,
    Shape,
    best_chains,
    best_of_each_head,
    body_of,
    short_clauses,
    unit_clauses,
    unlike,
)
from .mln_sampled import ClauseLimits, RuleSearch

MAX_EXACT_CELLS = 20_000_000  # every cell gets a score of its own
MAX_CLAUSES = 1000  # by default, exact
MAX_CLAUSES_PER_HEAD = 20  # by default, sampled
MAX_ZEROS_PER_RELATION = 40_000  # false atoms in the likelihood; of more, this number is drawn and weighted up
METHODS = ("auto", "exact", "sampled")
VALIDATION_SHARE = 0.1  # of the observed atoms, to judge the search
MIN_VALIDATION_FACTS = 100  # with fewer, the penalties alone decide, and nothing is held out
PATIENCE = 2  # rounds of search without improvement of the validation loss
CLAUSES_PER_HEAD = 10  # new clauses per head and round
MEAN_FIELD_SWEEPS = 3  # over the unobserved atoms
SEARCH_STEPS, FINAL_STEPS = 60, 100  # L-BFGS-B steps per refit


@dataclass(eq=False, repr=False)
class MarkovLogic(Estimator):
    """A Markov logic network of short clauses: rules one can read, with weights.

    Clauses are k(x,y), k(x,x), k1(x,y) ⇒ k(x,y), k1(y,x) ⇒ k(x,y) and the chains k1 ∧ k2 ⇒ k(x,y) through a shared z,
    in all four directions. A chain counts once for each (x, y), however many z lead from x to y: measured inside the
    training data, the area under precision and recall is .95 on Kinships, and .92 with one grounding for each z. Where
    few entities have very many facts, some z nearly always leads from x to y and counting them tells more: on Nations
    .79 against .84 with `each_z`.

    Atoms that are unobserved, or facts of weight 0, stay out of the likelihood and are false in the counts while the
    weights are learned; then mean field infers them, the observed atoms being evidence. A fact's weight is the
    confidence of its own term in the likelihood. Without `validation` a tenth of the observed atoms, drawn at random,
    judges the search where it holds a hundred facts; the final weights are learned from all. Attributes are not used.
    Every atom gets its log-odds, so `factors_` has A = I and R_k = Θ_k.

    Beyond 2·10⁷ cells, or with method "sampled", a clause acts on its head alone, so that each relation is a logistic
    regression on the bodies that connect its pairs: learned from all facts and from zeros of sampled subjects, weighted
    up (`mln_sampled`). Then `factors_` has no vectors (rank 0) but the rules, which are matched with the facts when
    scores are asked for; unobserved atoms are false in bodies, and `validation` is not used.

    Parameters
    ----------
    method : "exact", all atoms; "sampled"; "auto", sampled beyond 2·10⁷ cells
    max_length : maximum number of atoms in a clause, 1 to 3
    max_clauses : maximum number of clauses, not counting the one of a single atom for each relation; None: 1,000 if
        exact, 20 per relation if sampled
    each_z : count a chain once for each z, as plain Markov logic does, instead of once for each (x, y)
    l1, l2 : penalties on the weights, Σ |w| and Σ w²; a clause must explain more than `l1` atoms to be added
    max_iter, tol : maximum number of rounds; the search stops when the objective changes by less than tol of itself;
        sampled, each relation has one round, and neither is used
    random_state : seed of the draw of atoms that judge the search, and of sampled subjects

    Attributes
    ----------
    clauses_ : list of Clause, heaviest first

    >>> import relatent
    >>> n = 20
    >>> facts = relatent.Facts.from_arrays(
    ...     [f"person {i}" for i in (*range(n - 1), *range(n - 2))],
    ...     ["parent"] * (n - 1) + ["grandparent"] * (n - 2),
    ...     [f"person {i}" for i in (*range(1, n), *range(2, n))],
    ... )
    >>> model = MarkovLogic().fit(facts)
    >>> print(model.clauses_[0].text)
    parent(x,z) ∧ parent(z,y) ⇒ grandparent(x,y)
    """

    _unsupported = ("workers",)

    max_length: int = 3
    max_clauses: int | None = None
    each_z: bool = False
    l1: float = 2.0
    l2: float = 0.3
    max_iter: int = 50
    tol: float = 0.01
    random_state: RandomState = 0
    method: str = "auto"

    def _fit(self, arguments: FitArguments) -> None:
        if self._is_sampled(arguments.shard.facts):
            self._fit_sampled(arguments)
        else:
            self._fit_exact(arguments)

    def _is_sampled(self, facts: Facts) -> bool:
        return self.method == "sampled" or (self.method == "auto" and facts.n_cells > MAX_EXACT_CELLS)

    def _fit_sampled(self, arguments: FitArguments) -> None:
        shard, validation, progress, _ = arguments
        facts, K = shard.facts, shard.n_relations
        if validation is not None:
            raise InputError("MarkovLogic has no rounds to stop early if sampled; leave validation out")
        per_head = MAX_CLAUSES_PER_HEAD if self.max_clauses is None else max(1, self.max_clauses // K)
        limits = ClauseLimits(self.max_length, per_head, self.each_z, self.l1, self.l2)
        search = RuleSearch(facts, limits, self.seed_)
        checkpoint = self._checkpoint(arguments)
        state, trace = run(search, search.start(), max_iter=K, tol=0.0, progress=progress, checkpoint=checkpoint)
        is_unit = state.codes[:, 0] == Shape.UNIT
        bodies = [body_of(code) for code in state.codes[~is_unit]]
        heads = state.codes[~is_unit, 3]
        rules = Patterns.of_rules(facts, heads, bodies, state.weights[~is_unit], each_z=bool(self.each_z))
        A, R = np.empty((facts.n_entities, 0), np.float32), np.empty((K, 0, 0), np.float32)
        learned = self._keep_clauses(facts, state.codes, state.weights)
        loss = ObjectiveTerm("conditional-likelihood")
        bias = state.weights[is_unit]
        self._finish(shard, A, R, bias, LogisticLink(), trace, learned, loss=loss, method="sampled", patterns=rules)

    def _keep_clauses(self, facts: Facts, codes: Codes, weights: Vector) -> LearnedRecord:
        found = [Clause.of(code, weight, facts.relations) for code, weight in zip(codes, weights, strict=True)]
        self.clauses_: list[Clause] = sorted(found, key=lambda clause: -clause.weight)
        return LearnedRecord(clauses=tuple(WeightedClause(clause.text, clause.weight) for clause in self.clauses_))

    def _fit_exact(self, arguments: FitArguments) -> None:
        shard, validation, progress, _ = arguments
        facts = shard.facts
        X, W = (tensor.astype(np.float32) for tensor in dense_tensors(facts))
        rng = np.random.default_rng(self.seed_)
        validation_cells = (
            _draw_validation_cells(X, W, rng) if validation is None else HeldOut.of(validation, facts, self.seed_)
        )
        W_search = _mask_cells(W, validation_cells.cells) if validation is None else W
        with one_blas_thread():
            likelihood = self._likelihood(X, _balanced(X, W_search, rng), validation_cells)
            search = Search(
                likelihood,
                max_length=self.max_length,
                max_clauses=self.max_clauses or MAX_CLAUSES,
                undirected=facts.undirected,
            )
            state, trace = run(
                search,
                search.start(),
                max_iter=self.max_iter,
                tol=self.tol,
                watch=Watch(search.loss, patience=PATIENCE) if len(validation_cells.cells) else None,
                progress=progress,
                checkpoint=self._checkpoint(arguments),
            )
            everything = self._likelihood(X, _balanced(X, W, rng))
            codes, weights, _ = everything.refit(state.codes, state.weights, steps=FINAL_STEPS)
            theta = infer(X, W == 0, codes, weights, each_z=self.each_z)
        learned = self._keep_clauses(facts, codes, weights)
        A, b = np.eye(facts.n_entities, dtype=np.float32), np.zeros(facts.n_relations)
        self._finish(shard, A, theta, b, LogisticLink(), trace, learned, loss=ObjectiveTerm(PSEUDO_LIKELIHOOD))

    def _likelihood(self, X: Slices, W: Slices, validation_cells: HeldOut | None = None) -> Likelihood:
        return Likelihood(X, W, l1=self.l1, l2=self.l2, each_z=self.each_z, validation_cells=validation_cells)

    def _check_settings(self, facts: Facts) -> None:
        super()._check_settings(facts)
        if self.max_length not in (1, 2, 3) or isinstance(self.max_length, bool):
            raise InputError(f"max_length must be 1, 2 or 3, got {self.max_length!r}")
        if self.max_clauses is not None:
            check_count("max_clauses", self.max_clauses)
        if self.method not in METHODS:
            raise InputError(f"method must be {', '.join(METHODS)}, got {self.method!r}")
        if not isinstance(self.each_z, (bool, np.bool_)):
            raise InputError(f"each_z must be True or False, got {self.each_z!r}")
        check_penalty("l1", self.l1)
        check_penalty("l2", self.l2)
        if self.method == "exact" and facts.n_cells > MAX_EXACT_CELLS:
            raise InputError(
                f"exact scores every cell, at most {MAX_EXACT_CELLS:,}, got {facts.n_cells:,}; use method='sampled'"
            )


# --- the likelihood


class Likelihood:
    """−WPLL of weighted clauses over the atoms with W > 0, and the weights that minimise it with its penalties.

    X and W are (K, N, N). Atoms with W = 0 are false in the counts. Atoms of `validation_cells` are scored but
    do not count.
    """

    def __init__(
        self,
        X: Slices,
        W: Slices,
        *,
        l1: float,
        l2: float,
        each_z: bool = False,
        validation_cells: HeldOut | None = None,
    ):
        self.X, self.W, self.l1, self.l2 = X, W, l1, l2
        self.validation_cells = validation_cells
        self.evidence = Evidence(X * (W > 0), each_z=each_z)
        looked_at = W > 0
        if validation_cells is not None:
            s, k, o = validation_cells.cells.T
            looked_at[k, s, o] = True
        self.atoms = [np.flatnonzero(mask) for mask in looked_at.reshape(len(X), -1)]
        self._known: dict[bytes, dict[int, Vector]] = {}

    def features(self, codes: Codes) -> list[Features]:
        """The Δ of the clauses, for each relation."""
        known = {key: self._known[key] if key in self._known else self._deltas(code) for key, code in _keyed(codes)}
        self._known = known  # without the clauses that were dropped
        columns: list[list[int]] = [[] for _ in self.X]
        rows: list[list[Vector]] = [[] for _ in self.X]
        for column, (key, _) in enumerate(_keyed(codes)):
            for k, delta in known[key].items():
                columns[k].append(column)
                rows[k].append(delta)
        return [
            Features(
                np.array(columns[k]),
                np.stack(rows[k]),
                self.X[k].reshape(-1)[atoms],
                self.W[k].reshape(-1)[atoms],
            )
            for k, atoms in enumerate(self.atoms)
        ]

    def _deltas(self, code: Ids) -> dict[int, Vector]:
        return {k: delta.reshape(-1)[self.atoms[k]] for k, delta in self.evidence.deltas(code).items()}

    def scores(self, codes: Codes, weights: Vector) -> Slices:
        """θ of the atoms looked at, 0 elsewhere, (K, N, N)."""
        theta = np.zeros_like(self.X)
        for k, part in enumerate(self.features(codes)):
            theta[k].reshape(-1)[self.atoms[k]] = weights[part.columns].astype(theta.dtype) @ part.F
        return theta

    def refit(self, codes: Codes, weights: Vector, *, steps: int) -> tuple[Codes, Vector, float]:
        """The best weights from the given ones on, clauses of no weight left out; and the penalised objective."""
        n_units = len(self.X)
        w, objective = learn_weights(self.features(codes), weights, n_units, self.l1, self.l2, steps=steps)
        keep = np.abs(w) >= MIN_WEIGHT
        keep[:n_units] = True
        return codes[keep], w[keep], objective


def _keyed(codes: Codes) -> list[tuple[bytes, Ids]]:
    return [(code.tobytes(), code) for code in codes]


def _draw_validation_cells(X: Slices, W: Slices, rng: np.random.Generator) -> HeldOut:
    """A random share of the observed atoms, to judge the search."""
    k, s, o = np.nonzero((rng.random(W.shape) < VALIDATION_SHARE) & (W > 0))
    cells, truth = np.stack([s, k, o], axis=1), X[k, s, o] > 0
    return HeldOut(cells, truth) if truth.sum() >= MIN_VALIDATION_FACTS else HeldOut(cells[:0], truth[:0])


def _mask_cells(W: Slices, cells: Ids) -> Slices:
    s, k, o = cells.T
    W = W.copy()
    W[k, s, o] = 0
    return W


def _balanced(X: Slices, W: Slices, rng: np.random.Generator) -> Slices:
    """Confidences times n̄ / n_k; a relation with very many false atoms is represented by a random draw of them."""
    n = np.maximum((W > 0).sum(axis=(1, 2)), 1)
    balanced: Slices = W * (n.mean() / n).astype(W.dtype)[:, None, None]
    for k, flat in enumerate(balanced.reshape(len(W), -1)):
        zeros = np.flatnonzero((flat > 0) & (X[k].reshape(-1) == 0))
        if len(zeros) > MAX_ZEROS_PER_RELATION:
            drawn = rng.choice(zeros, MAX_ZEROS_PER_RELATION, replace=False)
            kept = flat[drawn] * (len(zeros) / MAX_ZEROS_PER_RELATION)
            flat[zeros] = 0
            flat[drawn] = kept
    return balanced


# --- the search


class ClauseSearchState(NamedTuple):
    """The clauses so far and their weights; those of one atom come first."""

    codes: Codes  # (m, 4)
    weights: Vector  # (m,), float64
    objective: float
    rounds: int
    added: int  # clauses added in the last round
    full: int  # 1 if the model has max_clauses clauses


class Search:
    """The solver: a step is one round, new clauses and then all weights."""

    window = 1
    growing = ("codes", "weights")  # fields of the state that have more rows after each step

    def __init__(
        self, likelihood: Likelihood, *, max_length: int, max_clauses: int, undirected: frozenset[int] = frozenset()
    ):
        self.likelihood, self.undirected = likelihood, undirected
        self.max_length = max_length
        self.max_clauses = max_clauses

    def start(self) -> ClauseSearchState:
        """The unit clauses alone."""
        codes = unit_clauses(len(self.likelihood.X))
        codes, weights, objective = self.likelihood.refit(codes, np.zeros(len(codes)), steps=SEARCH_STEPS)
        return ClauseSearchState(codes, weights, objective, rounds=0, added=0, full=0)

    def is_valid(self, state: ClauseSearchState) -> bool:
        """Whether the clauses of a state that was read consist of relations that exist."""
        shapes, relations, k = state.codes[:, 0], state.codes[:, 1:], len(self.likelihood.X)
        possible = np.isin(shapes, list(Shape)).all() and relations.min() >= -1 and relations.max() < k
        heads = bool(possible) and bool(relations[:, 2].min() >= 0)
        return heads and len(state.codes) == len(state.weights)

    def finished(self, state: ClauseSearchState) -> str | None:
        """The model is full, or no candidate is worth its penalty."""
        if state.full:
            return f"there are max_clauses={self.max_clauses} clauses"
        return None if state.added else "no other clause is worth its penalty"

    def step(self, state: ClauseSearchState) -> ClauseSearchState:
        """One round. The first tries the shorter clauses alone, and leaves space for the chains."""
        free = self.max_clauses - (len(state.codes) - len(self.likelihood.X))
        new = self._candidates(state).codes[:free]
        codes = np.concatenate([state.codes, new])
        weights = np.concatenate([state.weights, np.zeros(len(new))])
        codes, weights, objective = self.likelihood.refit(codes, weights, steps=SEARCH_STEPS)
        return ClauseSearchState(codes, weights, objective, state.rounds + 1, len(new), int(len(new) == free))

    def _candidates(self, state: ClauseSearchState) -> ClauseCandidates:
        """Clauses to add, most promising first."""
        likelihood, evidence = self.likelihood, self.likelihood.evidence
        p = expit(likelihood.scores(state.codes, state.weights))
        residual, variance = likelihood.W * (likelihood.X - p), likelihood.W * p * (1 - p)
        found = short_clauses(
            evidence, residual, variance, likelihood.l1, pairs=self.max_length > 1, undirected=self.undirected
        )
        found = unlike(found, state.codes)
        if state.rounds == 0 and len(found.codes):
            return found.take(np.arange(min(len(found.codes), self.max_clauses // 2 + 1)))
        if self.max_length > 2:
            chains = best_chains(evidence, residual, variance, likelihood.l1, each=CLAUSES_PER_HEAD)
            found = found.joined_with(unlike(chains, state.codes))
        return best_of_each_head(found, CLAUSES_PER_HEAD)

    def loss(self, state: ClauseSearchState) -> float:
        """Mean −log likelihood of the validation cells."""
        validation_cells = self.likelihood.validation_cells
        assert validation_cells is not None
        s, k, o = validation_cells.cells.T
        p = expit(self.likelihood.scores(state.codes, state.weights)[k, s, o]).astype(np.float64)
        return log_loss(validation_cells.truth, p, validation_cells.weights)


def infer(X: Slices, unobserved: Mask, codes: Codes, weights: Vector, *, each_z: bool) -> Slices:
    """Log-odds of every atom, (K, N, N); unobserved ones by mean field, half a step at a time after the first."""
    X = np.where(unobserved, 0, X)
    for sweep in range(MEAN_FIELD_SWEEPS):
        theta = Evidence(X, each_z=each_z).scores(codes, weights)
        if not unobserved.any():
            break
        p = expit(theta[unobserved])
        X[unobserved] = (X[unobserved] + p) / 2 if sweep else p
    return theta
