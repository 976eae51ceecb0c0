"""Entities that may be the same, with a probability for each pair, and a proposal which ones to merge.

The features of a pair come from `duplicate_features`. Their weights are learned: some entities are split into two
halves, a model is fitted to the facts with these synthetic duplicates, and a logistic regression separates the halves
of one entity from other pairs. Entities are split before the fit: halves of an entity that the model has seen whole
would be far too easy to recognise. Entities with few facts are split and copied as often as others: what they have in
common must not be judged by what entities with many facts have.

Whether real duplicates share facts is not known in advance. Two records of one person often have facts in common, but
records from different sources may have none. So some halves share no facts, others a fifth or more, and pairs with
and without a common fact have classifiers of their own: otherwise sharing would outweigh everything else, and a pair
without a common fact would never be found. Pass `shared=` if you know the overlap. Names are compared by
`duplicate_names`, and change the odds that facts give.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ..arrays import Ids, Mask, Matrix, Vector
from ..data.facts import Facts
from ..data.result_labels import row_labels
from ..errors import ConvergenceWarning, InputError, PoorFitWarning
from ..fit.estimators.als import RescalALS
from ..json_values import to_json_object
from ..model.factors import Factors
from ..model.patterns import check_has_vectors
from ..progress import Progress, reporting, silent
from ..random_state import RandomState, to_seed
from ..result_tables import ResultList, data_frame, html_table, result_record
from .duplicate_features import FEATURE_SIGNS, HALVES_BY_COUNTS, CandidatePairs, candidate_pairs, kinds_of_entities
from .duplicate_names import LEVELS, NameEvidence

if TYPE_CHECKING:
    import pandas as pd

ENTITIES_PER_SPLIT = 12  # one entity in 12 is split per round: more would change the graph too much
MIN_SPLITS, MAX_SPLITS = 5, 500  # per round, if there are enough entities
ENOUGH_SPLITS = 240  # in all rounds together
MIN_ROUNDS, MAX_ROUNDS = 4, 10  # of splitting and fitting
MIN_POSITIVES = 3  # pairs of halves that a classifier is learned from
RIDGE = 1.0  # penalty on the weights of standardised features
SHARED_FRACTIONS = (0.0, 0.2, 0.6, 1.0)  # of the facts, by the halves of split entities, in turn, if not given
MAX_ITER_ALS = 40
MAX_RANK, DEFAULT_L2 = 100, 1.0  # of the fits; the penalty where the model is not fitted by least squares
MAX_ENTITIES = 50_000  # all pairs are compared


@result_record
class DuplicatePair(NamedTuple):
    """Two entities and the probability that they are the same.

    >>> pair = DuplicatePair("Al Gore", "Albert Gore", 0.9, shared=3, joined=False)
    >>> Duplicates([pair], merges=[]).to_dict()["pairs"][0]["probability"]
    0.9
    """

    name: str
    other: str
    probability: float
    shared: int  # facts that both have
    joined: bool  # a fact has one as subject and the other as object: they are not merged
    name_match: str = ""  # one of LEVELS: "equal" but for case, accents and order, …; "": not compared


@result_record
class Merge(NamedTuple):
    """An entity that should take another's name.

    >>> Merge("Albert Gore", into="Al Gore", probability=0.9, facts=2).into
    'Al Gore'
    """

    name: str
    into: str
    probability: float  # mean over all pairs in its group
    facts: int


class Duplicates(NamedTuple):
    """Pairs that may be the same, best first, and the proposed merges; the result of `duplicates`.

    >>> pair = DuplicatePair("Al Gore", "Albert Gore", 0.9, shared=3, joined=False)
    >>> Duplicates([pair], [Merge("Albert Gore", "Al Gore", 0.9, 2)]).to_pandas().shape
    (1, 6)
    """

    pairs: list[DuplicatePair]
    merges: list[Merge]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return to_json_object(self)

    def to_pandas(self) -> pd.DataFrame:
        """The pairs as a data frame; needs pandas."""
        return data_frame(self.pairs, DuplicatePair._fields)

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.pairs)

    def __repr__(self) -> str:
        return f"Duplicates({len(self.pairs)} pairs, {len(self.merges)} proposed merges)"


class PairClassifier(NamedTuple):
    """Logistic regression on the features of a pair."""

    weights: Vector
    intercept: float


Classifiers = tuple[PairClassifier | None, PairClassifier | None]  # without and with a common fact; None: p = 0


def duplicates(
    factors: Factors,
    entity: str | int | None = None,
    *,
    known: Facts | Sequence[Facts] | None = None,
    k: int = 100,
    threshold: float = 0.5,
    prior: float = 0.1,
    shared: float | None = None,
    names: bool = True,
    random_state: RandomState = 0,
    progress: bool | Progress | None = None,
) -> Duplicates:
    """Find pairs of entities that may be the same, best first, and propose which to merge.

    Parameters
    ----------
    entity : return only the duplicates of this entity
    known : further known facts, beside those of the model
    k : the maximum number of pairs
    threshold : the probability from which pairs are merged
    prior : the fraction of entities expected to have a duplicate. The facts alone do not tell it; it scales the odds
        of all pairs and leaves their order unchanged.
    shared : the fraction of its facts that an entity is expected to share with its duplicate; 0 if each fact is
        stored under one of the two names only. None: not known.
    names : whether names that agree (in other case, without accents, with more words, with initials, or but for a
        letter of a word) count for a pair, the more the rarer their words, and names that differ against it. Ids and
        numbers do neither.
    random_state : seed of the choice of entities that are split to learn from
    progress : True for a bar, or a function called with (done, total, note)

    >>> import relatent
    >>> facts = relatent.load_dataset("presidents")
    >>> model = relatent.RescalALS(rank=10, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_
    >>> found = relatent.duplicates(model, k=3)
    >>> len(found.pairs), list(found.to_dict())
    (3, ['pairs', 'merges'])
    """
    _check_arguments(k, threshold, prior, shared)
    check_has_vectors(factors.A)
    entity_id = None if entity is None else int(factors.entities.ids(entity))
    facts = factors.facts_with(known).without_attributes()
    if not len(facts):
        raise InputError("there are no facts to compare entities by: give them, as known= or --known")
    if facts.n_entities > MAX_ENTITIES:
        raise InputError(
            f"duplicates compares at most {MAX_ENTITIES:,} entities, got {facts.n_entities:,}; "
            "leave out kinds of entities that have no duplicates"
        )
    with reporting(progress, "duplicates") as report:
        report(0, _n_rounds(facts) + 1, "comparing entities")
        evidence = NameEvidence(factors.entities, kinds_of_entities(facts)) if names else None
        fitted = factors if _is_least_squares(factors) else _fit_least_squares(factors, facts)
        pairs = candidate_pairs(fitted, facts, evidence.pairs() if evidence else None)
        classifiers = learn_classifiers(factors, facts, shared, to_seed(random_state), report)
    p, levels = pair_probabilities(pairs, classifiers, prior), np.zeros(len(pairs.i), np.int64)
    if evidence is not None:
        levels, p = evidence.judged(pairs.i, pairs.j, p)
    order = np.argsort(-p, kind="stable")
    if entity_id is not None:
        order = order[(pairs.i[order] == entity_id) | (pairs.j[order] == entity_id)]
    joined = joined_pairs(facts)
    found = []
    for row in order[:k].tolist():
        i, j = int(pairs.i[row]), int(pairs.j[row])
        name, other = (factors.entities[id_] for id_ in ((i, j) if entity_id in (None, i) else (j, i)))
        shared_facts, level = int(pairs.n_shared[row]), LEVELS[levels[row]]
        found.append(DuplicatePair(name, other, float(p[row]), shared_facts, (i, j) in joined, level))
    n_facts = np.bincount(facts.triples[:, [0, 2]].ravel(), minlength=facts.n_entities)
    groups = merge_groups(pairs, p, n_facts, joined, threshold)
    if entity_id is not None:
        groups = [group for group in groups if entity_id in group[0]]
    merges = [
        Merge(factors.entities[i], factors.entities[members[0]], probability, int(n_facts[i]))
        for members, probability in groups
        for i in members[1:]
    ]
    return Duplicates(ResultList(found, row_labels(factors)), merges)


def _check_arguments(k: int, threshold: float, prior: float, shared: float | None) -> None:
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    for name, value in (("threshold", threshold), ("prior", prior)):
        if not 0 < value <= 1:
            raise InputError(f"{name} must be above 0 and at most 1, got {value}")
    if shared is not None and not 0 <= shared <= 1:
        raise InputError(f"shared must be between 0 and 1, got {shared}")


# --- classifiers learned from split entities


def learn_classifiers(
    factors: Factors, facts: Facts, shared: float | None, random_state: int, progress: Progress = silent
) -> Classifiers:
    """Learn from several rounds of splitting entities and fitting a model."""
    samples, n_rounds = [], _n_rounds(facts)
    for round_ in range(n_rounds):
        progress(round_ + 1, n_rounds + 1, f"learning from split entities, round {round_ + 1} of {n_rounds}")
        samples.append(_training_pairs(factors, facts, shared, np.random.default_rng([random_state, round_])))
    features, shares, is_duplicate = (np.concatenate(column) for column in zip(*samples, strict=True))
    features[shares, HALVES_BY_COUNTS] = 0
    return (
        _fit_classifier(features[~shares], is_duplicate[~shares]),
        _fit_classifier(features[shares], is_duplicate[shares]),
    )


def _fit_classifier(features: Matrix, is_duplicate: Mask) -> PairClassifier | None:
    """Logistic regression on standardised features; None without enough positive and negative pairs.

    Weights are restricted to the sign of their feature: a pair with more of it than any training pair must not lose.
    """
    if is_duplicate.sum() < MIN_POSITIVES or is_duplicate.all():
        return None
    mean, spread = features.mean(axis=0), features.std(axis=0)
    scale = np.where(spread > 1e-9, FEATURE_SIGNS / np.maximum(spread, 1e-9), 0)  # a constant feature has no weight
    X, y = (features - mean) * scale, is_duplicate.astype(np.float64)

    def loss(w: Vector) -> tuple[float, Vector]:
        theta = X @ w[1:] + w[0]
        slope = expit(theta) - y
        value = (np.logaddexp(0, theta) - y * theta).sum() + 0.5 * RIDGE * (w[1:] @ w[1:])
        return float(value), np.concatenate([[slope.sum()], X.T @ slope + RIDGE * w[1:]])

    start = np.concatenate([[np.log(y.mean() / (1 - y.mean()))], np.full(len(FEATURE_SIGNS), 0.1)])
    bounds = [(None, None)] + [(0.0, None)] * len(FEATURE_SIGNS)
    w = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return PairClassifier(w[1:] * scale, float(w[0] - (w[1:] * scale) @ mean))


def _n_rounds(facts: Facts) -> int:
    return int(np.clip(-(-ENOUGH_SPLITS // _n_splits(facts)), MIN_ROUNDS, MAX_ROUNDS))


def _n_splits(facts: Facts) -> int:
    """The number of entities split per round."""
    return min(max(MIN_SPLITS, facts.n_entities // ENTITIES_PER_SPLIT), MAX_SPLITS, max(2, facts.n_entities // 2))


def _training_pairs(
    factors: Factors, facts: Facts, shared: float | None, rng: np.random.Generator
) -> tuple[Matrix, Mask, Mask]:
    """The features of pairs of one round, whether they share facts, and whether they are halves of one entity.

    Some entities are split, and a model is fitted to the result. Only pairs with such a half count: the others may be
    the duplicates that are searched for.
    """
    chosen = entities_to_split(facts, _n_splits(facts), rng)
    if len(chosen) < 2:
        raise InputError(f"duplicates learns from entities that have facts and needs 2 of them, got {len(chosen)}")
    fractions = SHARED_FRACTIONS if shared is None else (shared,)
    split, twins = split_entities(facts, chosen, rng.permutation(np.resize(fractions, len(chosen))), rng)
    pairs = candidate_pairs(_fit_least_squares(factors, split), split)
    twin_of = np.full(split.n_entities, -1)
    twin_of[chosen], twin_of[twins] = twins, chosen
    n_facts = np.bincount(split.triples[:, [0, 2]].ravel(), minlength=split.n_entities)
    lost = np.minimum(n_facts[chosen], n_facts[twins]) == 0  # all facts went to one half
    twin_of[chosen[lost]] = twin_of[twins[lost]] = -1
    has_half = (twin_of[pairs.i] >= 0) | (twin_of[pairs.j] >= 0)
    is_duplicate = twin_of[pairs.i] == pairs.j
    return pairs.features[has_half], pairs.n_shared[has_half] > 0, is_duplicate[has_half]


def _is_least_squares(factors: Factors) -> bool:
    terms = [None if term is None else term.name for term in (factors.loss, factors.penalty)]
    return terms == ["squared", "l2"] and not factors.bias.any() and factors.rank <= MAX_RANK


def _fit_least_squares(factors: Factors, facts: Facts) -> Factors:
    """A fit with the rank and, if it was fitted by least squares, the penalty of a model."""
    penalty = factors.penalty if _is_least_squares(factors) else None
    l2 = DEFAULT_L2 if penalty is None else float(penalty.parameters["entities"])
    rank = min(factors.rank, MAX_RANK, facts.n_entities)
    with warnings.catch_warnings():
        for ignored in (ConvergenceWarning, PoorFitWarning):  # features, not predictions
            warnings.simplefilter("ignore", ignored)
        return RescalALS(rank, l2, l2, max_iter=MAX_ITER_ALS, calibrate=False, keep_facts=False).fit(facts).factors_


def entities_to_split(facts: Facts, n: int, rng: np.random.Generator, min_facts: int | None = None) -> Ids:
    """n random entities with at least `min_facts` facts; None: with any."""
    degree = np.bincount(facts.triples[:, [0, 2]].ravel(), minlength=facts.n_entities)
    enough = np.flatnonzero(degree >= (1 if min_facts is None else min_facts))
    return np.sort(rng.choice(enough, min(n, len(enough)), replace=False))


def split_entities(facts: Facts, chosen: Ids, shared: Vector | float, rng: np.random.Generator) -> tuple[Facts, Ids]:
    """Facts in which each chosen entity has a twin, and the ids of the twins.

    Both get a fact with the probability `shared`; otherwise one of the two, at random, gets it.
    """
    n, T = facts.n_entities, facts.triples.astype(np.int64)
    fraction, twin = np.zeros(n + len(chosen)), np.full(n + len(chosen), -1)
    fraction[chosen], twin[chosen] = shared, n + np.arange(len(chosen))
    for column in (0, 2):
        own, u = T[:, column], rng.random(len(T))
        split = twin[own] >= 0
        copied = T[split & (u < fraction[own])]
        copied[:, column] = twin[copied[:, column]]
        moves = split & (u >= (1 + fraction[own]) / 2)
        T[moves, column] = twin[own[moves]]
        T = np.concatenate([T, copied])
    names = facts.entities.extended(_twin_names(facts, chosen))
    return Facts.from_ids(T.astype(np.int32), names, facts.relations), twin[chosen]


def _twin_names(facts: Facts, chosen: Ids) -> list[str]:
    found = []
    for i in chosen.tolist():
        name = f"{facts.entities[i]} (2)"
        while name in facts.entities:
            name += "'"
        found.append(name)
    return found


def pair_probabilities(pairs: CandidatePairs, classifiers: Classifiers, prior: float) -> Vector:
    """The probability of each pair by its facts.

    In training every half has a twin; of entities, the fraction `prior` has one.
    """
    p, shares = np.zeros(len(pairs.i)), pairs.n_shared > 0
    for classifier, rows in zip(classifiers, (~shares, shares), strict=True):
        if classifier is not None and rows.any():
            p[rows] = expit(pairs.features[rows] @ classifier.weights + classifier.intercept + np.log(prior))
    return p


# --- merges


def joined_pairs(facts: Facts) -> set[tuple[int, int]]:
    """Pairs i < j with a fact between them, which would relate a merged entity to itself."""
    pairs = np.sort(facts.triples[:, [0, 2]], axis=1)
    return set(map(tuple, np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0).tolist()))


def merge_groups(
    pairs: CandidatePairs, p: Vector, n_facts: NDArray[np.int64], joined: set[tuple[int, int]], threshold: float
) -> list[tuple[list[int], float]]:
    """Groups to merge, the entity with most facts first, each with the mean probability of its pairs.

    Pairs are visited best first. Two groups are merged if no fact joins them and the mean probability over the pairs
    between them, 0 for pairs that are no candidates, reaches `threshold`: a chain of doubtful pairs does not grow.
    """
    order = np.argsort(-p, kind="stable")
    order = order[p[order] >= threshold]
    probability = {(int(pairs.i[row]), int(pairs.j[row])): float(p[row]) for row in order.tolist()}
    group: dict[int, list[int]] = {}
    for i, j in probability:
        left, right = group.get(i, [i]), group.get(j, [j])
        if left is right:
            continue
        between = [(min(a, b), max(a, b)) for a in left for b in right]
        mean = np.mean([probability.get(pair, 0.0) for pair in between])
        if any(pair in joined for pair in between) or mean < threshold:
            continue
        merged = left + right
        for member in merged:
            group[member] = merged
    found = []
    for members in {id(members): members for members in group.values()}.values():
        ranked = sorted(members, key=lambda i: (-int(n_facts[i]), i))
        inside = [probability.get((min(a, b), max(a, b)), 0.0) for n, a in enumerate(ranked) for b in ranked[:n]]
        found.append((ranked, float(np.mean(inside))))
    return sorted(found, key=lambda group: -group[1])
