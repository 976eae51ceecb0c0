"""Losses and penalties as functions of one vector a, and their minimum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ..arrays import Matrix, Vector
from ..backend import gram_matrix as gram

MAX_NEWTON_STEPS = 50
MAX_HALVINGS = 30
MAX_EXACT_ROWS = 1024  # zeros summed exactly where a vector is solved for again and again; the rest is quadratic
NEWTON_TOLERANCE = 1e-9  # stop when the next step is expected to gain less than this fraction of the objective


class VectorPenalty(NamedTuple):
    """aᵀ Q a + cubic · ‖a‖₃³ + (a − mean)ᵀ P (a − mean) + constant."""

    Q: Matrix  # (r, r)
    cubic: float
    P: Matrix  # (r, r)
    mean: Vector  # (r,)
    constant: float
    of_moduli: bool = False  # ‖a‖₃ of r/2 complex numbers, whose real and imaginary parts are the halves of a

    def value(self, a: Vector) -> float:
        """The penalty at a."""
        d = a - self.mean
        cubes = np.sum(self._sizes(a) ** 3) / (2 if self.of_moduli else 1)  # the size of a number is in both halves
        return float(a @ self.Q @ a + self.cubic * cubes + d @ self.P @ d + self.constant)

    def slopes(self, a: Vector) -> tuple[Vector, Matrix]:
        """Gradient and Hessian at a."""
        size = self._sizes(a)
        gradient = 2 * (self.Q @ a + self.P @ (a - self.mean)) + 3 * self.cubic * a * size
        hessian = 2 * (self.Q + self.P)
        if self.cubic:  # of |z|³: 3 (|z| 1 + z zᵀ / |z|)
            direction = np.divide(a, size, out=np.zeros_like(a), where=size > 0)
            hessian += 3 * self.cubic * np.diag(size + a * direction)
            if self.of_moduli:
                half = len(a) // 2
                mixed = 3 * self.cubic * np.diag(a[:half] * direction[half:])
                hessian[:half, half:] += mixed
                hessian[half:, :half] += mixed
        return gradient, hessian

    def _sizes(self, a: Vector) -> Vector:
        """The modulus of the number that each entry belongs to."""
        return np.tile(np.hypot(*np.split(a, 2)), 2) if self.of_moduli else np.abs(a)


class SquaredLoss(NamedTuple):
    """aᵀ E a − 2 fᵀ a: Σ w (x − θ)² over all cells but for a constant."""

    E: Matrix  # (r, r)
    f: Vector  # (r,)
    V: Matrix  # (n, r) rows of the listed cells
    w: Vector  # (n,)

    def value(self, a: Vector) -> float:
        """The loss at a."""
        return float(a @ self.E @ a - 2 * (self.f @ a))

    def slopes(self, a: Vector) -> tuple[Vector, Matrix]:
        """Gradient and Hessian at a."""
        return 2 * (self.E @ a - self.f), 2 * self.E

    def newton_slopes(self, a: Vector) -> tuple[Vector, Matrix]:
        """Gradient and Hessian at a."""
        return self.slopes(a)

    def minima(self, penalties: Sequence[VectorPenalty], start: Vector) -> list[Vector]:
        """The minimum with each penalty; they differ in the mean and the constant only."""
        if penalties[0].cubic:
            return [newton(self, penalty, start) for penalty in penalties]
        inverse = gram.inverse(self.E + penalties[0].Q + penalties[0].P, 0.0)
        return [inverse @ (self.f + penalty.P @ penalty.mean) for penalty in penalties]

    def near(self, a: Vector, n: int) -> SquaredLoss:
        """The loss itself: it is of second order."""
        return self

    @staticmethod
    def cell_slopes(theta: Vector, x: Vector, w: Vector) -> tuple[Vector, Vector]:
        """First and second derivative of the loss of each cell by θ."""
        return 2 * w * (theta - x), 2 * w

    def without(self, cell: int) -> SquaredLoss:
        """The loss if a listed fact were false."""
        return self._replace(f=self.f - self.w[cell] * self.V[cell])


class LogisticLoss(NamedTuple):
    """Σ w [softplus(θ) − x θ] over rows, θ = V a + b, plus (a − origin)ᵀ [slope + curvature (a − origin) / 2]."""

    V: Matrix  # (n, r)
    b: Vector  # (n,)
    x: Vector  # (n,)
    w: Vector  # (n,)
    origin: Vector | float = 0.0
    slope: Vector | float = 0.0
    curvature: Matrix | float = 0.0

    def value(self, a: Vector) -> float:
        """The loss at a."""
        theta, d = self.V @ a + self.b, a - self.origin
        rest = d @ (self.slope + np.dot(self.curvature, d) / 2)
        return float(self.w @ (np.logaddexp(0, theta) - self.x * theta) + rest)

    def slopes(self, a: Vector) -> tuple[Vector, Matrix]:
        """Gradient and Hessian at a."""
        p, rest = expit(self.V @ a + self.b), self.slope + np.dot(self.curvature, a - self.origin)
        hessian = self.V.T @ ((self.w * p * (1 - p))[:, None] * self.V)
        return self.V.T @ (self.w * (p - self.x)) + rest, hessian + self.curvature

    def newton_slopes(self, a: Vector) -> tuple[Vector, Matrix]:
        """The gradient, and a Hessian for a step: of most rows, which have next to no curvature, its diagonal."""
        if len(self.x) <= 4 * MAX_EXACT_ROWS:
            return self.slopes(a)
        p, rest = expit(self.V @ a + self.b), self.slope + np.dot(self.curvature, a - self.origin)
        curvature = self.w * p * (1 - p)
        top = np.argpartition(-curvature, MAX_EXACT_ROWS)[:MAX_EXACT_ROWS]
        hessian = self.V[top].T @ (curvature[top, None] * self.V[top])
        curvature[top] = 0
        hessian[np.diag_indices_from(hessian)] += np.einsum("i,ij,ij->j", curvature, self.V, self.V)
        return self.V.T @ (self.w * (p - self.x)) + rest, hessian + self.curvature

    @staticmethod
    def cell_slopes(theta: Vector, x: Vector, w: Vector) -> tuple[Vector, Vector]:
        """First and second derivative of the loss of each cell by θ."""
        p = expit(theta)
        return w * (p - x), w * p * (1 - p)

    def near(self, a: Vector, n: int) -> LogisticLoss:
        """The loss with the first n rows, the MAX_EXACT_ROWS others of largest curvature at a, and a quadratic rest."""
        if len(self.x) <= n + MAX_EXACT_ROWS:
            return self
        curvature = self.cell_slopes(self.V @ a + self.b, self.x, self.w)[1]
        curvature[:n] = np.inf
        order = np.argpartition(-curvature, n + MAX_EXACT_ROWS)
        exact, rest = (
            LogisticLoss(*(column[np.sort(rows)] for column in self[:4]))
            for rows in np.split(order, [n + MAX_EXACT_ROWS])
        )
        return LogisticLoss(*exact[:4], a, *rest.slopes(a))

    def minima(self, penalties: Sequence[VectorPenalty], start: Vector) -> list[Vector]:
        """The minimum with each penalty."""
        found: list[Vector] = []
        for penalty in penalties:
            found.append(newton(self, penalty, found[-1] if found else start))
        return found

    def without(self, cell: int) -> LogisticLoss:
        """The loss if a listed fact, one of the first rows, were false."""
        return self._replace(x=np.where(np.arange(len(self.x)) == cell, 0.0, self.x))


def newton(loss: SquaredLoss | LogisticLoss, penalty: VectorPenalty, a: Vector) -> Vector:
    """argmin loss + penalty, from a; a step is halved until the objective falls."""
    value = loss.value(a) + penalty.value(a)
    for _ in range(MAX_NEWTON_STEPS):
        parts = loss.newton_slopes(a), penalty.slopes(a)
        gradient, hessian = (of_loss + of_penalty for of_loss, of_penalty in zip(*parts, strict=True))
        step = gram.inverse(hessian, 0.0) @ gradient
        gain = float(gradient @ step)  # twice the gain that the quadratic approximation promises
        if gain <= NEWTON_TOLERANCE * (abs(value) + NEWTON_TOLERANCE):
            break
        for _ in range(MAX_HALVINGS):
            new_value = loss.value(a - step) + penalty.value(a - step)
            if new_value <= value - gain / 10000:
                break
            step, gain = step / 2, gain / 2
        else:
            break
        a, value = a - step, new_value
    return a


def minimise(loss: SquaredLoss | LogisticLoss, penalties: Sequence[VectorPenalty], start: Vector) -> tuple[Vector, int]:
    """The lowest of the minima with each penalty, and the index of that penalty."""
    minima = loss.minima(penalties, start)
    if len(minima) == 1:
        return minima[0], 0
    values = [loss.value(a) + penalty.value(a) for a, penalty in zip(minima, penalties, strict=True)]
    lowest = int(np.argmin(values))
    return minima[lowest], lowest
