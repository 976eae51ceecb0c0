"""Types of CoDEx-S: ranks with and without the type filter, and how many right answers each source of types loses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from run import CannotRunError

import relatent
from relatent.data.catalog import _home
from relatent.data.read.annotations import annotated
from relatent.model.entity_types import EntityTypes


def types(seed: int) -> dict[str, Any]:
    """A fit without options (calibrate=False), then the same model with types of the file, and with roles as types."""
    path = _home() / "codex-s" / "entity2types.json"
    if not path.exists():
        raise CannotRunError(f"{path} is missing: get entity2types.json of CoDEx (github.com/tsafavi/codex)")
    train, valid, test = relatent.load_splits("codex-s")
    model = relatent.RescalLogit(random_state=seed, calibrate=False).fit(train).factors_
    untyped = relatent.evaluate(model, test, known=valid)
    results: dict[str, Any] = {}
    for name, source in (("file", path), ("infer", "infer")):
        typed = annotated(train, source)
        assert typed.types is not None
        found = EntityTypes.of(train, typed.types)
        with_types = replace(model, R=model.relation_matrices, types=found)
        ranking = relatent.evaluate(with_types, test, known=valid)
        results[name] = {
            "types": len(found.names),
            "candidates left": _share_allowed(found, test),
            "training answers lost": _n_lost(found, train),
            "test answers lost": ranking.n_wrong_type,
            "of": 2 * len(test),
            "MRR without types": untyped.mrr,
            "MRR with types": ranking.mrr,
            "mean rank without types": untyped.mean_rank,
            "mean rank with types": ranking.mean_rank,
            "hits@10 without types": untyped.hits[10],
            "hits@10 with types": ranking.hits[10],
        }
    return results


def _n_lost(types: EntityTypes, facts: relatent.Facts) -> int:
    """Right answers of these facts that have a wrong type, over both places."""
    return sum(
        int(np.count_nonzero(~types.allowed(k, place)[facts.triples[facts.triples[:, 1] == k, place]]))
        for k in range(facts.n_relations)
        for place in (0, 2)
    )


def _share_allowed(types: EntityTypes, facts: relatent.Facts) -> float:
    """The mean share of entities that are candidates, over the questions of these facts."""
    shares = [[types.allowed(k, place).mean() for place in (0, 2)] for k in range(facts.n_relations)]
    return float(np.mean(np.array(shares)[facts.triples[:, 1]]))
