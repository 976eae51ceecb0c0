"""Values as JSON can hold them: NumPy numbers become Python's, NaN becomes null, named tuples become objects.

`record` writes a dataclass as a JSON object, and `parsed` reads one that anybody may have written.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

MAX_SHOWN = 60  # characters of a wrong value in a message
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def to_json(value: Any) -> Any:
    """The value in terms of dict, list, str, int, float, bool and None; anything else by its `repr`."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(part) for key, part in value.items()}
    if hasattr(value, "_asdict"):
        return to_json(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (Sequence, set, frozenset)):
        return [to_json(part) for part in value]
    return repr(value)


def to_json_object(value: Any) -> dict[str, Any]:
    """`to_json` of a mapping, a named tuple or a dataclass."""
    found: dict[str, Any] = to_json(value)
    return found


def parse_json(text: str | bytes) -> Any:
    """Parse JSON as the standard has it: NaN and Infinity, which Python's parser accepts, raise ValueError."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def record(value: Any) -> Any:
    """A dataclass of JSON values, tuples and dataclasses as a JSON object, without fields that have their default."""
    if is_dataclass(value):
        given = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: record(part) for field, part in given if part != _default(field)}
    return [record(part) for part in value] if isinstance(value, tuple) else value


def parsed(kind: Any, value: Any, name: str) -> Any:
    """What `record` wrote, as an object of this kind; ValueError of one line with the name of the first wrong field.

    A kind is a dataclass, `tuple[kind, ...]`, `Mapping[str, kind]`, `kind | None`, bool, int, float, str, or Any for
    any JSON value. Fields that the dataclass does not have are ignored.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        _check_kind(value, dict, name, "an object")
        hints, names = _hints(kind), [field.name for field in fields(kind)]
        if missing := [field.name for field in fields(kind) if field.name not in value and _default(field) is MISSING]:
            raise ValueError(f"{name} has no {missing[0]}")
        return kind(**{part: parsed(hints[part], value[part], f"{name}.{part}") for part in names if part in value})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        _check_kind(value, list, name, "a list")
        return tuple(parsed(inner[0], part, f"{name}[{number}]") for number, part in enumerate(value))
    if origin is Mapping:
        _check_kind(value, dict, name, "an object")
        return {key: parsed(inner[1], part, f"{name}[{key!r:.60}]") for key, part in value.items()}
    if origin is UnionType:
        (some,) = (part for part in inner if part is not NoneType)
        return None if value is None else parsed(some, value, name)
    if kind is not Any:
        _check_scalar(kind, value, name)
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _check_kind(value: Any, kind: type, name: str, what: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {what}, got {_shown(value)}")


def _check_scalar(kind: type, value: Any, name: str) -> None:
    """Numbers are finite, and whole ones fit into 64 bits; true and false are no numbers."""
    is_right = isinstance(value, (int, float) if kind is float else kind)
    if kind in (int, float) and is_right:
        limit = sys.float_info.max if kind is float else (1 << 63) - 1
        is_right = not isinstance(value, bool) and -limit <= value <= limit
    if not is_right:
        raise ValueError(f"{name} must be {KINDS[kind]}, got {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):  # which may be too deep to print
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
