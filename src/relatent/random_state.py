"""What a `random_state` argument means: an int is a seed, a NumPy Generator is drawn from, None draws a new seed."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from .errors import InputError

RandomState: TypeAlias = int | np.random.Generator | None


def to_generator(random_state: RandomState) -> np.random.Generator:
    """The generator that a `random_state` argument asks for."""
    if not (random_state is None or isinstance(random_state, np.random.Generator) or _is_seed(random_state)):
        raise InputError(
            f"random_state must be a whole number of at least 0, a numpy Generator or None, got {random_state!r}"
        )
    return np.random.default_rng(random_state)


def to_seed(random_state: RandomState) -> int:
    """The seed that a `random_state` argument gives; drawn from a Generator, and at random for None."""
    generator = to_generator(random_state)
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(generator.integers(1 << 62))


def _is_seed(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 0
