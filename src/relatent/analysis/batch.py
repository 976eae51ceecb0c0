"""Many questions and many facts at a time: scores are products of matrices, one per relation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import Ids, Mask, Matrix, Triples, Vector
from ..model.factors import Factors, best_first
from .known_facts import KnownFacts
from .probabilities import base_rates, cell_probabilities
from .self_answers import may_be_itself

SCORES_PER_BLOCK = 1 << 22  # computed at a time: 16 MB in single precision
OPEN = -1  # in place of the id that is asked for


class JudgedCells(NamedTuple):
    """Cells with what the model says of them; `rank` is 0 and `lift` NaN where there is none."""

    cells: Triples  # (m, 3)
    score: Vector
    probability: Vector  # NaN if the model has none
    rank: Ids  # of the answer among those that are not known
    lift: Vector
    known: Mask
    question: Ids  # (m,) the row of the question


def best_answers(factors: Factors, questions: Triples, k: int, known: KnownFacts | None = None) -> JudgedCells:
    """The k best answers to each question, known ones left out; a question is a cell with one id that is `OPEN`."""
    parts, with_self = [], may_be_itself(factors, known)
    for rows, place, theta in _candidates(factors, questions, drop_wrong_types=True):
        _leave_out(theta, known, questions[rows], place, with_self)
        best, scores = _best(theta, k)
        taken = scores > -np.inf
        cells = np.repeat(questions[rows], taken.sum(axis=1), axis=0)
        cells[:, place] = best[taken]
        ranks = np.broadcast_to(np.arange(1, best.shape[1] + 1), best.shape)[taken]
        parts.append((cells, scores[taken], ranks, np.repeat(rows, taken.sum(axis=1))))
    if not parts:
        return _scored(factors, questions[:0], np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64), known)
    cells, scores, ranks, question = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((ranks, question))
    return _scored(factors, cells[order], scores[order], ranks[order], question[order], known)


def score_cells(factors: Factors, cells: Triples, known: KnownFacts | None = None) -> JudgedCells:
    """Each cell with the rank of its object among the objects that are not known; a known cell has no rank."""
    scores, ranks = np.zeros(len(cells)), np.zeros(len(cells), np.int64)
    order = np.lexsort((cells[:, 0], cells[:, 1]))
    pair = cells[order, 1].astype(np.int64) * len(factors.entities) + cells[order, 0]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))  # of the cells of one subject and relation
    ends = np.append(starts, len(cells))
    questions = cells[order[starts]]
    questions[:, 2] = OPEN
    chunk = max(1, SCORES_PER_BLOCK // len(factors.entities))
    with_self = may_be_itself(factors, known)
    for rows, _, theta in _candidates(factors, questions, drop_wrong_types=False):
        if factors.types is not None:  # objects of a wrong type rank after all others
            is_wrong = ~factors.types.allowed(int(questions[rows[0], 1]), 2)
            ordered = theta - np.where(is_wrong, np.ptp(theta) + 1, 0).astype(theta.dtype)
        else:
            ordered = theta
        rivals = ordered.copy()
        _leave_out(rivals, known, questions[rows], 2, with_self)
        places = np.repeat(np.arange(len(rows)), np.diff(ends)[rows])  # rows of a block are neighbours
        for low in range(0, len(places), chunk):
            place = places[low : low + chunk]
            here = order[ends[rows[0]] + low :][: len(place)]
            scores[here] = theta[place, cells[here, 2]]
            ranks[here] = 1 + np.count_nonzero(rivals[place] > ordered[place, cells[here, 2], None], axis=1)
    return _scored(factors, cells, scores, ranks, np.arange(len(cells)), known)


def _scored(
    factors: Factors, cells: Triples, scores: Vector, ranks: Ids, question: Ids, known: KnownFacts | None
) -> JudgedCells:
    relations = cells[:, 1]
    probability = np.full(len(cells), np.nan)
    if factors.has_probabilities and len(cells):
        probability = cell_probabilities(factors, known, cells, scores)
    rates = base_rates(factors, known)
    rate = np.zeros(len(cells)) if rates is None else rates[relations]
    lift = np.divide(probability, rate, out=np.full(len(cells), np.nan), where=rate > 0)
    is_known = np.zeros(len(cells), bool) if known is None else known.facts.contains(cells)
    return JudgedCells(cells, scores, probability, np.where(is_known, 0, ranks), lift, is_known, question)


def _candidates(factors: Factors, questions: Triples, *, drop_wrong_types: bool) -> Iterator[tuple[Ids, int, Matrix]]:
    """Rows of questions, the place that is open in all of them, and the scores of all candidates.

    Scores of a wrong type are −∞ if they are to be dropped.
    """
    for place in (0, 1, 2):
        asked = np.flatnonzero(questions[:, place] == OPEN)
        n_candidates = len(factors.relations) if place == 1 else len(factors.entities)
        block_size = max(1, SCORES_PER_BLOCK // n_candidates)
        relation = questions[asked, 1]
        for k in np.unique(relation).tolist():
            rows = asked[relation == k]
            for low in range(0, len(rows), block_size):
                block = rows[low : low + block_size]
                theta = _scores(factors, questions[block], place)
                if place != 1 and drop_wrong_types:
                    factors.drop_wrong_types(theta.T, k, place)
                yield block, place, theta


def _scores(factors: Factors, questions: Triples, place: int) -> Matrix:
    """The scores of all candidates, (m, candidates)."""
    s, k, o = questions.T
    if place == 1:
        return factors.score(s[:, None], np.arange(len(factors.relations)), o[:, None])
    return factors.scores_of_all(o if place == 0 else s, int(k[0]), of_objects=place == 0)


def _leave_out(theta: Matrix, known: KnownFacts | None, questions: Triples, place: int, with_self: Mask) -> None:
    """Set the scores of known answers to −∞, and those of the entity of the question where it is no answer itself."""
    s, k, o = questions.T
    if place != 1 and not with_self[k[0]]:
        theta[np.arange(len(theta)), questions[:, 2 - place]] = -np.inf
    if known is None:
        return
    if place == 1:
        everything = np.arange(theta.shape[1])
        cells = np.stack(np.broadcast_arrays(s[:, None], everything, o[:, None]), axis=-1).reshape(-1, 3)
        theta.reshape(-1)[known.facts.contains(cells)] = -np.inf
    else:
        theta[known.partners(int(k[0]), o if place == 0 else s, of_objects=place == 0)] = -np.inf


def _best(theta: Matrix, k: int) -> tuple[Ids, Vector]:
    """The k best of each row, best first, ties to the lower index; scores of −∞ come last. (m, k) each."""
    k = min(k, theta.shape[1])
    best = np.argpartition(-theta, k - 1, axis=1)[:, :k]
    scores = np.take_along_axis(theta, best, axis=1)
    last = scores.min(axis=1)
    ties = np.flatnonzero((np.count_nonzero(theta >= last[:, None], axis=1) > k) & (last > -np.inf))
    for row in ties.tolist():
        best[row] = best_first(theta[row], k)
        scores[row] = theta[row, best[row]]
    order = np.lexsort((best, -scores), axis=-1)
    return np.take_along_axis(best, order, axis=1), np.take_along_axis(scores, order, axis=1)
