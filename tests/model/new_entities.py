"""Random models and facts of new entities."""

import numpy as np

import relatent
from relatent import Factors, Facts
from relatent.data.names import Names
from relatent.model import entity_regression as regression

NAMES = [f"e{i}" for i in range(12)]
RELATIONS = ["likes", "knows", "owes"]


def random_factors(link, seed=0, n=12, r=3, bias=0.0):
    rng = np.random.default_rng(seed)
    return Factors(
        rng.normal(size=(n, r)),
        rng.normal(size=(3, r, r)),
        np.array([-1.0, 0.5, -2.0]) * bias,
        Names([f"e{i}" for i in range(n)]),
        Names(RELATIONS, what="relation"),
        link,
    )


def new_facts(names=("new",), seed=0, n=12, count=8, **options):
    """Facts of each new entity, some as subject, some as object."""
    rng = np.random.default_rng(seed)
    rows = set()
    for name in names:
        for _ in range(count):
            ends = (name, f"e{rng.integers(n)}")
            rows.add((ends[0], RELATIONS[rng.integers(3)], ends[1]) if rng.random() < 0.5 else
                     (ends[1], RELATIONS[rng.integers(3)], ends[0]))  # fmt: skip
    return Facts.from_arrays(*zip(*sorted(rows), strict=True), **options)


def all_rows(factors, facts, name, others):
    """A slow reference: one row (v, b, x, w) for every cell of one new entity."""
    known = dict(zip(facts.named(), facts.confidences, strict=True))
    unobserved = set(facts.named(facts.unobserved))
    rows = []
    for k, relation in enumerate(factors.relations):
        for j, partner in enumerate(factors.entities):
            ways = (((name, relation, partner), factors.R[k]), ((partner, relation, name), factors.R[k].T))
            for cell, R in ways:
                x, w = (1.0, known[cell]) if cell in known else (0.0, 0.0 if cell in unobserved else others)
                rows.append((R @ factors.A[j], factors.bias[k], x, w))
    return [np.array(column) for column in zip(*rows, strict=True)]


def two_camps(seed=0):
    """Within a camp all like each other, between camps nobody does."""
    camp = np.arange(20) % 2
    s, o = np.nonzero((camp[:, None] == camp) & ~np.eye(20, dtype=bool))
    return [f"p{i}" for i in s], ["likes"] * len(s), [f"p{i}" for i in o]


def listed_of(factors, facts, entity):
    (listed,) = regression.cells_of_entities(facts.over(factors.entities, factors.relations), np.array([entity]))
    return listed


PENALTIES = {
    "l2": relatent.L2(0.3, 0.3),
    "dura": relatent.Dura(0.1),
    "n3": relatent.N3(0.1),
}
