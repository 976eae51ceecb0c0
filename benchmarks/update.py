"""`relatent.update` with new facts and entities beside a new fit to all facts: time, and rank of withheld facts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from timing import bar, timed

import relatent
from sparse_graphs import KINDS, sparse_graph

NEW_SHARE = 0.05  # of the training facts
OF_NEW_ENTITIES = 0.5  # of the new facts
WITHHELD = 0.1
GRAPH_SEEDS = (21, 22)  # the settings of updates were chosen on graphs of seeds 11 to 13


def update(seed: int) -> dict[str, Any]:
    """Four kinds of sparse graphs, Kinships and CoDEx-S; settings are those of a fit without options.

    All are calibrated: a new fit by a second one, an update carries the calibration over.
    """
    warnings.simplefilter("ignore", relatent.RelatentWarning)
    _compile()
    found: dict[str, Any] = {}
    for kind in KINDS:
        runs = [_compared(*_withheld(sparse_graph(kind, s), seed), seed) for s in GRAPH_SEEDS]
        found[kind] = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    kinships = _withheld(relatent.load_dataset("kinships"), seed)
    found["kinships"] = _compared(*kinships, seed)
    found["kinships, least squares"] = _compared(*kinships, seed, relatent.RescalALS())
    train, _, test = relatent.load_splits("codex-s")
    found["codex-s"] = _compared(train, test, seed)
    bars = {
        name: {
            "quality over that of a new fit": bar(run["update_mrr"] / run["new_fit_mrr"], least=0.98),
            "time over that of a new fit": bar(run["update_seconds"] / run["new_fit_seconds"], most=0.2),
        }
        for name, run in found.items()
    }
    return {**found, "bars": bars}


def _compile() -> None:
    """Fit each kind of model once: the first fit loads compiled code."""
    facts = sparse_graph("films", 1)
    for estimator in (relatent.RescalLogit(max_iter=2), relatent.RescalALS(max_iter=2)):
        relatent.update(estimator.fit(facts).factors_, facts)
    relatent.RescalLogit(max_iter=2).fit(relatent.load_dataset("kinships"))


def _withheld(facts: relatent.Facts, seed: int) -> tuple[relatent.Facts, relatent.Facts]:
    return relatent.split(facts, test_size=WITHHELD, random_state=seed)


def _compared(train: relatent.Facts, test: relatent.Facts, seed: int, estimator: Any = None) -> dict[str, float]:
    estimator = relatent.RescalLogit() if estimator is None else estimator
    old, new = _divided(train, seed)
    model = estimator.fit(old).factors_
    seconds, fitted = timed(lambda: estimator.fit(train).factors_)
    update_seconds, updated = timed(lambda: relatent.update(model, new))
    mrr = {
        name: relatent.evaluate(factors, test, known=train).mrr
        for name, factors in (("old_model", model), ("new_fit", fitted), ("update", updated))
    }
    return {
        "facts": len(train),
        "new_facts": len(new),
        "new_entities": len(set(new.entities) - set(old.entities)),
        **{f"{name}_mrr": value for name, value in mrr.items()},
        "new_fit_seconds": seconds,
        "update_seconds": update_seconds,
    }


def _divided(train: relatent.Facts, seed: int) -> tuple[relatent.Facts, relatent.Facts]:
    """Old and new facts, each over their own names; half of the new ones are all facts of some entities."""
    rng, wanted = np.random.default_rng(seed), NEW_SHARE * len(train)
    is_new = np.zeros(len(train), bool)
    for entity in rng.permutation(train.n_entities):
        own = (train.subjects == entity) | (train.objects == entity)
        if (is_new | own).sum() <= OF_NEW_ENTITIES * wanted:
            is_new |= own
    others = rng.permutation(np.flatnonzero(~is_new))[: int(wanted - is_new.sum())]
    is_new[others] = True
    return _over_own_names(train.subset(~is_new)), _over_own_names(train.subset(is_new))


def _over_own_names(facts: relatent.Facts) -> relatent.Facts:
    return relatent.Facts.from_arrays(*zip(*facts.named(), strict=True))
