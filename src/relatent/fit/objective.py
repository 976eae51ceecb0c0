"""The penalised likelihood as a function of one vector: what an optimiser sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Matrix, Slices, Vector
from ..backend.protocol import Backend
from ..cells.cell_sum import Reduction
from ..distributed.workers import ALONE, Workers
from .penalties import Bound

Evaluator = Callable[..., Reduction]  # A, R, b, and whether the value is wanted


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

    def views(self, x: Any) -> Parameters:
        """The three, as views of the vector."""
        n, k, r = self
        return Parameters(
            x[: n * r].reshape(n, r), x[n * r : n * r + k * r * r].reshape(k, r, r), x[n * r + k * r * r :]
        )


class PenalisedLikelihood:
    """loss over cells + what large factors cost; the bias is not penalised, and stands still if there is none."""

    def __init__(
        self,
        evaluator: Evaluator,
        layout: Layout,
        penalty: Bound,
        *,
        bias: bool,
        backend: Backend,
        workers: Workers = ALONE,
        divided: bool = False,
    ):
        self.evaluator, self.layout, self.penalty, self.bias, self.backend = evaluator, layout, penalty, bias, backend
        self.workers, self.divided = workers, divided  # divided: each worker knows the penalty of its facts only

    def __call__(self, x: Any, *, value: bool = True) -> tuple[float, Any]:
        """The objective, NaN if it is not wanted, and its gradient."""
        A, R, b = self.layout.views(x)
        loss, dA, dR, db = self.evaluator(A, R, b, value=value)
        if self.divided:
            loss += self.penalty(A, R, dA, dR)
        loss, dA, dR, db = over_workers(Reduction(loss, dA, dR, db), self.workers, self.backend)
        gradient = self.backend.zeros(x.shape, x)
        parts = self.layout.views(gradient)
        for part, derivative in zip(parts, (dA, dR, db), strict=True):
            part[:] = derivative
        if not self.bias:
            parts.b[:] = 0
        if not self.divided:
            loss += self.penalty(A, R, parts.A, parts.R)
        return loss, gradient


def over_workers(part: Reduction, workers: Workers, backend: Backend) -> Reduction:
    """The sum of what each worker has summed, the same on all."""
    if workers.size == 1:
        return part
    value, *db = workers.sum(np.array([part.value, *part.db.tolist()], np.float64)).tolist()
    dA, dR = (workers.sum(backend.contiguous(array)) for array in (part.dA, part.dR))
    return Reduction(value, dA, dR, backend.from_numpy(np.array(db)))
