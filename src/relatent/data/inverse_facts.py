"""Each fact a second time, in the other direction: (o, K + k, s) beside (s, k, o)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import Triples
from .facts import Facts
from .names import Names
from .shard import Shard


def with_inverses(facts: Facts | Shard) -> Shard:
    """A shard of twice as many facts, unobserved cells and relations; relation K + k is the inverse of k.

    >>> facts = Facts.from_arrays(["Ann"], ["likes"], ["Bob"])
    >>> with_inverses(facts).facts.triples.tolist()
    [[0, 0, 1], [1, 1, 0]]
    """
    shard = Shard.of(facts)
    names = Names(list(map(str, range(2 * shard.n_relations))))  # nobody sees them
    own = _joined(shard.facts, shard.facts_by_object, names)
    alone = shard.facts_by_object is shard.facts
    by_object = own if alone else _joined(shard.facts_by_object, shard.facts, names)
    counts = np.tile(shard.facts_per_relation, 2)
    return replace(
        shard, facts=own, facts_by_object=by_object, facts_per_relation=counts, n_unobserved=2 * shard.n_unobserved
    )


def _joined(facts: Facts, turned: Facts, relations: Names) -> Facts:
    """The first facts, and the second in the other direction."""

    def both(cells: Triples, others: Triples) -> Triples:
        return np.concatenate([cells, others[:, ::-1] + np.array([0, facts.n_relations, 0], cells.dtype)])

    weighted = facts.weights is not None or turned.weights is not None
    return Facts.from_ids(
        both(facts.triples, turned.triples),
        facts.entities,
        relations,
        weights=np.concatenate([facts.confidences, turned.confidences]) if weighted else None,
        unobserved=both(facts.unobserved, turned.unobserved),
    )
