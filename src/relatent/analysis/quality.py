"""How good a model is on given facts: ranks and precision per relation, and the reliability of its probabilities.

Ranks compare each fact with all entities. Precision and reliability need false cells too: whole rows
(subject, relation, ·) are scored. A small graph is scored completely; in a large one as many rows with a fact as rows
without one are sampled, each weighted by the number of rows it stands for. Sampling single zeros would be worse: hardly
any sampled zero has a notable probability, and the one that does would stand for a million cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..arrays import Ids, Mask, Vector
from ..data.facts import Facts
from ..errors import DataWarning, InputError
from ..evaluation.metrics import measure
from ..evaluation.ranking import evaluate
from ..evaluation.reliability import ABOVE, reliability
from ..json_values import to_json
from ..model.candidates import Candidates
from ..model.factors import Factors
from ..model.known_facts import KnownFacts
from ..model.vocabulary import check_shared
from ..progress import Progress

MAX_RANKED_FACTS = 5000  # of more, a sample of this size is ranked
MAX_CELLS = 1 << 22  # scored for precision and reliability
MIN_ROWS = 4  # sampled with a fact and without one, however long a row is


class QualityFigures(NamedTuple):
    """Figures on some facts; None where there is nothing to compute a figure from."""

    n_facts: int
    mrr: float | None  # filtered, subject and object questions together
    hits_10: float | None
    average_precision: float | None
    auc_pr: float | None


class RelationQuality(NamedTuple):
    """Figures of one relation."""

    relation: str
    figures: QualityFigures


class ReliabilityBin(NamedTuple):
    """Cells of similar probability."""

    predicted: float  # their mean probability
    observed: float  # the fraction of true cells
    cells: float  # the number of cells they stand for


class ModelQuality(NamedTuple):
    """Figures of all facts together and of each relation, and the reliability of the probabilities."""

    n_facts: int  # with names that the model knows
    n_ranked: int
    n_cells: int  # scored for precision and reliability
    overall: QualityFigures
    relations: list[RelationQuality]
    calibration_error: float | None  # over cells with p > 0.05
    reliability: list[ReliabilityBin]


class ScoredCells(NamedTuple):
    """Cells with their truth and score."""

    relation: Ids  # (n,)
    truth: Mask
    theta: Vector
    probability: Vector
    weights: Vector  # the number of cells that each stands for


def quality(
    factors: Factors,
    test: Facts,
    known: Facts | Sequence[Facts] | Candidates | None = None,
    *,
    random_state: int = 0,
    progress: bool | Progress | None = None,
) -> ModelQuality:
    """Rank the test facts among all entities, and measure precision and reliability on whole rows.

    known: further true facts, beside those of the model; they count neither as rivals nor as false cells.

    >>> import relatent
    >>> from relatent.analysis.quality import quality
    >>> train, test = relatent.split(relatent.load_dataset("kinships"), test_size=0.1)
    >>> model = relatent.RescalALS(rank=10).fit(train).factors_
    >>> found = quality(model, test)
    >>> found.overall.n_facts == len(test)
    True
    """
    check_shared(factors.entities, factors.relations, test, "test facts")
    asked = factors.asked(known)
    of_model = factors.as_undirected(test).over(factors.entities, factors.relations)
    if not len(of_model):
        raise InputError("the model knows the names of none of these facts; pass facts from the same data")
    ranked, rng = _sample_facts(of_model, random_state), np.random.default_rng(random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        ranks = evaluate(factors, ranked, known=[of_model, asked.known.facts], progress=progress).ranks
    cells = score_rows(factors, of_model, asked, rng)
    p = cells.probability

    def figures(facts: Ids | slice, rows: Ids | slice) -> QualityFigures:
        measured = measure(cells.truth[rows], cells.theta[rows], p[rows], cells.weights[rows])
        own = ranks[facts]
        mrr, hits = (np.mean(1 / own), np.mean(own <= 10)) if len(own) else (np.nan, np.nan)
        return QualityFigures(len(own), *to_json((mrr, hits, measured.average_precision, measured.auc_pr)))

    curve = reliability(cells.truth, p, cells.weights, above=ABOVE)
    return ModelQuality(
        len(of_model),
        len(ranked),
        len(p),
        figures(slice(None), slice(None)),
        [
            RelationQuality(
                factors.relations[k],
                figures(np.flatnonzero(ranked.triples[:, 1] == k), np.flatnonzero(cells.relation == k)),
            )
            for k in np.unique(of_model.triples[:, 1]).tolist()
        ],
        to_json(curve.error),
        [ReliabilityBin(*map(float, row)) for row in zip(*curve, strict=True)],
    )


def _sample_facts(facts: Facts, random_state: int) -> Facts:
    """All facts, or a sample of them where ranking all would take long."""
    if len(facts) <= MAX_RANKED_FACTS:
        return facts
    mask = np.zeros(len(facts), bool)
    mask[np.random.default_rng(random_state).choice(len(facts), MAX_RANKED_FACTS, replace=False)] = True
    return facts.subset(mask)


def score_rows(factors: Factors, test: Facts, asked: Candidates, rng: np.random.Generator) -> ScoredCells:
    """Cells of whole rows (subject, relation, ·), without known facts that are not tested."""
    tested = KnownFacts(test)
    is_tested = test.contains(asked.known.facts.triples)
    if is_tested.any():  # a tested fact must not answer for others
        asked = Candidates(factors, KnownFacts(asked.known.facts.subset(~is_tested)))
    n, rows, parts = tested.n, _sample_rows(tested, rng), []
    for row, weight in zip(*(column.tolist() for column in rows), strict=True):
        k, s = divmod(row, n)
        truth, counts = np.zeros(n, bool), np.ones(n, bool)
        counts[asked.known.objects(s, k)] = False
        truth[tested.objects(s, k)] = True
        kept = np.flatnonzero(counts | truth)
        judged = asked.judge(np.stack([np.full(len(kept), s), np.full(len(kept), k), kept], axis=1))
        p = judged.probability if factors.has_probabilities else expit(judged.score)
        parts.append(ScoredCells(judged.cells[:, 1], truth[kept], judged.score, p, np.full(len(kept), weight)))
    return ScoredCells(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _sample_rows(test: KnownFacts, rng: np.random.Generator) -> tuple[NDArray[np.int64], Vector]:
    """Row numbers k·N + s, and the number of rows that each stands for."""
    n, total = test.n, test.n * test.n_relations
    if total * n <= MAX_CELLS:
        return np.arange(total), np.ones(total)
    with_fact = np.unique(test.facts.keys // n)
    most = max(MIN_ROWS, MAX_CELLS // (2 * n))
    full = np.sort(rng.choice(with_fact, min(most, len(with_fact)), replace=False))
    empty = np.setdiff1d(rng.integers(0, total, 2 * most), with_fact)
    empty = np.sort(rng.permutation(empty)[:most])
    full_weight, empty_weight = len(with_fact) / len(full), (total - len(with_fact)) / max(len(empty), 1)
    weights = np.repeat([full_weight, empty_weight], [len(full), len(empty)])
    return np.concatenate([full, empty]), weights
