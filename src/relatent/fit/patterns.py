"""Learn the weights of observed patterns (`model.patterns`), and how much factors and patterns count beside each other.

For each relation a logistic regression on what the facts give for a pair, the fact itself always left out:

    minimise  Σ over facts softplus(−θ)  +  Σ over zeros softplus(θ)  +  ½ Σ_g λ_g |w_g|²

All facts, or a sample, stand beside zeros that are drawn where patterns lead to, and weighted down (`_likely_zeros`),
so that the sum is unbiased. Patterns of one kind are a group g with one precision λ_g, which maximises the evidence
(MacKay 1992): a kind that tells nothing gets weights near 0. The patterns that tell most each by itself come first; all
others, paths and products of two are tried by their score test, and taken if they gain more than the log(n / r) nats it
costs to name the r-th best of n.

Factors cannot be learned on top of patterns by the same facts: their training error is no measure of what they add. So
`weighed` learns both scales from held-out facts, which neither has seen, among unlisted cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numba
import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from ..arrays import Ids, Mask, Matrix, Vector
from ..backend.blas_threads import one_blas_thread
from ..data.facts import Facts
from ..errors import InputError
from ..model.factors import Factors
from ..model.pattern_texts import body_of, rule_of
from ..model.patterns import Kind, Pattern, Patterns, PatternValues
from ..model.step_graph import Body, product_cells
from .pooled_logistic import CoefficientPrior, pooled_logistic

T = TypeVar("T")
# Budgets, per relation
MAX_STEPS = 24  # steps whose patterns are tried, those that most of its facts have
MAX_FACTS, MAX_ZEROS, MIN_ZEROS, ZEROS_PER_FACT = 4000, 16_000, 1000, 4  # learned from
MAX_SINGLE, MAX_MORE, MAX_PAIRS = 64, 32, 20  # patterns: most telling by themselves, beside these, products
ROW_CELLS, BLOCK_CELLS = 2_000_000, 1 << 18  # scored to choose likely zeros; at a time
MAX_WAYS = 6  # steps by which those alike are found, when zeros are drawn
MAX_PRODUCT = 20_000_000  # multiplications for one matrix of shares
MAX_CELLS = 3e9  # N² K: with more, asking for the best facts of the whole graph takes minutes
# Priors
PRECISION = 1.0  # of a weight per standard deviation, before the evidence
PRECISION_LIMITS = (1e-3, 1e4)
PRIOR_WEIGHTS = 5.0  # that the precision of a kind in all relations counts as, in one
WEIGHT_COST = 0.5  # nats: what a weight gains by chance; one that explains less is left out
NEWTON_STEPS, EVIDENCE_STEPS, HALVINGS = 50, 3, 20
UNIFORM_SHARE = 0.2  # of the zeros, drawn whatever their probability
FORESEEN = 0.25  # relative error of the gain of a step, by which a curvature is out of date
TOLERANCE = 1e-5  # relative change of the objective that a step may still promise


class _Sample(NamedTuple):
    """Cells of one relation, with their truth and what they stand for.

    A fact whose mirror is a fact stands twice, with half of its weight: once beside its mirror, and once `alone`, as
    both may be missing.
    """

    s: Ids
    o: Ids
    x: Vector  # (n,) 1 for facts
    c: Vector  # (n,) weights
    alone: Mask  # (n,)


def is_affordable(facts: Facts) -> bool:
    """Whether a graph is small enough for patterns."""
    return facts.n_cells <= MAX_CELLS


SINGLE_STEPS, PATHS = (Kind.SAME, Kind.STEP), (Kind.LOG_PATHS, Kind.WALK)
CHOICES: dict[str, tuple[Kind, ...]] = {  # names of sets of patterns
    "auto": tuple(Kind),
    "none": (),
    "mirror": SINGLE_STEPS,
    "paths": (*SINGLE_STEPS, *PATHS),
}


class PatternChoice(NamedTuple):
    """What is observed: whatever tells something of some kinds, or rules of one's own."""

    kinds: tuple[Kind, ...]
    rules: Sequence[list[Pattern]] | None = None  # of each relation

    @classmethod
    def of(cls, patterns: object, facts: Facts) -> PatternChoice:
        """Read a setting: a name, or rules as `relatent.rules` finds them, or their texts."""
        if isinstance(patterns, str) and patterns in CHOICES:
            return cls(CHOICES[patterns])
        texts = [getattr(rule, "text", rule) for rule in patterns] if isinstance(patterns, (list, tuple)) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            names = ", ".join(map(repr, CHOICES))
            raise InputError(f"patterns must be {names}, or a list of rules, got {patterns!r}")
        rules: list[list[Pattern]] = [[] for _ in range(facts.n_relations)]
        for text in dict.fromkeys(texts):
            relation, pattern = rule_of(str(text), facts.relations, facts.undirected)
            rules[relation].append(pattern)
        return cls((), [list(dict.fromkeys(of_relation)) for of_relation in rules])

    def __bool__(self) -> bool:
        return bool(self.kinds or self.rules)


EVERYTHING = PatternChoice(tuple(Kind))


class ObservedPatterns(NamedTuple):
    """Patterns with weights, and what they were learned from."""

    patterns: Patterns  # the scale of factors is 0
    precision: Vector  # (kinds + 1,) prior precision of the weights of each kind, which all relations share
    zeros: Sequence[DrawnZeros] = ()  # of each relation


def learn(
    facts: Facts, seed: int, choice: PatternChoice = EVERYTHING, heldout: Sequence[Facts] = ()
) -> ObservedPatterns:
    """The patterns of every relation and their weights.

    Patterns are chosen without the facts that trials lack: else they would be those by which just these are found.
    """
    values = PatternValues(facts)
    is_seen = ~np.any([part.contains(facts.triples) for part in heldout] or [np.zeros(len(facts), bool)], axis=0)
    seen = values if is_seen.all() else PatternValues(facts.subset(is_seen))
    rough = _of_each(lambda k: _choose(seen, k, choice, np.random.default_rng([seed, k])), facts)
    precision = _WeightEvidence(*(sum(part) for part in zip(*(part.evidence for part in rough), strict=True))).precision
    found = _of_each(
        lambda k: _learn_relation(
            values, k, rough[k], precision, np.random.default_rng([seed, k, 1]), are_given=choice.rules is not None
        ),
        facts,
    )
    parts, zeros = zip(*found, strict=True)
    return ObservedPatterns(_joined(values, parts), precision, zeros)


def learn_again(observed: ObservedPatterns, facts: Facts, heldout: Facts, seed: int) -> PatternsOfTrial:
    """The same patterns with weights learned from facts that lack some, which are among the zeros."""
    values, before = PatternValues(facts), observed.patterns

    def learned(k: int) -> tuple[_Learned, DrawnZeros]:
        part, rng = _Learned.of(before, k), np.random.default_rng([seed, k, 2])
        zeros = observed.zeros[k] if observed.zeros else _likely_zeros(before.values, k, part, rng)
        zeros = zeros.at(~heldout.contains(np.stack([zeros.s, np.full(len(zeros.s), k), zeros.o], axis=1)))
        s, _, o = heldout.triples[heldout.starts[k] : heldout.starts[k + 1]].T.astype(np.int64)
        false = DrawnZeros(*map(np.concatenate, zip(zeros, (s, o, np.ones(len(s))), strict=True)))
        sample, design = _prepared(values, k, part, false, rng)
        start = design.start(part)
        fit, _ = _by_evidence(design.with_pairs(part.pairs), sample, part.groups, observed.precision, start)
        return _learned(part.patterns, part.pairs, design, fit.beta), zeros

    parts, zeros = zip(*_of_each(learned, facts), strict=True)
    return PatternsOfTrial(_joined(values, parts), list(zeros))


class PatternsOfTrial(NamedTuple):
    """Patterns of facts that lack some, and the zeros of each relation, without these."""

    patterns: Patterns
    zeros: Sequence[DrawnZeros]


class PatternsWithout:
    """The patterns of some facts, learned again without those that fits lack: once for all fits that lack the same."""

    def __init__(self, observed: ObservedPatterns, facts: Facts, seed: int):
        self.observed, self._facts, self._seed = observed, facts, seed
        self._found: dict[str, PatternsOfTrial] = {}

    def __getitem__(self, heldout: Facts) -> PatternsOfTrial:
        """The patterns without these facts."""
        key = heldout.fingerprint
        if key not in self._found:
            rest = self._facts.subset(~heldout.contains(self._facts.triples))
            self._found[key] = learn_again(self.observed, rest, heldout, self._seed)
        return self._found[key]


def _of_each(of_relation: Callable[[int], T], facts: Facts) -> list[T]:
    """The results for all relations, several at a time; each has its own random numbers."""
    with one_blas_thread(), ThreadPoolExecutor(numba.get_num_threads()) as pool:
        return list(pool.map(of_relation, range(facts.n_relations)))


class _Learned(NamedTuple):
    """Weights of the raw patterns of one relation."""

    patterns: list[Pattern]
    weights: Vector
    pairs: list[tuple[int, int]]  # places among the patterns
    pair_weights: Vector
    bias: float
    evidence: _WeightEvidence

    @property
    def groups(self) -> Ids:
        """The group of each weight: its kind, and a further one for products."""
        return np.array([*(pattern.kind for pattern in self.patterns), *(len(Kind) for _ in self.pairs)], np.int64)

    @classmethod
    def of(cls, patterns: Patterns, k: int) -> _Learned:
        """Those of a relation of a model."""
        known, pairs = patterns.of(k), patterns.pairs_of(k)
        return cls(
            [pattern for pattern, _ in known],
            np.array([weight for _, weight in known]),
            [(i, j) for i, j, _ in pairs],
            np.array([weight for *_, weight in pairs]),
            float(patterns.bias[k]),
            NO_EVIDENCE,
        )

    def rows(self, values: PatternValues, k: int, subjects: Ids) -> Matrix:
        """The scores of some subjects with every object; those of facts are not right."""
        pairs = [(i, j, weight) for (i, j), weight in zip(self.pairs, self.pair_weights.tolist(), strict=True)]
        weighted = list(zip(self.patterns, self.weights.tolist(), strict=True))
        return values.weighted_rows(weighted, pairs, k, subjects, self.bias, of_objects=False)


def _joined(values: PatternValues, parts: Sequence[_Learned]) -> Patterns:
    codes = [(k, *pattern) for k, part in enumerate(parts) for pattern in part.patterns]
    firsts = np.cumsum([0, *(len(part.patterns) for part in parts)])
    pairs = [(first + i, first + j) for first, part in zip(firsts, parts, strict=False) for i, j in part.pairs]
    found = Patterns(
        values.facts,
        np.array(codes, np.int32).reshape(-1, 4),
        np.concatenate([part.weights for part in parts]),
        np.array(pairs, np.int32).reshape(-1, 2),
        np.concatenate([part.pair_weights for part in parts]),
        np.array([part.bias for part in parts]),
        np.zeros(len(parts)),
    )
    return found.reading(values)


# --- one relation


def _choose(values: PatternValues, k: int, choice: PatternChoice, rng: np.random.Generator) -> _Learned:
    """Patterns of a relation that tell something, paths among them, with rough weights."""
    if choice.rules is not None:
        given, bodies = choice.rules[k], [body_of(pattern) for pattern in choice.rules[k]]
        rough = _sample(values, k, _drawn_zeros(values, k, bodies, _n_zeros(values, k), rng), rng)
        design, groups = _Design.of(_matrix(values, k, given, rough), rough), _groups(given)
        fit, evidence = _by_evidence(
            design.X, rough, groups, START_PRECISION, _ridge(design.X, rough, np.ones(len(given)))
        )
        return _learned(given, [], design, fit.beta, evidence)
    kinds = choice.kinds
    found = [pattern for pattern in _single_patterns(values, k) if pattern.kind in kinds]
    n_single, bodies = len(found), values.graph.candidates(k, rng)
    found += [Pattern(kind, *body) for body in bodies if len(body) == 2 for kind in PATHS if kind in kinds]
    rough = _sample(values, k, _drawn_zeros(values, k, bodies, _n_zeros(values, k), rng), rng)
    everything = _Design.of(_matrix(values, k, found, rough), rough)
    chosen = _most_telling(everything.X[1 : 1 + n_single], rough)
    design = everything.take(chosen)
    fit = _ridge(design.X, rough, START_PRECISION[_groups([found[i] for i in chosen])])
    others = sorted({*range(len(found))} - {*chosen})
    telling = [others[i] for i in _worth(everything.X[1:][others], fit.residual(rough), MAX_MORE)]
    design, patterns = design.joined(everything.take(telling)), [found[i] for i in (*chosen, *telling)]
    fit = _Fit(np.append(fit.beta, np.zeros(len(telling))), fit.theta)
    fit, evidence = _by_evidence(design.X, rough, _groups(patterns), START_PRECISION, fit)
    return _learned(patterns, [], design, fit.beta, evidence)


def _learn_relation(
    values: PatternValues, k: int, rough: _Learned, precision: Vector, rng: np.random.Generator, *, are_given: bool
) -> tuple[_Learned, DrawnZeros]:
    """The weights of chosen patterns, and of products of two of them; and the zeros that they were learned from."""
    zeros = _likely_zeros(values, k, rough, rng)
    sample, design = _prepared(values, k, rough, zeros, rng)
    groups, start = rough.groups, design.start(rough)
    fit, evidence = _by_evidence(design.X, sample, groups, precision, start, EVIDENCE_STEPS)
    if are_given:
        return _learned(rough.patterns, [], design, fit.beta, evidence), zeros
    pairs = _worthwhile_pairs(design, sample, fit)
    if pairs:
        groups = np.append(groups, np.full(len(pairs), len(Kind)))
        fit = _Fit(np.append(fit.beta, np.zeros(len(pairs))), fit.theta)
        fit, _ = _by_evidence(design.with_pairs(pairs), sample, groups, precision, fit)
        found = _learned(rough.patterns, pairs, design, fit.beta)
        # Zeros that the model of before finds likely show where it is wrong: those of products, too.
        zeros = _likely_zeros(values, k, found, rng)
        sample, design = _prepared(values, k, found, zeros, rng)
        start = design.start(found)
        fit, evidence = _by_evidence(design.with_pairs(pairs), sample, groups, precision, start, EVIDENCE_STEPS)
    return _without_idle(rough.patterns, pairs, design, fit, evidence), zeros


def _prepared(
    values: PatternValues, k: int, model: _Learned, zeros: DrawnZeros, rng: np.random.Generator
) -> tuple[_Sample, _Design]:
    """Facts and zeros of a relation, and what the patterns of a model give for them."""
    sample = _sample(values, k, zeros, rng)
    return sample, _Design.of(_matrix(values, k, model.patterns, sample), sample)


def _single_patterns(values: PatternValues, k: int) -> list[Pattern]:
    """Everything but paths: both ends by themselves, other steps between them, and those alike."""
    facts = values.facts
    s, _, o = facts.triples[facts.starts[k] : facts.starts[k + 1]].T
    K = facts.n_relations
    counts = [np.count_nonzero(values.degree(m)[s]) + np.count_nonzero(values.degree(m)[o]) for m in range(2 * K)]
    steps = sorted(np.argsort(-np.array(counts), kind="stable")[:MAX_STEPS].tolist())
    found = [Pattern(Kind.SAME)] if (s == o).any() else []
    for m in (m for m in steps if counts[m] and not (m % 2 and m // 2 in facts.undirected)):  # both are one step
        found += [Pattern(kind, m) for kind in (Kind.SUBJECT_HAS, Kind.OBJECT_HAS)]
        found += [Pattern(kind, m) for kind in (Kind.SUBJECT_DEGREE, Kind.OBJECT_DEGREE)]
        if m != 2 * k:
            found.append(Pattern(Kind.STEP, m))
        for kind, end in ((Kind.ALIKE_SUBJECTS, 2 * k), (Kind.ALIKE_OBJECTS, 2 * k + 1)):
            if values.degree(m) @ values.degree(end) <= MAX_PRODUCT:
                found.append(Pattern(kind, m))
    return found


def _groups(patterns: Sequence[Pattern]) -> Ids:
    """The group of each pattern: its kind."""
    return np.array([pattern.kind for pattern in patterns], np.int64)


def _matrix(values: PatternValues, k: int, patterns: Sequence[Pattern], sample: _Sample) -> Matrix:
    """The values of patterns at cells, (P, n)."""
    return values.at(k, sample.s, sample.o, alone=sample.alone).matrix(patterns)


# --- which cells are learned from


class DrawnZeros(NamedTuple):
    """Cells that are false, and how many each stands for."""

    s: Ids
    o: Ids
    weights: Vector

    def at(self, rows: Mask | Ids) -> DrawnZeros:
        """Some of them."""
        return DrawnZeros(self.s[rows], self.o[rows], self.weights[rows])


def _sample(values: PatternValues, k: int, zeros: DrawnZeros, rng: np.random.Generator) -> _Sample:
    """Facts of a relation, and zeros."""
    facts = values.facts
    own = slice(facts.starts[k], facts.starts[k + 1])
    s, o, c = facts.subjects[own].astype(np.int64), facts.objects[own].astype(np.int64), facts.confidences[own]
    s, o, c = s[c > 0], o[c > 0], c[c > 0]
    if len(s) > MAX_FACTS:
        chosen = np.sort(rng.choice(len(s), MAX_FACTS, replace=False))
        s, o, c = s[chosen], o[chosen], c[chosen] * (len(s) / MAX_FACTS)
    mirrored = facts.contains(np.stack([o, np.full(len(s), k), s], axis=1)) & (s != o)
    if k in facts.undirected:
        mirrored[:] = False  # pairs are left out whole
    c = np.where(mirrored, c / 2, c)
    parts = ((s, o, c), (s[mirrored], o[mirrored], c[mirrored]), zeros)
    ends = [np.concatenate(part) for part in zip(*parts, strict=True)]
    kind = np.repeat([0, 1, 2], [len(part[0]) for part in parts])
    return _Sample(ends[0], ends[1], (kind < 2) * 1.0, ends[2], kind == 1)


def _likely_zeros(
    values: PatternValues,
    k: int,
    model: _Learned,
    rng: np.random.Generator,
) -> DrawnZeros:
    """Zeros of a relation, those that a model finds likely more often: about in proportion to their probability.

    They are drawn of all subjects, or of a sample of those that have the relation and of a sample of the others.
    """
    n, degree, count = values.n, values.degree(2 * k), _n_zeros(values, k)
    if n * n <= count:
        return _all_zeros(values, k)
    parts, rows = [], min(n, max(2, ROW_CELLS // n))
    own, others = np.flatnonzero(degree), np.flatnonzero(degree == 0)
    n_own = min(len(own), max(rows // 2, rows - len(others)))
    likely = (1 - UNIFORM_SHARE) * count / max(degree.sum(), 1.0)  # so many for a probability of 1
    uniform, step = UNIFORM_SHARE * count / (rows * n), max(1, BLOCK_CELLS // n)
    for ids, number in ((own, n_own), (others, min(rows - n_own, len(others)))):
        subjects, stands_for = np.sort(rng.choice(ids, number, replace=False)), len(ids) / max(number, 1)
        for low in range(0, number, step):
            block = subjects[low : low + step]
            p = expit(np.clip(model.rows(values, k, block), -30, 30))
            chance = np.minimum(likely * stands_for * p + uniform, 1.0)
            place, o = np.nonzero(rng.random(p.shape) < chance)
            kept = _is_zero(values.facts, k, block[place], o)
            place, o = place[kept], o[kept]
            parts.append(DrawnZeros(block[place], o, stands_for / chance[place, o]))
    return DrawnZeros(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _n_zeros(values: PatternValues, k: int) -> int:
    """How many zeros a relation is learned from."""
    return int(min(MAX_ZEROS, MIN_ZEROS + ZEROS_PER_FACT * values.degree(2 * k).sum()))


def _all_zeros(values: PatternValues, k: int, rng: np.random.Generator | None = None, count: int = 0) -> DrawnZeros:
    """All zeros of a relation, or so many of all cells, drawn alike."""
    cells = np.arange(values.n**2)
    chosen = cells if rng is None else rng.choice(cells, count, replace=False)
    s, o = np.divmod(chosen, values.n)
    kept = _is_zero(values.facts, k, s, o)
    return DrawnZeros(s[kept], o[kept], np.full(np.count_nonzero(kept), len(cells) / max(len(chosen), 1)))


def _drawn_zeros(
    values: PatternValues, k: int, bodies: Sequence[Body], count: int, rng: np.random.Generator
) -> DrawnZeros:
    """Zeros of a relation: all if they are few, else drawn in several ways that find likely ones.

    A cell that is drawn stands for 1 / the number of times that it is expected to be drawn, by all ways together, so
    that sums over the zeros are unbiased.
    """
    if values.n**2 <= count:
        return _all_zeros(values, k)
    if values.is_dense:
        return _all_zeros(values, k, rng, count)
    ways = _ways(values, k, bodies)
    total = sum(way.share for way in ways)
    numbers = [max(1, round(count * way.share / total)) for way in ways]
    drawn = [way.draw(number, rng) for way, number in zip(ways, numbers, strict=True)]
    s, o = (np.concatenate(ends) for ends in zip(*drawn, strict=True))
    kept = _is_zero(values.facts, k, s, o)
    s, o = s[kept], o[kept]
    expected = sum((number * way.density(s, o) for way, number in zip(ways, numbers, strict=True)), np.zeros(len(s)))
    return DrawnZeros(s, o, 1 / expected)


def _is_zero(facts: Facts, k: int, s: Ids, o: Ids) -> Mask:
    """Which cells are neither a fact nor unobserved, nor of an entity with itself if no fact is."""
    cells = np.stack([s, np.full(len(s), k), o], axis=1)
    found: Mask = ~(facts.contains(cells) | facts.is_unobserved(cells))
    own = slice(facts.starts[k], facts.starts[k + 1])
    if not (facts.subjects[own] == facts.objects[own]).any():
        found &= s != o
    return found


class _Way(NamedTuple):
    """One way to draw cells, and the probability of each cell in one draw."""

    share: float  # of the draws, relative to other ways
    draw: Callable[[int, np.random.Generator], tuple[Ids, Ids]]
    density: Callable[[Ids, Ids], Vector]


def _ways(values: PatternValues, k: int, bodies: Sequence[Body]) -> list[_Way]:
    """Any two entities; two that have the relation, and often; what another step, a path, or those alike lead to."""
    n, of_subject, of_object = values.n, values.degree(2 * k), values.degree(2 * k + 1)
    everyone, equal = np.ones(n), [(of_subject > 0) * 1.0, (of_object > 0) * 1.0]
    found = [_independent(2.0, everyone, everyone)]
    if len(values.graph.matrix(2 * k).indices):
        found += [_independent(1.0, equal[0], everyone), _independent(1.0, everyone, equal[1])]
        found += [_independent(2.0, *equal), _independent(2.0, of_subject, of_object)]
    steps = [body[0] for body in bodies if len(body) == 1 and len(values.graph.matrix(body[0]).indices)]
    found += [_along_step(2.0 / len(steps), values, m) for m in steps]
    paths = [body for body in bodies if len(body) == 2]
    found += [_along_path(4.0 / len(paths), values, *body) for body in paths]
    alike = _telling_steps(values, k) if len(values.graph.matrix(2 * k).indices) else []
    for m in alike:
        found += [_among_alike(4.0 / len(alike), values, k, m, side) for side in (0, 1)]
    return found


def _telling_steps(values: PatternValues, k: int) -> list[int]:
    """The steps by which entities are most often alike."""
    return [p.a for p in _single_patterns(values, k) if p.kind == Kind.ALIKE_SUBJECTS][:MAX_WAYS]


def _independent(share: float, of_subject: Vector, of_object: Vector) -> _Way:
    """Both ends drawn by themselves, in proportion to these weights."""
    p, q = of_subject / of_subject.sum(), of_object / of_object.sum()
    ends = [np.cumsum(p), np.cumsum(q)]

    def draw(count: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        s, o = (np.minimum(np.searchsorted(end, rng.random(count), side="right"), len(p) - 1) for end in ends)
        return s, o

    return _Way(share, draw, lambda s, o: p[s] * q[o])


def _along_step(share: float, values: PatternValues, step: int) -> _Way:
    """A random step of this kind."""
    X = values.graph.matrix(step)
    starts = np.repeat(np.arange(values.n), np.diff(X.indptr))

    def draw(count: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        chosen = rng.integers(len(starts), size=count)
        return starts[chosen], X.indices[chosen].astype(np.int64)

    return _Way(share, draw, lambda s, o: values.graph.n_paths((step,), s, o) / len(starts))


def _along_path(share: float, values: PatternValues, a: int, b: int) -> _Way:
    """A random step, and a random further step from where it leads."""
    X, Y = values.graph.matrix(a), values.graph.matrix(b)
    starts = np.repeat(np.arange(values.n), np.diff(X.indptr))

    def draw(count: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        first = rng.integers(len(starts), size=count)
        goes_on, o = _random_ends(Y, X.indices[first], rng)
        return starts[first][goes_on], o

    steps = np.array([a]), np.array([b])
    return _Way(share, draw, lambda s, o: values.products_at(Kind.WALK, *steps, -1, s, o)[0] / len(starts))


def _among_alike(share: float, values: PatternValues, k: int, step: int, side: int) -> _Way:
    """An end of a random fact, and what those have who share a step with it."""
    pattern = Pattern((Kind.ALIKE_SUBJECTS, Kind.ALIKE_OBJECTS)[side], step)
    L, R, R_turned, L_turned = values.product(pattern, k)
    first, then, turned = (R_turned, L_turned, L) if side else (L, R, R_turned)
    sums = np.asarray(then.sum(axis=1)).ravel()
    first = sp.csr_matrix(first @ sp.diags(1 / np.maximum(sums, 1e-300)))
    first.sort_indices()
    number = values.degree(2 * k + side)
    p = number / number.sum()
    ends = np.cumsum(p)
    shares = values.share(step)

    def draw(count: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
        x = np.minimum(np.searchsorted(ends, rng.random(count), side="right"), values.n - 1)
        goes_on, z = _random_ends(shares, x, rng)
        x = x[goes_on]
        goes_on, y = _random_ends(then, z, rng)
        x = x[goes_on]
        return (y, x) if side else (x, y)

    def density(s: Ids, o: Ids) -> Vector:
        x, y = (o, s) if side else (s, o)
        found: Vector = p[x] * product_cells(first, turned, x, y)
        return found

    return _Way(share, draw, density)


def _random_ends(X: sp.csr_matrix, rows: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """A random column of each row, in proportion to the values: places of the rows that have any, and columns."""
    before = np.concatenate([[0.0], np.cumsum(X.data, dtype=np.float64)])
    low, high = before[X.indptr[rows]], before[X.indptr[rows + 1]]
    goes_on = np.flatnonzero(X.indptr[rows + 1] > X.indptr[rows])
    target = low[goes_on] + rng.random(len(goes_on)) * (high - low)[goes_on]
    place = np.searchsorted(before, target, side="right") - 1
    place = np.clip(place, X.indptr[rows[goes_on]], X.indptr[rows[goes_on] + 1] - 1)
    return goes_on, X.indices[place].astype(np.int64)


# --- regressions


class _Design(NamedTuple):
    """Standardised patterns, facts and zeros having the same weight in mean and deviation; the first row is 1."""

    X: Matrix  # (1 + P, n), float32
    mean: Vector  # (P,)
    deviation: Vector  # (P,)

    @classmethod
    def of(cls, F: Matrix, sample: _Sample) -> _Design:
        true, false = sample.c * sample.x, sample.c * (1 - sample.x)
        q = true / max(true.sum(), 1e-300) + false / max(false.sum(), 1e-300)
        q = (q / max(q.sum(), 1e-300)).astype(F.dtype)
        X = np.ones((1 + len(F), F.shape[1]), F.dtype)
        mean = F @ q
        Z = np.subtract(F, mean[:, None], out=X[1:])
        deviation = np.sqrt((Z * Z) @ q)
        deviation[deviation < 1e-6] = np.inf  # the same for all
        Z /= deviation[:, None]
        return cls(X, mean.astype(np.float64), deviation.astype(np.float64))

    def take(self, chosen: list[int]) -> _Design:
        """Some of the patterns."""
        return _Design(self.X[[0, *(1 + i for i in chosen)]], self.mean[chosen], self.deviation[chosen])

    def joined(self, other: _Design) -> _Design:
        """These patterns and others of the same cells."""
        parts = ((self.X, other.X[1:]), (self.mean, other.mean), (self.deviation, other.deviation))
        return _Design(*map(np.concatenate, parts))

    def with_pairs(self, pairs: Sequence[tuple[int, int]]) -> Matrix:
        """Patterns, and products of standardised patterns."""
        return np.concatenate([self.X, *(self.X[1 + i : 2 + i] * self.X[1 + j] for i, j in pairs)]) if pairs else self.X

    def start(self, model: _Learned) -> _Fit:
        """The weights of a model as those of standardised patterns."""
        scale = np.where(np.isfinite(self.deviation), self.deviation, 0.0)
        weights, bias, products = model.weights.copy(), model.bias + model.weights @ self.mean, []
        for (i, j), v in zip(model.pairs, model.pair_weights.tolist(), strict=True):
            weights[i] += v * self.mean[j]
            weights[j] += v * self.mean[i]
            bias += v * self.mean[i] * self.mean[j]
            products.append(v * scale[i] * scale[j])
        return _Fit(np.concatenate([[bias], weights * scale, products]))


class _Fit(NamedTuple):
    """A regression; the first coefficient is that of 1."""

    beta: Vector  # (1 + P,)
    theta: Vector | None = None  # (n,) float32
    gram: Matrix | None = None  # (1 + P, 1 + P) curvature of the likelihood, about
    penalty: Vector | None = None  # (1 + P,)

    def residual(self, sample: _Sample) -> Vector:
        """Truth minus probability, by weight."""
        found: Vector = (sample.c * (sample.x - expit(self.theta))).astype(np.float32)
        return found

    def covariance(self) -> Matrix:
        """That of the coefficients, by the curvature."""
        assert self.gram is not None
        assert self.penalty is not None
        found: Matrix = cho_solve(_factor(self.gram, self.penalty), np.eye(len(self.beta)), check_finite=False)
        return found


def _factor(gram: Matrix, penalty: Vector) -> tuple[Matrix, bool]:
    """The Cholesky factor of the curvature with the penalty."""
    H = gram.copy()
    H[np.diag_indices_from(H)] += penalty
    found: tuple[Matrix, bool] = cho_factor(H, overwrite_a=True, check_finite=False)
    return found


def _ridge(X: Matrix, sample: _Sample, precision: Vector, start: _Fit | None = None) -> _Fit:
    """Newton's method, with steps that are halved until the objective falls.

    A curvature serves for several steps, as long as it foresees what they gain.
    """
    c, x, penalty = sample.c.astype(X.dtype), sample.x.astype(X.dtype), np.append(1e-6, precision)
    if start is None:
        rate = (sample.c @ sample.x + 0.5) / (sample.c.sum() + 1.0)
        start = _Fit(np.append(np.log(rate / (1 - rate)), np.zeros(len(precision))))
    beta, gram, factor = start.beta, start.gram, None

    def objective(beta: Vector) -> tuple[float, Vector, Vector]:
        theta = beta.astype(X.dtype) @ X
        e = np.exp(-np.abs(theta))
        loss = float(c @ (np.maximum(theta, 0) + np.log1p(e) - x * theta)) + float(penalty @ beta**2) / 2
        return loss, theta, np.where(theta < 0, e, 1) / (1 + e)

    value, theta, p = objective(beta)
    for _ in range(NEWTON_STEPS):
        gradient = X @ (c * (p - x)) + penalty * beta
        if gram is None:
            gram, factor = _curvature(X, c * p * (1 - p)), None
        if factor is None:
            factor = _factor(gram, penalty)
        step = cho_solve(factor, gradient, check_finite=False)
        foreseen = float(gradient @ step) / 2
        if foreseen <= TOLERANCE * abs(value):
            break
        for _ in range(HALVINGS):
            after, *rest = objective(beta - step)
            if after <= value:
                break
            step /= 2
        else:
            break
        gained, value, beta, (theta, p) = value - after, after, beta - step, rest
        if abs(gained - foreseen) > FORESEEN * foreseen:
            gram = None
    return _Fit(beta, theta, _curvature(X, c * p * (1 - p)) if gram is None else gram, penalty)


def _curvature(X: Matrix, variance: Vector) -> Matrix:
    half = X * np.sqrt(variance)
    H = (half @ half.T).astype(np.float64)
    H[np.diag_indices_from(H)] += 1e-6 * max(float(H.max()), 1e-6)  # beyond the rounding of the product
    return H


class _WeightEvidence(NamedTuple):
    """What the weights of each kind say about their precision; the last kind is that of products."""

    effective: Vector  # (kinds,) number of weights that the data determine
    squares: Vector  # (kinds,) Σ w²

    @property
    def precision(self) -> Vector:
        """That of each kind, which maximises the evidence; `PRECISION` where nothing is known, as if by a weight."""
        found: Vector = np.clip((self.effective + 1.0) / (self.squares + 1.0 / PRECISION), *PRECISION_LIMITS)
        return found


N_GROUPS = len(Kind) + 1
NO_EVIDENCE = _WeightEvidence(np.zeros(N_GROUPS), np.zeros(N_GROUPS))
START_PRECISION = np.full(N_GROUPS, PRECISION)


def _by_evidence(
    X: Matrix, sample: _Sample, groups: Ids, prior: Vector, start: _Fit, steps: int = 1
) -> tuple[_Fit, _WeightEvidence]:
    """The regression whose precisions maximise the evidence: λ_g = effective number of weights / Σ w².

    `prior`: the precision of each kind in all relations, which counts as much as `PRIOR_WEIGHTS` weights.
    """
    precision, fit, found = prior[groups], start, NO_EVIDENCE
    for _ in range(steps):
        fit = _ridge(X, sample, precision, fit)
        w, v = fit.beta[1:], fit.covariance().diagonal()[1:]
        known = np.bincount(groups, np.clip(1 - precision * v, 0, 1), N_GROUPS)
        found = _WeightEvidence(known.astype(np.float64), np.bincount(groups, w * w, N_GROUPS).astype(np.float64))
        of_group = (found.effective + PRIOR_WEIGHTS) / (found.squares + PRIOR_WEIGHTS / prior)
        precision = np.clip(of_group, *PRECISION_LIMITS)[groups]
    return _ridge(X, sample, precision, fit), found


def _most_telling(Z: Matrix, sample: _Sample) -> list[int]:
    """The patterns that tell most each by itself, in their order."""
    if not len(sample.c):
        return []
    residual = sample.c * (sample.x - sample.c @ sample.x / sample.c.sum())
    gain = (Z @ residual) ** 2 / ((Z * Z) @ (residual * residual) + PRECISION)
    chosen: list[int] = np.sort(np.argsort(-gain, kind="stable")[:MAX_SINGLE]).tolist()
    return chosen


def _worth(Z: Matrix, residual: Vector, most: int) -> list[int]:
    """Patterns whose score test says that they gain more than their name costs, the best first.

    The test takes the variance from the squared residuals: cells that stand for many are uncertain evidence.
    """
    G, V = Z @ residual, (Z * Z) @ (residual * residual)
    return _affordable(G * G / (2 * (V + PRECISION)), most)


def _affordable(gain: Vector, most: int) -> list[int]:
    """What gains more than the log(n / r) nats it takes to name the r-th best of n, and a nat for its weight."""
    order = np.argsort(-gain, kind="stable")[: 4 * most]
    worth = gain[order] > np.log(len(gain) / np.arange(1, len(order) + 1)) + 1
    chosen: list[int] = order[worth][:most].tolist()
    return chosen


def _worthwhile_pairs(design: _Design, sample: _Sample, fit: _Fit) -> list[tuple[int, int]]:
    """Products of patterns of which the same test says that."""
    Z, r = design.X[1:], fit.residual(sample)
    squared = Z * Z
    G, V = (Z * r) @ Z.T, (squared * (r * r)) @ squared.T
    i, j = np.triu_indices(len(Z))
    chosen = _affordable((G * G / (2 * (V + PRECISION)))[i, j], MAX_PAIRS)
    return [(int(i[q]), int(j[q])) for q in chosen]


def _without_idle(
    patterns: list[Pattern], pairs: list[tuple[int, int]], design: _Design, fit: _Fit, evidence: _WeightEvidence
) -> _Learned:
    """Leave out one weight after the other, as long as what the others cannot explain in its place is worth less than
    a weight costs.
    """
    V, beta = fit.covariance(), fit.beta.copy()
    while True:
        v = V.diagonal()
        lost = np.divide(beta * beta, 2 * v, out=np.full(len(v), np.inf), where=v > 0)
        idle = int(np.argmin(lost[1:])) + 1 if len(v) > 1 else 0
        if not idle or lost[idle] >= WEIGHT_COST:
            break
        column = V[:, idle] / v[idle]
        beta -= beta[idle] * column
        V -= np.outer(column, V[idle])
        V[idle], V[:, idle], beta[idle] = 0.0, 0.0, 0.0
    P = len(patterns)
    kept_pairs = [pairs[q] for q in np.flatnonzero(beta[1 + P :]).tolist()]
    multiplied = {place for pair in kept_pairs for place in pair}
    kept = [place for place in range(P) if beta[1 + place] or place in multiplied]
    at = {place: new for new, place in enumerate(kept)}
    coefficients = np.concatenate([beta[[0, *(1 + i for i in kept)]], beta[1 + P :][beta[1 + P :] != 0]])
    kept_pairs = [(at[i], at[j]) for i, j in kept_pairs]
    return _learned([patterns[i] for i in kept], kept_pairs, design.take(kept), coefficients, evidence)


def _learned(
    patterns: list[Pattern],
    pairs: list[tuple[int, int]],
    design: _Design,
    beta: Vector,
    evidence: _WeightEvidence = NO_EVIDENCE,
) -> _Learned:
    """The weights of raw patterns, given those of standardised ones."""
    P = len(patterns)
    weights, products = beta[1 : 1 + P] / design.deviation, []
    bias = float(beta[0] - weights @ design.mean)
    for (i, j), value in zip(pairs, beta[1 + P :].tolist(), strict=True):
        w = value / (design.deviation[i] * design.deviation[j])
        weights[i] -= w * design.mean[j]
        weights[j] -= w * design.mean[i]
        bias += w * design.mean[i] * design.mean[j]
        products.append(w)
    return _Learned(patterns, weights, pairs, np.array(products, np.float64), bias, evidence)


# --- beside factors


class PatternTrial(NamedTuple):
    """A fit and patterns of some facts, and facts that neither has seen."""

    factors: Factors
    patterns: Patterns
    zeros: Sequence[DrawnZeros]  # of each relation, without the held-out facts
    heldout: Facts


def _scale_prior() -> CoefficientPrior:
    """Factors and patterns say the same, so that each counts by half; relations are much alike."""
    return CoefficientPrior(
        centre=np.array([0.0, 0.5, 0.5]),
        mean_precision=np.array([0.05, 4.0, 4.0]),
        precision=np.array([0.5, 8.0, 8.0]),
        nonnegative=np.array([False, True, True]),
        alike=np.arange(3),
    )


SCALE_PRIOR = _scale_prior()


def weighed(patterns: Patterns, trials: Sequence[PatternTrial], labelled: float, seed: int) -> list[Patterns]:
    """The patterns of all facts and those of each trial, in scale with the factors; `labelled`: the share of held-out
    facts among the true cells that are not listed.

    The scale of a trial is that of the other trials, so that its held-out facts can say how likely its scores are.
    """
    samples = [_scored(trial, seed) for trial in trials]
    K = len(patterns.bias)
    everyone = list(range(len(trials)))
    learned_from = [everyone, *([j for j in everyone if j != i] or everyone for i in everyone)]
    with one_blas_thread():
        scales = [_scales([samples[i] for i in chosen], K, labelled) for chosen in learned_from]
    parts = (patterns, *(trial.patterns for trial in trials))
    return [_scaled(part, *scale) for part, scale in zip(parts, scales, strict=True)]


def _scales(samples: Sequence[_TrialScores], K: int, labelled: float) -> tuple[Matrix, float]:
    """Intercept, scale of the factors in units, and scale of the patterns of each relation; and the unit."""
    relation, true, false, latent, observed = (np.concatenate(columns) for columns in zip(*samples, strict=True))
    unit = _deviation(observed, true, false) / max(_deviation(latent, true, false), 1e-12)
    X = np.stack([np.ones(len(latent)), unit * latent, observed], axis=1)
    return pooled_logistic(X, relation, K, true, false, SCALE_PRIOR, labelled=labelled).of_group, unit


def _scaled(patterns: Patterns, coefficients: Matrix, unit: float) -> Patterns:
    of_patterns = coefficients[:, 2]
    heads = patterns.codes[:, 0]
    of_pairs = heads[patterns.pairs[:, 0]] if len(patterns.pairs) else heads[:0]
    found = replace(
        patterns,
        weights=patterns.weights * of_patterns[heads],
        pair_weights=patterns.pair_weights * of_patterns[of_pairs],
        bias=coefficients[:, 0] + of_patterns * patterns.bias,
        scale=unit * coefficients[:, 1],
    )
    return found.reading(patterns.values.only(found))


def _deviation(values: Vector, true: Vector, false: Vector) -> float:
    q = true / max(true.sum(), 1e-300) + false / max(false.sum(), 1e-300)
    q /= max(q.sum(), 1e-300)
    return float(np.sqrt(q @ (values - q @ values) ** 2))


class _TrialScores(NamedTuple):
    """Held-out facts and zeros."""

    relation: Ids
    true: Vector  # weight
    false: Vector
    latent: Vector  # score by factors
    observed: Vector  # score by patterns


def _scored(trial: PatternTrial, seed: int) -> _TrialScores:
    """The cells that one trial is judged by."""
    factors, patterns, of_relation, heldout = trial
    rng, parts = np.random.default_rng([seed, 1]), []
    for k in range(len(patterns.bias)):
        cells = heldout.triples[heldout.starts[k] : heldout.starts[k + 1]]
        s, _, o = cells.T.astype(np.int64)
        zeros, count = of_relation[k], MIN_ZEROS + ZEROS_PER_FACT * len(s)
        if len(zeros.s) > count:
            zeros = zeros.at(rng.choice(len(zeros.s), count, replace=False))
            zeros = zeros._replace(weights=zeros.weights * (len(of_relation[k].s) / count))
        for ends, true, false in (
            ((s, o), np.ones(len(s)), np.zeros(len(s))),
            ((zeros.s, zeros.o), np.zeros(len(zeros.s)), zeros.weights),
        ):
            relation = np.full(len(true), k)
            latent = np.asarray(factors.score(ends[0], relation, ends[1]), np.float64)
            parts.append((relation, true, false, latent, patterns.cells(ends[0], k, ends[1])))
    return _TrialScores(*(np.concatenate(column) for column in zip(*parts, strict=True)))
