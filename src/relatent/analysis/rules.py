"""Rules that known facts follow, of one or two steps: born_in(x,z) ∧ located_in(z,y) ⇒ citizen_of(x,y).

A step follows a relation forwards or backwards. The support of a rule is the number of known facts that it predicts.
Its confidence is that number over all pairs (x, y) of its body whose x has any known fact of the head: the partial
completeness assumption (Galárraga et al. 2013), by which somebody without a known citizenship says nothing about the
rule. Bodies are found from a sample of the facts of the head, then counted exactly, or over a sample of the subjects of
the head where it has many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..data.facts import Facts
from ..data.names import Names
from ..data.result_labels import row_labels
from ..errors import InputError
from ..model.pattern_texts import body_text
from ..model.step_graph import MAX_BODIES, Body, StepGraph
from ..random_state import RandomState, to_generator
from ..result_tables import ResultList, result_record


@result_record
class Rule(NamedTuple):
    """A rule with its support and confidence.

    >>> Rule("born_in(x,z) ∧ located_in(z,y)", "citizen_of(x,y)", 120, 0.9).confidence
    0.9
    """

    body: str
    head: str
    support: int  # known facts of the head that it predicts
    confidence: float  # of the pairs of the body whose x has known facts of the head

    @property
    def text(self) -> str:
        """Body and head, as `patterns` of an estimator reads them."""
        return f"{self.body} ⇒ {self.head}"


@result_record
class RulePath(NamedTuple):
    """A rule whose body holds for a fact, and the entities on the way.

    >>> RulePath("born_in(x,z) ∧ located_in(z,y)", "citizen_of(x,y)", 120, 0.9, ["Rome"]).via
    ['Rome']
    """

    body: str
    head: str
    support: int
    confidence: float
    via: list[str]  # the possible z; empty for a rule of one step


def rules(
    facts: Facts,
    *,
    relations: Sequence[str] | None = None,
    k: int = 100,
    min_support: int = 5,
    random_state: RandomState = 0,
) -> ResultList[Rule]:
    """The k rules of greatest confidence, of all relations or of some.

    >>> import relatent
    >>> rows = [("Ann", "born", "Rome"), ("Bob", "born", "Rome"), ("Rome", "in", "Italy"), ("Ann", "of", "Italy")]
    >>> relatent.rules(relatent.read([*rows, ("Bob", "of", "Italy")]), min_support=2)[0].body
    'born(x,z) ∧ in(z,y)'
    """
    if k < 1 or min_support < 1:
        raise InputError(f"k and min_support must be at least 1, got {k} and {min_support}")
    graph, rng = StepGraph(facts), to_generator(random_state)
    heads = range(facts.n_relations) if relations is None else facts.relations.ids(list(relations)).tolist()
    found = []
    for head in heads:
        for body in graph.candidates(head, rng):
            support, size = graph.count(body, head, rng)
            if support >= min_support:
                found.append(Rule(*_texts(facts.relations, body, head), round(support), support / size))
    found.sort(key=lambda rule: (-rule.confidence, -rule.support, rule.body, rule.head))
    return ResultList(found[:k], row_labels(facts))


def _texts(relations: Names, body: Body, head: int) -> tuple[str, str]:
    """The body and the head in words."""
    return body_text(relations.__getitem__, body), f"{relations[head]}(x,y)"


def rule_paths(graph: StepGraph, s: int, head: int, o: int, k: int) -> list[RulePath]:
    """The k rules of greatest confidence whose body holds for a pair; the pair itself does not count."""
    bodies = sorted(graph.bodies(s, head, o).items(), key=lambda item: (-len(item[1]), item[0]))[:MAX_BODIES]
    found = [path for body, via in bodies if (path := rule_path(graph, (s, head, o), body, via)) is not None]
    return sorted(found, key=lambda path: (-path.confidence, -path.support, path.body))[:k]


def rule_path(graph: StepGraph, cell: tuple[int, int, int], body: Body, via: Sequence[int]) -> RulePath | None:
    """The rule of a body that holds for a pair by some entities; None if it predicts no other known fact."""
    s, head, o = cell
    own = int(graph.facts.contains(np.array([cell]))[0])
    if own and head in graph.facts.undirected:  # the fact is two cells, which the body may predict both
        own += int(graph.n_paths(body, np.array([o]), np.array([s]))[0] > 0)
    support, size = graph.count(body, head, np.random.default_rng(0))
    support -= own
    size -= own or len(graph.matrix(2 * head)[s].indices) > 0
    if support < 1 or size < 1:
        return None
    names = [graph.facts.entities[z] for z in dict.fromkeys(via)]
    return RulePath(*_texts(graph.facts.relations, body, head), round(support), min(1.0, support / size), names)
