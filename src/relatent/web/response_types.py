"""The results of the API as NamedTuples of plain values: `openapi` reads the response schemas off these types."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..analysis.answers import EntitySection
from ..analysis.duplicates import DuplicatePair
from ..analysis.groups import TypicalFact
from ..analysis.quality import ModelQuality
from ..analysis.similarity import SimilarEntity


class NameMatch(NamedTuple):
    """A name that contains the search text, and the number of known facts it occurs in."""

    name: str
    facts: int


class SearchResult(NamedTuple):
    """Names that contain the search text, best match first."""

    query: str
    matches: list[NameMatch]


class RelationSummary(NamedTuple):
    """A relation and the number of its known facts."""

    name: str
    facts: int


class RelationList(NamedTuple):
    """The relations of the model, in the model's order."""

    relations: list[RelationSummary]


class EntityPage(NamedTuple):
    """Known and predicted facts of an entity, one section per relation and role."""

    name: str
    facts: int
    n_sections: int
    sections: list[EntitySection]


class FactProbability(NamedTuple):
    """Score and probability of one fact."""

    subject: str
    relation: str
    object: str
    score: float
    probability: float | None  # of a known fact, if it were not known; null if the model has no probabilities
    known: bool
    rank: int | None  # of the object among those that are not known for this subject; null if known
    lift: float | None  # probability / share of true facts expected among the unlisted ones of the relation


class OfferedFact(NamedTuple):
    """A missing fact, and what a person decided about it."""

    subject: str
    relation: str
    object: str
    score: float
    probability: float | None  # null if the model has no probabilities
    rank: int
    lift: float | None  # probability / share of true facts expected among the unlisted ones of the relation
    verdict: str | None  # "accepted" or "rejected"; null if there is no decision


class MissingPage(NamedTuple):
    """One page of the likeliest missing facts, best first."""

    start: int
    total: int  # facts on all pages
    can_review: bool  # whether the server writes a reviewed file
    missing: list[OfferedFact]


class ReviewedFact(NamedTuple):
    """A decision that was written into the reviewed file."""

    subject: str
    relation: str
    object: str
    verdict: str | None  # "accepted" or "rejected"; null if a decision was taken back


class DuplicatesPage(NamedTuple):
    """Pairs of entities that may be the same, the likeliest first."""

    start: int
    total: int
    pairs: list[DuplicatePair]


class SimilarEntities(NamedTuple):
    """The entities for which the model predicts most nearly the same facts."""

    entity: str
    similar: list[SimilarEntity]


class GroupSummary(NamedTuple):
    """A group, its most central members, and the facts that are typical of it."""

    number: int
    size: int
    members: list[str]
    typical: list[TypicalFact]
    type: str | None = None  # of the members, if the groups are types


class GroupList(NamedTuple):
    """Groups of similar entities, largest first."""

    groups: list[GroupSummary]


class GroupPage(NamedTuple):
    """One group and one page of its members, most central first."""

    group: GroupSummary
    start: int
    members: list[str]


class MapLayout(NamedTuple):
    """A method that places the entities on a plane."""

    method: str
    about: str
    available: bool


class MapInfo(NamedTuple):
    """The number of entities on the map, the layouts to choose from, and the method that the map opens on."""

    entities: int
    ways: list[MapLayout]
    default: str


class NamePage(NamedTuple):
    """Names of entities in order of their ids; the first has id `start`."""

    start: int
    names: list[str]


class NewEntityPage(NamedTuple):
    """Predicted facts of an entity that is not in the model."""

    name: str
    n_sections: int
    sections: list[EntitySection]
    similar: list[SimilarEntity]


class NewFact(NamedTuple):
    """A fact that describes a new entity."""

    relation: str
    role: str  # of the new entity: "subject" or "object"
    partner: str


class FactSource(NamedTuple):
    """Facts that the server was started with."""

    name: str
    facts: int


class ModelSizes(NamedTuple):
    """Size of a model; `bytes` is the size of its file."""

    entities: int
    relations: int
    rank: int
    parameters: int
    bytes: int | None
    dtype: str


class FitSummary(NamedTuple):
    """How the fit went."""

    steps: int | None
    seconds: float | None
    converged: bool | None
    verdict: str
    objectives: list[float]


class ModelInfo(NamedTuple):
    """What a model is, how it was fitted, and which questions it can answer."""

    name: str
    kind: str
    link: str
    calibrated: bool
    has_probabilities: bool  # if not, scores only rank answers
    probabilities: str  # what the probabilities mean
    exclusive: bool
    sizes: ModelSizes
    settings: dict[str, Any]
    fit: FitSummary
    learned_from: int | None  # facts
    known: FactSource | None
    test: FactSource | None
    can_explain: bool
    can_fold_in: bool
    examples: list[str]


class MeasuredQuality(NamedTuple):
    """Quality of the model, and the facts it was measured on."""

    data: str  # "test" or "known"
    name: str
    quality: ModelQuality
