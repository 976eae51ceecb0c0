"""Why a cell has its score: observed patterns, the known facts that support it, and its latent components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrays import Ids, Matrix, Vector
from ..data.facts import Facts
from ..data.names import Names
from ..data.result_labels import row_labels
from ..errors import InputError
from ..json_values import to_json_object
from ..model.candidates import Candidates
from ..model.entity_regression import EntityCells, FactInfluences, fact_influences
from ..model.factors import Factors
from ..model.known_facts import KnownFacts
from ..model.objective_description import PSEUDO_LIKELIHOOD
from ..model.scores import best_first, cell_scores
from ..result_tables import ResultList, data_frame, html_table, result_record
from .answers import numbers
from .pattern_reasons import (
    Cell,
    FoundPattern,
    PatternReason,
    contributions,
    fact_texts,
    pattern_reason,
    step_behind,
)
from .rules import RulePath, rule_paths

if TYPE_CHECKING:
    import pandas as pd

MIN_CANDIDATES = 10  # facts of each of the two entities whose influence is computed exactly
MIN_SHARE = 0.05  # least influence of a reason, as a share of the influence of the first
EXAMPLES_PER_COMPONENT = 3  # entities named on each side
MAX_SHOWN_RANK = 10  # beyond, an improbable answer is called unlikely


@result_record
class Reason(NamedTuple):
    """A known fact and its influence on the score.

    >>> Reason("Bill Clinton", "vicePresident", "Al Gore", 1.5).influence
    1.5
    """

    subject: str
    relation: str
    object: str
    influence: float  # on θ through the factors, compared with other cells of the relation


@result_record
class LatentComponent(NamedTuple):
    """One latent component of the score, and other entities with large values in it.

    >>> LatentComponent(0.5, subjects=["Joe Biden"], objects=["Republican"]).contribution
    0.5
    """

    contribution: float  # to θ
    subjects: list[str]
    objects: list[str]


class Explanation(NamedTuple):
    """Why a cell has its score.

    >>> Explanation("Al Gore", "party", "Democratic", 1.0, 0.73, 0.0, [], [], "…").to_dict()["probability"]
    0.73
    """

    subject: str
    relation: str
    object: str
    score: float  # log-odds of the probability; θ of a model that is not calibrated
    probability: float | None  # the same number as in every list of answers; None if the model has none
    bias: float  # of the relation, with patterns of their usual values: the same for all of its cells
    reasons: list[Reason]  # strongest first
    components: list[LatentComponent]
    sentence: str
    paths: Sequence[RulePath] = ()  # rules that predict the cell, by confidence
    patterns: Sequence[PatternReason] = ()  # what is seen of the pair, strongest first
    by_patterns: float = 0.0  # all of them together
    by_factors: float = 0.0  # all components together
    by_calibration: float = 0.0  # bias, patterns, factors and this sum to the score

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return to_json_object(self)

    def to_pandas(self) -> pd.DataFrame:
        """The reasons, strongest first: subject, relation, object, influence; needs pandas."""
        return data_frame(self.reasons, Reason._fields)

    def _repr_html_(self) -> str:
        return html_table(self.sentence, self.reasons)

    def __repr__(self) -> str:
        return f"Explanation(score {self.score:.3g}, {len(self.reasons)} reasons: {self.sentence})"


def explain(
    factors: Factors,
    subject: str | int,
    relation: str | int,
    object: str | int,
    *,
    k: int = 5,
    known: Facts | Sequence[Facts] | Candidates | None = None,
) -> Explanation:
    """Explain the score of a cell: at most k observed patterns, k known facts of its entities, k latent components.

    `patterns` are what the facts show of the pair (another relation joins it, entities between the two, how often both
    occur), and `added` is what each adds to the log-odds, compared with its mean over pairs of a subject and an object
    of the relation. Patterns that say the same to a reader are one line. What they add and what the factors add
    (`by_patterns`, `by_factors`), the `bias`, and what the calibration changes sum to the score.

    The influence of a fact of the subject is the decrease of the score by factors if that fact were false, minus the
    mean decrease over the relation's other objects (for a fact of the object: over its other subjects). So a reason
    supports this cell rather than all cells of the relation. R is held fixed, and the vectors of all entities but the
    two; if they share a neighbour (her city lies in the country), its facts with one change the other through it.
    Facts with less than a twentieth of the greatest influence are left out.

    `paths` are rules that known facts follow and that predict the cell, at most k, with their support and confidence
    (`relatent.rules`): they come from the facts alone, whatever the model says. A model of rules
    (`MarkovLogic`) has no reasons but these and patterns. `known` are further known facts, beside those of the model.

    >>> import relatent
    >>> facts = relatent.load_dataset("presidents")
    >>> model = relatent.RescalALS(rank=10, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_
    >>> found = relatent.explain(model, "Al Gore", "party", "Democratic", k=2)
    >>> "party" in {reason.relation for reason in found.reasons}  # the other: vicePresident or president
    True
    """
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    s, o = int(factors.entities.ids(subject)), int(factors.entities.ids(object))
    relation_id = int(factors.relations.ids(relation))
    cell = (s, relation_id, o)
    asked = factors.asked(known)
    listed = asked.known
    if not len(listed):
        raise InputError(
            "the model does not hold its facts, and only facts are reasons: give them, as known= or --known"
        )
    strongest = _strongest(_influences(factors, listed, cell, k), k)
    seen, by_patterns = _patterns(factors, asked, cell, k)
    judged = asked.judge(np.array([cell]))
    [probability], [score] = numbers(judged.probability), judged.score.tolist()
    [theta] = cell_scores(asked.model, *np.array([cell]).T, exact=True).tolist()
    base, scale = _base(asked, relation_id)
    paths = rule_paths(listed.steps, *cell, k)
    labels = row_labels(factors)
    return Explanation(
        *_names(factors, cell),
        score,
        probability,
        base,
        ResultList((Reason(*_names(factors, fact), value) for fact, value in strongest), labels),
        [] if is_of_rules(factors) else _components(factors, cell, scale, k),
        _sentence(factors, cell, probability, strongest, seen, asked, paths),
        ResultList(paths, labels),
        ResultList((found.reason for found in seen), labels),
        by_patterns,
        theta - base - by_patterns,
        score - theta if factors.calibration is not None else 0.0,
    )


def _base(asked: Candidates, relation: int) -> tuple[float, float]:
    """The bias of a relation on the scale of the score, patterns of usual values included; the scale of factors."""
    bias, patterns = float(asked.model.bias[relation]), asked.model.patterns
    if patterns is None:
        return bias, 1.0
    scale = float(patterns.scale[relation])
    return scale * bias + patterns.base(relation), scale


def _patterns(factors: Factors, asked: Candidates, cell: Cell, k: int) -> tuple[list[FoundPattern], float]:
    """The k strongest patterns of a cell, and what all add."""
    patterns = asked.model.patterns
    if patterns is None:
        return [], 0.0
    found = contributions(patterns, cell)
    reasons = [pattern_reason(factors, patterns, asked.known.steps, cell, part) for part in found[:k]]
    return reasons, sum(part.added for part in found)


def is_of_rules(factors: Factors) -> bool:
    """Whether the model consists of weighted rules, kept as rules or as the scores that they give."""
    return not factors.rank or (factors.loss is not None and factors.loss.name == PSEUDO_LIKELIHOOD)


def first_reason(factors: Factors, asked: Candidates, cell: Cell) -> Reason | None:
    """The known fact that supports a cell most, by factors or as a pattern; None if none does."""
    supports = _strongest(_influences(factors, asked.known, cell, 1), 1)
    if asked.model.patterns is not None:
        seen = [part for part in contributions(asked.model.patterns, cell) if part.added > 0 and part.body]
        supports += [(fact, part.added) for part in seen for fact in step_behind(part, cell, asked.known.steps)]
    best = max(supports, key=lambda support: support[1], default=None)
    return None if best is None else Reason(*_names(factors, best[0]), best[1])


def _influences(factors: Factors, known: KnownFacts, cell: Cell, k: int) -> dict[Cell, float]:
    """The influence on a cell of the facts of its two entities, also through neighbours that the two share."""
    if is_of_rules(factors):  # `paths` are its reasons
        return {}
    s, relation, o = cell
    A, R = factors.A.astype(np.float64), factors.relation_matrices
    subjects, objects = known.ends(relation)
    influence: dict[Cell, float] = {}

    def add(entity: int, along: Vector, most: int, with_entity: int | None = None) -> FactInfluences:
        found = fact_influences(factors, entity, known.listed(entity), along, most, with_entity)
        for fact, lost in zip(_cells_of(entity, found.cells), found.lost.tolist(), strict=True):
            influence[fact] = influence.get(fact, 0.0) + lost  # a fact counts for both of its entities
        return found

    for entity, other, others, back in ((s, o, objects, True), (o, s, subjects, False)):
        along = R.times(_minus_mean(A, other, others)[None], relation, back=back)[0]
        found = add(entity, along, max(MIN_CANDIDATES, 2 * k))
        partners = found.cells.partner
        shared = partners[np.isin(partners, known.listed(other).partner)]
        for neighbour in list(dict.fromkeys(shared.tolist()))[:k]:
            add(neighbour, found.through[partners == neighbour].sum(axis=0), k, other)
    influence = _by_fact(influence, factors.undirected)
    for same in (cell, cell[::-1] if relation in factors.undirected else cell):
        influence.pop(same, None)  # a fact is no reason for itself
    scale = 1.0 if factors.patterns is None else float(factors.patterns.scale[relation])
    return {fact: scale * value for fact, value in influence.items()}


def _by_fact(influence: dict[Cell, float], undirected: frozenset[int]) -> dict[Cell, float]:
    """The two cells of a pair of an undirected relation as one fact, in the direction that comes first."""
    found: dict[Cell, float] = {}
    for cell, value in influence.items():
        s, k, o = cell
        fact = (o, k, s) if k in undirected and (o, k, s) in found else cell
        found[fact] = found.get(fact, 0.0) + value
    return found


def _strongest(influence: dict[Cell, float], k: int) -> list[tuple[Cell, float]]:
    """The k facts of greatest influence, without those that have next to none beside the first."""
    ranked = sorted(influence.items(), key=lambda item: -item[1])[:k]
    return [(fact, value) for fact, value in ranked if value > MIN_SHARE * max(ranked[0][1], 0)]


def _minus_mean(A: Matrix, entity: int, others: Ids) -> Vector:
    """An entity's vector minus the mean vector of the others; unchanged if there are none."""
    others = others[others != entity]
    difference: Vector = A[entity] - (A[others].mean(axis=0) if len(others) else 0)
    return difference


def _cells_of(entity: int, listed: EntityCells) -> list[Cell]:
    """An entity's listed cells as ids (subject, relation, object)."""
    columns = (listed.role.tolist(), listed.relation.tolist(), listed.partner.tolist())
    return [
        (entity, relation, partner) if role == 0 else (partner, relation, entity)
        for role, relation, partner in zip(*columns, strict=True)
    ]


def _names(factors: Factors, cell: Cell) -> tuple[str, str, str]:
    return factors.entities[cell[0]], factors.relations[cell[1]], factors.entities[cell[2]]


def _components(factors: Factors, cell: Cell, scale: float, k: int) -> list[LatentComponent]:
    """The largest terms of a_sᵀ U S Vᵀ a_o, with the entities that have the largest values on each side."""
    s, relation, o = cell
    names, found = factors.entities, []
    for here, R in factors.relation_matrices.blocks:  # each part of a sum has components of its own
        A = factors.A[:, here].astype(np.float64)
        U, S, Vt = np.linalg.svd(R[relation].astype(np.float64))
        terms = scale * (A[s] @ U) * S * (Vt @ A[o])
        largest = np.argsort(-np.abs(terms), kind="stable")[:k]
        left, right = U.T[largest] @ A.T, Vt[largest] @ A.T  # (k, N)
        for term, subject_values, object_values in zip(largest.tolist(), left, right, strict=True):
            sides = [
                _examples(names, values * np.sign(values[entity]), entity)
                for values, entity in ((subject_values, s), (object_values, o))
            ]
            found.append(LatentComponent(float(terms[term]), *sides))
    return sorted(found, key=lambda component: -abs(component.contribution))[:k]


def _examples(names: Names, values: Vector, excluded: int) -> list[str]:
    """The entities with the largest values, without the excluded one."""
    best = [i for i in best_first(values, EXAMPLES_PER_COMPONENT + 1).tolist() if i != excluded]
    return [names[i] for i in best[:EXAMPLES_PER_COMPONENT]]


def _sentence(
    factors: Factors,
    cell: Cell,
    probability: float | None,
    strongest: list[tuple[Cell, float]],
    seen: list[FoundPattern],
    asked: Candidates,
    paths: list[RulePath],
) -> str:
    """The strongest reason in words: a rule and its facts, or a fact and others that have it and the one asked for."""
    is_known = bool(np.isin(cell[2], asked.known.objects(cell[0], cell[1])))
    claim = " ".join(_shown(factors, cell)) + (" is known" if is_known else "")
    if cell[0] == cell[2] and not is_known and not asked.may_be_itself[cell[1]]:
        return f"{claim} is not offered as an answer: no known fact of this relation joins an entity with itself."
    # A pattern with facts concerns both ends; others, as how often one of them occurs, hold of many answers alike.
    pattern = max(
        seen, key=lambda found: (bool(found.facts) and found.reason.added > 0, found.reason.added), default=None
    )
    of_pattern, of_fact = (0.0 if pattern is None else pattern.reason.added), (strongest[0][1] if strongest else 0.0)
    if is_of_rules(factors) and of_pattern <= 0:
        if not paths:
            return f"{claim}: no rule of the known facts predicts it."
        rule, share = f"{paths[0].body} ⇒ {paths[0].head}", f"{paths[0].confidence:.0%}"
        return f"{claim}: predicted by {rule}, which holds in {share} of its cases."
    if max(of_pattern, of_fact) <= 0:
        return f"{claim}: no known fact supports it."
    if is_known:
        lead = f"{claim}; besides itself, the strongest support is "
    elif probability is not None and probability >= 0.5:
        lead = f"{claim}, because "
    else:
        lead = f"{claim} is {_standing(asked, cell)}; its strongest support is "
    if pattern is None or of_fact > (of_pattern if pattern.facts else 0.0):
        return lead + _with_others(factors, asked.known, cell, strongest[0][0])
    if pattern.is_alike:
        return lead + _with_others(factors, asked.known, cell, pattern.facts[0])
    return lead + _said(factors, cell, pattern, "" if lead.endswith("because ") else "that ")


def _with_others(factors: Factors, known: KnownFacts, cell: Cell, fact: Cell) -> str:
    """A fact, and other entities that have both it and the fact in question."""
    text = " ".join(_shown(factors, fact))
    place = 0 if cell[0] in (fact[0], fact[2]) else 2  # the end of the cell that the fact shares
    others = [factors.entities.shown(i) for i in _entities_with_both(known, fact, cell, place)]
    return f"{text}; both are known of {' and '.join(sorted(others)[:2])} as well." if others else f"{text}."


def _said(factors: Factors, cell: Cell, pattern: FoundPattern, that: str) -> str:
    """A pattern as the end of a sentence: its facts and how often the rule holds, or what it says."""
    text, rule, facts = pattern.reason.text, pattern.reason.rule, " and ".join(fact_texts(factors, pattern.facts))
    if not facts:
        return f"{that}{'there is ' if pattern.is_absent else ''}{text}."
    if rule is None:
        return f"{facts}."
    head, cases = f"{factors.relations.shown(cell[1])}(x,y)", round(rule.support / rule.confidence)
    return f"{facts}: {text} ⇒ {head} holds in {rule.support:,} of {cases:,} cases."


def _shown(factors: Factors, cell: Cell) -> tuple[str, str, str]:
    """The cell as a person should read it."""
    return factors.entities.shown(cell[0]), factors.relations.shown(cell[1]), factors.entities.shown(cell[2])


def _standing(asked: Candidates, cell: Cell) -> str:
    """How an improbable cell stands among the answers to its question that are not known."""
    rank = int(asked.ranked(np.array([cell])).rank[0])
    if rank == 1:
        return "the likeliest answer that is not known"
    return f"number {rank} of the answers that are not known" if rank <= MAX_SHOWN_RANK else "unlikely"


def _entities_with_both(known: KnownFacts, fact: Cell, cell: Cell, place: int) -> list[int]:
    """Other entities that make both the fact and the cell known when they replace the entity that both share."""
    entity = cell[place]
    place_in_fact = 0 if fact[0] == entity else 2
    both = np.intersect1d(_known_fillers(known, fact, place_in_fact), _known_fillers(known, cell, place))
    return [i for i in both.tolist() if i != entity]


def _known_fillers(known: KnownFacts, fact: Cell, place: int) -> Ids:
    """Entities that make a known fact when put into one place of this one."""
    return known.subjects(fact[1], fact[2]) if place == 0 else known.objects(fact[0], fact[1])
