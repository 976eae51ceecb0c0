"""What the observed patterns of a model add to the score of a cell, in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..model.factors import Factors
from ..model.pattern_texts import body_of, merged, text
from ..model.patterns import ALIKE, OF_OBJECT, OF_SUBJECT, Kind, Pattern, Patterns
from ..model.step_graph import Body, StepGraph
from ..result_tables import result_record
from .rules import RulePath, rule_path

Cell = tuple[int, int, int]  # subject, relation, object


@result_record
class PatternReason(NamedTuple):
    """An observed pattern, and what it adds to the score.

    >>> PatternReason("bought(x,y)", 8.2, 1.0, ["Ann bought Lamp"]).added
    8.2
    """

    text: str
    added: float  # to the log-odds, compared with the mean over pairs of a subject and an object of the relation
    value: float  # 1 or 0 for a fact, a number of paths or facts, or a share
    examples: list[str]  # the fact, or the entities between the two
    rule: RulePath | None = None  # of a fact or a path that is there, if other known facts follow it


class Contribution(NamedTuple):
    """Patterns that say the same to a reader, or two that are multiplied, and what they add."""

    pair: tuple[Pattern, ...]
    added: float

    @property
    def body(self) -> Body:
        """The step or the path that it is; () of anything else."""
        return body_of(self.pair[0]) if len(self.pair) == 1 else ()


class FoundPattern(NamedTuple):
    """A reason, and the facts behind it."""

    reason: PatternReason
    facts: list[Cell]  # a step, or those of a path; what those alike share, the most telling first
    is_alike: bool
    is_absent: bool  # a fact or a path that is not there


def contributions(patterns: Patterns, cell: Cell) -> list[Contribution]:
    """What patterns add to the score of a cell, or take from it, strongest first."""
    added: dict[tuple[Pattern, ...], float] = {}
    for term in patterns.terms(*cell):
        key = tuple(sorted({merged(pattern) for pattern in (term.pattern, term.other) if pattern is not None}))
        added[key] = added.get(key, 0.0) + term.added
    return sorted((Contribution(*item) for item in added.items()), key=lambda found: -abs(found.added))


def step_behind(contribution: Contribution, cell: Cell, graph: StepGraph) -> list[Cell]:
    """The one fact that a contribution is, if it is one that is known."""
    body = contribution.body
    fact = _fact(cell[0], body[0], cell[2]) if len(body) == 1 else cell
    return [fact] if len(body) == 1 and graph.facts.contains(np.array([fact]))[0] else []


def _between(body: Body, cell: Cell, graph: StepGraph) -> list[int]:
    """The entities on the way from subject to object."""
    if len(body) < 2:
        return []
    ends = graph.matrix(body[0])[cell[0]].indices, graph.matrix(body[1] ^ 1)[cell[2]].indices
    found: list[int] = np.intersect1d(*ends).tolist()
    return found


def _shared(pattern: Pattern, cell: Cell, graph: StepGraph) -> list[Cell]:
    """The facts that one end shares with those alike to it, first what most of those share who have the other end."""
    of_objects = pattern.kind == Kind.ALIKE_OBJECTS
    (x, y) = (cell[2], cell[0]) if of_objects else (cell[0], cell[2])
    alike = graph.matrix(2 * cell[1] + (not of_objects))[y].indices  # those that have y
    between = graph.matrix(pattern.a)[x].indices
    back = graph.matrix(pattern.a ^ 1)[between]
    share = np.asarray(back[:, alike[alike != x]].sum(axis=1)).ravel() / np.maximum(np.diff(back.indptr), 1)
    return [_fact(x, pattern.a, z) for z in between[np.argsort(-share, kind="stable")].tolist()]


def pattern_reason(
    factors: Factors, patterns: Patterns, graph: StepGraph, cell: Cell, contribution: Contribution
) -> FoundPattern:
    """A contribution in words, with the known facts behind it."""
    s, relation, o = cell
    x, y = factors.entities.shown(s), factors.entities.shown(o)
    amounts = [_amount(patterns, cell, pattern) for pattern in contribution.pair]
    texts = [
        text(factors.relations.shown, pattern, amount, x, y, relation, factors.undirected)
        for pattern, amount in zip(contribution.pair, amounts, strict=True)
    ]
    first, value = contribution.pair[0], float(np.prod(amounts))
    is_alike, via, facts, examples, rule = len(amounts) == 1 and first.kind in ALIKE, [], [], [], None
    if is_alike and value:
        facts = _shared(first, cell, graph)
    elif contribution.body and value:
        via = _between(contribution.body, cell, graph)
        steps = zip(contribution.body, [s, *via[:1]], [*via[:1], o], strict=True)
        facts = [_fact(start, step, end) for step, start, end in steps]
        examples = [factors.entities[z] for z in via] or fact_texts(factors, facts)
        rule = rule_path(graph, cell, contribution.body, via)
    reason = PatternReason(", and ".join(texts), contribution.added, value, examples, rule)
    return FoundPattern(reason, facts, is_alike and bool(facts), bool(contribution.body) and not value)


def fact_texts(factors: Factors, facts: list[Cell]) -> list[str]:
    """Facts as a person should read them."""
    entity, relation = factors.entities.shown, factors.relations.shown
    return [f"{entity(s)} {relation(k)} {entity(o)}" for s, k, o in facts]


def _fact(start: int, step: int, end: int) -> Cell:
    return (end, step // 2, start) if step % 2 else (start, step // 2, end)


def _amount(patterns: Patterns, cell: Cell, pattern: Pattern) -> float:
    """The number or the share that a pattern stands for; the fact itself is left out."""
    s, relation, o = cell
    value = float(patterns.values.at(relation, np.array([s]), np.array([o]))(pattern)[0])
    if pattern.kind in (*OF_SUBJECT, *OF_OBJECT):
        return round(float(np.expm1(value)), 6)
    return value**4 if pattern.kind in ALIKE else value
