"""Worlds that several tests of analysis share."""

import numpy as np
import pytest

import relatent
from relatent import Factors, Facts
from relatent.data.names import Names
from relatent.model import links


@pytest.fixture
def random_factors():
    n, r = 9, 3
    rng = np.random.default_rng(0)
    return Factors(
        rng.normal(size=(n, r)),
        rng.normal(size=(2, r, r)),
        np.array([-1.0, 0.5]),
        Names([f"e{i}" for i in range(n)]),
        Names(["likes", "knows"], what="relation"),
        links.LogisticLink(),
    )


@pytest.fixture(scope="module")
def two_camps():
    """20 people p0 to p19: even ones like each other, and so do odd ones; the facts and a model."""
    camp = np.arange(20) % 2
    s, o = np.nonzero((camp[:, None] == camp) & ~np.eye(20, dtype=bool))
    facts = Facts.from_arrays([f"p{i}" for i in s], ["likes"] * len(s), [f"p{i}" for i in o])
    return facts, relatent.RescalLogit(4, 0.1, 0.1, calibrate=False).fit(facts).factors_
