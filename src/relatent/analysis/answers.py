"""Predictions side by side with known facts: answers to a question, and everything about one entity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import Ids, Matrix, Vector
from ..data.names import Names
from ..errors import InputError
from ..model.factors import Factors, against_others, best_first
from .known_facts import KnownFacts

MARK, OMIT, ONLY = "mark", "omit", "only"  # how known answers are treated
BLOCK_SCORES = 1 << 24  # scores computed at a time: 64 MB in single precision
MIN_PROBABILITY = 0.5  # of a prediction that moves its section to the front
MAX_KNOWN_SHOWN = 25  # known facts per section


class Answer(NamedTuple):
    """An entity or relation that may fill the open place of a question."""

    name: str
    score: float
    probability: float
    known: bool


class Answers(NamedTuple):
    """Answers to a question, best first."""

    open: str  # "subject", "relation" or "object"
    n_known: int
    answers: list[Answer]


class EntitySection(NamedTuple):
    """One entity in one role of one relation: known and predicted entities at the other end."""

    relation: str
    role: str  # of the entity: "subject" or "object"
    n_known: int
    known: list[Answer]
    predicted: list[Answer]


def answers(
    factors: Factors,
    known: KnownFacts | None = None,
    *,
    subject: str | None = None,
    relation: str | None = None,
    object: str | None = None,
    k: int = 10,
    treat_known: str = MARK,
) -> Answers:
    """The k best answers for the one place left open.

    treat_known: "mark" known answers, "omit" them, or give "only" them.

    >>> import relatent
    >>> from relatent.analysis.answers import answers
    >>> from relatent.analysis.known_facts import KnownFacts
    >>> facts = relatent.load_dataset("presidents")
    >>> model = relatent.RescalALS(rank=10, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_
    >>> answers(model, KnownFacts(facts, model), subject="Al Gore", relation="party", k=1).answers[0].known
    True
    """
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    if treat_known not in (MARK, OMIT, ONLY):
        raise InputError(f"treat_known must be one of {MARK}, {OMIT}, {ONLY}, got {treat_known!r}")
    place, names, theta = factors.question(subject, relation, object)
    ids = (_id(factors.entities, subject), _id(factors.relations, relation), _id(factors.entities, object))
    known_ids: Ids = np.empty(0, np.int64) if known is None else known.answers(*ids)
    if treat_known == OMIT:
        theta[known_ids] = -np.inf
    elif treat_known == ONLY:
        theta[np.setdiff1d(np.arange(len(theta)), known_ids)] = -np.inf
    found = _answer_list(factors, names, theta, best_first(theta, k), known_ids, ids[1])
    return Answers(("subject", "relation", "object")[place], len(known_ids), found)


def entity_sections(
    factors: Factors, known: KnownFacts | None, entity: str | int, *, k: int = 5
) -> list[EntitySection]:
    """One section with k predictions per relation and role of an entity.

    Sections with a probable new fact come first, then those with known facts, then the others.
    """
    i = int(factors.entities.ids(entity))
    sections = []
    for relation_id, role, theta in _all_scores(factors, i):
        known_ids: Ids = np.empty(0, np.int64)
        if known is not None:
            known_ids = known.objects(i, relation_id) if role == "subject" else known.subjects(relation_id, i)
        shown = known_ids[best_first(theta[known_ids], MAX_KNOWN_SHOWN)]
        listed = _answer_list(factors, factors.entities, theta, shown, known_ids, relation_id)
        theta[known_ids] = -np.inf
        predicted = _answer_list(factors, factors.entities, theta, best_first(theta, k), known_ids[:0], relation_id)
        sections.append(EntitySection(factors.relations[relation_id], role, len(known_ids), listed, predicted))
    return sorted(sections, key=_sort_key)


def _sort_key(section: EntitySection) -> tuple[bool, bool, float]:
    best = max((answer.probability for answer in section.predicted), default=0.0)
    return best < MIN_PROBABILITY, not section.n_known, -best


def _all_scores(factors: Factors, i: int) -> Iterator[tuple[int, str, Vector]]:
    """θ of every cell of an entity: relation, role, and (N,) scores."""
    K, N = len(factors.relations), len(factors.entities)
    block = K if factors.exclusive else max(1, BLOCK_SCORES // N)  # exclusive relations are scored together
    for low in range(0, K, block):
        high = min(low + block, K)
        R, bias = factors.R[low:high], factors.bias[low:high]
        for role, rows in (("subject", factors.A[i] @ R), ("object", R @ factors.A[i])):  # (m, r)
            theta: Matrix = rows @ factors.A.T + bias[:, None]  # (m, N)
            for relation_id in range(low, high):
                scores = (
                    against_others(theta, np.full(N, relation_id)) if factors.exclusive else theta[relation_id - low]
                )
                yield relation_id, role, scores


def _answer_list(
    factors: Factors, names: Names, theta: Vector, chosen: Ids, known: Ids, relation: int | None
) -> list[Answer]:
    """The chosen entries of θ, with names and probabilities; relation: None if relations are the answers."""
    p = np.atleast_1d(factors.link.probability(theta[chosen], chosen if relation is None else relation))
    is_known = np.isin(chosen, known)
    rows = zip(chosen.tolist(), theta[chosen].tolist(), p.tolist(), is_known.tolist(), strict=True)
    return [Answer(names[i], score, probability, mark) for i, score, probability, mark in rows]


def _id(names: Names, name: str | None) -> int | None:
    return None if name is None else int(names.ids(name))
