"""Observed patterns: what can be seen of a pair in the facts, as a part of its score beside the factors.

    θ_ijk = scale_k · (a_iᵀ R_k a_j + b_k)  +  bias_k  +  Σ_p w_kp f_p(i, j)  +  Σ_pq v_kpq f_p(i, j) f_q(i, j)

The f are numbers that the facts give for a pair: whether another relation connects it, how many entities lie between
the two, whether those who resemble the subject have the object, how often both ends occur (`Kind`). A fact is never
evidence for itself: the f of a listed cell are those of the facts without it. Nothing of N × N is stored. f is read
from the facts when a score is asked for, so that it follows facts that become known after the fit.

A model of weighted rules (`MarkovLogic`) is the case without factors, whose f are 1 where a body holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Matrix, Slices, Vector
from ..data.facts import Facts
from ..errors import InputError
from .step_graph import Body, StepGraph, parts, product_cells


class Kind(IntEnum):
    """What a pattern says of a pair (x, y); step 2k follows relation k forwards, 2k + 1 backwards."""

    SAME = 0  # x is y
    STEP = 1  # the step a leads from x to y
    ANY_PATH = 2  # a step a and a step b lead from x to y through some z
    N_PATHS = 3  # through how many z
    LOG_PATHS = 4  # log(1 + that number)
    WALK = 5  # Σ over these z of 1 / the number of their steps b, to the power of ¼
    ALIKE_SUBJECTS = 6  # share of those who share a step a with x that have y, to the power of ¼
    ALIKE_OBJECTS = 7  # share of those who share a step a with y that x has, to the power of ¼
    SUBJECT_HAS = 8  # x has a step a
    OBJECT_HAS = 9  # y has a step a
    SUBJECT_DEGREE = 10  # log(1 + the number of steps a from x)
    OBJECT_DEGREE = 11  # log(1 + the number of steps a from y)


PATHS = (Kind.ANY_PATH, Kind.N_PATHS, Kind.LOG_PATHS, Kind.WALK)
ALIKE = (Kind.ALIKE_SUBJECTS, Kind.ALIKE_OBJECTS)
OF_SUBJECT, OF_OBJECT = (Kind.SUBJECT_HAS, Kind.SUBJECT_DEGREE), (Kind.OBJECT_HAS, Kind.OBJECT_DEGREE)
TURNED_KINDS = {
    kind: turned
    for one, other in (
        (Kind.ALIKE_SUBJECTS, Kind.ALIKE_OBJECTS),
        (Kind.SUBJECT_HAS, Kind.OBJECT_HAS),
        (Kind.SUBJECT_DEGREE, Kind.OBJECT_DEGREE),
    )
    for kind, turned in ((one, other), (other, one))
}  # of a pair seen from its other end
AS_IT_IS, LOGARITHM, ROOT, INDICATOR = range(4)  # transforms of a product
TRANSFORMS = {Kind.LOG_PATHS: LOGARITHM, Kind.WALK: ROOT, Kind.ANY_PATH: INDICATOR}
CELLS_PER_BLOCK = 1 << 20  # whose patterns are held at a time
USUAL_PAIRS = 2000  # of a relation, over which the mean value of a pattern is taken
DENSE_ENTITIES, DENSE_NUMBERS = 128, 1 << 23  # up to which the matrices of all steps are dense


class Pattern(NamedTuple):
    """One pattern; b is −1 where there is no second step, and a where there is none at all."""

    kind: Kind
    a: int = -1
    b: int = -1


class Term(NamedTuple):
    """What one pattern adds to the score of a cell, compared with the usual pair of the relation."""

    pattern: Pattern
    other: Pattern | None  # the second one of a product
    value: float
    added: float


class Usual(NamedTuple):
    """Mean and standard deviation of the patterns of one relation, (P,)."""

    mean: Vector
    deviation: Vector


def check_has_vectors(A: Matrix) -> None:
    """Raise InputError if a model has no entity vectors, for questions that are about them."""
    if not A.shape[1]:
        raise InputError("the model has rules and no vectors; ask a model of another kind, such as logit")


@dataclass(frozen=True, eq=False)
class Patterns:
    """Weighted patterns of each relation, and the facts that they are read from."""

    facts: Facts
    codes: NDArray[np.int32]  # (m, 4): relation, kind, a, b; by relation
    weights: Vector  # (m,)
    pairs: NDArray[np.int32]  # (c, 2) rows of codes, both of one relation: patterns that are multiplied
    pair_weights: Vector  # (c,)
    bias: Vector  # (K,)
    scale: Vector  # (K,) of the score by factors

    def __post_init__(self) -> None:
        K, m = self.facts.n_relations, len(self.codes)
        shapes = self.codes.shape == (m, 4) and self.weights.shape == (m,) and self.pairs.shape[1:] == (2,)
        sizes = shapes and len(self.pairs) == len(self.pair_weights) and len(self.bias) == len(self.scale) == K
        numbers = (self.weights, self.pair_weights, self.bias, self.scale)
        if not sizes or not all(np.isfinite(part).all() for part in numbers) or (self.scale < 0).any():
            raise InputError(f"patterns need finite weights of their codes and pairs, and of {K} relations")
        heads, kinds, steps = self.codes[:, 0], self.codes[:, 1], self.codes[:, 2:]
        if m and not (
            (heads >= 0).all()
            and (heads < K).all()
            and (np.diff(heads) >= 0).all()
            and np.isin(kinds, list(Kind)).all()
        ):
            raise InputError(f"each pattern must have one of {K} relations, in their order, and a known kind")
        needed = (kinds != Kind.SAME).astype(int) + np.isin(kinds, PATHS)  # steps
        if (m and not ((steps >= 0).sum(axis=1) >= needed).all()) or (
            m and not (-1 <= steps.min() <= steps.max() < 2 * K)
        ):
            raise InputError(f"steps of patterns must be 0 to {2 * K - 1}")
        if len(self.pairs) and not (self.pairs.min() >= 0 and self.pairs.max() < m):
            raise InputError(f"pairs of patterns must be of {m} patterns, got {self.pairs.max()}")
        if len(self.pairs) and (heads[self.pairs[:, 0]] != heads[self.pairs[:, 1]]).any():
            raise InputError("patterns that are multiplied must be of one relation")

    @classmethod
    def of_rules(
        cls, facts: Facts, heads: Ids, bodies: list[Body], weights: Vector, *, each_z: bool = False
    ) -> Patterns:
        """Weighted rules; a body has up to two steps, () is that of k(x,x). `each_z`: a weight counts per path."""
        path = Kind.N_PATHS if each_z else Kind.ANY_PATH
        kinds = {0: Kind.SAME, 1: Kind.STEP, 2: path}
        codes = [(head, kinds[len(body)], *body, -1, -1)[:4] for head, body in zip(heads, bodies, strict=True)]
        order = np.argsort(heads, kind="stable")
        K = facts.n_relations
        return cls(
            facts,
            np.array(codes, np.int32).reshape(-1, 4)[order],
            np.asarray(weights, np.float64)[order],
            np.empty((0, 2), np.int32),
            np.empty(0),
            np.zeros(K),
            np.ones(K),
        )

    def over(self, facts: Facts) -> Patterns:
        """The same patterns, read from other facts; new relations have none."""
        if facts is self.facts:
            return self
        more = facts.n_relations - len(self.bias)
        bias, scale = np.append(self.bias, np.zeros(more)), np.append(self.scale, np.ones(more))
        return replace(self, facts=facts, bias=bias, scale=scale)

    @cached_property
    def values(self) -> PatternValues:
        """The numbers that the facts give."""
        return PatternValues(self.facts)

    def reading(self, values: PatternValues) -> Patterns:
        """The same patterns, read from facts whose numbers are known."""
        found = self.over(values.facts)
        vars(found)["values"] = values
        return found

    def of(self, relation: int) -> list[tuple[Pattern, float]]:
        """The patterns of a relation and their weights."""
        rows = range(*np.searchsorted(self.codes[:, 0], [relation, relation + 1]).tolist())
        return [(_pattern(self.codes[row]), float(self.weights[row])) for row in rows]

    def pairs_of(self, relation: int) -> list[tuple[int, int, float]]:
        """The products of a relation: places among its patterns, and the weight."""
        if not len(self.pairs):
            return []
        first = int(np.searchsorted(self.codes[:, 0], relation))
        here = np.flatnonzero(self.codes[self.pairs[:, 0], 0] == relation)
        pairs = zip((self.pairs[here] - first).tolist(), self.pair_weights[here].tolist(), strict=True)
        return [(i, j, weight) for (i, j), weight in pairs]

    def bodies(self, relation: int) -> list[Body]:
        """The steps and the paths among the patterns of a relation."""
        kinds = (Kind.STEP, *PATHS)
        found = [tuple(step for step in (p.a, p.b) if step >= 0) for p, _ in self.of(relation) if p.kind in kinds]
        return list(dict.fromkeys(found))

    def largest(self, relation: int) -> float:
        """What patterns add to a score at most."""
        return float(self.bias[relation]) + self._sum_of_limits(relation, lambda weight: max(weight, 0.0))

    def rounding(self, relation: int, of_factors: float) -> float:
        """How far a score in single precision may be from the exact one, if that by factors is so far."""
        size = abs(float(self.bias[relation])) + self._sum_of_limits(relation, abs)
        return float(self.scale[relation]) * of_factors + 4 * float(np.finfo(np.float32).eps) * size

    def _sum_of_limits(self, relation: int, part: Callable[[float], float]) -> float:
        """The sum of a part of each weight times the largest value that its pattern may have."""
        n, of_relation = float(max(self.facts.n_entities, 2)), self.of(relation)
        kinds = {Kind.N_PATHS: n, Kind.WALK: n**0.25}
        kinds |= dict.fromkeys((Kind.LOG_PATHS, Kind.SUBJECT_DEGREE, Kind.OBJECT_DEGREE), float(np.log1p(n)))
        limits = [kinds.get(pattern.kind, 1.0) for pattern, _ in of_relation]
        single = sum(part(weight) * limit for (_, weight), limit in zip(of_relation, limits, strict=True))
        return float(single + sum(part(weight) * limits[i] * limits[j] for i, j, weight in self.pairs_of(relation)))

    def rows(self, entities: Ids, relation: int, *, of_objects: bool = False) -> Matrix:
        """What patterns add to the scores of some subjects with every object, or of objects with every subject."""
        found = np.empty((len(entities), self.facts.n_entities))
        step = max(1, CELLS_PER_BLOCK // max(1, self.facts.n_entities))
        for low in range(0, len(entities), step):
            block = np.asarray(entities[low : low + step], np.int64)
            found[low : low + step] = self._block(block, relation, of_objects)
            if relation in self.facts.undirected:
                found[low : low + step] += self._block(block, relation, not of_objects)
                found[low : low + step] /= 2
        return found

    def _block(self, entities: Ids, relation: int, of_objects: bool) -> Matrix:
        bias, pairs = float(self.bias[relation]), self.pairs_of(relation)
        theta = self.values.weighted_rows(self.of(relation), pairs, relation, entities, bias, of_objects=of_objects)
        known = self.values.graph.matrix(2 * relation + of_objects)[entities]
        row, other = np.repeat(np.arange(len(entities)), np.diff(known.indptr)), known.indices.astype(np.int64)
        s, o = (other, entities[row]) if of_objects else (entities[row], other)
        theta[row, other] = self._of_cells(relation, s, o)
        return theta

    def cells(self, s: Ids, k: Ids | int, o: Ids) -> Vector:
        """What patterns add to the score of each cell, in the shape of the ids."""
        s, k, o = np.broadcast_arrays(s, k, o)
        flat_s, flat_k, flat_o = (np.ascontiguousarray(ids.ravel(), np.int64) for ids in (s, k, o))
        theta = np.zeros(flat_k.shape)
        for relation in np.unique(flat_k).tolist():
            here = np.flatnonzero(flat_k == relation)
            for low in range(0, len(here), CELLS_PER_BLOCK):
                part = here[low : low + CELLS_PER_BLOCK]
                theta[part] = self._of_cells(relation, flat_s[part], flat_o[part])
                if relation in self.facts.undirected:
                    theta[part] = (theta[part] + self._of_cells(relation, flat_o[part], flat_s[part])) / 2
        return theta.reshape(k.shape)

    def _of_cells(self, relation: int, s: Ids, o: Ids) -> Vector:
        """What patterns add to the score of cells of one relation, in this direction."""
        pairs, at = self.pairs_of(relation), self.values.at(relation, s, o)
        multiplied = {place for i, j, _ in pairs for place in (i, j)}
        total, kept = np.full(len(s), self.bias[relation]), {}
        for place, (pattern, weight) in enumerate(self.of(relation)):
            values = at(pattern)
            total += weight * values
            if place in multiplied:
                kept[place] = values
        for i, j, weight in pairs:
            total += weight * kept[i] * kept[j]
        return total

    def joined(self, theta: Vector, s: Ids, k: Ids, o: Ids) -> Vector:
        """The score of each cell from that by factors."""
        found: Vector = self.scale[k] * theta + self.cells(s, k, o)
        return found

    def usual(self, relation: int) -> Usual:
        """The values of each pattern of a relation, over pairs of a subject and an object of its facts."""
        if relation not in self._usual:
            own = slice(*self.facts.starts[relation : relation + 2])
            s, o = np.unique(self.facts.subjects[own]), np.unique(self.facts.objects[own])
            pairs = np.arange(len(s) * len(o))
            if len(pairs) > USUAL_PAIRS:
                pairs = np.random.default_rng(relation).choice(len(pairs), USUAL_PAIRS, replace=False)
            s, o = s[pairs // max(len(o), 1)].astype(np.int64), o[pairs % max(len(o), 1)].astype(np.int64)
            at = self.values.at(relation, s[s != o], o[s != o])
            values = [at(pattern) if (s != o).any() else np.zeros(1) for pattern, _ in self.of(relation)]
            parts = [(float(part.mean()), float(part.std())) for part in values]
            self._usual[relation] = Usual(*np.array(parts).reshape(-1, 2).T)
        return self._usual[relation]

    @cached_property
    def _usual(self) -> dict[int, Usual]:
        return {}

    def base(self, relation: int) -> float:
        """What the bias and patterns of their usual values add to every score of a relation."""
        usual = self.usual(relation).mean
        products = sum(weight * usual[i] * usual[j] for i, j, weight in self.pairs_of(relation))
        return float(
            self.bias[relation] + sum(w * m for (_, w), m in zip(self.of(relation), usual, strict=True)) + products
        )

    def terms(self, s: int, relation: int, o: int) -> list[Term]:
        """What each pattern adds to the score of a cell beside `base`; all that differ from the usual value.

        The score of a cell of an undirected relation is the mean of both directions. The patterns of the other
        direction are named as they are seen from s.
        """
        found = self._terms(s, relation, o)
        if relation in self.facts.undirected:
            turned = [term._replace(pattern=self._turned(term.pattern)) for term in self._terms(o, relation, s)]
            turned = [term._replace(other=term.other and self._turned(term.other)) for term in turned]
            found = [term._replace(added=term.added / 2) for term in (*found, *turned)]
        return found

    def _terms(self, s: int, relation: int, o: int) -> list[Term]:
        """Those of one direction: products of differences from the usual values, and these differences."""
        at, usual = self.values.at(relation, np.array([s]), np.array([o])), self.usual(relation).mean
        patterns = [pattern for pattern, _ in self.of(relation)]
        values = np.array([float(at(pattern)[0]) for pattern in patterns])
        weights, differences, products = np.array([w for _, w in self.of(relation)]), values - usual, []
        for i, j, weight in self.pairs_of(relation):
            weights[i] += weight * usual[j]
            weights[j] += weight * usual[i]
            added = float(weight * differences[i] * differences[j])
            products.append(Term(patterns[i], patterns[j], float(values[i] * values[j]), added))
        added = (weights * differences).tolist()
        single = [Term(p, None, value, more) for p, value, more in zip(patterns, values.tolist(), added, strict=True)]
        return [term for term in (*single, *products) if term.added]

    def _turned(self, pattern: Pattern) -> Pattern:
        """A pattern of (y, x) as one of (x, y), for an undirected relation."""
        kind, a, b = pattern
        if kind in TURNED_KINDS:
            return Pattern(TURNED_KINDS[kind], a, b)
        steps = [step if step // 2 in self.facts.undirected else step ^ 1 for step in (b, a) if step >= 0]
        return Pattern(kind, *steps)


def _transform(kind: Kind) -> int:
    return ROOT if kind in ALIKE else TRANSFORMS.get(kind, AS_IT_IS)


def _transformed(kind: Kind, product: Any) -> Any:
    transform = _transform(kind)
    if transform == LOGARITHM:
        return np.log1p(product)
    if transform == ROOT:
        return np.sqrt(np.sqrt(product))
    return (product > 0).astype(np.float64) if transform == INDICATOR else product


def _product_key(pattern: Pattern, relation: int) -> tuple[Any, ...]:
    """What the product of a pattern depends on."""
    kind, a, b = pattern
    return (kind in (Kind.WALK, *ALIKE) and kind, a, b, relation if kind in ALIKE else -1)


def _pattern(code: Ids) -> Pattern:
    return Pattern(Kind(int(code[1])), int(code[2]), int(code[3]))


class _Product(NamedTuple):
    """left @ right of two matrices, both sparse or both dense, and their transposes."""

    left: Any
    right: Any
    right_turned: Any
    left_turned: Any


class PatternValues:
    """The numbers that some facts give for pairs, one relation being asked for."""

    def __init__(self, facts: Facts):
        self.facts, self.n = facts, facts.n_entities
        self.graph = StepGraph(facts if facts.weights is None else facts.subset(facts.weights > 0))
        self.is_dense = self.n <= DENSE_ENTITIES and 2 * facts.n_relations * self.n**2 <= DENSE_NUMBERS
        self._products: dict[tuple[Any, ...], _Product] = {}
        self._degrees: dict[int, Vector] = {}
        self._itself: dict[int, Vector] = {}
        self._through: dict[tuple[int, int], Vector] = {}

    def only(self, patterns: Patterns) -> PatternValues:
        """The same, of the matrices only those that these patterns need."""
        found = PatternValues(self.facts)
        found.graph = self.graph
        heads = patterns.codes[:, 0].tolist()
        needed = {_product_key(_pattern(code), k) for code, k in zip(patterns.codes, heads, strict=True)}
        found._products = {key: product for key, product in self._products.items() if key in needed}
        return found

    def degree(self, step: int) -> Vector:
        """The number of steps from each entity, (N,)."""
        if step not in self._degrees:
            X = self._steps[step].sum(axis=1) if self.is_dense else np.diff(self.graph.matrix(step).indptr)
            self._degrees[step] = np.asarray(X, np.float64)
        return self._degrees[step]

    @cached_property
    def _steps(self) -> Slices:
        """The matrices of all steps of a small graph, (2K, N, N)."""
        facts = self.graph.facts
        s, k, o = facts.triples[facts.subjects != facts.objects].T
        X = np.zeros((2 * facts.n_relations, self.n, self.n))
        X[2 * k, s, o] = X[2 * k + 1, o, s] = 1.0
        return X

    @cached_property
    def _alike(self) -> Slices:
        """How much weight y has among those who share a step with x, in a small graph, (2K, N, N)."""
        share = self._steps / np.maximum(self._steps.sum(axis=2, keepdims=True), 1.0)
        back = share.reshape(-1, 2, self.n, self.n)[:, ::-1].reshape(share.shape)
        return np.asarray(np.matmul(share, back))

    def share(self, step: int) -> sp.csr_matrix:
        """1 / the number of steps from x, for each end of such a step."""
        X = self.graph.matrix(step)
        return sp.csr_matrix(sp.diags(1 / np.maximum(self.degree(step), 1)) @ X)

    def product(self, pattern: Pattern, relation: int) -> _Product:
        """The matrices whose product a pattern is, before its transform."""
        if self.is_dense:
            return self._dense_product(pattern, relation)
        key = _product_key(pattern, relation)
        if key not in self._products:
            self._products[key] = self._made(pattern, relation)
        return self._products[key]

    def _dense_product(self, pattern: Pattern, relation: int) -> _Product:
        kind, a, b = pattern
        if kind == Kind.ALIKE_SUBJECTS:
            left, right = self._alike[a], self._steps[2 * relation]
        elif kind == Kind.ALIKE_OBJECTS:
            left, right = self._steps[2 * relation], self._alike[a].T
        else:
            left, right = self._steps[a], self._steps[b]
            if kind == Kind.WALK:
                left = left / np.maximum(self.degree(b), 1)
        return _Product(left, right, right.T, left.T)

    def _made(self, pattern: Pattern, relation: int) -> _Product:
        kind, a, b = pattern
        matrix = self.graph.matrix
        if kind == Kind.ALIKE_SUBJECTS:
            left, right = self.share(a), sp.csr_matrix(self.share(a ^ 1) @ matrix(2 * relation))
        elif kind == Kind.ALIKE_OBJECTS:
            left = sp.csr_matrix(matrix(2 * relation) @ self.share(a ^ 1).T)
            right = sp.csr_matrix(self.share(a).T)
        else:
            left, right = matrix(a), matrix(b)
            if kind == Kind.WALK:
                left = sp.csr_matrix(left @ sp.diags(1 / np.maximum(self.degree(b), 1)))
        parts = [left, right, sp.csr_matrix(right.T), sp.csr_matrix(left.T)]
        for part in parts:
            part.sort_indices()
        return _Product(*(sp.csr_matrix(part, dtype=np.float64) for part in parts))

    # --- rows

    def of_ends(self, pattern: Pattern) -> Vector:
        """The values of a pattern of one end, (N,)."""
        number = self.degree(pattern.a)
        is_degree = pattern.kind in (Kind.SUBJECT_DEGREE, Kind.OBJECT_DEGREE)
        return np.log1p(number) if is_degree else (number > 0).astype(np.float64)

    def _add_rows(
        self, pattern: Pattern, relation: int, entities: Ids, of_objects: bool, weight: float, theta: Matrix
    ) -> None:
        """Add the values of a pattern of pairs of some subjects with all objects, or of objects with all subjects."""
        kind, a, _ = pattern
        if kind == Kind.SAME:
            theta[np.arange(len(entities)), entities] += weight
        elif kind == Kind.STEP and self.is_dense:
            theta += weight * self._steps[a ^ 1 if of_objects else a][entities]
        elif kind == Kind.STEP:
            X = self.graph.matrix(a ^ 1 if of_objects else a)[entities]
            theta[np.repeat(np.arange(len(entities)), np.diff(X.indptr)), X.indices] += weight
        else:
            L, R, R_turned, L_turned = self.product(pattern, relation)
            L, R = (R_turned, L_turned) if of_objects else (L, R)
            is_path = kind in PATHS  # x is not its own y
            if self.is_dense:
                found = L[entities] @ R
                if is_path:
                    found[np.arange(len(entities)), entities] = 0.0
                theta += weight * _transformed(kind, found)
                return
            _add_product_rows(entities, parts(L), parts(R), _transform(kind), is_path, weight, theta)

    def weighted_rows(
        self,
        patterns: Sequence[tuple[Pattern, float]],
        pairs: Sequence[tuple[int, int, float]],
        relation: int,
        entities: Ids,
        bias: float,
        *,
        of_objects: bool,
    ) -> Matrix:
        """The weighted sum of patterns, and of products of two of them, (m, N); listed cells are not right."""
        theta, multiplied = np.zeros((len(entities), self.n)), {place for i, j, _ in pairs for place in (i, j)}
        of_given, of_other, kept = np.full((len(entities), 1), bias), np.zeros((1, self.n)), {}
        for place, (pattern, weight) in enumerate(patterns):
            if pattern.kind in OF_SUBJECT or pattern.kind in OF_OBJECT:
                is_given, values = (pattern.kind in OF_OBJECT) == of_objects, self.of_ends(pattern)
                found = values[entities][:, None] if is_given else values[None, :]
                if is_given:
                    of_given += weight * found
                else:
                    of_other += weight * found
            elif place in multiplied:
                found = np.zeros(theta.shape)
                self._add_rows(pattern, relation, entities, of_objects, 1.0, found)
                theta += weight * found
            else:
                self._add_rows(pattern, relation, entities, of_objects, weight, theta)
            if place in multiplied:
                kept[place] = found
        theta += of_given
        theta += of_other
        space = np.empty_like(theta)
        for i, j, weight in pairs:
            smaller, larger = sorted((kept[i], kept[j]), key=lambda values: values.size)
            theta += np.multiply(weight * smaller, larger, out=space)
        return theta

    # --- cells

    def at(self, relation: int, s: Ids, o: Ids, *, alone: Mask | None = None) -> _Cells:
        """The values at some cells of a relation, as a function of the pattern.

        `alone`: where the mirrored fact (o, relation, s) is left out, too. Always so if the relation is undirected.
        """
        cells = np.stack([s, np.full(len(s), relation), o], axis=1)
        listed = self.graph.facts.contains(cells) & (s != o)  # a fact of weight 0 is none
        if relation in self.facts.undirected:
            alone = listed
        elif alone is not None:
            alone = alone & self.graph.facts.contains(cells[:, ::-1])
        return _Cells(self, relation, s, o, listed, np.zeros(len(s), bool) if alone is None else alone)

    def steps_at(self, steps: Ids, s: Ids, o: Ids) -> Matrix:
        """Whether each of some steps connects the two ends of each cell, 1 or 0, (m, n)."""
        if self.is_dense:
            return np.asarray(self._steps.reshape(len(self._steps), -1)[np.ix_(steps, s * self.n + o)])
        return np.stack([self.graph.n_paths((step,), s, o) for step in steps.tolist()])

    def products_at(self, kind: Kind, a: Ids, b: Ids, relation: int, s: Ids, o: Ids) -> Matrix:
        """left @ right of patterns of one kind at some cells, before the transform, (m, n)."""
        if self.is_dense and len(s) >= self.n:
            found: Matrix = self._dense_products(kind, a, b, relation).reshape(len(a), -1)[:, s * self.n + o]
            return found
        rows = []
        for steps in zip(a.tolist(), b.tolist(), strict=True):
            L, _, R_turned, _ = self.product(Pattern(kind, *steps), relation)
            is_dense = isinstance(L, np.ndarray)
            rows.append(np.einsum("ij,ij->i", L[s], R_turned[o]) if is_dense else product_cells(L, R_turned, s, o))
        return np.stack(rows)

    def _dense_products(self, kind: Kind, a: Ids, b: Ids, relation: int) -> Slices:
        if kind == Kind.ALIKE_SUBJECTS:
            return np.asarray(self._alike[a] @ self._steps[2 * relation])
        if kind == Kind.ALIKE_OBJECTS:
            return np.asarray(self._steps[2 * relation] @ self._alike[a].transpose(0, 2, 1))
        left, right = self._steps[a], self._steps[b]
        if kind == Kind.WALK:
            left = left / np.maximum(right.sum(axis=2), 1)[:, None, :]
        return np.asarray(left @ right)

    def itself(self, step: int) -> Vector:
        """With which weight each entity is among those who share a step with it, (N,)."""
        if step not in self._itself:
            back = 1 / np.maximum(self.degree(step ^ 1), 1)
            self._itself[step] = self._alike[step].diagonal() if self.is_dense else np.asarray(self.share(step) @ back)
        return self._itself[step]

    def through(self, step: int, asked: int) -> Vector:
        """Of those from whom a step leads to y, the share from whom the step `asked` leads there, too, (N,)."""
        key = (step, asked)
        if key not in self._through:
            both = self.share(step ^ 1).multiply(self.graph.matrix(asked ^ 1))
            self._through[key] = np.asarray(both.sum(axis=1)).ravel()
        return self._through[key]


class _Cells:
    """The values of patterns at some cells; those of facts are what they would be without the fact."""

    def __init__(self, values: PatternValues, relation: int, s: Ids, o: Ids, listed: Mask, alone: Mask):
        self.values, self.relation, self.s, self.o = values, relation, s, o
        self.listed, self.alone = np.flatnonzero(listed), np.flatnonzero(alone)
        self.itself = np.flatnonzero(s == o)

    def __call__(self, pattern: Pattern) -> Vector:
        found: Vector = self._of_kind(pattern.kind, np.array([pattern.a]), np.array([pattern.b]))[0]
        return found

    def matrix(self, patterns: Sequence[Pattern]) -> Matrix:
        """The values of several patterns, (P, n) in single precision."""
        found = np.empty((len(patterns), len(self.s)), np.float32)
        kinds, a, b = np.array(patterns, np.int64).reshape(-1, 3).T
        for kind in np.unique(kinds).tolist():
            places = np.flatnonzero(kinds == kind)
            step = max(1, CELLS_PER_BLOCK // max(len(self.s), self.values.n**2))
            for part in (places[low : low + step] for low in range(0, len(places), step)):
                found[part] = self._of_kind(Kind(kind), a[part], b[part])
        return found

    def _of_kind(self, kind: Kind, a: Ids, b: Ids) -> Matrix:
        """The values of patterns of one kind, (m, n)."""
        if kind == Kind.SAME:
            return np.tile((self.s == self.o) * 1.0, (len(a), 1))
        if kind in OF_SUBJECT or kind in OF_OBJECT:
            return self._of_ends(kind, a)
        if kind == Kind.STEP:
            found = self.values.steps_at(a, self.s, self.o)
            for row, gone in self._left_out(a, of_object=False):
                found[row, gone] = 0.0
            return found
        found = self.values.products_at(kind, a, b, self.relation, self.s, self.o)
        if kind in ALIKE:
            self._leave_out(found, a, of_object=kind == Kind.ALIKE_OBJECTS)
        else:
            found[:, self.itself] = 0.0
        return np.asarray(_transformed(kind, found))

    def _of_ends(self, kind: Kind, steps: Ids) -> Matrix:
        of_object, is_degree = kind in OF_OBJECT, kind in (Kind.SUBJECT_DEGREE, Kind.OBJECT_DEGREE)
        ends = self.o if of_object else self.s
        number = np.stack([self.values.degree(step) for step in steps.tolist()])
        found: Matrix = (np.log1p(number) if is_degree else (number > 0) * 1.0)[:, ends]
        for row, gone in self._left_out(steps, of_object=of_object):
            rest = number[row, ends[gone]] - 1
            found[row, gone] = np.log1p(rest) if is_degree else rest > 0
        return found

    def _leave_out(self, share: Matrix, steps: Ids, *, of_object: bool) -> None:
        """Leave the fact itself out of the share of those alike that have the other end.

        x has y, and is alike to itself: it is taken out. If being alike means sharing an answer of the relation asked
        for, y is no such answer either: all those found through y have it.
        """
        x, y = (self.o, self.s) if of_object else (self.s, self.o)
        values, asked = self.values, 2 * self.relation + of_object
        share[:, self.listed] -= np.stack([values.itself(step) for step in steps.tolist()])[:, x[self.listed]]
        for row, gone in self._left_out(steps, of_object=of_object):
            step, ends = int(steps[row]), y[gone]
            n, back = values.degree(step)[x[gone]], 1 / np.maximum(values.degree(step ^ 1)[ends], 1)
            others = share[row, gone] * n - values.through(step, asked)[ends]
            others += back * np.isin(gone, self.listed, assume_unique=True)
            share[row, gone] = np.where(n > 1, others / np.maximum(n - 1.0, 1.0), 0.0)
        rest = share[:, self.listed]
        share[:, self.listed] = np.where(rest < ROUNDING, 0.0, rest)

    def _left_out(self, steps: Ids, *, of_object: bool) -> Iterator[tuple[int, Ids]]:
        """The places of steps that are the fact that is left out, or its mirror, and the cells where they are."""
        own = 2 * self.relation + of_object
        for step, cells in ((own, self.listed), (own ^ 1, self.alone)):
            for row in np.flatnonzero(steps == step).tolist() if len(cells) else ():
                yield row, cells


ROUNDING = 1e-12  # a difference of shares below is 0


@njit(cache=True, nogil=True)
def _add_product_rows(rows, left, right, transform, without_own, weight, out):  # type: ignore[no-untyped-def]
    """out[r] += weight · transform(left[rows[r]] @ right)."""
    starts, ends, values = left
    right_starts, right_ends, right_values = right
    n = out.shape[1]
    line = np.zeros(n)
    for r in range(len(rows)):
        own = rows[r]
        for p in range(starts[own], starts[own + 1]):
            z, value = ends[p], values[p]
            for q in range(right_starts[z], right_starts[z + 1]):
                line[right_ends[q]] += value * right_values[q]
        if without_own:
            line[own] = 0.0
        into = out[r]
        if transform == 2:
            for j in range(n):
                into[j] += weight * np.sqrt(np.sqrt(line[j]))
                line[j] = 0.0
            continue
        for j in range(n):
            value = line[j]
            if value != 0.0:
                line[j] = 0.0
                into[j] += weight * (np.log1p(value) if transform == 1 else 1.0 if transform == 3 else value)
