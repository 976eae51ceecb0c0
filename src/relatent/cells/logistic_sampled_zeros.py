"""The draw of a block of zeros for each relation: some subjects I and some objects J, with 1 / probability as weights.

Nearly all zeros contribute nothing; those that count lie between entities that have many facts. So a side is drawn

- at equally spaced positions, with a random start, in the sorted column of the relation's subjects (or objects):
  entities are drawn in proportion to their facts, and always if they fill the space between two positions,
- at equally spaced positions, with another random start, among all entities.

An entity is on a side with probability π > 0, so that weights 1 / (π_i π_j) make the sum over I × J unbiased.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Mask, Vector, read_only
from ..data.shard import Shard
from ..distributed.workers import Workers
from ..model.entity_types import EntityTypes
from .logistic_sampled_cell_list import global_firsts, id_range

UNIFORM_SHARE = 0.5  # of the draws of a side: all entities are equally likely
MIN_SIDE = 16  # entities


class SideSizes(NamedTuple):
    """How many entities are drawn for each relation, on each side."""

    by_degree: NDArray[np.int64]  # (2, K) in proportion to their facts; all that have facts if those are no more
    uniform: NDArray[np.int64]  # (2, K) among all entities
    distinct: NDArray[np.int64]  # (2, K) entities that have facts

    def of(self, side: int) -> SideSizes:
        """The sizes of subjects (0) or objects (1), each (K,)."""
        return SideSizes(*(part[side] for part in self))


class SideColumn(NamedTuple):
    """One side of the facts, sorted within each relation; each of several workers has the ids that it owns."""

    ids: Ids
    starts: NDArray[np.int64]  # (K + 1,)
    firsts: NDArray[np.int64]  # (K,) where this worker's ids begin in the column of all workers
    all_starts: NDArray[np.int64]  # (K + 1,) of the column of all workers


class Population(NamedTuple):
    """Who can be drawn on one side."""

    n: int
    own_low: int  # this worker draws the entities own_low to own_high
    own_high: int
    typed: bool  # only entities that have facts on this side of the relation, or one of the types that occur there
    type_starts: NDArray[np.int64]  # (N + 1,) of the types of each entity; empty if no types are given
    types: Ids  # in the order of the entities
    is_allowed: Mask  # (K, T) whether the type occurs on this side of the relation


class DrawnSide(NamedTuple):
    """The entities of one side of every block, relation by relation."""

    starts: NDArray[np.int64]  # (K + 1,)
    ids: Ids  # (starts[-1],) or longer, sorted within a relation
    weights: Vector  # 1 / π


def populations(shard: Shard, *, typed: bool) -> tuple[Population, Population]:
    """Who can be drawn as subjects and as objects; all workers must call it."""
    starts, types = np.empty(0, np.int64), np.empty(0, np.int32)
    allowed = [np.empty((0, 0), bool)] * 2
    if typed and shard.facts.types is not None:
        found = EntityTypes.of(shard, shard.facts.types)
        members, roles = found.sets.members, found.roles.toarray() > 0
        starts, types = members.indptr.astype(np.int64), members.indices.astype(np.int32)
        allowed = [np.ascontiguousarray(roles[side::2]) for side in (0, 1)]
    own = shard.entity_range
    everyone = Population(shard.n_entities, own.start, own.stop, typed, starts, types, allowed[0])
    return everyone, everyone._replace(is_allowed=allowed[1])


def side_columns(shard: Shard) -> tuple[SideColumn, SideColumn]:
    """The columns of subjects and of objects."""
    objects = np.array(shard.facts_by_object.objects)
    for k in range(shard.n_relations):
        objects[shard.facts_by_object.starts[k] : shard.facts_by_object.starts[k + 1]].sort()
    subjects = np.ascontiguousarray(shard.facts.subjects)
    return (
        _column(subjects, shard.facts.starts, shard.workers),
        _column(objects, shard.facts_by_object.starts, shard.workers),
    )


def _column(ids: Ids, starts: NDArray[np.int64], workers: Workers) -> SideColumn:
    ends = workers.sum(np.cumsum(np.diff(starts)))
    return SideColumn(read_only(ids), starts, global_firsts(starts, workers), np.concatenate([[0], ends]))


def side_sizes(shard: Shard, columns: Sequence[SideColumn], zeros_per_fact: float) -> SideSizes:
    """Sizes of blocks with this many cells; if one side has few entities to draw from, the other side gets more."""
    distinct = shard.workers.sum(np.stack([_distinct(column.ids, column.starts) for column in columns]))
    return sizes_for(shard.n_entities, shard.facts_per_relation, distinct, zeros_per_fact)


def sizes_for(
    n: int, facts_per_relation: NDArray[np.int64], distinct: NDArray[np.int64], zeros_per_fact: float
) -> SideSizes:
    """Those of n entities; distinct: (2, K) entities that have facts on each side."""
    cells = zeros_per_fact * np.maximum(facts_per_relation, 1)  # the zeros of a relation without facts count too
    side = np.sqrt(cells)
    width = np.minimum((1 - UNIFORM_SHARE) * side, distinct) + np.minimum(UNIFORM_SHARE * side, n)
    sides = np.maximum(side, cells / np.maximum(width[::-1], 1))  # (2, K) by the width of the other side
    sides = np.clip(sides, min(n, MIN_SIDE), n / UNIFORM_SHARE)
    by_degree, uniform = np.ceil((1 - UNIFORM_SHARE) * sides), np.ceil(np.minimum(UNIFORM_SHARE * sides, n))
    return SideSizes(by_degree.astype(np.int64), uniform.astype(np.int64), distinct)


def _distinct(ids: Ids, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of different ids of each relation."""
    return np.array([np.count_nonzero(np.diff(ids[low:high], prepend=-1)) for low, high in pairwise(starts)])


def draw_side(
    column: SideColumn, population: Population, sizes: SideSizes, uniforms: NDArray[np.float64], dtype: np.dtype[Any]
) -> DrawnSide:
    """One side of every block, from numbers in [0, 1): (2 strata, K)."""
    capacity = int(np.sum(np.minimum(sizes.by_degree, sizes.distinct) + sizes.uniform + 1))
    counts = np.zeros(len(sizes.uniform) + 1, np.int64)
    drawn = DrawnSide(counts, np.empty(capacity, np.int32), np.empty(capacity, dtype))
    _draw(column, population, sizes, uniforms, drawn)
    return drawn._replace(starts=np.cumsum(counts))


def of_all_workers(drawn: DrawnSide, workers: Workers) -> DrawnSide:
    """What all workers have drawn, in the order in which one process alone would draw it."""
    if workers.size == 1:
        return drawn
    count, k = drawn.starts[-1], len(drawn.starts) - 1
    tables = workers.gather(np.concatenate([np.diff(drawn.starts), drawn.ids[:count]]).astype(np.int32))
    weights = np.concatenate(workers.gather(drawn.weights[:count]))
    counts = np.stack([table[:k] for table in tables])  # (workers, K)
    relations = [np.repeat(np.arange(k), counts_of_worker) for counts_of_worker in counts]
    order = np.argsort(np.concatenate(relations), kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0, dtype=np.int64))])
    return DrawnSide(starts, np.concatenate([table[k:] for table in tables])[order], weights[order])


@njit(nogil=True, cache=True)
def _draw(column, population, sizes, uniforms, drawn):  # type: ignore[no-untyped-def]
    """Fill ids and weights, relation by relation without gaps, and starts[k + 1] with the number of entities of k."""
    ids, chosen, filled = column.ids, drawn.ids, 0
    spare = np.empty_like(chosen)
    for k in range(len(sizes.by_degree)):
        low, high = column.starts[k], column.starts[k + 1]
        all_low, all_high = column.all_starts[k], column.all_starts[k + 1]
        by_degree = sizes.by_degree[k]
        space = (all_high - all_low) / by_degree if by_degree < sizes.distinct[k] else 1.0
        first = filled
        filled = _draw_by_degree(column, k, space, uniforms[0, k], chosen, filled)
        middle = filled
        filled = _draw_uniformly(population, sizes.uniform[k], uniforms[1, k], chosen, filled)
        _merge_sorted(chosen, first, middle, filled, spare)
        kept = first
        for c in range(first, filled):
            if c == first or chosen[c] != chosen[c - 1]:
                begin, stop = id_range(ids, low, high, chosen[c])
                degree = stop - begin
                if population.typed and not degree and not _is_of_right_type(population, chosen[c], k):
                    continue
                chosen[kept] = chosen[c]
                missed = (1 - min(1.0, degree / space)) * (1 - min(1.0, sizes.uniform[k] / population.n))
                drawn.weights[kept] = 1 / (1 - missed)
                kept += 1
        filled = kept
        drawn.starts[k + 1] = kept - first


@njit(inline="always")
def _is_of_right_type(population, i, k):  # type: ignore[no-untyped-def]
    """As `EntityTypes.allowed`: an entity without a type may be anywhere, but nobody if no types are given."""
    if not len(population.type_starts):
        return False
    begin, stop = population.type_starts[i], population.type_starts[i + 1]
    for at in range(begin, stop):
        if population.is_allowed[k, population.types[at]]:
            return True
    return begin == stop


@njit(inline="always")
def _merge_sorted(ids, first, middle, last, spare):  # type: ignore[no-untyped-def]
    """Sort ids[first:last], two sorted ranges that meet at `middle`."""
    a, b = first, middle
    for at in range(first, last):
        if b == last or (a < middle and ids[a] <= ids[b]):
            spare[at] = ids[a]
            a += 1
        else:
            spare[at] = ids[b]
            b += 1
    for at in range(first, last):
        ids[at] = spare[at]


@njit(inline="always")
def _draw_by_degree(column, k, space, u, chosen, filled):  # type: ignore[no-untyped-def]
    """Entities at equally spaced positions of the column of all workers; those that this worker has."""
    ids, low, high = column.ids, column.starts[k], column.starts[k + 1]
    begin, end, shift = column.all_starts[k], column.all_starts[k + 1], column.firsts[k] - low
    at, last = begin + u * space, low - 1
    while at < end:
        here = min(np.int64(at), end - 1) - shift
        if low <= here < high:
            if last < low or ids[here] != ids[last]:
                chosen[filled] = ids[here]
                filled += 1
            last = here
        at += space
    return filled


@njit(inline="always")
def _draw_uniformly(population, m, u, chosen, filled):  # type: ignore[no-untyped-def]
    """m equally spaced ones of all entities; those that this worker owns."""
    n = population.n
    for a in range(m):
        i = min(np.int64((u + a) * (n / m)), n - 1)
        if population.own_low <= i < population.own_high:
            chosen[filled] = i
            filled += 1
    return filled
