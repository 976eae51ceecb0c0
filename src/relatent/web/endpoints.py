"""The endpoints of the API: their parameters, and the method of the explorer that answers."""

from __future__ import annotations

from typing import Any

from ..analysis.answers import Answers
from ..analysis.entity_map import METHODS
from ..analysis.explain import Explanation
from ..data.review import ACCEPTED, REJECTED
from ..model.fold_in_defaults import FOLD_IN_OTHERS
from .errors import ParameterError
from .explorer import Explorer
from .openapi import MAX_NAME_CHARACTERS, Arguments, Endpoint, Parameter
from .response_types import (
    DuplicatesPage,
    EntityPage,
    FactProbability,
    GroupList,
    GroupPage,
    MapInfo,
    MeasuredQuality,
    MissingPage,
    ModelInfo,
    NamePage,
    NewEntityPage,
    NewFact,
    RelationList,
    ReviewedFact,
    SearchResult,
    SimilarEntities,
)

MAX_RESULTS = 1000
MAX_NEW_FACTS = 200
MAX_PREDICTIONS = 50  # per section
ROLES = ("subject", "object")


def _top(description: str, default: int, maximum: int = MAX_RESULTS) -> Parameter:
    return Parameter("top", description, int, default, minimum=1, maximum=maximum, argument="k")


def _page(what: str, count: int, maximum: int = MAX_RESULTS) -> tuple[Parameter, Parameter]:
    return (
        Parameter("start", f"Position of the first {what}, from 0.", int, 0, minimum=0, maximum=2**31 - 1),
        Parameter("count", f"Number of {what}s on this page.", int, count, minimum=1, maximum=maximum),
    )


ENTITY = Parameter("name", "Name of the entity.", required=True)
FACT = (
    Parameter("subject", "Subject of the fact.", required=True),
    Parameter("relation", "Relation of the fact.", required=True),
    Parameter("object", "Object of the fact.", required=True),
)
NAME_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
TOP_SCHEMA = {"type": "integer", "minimum": 1, "maximum": MAX_PREDICTIONS}
NEW_ENTITY: dict[str, Any] = {
    "type": "object",
    "required": ["name", "facts"],
    "additionalProperties": False,
    "properties": {
        "name": {**NAME_SCHEMA, "description": "A name that the model does not have."},
        "facts": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_NEW_FACTS,
            "items": {
                "type": "object",
                "required": ["relation", "role", "partner"],
                "additionalProperties": False,
                "properties": {
                    "relation": NAME_SCHEMA,
                    "role": {"type": "string", "enum": list(ROLES), "description": "Role of the new entity."},
                    "partner": {**NAME_SCHEMA, "description": "The other entity of the fact."},
                },
            },
        },
        "others": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": FOLD_IN_OTHERS,
            "description": "Weight of facts that are not listed, as false: 1 if all true facts are listed, "
            "near 0 if few are.",
        },
        "top": {**TOP_SCHEMA, "default": 5, "description": "Number of predictions per section."},
    },
}


ITEM = NEW_ENTITY["properties"]["facts"]["items"]
EXPLAINED_NEW_FACT: dict[str, Any] = {
    **NEW_ENTITY,
    "required": [*NEW_ENTITY["required"], "fact"],
    "properties": {**NEW_ENTITY["properties"], "fact": {**ITEM, "description": "The fact to explain."}},
}
DECISION: dict[str, Any] = {
    "type": "object",
    "required": ["subject", "relation", "object", "verdict"],
    "additionalProperties": False,
    "properties": {
        **dict.fromkeys(("subject", "relation", "object"), NAME_SCHEMA),
        "verdict": {
            "enum": [ACCEPTED, REJECTED, None],
            "description": "Whether the fact is true or false; null takes a decision back.",
        },
    },
}


def read_decision(body: Any) -> Arguments:
    """The body of a review request, checked against its schema."""
    _check_keys(body, DECISION, "the body")
    verdict = body["verdict"]
    if verdict not in (ACCEPTED, REJECTED, None):
        choices = f"{ACCEPTED}, {REJECTED} or null"
        raise ParameterError(f"verdict must be {choices}, got {str(verdict)[:80]!r}", f"give {choices}")
    return {**{place: _text(body[place], place) for place in ("subject", "relation", "object")}, "verdict": verdict}


def read_explained_new_fact(body: Any) -> Arguments:
    """The body of a request to explain a fact of a new entity, checked against its schema."""
    _check_keys(body, EXPLAINED_NEW_FACT, "the body")
    return {**read_new_entity(body, EXPLAINED_NEW_FACT), "fact": _new_fact(body["fact"], "fact")}


def read_new_entity(body: Any, schema: dict[str, Any] = NEW_ENTITY) -> Arguments:
    """The body of a fold-in request, checked against its schema."""
    _check_keys(body, schema, "the body")
    name, facts = _text(body["name"], "name"), body["facts"]
    remedy = f"give 1 to {MAX_NEW_FACTS} facts"
    if not isinstance(facts, list):
        raise ParameterError(f"facts must be a list, got {str(facts)[:80]!r}", remedy)
    if not 1 <= len(facts) <= MAX_NEW_FACTS:
        limit = f"at most {MAX_NEW_FACTS} facts" if facts else "at least one fact"
        raise ParameterError(f"facts must have {limit}, got {len(facts)}", remedy)
    new_facts = [_new_fact(fact, f"fact {number}") for number, fact in enumerate(facts, 1)]
    others = _number(body.get("others", FOLD_IN_OTHERS), "others", 0, 1)
    top = int(_number(body.get("top", 5), "top", 1, MAX_PREDICTIONS, whole=True))
    return {"name": name, "facts": new_facts, "others": others, "k": top}


def _new_fact(fact: Any, what: str) -> NewFact:
    _check_keys(fact, ITEM, what)
    if fact["role"] not in ROLES:
        message = f"{what}: role must be subject or object, got {str(fact['role'])[:80]!r}"
        raise ParameterError(message, "give subject or object")
    relation, partner = (_text(fact[key], f"{what}: {key}") for key in ("relation", "partner"))
    return NewFact(relation, fact["role"], partner)


def _check_keys(value: Any, schema: dict[str, Any], what: str) -> None:
    if not isinstance(value, dict):
        raise ParameterError(f"{what} must be an object", f"give {', '.join(schema['required'])}")
    for name in schema["required"]:
        if name not in value:
            raise ParameterError(f"{what} has no {name}", f"give {', '.join(schema['required'])}")
    for name in value:
        if name not in schema["properties"]:
            message = f"{what} has an unknown key {name[:80]!r}"
            raise ParameterError(message, f"remove it; the keys are {', '.join(schema['properties'])}")


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME_CHARACTERS:
        message = f"{what} must be a string, got {str(value)[:80]!r}"
        raise ParameterError(message, f"give 1 to {MAX_NAME_CHARACTERS} characters")
    return value


def _number(value: Any, what: str, minimum: int, maximum: int, *, whole: bool = False) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)  # of any number of digits
    if not is_number or not minimum <= value <= maximum or (whole and value != int(value)):
        limits = f"from {minimum} to {maximum}"
        message = f"{what} must be {limits}, got {str(value)[:80]!r}"
        raise ParameterError(message, f"give a {'whole ' if whole else ''}number {limits}")
    return float(value)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "/api/search",
        "Names that contain a text: exact matches first, then prefixes, then beginnings of words, then any part.",
        Explorer.search,
        SearchResult,
        (
            Parameter("q", "A part of the name.", required=True),
            _top("Number of results.", 10, 100),
            Parameter("kind", "What to search.", default="entity", choices=("entity", "relation")),
        ),
    ),
    Endpoint(
        "/api/entity",
        "Known and predicted facts of an entity, one section per relation and role.",
        Explorer.entity,
        EntityPage,
        (
            ENTITY,
            _top("Number of predictions per section.", 5, MAX_PREDICTIONS),
            Parameter("sections", "Number of sections, most informative first.", int, 24, minimum=1, maximum=10_000),
        ),
        (404,),
    ),
    Endpoint(
        "/api/ask",
        "The best answers to a question: give two of subject, relation and object.",
        Explorer.ask,
        Answers,
        (
            Parameter("subject", "Subject of the question."),
            Parameter("relation", "Relation of the question."),
            Parameter("object", "Object of the question."),
            _top("Number of answers.", 10),
            Parameter(
                "known",
                "Known answers: mark them, omit them, or return only them.",
                default="mark",
                choices=("mark", "omit", "only"),
            ),
        ),
        (404, 409),
    ),
    Endpoint(
        "/api/fact",
        "Score and probability of one fact, and whether it is known.",
        Explorer.fact,
        FactProbability,
        FACT,
        (404,),
    ),
    Endpoint(
        "/api/explain",
        "Why a fact is likely or unlikely: the known facts and the components that its score rests on.",
        Explorer.explain,
        Explanation,
        (*FACT, _top("Number of known facts.", 5, 20)),
        (404, 409),
        slow="explain",
    ),
    Endpoint(
        "/api/similar",
        "The entities for which the model predicts most nearly the same facts.",
        Explorer.similar,
        SimilarEntities,
        (ENTITY, _top("Number of entities.", 10)),
        (404,),
    ),
    Endpoint(
        "/api/fold-in",
        "Predicted facts of an entity that is not in the model, from a few facts about it. Nothing is stored.",
        Explorer.fold_in,
        NewEntityPage,
        statuses=(404, 409),
        body=NEW_ENTITY,
        read_body=read_new_entity,
        slow="fold-in",
    ),
    Endpoint(
        "/api/fold-in/explain",
        "Why a fact of an entity that is not in the model is likely or unlikely.",
        Explorer.explain_new,
        Explanation,
        statuses=(404, 409),
        body=EXPLAINED_NEW_FACT,
        read_body=read_explained_new_fact,
        slow="fold-in",
    ),
    Endpoint(
        "/api/duplicates",
        "Pairs of entities that may be the same, the likeliest first.",
        lambda explorer, start, count: explorer.duplicates.page(start, count),
        DuplicatesPage,
        _page("pair", 25),
        (409,),
        in_background=True,
    ),
    Endpoint(
        "/api/missing",
        "The likeliest facts that are not known, of all relations and entities.",
        lambda explorer, start, count: explorer.missing.page(start, count),
        MissingPage,
        _page("fact", 25),
        (409,),
        in_background=True,
    ),
    Endpoint(
        "/api/review",
        "Write down whether a fact is true, if the server was started with a file for that.",
        Explorer.decide,
        ReviewedFact,
        statuses=(404, 409),
        body=DECISION,
        read_body=read_decision,
    ),
    Endpoint("/api/relations", "All relations.", Explorer.relations, RelationList),
    Endpoint(
        "/api/groups",
        "Groups of similar entities, and the facts that are typical of each group.",
        lambda explorer: explorer.map.groups(),
        GroupList,
        in_background=True,
    ),
    Endpoint(
        "/api/group",
        "One group and one page of its members; give number or entity.",
        Explorer.group,
        GroupPage,
        (
            Parameter("number", "Number of the group, from 0.", int, minimum=0, maximum=65_534),
            Parameter("entity", "Name of a member."),
            *_page("member", 100),
        ),
        (404,),
        in_background=True,
    ),
    Endpoint(
        "/api/map",
        "The layouts that can place the entities on a plane.",
        lambda explorer: explorer.map.layouts(),
        MapInfo,
    ),
    Endpoint(
        "/api/map/points",
        "x and y of each entity in order of their ids: little-endian float32 from −1 to 1.",
        lambda explorer, method: explorer.map.points(method),
        bytes,
        (Parameter("method", "The layout.", default="pca", choices=METHODS),),
        in_background=True,
    ),
    Endpoint(
        "/api/map/groups",
        "Group number of each entity in order of their ids: little-endian uint16, 65535 for none.",
        lambda explorer: explorer.map.group_numbers(),
        bytes,
        in_background=True,
    ),
    Endpoint(
        "/api/names", "Names of entities in order of their ids.", Explorer.names, NamePage, _page("name", 1000, 10_000)
    ),
    Endpoint("/api/model", "What the model is, how it was fitted, and what it can answer.", Explorer.model, ModelInfo),
    Endpoint(
        "/api/quality",
        "Quality and calibration of the model on the test facts, or else on the known facts.",
        Explorer.quality,
        MeasuredQuality,
        statuses=(409,),
        in_background=True,
    ),
)
