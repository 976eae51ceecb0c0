"""The API said once: each endpoint's parameters are both its parser and its OpenAPI description.

Answers are described by their types (`schema_of`), so the description cannot lag behind the code.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import __version__

LONGEST_NAME = 2000  # letters
Values = Mapping[str, Any]


class ValueProblem(ValueError):  # noqa: N818  (it is told to the client, with its remedy)
    """A value that does not fit; `remedy` says what would."""

    def __init__(self, message: str, remedy: str):
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class Parameter:
    """One value of a query."""

    name: str
    about: str
    kind: type = str  # str or int
    default: Any = None
    required: bool = False
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()

    def read(self, text: str | None) -> Any:
        """The value of a text; what is wrong with it is said in one line."""
        if text is None:
            if self.required:
                raise ValueProblem(f"{self.name} is missing", f"add {self.name}=…: {self.about}")
            return self.default
        if not text:
            raise ValueProblem(
                f"{self.name} is empty", "give a value" if self.required else "give a value or leave it out"
            )
        if self.kind is int:
            return self._number(text)
        if self.choices and text not in self.choices:
            choices = f"one of {', '.join(self.choices)}"
            raise ValueProblem(f"{self.name} must be {choices}, got {text[:80]!r}", f"give {choices}")
        if len(text) > LONGEST_NAME:
            raise ValueProblem(f"{self.name} has {len(text)} letters", f"give 1 to {LONGEST_NAME}")
        return text

    def _number(self, text: str) -> int:
        digits = text.removeprefix("-")
        value = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 12 else None
        if value is None or not self.least <= value <= self.most:
            limits = f"from {self.least} to {self.most}"
            raise ValueProblem(f"{self.name} must be {limits}, got {text[:80]!r}", f"give a whole number {limits}")
        return value

    def described(self) -> dict[str, Any]:
        """As OpenAPI says it."""
        schema: dict[str, Any] = {"type": "string"} if self.kind is str else {"type": "integer"}
        if self.kind is int:
            schema |= {"minimum": self.least, "maximum": self.most}
        elif self.choices:
            schema["enum"] = list(self.choices)
        else:
            schema |= {"minLength": 1, "maxLength": LONGEST_NAME}
        if self.default is not None:
            schema["default"] = self.default
        return {
            "name": self.name,
            "in": "query",
            "required": self.required,
            "description": self.about,
            "schema": schema,
        }


@dataclass(frozen=True)
class Endpoint:
    """A path, what it takes, what it gives, and the function behind it."""

    path: str
    summary: str
    call: Callable[..., Any]  # (explorer, **values)
    answer: Any  # a NamedTuple, or bytes
    parameters: tuple[Parameter, ...] = ()
    statuses: tuple[int, ...] = ()  # of errors, beside those that any endpoint may have
    takes_long: bool = False  # 202 with the progress until the answer is there
    body: Any = None  # the JSON schema of what is posted; None: GET
    read_body: Callable[[Any], Values] | None = None

    @property
    def method(self) -> str:
        """GET or POST."""
        return "GET" if self.body is None else "POST"

    def read_query(self, query: Mapping[str, list[str]]) -> dict[str, Any]:
        """Values of all parameters; unknown and repeated ones are refused."""
        known = {one.name for one in self.parameters}
        for name, values in query.items():
            if name not in known:
                takes = ", ".join(sorted(known)) or "no parameters"
                raise ValueProblem(f"there is no parameter {name[:80]!r}", f"{self.path} takes {takes}")
            if len(values) > 1:
                raise ValueProblem(f"{name} is given {len(values)} times", "give it once")
        return {one.name: one.read(query.get(one.name, [None])[0]) for one in self.parameters}


class ErrorBody(NamedTuple):
    """What went wrong, and what to do."""

    code: str
    message: str
    remedy: str


STATUSES = {
    400: "The request is malformed, or names a foreign host.",
    404: "There is no such entity, relation, group or page; `close` has names that may have been meant.",
    405: "The path has another method.",
    409: "The server was started without the data, or with a model of another kind than this needs.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "A value is missing or does not fit.",
    500: "A fault of the server's own; its log has the details.",
    503: "The answer took too long, or too many wait before it; try again.",
}


def described(endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    """The OpenAPI document."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths[endpoint.path] = {endpoint.method.lower(): _operation(endpoint, schemas)}
    schema_of(ErrorBody, schemas)
    schemas["ErrorBody"]["properties"]["close"] = {"type": "array", "items": {"type": "string"}}
    schemas["Error"] = {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"$ref": "#/components/schemas/ErrorBody"}},
        "additionalProperties": False,
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "relatent",
            "version": __version__,
            "description": "A model's answers by name. Every page of the explorer shows what one of these gives.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    if endpoint.answer is bytes:
        content: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    else:
        content = {"application/json": {"schema": schema_of(endpoint.answer, schemas)}}
    responses: dict[str, Any] = {"200": {"description": "The answer.", "content": content}}
    if endpoint.takes_long:
        from .background import Working

        working = {"application/json": {"schema": schema_of(Working, schemas)}}
        responses["202"] = {"description": "Not there yet: how far it is. Ask again.", "content": working}
    posted = {400, 413, 415} if endpoint.body else set()
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for status in sorted({400, 405, 422, 500, 503} | posted | set(endpoint.statuses)):
        responses[str(status)] = {"description": STATUSES[status], "content": error}
    found: dict[str, Any] = {
        "operationId": endpoint.path.removeprefix("/api/").replace("/", "-"),
        "summary": endpoint.summary,
        "parameters": [one.described() for one in endpoint.parameters],
        "responses": responses,
    }
    if endpoint.body:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": endpoint.body}}}
    return found


# --- schemas from types

PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def schema_of(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a type made of NamedTuples, lists, dictionaries and plain values."""
    if kind in PLAIN:
        return dict(PLAIN[kind])
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return {"type": "array", "items": schema_of(inner[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(inner[1], schemas)}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [schema_of(one, schemas) for one in inner]}
    if kind.__name__ not in schemas:
        schemas[kind.__name__] = {}  # a type may hold itself
        hints = typing.get_type_hints(kind)
        schemas[kind.__name__] = {
            "type": "object",
            "description": (kind.__doc__ or "").strip(),
            "required": list(hints),
            "properties": {name: schema_of(hint, schemas) for name, hint in hints.items()},
        }
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def plain(value: Any) -> Any:
    """An answer as JSON values."""
    if hasattr(value, "_asdict"):
        return {name: plain(one) for name, one in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return value
