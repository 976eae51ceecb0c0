"""Fits that are broken off, and what it means that they went on to the same end."""

from __future__ import annotations

import numpy as np


class InterruptedFitError(Exception):
    """Raised in the middle of a fit, as Ctrl-C would be."""


def interrupt_at(step: int):
    """A progress report that breaks the fit off at this step."""

    def progress(done, *_):
        if done == step:
            raise InterruptedFitError

    return progress


def assert_same_fit(first, second):
    """Factors, trace and verdict of two fitted estimators are the very same."""
    for name in ("A", "R", "bias"):
        np.testing.assert_array_equal(getattr(first.factors_, name), getattr(second.factors_, name))
    assert first.trace_.objective.tolist() == second.trace_.objective.tolist()
    assert first.trace_.verdict == second.trace_.verdict
