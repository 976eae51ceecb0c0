"""The cells that a sampled sum adds one by one: facts, unobserved cells and active zeros, in one sorted list."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..arrays import Ids, Triples, Vector, read_only
from ..data.facts import Facts
from ..distributed.workers import Workers

ACTIVE_ZERO = -1.0  # the weight that marks a listed zero


class CellList(NamedTuple):
    """Cells that no drawn block may count, sorted by relation, subject and object."""

    starts: NDArray[np.int64]  # (K + 1,)
    subjects: Ids
    objects: Ids
    weights: (
        Vector  # w of a fact, 0 of an unobserved cell, ACTIVE_ZERO of a zero; a single 1 if all are unweighted facts
    )


def listed_facts(facts: Facts, dtype: np.dtype[Any]) -> CellList:
    """The facts and unobserved cells."""
    weights = np.ones(1, dtype) if facts.weights is None else facts.weights.astype(dtype)
    subjects, objects = (read_only(np.ascontiguousarray(ids)) for ids in (facts.subjects, facts.objects))
    listed = CellList(facts.starts, subjects, objects, weights)
    return with_cells(listed, facts.unobserved, 0.0) if len(facts.unobserved) else listed


def with_cells(listed: CellList, cells: Triples, weight: float) -> CellList:
    """The list with these sorted cells added, none of which it contains; they all get the same weight."""
    starts = np.searchsorted(cells[:, 1], np.arange(len(listed.starts))).astype(np.int64)
    count, dtype = len(listed.subjects) + len(cells), listed.weights.dtype
    subjects, objects = (read_only(np.ascontiguousarray(cells[:, place])) for place in (0, 2))
    added = CellList(starts, subjects, objects, np.full(1, weight, dtype))
    merged = CellList(
        listed.starts + starts, np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, dtype)
    )
    _merge(listed, added, merged)
    return merged._replace(subjects=read_only(merged.subjects), objects=read_only(merged.objects))


@njit(nogil=True, cache=True)
def _merge(first, second, merged):  # type: ignore[no-untyped-def]
    at = 0
    for k in range(len(first.starts) - 1):
        c, end, d, other_end = first.starts[k], first.starts[k + 1], second.starts[k], second.starts[k + 1]
        while c < end or d < other_end:
            from_first = d == other_end or (
                c < end
                and (
                    first.subjects[c] < second.subjects[d]
                    or (first.subjects[c] == second.subjects[d] and first.objects[c] < second.objects[d])
                )
            )
            if from_first:
                merged.subjects[at], merged.objects[at] = first.subjects[c], first.objects[c]
                merged.weights[at] = first.weights[c if len(first.weights) > 1 else 0]
                c += 1
            else:
                merged.subjects[at], merged.objects[at] = second.subjects[d], second.objects[d]
                merged.weights[at] = second.weights[0]
                d += 1
            at += 1


def global_firsts(starts: NDArray[np.int64], workers: Workers) -> NDArray[np.int64]:
    """Where this worker's cells of each relation begin in the list of all workers, by rank, (K,)."""
    if workers.size == 1:
        return starts[:-1]
    counts = np.stack(workers.gather(np.diff(starts)))  # (workers, K)
    begin = np.concatenate([[0], np.cumsum(counts.sum(axis=0))[:-1]])
    firsts: NDArray[np.int64] = begin + counts[: workers.rank].sum(axis=0)
    return firsts


@njit(inline="always")
def id_range(ids, low, high, i):  # type: ignore[no-untyped-def]
    """Where an id begins and ends in ids[low:high], which is sorted; an empty range if it does not occur."""
    at = lower_bound(ids, low, high, i)
    return at, (_run_end(ids, at, high) if at < high and ids[at] == i else at)


@njit(inline="always")
def lower_bound(ids, low, high, i):  # type: ignore[no-untyped-def]
    """The first position from low to high whose id is not below i."""
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < i:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")
def _run_end(ids, at, high):  # type: ignore[no-untyped-def]
    """Where the run of equal ids at a position ends; the step doubles, since most runs are short."""
    i, step = ids[at], 1
    while at + step < high and ids[at + step] == i:
        at += step
        step *= 2
    return lower_bound(ids, at, min(at + step, high), i + 1)
