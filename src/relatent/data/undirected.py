"""Relations whose facts are pairs without a direction: both cells of a pair, whichever of them were listed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..arrays import Mask, Triples, Vector
from ..errors import DataError, InputError
from .array_checks import merge_duplicates
from .cell_keys import cell_keys, cells_of, is_in_sorted
from .names import Names

Undirected: TypeAlias = bool | str | int | Iterable[str | int]  # all relations, or some by name or id


def undirected_ids(which: Undirected, relations: Names) -> frozenset[int]:
    """The ids of the relations; InputError for a name that is none."""
    if isinstance(which, (bool, np.bool_)):
        return frozenset(range(len(relations))) if which else frozenset()
    chosen = [which] if isinstance(which, (str, int, np.integer)) else list(which)
    if not all(isinstance(one, (str, int, np.integer)) for one in chosen):
        raise InputError(f"undirected must be True, or relations by name or id, got {which!r}")
    return frozenset(int(relations.ids(one)) for one in chosen)


def has_relation(relations: frozenset[int], ids: NDArray[np.integer]) -> Mask:
    """Which ids are those of these relations."""
    return np.isin(ids, sorted(relations)) if relations else np.zeros(np.shape(ids), bool)


def one_direction(cells: Triples, undirected: frozenset[int]) -> Mask:
    """Which cells to keep so that a pair of an undirected relation, held in both directions, is there once."""
    found: Mask = ~(has_relation(undirected, cells[:, 1]) & (cells[:, 0] > cells[:, 2]))
    return found


def closed(
    keys: NDArray[np.int64],
    entities: Names,
    undirected: frozenset[int],
    weights: Vector | None = None,
    times: Vector | None = None,
) -> tuple[NDArray[np.int64], Vector | None, Vector | None]:
    """Distinct cells in order with the mirrors of those of undirected relations, their weights and counts.

    A cell and its mirror are one fact and must have one weight. Their counts add up, as those of two lists of one
    relation; but where every pair has its mirror with the same count, the list is a symmetric matrix.
    """
    if not undirected:
        return keys, weights, times
    cells = cells_of(keys, len(entities))
    turned = np.flatnonzero(has_relation(undirected, cells[:, 1]) & (cells[:, 0] != cells[:, 2]))
    mirrors = cell_keys(cells[turned][:, ::-1], len(entities))
    added = ~is_in_sorted(mirrors, keys)
    place = np.searchsorted(keys, mirrors[~added])
    if weights is not None and (differs := weights[place] != weights[turned[~added]]).any():
        i, j = turned[~added][differs][0], place[differs][0]
        pair = " and ".join(repr(entities[e]) for e in cells[i, ::2].tolist())
        raise DataError(
            f"a pair of an undirected relation has one weight, got {weights[i]:g} and {weights[j]:g} for the two "
            f"directions of {pair}; keep one of them"
        )
    if times is not None:
        is_one_sided = added.copy()
        is_one_sided[~added] = times[place] != times[turned[~added]]
        added = np.isin(cells[turned, 1], cells[turned[is_one_sided], 1])
    turned, mirrors = turned[added], mirrors[added]
    if not len(mirrors):
        return keys, weights, times
    return merge_duplicates(
        np.concatenate([keys, mirrors]),
        *(None if values is None else np.concatenate([values, values[turned]]) for values in (weights, times)),
    )
