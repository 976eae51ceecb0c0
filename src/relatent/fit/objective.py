"""The penalised likelihood as a function of one vector: what an optimiser sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..arrays import Matrix, Slices, Vector
from ..cells.reduction import Reduction
from ..workers import ALONE, Workers

Evaluator = Callable[[Matrix, Slices, Vector], Reduction]


class Parameters(NamedTuple):
    """Views of one vector as A, R and b."""

    A: Matrix
    R: Slices
    b: Vector


class Layout(NamedTuple):
    """How A, R and b lie in one vector."""

    n: int
    k: int
    r: int

    def pack(self, A: Matrix, R: Slices, b: Vector, dtype: Any) -> Vector:
        """One vector of the three."""
        return np.concatenate([A.ravel(), R.ravel(), b]).astype(dtype)

    def views(self, x: Vector) -> Parameters:
        """The three, as views of the vector."""
        n, k, r = self
        return Parameters(
            x[: n * r].reshape(n, r), x[n * r : n * r + k * r * r].reshape(k, r, r), x[n * r + k * r * r :]
        )


class PenalisedLikelihood:
    """loss over cells + λ_A ‖A‖² + λ_R Σ_k ‖R_k‖²; the bias is not penalised, and stands still if there is none."""

    def __init__(
        self,
        evaluator: Evaluator,
        layout: Layout,
        *,
        l2_entities: float,
        l2_relations: float,
        bias: bool,
        workers: Workers = ALONE,
    ):
        self.evaluator, self.layout, self.bias, self.workers = evaluator, layout, bias, workers
        self.lambdas = (l2_entities, l2_relations)

    def __call__(self, x: Vector) -> tuple[float, Vector]:
        """The objective and its gradient."""
        A, R, b = self.layout.views(x)
        loss, dA, dR, db = over_workers(self.evaluator(A, R, b), self.workers)
        l2_entities, l2_relations = self.lambdas
        value = loss + l2_entities * sum_of_squares(A) + l2_relations * sum_of_squares(R)
        gradient = np.empty_like(x)
        for part, derivative, factor, l2 in zip(
            self.layout.views(gradient), (dA, dR, db), (A, R, b), (*self.lambdas, 0), strict=True
        ):
            np.multiply(factor, 2 * l2, out=part)
            part += derivative
        if not self.bias:
            self.layout.views(gradient).b[:] = 0
        return value, gradient


def over_workers(part: Reduction, workers: Workers) -> Reduction:
    """The sum of what each worker has summed, the same on all."""
    if workers.size == 1:
        return part
    value, *db = workers.sum(np.array([part.value, *part.db], np.float64))
    dA, dR = (workers.sum(np.ascontiguousarray(array)) for array in (part.dA, part.dR))
    return Reduction(float(value), dA, dR, np.array(db))


def sum_of_squares(array: Vector) -> float:
    """In float64, as objectives are."""
    return float(_sum_of_squares(array.reshape(-1)))


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def _sum_of_squares(values):  # type: ignore[no-untyped-def]
    """In float64: the line search compares objectives that differ in the seventh digit."""
    total = 0.0
    for i in range(len(values)):
        total += np.float64(values[i]) * np.float64(values[i])
    return total
