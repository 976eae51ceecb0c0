"""Filtered ranks of test facts.

Each fact asks two questions: (subject, relation, ?) and (?, relation, object). Every entity is a candidate; candidates
known to be true are not counted as rivals (the filtered setting).

    optimistic  = 1 + rivals with a higher score
    pessimistic = 1 + rivals with a higher or an equal score
    rank        = the mean of the two, which is the expected rank when ties are broken at random
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Matrix, Vector
from ..data.facts import Facts
from ..data.names import Names
from ..data.read.read import read_if_table
from ..errors import DataWarning, FitError, InputError
from ..json_values import to_json
from ..model.factors import Factors, against_others
from ..progress import Progress, reporting
from ..result_tables import Result, html_table
from .frequency_baseline import Frequencies
from .rank_summary import RankSummary, figures_row, summarise
from .ranking_questions import OPEN_PLACE, Questions, extended, n_isolated, questions_of, translated
from .training_overlap import n_trained_on

BLOCK_BYTES = 64 << 20  # scores computed at a time
SIDES = ("subject", "object")  # the place a question asks for

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Result):
    """Filtered ranks of test facts and their summary; the result of `evaluate`.

    Row i belongs to `test.triples[i]`; column 0 asks for the subject, column 1 for the object. `to_pandas`
    has one row per relation, most facts first.

    >>> import relatent
    >>> train, test = relatent.split(relatent.load_dataset("kinships"), test_size=0.1)
    >>> ranking = relatent.evaluate(relatent.RescalALS(rank=10).fit(train).factors_, test, known=train)
    >>> 0 < ranking.mrr <= 1, ranking.hits[1] <= ranking.hits[10], sorted(ranking.by_side)
    (True, True, ['object', 'subject'])
    """

    optimistic: Counts  # (n, 2)
    pessimistic: Counts  # (n, 2)
    relation_ids: Ids  # (n,) of the test facts
    relations: Names
    cutoffs: tuple[int, ...] = (1, 3, 10)
    n_unseen: int = 0  # entities and relations in the test facts that the model does not know
    n_isolated: int = 0  # entities in the test facts that occur in no known fact
    n_known: int = 0  # known facts beside the test facts; if there are none, nothing but the test facts is filtered
    n_trained_on: int | None = None  # test facts that the model was fitted to; None if that cannot be told
    baseline: Ranking | None = None  # the same questions answered by frequency in the known facts, if there are any
    typed: Ranking | None = None  # the same questions with candidates of a wrong type last, if the model has types
    n_wrong_type: int = 0  # of `typed`: right answers that have a wrong type, so that the model does not offer them

    @property
    def n(self) -> int:
        """The number of test facts; each has two ranks."""
        return len(self.optimistic)

    @cached_property
    def ranks(self) -> Vector:
        """The mean of optimistic and pessimistic rank, (n, 2)."""
        return (self.optimistic + self.pessimistic) / 2

    @cached_property
    def overall(self) -> RankSummary:
        """The summary of both sides together."""
        return summarise(self.ranks, self.cutoffs)

    @property
    def mrr(self) -> float:
        """The mean reciprocal rank."""
        return self.overall.mrr

    @property
    def mean_rank(self) -> float:
        """The mean rank."""
        return self.overall.mean_rank

    @property
    def hits(self) -> dict[int, float]:
        """The fraction of ranks that are at most k, for each cutoff k."""
        return self.overall.hits

    @property
    def mrr_optimistic(self) -> float:
        """The mean reciprocal rank if every tie were won."""
        return float(np.mean(1 / self.optimistic))

    @property
    def mrr_pessimistic(self) -> float:
        """The mean reciprocal rank if every tie were lost."""
        return float(np.mean(1 / self.pessimistic))

    @cached_property
    def by_side(self) -> dict[str, RankSummary]:
        """The summary of the questions for the subject and of those for the object."""
        return {side: summarise(self.ranks[:, column], self.cutoffs) for column, side in enumerate(SIDES)}

    @cached_property
    def by_relation(self) -> dict[str, RankSummary]:
        """The summary of each relation that has test facts, most facts first."""
        ids, n_facts = np.unique(self.relation_ids, return_counts=True)
        return {
            self.relations[k]: summarise(self.ranks[self.relation_ids == k], self.cutoffs)
            for k in ids[np.argsort(-n_facts, kind="stable")].tolist()
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything except the single ranks, as JSON values."""
        return {
            **self._figures(),
            "n_unseen": self.n_unseen,
            "n_isolated": self.n_isolated,
            "n_known": self.n_known,
            "n_trained_on": self.n_trained_on,
            "baseline": None if self.baseline is None else self.baseline._figures(),
            "typed": None if self.typed is None else {**self.typed._figures(), "n_wrong_type": self.typed.n_wrong_type},
        }

    def _figures(self) -> dict[str, Any]:
        return {
            **to_json(self.overall),
            "mrr_optimistic": self.mrr_optimistic,
            "mrr_pessimistic": self.mrr_pessimistic,
            "by_side": to_json(self.by_side),
            "by_relation": {name: {"facts": row.n // 2, **to_json(row)} for name, row in self.by_relation.items()},
        }

    def _table(self) -> list[dict[str, Any]]:
        """The summary of each relation, most facts first."""
        return [
            {"relation": name, "facts": found.n // 2, **figures_row(found)}
            | ({} if self.baseline is None else {"baseline_mrr": self.baseline.by_relation[name].mrr})
            for name, found in self.by_relation.items()
        ]

    def _repr_html_(self) -> str:
        """The figures of all relations together beside the frequency baseline."""
        shown = {"model": self.overall, **({} if self.baseline is None else {"most frequent": self.baseline.overall})}
        return html_table(repr(self), [{"": name, **figures_row(found)} for name, found in shown.items()])

    def __repr__(self) -> str:
        hits = ", ".join(f"hits@{k} {share:.3f}" for k, share in self.hits.items())
        return f"Ranking({self.n} facts, MRR {self.mrr:.3f}, {hits})"


def evaluate(
    factors: Factors,
    test: Facts,
    *,
    known: Facts | Sequence[Facts] = (),
    batch_size: int | None = None,
    hits: Sequence[int] = (1, 3, 10),
    progress: bool | Progress | None = None,
) -> Ranking:
    """Rank test facts among all entities, on both sides, filtered.

    Vocabularies are matched by name. Test entities that the model does not know are ranked with a zero vector. If the
    model has types, `Ranking.typed` has the ranks with candidates of a wrong type after all others, too.

    Parameters
    ----------
    test : the facts, or a data frame that `relatent.read` reads
    known : other true facts, usually training and validation facts; neither they nor the test facts count as rivals;
        the frequency baseline counts them, and a warning says so if they show that test facts were trained on
    batch_size : questions scored together; None: as many as fit into 64 MB of scores
    hits : cutoffs k of hits@k
    progress : True for a bar, or a function called with (questions answered, questions, note)

    >>> import relatent
    >>> train, test = relatent.split(relatent.load_dataset("kinships"), test_size=0.1)
    >>> relatent.evaluate(relatent.RescalALS(rank=10).fit(train).factors_, test, known=train).n == len(test)
    True
    """
    test, known = read_if_table(test), read_if_table(known)
    known = (known,) if isinstance(known, Facts) else tuple(map(read_if_table, known))
    _check_arguments(factors, test, batch_size, hits)
    entities = extended(factors.entities, test.entities, test.triples[:, [0, 2]])
    relations = extended(factors.relations, test.relations, test.triples[:, 1])
    n_unseen = len(entities) - len(factors.entities)
    if n_unseen and n_unseen == len(np.unique(test.triples[:, [0, 2]])):
        warnings.warn(
            "the model knows no entity of the test facts; are they from the same data?", DataWarning, stacklevel=2
        )
    trained_on = n_trained_on(factors, test, known)
    if trained_on:
        message = f"the model was fitted to {trained_on:,} of the {len(test):,} test facts; evaluate it on other facts"
        warnings.warn(message, DataWarning, stacklevel=2)
    cells = [translated(facts, entities, relations) for facts in (test, *known)]
    scorer, frequencies = _Scorer(factors, len(entities), batch_size), Frequencies(cells, len(entities))
    optimistic, pessimistic, *by_frequency = np.empty((4, len(test), 2), np.int64)
    typed, n_wrong_type = np.empty((2, len(test), 2), np.int64), 0
    with reporting(progress, "ranking facts") as report:
        for column in (0, 1):
            questions = questions_of(cells, column, len(entities))
            for rows, (better, tied), (better_typed, tied_typed) in _count_rivals(scorer, questions, column):
                optimistic[rows, column] = 1 + better
                pessimistic[rows, column] = 1 + better + tied
                typed[:, rows, column] = 1 + better_typed, 1 + better_typed + tied_typed
                report(column * len(test) + rows.stop, 2 * len(test), "ranking facts")
            better, tied = frequencies.count_rivals(questions, column)
            by_frequency[0][:, column], by_frequency[1][:, column] = 1 + better, 1 + better + tied
            n_wrong_type += scorer.n_wrong_type(questions, column)
    ranking = Ranking(
        optimistic,
        pessimistic,
        np.array(test.triples[:, 1]),
        test.relations,
        tuple(hits),
        n_unseen + len(relations) - len(factors.relations),
        n_isolated(cells, len(entities)),
        frequencies.n_facts,
        trained_on,
    )
    if factors.types is not None:
        found = replace(ranking, optimistic=typed[0], pessimistic=typed[1], n_wrong_type=n_wrong_type)
        ranking = replace(ranking, typed=found)
    if not frequencies.n_facts:
        return ranking
    baseline = replace(ranking, optimistic=by_frequency[0], pessimistic=by_frequency[1], n_trained_on=None, typed=None)
    return replace(ranking, baseline=baseline)


def _check_arguments(factors: Factors, test: Facts, batch_size: int | None, hits: Sequence[int]) -> None:
    if not isinstance(factors, Factors):
        raise InputError(f"evaluate takes Factors, got {type(factors).__name__}; pass estimator.factors_")
    if not isinstance(test, Facts):
        raise InputError(f"test must be Facts or a data frame, got {type(test).__name__}; use relatent.read(…)")
    if not len(test):
        raise InputError("test must contain at least one fact, got none")
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    for k in hits:
        if k < 1:
            raise InputError(f"hits must be at least 1, got {k}")
    if n_wrong := np.count_nonzero(~np.isfinite(factors.bias)):
        raise FitError(f"scores must be finite, got {n_wrong} biases that are not; did the fit diverge?")


# --- scores, in blocks


class _Scorer:
    """Scores of all candidates for a block of questions, without the bias where all candidates share it."""

    def __init__(self, factors: Factors, n: int, batch_size: int | None):
        dtype = np.result_type(factors.A, factors.relation_matrices.dtype, np.float32)
        self.A = factors.A.astype(dtype, copy=False)
        self.R = factors.relation_matrices.astype(dtype)
        self.bias = factors.bias.astype(dtype, copy=False)
        self.exclusive, self.types, self.rules = factors.exclusive, factors.types, factors.rules
        self.batch_size = batch_size or max(1, BLOCK_BYTES // (n * dtype.itemsize))
        self.n = n

    def block(self, n_rows: int) -> Matrix:
        """An array for scores; entities without factors keep the score 0."""
        return np.zeros((n_rows, self.n), self.A.dtype)

    def fill(self, scores: Matrix, given: Ids, relation: Ids, column: int) -> None:
        if self.exclusive:
            self._fill_exclusive(scores, given, relation, column)
            return
        Q = np.zeros((len(given), self.A.shape[1]), self.A.dtype)
        edges = np.flatnonzero(np.diff(relation, prepend=-1, append=-1))
        with np.errstate(all="ignore"):  # the caller counts scores that are not finite, and raises
            for start, stop in pairwise(edges.tolist()):
                k = relation[start]
                if k < len(self.R):
                    rows = start + np.flatnonzero(given[start:stop] < len(self.A))
                    Q[rows] = self.R.times(self.A[given[rows]], int(k), back=column == 0)
            np.matmul(Q, self.A.T, out=scores[:, : len(self.A)])
            if self.rules is not None:
                for start, stop in pairwise(edges.tolist()):
                    rows = start + np.flatnonzero(given[start:stop] < len(self.A))
                    if relation[start] < len(self.R):
                        added = self.rules.rows(given[rows], int(relation[start]), of_objects=column == 0)
                        scores[rows, : len(self.A)] += added

    def put_wrong_types_last(self, scores: Matrix, relation: Ids, column: int) -> None:
        """Lower the scores of candidates of a wrong type below those of all others, in place."""
        gap = scores.max(axis=1) - scores.min(axis=1) + 1
        for start, stop, is_wrong in self._wrong_types(relation, column):
            scores[start:stop, is_wrong] -= gap[start:stop, None]

    def n_wrong_type(self, questions: Questions, column: int) -> int:
        """The number of right answers of a wrong type."""
        found = self._wrong_types(questions.relation, column)
        return sum(int(is_wrong[questions.target[start:stop]].sum()) for start, stop, is_wrong in found)

    def _wrong_types(self, relation: Ids, column: int) -> Iterator[tuple[int, int, Mask]]:
        """For each run of questions about one relation the candidates of a wrong type, (N,)."""
        if self.types is None:
            return
        edges = np.flatnonzero(np.diff(relation, prepend=-1, append=-1))
        for start, stop in pairwise(edges.tolist()):
            is_wrong = np.zeros(self.n, bool)
            if relation[start] < len(self.R):
                is_wrong[: len(self.A)] = ~self.types.allowed(int(relation[start]), OPEN_PLACE[column])
            yield start, stop, is_wrong

    def _fill_exclusive(self, scores: Matrix, given: Ids, relation: Ids, column: int) -> None:
        """Log-odds of one relation against the others, which needs the scores of all relations of the pair."""
        R = self.R.expanded()
        scores[:] = 0
        R = R.transpose(0, 2, 1) if column == 0 else R
        for row in np.flatnonzero((given < len(self.A)) & (relation < len(self.R))).tolist():
            theta = (self.A[given[row]] @ R) @ self.A.T + self.bias[:, None]  # (K, N)
            scores[row, : len(self.A)] = against_others(theta, np.full(len(self.A), relation[row]))


def _count_rivals(
    scorer: _Scorer, questions: Questions, column: int
) -> Iterator[tuple[slice, tuple[Counts, Counts], tuple[Counts, Counts]]]:
    """For each block of questions the numbers of rivals with a higher and with an equal score, also by type."""
    n = len(questions.target)
    block = scorer.block(min(n, scorer.batch_size))
    for start in range(0, n, scorer.batch_size):
        rows = slice(start, min(start + scorer.batch_size, n))
        scores = block[: rows.stop - start]
        scorer.fill(scores, questions.given[rows], questions.relation[rows], column)
        asked = (questions.target[rows], questions.answers, questions.starts[rows], questions.stops[rows])
        better, tied, n_wrong = _count(scores, *asked)
        if n_wrong:
            raise FitError(f"scores must be finite, got {n_wrong} that are not; did the fit diverge?")
        typed = (better, tied)
        if scorer.types is not None:
            scorer.put_wrong_types_last(scores, questions.relation[rows], column)
            typed = _count(scores, *asked)[:2]
        yield rows, (better, tied), typed


@njit(cache=True, nogil=True)
def _count(scores: Matrix, target: Ids, answers: Ids, starts: Ids, stops: Ids) -> tuple[Counts, Counts, int]:
    """Count all candidates, then subtract the known answers, which include the target."""
    better, tied = np.zeros(len(scores), np.int64), np.zeros(len(scores), np.int64)
    n_wrong = 0
    for row in range(len(scores)):
        line = scores[row]
        own = line[target[row]]
        above = equal = wrong = np.int32(0)  # as wide as a score, else the loop is not vectorised
        for column in range(len(line)):  # by index: iterating over the line is not vectorised either
            score = line[column]
            above = np.int32(above + np.int32(score > own))
            equal = np.int32(equal + np.int32(score == own))
            wrong = np.int32(wrong + np.int32(score - score != 0))  # NaN for infinite and for NaN
        better[row], tied[row] = above, equal
        n_wrong += int(wrong)
        for known in answers[starts[row] : stops[row]]:
            better[row] -= line[known] > own
            tied[row] -= line[known] == own
    return better, tied, n_wrong
