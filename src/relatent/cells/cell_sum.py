"""What every evaluator of the sum over all cells gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..arrays import Matrix, Slices, Vector

CellLoss = Callable[[Vector, Vector], tuple[Vector, Vector]]  # x, θ → value, slope


class Reduction(NamedTuple):
    """A sum over cells and its derivatives."""

    value: float
    dA: Matrix  # noqa: N815  (N, r)
    dR: Slices  # noqa: N815  (K, r, r)
    db: Vector  # (K,)
