"""Fair races: contestants take turns, so that a busy moment hurts all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

Context = Callable[[], AbstractContextManager[Any]]
Contestant = tuple[Callable[[], object], Context]


def race(contestants: Mapping[str, Contestant], *, rounds: int, laps: int = 1) -> dict[str, dict[str, float]]:
    """Best and median seconds of each, over rounds × laps calls; the first call of a round is not counted if laps > 1.

    A contestant is a function and the context it runs in (how many threads BLAS has, say).
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, (function, context) in contestants.items():
            with context():
                if laps > 1:
                    function()
                seconds[name] += [timed(function)[0] for _ in range(laps)]
    return {name: summary(all_seconds) for name, all_seconds in seconds.items()}


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds a call took, and what it gave."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Best, median and number of the measurements."""
    return {"best": min(seconds), "median": float(np.median(seconds)), "n": len(seconds)}


def default_threads() -> AbstractContextManager[Any]:
    """BLAS as it comes."""
    return nullcontext()


def bar(measured: float, *, least: float | None = None, most: float | None = None) -> dict[str, Any]:
    """A measured number beside what it has to be."""
    met = measured >= least if least is not None else most is not None and measured <= most
    return {
        "measured": measured,
        "at_least" if least is not None else "at_most": most if least is None else least,
        "met": bool(met),
    }


def relative_difference(ours: Sequence[Any], reference: Sequence[Any]) -> float:
    """The largest difference of each pair of arrays over the largest number of the reference; the worst of them."""
    return max(
        float(np.max(np.abs(np.asarray(a, np.float64) - b)) / np.max(np.abs(b)))
        for a, b in zip(ours, reference, strict=True)
    )
