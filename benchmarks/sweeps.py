"""Sweeps of alternating least squares against the authors' package, used as it is installed from PyPI."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from run import CannotRunError
from timing import bar, default_threads, summary, timed

import relatent
from relatent.cells.threads import one_blas_thread
from relatent.fit.als import Als

SWEEPS = 5
Array = np.ndarray[Any, Any]
HOW = "needs the package rescal 0.4: pip install --no-deps --target FOLDER rescal==0.4, then --rescal FOLDER"


def als_rescal(seed: int, rescal: str | None) -> dict[str, Any]:
    """Same start, same sweeps, float64 both: the products A R_k Aᵀ have to agree."""
    package = _package(rescal)
    rng = np.random.default_rng(seed)
    n, k, n_facts = 20_000, 5, 200_000
    columns = [rng.integers(0, high, n_facts) for high in (n, k, n)]
    sparse = relatent.Facts.from_arrays(*columns, n_entities=n, n_relations=k)
    return {
        "kinships": _compare(package, relatent.load_dataset("kinships"), rank=100, l2=10.0, seed=seed, repeats=5),
        "20,000 entities": _compare(package, sparse, rank=20, l2=0.1, seed=seed, repeats=3),
    }


def _package(folder: str | None) -> ModuleType:
    if folder is not None:
        sys.path.insert(0, folder)
    np.float = float  # noqa: NPY001  (rescal 0.4 was written for NumPy 1)
    try:
        return import_module("rescal.rescal")
    except ImportError as problem:
        raise CannotRunError(f"als-rescal {HOW} ({problem})") from None


def _compare(
    package: ModuleType, facts: relatent.Facts, *, rank: int, l2: float, seed: int, repeats: int
) -> dict[str, Any]:
    A = np.random.default_rng(seed).random((facts.n_entities, rank))
    X = [facts.matrix(k) for k in range(facts.n_relations)]
    contestants: dict[str, tuple[Callable[[], tuple[Array, Array, list[float]]], Any]] = {
        "ours": (lambda: _ours(facts, A, l2), one_blas_thread),
        "rescal, default threads": (lambda: _theirs(package, X, A, l2), default_threads),
        "rescal, one thread": (lambda: _theirs(package, X, A, l2), one_blas_thread),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    found = {}
    for _ in range(repeats):
        for name, (function, context) in contestants.items():
            with context():
                found[name] = function()
            seconds[name] += found[name][2]
    faster = min(list(seconds)[1:], key=lambda name: min(seconds[name]))
    return {
        "entities": facts.n_entities,
        "relations": facts.n_relations,
        "facts": len(facts),
        "rank": rank,
        "l2": l2,
        "sweeps": SWEEPS,
        "seconds_a_sweep": {name: summary(every) for name, every in seconds.items()},
        "times_faster": min(seconds[faster]) / min(seconds["ours"]),
        "largest_score": float(np.max(np.abs(_sampled(found["ours"], seed)))),
        "relative_difference": bar(_difference(found["ours"], found[faster], seed), most=1e-6),
    }


def _ours(facts: relatent.Facts, A: Array, l2: float) -> tuple[Array, Array, list[float]]:
    solver = Als(facts, A.shape[1], l2_entities=l2, l2_relations=l2, l2_attributes=0.0, dtype=np.float64)
    state, seconds = solver.start(A), []
    for _ in range(SWEEPS):
        one, state = timed(lambda: solver.step(state))  # noqa: B023  (called at once)
        seconds.append(one)
    return state.A, state.R, seconds


def _theirs(package: ModuleType, X: list[Any], A: Array, l2: float) -> tuple[Array, Array, list[float]]:
    """Its random start is replaced by ours; the seconds of each sweep are its own."""
    package.rand = lambda *_: A.copy()  # type: ignore[attr-defined]
    options = {"init": "random", "maxIter": SWEEPS, "conv": 0, "lambda_A": l2, "lambda_R": l2, "compute_fit": False}
    found = package.als(list(X), A.shape[1], **options)
    return found[0], np.array(found[1]), list(found[4])


def _difference(ours: Any, theirs: Any, seed: int) -> float:
    """The largest difference of θ at random cells, over the largest θ."""
    theta, theta_peer = _sampled(ours, seed), _sampled(theirs, seed)
    return float(np.max(np.abs(theta - theta_peer)) / np.max(np.abs(theta_peer)))


def _sampled(found: Any, seed: int, n_cells: int = 100_000) -> Array:
    A, R, _ = found
    rng = np.random.default_rng(seed)
    i, j, k = (rng.integers(0, high, n_cells) for high in (len(A), len(A), len(R)))
    theta = np.empty(n_cells)
    for relation in range(len(R)):
        here = k == relation
        theta[here] = np.sum((A[i[here]] @ R[relation]) * A[j[here]], axis=1)
    return theta
