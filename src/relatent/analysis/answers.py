"""What a model says beside what is known: answers to a question, and all that concerns one entity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import Ids, Matrix, Vector
from ..data.names import Names
from ..errors import InputError
from ..model.factors import Factors, against_others, best_first
from .known_facts import Known

MARKED, LEFT_OUT, ALONE = "mark", "omit", "only"  # what becomes of known answers
SCORES_AT_ONCE = 1 << 24  # 64 MB
PROBABLE = 0.5  # from here on a prediction is news
KNOWN_SHOWN = 25  # names a section


class Answer(NamedTuple):
    """What may fill an open place."""

    name: str
    score: float
    probability: float
    known: bool


class Answers(NamedTuple):
    """Answers to a question, best first."""

    open: str  # "subject", "relation" or "object"
    n_known: int
    answers: list[Answer]


class Section(NamedTuple):
    """An entity in one role of one relation: who is known to stand at the other end, and who may."""

    relation: str
    role: str  # of the entity: "subject" or "object"
    n_known: int
    known: list[Answer]
    predicted: list[Answer]


def answers(
    factors: Factors,
    known: Known | None = None,
    *,
    subject: str | None = None,
    relation: str | None = None,
    object: str | None = None,
    k: int = 10,
    treat_known: str = MARKED,
) -> Answers:
    """The k best answers for the place left open, known ones marked, left out, or they alone."""
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    if treat_known not in (MARKED, LEFT_OUT, ALONE):
        raise InputError(f"known answers are one of {MARKED}, {LEFT_OUT}, {ALONE}, got {treat_known!r}")
    place, names, theta = factors.question(subject, relation, object)
    ids = (_id(factors.entities, subject), _id(factors.relations, relation), _id(factors.entities, object))
    filling: Ids = np.empty(0, np.int64) if known is None else known.filling(*ids)
    if treat_known == LEFT_OUT:
        theta[filling] = -np.inf
    elif treat_known == ALONE:
        theta[np.setdiff1d(np.arange(len(theta)), filling)] = -np.inf
    found = _answers(factors, names, theta, best_first(theta, k), filling)
    return Answers(("subject", "relation", "object")[place], len(filling), found)


def outlook(factors: Factors, known: Known | None, entity: str | int, *, limit: int = 5) -> list[Section]:
    """An entity in both roles of every relation: where a new fact is probable first, then where some are known.

    `limit`: predictions a section.
    """
    i = int(factors.entities.ids(entity))
    sections = []
    for k, role, theta in _all_scores(factors, i):
        here: Ids = np.empty(0, np.int64)
        if known is not None:
            here = known.objects(i, k) if role == "subject" else known.subjects(k, i)
        shown = here[best_first(theta[here], KNOWN_SHOWN)]
        listed = _answers(factors, factors.entities, theta, shown, here)
        theta[here] = -np.inf
        likely = _answers(factors, factors.entities, theta, best_first(theta, limit), here[:0])
        sections.append(Section(factors.relations[k], role, len(here), listed, likely))
    return sorted(sections, key=_importance)


def _importance(section: Section) -> tuple[bool, bool, float]:
    """News first, then what is known, then guesses."""
    best = max((one.probability for one in section.predicted), default=0.0)
    return best < PROBABLE, not section.n_known, -best


def _all_scores(factors: Factors, i: int) -> Iterator[tuple[int, str, Vector]]:
    """θ of every cell of an entity: relation, role, and (N,) scores."""
    K, N = len(factors.relations), len(factors.entities)
    at_once = K if factors.exclusive else max(1, SCORES_AT_ONCE // N)  # relations that compete are scored together
    for low in range(0, K, at_once):
        some = slice(low, min(low + at_once, K))
        R, bias = factors.R[some], factors.bias[some]
        for role, rows in (("subject", factors.A[i] @ R), ("object", R @ factors.A[i])):  # (m, r)
            theta: Matrix = rows @ factors.A.T + bias[:, None]  # (m, N)
            for k in range(some.start, some.stop):
                own = theta[k - low] if not factors.exclusive else against_others(theta, np.full(N, k))
                yield k, role, own


def _answers(factors: Factors, names: Names, theta: Vector, chosen: Ids, known: Ids) -> list[Answer]:
    """The chosen places of θ by name."""
    p = np.atleast_1d(factors.link.probability(theta[chosen]))
    is_known = np.isin(chosen, known)
    listed = zip(chosen.tolist(), theta[chosen].tolist(), p.tolist(), is_known.tolist(), strict=True)
    return [Answer(names[i], score, probability, mark) for i, score, probability, mark in listed]


def _id(names: Names, given: str | None) -> int | None:
    return None if given is None else int(names.ids(given))
