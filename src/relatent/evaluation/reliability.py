"""Reliability of probabilities: of the cells with probability 70 %, are 70 % true?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import Mask, Vector
from ..errors import InputError
from ..result_tables import html_table, import_pandas, result_record

if TYPE_CHECKING:
    import pandas as pd

ABOVE = 0.05  # reports measure calibration on cells with a larger probability: nearly all others are false


@result_record
class Reliability(NamedTuple):
    """Cells in bins of about equal mass, in order of probability.

    >>> import numpy as np
    >>> Reliability(np.array([0.25, 0.75]), np.array([0.25, 0.5]), mass=np.array([1, 1])).error
    0.125
    """

    predicted: Vector  # (bins,) mean probability
    observed: Vector  # (bins,) fraction of true cells
    mass: Vector  # (bins,) cells, or the sum of their weights

    @property
    def error(self) -> float:
        """Expected calibration error: Σ mass · |predicted − observed| / Σ mass; NaN without cells."""
        gap = np.abs(self.predicted - self.observed)
        return float(np.average(gap, weights=self.mass)) if len(gap) else float("nan")

    def to_pandas(self) -> pd.DataFrame:
        """One row per bin: predicted, observed, mass; needs pandas."""
        pd = import_pandas()
        return pd.DataFrame(self._asdict())

    def _repr_html_(self) -> str:
        rows = [dict(zip(self._fields, row, strict=True)) for row in zip(*self, strict=True)]
        return html_table(f"calibration error {self.error:.3f}", rows)


def reliability(
    truth: Mask, probabilities: Vector, weights: Vector | None = None, bins: int = 10, above: float = 0.0
) -> Reliability:
    """Mean probability and fraction of true cells per bin, over cells with a probability above `above`.

    Cells of equal probability share the bin that their middle falls into, so the order of cells does not matter; with
    many ties there are fewer than `bins` bins.

    >>> import numpy as np
    >>> from relatent.evaluation.reliability import reliability
    >>> curve = reliability(np.array([True, False, True, True]), np.array([0.5, 0.5, 0.75, 0.75]))
    >>> curve.predicted.tolist(), curve.observed.tolist(), curve.error
    ([0.5, 0.75], [0.5, 1.0], 0.125)
    """
    _check(truth, probabilities, weights, bins)
    keep = np.asarray(probabilities) > above
    p, t = np.asarray(probabilities, np.float64)[keep], np.asarray(truth, bool)[keep]
    w = np.ones(len(p)) if weights is None else np.asarray(weights, np.float64)[keep]
    values, same = np.unique(p, return_inverse=True)
    mass = np.bincount(same, w, len(values))
    middle = np.cumsum(mass) - mass / 2
    place = np.minimum(bins * middle / max(mass.sum(), np.finfo(float).tiny), bins - 1).astype(np.int64)
    total = np.bincount(place, mass, bins).astype(np.float64)  # without cells, NumPy counts in integers
    filled = total > 0
    predicted = np.bincount(place, mass * values, bins)[filled] / total[filled]
    observed = np.bincount(place[same], w * t, bins)[filled] / total[filled]
    return Reliability(predicted, observed, total[filled])


def expected_calibration_error(
    truth: Mask, probabilities: Vector, weights: Vector | None = None, bins: int = 10, above: float = 0.0
) -> float:
    """The mean gap between probability and fraction of true cells, over the bins of `reliability`."""
    return reliability(truth, probabilities, weights, bins, above).error


def _check(truth: Mask, probabilities: Vector, weights: Vector | None, bins: int) -> None:
    lengths = {len(values) for values in (truth, probabilities, weights) if values is not None}
    if len(lengths) > 1:
        raise InputError(f"truth, probabilities and weights must be equally long, got {sorted(lengths)}")
    wrong = ~((np.asarray(probabilities) >= 0) & (np.asarray(probabilities) <= 1))
    if wrong.any():
        raise InputError(f"probabilities must be within 0 and 1, got {np.asarray(probabilities)[wrong][0]}")
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise InputError(f"bins must be a whole number of at least 1, got {bins!r}")
