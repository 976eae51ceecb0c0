"""Checks of numbers that users give as parameters."""

from __future__ import annotations

import numpy as np

from .errors import InputError

MAX_PENALTY = 1e18  # single precision holds its square


def check_count(name: str, value: object) -> None:
    """Raise InputError unless the parameter is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")


def check_penalty(name: str, value: object) -> None:
    """Raise InputError unless the parameter is a finite number of at least 0, and not too large."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value < 0:  # type: ignore[operator, call-overload]
        raise InputError(f"{name} must be a finite number of at least 0, got {value!r}")
    if value > MAX_PENALTY:  # type: ignore[operator]
        raise InputError(f"{name} must be at most {MAX_PENALTY:g}, got {value!r}")
