"""Small worlds with a calibrated model, and every probability by plain loops: the slow twin of `Candidates`.

The formula is that of `relatent.model.calibration`:

    log-odds = line_k(θ) + shift_k[has the subject another answer, has the object another answer]

and where a question has one answer and none is known, p = o / (1 + Σ o) over the candidates that compete. A listed fact
is judged as if it were not listed, so its loops run over all facts but itself.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, log1p
from typing import Any

import numpy as np

from relatent import Factors, Facts
from relatent.data.names import Names
from relatent.model.calibration import Calibration
from relatent.model.candidates import MARK, OMIT, ONLY, OPEN
from relatent.model.entity_types import EntityTypes
from relatent.model.patterns import Patterns
from relatent.model.relation_matrices import RelationMatrices

RELATIONS = ("born in", "married to", "lives at", "likes")
FUNCTIONAL, SYMMETRIC, ONE_TO_ONE, ANY = range(4)
ONE_ANSWER = np.array([[True, False], [False, False], [True, True], [False, True]])


def random_facts(seed: int, n: int, n_unobserved: int = 0) -> Facts:
    """Facts of four kinds of relations; "likes" has facts of an entity with itself in every other world."""
    rng = np.random.default_rng(seed)
    cells = [(s, FUNCTIONAL, int(rng.integers(n // 3))) for s in range(n) if rng.random() < 0.6]
    for a, b in rng.permutation(n)[: 2 * (n // 3)].reshape(-1, 2).tolist():
        cells += [(a, SYMMETRIC, b), (b, SYMMETRIC, a)]
    places = rng.permutation(n)
    cells += [(s, ONE_TO_ONE, int(places[s])) for s in range(n) if rng.random() < 0.5 and places[s] != s]
    cells += [(int(s), ANY, int(o)) for s, o in rng.integers(n, size=(2 * n, 2)) if s != o or seed % 2]
    cells = sorted({(s, k, o) for s, k, o in cells if s != o or k == ANY})
    rest = [cell for cell in np.ndindex(n, len(RELATIONS), n) if cell not in set(cells)]
    unobserved = [rest[i] for i in rng.choice(len(rest), n_unobserved, replace=False).tolist()]
    names = Names([f"e{i:02d}" for i in range(n)]), Names(list(RELATIONS), what="relation")
    return Facts.from_ids(np.array(cells), *names, unobserved=np.array(unobserved).reshape(-1, 3))


def random_calibration(seed: int, theta: np.ndarray, *, flat: bool = False) -> Calibration:
    """Lines of 1 to 5 knots within the scores, shifts of either sign; `flat`: with segments that do not rise."""
    rng = np.random.default_rng(seed)
    lines = []
    for k, scores in enumerate(theta):
        m = 1 if seed % 5 == 4 and k == ANY else int(rng.integers(2, 6))
        x = np.quantile(scores, 0.1) + (0.1 + np.ptp(scores)) * np.cumsum(rng.uniform(0.1, 0.3, m))
        steps = rng.uniform(0.3, 2.0, m)
        if flat:
            steps[rng.random(m) < 0.5] = 0.0
        lines.append((x.tolist(), (-3.0 + np.cumsum(steps)).tolist()))
    return Calibration.of_lines(
        lines,
        shifts=rng.normal(0, 1.5, (len(theta), 4)),
        one_answer=ONE_ANSWER,
        base_rates=rng.uniform(0.01, 0.1, len(theta)),
        unobserved=-log(0.2),
        masked=np.stack([rng.normal(size=len(theta)), rng.uniform(0.3, 1.5, len(theta))], axis=1),
        missing=0.2,
    )


def random_world(
    seed: int,
    *,
    n: int = 12,
    typed: bool = False,
    n_unobserved: int = 0,
    calibrated: bool = True,
    flat: bool = False,
    by_rules: bool = False,
    structure: Any = None,
    dtype: type = np.float64,
    **fields: Any,
) -> Factors:
    """A model of random vectors, or of random rules, that knows its facts."""
    facts, rng, K = random_facts(seed, n, n_unobserved), np.random.default_rng([seed, 1]), len(RELATIONS)
    if typed:
        kinds = {name: {"abc"[t] for t in rng.integers(3, size=1 + i % 2)} for i, name in enumerate(facts.entities)}
        facts = facts.with_types(dict(list(kinds.items())[:-2]))  # two entities without a type
        fields["types"] = EntityTypes.of(facts, facts.types)
    rank = 0 if by_rules else 4
    if by_rules:
        steps = rng.integers(2 * K, size=(12, 2)).astype(np.int32)
        steps[::2, 1] = -1
        weights = rng.choice([-0.7, 0.1, 0.3], 12)
        bodies = [tuple(step for step in body if step >= 0) for body in steps.tolist()]
        fields["patterns"] = Patterns.of_rules(facts, rng.integers(K, size=12), bodies, weights)
    R: Any = rng.normal(size=(K, rank, rank)).astype(dtype)
    if structure is not None:
        R = RelationMatrices.of_parameters(structure, rng.normal(size=structure.shape(K, rank)), K, rank)
    A = (0.6 * rng.normal(size=(n, rank))).astype(dtype)
    bias = (np.zeros(K) if by_rules else rng.normal(size=K)).astype(dtype)
    factors = Factors(A, R, bias, facts.entities, facts.relations, facts=facts, **fields)
    if not calibrated:
        return factors
    calibration = random_calibration(seed, scores_of_all_cells(factors), flat=flat)
    return replace(factors, R=factors.relation_matrices, calibration=calibration)


def scores_of_all_cells(factors: Factors) -> np.ndarray:
    """θ of every cell, or its log-odds against the other relations of the pair and none, (K, N, N)."""
    A, R, bias = (part.astype(np.float64) for part in (factors.A, factors.R, factors.bias))
    theta = np.einsum("ia,kab,jb->kij", A, R, A) + bias[:, None, None]
    if factors.patterns is not None:
        n, K = len(A), len(R)
        theta = factors.patterns.scale[:, None, None] * theta
        theta += factors.patterns.cells(np.arange(n)[:, None], np.arange(K)[:, None, None], np.arange(n))
    if not factors.exclusive:
        return theta
    odds = np.exp(theta)
    return theta - np.log(1 + odds.sum(axis=0) - odds)


class PlainAnswers:
    """The answers of a model by loops over all cells."""

    def __init__(self, factors: Factors, facts: Facts | None = None):
        self.factors, self.n = factors, len(factors.entities)
        self.facts = factors.facts if facts is None else facts
        self.known = set(map(tuple, self.facts.triples.tolist()))
        self.unobserved = set(map(tuple, self.facts.unobserved.tolist()))
        theta = scores_of_all_cells(factors)
        self.theta = {(s, k, o): float(theta[k, s, o]) for k, s, o in np.ndindex(theta.shape)}
        self.objects: dict[tuple[int, int], set[int]] = {}
        self.subjects: dict[tuple[int, int], set[int]] = {}
        for s, k, o in self.known:
            self.objects.setdefault((s, k), set()).add(o)
            self.subjects.setdefault((k, o), set()).add(s)
        self.right_types: dict[tuple[int, int], list[bool]] = {}
        self.kept: dict[tuple[int, int, int], float] = {}
        self.may_be_itself = [
            any(s == o for s, k, o in self.known if k == relation) or not any(k == relation for _, k, _ in self.known)
            for relation in range(len(factors.relations))
        ]

    def is_allowed(self, relation: int, place: int, entity: int) -> bool:
        if (relation, place) not in self.right_types:
            types = self.factors.types
            self.right_types[relation, place] = [True] * self.n if types is None else types.allowed(relation, place)
        return bool(self.right_types[relation, place][entity])

    def line(self, relation: int, theta: float) -> float:
        """Linear between the knots and beyond them."""
        own = np.isfinite(self.factors.calibration.scores[relation])
        x, y = (
            part[relation][own].tolist() for part in (self.factors.calibration.scores, self.factors.calibration.values)
        )
        if len(x) == 1:
            return y[0]
        i = 0
        while i < len(x) - 2 and theta > x[i + 1]:
            i += 1
        return y[i] + (y[i + 1] - y[i]) * (theta - x[i]) / (x[i + 1] - x[i])

    def log_odds(self, cell: tuple[int, int, int]) -> float:
        """The log-odds of the probability of a cell; θ if the model is not calibrated."""
        if cell not in self.kept:
            self.kept[cell] = self.theta[cell] if self.factors.calibration is None else self._log_odds(cell)
        return self.kept[cell]

    def _log_odds(self, cell: tuple[int, int, int]) -> float:
        calibration, (s, k, o) = self.factors.calibration, cell

        def objects(i: int) -> set[int]:  # without the cell itself
            return self.objects.get((i, k), set()) - ({o} if i == s else set())

        def subjects(j: int) -> set[int]:
            return self.subjects.get((k, j), set()) - ({s} if j == o else set())

        def alone(i: int, j: int) -> float:
            kind = 2 * bool(objects(i) - {j}) + bool(subjects(j) - {i})
            return self.line(k, self.theta[i, k, j]) + float(calibration.shifts[k, kind])

        found = alone(s, o)
        divisors = [1.0]  # 1 + Σ without the cell itself, of each question with one answer
        for side in (0, 1):
            if not calibration.one_answer[k, side] or (subjects(o) if side else objects(s)):
                continue
            total, counts_itself = 0.0, False
            for rival in range(self.n):
                i, j = (rival, o) if side else (s, rival)
                if i == j and not self.may_be_itself[k]:
                    continue
                if not self.is_allowed(k, 0 if side else 2, rival):
                    continue
                if calibration.one_answer[k, 1 - side] or (objects(i) if side else subjects(j)):
                    total += exp(alone(i, j)) if (i, j) != (s, o) else 0.0
                    counts_itself |= (i, j) == (s, o)
            divisors.append(1 + total if counts_itself else max(1 + total - exp(found), 1.0))
        if cell not in self.unobserved:
            return found - log(max(divisors))
        intercept, slope = calibration.masked[k].tolist()
        if not self.factors.link.gives_probabilities:
            return intercept + slope * (found - log(max(divisors)) + calibration.unobserved)
        theta = self.theta[cell]
        p = float(self.factors.link.probability(np.array([theta]), np.array([cell[1]]))[0])
        p = min(max(p, 1e-12), 1 - 1e-12)
        return intercept + slope * (log(p) - log1p(-p) + 1e-6 * theta)

    # --- questions

    def best(self, question: tuple[int, int, int], treat: str) -> list[tuple[tuple[int, int, int], float, int]]:
        """All answers in order: cells, log-odds, and ranks (0: known)."""
        place = question.index(OPEN)
        found = []
        for candidate in range(len(self.factors.relations) if place == 1 else self.n):
            cell = tuple(candidate if at == place else i for at, i in enumerate(question))
            is_known = cell in self.known
            offered = self.is_offered(cell, place)
            if {OMIT: offered and not is_known, MARK: offered or is_known, ONLY: is_known}[treat]:
                found.append((cell, self.log_odds(cell)))
        found.sort(key=lambda row: (-round(row[1], 9), row[0]))
        rows, rank = [], 0
        for cell, score in found:
            rank += cell not in self.known
            rows.append((cell, score, 0 if cell in self.known else rank))
        return rows

    def is_offered(self, cell: tuple[int, int, int], place: int) -> bool:
        """Whether a cell answers a question for this place, known or not: the types of what is given are not asked."""
        s, k, o = cell
        if s == o and not self.may_be_itself[k]:
            return False
        return all(self.is_allowed(k, at, cell[at]) for at in ((0, 2) if place == 1 else (place,)))

    def rank(self, cell: tuple[int, int, int]) -> int:
        """The rank of a cell's object among those that are not known."""
        if cell in self.known:
            return 0
        rows = [row for row in self.best((cell[0], cell[1], OPEN), OMIT) if row[0] != cell]
        if not self.is_allowed(cell[1], 2, cell[2]):
            return 1 + len(rows)
        own = (-round(self.log_odds(cell), 9), cell)
        return 1 + sum((-round(score, 9), other) < own for other, score, _ in rows)
