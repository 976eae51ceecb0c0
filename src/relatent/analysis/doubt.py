"""Known facts that the rest of the data contradicts most.

The score of a fact that a model was fitted to says little: the fact itself raised it. So each is scored as if it had
been left out (`model/leave_one_out.py`). What a low score means depends on the relation: where nothing can be
predicted, right facts have low scores too. A map of each relation therefore tells its facts from cells in which the
subject or object of a fact is exchanged for another one seen in that place. The correction is too large for entities
with few facts, so the evidence is the mean of what the map gives with and without it, which found more planted errors
than either. What the evidence says about the probability of an error is learned from planted ones (`planted_errors`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrays import Ids, Triples, Vector
from ..data.facts import Facts
from ..data.result_labels import row_labels
from ..errors import InputError, RelatentError, RelatentWarning
from ..evaluation.model_names import stored_estimator
from ..fit.estimators.base import Estimator
from ..fit.pooled_logistic import CoefficientPrior, pooled_logistic
from ..json_values import to_json_object
from ..model.entity_regression import can_fold
from ..model.factors import Factors
from ..model.known_facts import KnownFacts
from ..model.leave_one_out import left_out_scores
from ..model.scores import best_first
from ..parameter_checks import check_count
from ..progress import Progress, reporting
from ..random_state import RandomState, to_seed
from ..result_tables import ResultList, data_frame, html_table, result_record
from .planted_errors import error_probabilities, exchanged_cells, n_fits, ranks, with_planted_errors

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_PRIOR = 0.02
LINE_PRIOR = CoefficientPrior(  # intercept and slope of the log-likelihood ratio, on scores of unit variance
    centre=np.array([0.0, 1.0]),
    mean_precision=np.array([0.1, 0.1]),
    precision=np.array([1.0, 5.0]),
    nonnegative=np.array([False, True]),
)


@result_record
class DoubtfulFact(NamedTuple):
    """A known fact, and the probability that it is wrong.

    >>> DoubtfulFact("Al Gore", "party", "Republican", 0.7, 2.0, -1.5, "Democratic").alternative
    'Democratic'
    """

    subject: str
    relation: str
    object: str
    doubt: float | None  # the probability that it is wrong, given the prior share; None without a further fit
    score: float  # θ, which the fact itself has raised
    left_out_score: float  # θ if the fact were not known; the same if the kind of model does not allow to compute it
    alternative: str | None  # the likeliest other object that is not known, of those seen there


class DoubtfulFacts(NamedTuple):
    """Known facts that the rest of the data contradicts, most doubtful first.

    >>> DoubtfulFacts([], 100, 0.02, True).to_dict()["doubtful"]
    []
    """

    doubtful: list[DoubtfulFact]
    n_facts: int
    prior: float
    left_out: bool  # whether facts were left out; if not, their own scores are compared

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return to_json_object(self)

    def to_pandas(self) -> pd.DataFrame:
        """One row per fact: subject, relation, object, doubt, score, left_out_score, alternative."""
        return data_frame(self.doubtful, DoubtfulFact._fields)

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.doubtful)

    def __repr__(self) -> str:
        first = f", first {' '.join(self.doubtful[0][:3])!r}" if self.doubtful else ""
        return f"DoubtfulFacts({len(self.doubtful)} of {self.n_facts:,} facts{first})"


def doubt(
    factors: Factors,
    k: int = 100,
    *,
    known: Facts | Sequence[Facts] | None = None,
    prior: float = DEFAULT_PRIOR,
    refit: bool = True,
    random_state: RandomState = 0,
    progress: bool | Progress | None = None,
) -> DoubtfulFacts:
    """The k known facts that the rest of the data contradicts most.

    Each fact is left out and predicted, without a refit: with the relations and all other entities held fixed, both of
    its entities move by one Newton step. A second answer counts against a fact where facts of the relation usually have
    one: two places of birth. Models with losses other than squared and logistic are asked for the score as
    it is.

    Then errors are planted, and the model is fitted again, to learn how likely facts at each place of the list are
    wrong: `doubt`. Its sum over all facts is the expected number of wrong ones.

    Parameters
    ----------
    k : int
        How many facts.
    known : Facts, sequence of Facts
        Further known facts, beside those of the model; all of them, if it does not hold any.
    prior : float
        The share of known facts assumed to be wrong. `doubt` is in proportion to it; the order stays.
    refit : bool
        Whether to fit the model again (up to five times if it has fewer than 10,000 facts), with its own settings and
        planted errors. False: the same list without `doubt`. A model that does not say how it was fitted has none.
    random_state : int, Generator or None
        Seed of the cells that facts are compared with, and of planted errors.

    >>> import relatent
    >>> facts = relatent.load_dataset("presidents")
    >>> model = relatent.RescalALS(rank=10, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_
    >>> len(relatent.doubt(model, k=3).doubtful)
    3
    """
    check_count("k", k)
    if not 0 < prior < 1:
        raise InputError(f"prior must be above 0 and below 1, got {prior}")
    fitted_to = factors.facts_with(known)
    listed = KnownFacts(fitted_to.without_attributes())
    facts, rng = listed.facts, np.random.default_rng(to_seed(random_state))
    found = _found(factors, listed, rng, progress)
    estimator = _estimator(factors, fitted_to) if refit else None
    doubts: Sequence[float | None] = [None] * len(facts)
    if estimator is not None:
        planted = _ranks_of_planted(factors, estimator, fitted_to, listed, rng, progress)
        if len(planted):
            doubts = error_probabilities(ranks(found.against, found.against), planted, prior).tolist()
    rows = []
    for i in best_first(np.where(facts.once, found.against, -np.inf), int(k)).tolist():
        s, relation, o = facts.triples[i].tolist()
        names = factors.entities[s], factors.relations[relation], factors.entities[o]
        other = _alternative(factors, listed, s, relation)
        rows.append(DoubtfulFact(*names, doubts[i], float(found.own[i]), float(found.left_out[i]), other))
    return DoubtfulFacts(ResultList(rows, row_labels(factors)), int(facts.once.sum()), float(prior), can_fold(factors))


class _Found(NamedTuple):
    """Each fact's score, its score if it is left out, and the evidence against it, all (n,)."""

    own: Vector
    left_out: Vector
    against: Vector


def _found(factors: Factors, known: KnownFacts, rng: np.random.Generator, progress: bool | Progress | None) -> _Found:
    factors = factors.reading(known.facts)
    own: Vector = np.asarray(factors.score(*known.facts.triples.T), np.float64)
    scores = [own]
    if can_fold(factors):
        with reporting(progress, "doubtful facts") as report:
            scores.append(left_out_scores(factors, known.facts, report, int(rng.integers(2**31))))
    cells, is_no_fact = exchanged_cells(known, rng)
    exchanged = cells[is_no_fact]
    ratios = [evidence(factors, known, theta, exchanged) for theta in scores]
    return _Found(own, scores[-1], -np.mean(ratios, axis=0) - second_answers(known, exchanged))


def _estimator(factors: Factors, facts: Facts) -> Estimator | None:
    """An estimator with the settings of the model; None if they, or the attributes it needs, are not there."""
    if factors.attributes is not None and facts.attributes is None:
        return None
    try:
        estimator = stored_estimator(factors)
    except InputError:
        return None
    estimator.set_params(calibrate=False, keep_facts=False)  # relations are compared by lines of their own
    return estimator


def _ranks_of_planted(
    model: Factors,
    estimator: Estimator,
    facts: Facts,
    known: KnownFacts,
    rng: np.random.Generator,
    progress: bool | Progress | None,
) -> Vector:
    """The ranks of planted errors among the other facts, by the evidence against them.

    Patterns have the weights of the model, and are read from the changed facts.
    """
    found: list[Vector] = [np.empty(0)]
    for _ in range(n_fits(len(facts))):
        changed = with_planted_errors(facts, known, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RelatentWarning)  # the fit of the model has said it
            try:
                factors = estimator.fit(changed, progress=progress).factors_
            except RelatentError as error:
                message = f"the model cannot be fitted again: {error}; refit=False (--no-refit) lists without doubt"
                raise InputError(message) from None
        among = KnownFacts(changed.without_attributes())
        if model.rank and model.patterns is not None:
            read = model.patterns.over(among.facts)
            factors = replace(factors, R=factors.relation_matrices, patterns=read)
        is_planted = ~facts.contains(among.facts.triples)
        against = _found(factors, among, rng, progress).against
        found.append(ranks(against[is_planted], against[~is_planted]))
    return np.concatenate(found)


def evidence(factors: Factors, known: KnownFacts, theta: Vector, exchanged: Triples) -> Vector:
    """For each fact, given its score θ, the log-likelihood ratio of a right fact and an exchanged one, (n,).

    It is linear in the score, by relation; relations are alike, as far as they say. Both kinds weigh the same.
    """
    others = np.asarray(factors.score(*exchanged.T), np.float64)
    if not len(others):  # every cell of the places is a fact
        return np.zeros(len(theta))
    n, K = (len(theta), len(others)), known.n_relations
    scores, relations = np.concatenate([theta, others]), np.concatenate([known.facts.triples[:, 1], exchanged[:, 1]])
    is_fact = np.arange(len(scores)) < n[0]
    counts = [np.bincount(relations[rows], minlength=K)[relations] for rows in (is_fact, ~is_fact)]
    both = counts[0] + counts[1]
    centre, spread = float(scores.mean()), float(scores.std()) or 1.0
    X = np.stack([np.ones(len(scores)), (scores - centre) / spread], axis=1)
    true = np.where(is_fact, both / np.maximum(2 * counts[0], 1), 0.0)
    false = np.where(~is_fact, both / np.maximum(2 * counts[1], 1), 0.0)
    lines = pooled_logistic(X, relations, K, true, false, LINE_PRIOR).of_group[known.facts.triples[:, 1]]
    found: Vector = lines[:, 0] + lines[:, 1] * (theta - centre) / spread
    return found


def second_answers(known: KnownFacts, exchanged: Triples) -> Vector:
    """For each fact, what it says that its subject has another object, or its object another subject, (n,).

    Where most facts of a relation have no other, as those of born in, one of two answers is wrong. This is the
    log-likelihood ratio of having another one, of right facts and exchanged ones, where it speaks against the fact: the
    score tells the other cases better.
    """
    facts, K = known.facts.triples, known.n_relations
    found = np.zeros(len(facts))
    for place in (0, 2):
        ends = np.sort(_ends(facts, place, known.n))
        n_facts = [
            np.searchsorted(ends, own, side="right") - np.searchsorted(ends, own)
            for own in (_ends(facts, place, known.n), _ends(exchanged, place, known.n))
        ]
        has_other = n_facts[0] > 1
        shares = [
            (np.bincount(cells[has][:, 1], minlength=K) + 1) / (np.bincount(cells[:, 1], minlength=K) + 2)
            for cells, has in ((facts, has_other), (exchanged, n_facts[1] > 0))
        ]
        against = np.minimum(np.log(shares[0] / shares[1]), 0.0)
        found += np.where(has_other, against[facts[:, 1]], 0.0)
    return found


def _ends(cells: Triples, place: int, n: int) -> Ids:
    """The number of each cell's relation and subject, or relation and object."""
    numbers: Ids = cells[:, 1].astype(np.int64) * n + cells[:, place]
    return numbers


def _alternative(factors: Factors, known: KnownFacts, s: int, relation: int) -> str | None:
    """The likeliest object of a subject that is not known, of those that the relation has."""
    candidates = np.setdiff1d(known.ends(relation)[1], np.append(known.objects(s, relation), s))
    if not len(candidates):
        return None
    return factors.entities[int(candidates[np.argmax(factors.score(s, relation, candidates))])]
