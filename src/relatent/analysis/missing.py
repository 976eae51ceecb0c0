"""The likeliest absent facts of a whole graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from ..arrays import Ids, Mask, Triples
from ..data.facts import Facts
from ..data.result_labels import row_labels
from ..data.types_in_facts import RDF_TYPE, role_types
from ..data.undirected import has_relation
from ..errors import InputError
from ..json_values import to_json_object
from ..model.best_cells import BestCells, Region, best_cells
from ..model.candidates import Candidates
from ..model.entity_regression import can_fold
from ..model.entity_types import EntityTypes
from ..model.factors import Factors
from ..model.known_facts import KnownFacts
from ..model.vocabulary import check_shared
from ..parameter_checks import check_count
from ..progress import Progress, reporting
from ..result_tables import ResultList, data_frame, html_table, result_record
from .answers import numbers
from .explain import Reason, first_reason

if TYPE_CHECKING:
    import pandas as pd

ALL, ROLES, SEEN, TYPES = "all", "roles", "seen", "types"  # which entities may be at the ends of a relation
MAX_CELLS = 5e9  # considered without being asked for: about a minute
Names = str | int | Sequence[str | int] | None


class AllowedEntities(Protocol):
    """Which entities a relation may have at its ends."""

    def allowed(self, relation: int, place: int) -> Mask:
        """For each entity whether it may be the subject (place 0) or the object (place 2) of the relation, (N,)."""


@result_record
class MissingFact(NamedTuple):
    """An absent fact that is likely.

    >>> MissingFact("Al Gore", "party", "Democratic", 2.0, 0.88, 1, 40.0).rank
    1
    """

    subject: str
    relation: str
    object: str
    score: float  # log-odds of the probability; θ of a model that is not calibrated
    probability: float | None  # None if the model has no probabilities
    rank: int  # among all absent facts that were considered
    lift: float | None  # probability / share of true cells among the unlisted ones of the relation
    reason: Reason | None = None  # the known fact that supports it most


class MissingFacts(NamedTuple):
    """The likeliest absent facts, best first.

    >>> MissingFacts([], 0, 0).to_dict()["missing"]
    []
    """

    missing: list[MissingFact]
    n_cells: int  # absent and known cells that were considered
    n_scored: int  # of these, not skipped by a bound
    candidates: str = ALL  # entities that were considered at the ends of a relation: "all", "roles", "seen", "types"

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return to_json_object(self)

    def to_rows(self) -> ResultList[dict[str, Any]]:
        """One row per fact, with its reason in words."""
        rows = ({**fact._asdict(), "reason": fact.reason and " ".join(fact.reason[:3])} for fact in self.missing)
        return ResultList(rows, getattr(self.missing, "labels", None))

    def to_pandas(self) -> pd.DataFrame:
        """One row per fact: subject, relation, object, score, probability, rank, lift, reason (in words)."""
        return data_frame(self.to_rows(), MissingFact._fields)

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.to_rows())

    def __repr__(self) -> str:
        best = f", best {' '.join(self.missing[0][:3])!r}" if self.missing else ""
        return f"MissingFacts({len(self.missing)} of {self.n_cells:,} cells{best})"


def missing(
    factors: Factors,
    k: int = 100,
    relations: Names = None,
    entities: Names = None,
    types: AllowedEntities | str | None = None,
    *,
    known: Facts | Sequence[Facts] | Candidates | None = None,
    rejected: Facts | Sequence[Facts] | None = None,
    reasons: bool = False,
    progress: bool | Progress | None = None,
) -> MissingFacts:
    """The k likeliest facts that are not known, of the whole graph, of some relations, or of some entities.

    They are ordered by probability, then by score and then by ids; by score if the model has no probabilities. The
    result is exact. Unobserved cells may be among it. A fact of an entity with itself is considered only for relations
    that have such facts. A pair of an undirected relation is listed once.

    Parameters
    ----------
    k : int
        How many facts.
    relations, entities : names or ids, or None
        Only facts of these relations, only facts with one of these entities as subject or object.
    types : None, "all", "roles", "seen", or an object with a method `allowed(relation, place)`
        Which entities a relation may have as subject and object. "all": every entity. "roles": those that share a role,
        such as "object of born_in", with an entity that a known fact of the relation has there. "seen": only those that
        a known fact of the relation has there, so that an entity whose only fact of this kind is missing is not
        considered. None: those of the model's types; if it has none, "all", or the first of "roles" and "seen" that
        leaves at most 5·10⁹ cells. `candidates` of the result says which.
    known : Facts, sequence of Facts
        Further known facts, which are not offered either, beside those of the model.
    rejected : Facts, sequence of Facts
        What is known to be false, and not offered either.
    reasons : bool
        Find the known fact that supports each result most, where the kind of model allows it.

    >>> import relatent
    >>> facts = relatent.load_dataset("presidents")
    >>> model = relatent.RescalALS(rank=10, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_
    >>> found = relatent.missing(model, k=3, relations="party").missing
    >>> [(fact.relation, fact.rank) for fact in found]
    [('party', 1), ('party', 2), ('party', 3)]
    """
    check_count("k", k)
    asked = factors.asked(known)
    listed = asked.known
    if not len(listed):
        raise InputError("the model does not hold its facts, so all would be missing: give them, as known= or --known")
    false = np.empty((0, 3), np.int32)
    if rejected is not None:
        sources = [rejected] if isinstance(rejected, Facts) else list(rejected)
        for source in sources:
            check_shared(factors.entities, factors.relations, source, "rejected facts")
        sources = [factors.as_undirected(facts).over(factors.entities, factors.relations) for facts in sources]
        false = np.concatenate([false, *(facts.triples for facts in sources)])
    only = None if entities is None else np.unique(factors.entities.ids(entities))
    relation_ids = _considered(factors) if relations is None else np.unique(factors.relations.ids(relations))
    allowed, candidates = _resolved(types, factors, listed, relation_ids.tolist(), only)
    regions = [
        region
        for relation in relation_ids.tolist()
        for region in _regions(relation, listed, allowed, only, false, bool(asked.may_be_itself[relation]))
    ]
    if factors.calibration is not None:
        regions = [part for region in regions for part in _by_answered(region, listed)]
    has_pairs = bool(has_relation(factors.undirected, relation_ids).any())
    with reporting(progress, "cells searched for missing facts") as report:
        best = best_cells(asked, regions, 2 * int(k) if has_pairs else int(k), report)
    if has_pairs:  # a pair is two cells, so that k pairs are among twice as many cells
        best = _each_pair_once(best, factors.undirected, int(k))
    found = _facts(factors, best)
    if reasons and can_fold(factors):
        found = list(_with_reasons(factors, asked, best, found, progress))
    return MissingFacts(ResultList(found, row_labels(factors)), best.n_cells, best.n_scored, candidates)


def _considered(factors: Factors) -> Ids:
    """All relations; without rdf:type if its facts are the types that restrict the answers."""
    return np.array([k for k, name in enumerate(factors.relations) if factors.types is None or name not in RDF_TYPE])


def _resolved(
    types: AllowedEntities | str | None, factors: Factors, known: KnownFacts, relations: list[int], only: Ids | None
) -> tuple[AllowedEntities, str]:
    """Which entities may be at the ends of a relation, and the name of this choice."""
    choices: dict[str, Callable[[], AllowedEntities]] = {
        ALL: lambda: _AnyEntity(known.n),
        ROLES: lambda: EntityTypes.of(known.facts, role_types(known.facts)),
        SEEN: lambda: _SeenThere(known),
    }
    if types is None and factors.types is not None:
        types = factors.types
    if types is None:
        for name, choice in choices.items():
            allowed = choice()
            if name == SEEN or _n_cells(known.n, allowed, relations, only) <= MAX_CELLS:
                return allowed, name
    if not isinstance(types, str):
        return cast(AllowedEntities, types), TYPES
    if types not in choices:
        names = ", ".join(map(repr, choices))
        raise InputError(f"types must be {names} or an object with a method allowed, got {types!r}")
    return choices[types](), types


def _n_cells(n: int, allowed: AllowedEntities, relations: list[int], only: Ids | None) -> float:
    """The number of cells that are allowed."""
    return sum(
        float(subjects.sum()) * float(objects.sum())
        for relation in relations
        for subjects, objects in _sides(n, relation, allowed, only)
    )


def _sides(n: int, relation: int, types: AllowedEntities, only: Ids | None) -> list[tuple[Mask, Mask]]:
    """Subjects and objects of the cells of a relation that types allow, or of those with one of some entities."""
    subject, object_ = (np.asarray(types.allowed(relation, place), bool) for place in (0, 2))
    if only is None:
        return [(subject, object_)]
    chosen = np.isin(np.arange(n), only)
    return [(subject & chosen, object_), (subject & ~chosen, object_ & chosen)]


class _SeenThere:
    """Each relation may have the entities that a known fact has in the same place."""

    def __init__(self, known: KnownFacts):
        self.known = known

    def allowed(self, relation: int, place: int) -> Mask:
        """For each entity whether a known fact of the relation has it in this place, (N,)."""
        found = np.zeros(self.known.n, bool)
        found[self.known.ends(relation)[place // 2]] = True
        return found


class _AnyEntity:
    def __init__(self, n: int):
        self.n = n

    def allowed(self, relation: int, place: int) -> Mask:
        return np.ones(self.n, bool)


def _regions(
    relation: int, known: KnownFacts, types: AllowedEntities, only: Ids | None, rejected: Triples, with_self: bool
) -> Iterator[Region]:
    """The cells of a relation to consider: all that types allow, or those with one of some entities."""
    facts = known.facts.triples[slice(*known.facts.starts[relation : relation + 2])][:, ::2]
    left_out = [facts, rejected[rejected[:, 1] == relation][:, ::2]]
    if not with_self:
        left_out.append(np.repeat(np.arange(known.n)[:, None], 2, axis=1))
    for subjects, objects in _sides(known.n, relation, types, only):
        yield Region(relation, np.flatnonzero(subjects), np.flatnonzero(objects), np.concatenate(left_out))


def _by_answered(region: Region, known: KnownFacts) -> Iterator[Region]:
    """The region in parts whose subjects all have known facts of the relation, or none has; likewise their objects."""
    sides = []
    for ids, seen in zip((region.subjects, region.objects), known.ends(region.relation), strict=True):
        is_seen = np.isin(ids, seen)
        sides.append((ids[~is_seen], ids[is_seen]))
    for of_subject, of_object in ((0, 0), (0, 1), (1, 0), (1, 1)):
        subjects, objects = sides[0][of_subject], sides[1][of_object]
        if len(subjects) and len(objects):
            yield region._replace(subjects=subjects, objects=objects, kind=2 * of_subject + of_object)


def _each_pair_once(best: BestCells, undirected: frozenset[int], k: int) -> BestCells:
    """The k best cells, of a pair of an undirected relation the one whose subject has the lower id."""
    judged = best.judged
    is_turned = has_relation(undirected, judged.cells[:, 1]) & (judged.cells[:, 0] > judged.cells[:, 2])
    cells = np.where(is_turned[:, None], judged.cells[:, ::-1], judged.cells)
    _, first = np.unique(cells, axis=0, return_index=True)
    return best._replace(judged=judged._replace(cells=cells).at(np.sort(first)[:k]))


def _facts(factors: Factors, best: BestCells) -> list[MissingFact]:
    found, judged = [], best.judged
    columns = (judged.cells.tolist(), judged.score.tolist(), numbers(judged.probability), numbers(judged.lift))
    for rank, ((s, k, o), score, p, lift) in enumerate(zip(*columns, strict=True), 1):
        names = factors.entities[s], factors.relations[k], factors.entities[o]
        found.append(MissingFact(*names, score, p, rank, lift))
    return found


def _with_reasons(
    factors: Factors,
    asked: Candidates,
    best: BestCells,
    found: Sequence[MissingFact],
    progress: bool | Progress | None,
) -> Iterator[MissingFact]:
    with reporting(progress, "reasons") as report:
        for done, (cell, fact) in enumerate(zip(best.judged.cells.tolist(), found, strict=True), 1):
            yield fact._replace(reason=first_reason(factors, asked, tuple(cell)))
            report(done, len(found), "reasons")
