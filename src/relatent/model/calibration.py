"""`Calibration`: from the score of a cell, and what is known of its two ends, to the probability that it is true.

    log-odds = line_k(θ) + shift_k[has the subject another answer, has the object another answer]

`line_k` rises with θ, linear between knots and beyond them. Where a question has one answer (`one_answer`: a place of
birth) and none is known, its candidates compete: with odds o_j = exp(log-odds), p_j = o_j / (1 + Σ o), summed over the
candidates that are answers to other questions, or over all if an answer belongs to one question. A cell of two such
questions has the smaller of both probabilities.

It is learned by `relatent.fit.calibration`, from facts that a fit did not have. The probability is that of a cell which
is not listed, if the stated share of the true facts is missing; of a listed cell, what it would be if it were not
listed. A cell where nobody looked (unobserved) was not false in the fit, so its log-odds are intercept_k + slope_k · x
(`masked`), where x are those of the loss, or the score itself where patterns have been weighed (`Candidates`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Matrix, Vector
from ..errors import InputError

N_KINDS = 4  # 2 · (the subject has another answer) + (the object has another answer)
MIN_GAP = 1e-9  # between scores of knots


@dataclass(frozen=True, eq=False)
class Calibration:
    """Log-odds by score, and by what the ends of a cell have in the relation.

    >>> line = Calibration.of_lines([([0.0, 1.0], [-2.0, 0.0])])
    >>> line.log_odds(np.array([0.5, 2.0]), 0, np.array([0, 0])).tolist()
    [-1.0, 2.0]
    """

    scores: NDArray[np.float64]  # (K, M) of the knots, rising; unused places at the end of a row are NaN
    values: NDArray[np.float64]  # (K, M) log-odds at the knots, rising
    shifts: NDArray[np.float64]  # (K, 4) by kind
    one_answer: Mask  # (K, 2) whether the questions (subject, k, ?) and (?, k, object) have one answer
    base_rates: Vector  # (K,) share of true ones that is expected among the unlisted cells
    unobserved: float  # what is added to the log-odds of a cell that is unobserved, if the loss gives none
    masked: Matrix  # (K, 2) intercept and slope of the log-odds of unobserved cells
    missing: float  # share of the true facts that are assumed not to be listed
    is_assumed: bool  # whether nobody said that share
    heldout_facts: int  # that it was learned from
    expected: float  # missing facts

    def __post_init__(self) -> None:
        K = len(self.scores)
        shapes = {"values": self.scores.shape, "shifts": (K, N_KINDS), "one_answer": (K, 2), "masked": (K, 2)}
        for name, shape in shapes.items():
            if (found := getattr(self, name).shape) != shape:
                raise InputError(f"{name} of a calibration must have shape {shape}, got {found}")
        filled = np.isfinite(self.scores)
        is_padding = np.isnan(self.scores) & np.isnan(self.values)
        counts = filled.sum(axis=1)
        in_front = np.arange(self.scores.shape[1]) < counts[:, None]
        if not (counts > 0).all() or (filled != in_front).any() or not (is_padding | np.isfinite(self.values)).all():
            raise InputError("each relation of a calibration needs knots, which are finite numbers")
        within = filled[:, 1:]
        if (np.diff(self.scores, axis=1)[within] <= 0).any() or (np.diff(self.values, axis=1)[within] < 0).any():
            raise InputError("scores and log-odds of a calibration must rise from knot to knot")
        if not (np.isfinite(self.shifts).all() and np.isfinite(self.base_rates).all() and np.isfinite(self.unobserved)):
            raise InputError("shifts and base rates of a calibration must be finite numbers")
        if not np.isfinite(self.masked).all() or (self.masked[:, 1] < 0).any():
            raise InputError("log-odds of unobserved cells must be finite, and rise with the score")
        if len(self.base_rates) != K or not 0 < self.missing < 1:
            raise InputError(f"a calibration needs {K} base rates and a share of missing facts between 0 and 1")

    @classmethod
    def of_lines(cls, lines: list[tuple[list[float], list[float]]], **given: Any) -> Calibration:
        """A calibration with knots (scores, log-odds) per relation, and nothing else unless it is given."""
        K, M = len(lines), max(len(scores) for scores, _ in lines)
        knots = np.full((2, K, M), np.nan)
        for k, line in enumerate(lines):
            knots[:, k, : len(line[0])] = line
        usual: dict[str, Any] = {
            "shifts": np.zeros((K, N_KINDS)),
            "one_answer": np.zeros((K, 2), bool),
            "base_rates": np.full(K, 0.01),
            "unobserved": 0.0,
            "masked": np.tile([0.0, 1.0], (K, 1)),
            "missing": 0.1,
            "is_assumed": True,
            "heldout_facts": 0,
            "expected": 0.0,
        }
        return cls(*knots, **(usual | given))

    def line(self, theta: Vector, relation: int) -> Vector:
        """Log-odds by score alone, in double precision."""
        x, y = self._knots(relation)
        theta = np.asarray(theta, np.float64)
        if len(x) == 1:
            return np.full(theta.shape, y[0])
        found: Vector = np.interp(theta, x, y)
        low, high = (y[1] - y[0]) / (x[1] - x[0]), (y[-1] - y[-2]) / (x[-1] - x[-2])
        if low:  # not for a flat end, where θ = −∞ would give 0 · ∞
            found += low * np.minimum(theta - x[0], 0.0)
        if high:
            found += high * np.maximum(theta - x[-1], 0.0)
        return found

    def score_at(self, log_odds: Vector, relation: int) -> Vector:
        """The score at which a line that rises has these log-odds."""
        x, y = self._knots(relation)
        value = np.asarray(log_odds, np.float64)
        low, high = (x[1] - x[0]) / (y[1] - y[0]), (x[-1] - x[-2]) / (y[-1] - y[-2])
        found: Vector = np.interp(value, y, x)
        found += low * np.minimum(value - y[0], 0.0) + high * np.maximum(value - y[-1], 0.0)
        return found

    def rises(self, relation: int) -> bool:
        """Whether a higher score has higher log-odds everywhere."""
        _, y = self._knots(relation)
        return len(y) > 1 and bool((np.diff(y) > 0).all())

    def _knots(self, relation: int) -> tuple[Vector, Vector]:
        n = int(np.count_nonzero(np.isfinite(self.scores[relation])))
        return self.scores[relation, :n], self.values[relation, :n]

    def log_odds(self, theta: Vector, relation: int, kinds: Ids) -> Vector:
        """Log-odds of cells of one relation before their questions are looked at."""
        found: Vector = self.line(theta, relation) + self.shifts[relation, kinds]
        return found

    def describe(self) -> str:
        """One sentence: which cells the probabilities are for, and what they assume."""
        missing = f"{self.missing:.3g} of the true facts, about {max(1, round(self.expected)):,}, are missing"
        remedy = "give the share to `fit` or `calibrate` if you know it"
        prior = f"it is assumed that {missing}; {remedy}" if self.is_assumed else missing
        return f"probabilities are those of facts not listed: {prior}"
