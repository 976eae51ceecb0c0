"""Settings of a fit as JSON values, and back: an object such as `Adam(0.05)` is an object with its class as `type`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..errors import InputError
from ..json_values import parsed
from ..model.structure import STORED, Full
from .losses import LOSSES
from .optimisers import Adam, Lbfgs
from .penalties import PENALTIES

CLASSES: dict[str, Any] = {  # dataclasses, by the name that files have for them
    kind.__name__: kind for kind in (Adam, Lbfgs, Full, *LOSSES.values(), *PENALTIES.values(), *STORED.values())
}
BY_RELATION = "by relation"  # the type of a dictionary


def to_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON values. Of an object of another class only the name of the class remains.

    >>> from relatent.fit.penalties import N3
    >>> to_json({"rank": 9, "penalty": N3(0.01), "loss": {"likes": "hinge"}})["penalty"]
    {'type': 'N3', 'weight': 0.01}
    """
    return {name: _to_json(value) for name, value in settings.items()}


def from_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that `to_json` has written; InputError if one cannot be made again."""
    return {name: _from_json(name, value) for name, value in settings.items()}


def _to_json(value: object) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_to_json(getattr(part, "text", part)) for part in value]  # rules
    if isinstance(value, Mapping):
        return {"type": BY_RELATION, "values": {str(name): _to_json(part) for name, part in value.items()}}
    kind = type(value)
    if CLASSES.get(kind.__name__) is not kind:
        return {"type": f"{kind.__module__}.{kind.__qualname__}"}
    return {"type": kind.__name__, **{part.name: _to_json(getattr(value, part.name)) for part in fields(kind)}}


def _from_json(name: str, value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == BY_RELATION and isinstance(value.get("values"), dict):
        return {relation: _object(name, part) for relation, part in value["values"].items()}
    return _object(name, value)


def _in_lists(name: str, value: Any) -> Any:
    return _object(name, value) if isinstance(value, list) else value


def _object(name: str, value: Any) -> Any:
    """A number, a text, a list, or an object of a known class."""
    if isinstance(value, list):
        return [_object(name, part) for part in value]
    if not isinstance(value, dict):
        return value
    kind, given = value.get("type"), {part: _in_lists(name, inner) for part, inner in value.items() if part != "type"}
    found = CLASSES.get(kind) if isinstance(kind, str) else None
    if found is None or not set(given) <= {part.name for part in fields(found)}:
        what = f"{kind!r:.80}" if isinstance(kind, str) else "an object"
        raise InputError(f"the model was fitted with {name} of {what}, which its file does not hold; fit it again")
    try:
        return parsed(found, given, name)
    except ValueError as error:
        raise InputError(f"the model was fitted with settings that cannot be: {error}; fit it again") from None
