"""Whether a penalty shrinks all factors to zero: then no fact has a higher score than any other cell."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.shard import Shard
from ..errors import VanishedWarning
from ..model.factors import Factors
from ..model.structure import rank_multiple

N_SCORED = 2000  # facts of a worker
TRIAL_RANKS = (8, 64)  # least and most components of a fit that tells whether factors vanish: more hardly matter
TRIAL_ROUNDS = 40
MIN_TRIAL_SCORE = 0.05  # of facts on average, above the bias; a short fit that stays below is on its way to zero
VANISHED_MEAN = 1e-3  # likewise, of a complete fit
WEAKENING, MAX_WEAKENINGS = 0.7, 6  # of a penalty under which factors vanish


def mean_score(factors: Factors, shard: Shard) -> float:
    """The mean of |θ − b| over some facts of all workers."""
    known = shard.facts.triples[shard.facts.confidences > 0]
    s, k, o = known[:: max(1, len(known) // N_SCORED)].T
    scores = np.abs(np.asarray(factors.score(s, k, o), np.float64) - factors.bias[k])
    total, count = shard.workers.sum(np.array([scores.sum(), len(scores)]))
    return float(total / count) if count else np.inf


def lasting_penalty(fit: Callable[[Any], Factors], penalty: Any, shard: Shard) -> Any:
    """The penalty, or a weaker one under which the factors of a short fit do not vanish."""
    for _ in range(MAX_WEAKENINGS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VanishedWarning)
            factors = fit(penalty)
        if mean_score(factors, shard) >= MIN_TRIAL_SCORE:
            break
        penalty = replace(penalty, weight=float(f"{WEAKENING * penalty.weight:.2g}"))
    return penalty


def trial_rank(rank: int, structure: object) -> int:
    """The rank of a fit that tells whether factors vanish: a quarter, within limits."""
    multiple = rank_multiple(structure)
    few = int(np.clip(rank // 4, *TRIAL_RANKS))
    return min(rank, max(few // multiple, 1) * multiple)
