"""The best answers of a model to a question, with their scores and probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..arrays import Vector
from ..result_tables import html_table, import_pandas, result_record

if TYPE_CHECKING:
    import pandas as pd


@result_record
class Top(NamedTuple):
    """The best answers to a question with one open place, best first.

    >>> import numpy as np
    >>> Top(["Bob"], np.array([3.0]), np.array([0.95])).to_pandas().shape
    (1, 3)
    """

    names: list[str]
    scores: Vector
    probabilities: Vector

    def to_pandas(self) -> pd.DataFrame:
        """One row per answer: name, score, probability; needs pandas."""
        pd = import_pandas()
        return pd.DataFrame({"name": self.names, "score": self.scores, "probability": self.probabilities})

    def _repr_html_(self) -> str:
        rows = zip(self.names, self.scores.tolist(), self.probabilities.tolist(), strict=True)
        return html_table("", [{"name": name, "score": score, "probability": p} for name, score, p in rows])
