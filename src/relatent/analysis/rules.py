"""Rules that known facts follow, of one or two steps: born_in(x,z) ∧ located_in(z,y) ⇒ citizen_of(x,y).

A step follows a relation forwards or backwards. The support of a rule is the number of known facts that it predicts.
Its confidence is that number over all pairs (x, y) of its body whose x has any known fact of the head: the partial
completeness assumption (Galárraga et al. 2013), by which somebody without a known citizenship says nothing about the
rule. Bodies are found from a sample of the facts of the head, then counted exactly, or over a sample of the subjects of
the head where it has many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..arrays import Ids
from ..data.facts import Facts
from ..errors import InputError
from ..random_state import RandomState, to_generator
from ..result_tables import ResultList, result_record

MAX_SUBJECTS = 2000  # of a head, for which the body of a rule is counted
SAMPLED_FACTS = 100  # of a head, from which bodies are found
MAX_BODIES = 40  # counted per head
MAX_EDGES = 1000  # of an entity that are followed; of more, the first
Body = tuple[int, ...]  # one or two steps: 2 k forwards, 2 k + 1 backwards


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
                found.append(Rule(*graph.texts(body, head), round(support), support / size))
    found.sort(key=lambda rule: (-rule.confidence, -rule.support, rule.body, rule.head))
    return ResultList(found[:k])


class StepGraph:
    """Known facts as steps from entity to entity, without those of an entity with itself."""

    def __init__(self, facts: Facts):
        self.facts, self.n = facts, facts.n_entities
        self._matrices: dict[int, sp.csr_matrix] = {}

    @cached_property
    def _edges(self) -> tuple[Ids, Ids, Ids]:
        """Where the edges of each entity start, (N + 1,); the step and the end of each edge."""
        s, k, o = self.facts.triples[self.facts.subjects != self.facts.objects].T
        sources = np.concatenate([s, o])
        order = np.argsort(sources, kind="stable")
        steps, ends = np.concatenate([2 * k, 2 * k + 1])[order], np.concatenate([o, s])[order]
        return np.searchsorted(sources[order], np.arange(self.n + 1)), steps, ends

    def edges(self, entity: int) -> tuple[Ids, Ids]:
        """The steps from an entity, and where they lead."""
        starts, steps, ends = self._edges
        own = slice(starts[entity], min(starts[entity + 1], starts[entity] + MAX_EDGES))
        return steps[own], ends[own]

    def matrix(self, step: int) -> sp.csr_matrix:
        """Which entities a step connects."""
        if step not in self._matrices:
            X = self.facts.matrix(step // 2, np.float32)
            X = X - sp.diags(X.diagonal())
            X = sp.csr_matrix(X if step % 2 == 0 else X.T)
            X.eliminate_zeros()
            self._matrices[step] = X
        return self._matrices[step]

    def bodies(self, s: int, head: int, o: int) -> dict[Body, list[int]]:
        """The bodies that hold for a pair, each with the entities on the way."""
        steps, ends = self.edges(s)
        found: dict[Body, list[int]] = {(step,): [] for step in steps[ends == o].tolist() if step != 2 * head}
        back, middle = self.edges(o)
        here, there = np.isin(ends, middle), np.isin(middle, ends)
        second: dict[int, list[int]] = {}
        for step, z in zip(back[there].tolist(), middle[there].tolist(), strict=True):
            second.setdefault(z, []).append(step ^ 1)  # seen from z
        for first, z in zip(steps[here].tolist(), ends[here].tolist(), strict=True):
            for last in second[z]:
                found.setdefault((first, last), []).append(z)
        return found

    def candidates(self, head: int, rng: np.random.Generator) -> list[Body]:
        """Bodies that hold for most of some facts of a relation."""
        cells = self.facts.triples[self.facts.starts[head] : self.facts.starts[head + 1]]
        cells = cells[cells[:, 0] != cells[:, 2]]
        if len(cells) > SAMPLED_FACTS:
            cells = cells[rng.choice(len(cells), SAMPLED_FACTS, replace=False)]
        counts = Counter(body for s, _, o in cells.tolist() for body in self.bodies(s, head, o))
        return [body for body, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_BODIES]]

    def count(self, body: Body, head: int, rng: np.random.Generator) -> tuple[float, float]:
        """How many facts of the head a body predicts, and how many pairs it has whose x has facts of the head."""
        X = self.matrix(2 * head)
        subjects = np.flatnonzero(np.diff(X.indptr))
        scale = max(1.0, len(subjects) / MAX_SUBJECTS)
        if scale > 1:
            subjects = np.sort(rng.choice(subjects, MAX_SUBJECTS, replace=False))
        P = self.matrix(body[0])[subjects]
        if len(body) == 2:
            P = P @ self.matrix(body[1])
            rows = np.repeat(np.arange(len(subjects)), np.diff(P.indptr))
            P.data[P.indices == subjects[rows]] = 0  # x is not its own y
            P.eliminate_zeros()
        return scale * P.multiply(X[subjects]).nnz, scale * P.nnz

    def texts(self, body: Body, head: int) -> tuple[str, str]:
        """The body and the head in words."""
        ends = ("x", "y") if len(body) == 1 else ("x", "z", "y")
        atoms = [
            f"{self.facts.relations[step // 2]}({','.join(ends[i : i + 2][:: 1 - 2 * (step % 2)])})"
            for i, step in enumerate(body)
        ]
        return " ∧ ".join(atoms), f"{self.facts.relations[head]}(x,y)"


def rule_paths(graph: StepGraph, s: int, head: int, o: int, k: int) -> list[RulePath]:
    """The k rules of greatest confidence whose body holds for a pair; the fact itself, if known, does not count."""
    is_known, rng = bool(graph.facts.contains(np.array([[s, head, o]]))[0]), np.random.default_rng(0)
    found = []
    bodies = sorted(graph.bodies(s, head, o).items(), key=lambda item: (-len(item[1]), item[0]))[:MAX_BODIES]
    for body, via in bodies:
        support, size = (number - is_known for number in graph.count(body, head, rng))
        if support >= 1 and size >= 1:
            names = [graph.facts.entities[z] for z in dict.fromkeys(via)]
            found.append(RulePath(*graph.texts(body, head), round(support), min(1.0, support / size), names))
    return sorted(found, key=lambda path: (-path.confidence, -path.support, path.body))[:k]
