"""Whole fits by exact likelihood, and the optimiser inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import dense_numpy
import numpy as np
import scipy.optimize
from timing import bar, summary, timed

import reference_sums as plain
import relatent
from relatent.backend.blas_threads import one_blas_thread
from relatent.backend.numpy_backend import NumpyBackend
from relatent.backend.protocol import ADAM_EPSILON
from relatent.cells.logistic_tiled import TiledLogisticSum
from relatent.data.shard import Shard
from relatent.fit import init as start
from relatent.fit import losses, penalties
from relatent.fit.optimisers import SAMPLED_ADAM
from relatent.fit.penalised_likelihood import Layout, PenalisedLikelihood
from relatent.fit.solvers.adam import BIAS_STEP
from relatent.fit.solvers.lbfgs import LbfgsSearch

STEPS, RANK, L2 = 150, 50, 1.0
Array = np.ndarray[Any, Any]


def logit_kinships(seed: int) -> dict[str, Any]:
    """150 steps without bias from one start: ours (calibrate=False), and dense float64 NumPy with L-BFGS-B.

    NumPy has one thread.
    """
    facts = relatent.load_dataset("kinships")
    A, R = start.normal(facts, RANK, seed)
    X, b = plain.dense_tensors(facts)[0], np.zeros(facts.n_relations)
    factors = relatent.Factors(A, R, b, facts.entities, facts.relations)
    first, _ = timed(lambda: _fit(facts, factors))
    ours, theirs = [], []
    for _ in range(5):
        seconds, (model, evaluations) = timed(lambda: _fit(facts, factors))
        ours.append(seconds)
        found, answer = _fit_by_peer(X, A, R)
        theirs.append(answer["seconds"])
    both = {"ours": (model.factors_.A, model.factors_.R), "peer": _unpacked(found, A, R)}
    objective = {name: _objective(X, *pair) for name, pair in both.items()}
    return {
        "rank": RANK,
        "l2": L2,
        "steps": {"ours": model.n_iter_, "peer": answer["steps"]},
        "evaluations": {"ours": evaluations, "peer": answer["evaluations"]},
        "seconds": {"ours": summary(ours), "peer": summary(theirs)},
        "seconds_to_compile": max(first - min(ours), 0.0),
        "objective_in_float64": objective,
        "relative_difference": abs(objective["ours"] / objective["peer"] - 1),
        "relative_difference_of_reported_objective": abs(model.trace_[-1].objective / objective["ours"] - 1),
        "times_faster": bar(min(theirs) / min(ours), least=5),
        "times_faster_by_medians": float(np.median(theirs) / np.median(ours)),
    }


def _fit(facts: relatent.Facts, init: relatent.Factors) -> tuple[relatent.RescalLogit, int]:
    """A fit and how often it called the evaluator."""
    evaluations = 0

    class Counted(TiledLogisticSum):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            nonlocal evaluations
            evaluations += 1
            return super().__call__(*arguments, **options)

    model = relatent.RescalLogit(
        rank=RANK, l2_entities=L2, l2_relations=L2, bias=False, max_iter=STEPS, tol=0, init=init, calibrate=False
    )
    with mock.patch.object(losses, "TiledLogisticSum", Counted), warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.ConvergenceWarning)
        return model.fit(facts), evaluations


def _fit_by_peer(X: Array, A: Array, R: Array) -> tuple[Array, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "start.npz", X=X, A=A, R=R)
        (folder / "settings.json").write_text(json.dumps({"l2": L2, "max_iter": STEPS}))
        one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, dense_numpy.__file__, name]
        done = subprocess.run(command, env=one_thread, capture_output=True, text=True, check=True)
        return np.load(folder / "found.npy"), json.loads(done.stdout)


def _unpacked(x: Array, A: Array, R: Array) -> tuple[Array, Array]:
    return x[: A.size].reshape(A.shape), x[A.size :].reshape(R.shape)


def _objective(X: Array, A: Array, R: Array) -> float:
    A, R = A.astype(np.float64), R.astype(np.float64)
    return dense_numpy.dense_logistic(X, A, R, np.zeros(len(R)))[0] + L2 * float(np.sum(A**2) + np.sum(R**2))


# --- which optimiser for the exact sum of a middle size


def exact_optimisers(seed: int, evaluations: int = 250, rank: int = 32, l2: float = 1.0) -> dict[str, Any]:
    """Objective of CoDEx-S after equally many exact sums: L-BFGS, and Adam along a cosine at several rates."""
    facts = relatent.load_splits("codex-s")[0]
    layout = Layout(facts.n_entities, facts.n_relations, rank)
    likelihood = PenalisedLikelihood(
        TiledLogisticSum(facts),
        layout,
        penalties.L2(l2, l2).bound(facts, NumpyBackend()),
        bias=True,
        backend=NumpyBackend(),
    )
    model = relatent.RescalLogit(rank, l2, l2, random_state=seed)
    with one_blas_thread():
        x = layout.pack(*model._start(losses.Logistic(), Shard.of(facts)), np.float32)
        likelihood(x)
        seconds, found = timed(lambda: _lbfgs_within(likelihood, x, evaluations))
        runs = {"L-BFGS": {"objective": found, "seconds": seconds}}
        for rate in (0.05, 0.1, 0.2):
            seconds, found = timed(lambda: _adam_within(likelihood, layout, x, evaluations, rate))  # noqa: B023
            runs[f"Adam, {rate} of the parameters' size"] = {"objective": found, "seconds": seconds}
    return {"rank": rank, "l2": l2, "evaluations": evaluations, **runs}


def _lbfgs_within(likelihood: PenalisedLikelihood, x: Array, evaluations: int) -> float:
    solver = LbfgsSearch(likelihood)
    state = solver.start(x)
    while state.evaluations < evaluations:
        state = solver.step(state)
    return state.objective


def _adam_within(likelihood: PenalisedLikelihood, layout: Layout, x: Array, evaluations: int, rate: float) -> float:
    """Steps as the sampled fit takes them, on exact gradients."""
    x, mean, square = x.copy(), np.zeros_like(x), np.zeros_like(x)
    beta1, beta2 = SAMPLED_ADAM.beta1, SAMPLED_ADAM.beta2
    for t in range(1, evaluations + 1):
        g = likelihood(x)[1]
        mean += (1 - beta1) * (g - mean)
        square += (1 - beta2) * (g * g - square)
        left = (1 + np.cos(np.pi * t / evaluations)) / 2
        step = left * np.sqrt(1 - beta2**t) / (1 - beta1**t) * mean / (np.sqrt(square) + ADAM_EPSILON)
        sizes = (*(rate * np.sqrt(np.mean(np.square(part))) for part in layout.views(x)[:2]), BIAS_STEP)
        for part, change, size in zip(layout.views(x), layout.views(step), sizes, strict=True):
            part -= size * change
    return likelihood(x)[0]


# --- the optimiser alone


class Run(NamedTuple):
    """What an optimiser did."""

    seconds: float
    seconds_outside: float  # of the objective
    evaluations: int
    steps: int
    objective: float


Optimiser = Callable[[Any, Array], tuple[int, float]]  # objective, start → steps, objective reached


def lbfgs(seed: int) -> dict[str, Any]:
    """Equal steps from one start on one float32 objective; memory on a parabola of as many variables."""
    rng = np.random.default_rng(seed)
    n, k = 2034, 4  # entities of CoDEx-S, a tenth of its relations
    columns = [rng.zipf(1.5, 20_000) % n, rng.integers(0, k, 20_000), rng.zipf(1.5, 20_000) % n]
    problems = {
        "kinships": (relatent.load_dataset("kinships"), 5),
        "2,034 entities, 4 relations": (relatent.Facts.from_arrays(*columns, n_entities=n, n_relations=k), 2),
    }
    return {name: _compare(facts, seed, repeats) for name, (facts, repeats) in problems.items()}


def _compare(facts: relatent.Facts, seed: int, repeats: int) -> dict[str, Any]:
    layout = Layout(facts.n_entities, facts.n_relations, RANK)
    penalty = penalties.L2(L2, L2).bound(facts, NumpyBackend())
    likelihood = PenalisedLikelihood(TiledLogisticSum(facts), layout, penalty, bias=True, backend=NumpyBackend())
    x = layout.pack(*start.normal(facts, RANK, seed), losses.Logistic().bias(*start.ones_and_zeros(facts)), np.float32)
    optimisers: dict[str, Optimiser] = {"ours": _ours, "SciPy": _scipys}
    runs: dict[str, list[Run]] = {name: [] for name in optimisers}
    with one_blas_thread():
        likelihood(x)
        for _ in range(repeats):
            for name, optimiser in optimisers.items():
                runs[name].append(_run(optimiser, likelihood, x))
    fastest = {name: min(every, key=lambda run: run.seconds) for name, every in runs.items()}
    return {
        "parameters": len(x),
        **{name: run._asdict() | {"memory_mb": _memory(optimisers[name], len(x))} for name, run in fastest.items()},
        "relative_difference": fastest["ours"].objective / fastest["SciPy"].objective - 1,
        "times_faster": fastest["SciPy"].seconds / fastest["ours"].seconds,
    }


def _run(optimiser: Optimiser, likelihood: PenalisedLikelihood, x: Array) -> Run:
    inside: list[float] = []

    def objective(x: Array) -> tuple[float, Array]:
        seconds, answer = timed(lambda: likelihood(x))
        inside.append(seconds)
        return answer  # type: ignore[no-any-return]

    seconds, (steps, reached) = timed(lambda: optimiser(objective, x))
    return Run(seconds, seconds - sum(inside), len(inside), steps, reached)


def _ours(objective: Any, x: Array) -> tuple[int, float]:
    solver = LbfgsSearch(objective)
    state = solver.start(x)
    for _ in range(STEPS):
        state = solver.step(state)
    return STEPS, state.objective


def _scipys(objective: Any, x: Array) -> tuple[int, float]:
    """The vector is float64 for SciPy and float32 for the objective."""

    def widened(x: Array) -> tuple[float, Array]:
        value, gradient = objective(x.astype(np.float32))
        return value, gradient.astype(np.float64)

    options = {"maxiter": STEPS, "maxfun": 10 * STEPS, "ftol": 0, "gtol": 0, "maxcor": 10}
    found = scipy.optimize.minimize(widened, x.astype(np.float64), jac=True, method="L-BFGS-B", options=options)
    return found.nit, float(found.fun)


def _memory(optimiser: Optimiser, n: int) -> float:
    """The most that NumPy held while the optimiser worked on a parabola, in MB."""
    bend = np.linspace(1, 1000, n, dtype=np.float32)

    def parabola(x: Array) -> tuple[float, Array]:
        gradient = bend * x
        return float(gradient @ x) / 2, gradient

    with mock.patch(f"{__name__}.STEPS", 15):
        tracemalloc.start()
        optimiser(parabola, np.ones(n, np.float32))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak / 1e6
