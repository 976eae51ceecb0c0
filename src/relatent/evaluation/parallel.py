"""Running fits in one process or several, each on its own number of threads."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import joblib
import numba

from ..data.facts import Facts
from ..errors import InputError, RelatentWarning

MAX_ENTITIES_ONE_THREAD = 2_000  # smaller fits run on one thread each, side by side; larger ones use all threads
MIN_CELLS_PROCESSES = 50_000  # starting processes takes a second or two, which smaller data does not earn back

T = TypeVar("T")


def n_processes(n_jobs: int | None, facts: Facts) -> int:
    """The number of processes for fits to these facts: `n_jobs`, or chosen by their size if it is None."""
    if n_jobs is not None:
        if n_jobs < 1:
            raise InputError(f"n_jobs must be at least 1, got {n_jobs}")
        return n_jobs
    if multiprocessing.parent_process() is not None:  # inside a worker process the cores are in use already
        return 1
    is_small = facts.n_entities <= MAX_ENTITIES_ONE_THREAD
    return joblib.cpu_count() if is_small and facts.n_cells >= MIN_CELLS_PROCESSES else 1


def run_tasks(
    function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], jobs: int, *, in_order: bool
) -> Iterator[T]:
    """Call the function with each task's arguments, in this process or in several; yield results as they come."""
    if jobs == 1:
        return (function(*task) for task in tasks)
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        results: Iterator[T] = joblib.Parallel(
            n_jobs=jobs, return_as="generator" if in_order else "generator_unordered"
        )(joblib.delayed(function)(*task) for task in tasks)
    return results


@contextmanager
def fit_threads(n: int | None) -> Iterator[None]:
    """Limit fits to n threads; None leaves the number as it is."""
    before = numba.get_num_threads()
    numba.set_num_threads(n or before)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def threads_for(facts: Facts) -> int | None:
    """The threads of one fit to these facts; None: all."""
    return 1 if facts.n_entities <= MAX_ENTITIES_ONE_THREAD else None


@contextmanager
def captured_warnings() -> Iterator[list[type[Warning]]]:
    """Hold back relatent's own warnings and list their categories on exit; other warnings are issued as usual."""
    categories: list[type[Warning]] = []
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always", RelatentWarning)
        yield categories
    for warning in recorded:
        if issubclass(warning.category, RelatentWarning):
            categories.append(warning.category)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
