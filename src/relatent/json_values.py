"""Values as JSON can hold them: NumPy numbers become Python's, NaN becomes null, named tuples become objects."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np


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
