"""`Candidates`: the one place that answers questions of a model.

It says what the candidates for the open place of a question are, which of them are left out (known answers, the entity
itself, wrong types), which are the best, and how likely each cell is. Everything that shows a probability, a rank or a
list (`Factors`, `answers`, `missing`, `evaluate`, files of questions, the explorer) asks here.

Scores of all candidates are a fast product of matrices. Those that may be among the best are scored again in double
precision, so that a cell has the same probability whatever it is asked with, and answers have one order: by
probability, then by score, then by id.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit
from scipy.special import expit, logit

from ..arrays import Ids, Mask, Matrix, Triples, Vector
from ..data.names import Names
from .calibration import Calibration
from .entity_types import EntityTypes
from .known_facts import KnownFacts
from .links import Link
from .scores import Scored, cell_scores

OPEN = -1  # in place of the id that a question asks for
MARK, OMIT, ONLY = "mark", "omit", "only"  # how known answers are treated
SCORES_PER_BLOCK = 1 << 22  # computed at a time: 16 MB in single precision
NORMALISED_PER_BLOCK = 1 << 21  # scores in double precision, computed at a time
ROUNDED = 2.0**-36  # relative; scores are rounded to this
HUGE = 1e300
LEAST, TILT = 1e-12, 1e-6  # of a probability by the loss, and log-odds per θ where it has reached that
MIN_CHUNK = 32  # candidates per question that are scored again at first


class Judgeable(Scored, Protocol):
    """What the engine needs of a model."""

    @property
    def entities(self) -> Names:
        """Names of the entities."""

    @property
    def relations(self) -> Names:
        """Names of the relations."""

    @property
    def link(self) -> Link:
        """From θ to a probability, by the loss."""

    @property
    def calibration(self) -> Calibration | None:
        """From θ and other answers to a probability, from held-out facts."""

    @property
    def types(self) -> EntityTypes | None:
        """Types of the entities."""

    @property
    def has_probabilities(self) -> bool:
        """Whether cells have probabilities."""

    @property
    def base_rates(self) -> Vector | None:
        """The share of true cells that lift compares with, (K,)."""

    @property
    def self_answers(self) -> Mask | None:
        """For each relation whether a training fact has one entity as subject and object, (K,); None if not known."""

    def scores_of_all(self, entities: Ids, relation: int, *, of_objects: bool = False) -> Matrix:
        """θ of some subjects with every object, or of objects with every subject, (m, N)."""


class Judged(NamedTuple):
    """Cells, and what the model says of them, all (m,) or (m, 3)."""

    cells: Triples
    score: Vector  # log-odds of the probability of a calibrated model, θ of any other: the order of answers
    probability: Vector  # NaN if the model has none
    lift: Vector  # probability / base rate of the relation; NaN if there is none
    is_known: Mask
    rank: Ids  # among the answers that are not known; 0 if it is known, or was not asked for
    question: Ids  # row of the question

    def at(self, rows: Ids | Mask | slice) -> Judged:
        """Some of the rows."""
        columns: list[Any] = [column[rows] for column in self]
        return Judged(*columns)


class Candidates:
    """The candidates of a model's questions, given what is known."""

    def __init__(self, model: Judgeable, known: KnownFacts):
        self.model, self.known, self.calibration = model, known, model.calibration
        self.n = len(model.entities)
        self._normalisers: dict[tuple[int, int], Vector] = {}  # log(1 + Σ odds) by relation and side, NaN until asked
        self._right_types: dict[tuple[int, int], Mask] = {}

    @cached_property
    def may_be_itself(self) -> Mask:
        """For each relation whether an entity may be related to itself, (K,).

        It may if a training fact or a known fact says so, or if no fact of the relation is there to tell.
        """
        says_so: Mask = self.known.n_self_facts > 0
        own = self.model.self_answers
        return says_so | (self.known.facts.counts() == 0 if own is None else own)

    def _allowed(self, relation: int, place: int) -> Mask:
        """For each entity whether it has a right type for a place of a relation, (N,)."""
        assert self.model.types is not None
        if (relation, place) not in self._right_types:
            self._right_types[relation, place] = self.model.types.allowed(relation, place)
        return self._right_types[relation, place]

    # --- single cells

    def judge(self, cells: Triples) -> Judged:
        """What the model says of each cell, without ranks."""
        s, k, o = np.asarray(cells, np.int64).reshape(-1, 3).T
        theta = _rounded(cell_scores(self.model, s, k, o, exact=True))
        cells = np.stack([s, k, o], axis=1)
        score = theta if self.calibration is None else _rounded(self._log_odds(cells, theta))
        if not self.model.has_probabilities:
            probability = np.full(len(cells), np.nan)
        elif self.calibration is None:
            probability = np.asarray(self.model.link.probability(theta, k), np.float64).reshape(-1)
        else:
            probability = expit(score)
        rates = self.model.base_rates
        rate = np.zeros(len(cells)) if rates is None else rates[k]
        lift = np.divide(probability, rate, out=np.full(len(cells), np.nan), where=rate > 0)
        zeros = np.zeros(len(cells), np.int64)
        return Judged(cells, score, probability, lift, self.known.facts.contains(cells), zeros, zeros)

    def _log_odds(self, cells: Triples, theta: Vector) -> Vector:
        """The log-odds of the probability of each cell."""
        assert self.calibration is not None
        answered = self.known.answered(cells)
        kinds = 2 * answered[:, 0] + answered[:, 1]
        found = np.empty(len(cells))
        for k in np.unique(cells[:, 1]).tolist():
            here = np.flatnonzero(cells[:, 1] == k)
            found[here] = self.calibration.log_odds(theta[here], k, kinds[here])
            rivals = np.full(len(here), -np.inf)  # log(1 + Σ odds of the candidates of its question)
            for side in (0, 1):
                if self.calibration.one_answer[k, side]:
                    open_ = ~answered[here, side]
                    entities = cells[here[open_], 2 * side]
                    rivals[open_] = np.maximum(rivals[open_], self._log_normalisers(k, side, entities))
            found[here] = among_rivals(found[here], rivals)
            if self._has_unobserved:
                here = here[self.known.facts.is_unobserved(cells[here])]
                found[here] = self.unobserved_log_odds(found[here], theta[here], k)
        return found

    @property
    def _has_unobserved(self) -> bool:
        return len(self.known.facts.unobserved) > 0

    def unobserved_log_odds(self, log_odds: Vector, theta: Vector, relation: int) -> Vector:
        """The log-odds of cells of one relation if they are unobserved, given those if they are not.

        The fit has not seen them as false. So they begin with the log-odds of its loss, or with the score if patterns
        and factors have been weighed, as it is log-odds then; if there are none, a true cell is as frequent among them
        as in all that is observed, the listed facts included. The calibration says what masked cells make of these.
        """
        assert self.calibration is not None
        intercept, slope = self.calibration.masked[relation]
        found: Vector = intercept + slope * self._of_loss(log_odds, theta, relation)
        return found

    def _of_loss(self, log_odds: Vector, theta: Vector, relation: int) -> Vector:
        assert self.calibration is not None
        if self.model.patterns is not None and self.model.A.shape[1]:
            return np.clip(np.asarray(theta, np.float64), -HUGE, HUGE)
        if not self.model.link.gives_probabilities:
            return log_odds + self.calibration.unobserved
        theta = np.asarray(theta, np.float64)
        p = np.asarray(self.model.link.probability(theta.reshape(-1), np.full(theta.size, relation)), np.float64)
        found: Vector = logit(np.clip(p, LEAST, 1 - LEAST)).reshape(theta.shape)
        return found + TILT * np.clip(theta, -HUGE, HUGE)

    def _log_normalisers(self, relation: int, side: int, entities: Ids) -> Vector:
        """log(1 + Σ odds) of the rivals in questions about entities as subject (side 0) or object (side 1)."""
        kept = self._normalisers.setdefault((relation, side), np.full(self.n, np.nan))
        wanted = np.unique(entities)
        wanted = wanted[np.isnan(kept[wanted])]
        if len(wanted):
            rivals = self._rivals(relation, side)
            step = max(1, NORMALISED_PER_BLOCK // max(len(rivals), 1))
            for low in range(0, len(wanted), step):
                block = wanted[low : low + step]
                log_odds = self._rival_log_odds(relation, side, block, rivals)
                top = np.maximum(log_odds.max(axis=1, initial=0.0), 0.0)
                kept[block] = _rounded(top + np.log(np.exp(-top) + np.exp(log_odds - top[:, None]).sum(axis=1)))
        return kept[entities]

    def _rivals(self, relation: int, side: int) -> Ids:
        """The candidates that compete in a question with one answer: those that are answers to others, if any can be.

        Where an answer belongs to one question (an address to one person), all entities.
        """
        assert self.calibration is not None
        place = 0 if side else 2
        may_be = np.ones(self.n, bool) if self.model.types is None else self._allowed(relation, place).copy()
        if not self.calibration.one_answer[relation, 1 - side]:
            may_be &= self.known.n_answers(relation, of_objects=not side) > 0
        return np.flatnonzero(may_be)

    def _rival_log_odds(self, relation: int, side: int, entities: Ids, rivals: Ids) -> Matrix:
        """Log-odds in double precision, before they compete; −∞ for those left out, (m, rivals)."""
        assert self.calibration is not None
        n_others = self.known.n_answers(relation, of_objects=not side)
        found = self.calibration.line(self._exact_rows(relation, side, entities, rivals), relation)
        shifts = self.calibration.shifts[relation]
        # The question itself has no other answer: kind 0 or 1 of a subject, 0 or 2 of an object.
        found += np.where(n_others[rivals] > 0, shifts[2 if side else 1], shifts[0])
        rows, known = self.known.partners(relation, entities, of_objects=bool(side))
        own = n_others[known] == 1  # the fact itself is no other answer
        at = np.searchsorted(rivals, known[own])
        inside = at < len(rivals)
        inside[inside] = rivals[at[inside]] == known[own][inside]
        without = shifts[0] - shifts[2 if side else 1] if self.calibration.one_answer[relation, 1 - side] else -np.inf
        found[rows[own][inside], at[inside]] += without
        if not self.may_be_itself[relation]:
            found[entities[:, None] == rivals] = -np.inf
        return found

    def _exact_rows(self, relation: int, side: int, entities: Ids, others: Ids) -> Matrix:
        """θ of entities with others, in double precision, (m, others)."""
        patterns = self.model.patterns
        if self.model.exclusive or not self.model.A.shape[1]:
            other, one = np.broadcast_arrays(others, entities[:, None])
            s, o = (other, one) if side else (one, other)
            return _rounded(cell_scores(self.model, s, np.full(s.shape, relation), o, exact=True))
        A = self.model.A
        Q = self.model.relation_matrices.times(A[entities].astype(np.float64), relation, back=bool(side))
        theta = np.empty((len(entities), len(others)))
        step = max(1, NORMALISED_PER_BLOCK // max(1, A.shape[1]))
        for low in range(0, len(others), step):
            theta[:, low : low + step] = Q @ A[others[low : low + step]].astype(np.float64, copy=False).T
        theta += float(self.model.bias[relation])
        if patterns is not None:
            theta *= float(patterns.scale[relation])
            theta += patterns.rows(entities, relation, of_objects=bool(side))[:, others]
        return theta

    # --- questions

    def answers(self, questions: Triples, k: int, treat_known: str = OMIT) -> Judged:
        """The k best answers to each question, best first; a question is a cell with one id that is `OPEN`.

        Answers of a wrong type are left out, unless they are known.
        """
        parts = []
        for rows, place in self._groups(questions):
            asked = questions[rows]
            found = self._best_relations(asked, k, treat_known) if place == 1 else None
            if found is None:
                theta = self._theta(asked, place)
                self._leave_out(theta, asked, place, treat_known)
                found = self._best(asked, place, theta, k)
            parts.append(found._replace(question=rows[found.question]))
        if not parts:
            return self.judge(np.empty((0, 3), np.int64))
        joined = Judged(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        joined = joined.at(np.argsort(joined.question, kind="stable"))
        return joined._replace(rank=_ranks(joined))

    def ranked(self, cells: Triples) -> Judged:
        """Each cell with the rank of its object among the objects that are not known; 0 if it is known itself.

        An object of a wrong type ranks after all others.
        """
        judged = self.judge(cells)
        ranks = np.zeros(len(cells), np.int64)
        asked = judged.cells.copy()
        asked[:, 2] = OPEN
        for rows, place in self._groups(asked):
            theta = self._theta(asked[rows], place)
            self._leave_out(theta, asked[rows], place, OMIT)
            ranks[rows] = 1 + self._n_before(judged.cells[rows], place, theta, judged.score[rows])
            if self.model.types is not None:
                is_wrong = ~self._allowed(int(asked[rows[0], 1]), place)[judged.cells[rows, place]]
                ranks[rows[is_wrong]] = 1 + np.count_nonzero(theta[is_wrong] > -np.inf, axis=1)
        return judged._replace(rank=np.where(judged.is_known, 0, ranks), question=np.arange(len(cells)))

    def _groups(self, questions: Triples) -> Iterator[tuple[Ids, int]]:
        """Rows of questions about one relation with one open place, few enough to be scored together."""
        for place in (0, 1, 2):
            asked = np.flatnonzero(questions[:, place] == OPEN)
            if place == 1:
                if len(asked):
                    yield asked, 1
                continue
            relation = questions[asked, 1]
            for k in np.unique(relation).tolist():
                rows = asked[relation == k]
                step = max(1, SCORES_PER_BLOCK // self.n)
                for low in range(0, len(rows), step):
                    yield rows[low : low + step], place

    def _theta(self, questions: Triples, place: int) -> Matrix:
        """The scores of all candidates, quickly, (m, N)."""
        given, relation = questions[:, 2 - place], int(questions[0, 1])
        return self.model.scores_of_all(given, relation, of_objects=place == 0)

    def _leave_out(self, theta: Matrix, questions: Triples, place: int, treat_known: str) -> None:
        """Set the scores of what is no candidate to −∞."""
        relation, given = int(questions[0, 1]), questions[:, 2 - place]
        rows, known = self.known.partners(relation, given, of_objects=place == 0)
        kept = theta[rows, known].copy()
        if treat_known == ONLY:
            theta[:] = -np.inf
        else:
            if self.model.types is not None:
                theta[:, ~self._allowed(relation, place)] = -np.inf
            if not self.may_be_itself[relation]:
                theta[np.arange(len(theta)), given] = -np.inf
        theta[rows, known] = -np.inf if treat_known == OMIT else kept

    def _best(self, questions: Triples, place: int, theta: Matrix, k: int) -> Judged:
        """The k best candidates of each row."""
        bound = self._bounds(questions, place, theta)
        m, n = bound.shape
        chunk = min(n, max(2 * k, k + MIN_CHUNK))
        found: list[Judged] = []
        pending = np.arange(m)
        while len(pending):
            rows = bound[pending]
            if chunk < n:
                chosen = np.argpartition(-rows, chunk - 1, axis=1)[:, :chunk]
                # the best of the rest is at most the least of the chosen
                rest = np.take_along_axis(rows, chosen, axis=1).min(axis=1)
            else:
                chosen, rest = np.broadcast_to(np.arange(n), rows.shape), np.full(len(rows), -np.inf)
            is_candidate = np.take_along_axis(rows, chosen, axis=1) > -np.inf
            row, _ = np.nonzero(is_candidate)
            cells = questions[pending[row]].copy()
            cells[:, place] = chosen[is_candidate]
            judged = self.judge(cells)._replace(question=pending[row])
            judged = judged.at(best_first(judged))
            first = np.searchsorted(judged.question, pending)
            place_in_row = np.arange(len(judged.cells)) - first[np.searchsorted(pending, judged.question)]
            is_last = place_in_row == k - 1
            worst = np.full(m, np.inf if chunk >= n else -np.inf)
            worst[judged.question[is_last]] = judged.score[is_last]
            done = (worst[pending] > rest) | (rest == -np.inf)
            kept = (place_in_row < k) & done[np.searchsorted(pending, judged.question)]
            found.append(judged.at(kept))
            pending, chunk = pending[~done], min(n, 4 * chunk)
        joined = Judged(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
        return joined.at(np.argsort(joined.question, kind="stable"))

    def _best_relations(self, questions: Triples, k: int, treat_known: str) -> Judged:
        """The best relations of each pair: all are scored exactly."""
        K = len(self.model.relations)
        cells = np.repeat(questions, K, axis=0)
        cells[:, 1] = np.tile(np.arange(K), len(questions))
        judged = self.judge(cells)._replace(question=np.repeat(np.arange(len(questions)), K))
        keep = np.ones(len(cells), bool)
        keep &= (cells[:, 0] != cells[:, 2]) | self.may_be_itself[cells[:, 1]]
        if self.model.types is not None:
            for relation in range(K):
                here = cells[:, 1] == relation
                for place in (0, 2):
                    keep[here] &= self._allowed(relation, place)[cells[here, place]]
        keep = {OMIT: keep & ~judged.is_known, ONLY: judged.is_known, MARK: keep | judged.is_known}[treat_known]
        judged = judged.at(keep)
        judged = judged.at(best_first(judged))
        first = np.searchsorted(judged.question, judged.question)
        return judged.at(np.arange(len(judged.cells)) - first < k)

    def _bounds(self, questions: Triples, place: int, theta: Matrix, sign: int = 1) -> Matrix:
        """What the score of each candidate cannot exceed (sign 1), or fall below before it competes (sign −1).

        With rounding errors of fast products; −∞ for candidates that are left out.
        """
        relation = int(questions[0, 1])
        high: Matrix = theta.astype(np.float64)
        high += sign * (self._rounding(relation) + 2 * ROUNDED * np.abs(np.maximum(high, -HUGE)))
        if self.calibration is None:
            return high
        excluded = np.isneginf(high)
        kinds = self._kinds(questions, place)
        theta_bound = high
        high = self.calibration.log_odds(high, relation, kinds)
        given_side = 1 - place // 2
        if self.calibration.one_answer[relation, given_side]:  # all candidates of a question have the same rivals
            rivals = self._log_normalisers(relation, given_side, questions[:, 2 - place])[:, None]
            is_open = (kinds % 2 == 0) if given_side else (kinds < 2)
            high = np.where(is_open, among_rivals(high, np.broadcast_to(rivals, high.shape)), high)
        if self._has_unobserved:
            high = sign * np.maximum(sign * high, sign * self.unobserved_log_odds(high, theta_bound, relation))
        high += sign * 2 * ROUNDED * np.abs(np.maximum(high, -HUGE))
        high[excluded] = -np.inf
        return high

    def _kinds(self, questions: Triples, place: int) -> Ids:
        """The kind of each candidate, (m, N); a known fact is no other answer beside itself."""
        relation, given = int(questions[0, 1]), questions[:, 2 - place]
        mine = self.known.n_answers(relation, of_objects=place == 0)[given]
        theirs = self.known.n_answers(relation, of_objects=place == 2)
        own, other = np.broadcast_arrays((mine > 0)[:, None].astype(np.int64), (theirs > 0).astype(np.int64))
        kinds = 2 * own + other if place == 2 else 2 * other + own
        rows, known = self.known.partners(relation, given, of_objects=place == 0)
        own_known, other_known = (mine[rows] > 1).astype(np.int64), (theirs[known] > 1).astype(np.int64)
        kinds[rows, known] = 2 * own_known + other_known if place == 2 else 2 * other_known + own_known
        found: Ids = kinds
        return found

    @cached_property
    def _longest(self) -> float:
        return float(np.linalg.norm(self.model.A, axis=1).max(initial=0.0))

    def _rounding(self, relation: int) -> float:
        """How far a score by fast products may be from the exact one."""
        A = self.model.A
        precision = max(float(np.finfo(A.dtype).eps), float(np.finfo(np.float32).eps))
        norm = self.model.relation_matrices.norm(relation) if A.shape[1] else 0.0
        size = self._longest**2 * norm + abs(float(self.model.bias[relation]))
        by_factors = float(4 * (A.shape[1] + 2) * precision * size)
        patterns = self.model.patterns
        return by_factors if patterns is None else patterns.rounding(relation, by_factors)

    # --- ranks

    def count_rivals(self, cells: Triples, place: int, theta: Matrix) -> tuple[Ids, Ids, int]:
        """How many candidates are better than each cell for its open place, how many as good, how many scores bad.

        theta: (m, N), by fast products, with −∞ for what is no rival. The cell itself counts as equal.
        """
        relation, targets = int(cells[0, 1]), np.ascontiguousarray(cells[:, place])
        own = theta[np.arange(len(cells)), targets]
        limits, kinds = np.repeat(own[:, None], 2, axis=1), np.zeros(self.n, np.uint8)
        if self.calibration is not None and self._compete(relation, place):
            theta = self.all_log_odds(cells, place, theta)
            limits = np.repeat(theta[np.arange(len(cells)), targets][:, None], 2, axis=1)
        elif self.calibration is not None:
            answered = self.known.answered(cells)
            own_kind = 2 * answered[:, 0] + answered[:, 1]
            log_odds = self.calibration.log_odds(own, relation, own_kind)
            mine, theirs = answered[:, 0 if place == 2 else 1].astype(np.int64), answered[:, place // 2]
            kinds = (self.known.n_answers(relation, of_objects=place == 2) > 0).astype(np.uint8)
            for other in (0, 1):
                shift = self.calibration.shifts[relation, 2 * mine + other if place == 2 else 2 * other + mine]
                equal = self.calibration.score_at(log_odds - shift, relation)
                limits[:, other] = np.where(theirs == other, own, equal)
            # the target's own known fact must not change its kind
            limits[np.arange(len(cells)), kinds[targets]] = own
        return _count(theta, limits, kinds)  # type: ignore[no-any-return]

    def _compete(self, relation: int, place: int) -> bool:
        """Whether the candidates of one kind for a place are not in the order of their scores.

        They may differ in what they compete with, or in having been looked at, or the line does not rise everywhere.
        """
        assert self.calibration is not None
        competes = bool(self.calibration.one_answer[relation, place // 2])
        return competes or self._has_unobserved or not self.calibration.rises(relation)

    def all_log_odds(self, questions: Triples, place: int, theta: Matrix) -> Matrix:
        """The log-odds of all candidates, quickly, each beside its own rivals."""
        assert self.calibration is not None
        relation, given, side = int(questions[0, 1]), questions[:, 2 - place], place // 2
        kinds = self._kinds(questions, place)
        found = self.calibration.log_odds(theta, relation, kinds)
        rivals = np.full(found.shape, -np.inf)
        if self.calibration.one_answer[relation, side]:
            open_ = (kinds < 2) if side == 0 else (kinds % 2 == 0)
            wanted = np.flatnonzero((open_ & (theta > -np.inf)).any(axis=0))
            log_sums = np.full(self.n, -np.inf)
            log_sums[wanted] = self._log_normalisers(relation, side, wanted)
            rivals = np.where(open_, log_sums, -np.inf)
        if self.calibration.one_answer[relation, 1 - side]:
            open_ = (kinds % 2 == 0) if side == 0 else (kinds < 2)
            own = self._log_normalisers(relation, 1 - side, given)[:, None]
            rivals = np.where(open_, np.maximum(rivals, own), rivals)
        found = among_rivals(found, rivals)
        if self._has_unobserved:
            everyone, one = np.broadcast_arrays(np.arange(self.n), given[:, None])
            s, o = (one, everyone) if place == 2 else (everyone, one)
            cells = np.stack([s.ravel(), np.full(s.size, relation), o.ravel()], axis=1)
            here = self.known.facts.is_unobserved(cells).reshape(s.shape)
            found[here] = self.unobserved_log_odds(found[here], theta[here], relation)
        found[np.isneginf(theta)] = -np.inf
        return found

    def _n_before(self, cells: Triples, place: int, theta: Matrix, score: Vector) -> Ids:
        """How many candidates come before each cell in the list of the best."""
        high = self._bounds(cells, place, theta, +1)
        low = self._bounds(cells, place, theta, -1)
        if self.calibration is not None and self._compete(int(cells[0, 1]), place):
            low[:] = -np.inf
        target = cells[:, place]
        high[np.arange(len(cells)), target] = -np.inf
        is_better = (low > score[:, None]) & (high > -np.inf)
        found = np.count_nonzero(is_better, axis=1)
        row, candidate = np.nonzero((high >= score[:, None]) & ~is_better)
        rivals = cells[row].copy()
        rivals[:, place] = candidate
        judged = self.judge(rivals)
        is_equal: Mask = judged.score == score[row]
        before = (judged.score > score[row]) | (is_equal & (candidate < target[row]))
        n_before: Ids = found + np.bincount(row[before], minlength=len(cells))
        return n_before


def _rounded(theta: Vector) -> Vector:
    """Numbers to 36 binary digits: sums of another order differ in later ones."""
    fraction, exponent = np.frexp(theta)
    found: Vector = np.ldexp(np.round(fraction / ROUNDED), exponent) * ROUNDED
    return found


def among_rivals(log_odds: Vector, log_rivals: Vector) -> Vector:
    """Log-odds of a candidate that competes: o / (1 + Σ − o), for the logarithm of 1 + Σ; −∞ if it does not compete.

    The candidate is one of the Σ; if it was left out of it, Σ may be too small, and it counts itself.
    """
    found = np.array(log_odds, np.float64)
    competes = log_rivals > np.logaddexp(0.0, log_odds)
    share = found[competes] - log_rivals[competes]  # log of o / (1 + Σ)
    found[competes] = share - np.log(-np.expm1(share))
    return found


def best_first(judged: Judged) -> Ids:
    """By question, then best first: by probability, by score, by ids."""
    p = np.nan_to_num(judged.probability, nan=0.0)
    s, k, o = judged.cells.T
    return np.lexsort((o, k, s, -judged.score, -p, judged.question))


def _ranks(judged: Judged) -> Ids:
    """Ranks in the order of the rows, per question, of what is not known."""
    counts = np.cumsum(~judged.is_known)
    first = np.searchsorted(judged.question, judged.question)
    before: Ids = counts[first] - ~judged.is_known[first]
    return np.where(judged.is_known, 0, counts - before)


@njit(cache=True, nogil=True)
def _count(theta, limits, kinds):  # type: ignore[no-untyped-def]
    """Candidates above and at the limit of their kind, per row; and scores that are not numbers, or +∞."""
    better, tied = np.zeros(len(theta), np.int64), np.zeros(len(theta), np.int64)
    n_wrong = 0
    for row in range(len(theta)):
        line, low, high = theta[row], limits[row, 0], limits[row, 1]
        above = equal = wrong = np.int32(0)  # as wide as a score, else the loop is not vectorised
        for column in range(len(line)):  # by index: iterating over the line is not vectorised either
            score = line[column]
            limit = high if kinds[column] else low
            above = np.int32(above + np.int32(score > limit))
            equal = np.int32(equal + np.int32(score == limit))
            wrong = np.int32(wrong + np.int32((score != score) | (score > 3e38)))
        better[row], tied[row] = above, equal
        n_wrong += int(wrong)
    return better, tied, n_wrong
