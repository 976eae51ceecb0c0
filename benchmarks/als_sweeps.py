"""Sweeps of alternating least squares against the authors' package, used as it is installed from PyPI."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import machine
import numba
import numpy as np
from run import CannotRunError
from timing import bar, default_threads, summary, timed

import relatent
from planted_graphs import uniform
from relatent.backend.blas_threads import one_blas_thread
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.sparse.prefetch import LINE, prefetch
from relatent.cells.sparse.streamed import PREFETCH_ROWS
from relatent.data.names import Names
from relatent.fit import init as start
from relatent.fit.solvers.als import Als

SWEEPS = 5
Array = np.ndarray[Any, Any]
YAGO = (3_000_000, 40, 70_000_000)  # entities, relations, facts
SHARES = (16, 4, 1)  # of that size, where growth is measured
L2 = 0.01  # small: where factors vanish there is nothing to time
HOW = "needs the package rescal 0.4: pip install --no-deps --target FOLDER rescal==0.4, then --rescal FOLDER"


def als_rescal(seed: int, rescal: str | None) -> dict[str, Any]:
    """Same start, same sweeps, float64 both: the products A R_k Aᵀ have to agree. Beside them ours in float32."""
    compare = partial(_compare, _package(rescal), seed=seed)
    rng = np.random.default_rng(seed)
    n, k, n_facts = 20_000, 5, 200_000
    columns = [rng.integers(0, high, n_facts) for high in (n, k, n)]
    sparse = relatent.Facts.from_arrays(*columns, n_entities=n, n_relations=k)
    large = uniform(300_000, 10, 7_000_000, random_state=seed)
    return {
        "kinships": compare(relatent.load_dataset("kinships"), rank=100, l2=10.0, repeats=10, least=1.5),
        "20,000 entities": compare(sparse, rank=20, l2=0.1, repeats=6, least=4),
        "300,000 entities": compare(large, rank=20, l2=L2, repeats=1, least=10),
        "fb15k-237": compare(relatent.load_splits("fb15k-237")[0], rank=64, l2=1.0, repeats=1, least=10),
    }


def _package(folder: str | None) -> ModuleType:
    if folder is not None:
        sys.path.insert(0, folder)
    np.float = float  # noqa: NPY001  (rescal 0.4 was written for NumPy 1)
    try:
        return import_module("rescal.rescal")
    except ImportError as problem:
        raise CannotRunError(f"this benchmark {HOW} ({problem})") from None


def _compare(
    package: ModuleType, facts: relatent.Facts, *, rank: int, l2: float, seed: int, repeats: int, least: float
) -> dict[str, Any]:
    A = np.random.default_rng(seed).random((facts.n_entities, rank))
    X = [facts.matrix(k) for k in range(facts.n_relations)]
    contestants: dict[str, tuple[Callable[[], tuple[Array, Array, list[float]]], Any]] = {
        "ours": (lambda: _ours(facts, A, l2, "float64"), one_blas_thread),
        "ours, float32": (lambda: _ours(facts, A, l2, "float32"), one_blas_thread),
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
    faster = min(list(seconds)[2:], key=lambda name: min(seconds[name]))
    return {
        "entities": facts.n_entities,
        "relations": facts.n_relations,
        "facts": len(facts),
        "rank": rank,
        "l2": l2,
        "sweeps": SWEEPS,
        "seconds_a_sweep": {name: summary(every) for name, every in seconds.items()},
        "times_faster": bar(min(seconds[faster]) / min(seconds["ours"]), least=least),
        "times_faster_in_float32": min(seconds[faster]) / min(seconds["ours, float32"]),
        "largest_score": float(np.max(np.abs(_sampled(found["ours"], seed)))),
        "relative_difference": bar(_difference(found["ours"], found[faster], seed), most=1e-6),
        "relative_difference_in_float32": _difference(found["ours, float32"], found[faster], seed),
    }


def _ours(facts: relatent.Facts, A: Array, l2: float, dtype: str) -> tuple[Array, Array, list[float]]:
    lambdas = {"l2_entities": l2, "l2_relations": l2, "l2_attributes": 0.0}
    solver = Als(facts, A.shape[1], **lambdas, backend=NumpyBackend(dtype))
    state, seconds = solver.start(A), []
    for _ in range(SWEEPS):
        one, state = timed(lambda: solver.step(state))  # noqa: B023  (called at once)
        seconds.append(one)
    return state.A, state.R, seconds


def _theirs(
    package: ModuleType, X: list[Any], A: Array, l2: float, sweeps: int = SWEEPS
) -> tuple[Array, Array, list[float]]:
    """Its random start is replaced by ours; the seconds of each sweep are its own."""
    package.rand = lambda *_: A.copy()  # type: ignore[attr-defined]
    options = {"init": "random", "maxIter": sweeps, "conv": 0, "lambda_A": l2, "lambda_R": l2, "compute_fit": False}
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


# --- at the size of YAGO: each contestant in a process of its own, so that its peak is its own


def als_yago(seed: int, rescal: str | None) -> dict[str, Any]:
    """Uniform facts, the same start: seconds a sweep, memory of the whole process, and the scores that come out."""
    _package(rescal)
    with tempfile.TemporaryDirectory() as folder:
        apart(folder, "world", size=YAGO, seed=seed)
        run = partial(apart, folder, size=YAGO, seed=seed, sweeps=2)
        ours, theirs = run("ours", rank=10), run("theirs", rank=10, rescal=rescal)
        difference = _of_scores(folder)
        wide = run("ours", rank=50)
        fits = {f"rank {rank}": run("fit", rank=rank) for rank in (10, 50)}
        rates = run("gathers")
    gathered = {10: rates["rows_of_64_bytes"], 50: rates["rows_of_256_bytes"]}  # two gathers a fact
    least = {rank: 2 * YAGO[2] / rate["rows_a_second"] for rank, rate in gathered.items()}
    return {
        "entities, relations, facts": YAGO,
        "l2": L2,
        "ours, rank 10": ours,
        "rescal, rank 10": theirs,
        "ours, rank 50": wide,
        "whole fits of ours": fits,
        "memory": rates,
        "share_of_a_sweep_that_bare_gathers_take": {
            "rank 10": least[10] / ours["seconds_a_sweep"]["best"],
            "rank 50": least[50] / wide["seconds_a_sweep"]["best"],
        },
        "times_faster": bar(theirs["seconds_a_sweep"]["best"] / ours["seconds_a_sweep"]["best"], least=6),
        "relative_difference": bar(difference, most=1e-3),  # float32 against float64
        "rank_10_peak_mb": bar(ours["peak_mb"], most=3000),
        "rank_10_fit_peak_mb": bar(fits["rank 10"]["peak_mb"], most=3000),
        "rank_50_seconds": bar(wide["seconds_a_sweep"]["best"], most=25),
        "rank_50_peak_mb": bar(wide["peak_mb"], most=8000),
        "rank_50_fit_peak_mb": bar(fits["rank 50"]["peak_mb"], most=8000),
    }


def als_growth(seed: int, rescal: str | None) -> dict[str, Any]:
    """Entities and facts × 1, 4, 16 up to the size of YAGO, rank 10, and the rank × 1, 2, 4, 8 at the smallest."""
    _package(rescal)
    found: dict[str, Any] = {"ours": {}, "rescal": {}, "ours by rank": {}}
    for share in SHARES:
        size = (YAGO[0] // share, YAGO[1], YAGO[2] // share)
        with tempfile.TemporaryDirectory() as folder:
            apart(folder, "world", size=size, seed=seed)
            run = partial(apart, folder, size=size, seed=seed, sweeps=2)
            found["ours"][f"{size[2]:,} facts"] = run("ours", rank=10)
            if share > 1:  # als-yago has its sweeps at full size
                found["rescal"][f"{size[2]:,} facts"] = run("theirs", rank=10, rescal=rescal)
            if share == SHARES[0]:
                found["ours by rank"] = {f"rank {rank}": run("ours", rank=rank) for rank in (8, 16, 32, 64)}
    powers = {name: power(found[name], "seconds_a_sweep") for name in ("ours", "rescal")}
    return found | {"exponent": bar(powers["ours"], most=1.1), "exponent_of_rescal": powers["rescal"]}


def power(found: dict[str, Any], what: str) -> float:
    """The slope of log seconds against log size, for measurements in the order of SHARES."""
    seconds = [one[what]["best"] for one in found.values()]
    return float(np.polyfit(-np.log(SHARES[: len(seconds)]), np.log(seconds), 1)[0])


def apart(folder: str, what: str, module: str = "als_sweeps", **task: Any) -> dict[str, Any]:
    """One task in its own process: what it found, its peak memory, and how busy the machine was."""
    task |= {"module": module, "what": what, "folder": folder}
    watch = machine.Watch()
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("run.py")), "--task", json.dumps(task)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout)) | {"machine": watch.stop()}


def do(task: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own does."""
    found = TASKS[task["what"]](task)
    return found | {"peak_mb": machine.peak_mb()}


def _world(task: dict[str, Any]) -> dict[str, Any]:
    facts = uniform(*task["size"], random_state=task["seed"])
    np.save(Path(task["folder"], "facts.npy"), facts.triples)
    return {}


def facts_of(task: dict[str, Any]) -> relatent.Facts:
    """The facts that the task `world` left in the folder."""
    n, k, _ = task["size"]
    return relatent.Facts(np.load(Path(task["folder"], "facts.npy")), Names(n), Names(k, what="relation"))


def _ours_apart(task: dict[str, Any]) -> dict[str, Any]:
    facts, rank = facts_of(task), task["rank"]
    A = np.random.default_rng(task["seed"]).random((facts.n_entities, rank), np.float32)
    options: dict[str, Any] = {"l2_entities": L2, "l2_relations": L2, "l2_attributes": 0.0, "backend": NumpyBackend()}
    with one_blas_thread():
        layout, solver = timed(lambda: Als(facts, rank, **options))
        state, seconds = solver.start(A), []
        del A
        for _ in range(task["sweeps"]):
            one, state = timed(lambda: solver.step(state))  # noqa: B023  (called at once)
            seconds.append(one)
    np.save(Path(task["folder"], "ours.npy"), _sampled((state.A, state.R, None), task["seed"]))
    return {"layout_seconds": layout, "seconds_a_sweep": summary(seconds), "objective": state.objective}


def _theirs_apart(task: dict[str, Any]) -> dict[str, Any]:
    package, facts, rank = _package(task["rescal"]), facts_of(task), task["rank"]
    X = [facts.matrix(k) for k in range(facts.n_relations)]
    A = np.random.default_rng(task["seed"]).random((facts.n_entities, rank), np.float32).astype(np.float64)
    del facts
    found = _theirs(package, X, A, L2, task["sweeps"])
    np.save(Path(task["folder"], "theirs.npy"), _sampled(found, task["seed"]))
    return {"seconds_a_sweep": summary(found[2])}


def _fit_apart(task: dict[str, Any]) -> dict[str, Any]:
    """A plain fit (calibrate=False): start from eigenvectors, then sweeps."""
    facts, rank = facts_of(task), task["rank"]
    with one_blas_thread():
        beginning, _ = timed(lambda: start.eigenvectors(facts, rank, task["seed"]))
    l2 = 1e-6  # under a larger one noise vanishes
    model = relatent.RescalALS(rank, l2, l2, max_iter=3, tol=0.0, calibrate=False)
    seconds, _ = timed(lambda: model.fit(facts))
    return {"start_seconds": beginning, "fit_seconds": seconds, "sweeps": len(model.trace_)}


def _of_scores(folder: str) -> float:
    theta, theta_peer = (np.load(Path(folder, f"{name}.npy")) for name in ("ours", "theirs"))
    return float(np.max(np.abs(theta - theta_peer)) / np.max(np.abs(theta_peer)))


def _gathers(task: dict[str, Any]) -> dict[str, Any]:
    """What the memory gives: numbers read in a row, and rows from anywhere, fetched ahead, on all threads."""
    facts = facts_of(task)
    n, m = facts.n_entities, min(len(facts), 10_000_000)
    columns = np.array(facts.objects[:m])
    del facts
    found: dict[str, Any] = {}
    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        for width in (16, 64):
            table = _aligned_ones(n, width)
            parts = np.array_split(columns, numba.get_num_threads())
            work = partial(pool.map, partial(_gather, table), parts)
            list(work())
            best = min(timed(lambda: list(work()))[0] for _ in range(3))  # noqa: B023  (called at once)
            rate = {"rows_a_second": m / best, "gb_a_second": m * width * 4 / best / 1e9}
            found[f"rows_of_{width * 4}_bytes"] = rate
            blocks = np.array_split(table.ravel(), numba.get_num_threads())
            best = min(timed(lambda: list(pool.map(np.max, blocks)))[0] for _ in range(3))  # noqa: B023
            found["in_a_row_gb_a_second"] = table.nbytes / best / 1e9
    return found


def _aligned_ones(n: int, width: int) -> Array:
    raw = np.ones(n * width + 16, np.float32)
    first = -raw.ctypes.data % LINE // 4
    return raw[first : first + n * width].reshape(n, width)


@numba.njit(nogil=True, fastmath=True)
def _gather(table, columns):  # type: ignore[no-untyped-def]
    total = np.zeros(table.shape[1], table.dtype)
    for c in range(len(columns)):
        coming = columns[min(c + PREFETCH_ROWS, len(columns) - 1)]
        for byte in range(0, 4 * table.shape[1], LINE):
            prefetch(table, np.int64(coming), np.int64(byte))
        row = table[columns[c]]
        for p in range(table.shape[1]):
            total[p] += row[p]
    return total


TASKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "world": _world,
    "ours": _ours_apart,
    "theirs": _theirs_apart,
    "fit": _fit_apart,
    "gathers": _gathers,
}
