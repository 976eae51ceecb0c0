"""Probabilities of cells that are not listed, given the share of true facts that are missing from the data.

Facts that are missing at random rank among the unlisted cells of their relation as listed facts do when a fit does not
have them. So some facts are held out, as zeros, and their ranks found by a fit to the rest. Of a relation with n facts,
n · missing / (1 − missing) more are expected, spread over the unlisted cells by these ranks: the probability of a cell
is the number of facts expected around its rank per cell. Ranks and not scores are carried over from the fits to fewer
facts, because scores grow with the number of facts. Sums of probabilities therefore agree with the prior.

A rank is divided by the n of its relation, which makes relations comparable: a relation with few facts borrows the
ranks of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.isotonic import isotonic_regression

from ..arrays import Ids, Matrix, Vector
from ..data.cell_keys import cell_keys
from ..data.facts import Facts
from ..data.heldout import HeldOut
from ..data.split import split
from ..errors import InputError
from ..fit.estimators.base import Estimator
from ..model.factors import Factors
from ..model.links import UnlistedLink
from ..progress import Progress, reporting
from .parallel import captured_warnings, fit_threads, n_processes, run_tasks, threads_for
from .score_maps import fit_platt

MIN_HELDOUT_FACTS = 1500  # held out by as many fits as needed, where there are that many
MAX_SCORED_CELLS = 1 << 27  # scored per fit; of larger data, rows are sampled
MIN_ROWS = 32  # scored per relation
CELLS_PER_BLOCK = 1 << 22  # scored together
BORROWED_FACTS = 20.0  # weight of the ranks of all relations, in facts, beside a relation's own
FACTS_PER_STEP = 3.0  # of the isotonic map
MAX_KNOTS = 32  # per relation
MAX_STORED_KNOTS = 100_000  # of all relations: they are in the header of the model file
MIN_SCORE_RANGE = 1e-6  # smaller differences between scores are rounding errors
MAX_LOG_ODDS = 4.6  # p = .99
N_POINTS = 1000  # of the distribution of the scores of a relation


class UnlistedScores(NamedTuple):
    """Scores of the unlisted cells of one relation, rising, and how many cells each stands for."""

    scores: Vector  # (m,)
    weights: Vector  # (m,)

    @property
    def ranks(self) -> Vector:
        """The number of cells above each score and half of its own, (m,)."""
        own = self.weights
        return np.cumsum(own[::-1])[::-1] - own / 2


def heldout_ranks(
    estimator: Estimator,
    facts: Facts,
    folds: int,
    random_state: int,
    *,
    heldout_folds: int | None = None,
    validation: Facts | HeldOut | None = None,
    progress: bool | Progress | None = None,
) -> list[list[Vector]]:
    """Ranks of held-out facts among unlisted cells, divided by the number of facts: one list per fit and relation.

    Every fit holds out one fact of `folds` as a zero; mirrored facts of symmetric relations stay together.
    """
    if isinstance(folds, bool) or folds < 2:
        raise InputError(f"folds must be at least 2, got {folds}")
    if len(facts) < 2:
        raise InputError(f"calibration needs 2 facts or more, got {len(facts)}")
    n_heldout = max(1, len(facts) // folds)
    n_fits = min(folds, -(-MIN_HELDOUT_FACTS // n_heldout)) if heldout_folds is None else heldout_folds
    if isinstance(n_fits, bool) or not isinstance(n_fits, (int, np.integer)) or not 1 <= n_fits <= folds:
        raise InputError(f"heldout_folds must be between 1 and {folds}, the number of folds, got {n_fits!r}")
    rng = np.random.default_rng(random_state)
    seeds = rng.integers(0, 2**31, n_fits).tolist()
    tasks = [(estimator, facts, n_heldout, seed, validation) for seed in seeds]
    found = []
    with reporting(progress, "held-out facts") as report:
        for ranks in run_tasks(_fit_and_rank, tasks, min(n_processes(None, facts), n_fits), in_order=True):
            found.append(ranks)
            report(len(found), n_fits, "held-out facts")
    return found


def _fit_and_rank(
    estimator: Estimator, facts: Facts, n_heldout: int, seed: int, validation: Facts | HeldOut | None
) -> list[Vector]:
    """Ranks of held-out facts in a fit to the others, per relation."""
    rest, heldout = split(facts, test_size=n_heldout, random_state=seed)
    with captured_warnings(), fit_threads(threads_for(facts)):
        model = clone(estimator)
        factors = (model.fit(rest) if validation is None else model.fit(rest, validation)).factors_
    counts, found = facts.counts(), []
    for k, sample in enumerate(unlisted_scores(factors, facts, seed)):
        cells = heldout.triples[heldout.triples[:, 1] == k]
        is_flat = len(sample.scores) and sample.scores[0] == sample.scores[-1]
        theta = np.full(len(cells), sample.scores[0]) if is_flat else factors.score(*cells.T)
        above = np.append(np.cumsum(sample.weights[::-1])[::-1], 0.0)
        ends = [above[np.searchsorted(sample.scores, theta, side=side)] for side in ("left", "right")]
        found.append((ends[0] + ends[1]) / 2 / max(counts[k], 1))
    return found


def unlisted_scores(factors: Factors, facts: Facts, random_state: int) -> Iterator[UnlistedScores]:
    """Scores of the observed cells without a fact, per relation: of all rows, or of a sample of rows with weights."""
    n, rng = facts.n_entities, np.random.default_rng(random_state)
    listed = np.sort(np.concatenate([facts.keys, cell_keys(facts.unobserved, n)]))
    n_rows = max(MIN_ROWS, MAX_SCORED_CELLS // (n * facts.n_relations))
    for k in range(facts.n_relations):
        rows, row_weights = _sample_rows(facts, k, n_rows, rng)
        scores, weights = [np.empty(0, factors.A.dtype)], [np.empty(0)]
        for block in np.array_split(np.arange(len(rows)), -(-len(rows) * n // CELLS_PER_BLOCK)):
            first = (k * n + rows[block].astype(np.int64)) * n
            edges = np.searchsorted(listed, np.stack([first, first + n]))
            unlisted = np.ones((len(block), n), bool)
            for position, (start, stop) in enumerate(edges.T.tolist()):
                unlisted[position, listed[start:stop] - first[position]] = False
            scores.append(_row_scores(factors, rows[block], k)[unlisted])
            weights.append(np.repeat(row_weights[block], unlisted.sum(axis=1)))
        theta, cell_weights = np.concatenate(scores), np.concatenate(weights)
        if len(theta) and np.ptp(theta) < MIN_SCORE_RANGE:
            theta = np.zeros_like(theta)
        if len(rows) == n:  # a plain sort is ten times faster
            yield UnlistedScores(np.sort(theta), cell_weights)
        else:
            order = np.argsort(theta, kind="stable")
            yield UnlistedScores(theta[order], cell_weights[order])


def _row_scores(factors: Factors, rows: Ids, k: int) -> Matrix:
    """θ of the cells (row, relation k, ·), (m, N)."""
    if factors.exclusive:
        return factors.score(rows[:, None], k, np.arange(len(factors.entities)))
    theta: Matrix = factors.A[rows] @ factors.R[k] @ factors.A.T + factors.bias[k]
    return theta


def _sample_rows(facts: Facts, k: int, n_rows: int, rng: np.random.Generator) -> tuple[Ids, Vector]:
    """Subjects, and how many each stands for: all, or half of the sample from those with facts of the relation."""
    if n_rows >= facts.n_entities:
        return np.arange(facts.n_entities), np.ones(facts.n_entities)
    own = np.unique(facts.subjects[facts.starts[k] : facts.starts[k + 1]])
    others = np.setdiff1d(np.arange(facts.n_entities), own, assume_unique=True)
    n_own = min(len(own), max(n_rows // 2, n_rows - len(others)))
    samples = [
        np.sort(rng.choice(own, n_own, replace=False)),
        np.sort(rng.choice(others, n_rows - n_own, replace=False)),
    ]
    weights = [
        np.full(len(part), len(rows) / max(len(part), 1)) for part, rows in zip(samples, (own, others), strict=True)
    ]
    return np.concatenate(samples), np.concatenate(weights)


def fit_unlisted(
    factors: Factors, facts: Facts, ranks: Sequence[Sequence[Vector]], missing: float, method: str, random_state: int
) -> tuple[UnlistedLink, float]:
    """The link of the fit to all facts, and the number of missing facts that it expects."""
    own = [np.concatenate(parts) for parts in zip(*ranks, strict=True)]
    everything = np.concatenate(own)
    max_knots = int(np.clip(MAX_STORED_KNOTS // facts.n_relations, 2, MAX_KNOTS))
    curve = _steps if method == "isotonic" else _line
    samples = unlisted_scores(factors, facts, random_state)
    knots, total = [], 0.0
    for x, count, scored in zip(own, facts.counts().tolist(), samples, strict=True):
        if not len(scored.scores):  # every cell is listed: nobody can ask
            knots.append(([0.0], [float(logit(missing))]))
            continue
        sample = _summary(scored)
        expected = max(count, 0.5) * missing / (1 - missing)  # a relation without facts may have half a one
        weights = np.concatenate([np.ones(len(x)), np.full(len(everything), BORROWED_FACTS / len(everything))])
        scores, log_odds = curve(
            np.concatenate([x, everything]) * max(count, 1), weights / weights.sum() * expected, sample, weights.sum()
        )
        chosen = np.unique(np.linspace(0, len(scores) - 1, min(len(scores), max_knots)).round().astype(int))
        knot_scores, knot_odds, reached = _with_total(scores[chosen], log_odds[chosen], sample, expected)
        knots.append((knot_scores, knot_odds))
        total += reached
    return UnlistedLink([scores for scores, _ in knots], [log_odds for _, log_odds in knots]), total


def _steps(ranks: Vector, mass: Vector, sample: UnlistedScores, n_facts: float) -> tuple[Vector, Vector]:
    """Facts per cell in steps that fall with the rank, as knots at the centres of the steps."""
    n_cells = float(sample.weights.sum())
    order = np.argsort(ranks, kind="stable")
    ranks, mass = np.minimum(ranks[order], n_cells), mass[order]
    share = np.cumsum(mass) / mass.sum()
    cuts = np.searchsorted(share, np.arange(1, int(n_facts // FACTS_PER_STEP)) * FACTS_PER_STEP / n_facts)
    cuts = np.minimum(cuts, len(ranks) - 2)
    between = np.sqrt((ranks[cuts] + 0.5) * (ranks[cuts + 1] + 0.5))
    edges = np.unique(np.concatenate([[0.0], between[(between >= 1) & (between < n_cells)], [n_cells]]))
    cells = np.diff(edges)
    rate = -isotonic_regression(-np.histogram(ranks, edges, weights=mass)[0] / cells, sample_weight=cells)
    first = np.flatnonzero(np.diff(rate, prepend=np.inf) < 0)
    low, high, rate = edges[first], np.append(edges[first[1:]], n_cells), rate[first]
    centres = np.sqrt((low + 1) * (high + 1)) - 1
    scores = np.interp(-centres, -sample.ranks, sample.scores)
    odds = logit(np.clip(rate, 1e-15, expit(MAX_LOG_ODDS)))
    distinct, position = np.unique(scores, return_inverse=True)
    return distinct, np.bincount(position, odds) / np.bincount(position)


def _line(ranks: Vector, mass: Vector, sample: UnlistedScores, n_facts: float) -> tuple[Vector, Vector]:
    """Log-odds that are linear in the score, as two knots: the lowest and the highest score."""
    theta = np.interp(-ranks, -sample.ranks, sample.scores)
    truth = np.repeat([True, False], [len(theta), len(sample.scores)])
    line = fit_platt(np.concatenate([theta, sample.scores]), truth, np.concatenate([mass, sample.weights]))
    ends = np.unique(sample.scores[[0, -1]])
    return ends, np.minimum(line.slope * ends + line.intercept, MAX_LOG_ODDS)


def _with_total(
    scores: Vector, log_odds: Vector, sample: UnlistedScores, expected: float
) -> tuple[list[float], list[float], float]:
    """Shift the log-odds so that the probabilities of all cells sum to the expected number, as far as they can."""
    theta = np.interp(sample.scores, scores, log_odds)

    def total(shift: float) -> float:
        return float(sample.weights @ expit(np.minimum(theta + shift, MAX_LOG_ODDS)))

    target = min(expected, 0.98 * float(sample.weights.sum()))
    shift = float(brentq(lambda c: total(c) - target, -60, 60))
    log_odds = np.minimum(log_odds + shift, MAX_LOG_ODDS)
    rounded, kept = np.unique([float(f"{score:.7g}") for score in scores], return_index=True)
    return rounded.tolist(), [float(f"{value:.5g}") for value in log_odds[kept]], total(shift)


def _summary(sample: UnlistedScores) -> UnlistedScores:
    """The distribution of the scores by fewer points, finest at the top."""
    m = len(sample.scores)
    from_top = np.unique(np.geomspace(1, m, N_POINTS).round().astype(np.int64))  # block ends: 1, 2, 3, … m
    starts = (m - from_top)[::-1]
    weights = np.add.reduceat(sample.weights, starts)
    return UnlistedScores(np.add.reduceat(sample.weights * sample.scores, starts) / weights, weights)
