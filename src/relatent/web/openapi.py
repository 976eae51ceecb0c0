"""Endpoints, their parameters and the OpenAPI document.

A `Parameter` both parses a value and describes it; response schemas are read off the result types (`schema_of`).
So the document always matches the code.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import __version__
from .background import InProgress
from .errors import ParameterError

MAX_NAME_CHARACTERS = 2000
MAX_INTEGER_DIGITS = 11
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a query; `argument` is the name of the Python argument that takes it, if different."""

    name: str
    description: str
    type: type = str  # str or int
    default: Any = None
    required: bool = False
    minimum: int = 0
    maximum: int = 0
    choices: tuple[str, ...] = ()
    argument: str = ""

    def read(self, text: str | None) -> Any:
        """The parsed value."""
        if text is None:
            if self.required:
                raise ParameterError(f"{self.name} is missing", f"add {self.name}=…: {self.description}")
            return self.default
        if not text:
            raise ParameterError(
                f"{self.name} is empty", "give a value" if self.required else "give a value or leave it out"
            )
        if self.type is int:
            return self._read_integer(text)
        if self.choices and text not in self.choices:
            choices = f"one of {', '.join(self.choices)}"
            raise ParameterError(f"{self.name} must be {choices}, got {text[:80]!r}", f"give {choices}")
        if len(text) > MAX_NAME_CHARACTERS:
            raise ParameterError(
                f"{self.name} has {len(text)} characters", f"give at most {MAX_NAME_CHARACTERS} characters"
            )
        return text

    def _read_integer(self, text: str) -> int:
        digits = text.removeprefix("-")
        is_integer = digits.isascii() and digits.isdigit() and len(digits) <= MAX_INTEGER_DIGITS
        if not is_integer or not self.minimum <= int(text) <= self.maximum:
            limits = f"from {self.minimum} to {self.maximum}"
            raise ParameterError(f"{self.name} must be {limits}, got {text[:80]!r}", f"give a whole number {limits}")
        return int(text)

    def to_openapi(self) -> dict[str, Any]:
        """The parameter in the OpenAPI document."""
        schema: dict[str, Any] = {"type": "string"} if self.type is str else {"type": "integer"}
        if self.type is int:
            schema |= {"minimum": self.minimum, "maximum": self.maximum}
        elif self.choices:
            schema["enum"] = list(self.choices)
        else:
            schema |= {"minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
        if self.default is not None:
            schema["default"] = self.default
        return {
            "name": self.name,
            "in": "query",
            "required": self.required,
            "description": self.description,
            "schema": schema,
        }


@dataclass(frozen=True)
class Endpoint:
    """A path, its parameters, its result type, and the function that answers."""

    path: str
    summary: str
    call: Callable[..., Any]  # (explorer, **arguments)
    result: Any  # a NamedTuple, or bytes
    parameters: tuple[Parameter, ...] = ()
    statuses: tuple[int, ...] = ()  # of errors that only some endpoints have
    in_background: bool = False  # 202 with the progress until the result is computed
    slow: str = ""  # the kind of slow work, which has threads of its own, so that others need not wait for it
    body: Any = None  # JSON schema of the body of a POST request; None: GET
    read_body: Callable[[Any], Arguments] | None = None

    @property
    def method(self) -> str:
        """GET or POST."""
        return "GET" if self.body is None else "POST"

    def read_query(self, query: Mapping[str, list[str]]) -> Arguments:
        """The arguments of the call; unknown and repeated parameters are refused."""
        names = {parameter.name for parameter in self.parameters}
        for name, values in query.items():
            if name not in names:
                accepted = ", ".join(sorted(names)) or "no parameters"
                raise ParameterError(f"unknown parameter {name[:80]!r}", f"{self.path} accepts {accepted}")
            if len(values) > 1:
                raise ParameterError(f"{name} is given {len(values)} times", "give it once")
        return {
            parameter.argument or parameter.name: parameter.read(query.get(parameter.name, [None])[0])
            for parameter in self.parameters
        }


class ErrorBody(NamedTuple):
    """What happened, and what to do."""

    code: str
    message: str
    remedy: str


STATUSES = {
    400: "The request is malformed, or its Host header is not a name of this server.",
    401: "The server was started with a token, and the request does not have it.",
    404: "No such entity, relation, group or page; `close` lists similar names.",
    405: "The path does not support this method.",
    409: "The server was started without the data, or with another kind of model than the request needs.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "A value is missing or invalid.",
    500: "The server failed; its log has the details.",
    503: "The request took too long, or too many requests are waiting; try again.",
}


def openapi_document(endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
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
            "description": "Answers of a model, by name. The pages of the explorer show results of these endpoints.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    if endpoint.result is bytes:
        content: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    else:
        content = {"application/json": {"schema": schema_of(endpoint.result, schemas)}}
    responses: dict[str, Any] = {"200": {"description": "The result.", "content": content}}
    if endpoint.in_background:
        progress = {"application/json": {"schema": schema_of(InProgress, schemas)}}
        responses["202"] = {"description": "Still being computed: the progress. Ask again.", "content": progress}
    body_statuses = {400, 413, 415} if endpoint.body else set()
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for status in sorted({400, 401, 405, 422, 500, 503} | body_statuses | set(endpoint.statuses)):
        responses[str(status)] = {"description": STATUSES[status], "content": error}
    operation: dict[str, Any] = {
        "operationId": endpoint.path.removeprefix("/api/").replace("/", "-"),
        "summary": endpoint.summary,
        "parameters": [parameter.to_openapi() for parameter in endpoint.parameters],
        "responses": responses,
    }
    if endpoint.body:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": endpoint.body}}}
    return operation


# --- schemas from types

PLAIN_TYPES: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def schema_of(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a type built from NamedTuples, lists, dictionaries and plain values."""
    if kind in PLAIN_TYPES:
        return dict(PLAIN_TYPES[kind])
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], schemas)}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [schema_of(member, schemas) for member in arguments]}
    if kind.__name__ not in schemas:
        schemas[kind.__name__] = {}  # ends the recursion of a type that contains itself
        hints = typing.get_type_hints(kind)
        schemas[kind.__name__] = {
            "type": "object",
            "description": (kind.__doc__ or "").strip(),
            "required": list(hints),
            "properties": {name: schema_of(hint, schemas) for name, hint in hints.items()},
        }
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
