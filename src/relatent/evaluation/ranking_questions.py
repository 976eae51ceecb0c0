"""The questions that test facts ask, over one vocabulary, and their known answers.

A fact asks for its subject, (?, relation, object), and for its object, (subject, relation, ?).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Ids
from ..data.facts import Facts
from ..data.names import Names

OPEN_PLACE = (0, 2)  # the place that the questions of column 0 and of column 1 ask for


def extended(model: Names, names: Names, used: Ids) -> Names:
    """The model's names, followed by those that only the test facts use."""
    used = np.unique(used)
    unseen = used[model.translate(names)[used] < 0]
    return model.extended([names[i] for i in unseen.tolist()])


def translated(facts: Facts, entities: Names, relations: Names) -> Ids:
    """Subjects, relations and objects in the ids of a vocabulary, (3, n), without facts that use other names."""
    entity, relation = entities.translate(facts.entities), relations.translate(facts.relations)
    cells = np.stack([entity[facts.subjects], relation[facts.triples[:, 1]], entity[facts.objects]])
    within = (cells >= 0).all(axis=0)
    return cells if within.all() else cells[:, within]


def n_isolated(cells: Sequence[Ids], n: int) -> int:
    """Number of entities in the first cells that occur in none of the others."""
    occurs = np.zeros(n, bool)
    for s, _, o in cells[1:]:
        occurs[s] = occurs[o] = True
    return int(np.count_nonzero(~occurs[np.unique(cells[0][[0, 2]])]))


class RankingQuestions(NamedTuple):
    """One question per test fact; known answers of question i are answers[starts[i]:stops[i]], with its target."""

    given: Ids  # (n,) the entity at the other end
    relation: Ids
    target: Ids
    answers: Ids
    starts: Ids
    stops: Ids


def questions_of(cells: Sequence[Ids], column: int, n: int) -> RankingQuestions:
    """The questions of the first cells; all cells are known answers. Column 0 asks for subjects, 1 for objects."""
    open_place, given_place = OPEN_PLACE[column], OPEN_PLACE[1 - column]
    asked = cells[0][1] * n + cells[0][given_place]
    distinct, which = np.unique(asked, return_inverse=True)
    known = []
    for facts in cells:
        question = facts[1] * n + facts[given_place]
        place = np.minimum(np.searchsorted(distinct, question), len(distinct) - 1)
        wanted = distinct[place] == question
        known.append(place[wanted] * n + facts[open_place][wanted])
    keys = np.unique(np.concatenate(known))
    edges = np.searchsorted(keys, np.arange(len(distinct) + 1) * n)
    return RankingQuestions(
        cells[0][given_place], cells[0][1], cells[0][open_place], keys % n, edges[which], edges[which + 1]
    )
