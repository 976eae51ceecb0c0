"""Learn a `Calibration`: how likely are unlisted cells, from facts that a fit did not have.

A share of the facts is held out, and a trial, a fit to the rest, scores them among all cells that are not listed. What
carries over to the fit to all facts is not the score, which grows with the number of facts, but its place: with r
unlisted cells of the relation above it, a cell of a relation with n facts is at x = log(n / (r + ½)). A logistic
regression on x (linear between knots, rising), and on whether the subject and the object of the cell have other answers
of that relation, tells the held-out facts from the background. Its coefficients are those of each relation, drawn
towards their mean (`PRIOR`).

How many true facts are not listed cannot be learned: `missing` states their share. The background holds these facts,
too. With h facts held out and m missing, the regression therefore sees the share s = h / (h + m) of the true cells
labelled, and a cell that is unlisted although nothing is held out has odds that are 1 − s times as large.

Cells that are unobserved are another matter, as a fit has not seen them as false. Where there are any, another trial
does not see cells like them, true and false ones (`like_unobserved`), and a line says how likely its log-odds are.

At the end the log-odds of each relation and kind of cells are shifted so that their sum is the number of missing facts.
As many missing facts have a subject with another answer, or an object with one, as listed facts have, each left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

from ..arrays import Ids, Mask, Matrix, Triples, Vector
from ..backend.blas_threads import one_blas_thread
from ..data.facts import Facts
from ..data.split import split
from ..errors import InputError
from ..model.calibration import N_KINDS, Calibration
from ..model.entity_types import EntityTypes
from ..model.known_facts import KnownFacts
from ..model.unlisted_cells import unlisted_blocks
from .pooled_logistic import CoefficientPrior, PooledCoefficients, pooled_logistic

# Budgets
HELDOUT_SHARE = 0.05  # of the facts, per trial: a fit that lacks more of them ranks visibly worse than the model
ENOUGH_HELDOUT, MAX_TRIALS = 1000, 4  # facts that trials lack together, if that takes no more fits than the budget
MIN_FACTS = 10  # of which any are held out: of fewer, the prior says more than the one fact of a trial
MAX_MASKED, MASKING_ROUNDS = 20_000, 50  # cells of the trial for unobserved cells
# Priors
ASSUMED_MISSING = 0.1  # share of the true facts that are not listed, where nobody says it
KIND_FACTS = 5.0  # facts of a relation that count as spread over the kinds of cells by their scores alone
TAIL_CELLS = 3.0  # the log of a place is known within 1/√r if r cells are above it; of fewer, the tail is exponential
MAX_LOG_ODDS = 8.0  # of an unlisted cell: of 3,000 facts that nobody listed and a model is sure of, one is wrong
# Tolerances: of the sum of a question's probabilities, if it may have several answers and is taken to have one, which
# is below what is promised of sums; of log-odds per x, so that answers stay in the order of their scores
SINGLE_SHARE, MIN_SLOPE = 0.95, 1e-3
# Numerical resolution
MIN_SHARE = 1e-6
SEGMENT, LOWEST, N_SEGMENTS = 2.0, -12.0, 13  # of x: knots from −12 to 14
GRID = 0.5  # of x, in which cells are counted
X_GRID = np.arange(LOWEST, LOWEST + N_SEGMENTS * SEGMENT + GRID, GRID)
N_SCORES = 1 << 16  # bins of a score: the leading half of the bits of a float32
BIN_WIDTH, MIN_GAP = 1 / 128, 1e-3  # relative to the score; least difference of scores that differ in their places
MAX_SHIFT = 40.0  # of log-odds
MAX_MASKED_LOG_ODDS = 30.0  # of cells that are learned from
N_ROUNDS = 60  # of proportional fitting


def _prior(intercept: float, slope: float, precision: float) -> CoefficientPrior:
    """An intercept, a slope, what each segment of x adds to it, and three kinds of cells beside the first.

    The slope of places is one half: ten times as many cells above, a third of the odds. Slopes of neighbouring segments
    are alike, and those of one relation like those of others, but for the slope of the whole, in which relations differ
    by about as much as it is: where nearly all missing facts can be foreseen, odds fall far faster than where few can.
    The slope of scores that are log-odds is one, within a quarter. What another answer means differs between relations.
    How much relations differ in each of these is where learning begins.
    """
    m = N_SEGMENTS
    walk = np.diff(np.eye(m), axis=0)
    smooth = np.zeros((2 + m + 3, 2 + m + 3))
    smooth[2 : 2 + m, 2 : 2 + m] = 4.0 * walk.T @ walk
    return CoefficientPrior(
        centre=np.concatenate([[intercept, slope / 2], np.full(m, slope / 2), np.zeros(3)]),
        mean_precision=np.concatenate([[0.05, 1.0], np.full(m, 1.0), np.full(3, 0.05)]),
        precision=np.concatenate([[0.5, precision], np.full(m, 8.0), np.full(3, 0.2)]),
        nonnegative=np.concatenate([[False], np.ones(1 + m, bool), np.zeros(3, bool)]),
        smooth=smooth,
        alike=np.repeat(np.arange(4), [1, 1, m, 3]),
    )


PRIOR, LOG_ODDS_PRIOR = _prior(-2.0, 0.5, 4.0), _prior(0.0, 1.0, 16.0)


MASKED_PRIOR = CoefficientPrior(  # intercept and slope; the log-odds of a loss are right before any data
    centre=np.array([0.0, 1.0]),
    mean_precision=np.array([1.0, 4.0]),
    precision=np.array([1.0, 4.0]),
    nonnegative=np.array([False, True]),
    alike=np.arange(2),
)


class ScoredModel(Protocol):
    """What a calibration is learned of."""

    @property
    def types(self) -> EntityTypes | None:
        """Types of the entities."""

    def scores_of_all(self, entities: Ids, relation: int, *, of_objects: bool = False) -> Matrix:
        """θ of some subjects with every object, (m, N)."""

    def score(self, subjects: Ids, relations: Ids, objects: Ids) -> Vector:
        """θ of each cell."""


class HeldOutFit(NamedTuple):
    """A fit, and facts that it did not have."""

    model: ScoredModel
    heldout: Facts


def heldout_facts(facts: Facts, random_state: int) -> list[Facts]:
    """The facts that each trial lacks: none of them twice, and mirrored facts of symmetric relations together."""
    if len(facts) < MIN_FACTS:
        return []
    n_trials = min(MAX_TRIALS, -(-ENOUGH_HELDOUT // max(1, int(HELDOUT_SHARE * len(facts)))))
    _, rest = split(facts, test_size=max(n_trials * HELDOUT_SHARE, 1 / len(facts)), random_state=random_state)
    found = []
    for n_left in range(n_trials, 1, -1):
        if len(rest) < 2 * n_left:
            break
        rest, part = split(rest, test_size=1 / n_left, random_state=random_state, keep_covered=False)
        found.append(part)
    return [*found, rest]


def like_unobserved(facts: Facts, random_state: int) -> Triples:
    """Observed cells, true and false, that are like the unobserved ones: those of other subjects, (m, 3).

    Each subject of unobserved cells is exchanged for another subject of one of their relations, all its cells together,
    until the true ones among them are as many as facts that a trial lacks, or the budgets are spent.
    """
    unobserved, rng = facts.unobserved.astype(np.int64), np.random.default_rng([random_state, 2])
    found, n_true = np.empty((0, 3), np.int64), 0
    if not len(unobserved) or not len(facts):
        return found
    unobserved = unobserved[np.argsort(unobserved[:, 0], kind="stable")]
    subjects, first, counts = np.unique(unobserved[:, 0], return_index=True, return_counts=True)
    observed = facts.n_cells - len(unobserved)
    most = min(MAX_MASKED, int(HELDOUT_SHARE * observed))
    of_relation = [np.unique(facts.subjects[slice(*facts.starts[k : k + 2])]) for k in range(facts.n_relations)]
    for _ in range(MASKING_ROUNDS):
        for i in rng.permutation(len(subjects)).tolist():
            if len(found) + counts[i] > most or n_true >= HELDOUT_SHARE * len(facts):
                return found
            cells = unobserved[first[i] : first[i] + counts[i]].copy()
            others = of_relation[int(rng.choice(cells[:, 1]))]
            if not len(others):
                continue
            cells[:, 0] = rng.choice(others)
            cells = cells[(cells[:, 0] != cells[:, 2]) & ~facts.is_unobserved(cells)]
            found = np.unique(np.concatenate([found, cells]), axis=0)
            n_true = int(np.count_nonzero(facts.contains(found)))
    return found


def learn_unobserved(log_odds: Vector, relations: Ids, truth: Mask, n_relations: int) -> Matrix:
    """Intercept and slope of the log-odds of unobserved cells of each relation, from masked cells, (K, 2)."""
    x = np.clip(log_odds, -MAX_MASKED_LOG_ODDS, MAX_MASKED_LOG_ODDS)
    X = np.stack([np.ones(len(x)), x], axis=1)
    true, false = truth.astype(np.float64), (~truth).astype(np.float64)
    return pooled_logistic(X, relations, n_relations, true, false, MASKED_PRIOR).of_group


class Places(NamedTuple):
    """Where a score stands among the unlisted cells of its relation: x rises with the score."""

    theta: Vector  # (m,) rising
    x: Vector  # (m,) rising

    def of(self, theta: Vector) -> Vector:
        """x of each score; beyond the highest known places it goes on as before them."""
        if len(self.theta) == 1:
            return np.full(np.shape(theta), self.x[0])
        found: Vector = np.interp(theta, self.theta, self.x)
        slope = (self.x[-1] - self.x[-2]) / (self.theta[-1] - self.theta[-2])
        found += slope * np.maximum(theta - self.theta[-1], 0.0)
        return found

    def score_at(self, x: Vector) -> Vector:
        """The inverse of `of`."""
        distinct, first = np.unique(self.x, return_index=True)
        found: Vector = np.interp(x, distinct, self.theta[first])
        if len(self.theta) > 1 and self.x[-1] > self.x[-2]:
            slope = (self.theta[-1] - self.theta[-2]) / (self.x[-1] - self.x[-2])
            found += slope * np.maximum(x - self.x[-1], 0.0)
        return found


class Background(NamedTuple):
    """The unlisted cells of one relation by score and kind."""

    theta: Vector  # (B,) rising
    cells: Matrix  # (4, B)

    @property
    def n_cells(self) -> float:
        """How many there are."""
        return float(self.cells.sum())

    def places(self, n_facts: int, in_log_odds: bool = False) -> Places:
        """The places of scores in a relation with so many facts; scores that are log-odds are their own places."""
        if in_log_odds:
            ends = np.array([min(self.theta[0], X_GRID[0]), max(self.theta[-1], X_GRID[-1])])
            return Places(ends, ends)
        total = self.cells.sum(axis=0)
        if len(self.theta) == 1:  # a score that is higher is above all of them
            gap = max(BIN_WIDTH * abs(self.theta[0]), MIN_GAP)
            at = np.log(max(n_facts, 0.5) / (np.array([total[0] / 2, 0.0]) + 0.5))
            return Places(self.theta[0] + np.array([0.0, gap]), at)
        above = np.cumsum(total[::-1])[::-1] - total / 2
        x = np.log(max(n_facts, 0.5) / (above + 0.5))
        # The last cells are few, and their places uncertain: a tail that is exponential goes on as it did before them.
        inner = np.flatnonzero(above >= TAIL_CELLS * min(1.0, total[-1]))
        known = inner[-1] + 1 if len(inner) else 1
        if known < len(x):
            low = int(np.searchsorted(x, x[known - 1] - 2.0))
            if low < known - 1:
                slope = (x[known - 1] - x[low]) / (self.theta[known - 1] - self.theta[low])
                beyond = x[known - 1] + slope * (self.theta[known:] - self.theta[known - 1])
                x[known:] = np.minimum(beyond, max(x[known - 1], X_GRID[-1]))  # no curve goes further
        return Places(self.theta, np.maximum.accumulate(x))


def check_missing(missing: object) -> None:
    """Raise InputError unless it is a share, or None."""
    is_number = isinstance(missing, (int, float, np.integer, np.floating)) and not isinstance(missing, bool)
    if missing is not None and not (is_number and MIN_SHARE <= missing <= 1 - MIN_SHARE):  # type: ignore[operator]
        raise InputError(f"missing must be a share between 0 and 1, got {missing!r}")


def labelled_share(
    facts: Facts, trials: Sequence[HeldOutFit], missing: float | None, *, is_listed: bool = True
) -> float:
    """The share of held-out facts among the true cells that are unlisted without them.

    `is_listed`: whether they are among the facts; if not, they are some of those that are missing.
    """
    share = ASSUMED_MISSING if missing is None else float(missing)
    heldout = _n_heldout(trials) / max(len(trials), 1)
    n_missing = max(len(facts) * share / (1 - share), 1e-9)
    return heldout / (heldout + n_missing) if is_listed else min(heldout / n_missing, 0.999)


def _n_heldout(trials: Sequence[HeldOutFit]) -> int:
    return sum(len(heldout) for _, heldout in trials)


def learn(
    model: ScoredModel,
    facts: Facts,
    trials: Sequence[HeldOutFit] = (),
    *,
    missing: float | None = None,
    is_listed: bool = True,
    in_log_odds: bool = False,
    random_state: int = 0,
) -> Calibration:
    """The calibration of a model of some facts.

    Without trials, the prior alone decides. `is_listed`: whether the held-out facts are among `facts`; if not, they are
    some of those that are missing. `in_log_odds`: whether scores have been weighed by held-out facts, as patterns and
    factors have, so that they are log-odds, nearly, and their own place x.
    """
    share, known = ASSUMED_MISSING if missing is None else float(missing), KnownFacts(facts)
    labelled, n_heldout = labelled_share(facts, trials, missing, is_listed=is_listed), _n_heldout(trials)
    prior = LOG_ODDS_PRIOR if in_log_odds else PRIOR
    coefficients = np.tile(prior.centre, (facts.n_relations, 1))
    if n_heldout:
        coefficients = _learned(trials, known, labelled, random_state, in_log_odds).of_group
    offset = np.log1p(-labelled) if is_listed else 0.0
    n_line = 2 + N_SEGMENTS
    curves = [_Curve(_features(X_GRID)[:, :n_line] @ row[:n_line] + offset, row[n_line:]) for row in coefficients]
    return _of_curves(model, known, curves, share, missing is None, n_heldout, random_state, in_log_odds)


def carried(
    calibration: Calibration,
    before: ScoredModel,
    old: Facts,
    after: ScoredModel,
    facts: Facts,
    *,
    in_log_odds: bool = False,
) -> Calibration:
    """The calibration of a model, moved to a later model of more facts: the log-odds at a place stay as they are.

    A new relation has the mean curve of all, weighted by their facts.
    """
    known, counts = KnownFacts(old), old.counts()
    own_cells, curves = may_be_itself(known), []
    for k, count in enumerate(counts.tolist()):
        found = _background(before, known, k, bool(own_cells[k]), 0)
        places = found.places(count, in_log_odds) if found.n_cells else Places(np.zeros(1), np.zeros(1))
        curves.append(_Curve(calibration.line(places.score_at(X_GRID), k), calibration.shifts[k, 1:]))
    parts = zip(*curves, strict=True)
    usual = _Curve(*(np.average(np.array(part), axis=0, weights=np.maximum(counts, 1)) for part in parts))
    n_new = facts.n_relations - len(curves)
    curves += [usual] * n_new
    moved = _of_curves(
        after,
        KnownFacts(facts),
        curves,
        calibration.missing,
        calibration.is_assumed,
        calibration.heldout_facts,
        0,
        in_log_odds,
    )
    mean = np.average(calibration.masked, axis=0, weights=np.maximum(counts, 1))
    return replace(moved, masked=np.concatenate([calibration.masked, np.tile(mean, (n_new, 1))]))


class _Curve(NamedTuple):
    """Log-odds at the places of `X_GRID`, and what kinds of cells beside the first add."""

    log_odds: Vector
    kinds: Vector  # (3,)


def _of_curves(
    model: ScoredModel,
    known: KnownFacts,
    curves: Sequence[_Curve],
    missing: float,
    is_assumed: bool,
    heldout_facts: int,
    random_state: int,
    in_log_odds: bool,
) -> Calibration:
    """The calibration that has these log-odds at each place, and the right sums."""
    one_answer, own_cells = single_answers(known), may_be_itself(known)
    lines, shifts, rates, expected = [], np.zeros((known.n_relations, N_KINDS)), np.zeros(known.n_relations), 0.0
    for k, count in enumerate(known.facts.counts().tolist()):
        found = _background(model, known, k, bool(own_cells[k]), random_state)
        if not found.n_cells:  # every cell is listed: nobody can ask
            lines.append(([0.0, 1.0], [float(logit(missing)), float(logit(missing)) + MIN_SLOPE]))
            rates[k] = missing
            continue
        lines.append(_knots(found.places(count, in_log_odds), curves[k].log_odds))
        shifts[k, 1:] = curves[k].kinds
        trial = Calibration.of_lines(lines[-1:], shifts=shifts[k : k + 1])
        questions = None
        if one_answer[k].any():
            questions = _open_questions(model, known, k, bool(own_cells[k]), one_answer[k], trial, random_state)
        wanted = max(count, 0.5) * missing / (1 - missing)
        moved, reached = _matched(found, trial, wanted, _kinds_of_facts(known, k), questions)
        shifts[k] += moved
        if k in known.facts.undirected:  # a cell and its mirror are one
            shifts[k, 1:3] = shifts[k, 1:3].mean()
        rates[k] = reached / found.n_cells
        expected += reached / (2 if k in known.facts.undirected else 1)
    return Calibration.of_lines(
        lines,
        shifts=shifts,
        one_answer=one_answer,
        base_rates=rates,
        unobserved=-float(np.log(missing)),
        missing=missing,
        is_assumed=is_assumed,
        heldout_facts=heldout_facts,
        expected=expected,
    )


def single_answers(known: KnownFacts) -> NDArray[np.bool_]:
    """For each relation whether the questions (subject, k, ?), and (?, k, object), have one answer, (K, 2).

    They have where at most one in twenty of the answered questions has several.
    """
    found = np.zeros((known.n_relations, 2), bool)
    for k in range(known.n_relations):
        for side in (0, 1):
            counts = known.n_answers(k, of_objects=bool(side))
            n_answered = np.count_nonzero(counts)
            found[k, side] = n_answered > 0 and np.count_nonzero(counts == 1) >= SINGLE_SHARE * n_answered
    return found


def may_be_itself(known: KnownFacts) -> Mask:
    """For each relation whether an entity may be related to itself: it has such a fact, or none at all, (K,)."""
    found: Mask = (known.n_self_facts > 0) | (known.facts.counts() == 0)
    return found


def log_likelihood(
    trials: Sequence[HeldOutFit],
    facts: Facts,
    *,
    missing: float | None = None,
    in_log_odds: bool = False,
    random_state: int = 0,
) -> float:
    """Of the held-out facts among the unlisted cells, with the regression that tells them apart best."""
    labelled = labelled_share(facts, trials, missing)
    return _learned(trials, KnownFacts(facts), labelled, random_state, in_log_odds).log_likelihood


def _learned(
    trials: Sequence[HeldOutFit], known: KnownFacts, labelled: float, random_state: int, in_log_odds: bool
) -> PooledCoefficients:
    """The coefficients of each relation, (K, P): by the held-out facts and the background, counted in bins of x."""
    K, prior = known.n_relations, LOG_ODDS_PRIOR if in_log_odds else PRIOR
    counts = sum((_counted(trial, known, random_state, in_log_odds) for trial in trials), np.zeros(()))
    true, false = counts
    relation, kind_of, at = np.nonzero(true + false)
    X = _features(LOWEST + GRID * (at + 0.5), kind_of)
    with one_blas_thread():
        return pooled_logistic(
            X, relation, K, true[relation, kind_of, at], false[relation, kind_of, at], prior, labelled=labelled
        )


def _counted(trial: HeldOutFit, known: KnownFacts, random_state: int, in_log_odds: bool) -> NDArray[np.float64]:
    """Held-out facts and unlisted cells of each relation and kind, by bins of x, (2, K, 4, bins)."""
    model, heldout = trial
    facts, K = known.facts, known.n_relations
    rest = KnownFacts(facts.subset(~heldout.contains(facts.triples)))
    theta = _rounded(np.asarray(model.score(*heldout.triples.T)))  # as the background: none is told by rounding alone
    answered = rest.answered(heldout.triples)
    kinds = 2 * answered[:, 0] + answered[:, 1]
    n_bins = int(N_SEGMENTS * SEGMENT / GRID)
    counts = np.zeros((2, K, N_KINDS, n_bins))
    true, false = counts
    own_cells = may_be_itself(known)
    for k in range(K):
        here = np.flatnonzero(heldout.triples[:, 1] == k)
        found = _background(model, known, k, bool(own_cells[k]), random_state, answers=rest)
        if not found.n_cells:
            continue
        places = found.places(int(facts.starts[k + 1] - facts.starts[k]), in_log_odds)
        np.add.at(true[k], (kinds[here], _bins(places.of(theta[here]))), 1.0)
        bins = _bins(places.of(found.theta))
        for kind in range(N_KINDS):
            false[k, kind] += np.bincount(bins, found.cells[kind], n_bins)
    return counts


def _bins(x: Vector) -> Ids:
    bins: Ids = np.clip((x - LOWEST) / GRID, 0, N_SEGMENTS * SEGMENT / GRID - 1).astype(np.int64)
    return bins


def _features(x: Vector, kinds: Ids | int = 0) -> Matrix:
    """1, x, how far it reaches into each segment, and the kind, (n, P)."""
    low = LOWEST + SEGMENT * np.arange(N_SEGMENTS)
    # Measured from x = 0, so that the intercept is the log-odds there.
    reached = np.clip(x[:, None] - low, 0, SEGMENT) - np.clip(-low, 0, SEGMENT)
    kind = np.broadcast_to(kinds, x.shape)[:, None] == np.arange(1, N_KINDS)
    return np.hstack([np.ones((len(x), 1)), reached.sum(axis=1, keepdims=True), reached, kind])


def _background(
    model: ScoredModel,
    known: KnownFacts,
    relation: int,
    own_cell: bool,
    random_state: int,
    *,
    answers: KnownFacts | None = None,
) -> Background:
    """The unlisted cells of a relation, counted by score; kinds by the other answers among `answers`."""
    seen = known if answers is None else answers
    of_subject, of_object = (seen.n_answers(relation, of_objects=side) > 0 for side in (False, True))
    counts = np.zeros((N_KINDS, N_SCORES))
    for block in unlisted_blocks(model, known, relation, own_cell, random_state):
        bits = np.ascontiguousarray(block.theta, np.float32).view(np.int32)
        _count_scores(bits, block.is_unlisted, of_subject[block.subjects], of_object, block.weights, counts)
    filled = np.flatnonzero(counts.any(axis=0))
    return Background(_bin_scores(filled), counts[:, filled])


@njit(cache=True, nogil=True)
def _count_scores(bits, is_unlisted, of_subject, of_object, weights, counts):  # type: ignore[no-untyped-def]
    """Add the weight of each unlisted cell to its kind and to the bin of its score: the leading 16 bits, in order."""
    for row in range(bits.shape[0]):
        first, weight = 2 * of_subject[row], weights[row]
        for column in range(bits.shape[1]):
            if is_unlisted[row, column]:
                upper = bits[row, column] >> 16
                if upper < 0:
                    upper = -1 - (upper & 0x7FFF)
                counts[first + of_object[column], upper + 32768] += weight


def _rounded(theta: Vector) -> Vector:
    """Each score as the background counts it: the middle of its bin."""
    upper = np.ascontiguousarray(theta, np.float32).view(np.int32) >> 16
    return _bin_scores(np.where(upper < 0, -1 - (upper & 0x7FFF), upper).astype(np.int64) + (N_SCORES >> 1))


def _bin_scores(bins: Ids) -> Vector:
    """The score in the middle of each bin."""
    at = bins - (N_SCORES >> 1)
    upper = np.where(at < 0, (-1 - at) | 0x8000, at)
    low = (upper.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    high = ((upper.astype(np.uint32) << np.uint32(16)) | np.uint32(0xFFFF)).view(np.float32).astype(np.float64)
    return (low + high) / 2


def _knots(places: Places, values: Vector) -> tuple[list[float], list[float]]:
    """Scores and log-odds at the places that occur, and above them, where they go on to the highest of all."""
    x = X_GRID
    inside = x[(x > places.x[0]) & (x < places.x[-1])]
    at = np.unique(np.concatenate([places.x[:1], inside, places.x[-1:]]))
    scores = places.score_at(at)
    rising = np.concatenate([[True], np.diff(scores) > 1e-6 * (1 + np.abs(scores[1:]))])
    tilt = MIN_SLOPE * at[rising]
    log_odds = np.minimum(np.interp(at[rising], x, values), MAX_LOG_ODDS)
    knots = list(zip(scores[rising].tolist(), (np.maximum.accumulate(log_odds - tilt) + tilt).tolist(), strict=True))
    if len(knots) > 1:
        (theta, low), (last, high) = knots[-2:]
        step = (last - theta) / (high - low)  # θ per log-odds
        if high < MAX_LOG_ODDS and np.isfinite(last + step * (MAX_LOG_ODDS + 1 - high)):
            reached = last + step * (MAX_LOG_ODDS - high)
            knots += [(reached, MAX_LOG_ODDS), (reached + step, MAX_LOG_ODDS + MIN_SLOPE)]
    return [score for score, _ in knots], [value for _, value in knots]


def _kinds_of_facts(known: KnownFacts, relation: int) -> Vector:
    """How many facts of a relation have ends of each kind, each fact left out, (4,)."""
    s, o = known.facts.triples[slice(*known.facts.starts[relation : relation + 2])][:, ::2].T
    of_subject, of_object = (known.n_answers(relation, of_objects=side) for side in (False, True))
    return np.bincount(2 * (of_subject[s] > 1) + (of_object[o] > 1), minlength=N_KINDS).astype(np.float64)


class _Questions(NamedTuple):
    """Questions with one answer, of which none is known: odds of their candidates by kind, summed per question."""

    kinds: tuple[int, ...]  # of cells that belong to such questions
    rivals: tuple[int, ...]  # of these, those that all compete with
    odds: Matrix  # (questions, 4)
    weights: Vector  # (questions,)


def _open_questions(
    model: ScoredModel,
    known: KnownFacts,
    relation: int,
    own_cell: bool,
    one_answer: Mask,
    trial: Calibration,
    random_state: int,
) -> _Questions:
    """The questions for the object if they have one answer, or else those for the subject."""
    of_subject, of_object = (known.n_answers(relation, of_objects=side) > 0 for side in (False, True))
    n = known.n
    by_object, sums, weights = np.zeros((n, N_KINDS)), [], []
    for block in unlisted_blocks(model, known, relation, own_cell, random_state):
        odds = np.exp(np.where(block.is_unlisted, trial.line(block.theta, 0), -np.inf))
        if one_answer[0]:
            is_open = ~of_subject[block.subjects]
            total, answered = odds[is_open].sum(axis=1), odds[is_open] @ of_object.astype(np.float64)
            sums.append(np.stack([total - answered, answered, 0 * total, 0 * total], axis=1))
            weights.append(block.weights[is_open])
        else:
            for has_other in (0, 1):
                chosen = of_subject[block.subjects] == has_other
                by_object[:, 2 * has_other] += block.weights[chosen] @ odds[chosen]
    factors = np.exp(trial.shifts[0])
    if one_answer[0]:
        return _Questions(
            (0, 1), (0, 1) if one_answer[1] else (1,), np.concatenate(sums) * factors, np.concatenate(weights)
        )
    unanswered = by_object[~of_object]
    return _Questions((0, 2), (2,), unanswered * factors, np.ones(len(unanswered)))


def _matched(
    found: Background, trial: Calibration, wanted: float, kinds: Vector, questions: _Questions | None
) -> tuple[Vector, float]:
    """What to add to the log-odds of each kind so that as many facts are expected as are missing; how many are.

    Proportional fitting: log-odds go up by the logarithm of wanted over expected, until they agree.
    """
    base = trial.line(found.theta, 0)
    moved = np.zeros(N_KINDS)
    log_odds = [np.minimum(base + trial.shifts[0, kind], MAX_LOG_ODDS) for kind in range(N_KINDS)]

    def expected_of(kind: int, shift: float) -> float:
        return float(found.cells[kind] @ expit(log_odds[kind] + shift))

    def now() -> Vector:
        sums = np.array([expected_of(kind, moved[kind]) for kind in range(N_KINDS)])
        if questions is not None and len(questions.odds):
            odds = questions.odds * np.exp(moved)
            share = questions.weights / (1 + odds[:, list(questions.rivals)].sum(axis=1))
            for kind in questions.kinds:
                sums[kind] = float(share @ odds[:, kind])
        return sums

    cells = found.cells.sum(axis=1)
    start = now()
    share = kinds + KIND_FACTS * start / max(start.sum(), 1e-300)
    share[cells == 0] = 0.0
    wanted_of = np.minimum(wanted * share / max(share.sum(), 1e-300), 0.98 * cells)
    if questions is not None and len(questions.odds):
        for kind in questions.kinds:
            wanted_of[kind] = min(wanted_of[kind], 0.98 * float(questions.weights.sum()))
    joint = () if questions is None else questions.kinds
    for kind in range(N_KINDS):
        if kind not in joint and cells[kind]:
            ends = [expected_of(kind, shift) - wanted_of[kind] for shift in (-MAX_SHIFT, MAX_SHIFT)]
            if ends[0] < 0 < ends[1]:
                moved[kind] = brentq(lambda c, kind=kind: expected_of(kind, c) - wanted_of[kind], -MAX_SHIFT, MAX_SHIFT)
    for _ in range(N_ROUNDS if joint else 0):
        sums = now()
        for kind in joint:
            if sums[kind] > 0 and wanted_of[kind] > 0:
                moved[kind] = np.clip(moved[kind] + np.log(wanted_of[kind] / sums[kind]), -MAX_SHIFT, MAX_SHIFT)
    return moved, float(now().sum())
