"""The best answers of a model to a question, with their scores and probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrays import Ids, Vector
from ..result_tables import html_table, import_pandas, result_record

if TYPE_CHECKING:
    import pandas as pd


@result_record
class Top(NamedTuple):
    """The best answers to a question with one open place, best first.

    >>> Top(["Bob"], np.array([3.0]), np.array([0.95]), np.array([1]), np.array([7.0])).to_pandas().shape
    (1, 5)
    """

    names: list[str]
    scores: Vector  # log-odds of the probability if the model is calibrated, θ if it is not
    probabilities: Vector  # NaN if the model has none
    ranks: Ids  # among the answers that are not known; 0 if it is known
    lift: Vector  # probability / base rate of the relation; NaN if there is none

    def to_pandas(self) -> pd.DataFrame:
        """One row per answer: name, score, probability, rank, lift; needs pandas."""
        pd = import_pandas()
        return pd.DataFrame(self._rows(), columns=["name", "score", "probability", "rank", "lift"])

    def _rows(self) -> list[dict[str, Any]]:
        columns = (self.scores, self.probabilities, self.ranks, self.lift)
        rows = zip(self.names, *(np.asarray(column).tolist() for column in columns), strict=True)
        return [dict(zip(("name", "score", "probability", "rank", "lift"), row, strict=True)) for row in rows]

    def _repr_html_(self) -> str:
        return html_table("", self._rows())
