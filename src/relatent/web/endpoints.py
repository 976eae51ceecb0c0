"""The endpoints of the API: what each takes, and which question of the explorer answers it."""

from __future__ import annotations

import math
from typing import Any

from ..analysis.answers import Answers
from ..analysis.explain import Explanation
from ..analysis.projection import METHODS
from .openapi import LONGEST_NAME, Endpoint, Parameter, ValueProblem, Values
from .views import (
    Alike,
    Entity,
    Explorer,
    Found,
    Groups,
    Listed,
    Map,
    Measured,
    Members,
    Model,
    Newcomer,
    NewFact,
    OneFact,
    Relations,
)

MOST_ANSWERS = 1000
MOST_FACTS = 200  # of a newcomer
ROLES = ("subject", "object")


def _count(name: str, about: str, default: int, most: int = MOST_ANSWERS) -> Parameter:
    return Parameter(name, about, int, default, least=1, most=most)


def _start() -> Parameter:
    return Parameter("start", "The first to give, from 0.", int, 0, least=0, most=2**31 - 1)


def _place(name: str, about: str, *, required: bool = False) -> Parameter:
    return Parameter(name, about, required=required)


ONE_FACT = (
    _place("subject", "The fact's subject.", required=True),
    _place("relation", "Its relation.", required=True),
    _place("object", "Its object.", required=True),
)
NEW_ENTITY: dict[str, Any] = {
    "type": "object",
    "required": ["name", "facts"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME, "description": "A name that is new."},
        "facts": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_FACTS,
            "items": {
                "type": "object",
                "required": ["relation", "role", "partner"],
                "additionalProperties": False,
                "properties": {
                    "relation": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
                    "role": {"type": "string", "enum": list(ROLES), "description": "The newcomer's."},
                    "partner": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
                },
            },
        },
        "others": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": 0.1,
            "description": "How much what is not listed counts as false: 1 if all facts are there, near 0 if few are.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 5},
    },
}


def read_new_entity(body: Any) -> Values:
    """The posted newcomer, checked against its schema."""
    _keys(body, NEW_ENTITY, "the body")
    name, facts = _text(body["name"], "name"), body["facts"]
    if not isinstance(facts, list):
        raise ValueProblem(f"facts must be a list, got {str(facts)[:80]!r}", f"give 1 to {MOST_FACTS} of them")
    if not 1 <= len(facts) <= MOST_FACTS:
        limit = f"at most {MOST_FACTS} facts" if facts else "at least one fact"
        raise ValueProblem(f"facts must have {limit}, got {len(facts)}", f"give 1 to {MOST_FACTS} of them")
    read = []
    for number, fact in enumerate(facts, 1):
        _keys(fact, NEW_ENTITY["properties"]["facts"]["items"], f"fact {number}")
        if fact["role"] not in ROLES:
            told = f"fact {number}: role must be subject or object, got {str(fact['role'])[:80]!r}"
            raise ValueProblem(told, "give subject or object")
        texts = (_text(fact[part], f"fact {number}: {part}") for part in ("relation", "partner"))
        relation, partner = texts
        read.append(NewFact(relation, fact["role"], partner))
    others, limit = body.get("others", 0.1), body.get("limit", 5)
    if not _is_number(others) or not 0 <= others <= 1:
        raise ValueProblem(f"others must be from 0 to 1, got {str(others)[:80]!r}", "give a number from 0 to 1")
    if not _is_number(limit) or limit != int(limit) or not 1 <= limit <= 50:
        raise ValueProblem(f"limit must be from 1 to 50, got {str(limit)[:80]!r}", "give a whole number from 1 to 50")
    return {"name": name, "facts": read, "others": float(others), "limit": int(limit)}


def _keys(held: Any, schema: dict[str, Any], what: str) -> None:
    if not isinstance(held, dict):
        raise ValueProblem(f"{what} must be an object", f"give {', '.join(schema['required'])}")
    for name in schema["required"]:
        if name not in held:
            raise ValueProblem(f"{what} has no {name}", f"give {', '.join(schema['required'])}")
    for name in held:
        if name not in schema["properties"]:
            raise ValueProblem(
                f"{what} has an unknown {name[:80]!r}", f"leave it out; {what} takes {', '.join(schema['properties'])}"
            )


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        raise ValueProblem(f"{what} must be a text, got {str(value)[:80]!r}", f"give 1 to {LONGEST_NAME} letters")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "/api/search",
        "Names that hold what was typed: equal ones first, then beginnings, words, parts.",
        Explorer.search,
        Found,
        (
            _place("q", "A part of the name.", required=True),
            _count("limit", "How many at most.", 10, 100),
            Parameter("kind", "Whose names.", default="entity", choices=("entity", "relation")),
        ),
    ),
    Endpoint(
        "/api/entity",
        "What is known and what is likely of an entity, in both roles of every relation.",
        Explorer.entity,
        Entity,
        (
            _place("name", "The entity.", required=True),
            _count("limit", "Predictions a section.", 5, 50),
            _count("sections", "Sections, the most telling first.", 24, 10_000),
        ),
        (404,),
    ),
    Endpoint(
        "/api/ask",
        "The best answers for the one of three places that is left open.",
        Explorer.ask,
        Answers,
        (
            _place("subject", "Given subject."),
            _place("relation", "Given relation."),
            _place("object", "Given object."),
            _count("k", "How many answers.", 10),
            Parameter(
                "known",
                "Known answers are marked, left out, or they alone are given.",
                default="mark",
                choices=("mark", "omit", "only"),
            ),
        ),
        (404, 409),
    ),
    Endpoint(
        "/api/fact",
        "How likely one fact is, and whether it is known.",
        Explorer.fact,
        OneFact,
        ONE_FACT,
        (404,),
    ),
    Endpoint(
        "/api/explain",
        "Why a fact is likely or not: the known facts that carry it, and its components.",
        Explorer.explain,
        Explanation,
        (
            *ONE_FACT,
            _count("count", "How many reasons.", 5, 20),
        ),
        (404, 409),
    ),
    Endpoint(
        "/api/similar",
        "Entities of which the model says nearly the same.",
        Explorer.similar,
        Alike,
        (_place("name", "The entity.", required=True), _count("k", "How many.", 10)),
        (404,),
    ),
    Endpoint(
        "/api/fold-in",
        "What is likely of an entity that the model does not know, from a few facts. Nothing is kept.",
        Explorer.fold_in,
        Newcomer,
        statuses=(404, 409),
        body=NEW_ENTITY,
        read_body=read_new_entity,
    ),
    Endpoint("/api/relations", "All relations.", Explorer.relations, Relations),
    Endpoint(
        "/api/groups",
        "Groups of entities that belong together, and what is typical of each.",
        Explorer.groups,
        Groups,
        takes_long=True,
    ),
    Endpoint(
        "/api/group",
        "One group and a page of its members, by its number or by one of them.",
        Explorer.group,
        Members,
        (
            Parameter("number", "The group's number, from 0.", int, least=0, most=65_534),
            _place("entity", "A member."),
            _start(),
            _count("count", "How many members.", 100),
        ),
        (404,),
        takes_long=True,
    ),
    Endpoint("/api/map", "How the entities can be laid out on a plane.", Explorer.map, Map),
    Endpoint(
        "/api/map/points",
        "x and y of each entity in the order of ids: little-endian float32, within −1 and 1.",
        Explorer.points,
        bytes,
        (Parameter("method", "How they are laid out.", default="pca", choices=METHODS),),
        takes_long=True,
    ),
    Endpoint(
        "/api/map/groups",
        "The group of each entity in the order of ids: little-endian uint16, 65535 for none.",
        Explorer.labels,
        bytes,
        takes_long=True,
    ),
    Endpoint(
        "/api/names",
        "Names of entities by id.",
        Explorer.names,
        Listed,
        (_start(), _count("count", "How many.", 1000, 10_000)),
    ),
    Endpoint("/api/model", "What the model is, how it was made, and what can be asked of it.", Explorer.model, Model),
    Endpoint(
        "/api/quality",
        "How good the model is on the test facts, or else on the known ones, and whether its probabilities hold.",
        Explorer.quality,
        Measured,
        statuses=(409,),
        takes_long=True,
    ),
)
