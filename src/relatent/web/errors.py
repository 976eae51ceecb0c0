"""Errors of the API: status, code, message and remedy, as a client receives them."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError, RelatentError

MAX_NAMES = 10  # listed in a message
SEE_API = "see /api for all endpoints"
NO_FACTS = "the model does not hold its facts"
GIVE_FACTS = "start the server with --known DATA"


class ApiError(Exception):
    """An error that is sent to the client; `close` lists similar names that exist."""

    def __init__(self, status: int, code: str, message: str, remedy: str, close: Sequence[str] | None = None):
        super().__init__(message)
        self.status, self.code, self.message, self.remedy, self.close = status, code, message, remedy, close


class NotFoundError(ApiError):
    """404: the model has no entity, relation or group of this name."""

    def __init__(self, kind: str, name: str, close: Sequence[str] = (), remedy: str = "see /api/search"):
        remedy = f"did you mean {' or '.join(close)}?" if close else f"{remedy}; {SEE_API}"
        super().__init__(404, f"unknown_{kind}", f"unknown {kind} {name!r}", remedy, close)


class AmbiguousNameError(ApiError):
    """422: a label of several names."""

    def __init__(self, kind: str, label: str, names: Sequence[str]):
        message = f"{label!r} is the label of {len(names)} names: {', '.join(names[:MAX_NAMES])}"
        super().__init__(422, f"ambiguous_{kind}", message, "give one of these names", names)


class UnavailableError(ApiError):
    """409: the request needs data, or a kind of model, that the server was not started with."""

    def __init__(self, message: str, remedy: str):
        super().__init__(409, "not_possible_here", message, remedy)


class ParameterError(ApiError):
    """422: a value is missing or invalid."""

    def __init__(self, message: str, remedy: str):
        super().__init__(422, "bad_value", message, remedy)


def api_error_of(error: Exception) -> ApiError | None:
    """The error as the client receives it; None for a bug, which must not reveal internals."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, InputError):  # "what happened; what to do"
        message, _, remedy = str(error).rpartition("; ")
        return ParameterError(message or remedy, remedy if message else SEE_API)
    return ParameterError(str(error), SEE_API) if isinstance(error, RelatentError) else None
