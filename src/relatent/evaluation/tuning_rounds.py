"""The rounds of `tune`: how many folds they have, when they end, and how many fits they lead to."""

from __future__ import annotations

from typing import NamedTuple

from .refinement import n_refined

REDUCTION_FACTOR = 3  # one candidate in 3 goes on to the next round


class Round(NamedTuple):
    """One round of successive halving."""

    folds: int  # held out one after the other
    complete: bool  # fits run until they converge
    time_share: float  # the fraction of the search time by which the round ends


ROUNDS = (Round(1, False, 0.35), Round(2, True, 0.75), Round(5, True, 1.0))
VALIDATION_SHARES = (0.25, 0.5, 1.0)  # of the search time on validation data, by which the rounds end


def n_entering(n_judged: int) -> int:
    """How many of the candidates that have a score go on to the next round."""
    return -(-n_judged // REDUCTION_FACTOR)


def round_ends(now: float, ends: float, comparison: float, *, validation: bool) -> list[float]:
    """When each round ends; none if there is no time to compare complete fits, which takes `comparison` seconds."""
    window = ends - now
    if window < 1.2 * comparison or window <= 0:
        return []
    parts = VALIDATION_SHARES if validation else [round_.time_share for round_ in ROUNDS]
    limits = [now + part * window for part in parts]
    limits[0] = min(limits[0], ends - 1.1 * comparison)
    limits[1] = max(limits[1], limits[0] + 1.1 * comparison)
    return [min(limit, ends) for limit in limits]


def max_fits(n: int, *, validation: bool) -> int:
    """The number of fits that n candidates lead to, at most."""
    second = n_entering(n - 1)
    if validation:
        return n - 1 + second + 1 + n_refined(n)
    third = n_entering(second)
    return n - 1 + (second + 1) * ROUNDS[1].folds + (third + 1) * (ROUNDS[2].folds - ROUNDS[1].folds)
