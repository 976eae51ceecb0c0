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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Vector
from ..data.facts import Facts
from ..data.names import Names
from ..data.read.read import read_if_table
from ..errors import DataWarning, FitError, InputError
from ..json_values import to_json
from ..model.candidates import Candidates
from ..model.factors import Factors
from ..model.known_facts import KnownFacts
from ..model.vocabulary import check_shared
from ..progress import Progress, reporting
from ..result_tables import Result, html_table
from .frequency_baseline import Frequencies
from .rank_summary import RankSummary, figures_row, summarise
from .ranking_questions import OPEN_PLACE, RankingQuestions, extended, n_isolated, questions_of, translated

BLOCK_BYTES = 64 << 20  # scores computed at a time
ANSWERS, BENCHMARK = "answers", "benchmark"  # which candidates are ranked
SIDES = ("subject", "object")  # the place a question asks for

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Result):
    """Filtered ranks of test facts and their summary; the result of `evaluate`.

    Row i belongs to `test.triples[i]`; column 0 asks for the subject, column 1 for the object. `to_pandas`
    has one row per relation, most facts first.

    >>> import relatent
    >>> train, test = relatent.split(relatent.load_dataset("kinships"), test_size=0.1)
    >>> ranking = relatent.evaluate(relatent.RescalALS(rank=10).fit(train).factors_, test)
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
    n_wrong_type: int = 0  # right answers that have a wrong type, so that the model does not offer them
    protocol: str = ANSWERS  # which candidates were ranked

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
            "n_wrong_type": self.n_wrong_type,
            "protocol": self.protocol,
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
    protocol: str = ANSWERS,
    batch_size: int | None = None,
    hits: Sequence[int] = (1, 3, 10),
    progress: bool | Progress | None = None,
) -> Ranking:
    """Rank test facts among the answers to their questions, on both sides, filtered by what the model knows.

    Names are matched. Candidates are ordered as in every list of answers: by probability. A question with a name that
    the model does not know is answered at random.

    Parameters
    ----------
    test : the facts, or a data frame that `relatent.read` reads
    known : further true facts, such as validation facts, beside those of the model; neither they nor the test facts
        count as rivals, and the frequency baseline counts them, but not the test facts
    protocol : "answers", the candidates that the model would offer: no wrong types, and not the entity of the question
        itself unless the relation has such facts; "benchmark", all entities, as published figures have it
    batch_size : questions scored together; None: as many as fit into 64 MB of scores
    hits : cutoffs k of hits@k
    progress : True for a bar, or a function called with (questions answered, questions, note)

    >>> import relatent
    >>> train, test = relatent.split(relatent.load_dataset("kinships"), test_size=0.1)
    >>> relatent.evaluate(relatent.RescalALS(rank=10).fit(train).factors_, test).n == len(test)
    True
    """
    test = read_if_table(test)
    further = [known] if isinstance(known, Facts) else list(map(read_if_table, _several(known)))
    _check_arguments(factors, test, batch_size, hits, protocol)
    check_shared(factors.entities, factors.relations, test, "test facts")
    test = factors.as_undirected(test)
    further = list(map(factors.as_undirected, further))
    own = [] if factors.facts is None else [factors.facts]
    entities = extended(factors.entities, test.entities, test.triples[:, [0, 2]])
    relations = extended(factors.relations, test.relations, test.triples[:, 1])
    cells = [translated(facts, entities, relations) for facts in (test, *own, *further)]
    trained_on = None if factors.facts is None else _n_trained_on(factors.facts, test)
    if trained_on:
        n_test = np.count_nonzero(test.once)
        message = f"the model was fitted to {trained_on:,} of the {n_test:,} test facts; evaluate it on other facts"
        warnings.warn(message, DataWarning, stacklevel=2)
    asked = _without(factors, further, test)
    frequencies = Frequencies(cells, len(entities))
    better, tied, *by_frequency = np.zeros((4, len(test), 2), np.int64)
    n_wrong_type = 0
    with reporting(progress, "ranking facts") as report:
        for column in (0, 1):
            questions = questions_of(cells, column, len(entities))
            rivals = _Rivals(factors, asked, questions, column, len(entities), protocol)
            for rows, counts in rivals.count(batch_size):
                better[rows, column], tied[rows, column] = counts
                report(column * len(test) + rivals.n_done, 2 * len(test), "ranking facts")
            n_wrong_type += rivals.n_wrong_type
            by_frequency[0][:, column], by_frequency[1][:, column] = frequencies.count_rivals(questions, column)
    better, tied, *by_frequency = (counts[test.once] for counts in (better, tied, *by_frequency))
    ranking = Ranking(
        1 + better,
        1 + better + tied,
        test.triples[test.once, 1],
        test.relations,
        tuple(hits),
        len(entities) - len(factors.entities) + len(relations) - len(factors.relations),
        n_isolated(cells, len(entities)),
        frequencies.n_facts,
        trained_on,
        n_wrong_type=n_wrong_type,
        protocol=protocol,
    )
    if not frequencies.n_facts:
        return ranking
    optimistic, pessimistic = 1 + by_frequency[0], 1 + by_frequency[0] + by_frequency[1]
    baseline = replace(ranking, optimistic=optimistic, pessimistic=pessimistic, n_trained_on=None, n_wrong_type=0)
    return replace(ranking, baseline=baseline)


def _several(known: Any) -> Sequence[Any]:
    return known if isinstance(known, (list, tuple)) else [known]


def _refuse_scores(n_bad: int) -> None:
    raise FitError(f"scores must be finite, got {n_bad} that are not; did the fit diverge?")


def _n_trained_on(facts: Facts, test: Facts) -> int:
    same = test.over(facts.entities, facts.relations)
    return int(np.count_nonzero(facts.contains(same.triples[same.once])))


def _without(factors: Factors, further: Sequence[Facts], test: Facts) -> Candidates:
    """The candidates, given all that is known without the test facts: they must not answer for themselves."""
    asked = factors.asked(further)
    known = asked.known.facts
    tested = test.over(factors.entities, factors.relations)
    is_tested = tested.contains(known.triples)
    return Candidates(factors, KnownFacts(known.subset(~is_tested))) if is_tested.any() else asked


def _check_arguments(factors: Factors, test: Facts, batch_size: int | None, hits: Sequence[int], protocol: str) -> None:
    if not isinstance(factors, Factors):
        raise InputError(f"evaluate takes Factors, got {type(factors).__name__}; pass estimator.factors_")
    if not isinstance(test, Facts):
        raise InputError(f"test must be Facts or a data frame, got {type(test).__name__}; use relatent.read(…)")
    if not len(test):
        raise InputError("test must contain at least one fact, got none")
    if protocol not in (ANSWERS, BENCHMARK):
        raise InputError(f"protocol must be {ANSWERS!r} or {BENCHMARK!r}, got {protocol!r}")
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    for k in hits:
        if k < 1:
            raise InputError(f"hits must be at least 1, got {k}")
    if n_wrong := np.count_nonzero(~np.isfinite(factors.bias)):
        raise FitError(f"scores must be finite, got {n_wrong} biases that are not; did the fit diverge?")


class _Rivals:
    """Rivals of the right answers to questions for one place, by blocks of questions about one relation."""

    def __init__(
        self, factors: Factors, asked: Candidates, questions: RankingQuestions, column: int, n: int, protocol: str
    ):
        self.factors, self.asked, self.questions, self.n = factors, asked, questions, n
        self.place, self.offers_all = OPEN_PLACE[column], protocol == BENCHMARK
        self.n_done = self.n_wrong_type = 0

    def count(self, batch_size: int | None) -> Iterator[tuple[Ids, tuple[Ids, Ids]]]:
        """Rows of questions, and how many candidates are better and as good."""
        q, n_known = self.questions, len(self.factors.entities)
        is_known = (q.given < n_known) & (q.target < n_known) & (q.relation < len(self.factors.relations))
        unknown = np.flatnonzero(~is_known)
        self.n_done += len(unknown)
        others = self.n - (q.stops - q.starts)[unknown]
        if len(unknown):
            yield unknown, (np.zeros(len(unknown), np.int64), others)
        asked = np.flatnonzero(is_known)
        asked = asked[np.argsort(q.relation[asked], kind="stable")]
        step = batch_size or max(1, BLOCK_BYTES // (n_known * self.factors.A.itemsize))
        for own in np.split(asked, np.flatnonzero(np.diff(q.relation[asked])) + 1):
            for low in range(0, len(own), step):
                rows = own[low : low + step]
                self.n_done += len(rows)
                yield rows, self._count(rows)

    def _count(self, rows: Ids) -> tuple[Ids, Ids]:
        q, place = self.questions, self.place
        relation = int(q.relation[rows[0]])
        with np.errstate(all="ignore"):  # scores that are not finite are counted
            theta = self.factors.scores_of_all(q.given[rows], relation, of_objects=place == 0)
            if not theta.min() > -np.inf:  # from here on, −∞ is what is left out
                _refuse_scores(int(np.count_nonzero(~np.isfinite(theta))))
        line = np.arange(len(rows))
        own = theta[line, q.target[rows]]
        lengths = q.stops[rows] - q.starts[rows]
        offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        answers = q.answers[np.repeat(q.starts[rows], lengths) + offsets]
        of_row, answers = (part[answers < theta.shape[1]] for part in (np.repeat(line, lengths), answers))
        theta[of_row, answers] = -np.inf
        wrong = None
        if not self.offers_all:
            if not self.asked.may_be_itself[relation]:
                theta[line, q.given[rows]] = -np.inf
            if self.factors.types is not None:
                is_wrong = ~self.factors.types.allowed(relation, place)
                theta[:, is_wrong] = -np.inf
                wrong = is_wrong[q.target[rows]]
        theta[line, q.target[rows]] = own
        cells = np.empty((len(rows), 3), np.int64)
        cells[:, 1], cells[:, place], cells[:, 2 - place] = relation, q.target[rows], q.given[rows]
        better, tied, n_bad = self.asked.count_rivals(cells, place, theta)
        if n_bad:
            _refuse_scores(n_bad)
        if wrong is not None and wrong.any():  # a right answer of a wrong type comes after all others
            self.n_wrong_type += int(wrong.sum())
            better[wrong] = np.count_nonzero(theta[wrong] > -np.inf, axis=1) - 1
            tied[wrong] = 1
        return better, tied - 1
