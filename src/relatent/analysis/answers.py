"""Predictions side by side with known facts: answers to a question, and everything about one entity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrays import Ids, Matrix, Triples, Vector
from ..data.facts import Facts
from ..data.names import Names
from ..data.result_labels import row_labels
from ..errors import InputError
from ..json_values import to_json_object
from ..model.factors import Factors, against_others, best_first
from ..result_tables import ResultList, data_frame, html_table, result_record
from .known_facts import KnownFacts
from .probabilities import base_rates, cell_probabilities, with_lift
from .self_answers import may_be_itself

if TYPE_CHECKING:
    import pandas as pd

MARK, OMIT, ONLY = "mark", "omit", "only"  # how known answers are treated
BLOCK_SCORES = 1 << 20  # scores computed at a time, which stay in the cache,
MIN_BLOCK_RELATIONS = 16  # of at least so many relations: each block reads A once
MIN_PROBABILITY = 0.5  # of a prediction that moves its section to the front
MAX_KNOWN_SHOWN = 25  # known facts per section


@result_record
class Answer(NamedTuple):
    """An entity or relation that may fill the open place of a question.

    >>> Answer("Al Gore", 2.0, 0.88, False, rank=1, lift=40.0).rank
    1
    """

    name: str
    score: float
    probability: float | None  # None if the model has no probabilities
    known: bool
    rank: int | None = None  # among all candidates that are not known; None if it is known
    lift: float | None = None  # probability / facts per observed cell of the relation


class Answers(NamedTuple):
    """Answers to a question, best first.

    >>> Answers("object", 0, [Answer("Al Gore", 2.0, 0.88, False, rank=1, lift=40.0)]).to_dict()["open"]
    'object'
    """

    open: str  # "subject", "relation" or "object"
    n_known: int
    answers: list[Answer]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return to_json_object(self)

    def to_pandas(self) -> pd.DataFrame:
        """One row per answer: name, score, probability, known, rank, lift; needs pandas."""
        return data_frame(self.answers, Answer._fields)

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.answers)

    def __repr__(self) -> str:
        best = f", best {self.answers[0].name!r}" if self.answers else ""
        return f"Answers({len(self.answers)} for the {self.open}, {self.n_known} known{best})"


class EntitySection(NamedTuple):
    """One entity in one role of one relation: known and predicted entities at the other end."""

    relation: str
    role: str  # of the entity: "subject" or "object"
    n_known: int
    known: list[Answer]
    predicted: list[Answer]


def answers(
    factors: Factors,
    known: Facts | Sequence[Facts] | KnownFacts | None = None,
    *,
    subject: str | None = None,
    relation: str | None = None,
    object: str | None = None,
    k: int = 10,
    treat_known: str = MARK,
) -> Answers:
    """The k best answers for the one place left open, by score, however small their probabilities are.

    If the model has types, answers of a wrong type are left out, unless they are known; `factors.without_types()`
    offers all. An entity is no answer to a question about itself, unless the relation has such facts.

    treat_known: "mark" known answers, "omit" them, or give "only" them.

    >>> import relatent
    >>> facts = relatent.load_dataset("presidents")
    >>> model = relatent.RescalALS(rank=10, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_
    >>> found = relatent.answers(model, facts, subject="Al Gore", relation="party", k=2)
    >>> [(answer.known, answer.rank) for answer in found.answers]
    [(True, None), (False, 1)]
    """
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    if treat_known not in (MARK, OMIT, ONLY):
        raise InputError(f"treat_known must be one of {MARK}, {OMIT}, {ONLY}, got {treat_known!r}")
    known = _indexed(known, factors)
    place, _, theta = factors.question(subject, relation, object)
    ids = (_id(factors.entities, subject), _id(factors.relations, relation), _id(factors.entities, object))
    known_ids: Ids = np.empty(0, np.int64) if known is None else known.answers(*ids)
    if ids[1] is not None:
        factors.drop_wrong_types(theta, ids[1], place, known_ids)
    if place != 1 and not may_be_itself(factors, known)[ids[1]]:
        theta[np.setdiff1d([ids[2 - place]], known_ids)] = -np.inf
    if treat_known == OMIT:
        theta[known_ids] = -np.inf
    elif treat_known == ONLY:
        theta[np.setdiff1d(np.arange(len(theta)), known_ids)] = -np.inf
    chosen = best_first(theta, k)
    cells = np.stack([chosen if id is None else np.full(len(chosen), id) for id in ids], axis=1)
    found = _answer_list(factors, known, place, cells, theta[chosen], _ranks(chosen, known_ids))
    return Answers(("subject", "relation", "object")[place], len(known_ids), ResultList(found, row_labels(factors)))


def entity_sections(
    factors: Factors, known: KnownFacts | None, entity: str | int, *, k: int = 5
) -> list[EntitySection]:
    """One section with k predictions per relation and role of an entity.

    Sections with a probable new fact come first, then those with known facts, then the others.
    """
    i = int(factors.entities.ids(entity))
    with_self = may_be_itself(factors, known)
    sections = []
    for relations, role, theta in _all_scores(factors, i):
        known_ids: list[Ids] = [np.empty(0, np.int64)] * len(theta)
        if known is not None:
            known_ids = known.partners_by_relation(i, relations, of_objects=role == "object")
        shown = [ids[best_first(row[ids], MAX_KNOWN_SHOWN)] for row, ids in zip(theta, known_ids, strict=True)]
        listed = _answer_lists(factors, known, i, theta, relations, role, shown, is_known=True)
        for row, relation, ids in zip(theta, relations, known_ids, strict=True):
            row[ids] = -np.inf
            if not with_self[relation]:
                row[i] = -np.inf
            factors.drop_wrong_types(row, relation, 2 if role == "subject" else 0)
        best = [best_first(row, k) for row in theta]
        predicted = _answer_lists(factors, known, i, theta, relations, role, best, is_known=False)
        sections += [
            EntitySection(factors.relations[relation], role, len(ids), *found)
            for relation, ids, *found in zip(relations, known_ids, listed, predicted, strict=True)
        ]
    return sorted(sections, key=_sort_key)


def _sort_key(section: EntitySection) -> tuple[bool, bool, float]:
    best = max(((answer.probability, answer.score) for answer in section.predicted), default=(0.0, 0.0))
    probability, score = best
    is_likely = probability is not None and probability >= MIN_PROBABILITY
    return not is_likely, not section.n_known, -(score if probability is None else probability)


def _all_scores(factors: Factors, i: int) -> Iterator[tuple[range, str, Matrix]]:
    """θ of every cell of an entity, by blocks: m relations, role, and scores (m, N)."""
    K, N = len(factors.relations), len(factors.entities)
    block = K if factors.exclusive else max(MIN_BLOCK_RELATIONS, BLOCK_SCORES // N)  # exclusive: scored together
    for low in range(0, K, block):
        relations = range(low, min(low + block, K))
        for role in ("subject", "object"):
            times, back = factors.relation_matrices.times, role == "object"
            rows = np.concatenate([times(factors.A[i : i + 1], k, back=back) for k in relations])  # (m, r)
            theta: Matrix = rows @ factors.A.T
            theta += factors.bias[relations.start : relations.stop, None]
            if factors.rules is not None:
                theta += np.concatenate([factors.rules.rows(np.array([i]), k, of_objects=back) for k in relations])
            if factors.exclusive:
                theta = np.stack([against_others(theta, np.full(N, k)) for k in relations])
            yield relations, role, theta


def _answer_lists(
    factors: Factors,
    known: KnownFacts | None,
    i: int,
    theta: Matrix,
    relations: range,
    role: str,
    chosen: list[Ids],
    *,
    is_known: bool,
) -> list[list[Answer]]:
    """The chosen partners of entity i in each row of θ, one row per relation; all of them are known, or none is."""
    rows, ids = np.repeat(np.arange(len(chosen)), [len(ids) for ids in chosen]), np.concatenate(chosen)
    ranks = np.concatenate([np.zeros(len(ids), np.int64) if is_known else np.arange(len(ids)) + 1 for ids in chosen])
    cells = np.stack([np.full(len(ids), i), relations.start + rows, ids], axis=1)
    place = 2 if role == "subject" else 0
    found = iter(_answer_list(factors, known, place, cells if place else cells[:, ::-1], theta[rows, ids], ranks))
    return [list(islice(found, len(ids))) for ids in chosen]


def _answer_list(
    factors: Factors, known: KnownFacts | None, place: int, cells: Triples, theta: Vector, ranks: Ids
) -> list[Answer]:
    """Cells, their scores and ranks, 0 if known, as answers for the place that was open."""
    names, rates = (factors.entities, factors.relations, factors.entities)[place], base_rates(factors, known)
    p = cell_probabilities(factors, known, cells, theta).tolist()
    found = []
    for cell, score, rank, probability in zip(cells.tolist(), theta.tolist(), ranks.tolist(), p, strict=True):
        shown, lift = with_lift(factors, probability, cell[1], rates)
        found.append(Answer(names[cell[place]], score, shown, not rank, rank or None, lift))
    return found


def _ranks(chosen: Ids, known: Ids) -> Ids:
    """Ranks of candidates, best first, among those that are not known; 0 if known."""
    is_known = np.isin(chosen, known)
    return np.where(is_known, 0, np.cumsum(~is_known))  # those above one are all chosen, or known and left out


def one_fact(factors: Factors, known: KnownFacts | None, subject: str, relation: str, object: str) -> Answer:
    """One fact as an answer; its rank is that of the object among those that are not known for this subject.

    Objects of a wrong type rank after all others, and the subject itself does not count, unless the relation has facts
    of an entity with itself.
    """
    theta = factors.question(subject=subject, relation=relation).theta
    s, k, o = (
        int(x) for x in (factors.entities.ids(subject), factors.relations.ids(relation), factors.entities.ids(object))
    )
    known_ids: Ids = np.empty(0, np.int64) if known is None else known.objects(s, k)
    [found] = _answer_list(factors, known, 2, np.array([[s, k, o]]), theta[[o]], _ranks(np.array([o]), known_ids))
    is_above = theta > theta[o]
    if factors.types is not None:
        allowed = factors.types.allowed(k, 2)
        is_above = is_above & allowed if allowed[o] else is_above | allowed
    is_above[s] &= may_be_itself(factors, known)[k]
    above = np.setdiff1d(np.flatnonzero(is_above), known_ids, assume_unique=True)
    return found if found.known else found._replace(rank=len(above) + 1)


def _indexed(known: Facts | Sequence[Facts] | KnownFacts | None, factors: Factors) -> KnownFacts | None:
    return known if known is None or isinstance(known, KnownFacts) else KnownFacts(known, factors)


def _id(names: Names, name: str | None) -> int | None:
    return None if name is None else int(names.ids(name))
