"""The exact sum over all cells and its gradient."""

from __future__ import annotations

from typing import Any

import dense_numpy
import machine
import numpy as np
from timing import bar, default_threads, race, relative_difference

import reference_sums as plain
import relatent
from relatent.backend.blas_threads import one_blas_thread
from relatent.cells.logistic_tiled import TiledLogisticSum


def kinships(seed: int) -> dict[str, Any]:
    """Ours on all cores against dense float32 NumPy, with BLAS on one thread or on all of them."""
    facts, rank = relatent.load_dataset("kinships"), 50
    A, R, b = _factors(facts, rank, seed)
    X = plain.dense_tensors(facts)[0].astype(np.float32)
    tiled, alone = TiledLogisticSum(facts), TiledLogisticSum(facts, n_threads=1)
    seconds = race(
        {
            "ours": (lambda: tiled(A, R, b), one_blas_thread),
            "ours, one thread": (lambda: alone(A, R, b), one_blas_thread),
            "ours, gradient alone": (lambda: tiled(A, R, b, value=False), one_blas_thread),
            "NumPy, default threads": (lambda: dense_numpy.dense_logistic(X, A, R, b), default_threads),
            "NumPy, one thread": (lambda: dense_numpy.dense_logistic(X, A, R, b), one_blas_thread),
        },
        rounds=60,
        laps=10,
    )
    faster = min(("NumPy, default threads", "NumPy, one thread"), key=lambda name: seconds[name]["best"])
    wide = [array.astype(np.float64) for array in (X, A, R, b)]
    reference = dense_numpy.dense_logistic(*wide)
    with one_blas_thread():
        ours = tiled(A, R, b)
    return {
        "entities": facts.n_entities,
        "relations": facts.n_relations,
        "rank": rank,
        "seconds": seconds,
        "faster_peer": faster,
        "times_faster": bar(seconds[faster]["best"] / seconds["ours"]["best"], least=4),
        "times_faster_by_medians": seconds[faster]["median"] / seconds["ours"]["median"],
        "two_threads_over_one": seconds["ours, one thread"]["best"] / seconds["ours"]["best"],
        "relative_difference": relative_difference(ours, reference),
        "relative_difference_of_peer": relative_difference(dense_numpy.dense_logistic(X, A, R, b), reference),
    }


def large(seed: int) -> dict[str, Any]:
    """20,000 entities, 2 relations, 100,000 facts: a share of the matrix rate, and memory that does not grow."""
    n, k, rank, n_facts = 20_000, 2, 64, 100_000
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, high, n_facts) for high in (n, k, n)]
    facts = relatent.Facts.from_arrays(*columns, n_entities=n, n_relations=k)
    A, R, b = _factors(facts, rank, seed)
    _compile()
    before = machine.resident_mb()
    machine.forget_peak()
    tiled = TiledLogisticSum(facts)
    with one_blas_thread():
        ours = tiled(A, R, b)
    growth = machine.peak_mb() - before
    M = rng.standard_normal((4096, 4096), dtype=np.float32)
    product = np.empty_like(M)
    seconds = race(
        {
            "matrix product": (lambda: np.matmul(M, M, out=product), default_threads),
            "gradient": (lambda: tiled(A, R, b, value=False), one_blas_thread),
            "objective and gradient": (lambda: tiled(A, R, b), one_blas_thread),
        },
        rounds=7,
    )
    rate = {
        name: flop / seconds[name]["best"] / 1e9
        for name, flop in {
            "matrix product": 2 * 4096**3,
            "gradient": 6 * n * n * k * rank,
            "objective and gradient": 6 * n * n * k * rank,
        }.items()
    }
    reference = dense_numpy.blockwise_logistic(facts.triples, A, R, b)
    return {
        "entities": n,
        "relations": k,
        "facts": len(facts),
        "rank": rank,
        "seconds": seconds,
        "gflop_a_second": rate,
        "share_gradient": bar(rate["gradient"] / rate["matrix product"], least=0.5),
        "share_objective_and_gradient": bar(rate["objective and gradient"] / rate["matrix product"], least=0.35),
        "memory_growth_mb": bar(growth, most=200),
        "relative_difference": relative_difference(ours[:3], reference),
    }


def _factors(facts: relatent.Facts, rank: int, seed: int) -> tuple[Any, Any, Any]:
    """Factors whose scores are spread as those of a fitted model: about −2 ± 2."""
    rng = np.random.default_rng(seed)
    n, k = facts.n_entities, facts.n_relations
    A = rng.normal(scale=rank**-0.25, size=(n, rank))
    R = rng.normal(scale=2 * rank**-0.5, size=(k, rank, rank))
    return A.astype(np.float32), R.astype(np.float32), np.full(k, -2, np.float32)


def _compile() -> None:
    """Compile the kernels outside of what is measured."""
    facts = relatent.Facts.from_arrays([0, 1], [0, 0], [1, 2])
    TiledLogisticSum(facts)(*_factors(facts, 2, 0))
