"""The usual figures of a set of ranks: mean reciprocal rank, mean rank, hits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Vector
from ..result_tables import result_record


@result_record
class RankSummary(NamedTuple):
    """The usual figures of a set of ranks.

    >>> RankSummary(n=2, mrr=0.75, mean_rank=1.5, hits={1: 0.5, 3: 1.0}).hits[1]
    0.5
    """

    n: int
    mrr: float
    mean_rank: float
    hits: dict[int, float]


def summarise(ranks: Vector, cutoffs: tuple[int, ...]) -> RankSummary:
    """The figures of these ranks; hits for each cutoff."""
    hits = {k: float(np.mean(ranks <= k)) for k in cutoffs}
    return RankSummary(ranks.size, float(np.mean(1 / ranks)), float(np.mean(ranks)), hits)


def figures_row(found: RankSummary) -> dict[str, Any]:
    """The figures as one row of a table."""
    hits = {f"hits_{k}": share for k, share in found.hits.items()}
    return {"n": found.n, "mrr": found.mrr, "mean_rank": found.mean_rank, **hits}
