"""Which test facts a model was fitted to, as far as the facts at hand tell.

A model keeps the number of its training facts and their fingerprint, which identifies a whole set of facts, not its
parts. So the training facts are looked for among the sets that can be made of the test facts and the known facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np

from ..data.cell_keys import is_in_sorted, sorted_unique
from ..data.facts import Facts
from ..data.facts_union import union
from ..data.names import Names
from ..model.factors import Factors

MAX_SOURCES = 4  # of known facts of which all combinations are tried; of more, each one and all together


def n_trained_on(factors: Factors, test: Facts, known: Sequence[Facts]) -> int | None:
    """The number of test facts that the model was fitted to; None if the training facts are not among those given.

    >>> import relatent
    >>> facts = relatent.load_dataset("presidents")
    >>> train, test = relatent.split(facts, test_size=0.1)
    >>> model = relatent.RescalALS(rank=5).fit(train).factors_
    >>> n_trained_on(model, test, [train]), n_trained_on(model, train, []) == len(train), n_trained_on(model, test, [])
    (0, True, None)
    """
    about = factors.about.get("data", {})
    if "fingerprint" not in about:
        return None
    names = {"entities": _fitted_names(factors), "relations": factors.relations}
    asked, *sources = (facts.over(**names) for facts in (test, *known))
    for chosen in _combinations(sources):
        keys = sorted_unique(np.concatenate([np.empty(0, np.int64), *(facts.keys for facts in chosen)]))
        n_shared = int(np.count_nonzero(is_in_sorted(asked.keys, keys)))
        for n_found in {len(asked), n_shared, 0}:  # the chosen facts with all test facts, as they are, or with none
            if len(keys) - n_shared + n_found != about["facts"] or not (chosen or n_found):
                continue
            candidate = union([*chosen, asked] if n_found == len(asked) else chosen, **names)
            if not n_found:
                candidate = candidate.subset(~asked.contains(candidate.triples))
            if candidate.fingerprint == about["fingerprint"]:
                return n_found
    return None


def _fitted_names(factors: Factors) -> Names:
    """The names that the fingerprint is of: without the new entities that were folded in, which are the last ones."""
    folded, n = set(factors.about.get("folded_in", ())), len(factors.entities)
    while n and factors.entities[n - 1] in folded:
        n -= 1
    return factors.entities if n == len(factors.entities) else Names(factors.entities[:n])


def _combinations(sources: Sequence[Facts]) -> Iterator[tuple[Facts, ...]]:
    sizes = range(len(sources) + 1) if len(sources) <= MAX_SOURCES else (0, 1, len(sources))
    return chain.from_iterable(combinations(sources, size) for size in sizes)
