"""Probabilities of cells that are not listed, given the share of true facts that are missing from the data.

Facts that are missing at random rank among the unlisted cells of their relation as listed facts do when a fit does not
have them. So some facts are held out, as zeros, and their ranks found by a fit to the rest. Of a relation with n facts,
n · missing / (1 − missing) more are expected, spread over the unlisted cells by these ranks: the probability of a cell
is the number of facts expected around its rank per cell. Ranks and not scores are carried over from the fits to fewer
facts, because scores grow with the number of facts. Sums of probabilities therefore agree with the prior.

A rank is divided by the n of its relation, which makes relations comparable: a relation with few facts borrows the
ranks of all.

What is missing also depends on what is there: who has a place of birth lacks none. Of the missing facts of a relation,
as many have a subject with other listed facts, and an object with others, as of the listed facts, each left out. The
log-odds of each of these four kinds of cells are shifted so that it gets its share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.isotonic import isotonic_regression

from ..arrays import Vector
from ..data.facts import Facts
from ..data.heldout import HeldOut
from ..data.split import split
from ..errors import InputError
from ..fit.estimators.base import Estimator
from ..model.factors import Factors
from ..model.links import MAX_LOG_ODDS, N_ANSWERED, UnlistedLink
from ..model.score_maps import fit_platt
from ..model.unlisted_scores import UnlistedScores, unlisted_blocks, unlisted_scores
from ..progress import Progress, reporting
from .parallel import captured_warnings, fit_threads, n_processes, run_tasks, threads_for

MIN_HELDOUT_FACTS = 1500  # held out by as many fits as needed, where there are that many
BORROWED_FACTS = 20.0  # weight of the ranks of all relations, in facts, beside a relation's own
FACTS_PER_STEP = 3.0  # of the isotonic map
MAX_KNOTS = 32  # per relation
MAX_STORED_KNOTS = 100_000  # of all relations: they are in the header of the model file
KIND_PRECISION = 5.0  # facts of a relation that count as if spread over the kinds of cells by their scores alone
LOG_ODDS = np.arange(-40, 5, 1 / 16)  # bins of the log-odds of unlisted cells
MAX_SHIFT = 20.0  # of the log-odds of a kind of cells


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
        report(0, n_fits, "held-out facts")
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
        if "rescale_relations" in model.get_params():
            model.set_params(rescale_relations=False)  # it does not change the ranks
        factors = (model.fit(rest) if validation is None else model.fit(rest, validation)).factors_
    return ranks_among_unlisted(factors, facts, heldout, seed)


def ranks_among_unlisted(factors: Factors, facts: Facts, heldout: Facts, random_state: int) -> list[Vector]:
    """Ranks of facts that a fit did not have, divided by the number of facts, per relation; `facts` include them."""
    counts, found = facts.counts(), []
    for k, sample in enumerate(unlisted_scores(factors, facts, random_state)):
        cells = heldout.triples[heldout.triples[:, 1] == k]
        is_flat = len(sample.scores) and sample.scores[0] == sample.scores[-1]
        theta = np.full(len(cells), sample.scores[0]) if is_flat else factors.score(*cells.T)
        above = np.append(np.cumsum(sample.weights[::-1])[::-1], 0.0)
        ends = [above[np.searchsorted(sample.scores, theta, side=side)] for side in ("left", "right")]
        found.append((ends[0] + ends[1]) / 2 / max(counts[k], 1))
    return found


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
        sample = scored.summary()
        expected = max(count, 0.5) * missing / (1 - missing)  # a relation without facts may have half a one
        weights = np.concatenate([np.ones(len(x)), np.full(len(everything), BORROWED_FACTS / len(everything))])
        scores, log_odds = curve(
            np.concatenate([x, everything]) * max(count, 1), weights / weights.sum() * expected, sample, weights.sum()
        )
        chosen = np.unique(np.linspace(0, len(scores) - 1, min(len(scores), max_knots)).round().astype(int))
        knot_scores, knot_odds, reached = _with_total(scores[chosen], log_odds[chosen], sample, expected)
        knots.append((knot_scores, knot_odds))
        total += reached
    return _with_kinds(UnlistedLink(*zip(*knots, strict=True)), factors, facts, random_state), total


def carried_link(before: Factors, old: Facts, after: Factors, facts: Facts) -> tuple[UnlistedLink, float]:
    """The link of a model, moved to the scores of a later one of more facts, and the missing facts that it expects.

    The probability at a rank per fact of the relation stays as it is. A new relation has the mean log-odds of all,
    weighted by their facts. The relations of `after` begin with those of `before`.
    """
    link, missing = before.link, before.about["calibration"]["missing"]
    assert isinstance(link, UnlistedLink)
    counts = np.maximum(old.counts(), 1)
    ranks = [
        np.interp(scores, sample.scores, sample.ranks) / count if len(sample.scores) else np.zeros(len(scores))
        for scores, count, sample in zip(link.scores, counts, unlisted_scores(before, old, 0), strict=True)
    ]
    curves = [(x, np.array(log_odds)) for x, log_odds in zip(ranks, link.log_odds, strict=True)]
    grid = np.unique(np.concatenate(ranks))[::-1]  # falling, as the scores of the knots rise
    grid = grid[np.unique(np.linspace(0, len(grid) - 1, MAX_KNOTS).round().astype(int))]
    usual = np.average([np.interp(-grid, -x, log_odds) for x, log_odds in curves], axis=0, weights=counts)
    knots, total = [], 0.0
    for k, (count, scored) in enumerate(zip(facts.counts().tolist(), unlisted_scores(after, facts, 0), strict=True)):
        x, log_odds = curves[k] if k < len(curves) else (grid, usual)
        if not len(scored.scores):
            knots.append(([0.0], [float(logit(missing))]))
            continue
        sample = scored.summary()
        scores, first = np.unique(np.interp(-x * max(count, 1), -sample.ranks, sample.scores), return_index=True)
        knot_scores, knot_odds, reached = _with_total(
            scores, log_odds[first], sample, max(count, 0.5) * missing / (1 - missing)
        )
        knots.append((knot_scores, knot_odds))
        total += reached
    carried = UnlistedLink(*zip(*knots, strict=True))
    return _with_kinds(carried, after, facts, 0) if link.answered else carried, total


def _with_kinds(link: UnlistedLink, factors: Factors, facts: Facts, random_state: int) -> UnlistedLink:
    """The link with shifts by the kind of a cell; the missing facts of a relation stay as many."""
    shifts = []
    for k, blocks in enumerate(unlisted_blocks(factors, facts, random_state)):
        s, o = facts.triples[facts.starts[k] : facts.starts[k + 1]][:, ::2].T
        of_subject, of_object = (np.bincount(ids, minlength=facts.n_entities) for ids in (s, o))
        n_facts = np.bincount(2 * (of_subject[s] > 1) + (of_object[o] > 1), minlength=N_ANSWERED)
        n_cells = np.zeros((N_ANSWERED, len(LOG_ODDS)))
        for block in blocks:
            kinds = 2 * (of_subject[block.subjects] > 0)[:, None] + (of_object > 0)
            log_odds = np.interp(block.scores, link.scores[k], link.log_odds[k])
            bins = np.clip(np.searchsorted(LOG_ODDS, log_odds), 0, len(LOG_ODDS) - 1)
            numbers = kinds[block.is_unlisted] * len(LOG_ODDS) + bins
            n_cells += np.bincount(numbers, block.weights, n_cells.size).reshape(n_cells.shape)
        expected = n_cells @ expit(LOG_ODDS)
        share = n_facts + KIND_PRECISION * expected / max(expected.sum(), 1e-300)
        shifts.append([_shift(*row) for row in zip(n_cells, expected.sum() * share / share.sum(), strict=True)])
    return dataclasses.replace(link, answered=shifts)


def _shift(n_cells: Vector, expected: float) -> float:
    """What to add to the log-odds of cells, by bins, so that so many facts are expected among them."""

    def excess(shift: float) -> float:
        return float(n_cells @ expit(np.minimum(LOG_ODDS + shift, MAX_LOG_ODDS))) - expected

    if not n_cells.any():
        return 0.0
    if excess(-MAX_SHIFT) > 0 or excess(MAX_SHIFT) < 0:
        return float(np.copysign(MAX_SHIFT, -excess(0.0)))
    return float(f"{brentq(excess, -MAX_SHIFT, MAX_SHIFT):.5g}")


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
