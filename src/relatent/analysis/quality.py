"""How good a model is on given facts, relation by relation, and whether its probabilities hold.

Ranks are of the facts among all entities. Precision and reliability want false cells as well: whole rows (subject,
relation, ·) are scored, all of them in a small world, otherwise as many that hold a fact as that hold none, each
counting for those it was drawn from. Single zeros drawn at random would do worse: hardly one is likely at all, and
that one would stand for a million.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Vector
from ..data.facts import Facts
from ..errors import DataWarning, InputError
from ..evaluation.metrics import measure
from ..evaluation.ranking import evaluate
from ..evaluation.reliability import ABOVE, reliability
from ..model.factors import Factors
from ..progress import Progress
from .known_facts import Known

MOST_FACTS = 5000  # that are ranked; of more, so many are drawn
MOST_CELLS = 1 << 22  # that precision and reliability are measured on
LEAST_ROWS = 4  # of either kind, however long they are


class Figures(NamedTuple):
    """What a model reaches on some facts; null where there is nothing to tell it by."""

    n_facts: int
    mrr: float | None  # filtered, both sides
    hits_10: float | None
    average_precision: float | None
    auc_pr: float | None


class RelationFigures(NamedTuple):
    """The same for one relation."""

    relation: str
    figures: Figures


class Bin(NamedTuple):
    """Cells of about the same probability."""

    predicted: float  # their mean probability
    observed: float  # the share that is true
    cells: float  # how many they stand for


class Quality(NamedTuple):
    """Figures of all facts together, of each relation, and the reliability of the probabilities."""

    n_facts: int  # whose names the model knows
    n_ranked: int
    n_cells: int  # that precision and reliability are measured on
    overall: Figures
    relations: list[RelationFigures]
    calibration_error: float | None  # over cells with p > 0.05
    reliability: list[Bin]


class Cells(NamedTuple):
    """Cells with their truth, their score, and how many each stands for."""

    relation: Ids  # (n,)
    truth: Mask
    theta: Vector
    weights: Vector


def quality(
    factors: Factors,
    test: Known,
    known: Known | None = None,
    *,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Quality:
    """Ranks of the test facts among all entities, and precision and reliability on whole rows.

    known: facts that are neither rivals nor false, usually those the model was learned from.
    """
    if not len(test):
        raise InputError("the model knows the names of none of these facts; give facts of the same data")
    chosen, rng = _drawn(test.facts, random_state), np.random.default_rng(random_state)
    others = [test.facts] if known is None else [test.facts, known.facts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        ranks = evaluate(factors, chosen, known=others, progress=_told(progress)).ranks
    cells = whole_rows(factors, test, known, rng)
    p = np.asarray(factors.link.probability(cells.theta), np.float64)

    def figures(facts: Ids | slice, rows: Ids | slice) -> Figures:
        found, own = measure(cells.truth[rows], cells.theta[rows], p[rows], cells.weights[rows]), ranks[facts]
        mrr, hits = (np.mean(1 / own), np.mean(own <= 10)) if len(own) else (np.nan, np.nan)
        return Figures(len(own), *map(_number, (mrr, hits, found.average_precision, found.auc_pr)))

    curve = reliability(cells.truth, p, cells.weights, above=ABOVE)
    return Quality(
        len(test),
        len(chosen),
        len(p),
        figures(slice(None), slice(None)),
        [
            RelationFigures(
                factors.relations[k],
                figures(np.flatnonzero(chosen.triples[:, 1] == k), np.flatnonzero(cells.relation == k)),
            )
            for k in np.unique(test.facts.triples[:, 1]).tolist()
        ],
        _number(curve.error),
        [Bin(*map(float, one)) for one in zip(*curve, strict=True)],
    )


def _drawn(facts: Facts, random_state: int) -> Facts:
    """The facts, or a draw of them where ranking all would take long."""
    if len(facts) <= MOST_FACTS:
        return facts
    mask = np.zeros(len(facts), bool)
    mask[np.random.default_rng(random_state).choice(len(facts), MOST_FACTS, replace=False)] = True
    return facts.subset(mask)


def whole_rows(factors: Factors, test: Known, known: Known | None, rng: np.random.Generator) -> Cells:
    """Cells (subject, relation, ·) but for those known otherwise, with their truth and how many each stands for."""
    n, rows, parts = test.n, _rows(test, rng), []
    for row, weight in zip(*(column.tolist() for column in rows), strict=True):
        k, s = divmod(row, n)
        theta = np.asarray(factors.question(subject=s, relation=k).theta, np.float64)
        truth, counts = np.zeros(n, bool), np.ones(n, bool)
        truth[test.objects(s, k)] = True
        if known is not None:
            counts[known.objects(s, k)] = False
        kept = np.flatnonzero(counts | truth)
        parts.append(Cells(np.full(len(kept), k), truth[kept], theta[kept], np.full(len(kept), weight)))
    return Cells(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _rows(test: Known, rng: np.random.Generator) -> tuple[NDArray[np.int64], Vector]:
    """Numbers k·N + s of rows, and how many rows each stands for."""
    n, total = test.n, test.n * test.n_relations
    if total * n <= MOST_CELLS:
        return np.arange(total), np.ones(total)
    full = np.unique(test.facts.keys // n)  # rows that hold a fact
    most = max(LEAST_ROWS, MOST_CELLS // (2 * n))
    some = np.sort(rng.choice(full, min(most, len(full)), replace=False))
    empty = np.setdiff1d(rng.integers(0, total, 2 * most), full)
    empty = np.sort(rng.permutation(empty)[:most])
    weights = [np.full(len(some), len(full) / len(some)), np.full(len(empty), (total - len(full)) / max(len(empty), 1))]
    return np.concatenate([some, empty]), np.concatenate(weights)


def _told(progress: Progress | None) -> Callable[[int, int], object] | None:
    return None if progress is None else lambda done, total: progress(done, total, "ranking facts")


def _number(value: float | np.floating[Any]) -> float | None:
    return float(value) if np.isfinite(value) else None
