"""Random splits of facts: training and test facts, and the folds of the Presidents task."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Triples
from ..errors import DataError
from ..random_state import RandomState, to_generator
from .cell_keys import cell_keys
from .facts import Facts


def split(
    facts: Facts,
    *,
    test_size: float | int = 0.1,
    random_state: RandomState = 0,
    keep_covered: bool = True,
    leaky: bool = False,
) -> tuple[Facts, Facts]:
    """Random training and test facts over one vocabulary; unobserved cells stay with the training facts.

    Parameters
    ----------
    test_size : float or int
        The fraction of facts to hold out, between 0 and 1, or their number.
    random_state : int, Generator or None
        A seed, a generator to draw from, or None for a different split each time.
    keep_covered : bool
        Choose test facts so that each entity and relation keeps a training fact, as far as `test_size` allows.
    leaky : bool
        Allow one of (i, j) and (j, i) of a symmetric relation in the training facts and the other in the test facts,
        where the first reveals the second. By default they stay together, and the test set may be one fact smaller.

    >>> facts = Facts.from_arrays([0, 0, 1, 2, 3], [0, 0, 0, 0, 0], [1, 2, 3, 3, 0])
    >>> train, test = split(facts, test_size=1)
    >>> len(train), len(test), train.n_entities
    (4, 1, 4)
    """
    n_test = _test_count(test_size, len(facts))
    group = np.arange(len(facts)) if leaky else _groups(facts)
    position = _shuffled(facts, group, random_state, keep_covered)  # of each fact's group
    chosen = _taken(np.bincount(position), n_test)[position]
    if chosen.all():
        raise DataError(
            f"test_size={test_size} leaves no training fact, as mirrored facts stay together; lower test_size or pass "
            "leaky=True"
        )
    return facts.subset(~chosen), replace(facts.subset(chosen), unobserved=facts.unobserved[:0])


def _test_count(test_size: float | int, n: int) -> int:
    if isinstance(test_size, (int, np.integer)):
        if not 0 < test_size < n:
            raise DataError(f"test_size must be between 1 and {n - 1} for {n} facts, got {test_size}")
        return int(test_size)
    if not 0 < test_size < 1:
        raise DataError(f"test_size must be a fraction between 0 and 1, or a whole number, got {test_size}")
    count = round(test_size * n)
    if not 0 < count < n:
        side = "test" if count == 0 else "training"
        raise DataError(f"test_size={test_size} of {n} facts leaves no {side} fact; give the number of test facts")
    return count


def _groups(facts: Facts) -> Ids:
    """A group number for each fact; the two directions of a symmetric relation share a group."""
    if not facts.symmetric.any():
        return np.arange(len(facts))
    flip = facts.symmetric[facts.triples[:, 1]] & (facts.subjects > facts.objects)
    upright = np.where(flip[:, None], facts.triples[:, ::-1], facts.triples)
    return np.unique(cell_keys(upright, facts.n_entities), return_inverse=True)[1]


def _shuffled(facts: Facts, group: Ids, random_state: RandomState, keep_covered: bool) -> Ids:
    """The position of each fact's group in a random order; groups needed for coverage come last."""
    n_groups = int(group.max()) + 1
    position: Ids = to_generator(random_state).permutation(n_groups)[group]  # (n,)
    if not keep_covered:
        return position
    needed = np.zeros(n_groups, bool)
    for size, columns in (
        (facts.n_entities, (facts.subjects, facts.objects)),
        (facts.n_relations, (facts.triples[:, 1],)),
    ):
        last = np.full(size, -1)
        for ids in columns:
            np.maximum.at(last, ids, position)
        needed[last[last >= 0]] = True
    moved = np.empty(n_groups, np.int64)
    moved[np.argsort(needed, kind="stable")] = np.arange(n_groups)
    return moved[position]


def _taken(sizes: Ids, n_test: int) -> Mask:
    """Which groups, in order, make up n_test facts; at least one group."""
    taken: Mask = np.cumsum(sizes) <= n_test
    taken[0] = True
    return taken


def presidents_folds(
    facts: Facts,
    *,
    persons: Literal["presidents", "vice presidents"] = "presidents",
    folds: int = 10,
    random_state: RandomState = 0,
) -> list[Triples]:
    """Held-out cells (m, 3) of each fold of the Presidents task.

    Each fold holds out the party of some of the presidents who had a vice president, or of some vice presidents: all
    cells (person, party, p) over all parties p.

    >>> import relatent
    >>> len(relatent.presidents_folds(relatent.load_dataset("presidents"), folds=10))
    10
    """
    party, vice_president = facts.relations.id("party"), facts.relations.id("vicePresident")
    # facts are (president, vicePresident, vice president)
    column = {"presidents": 0, "vice presidents": 2}.get(persons)
    if column is None:
        raise DataError(f"persons must be 'presidents' or 'vice presidents', got {persons!r}")
    people = np.unique(facts.triples[facts.triples[:, 1] == vice_president, column])
    parties = np.unique(facts.objects[facts.triples[:, 1] == party])
    if not 2 <= folds <= len(people):
        raise DataError(f"folds must be between 2 and {len(people)}, the number of {persons}, got {folds}")
    shuffled = to_generator(random_state).permutation(people)
    return [_cells(fold, party, parties) for fold in np.array_split(shuffled, folds)]


def _cells(subjects: Ids, relation: int, objects: Ids) -> NDArray[np.int64]:
    s, o = np.meshgrid(np.sort(subjects), objects, indexing="ij")
    return np.stack([s.ravel(), np.full(s.size, relation), o.ravel()], axis=1).astype(np.int64)
