"""The exact likelihood on a GPU: seconds, digits, memory; how well the presets rank; sweeps of least squares."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from run import CannotRunError
from sklearn.base import clone
from timing import bar, timed

import relatent
from relatent.backend.blas_threads import one_blas_thread
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.sparse.by_row import RowLayout
from relatent.cells.sparse.streamed import StreamedLayout
from relatent.data.facts import Facts
from relatent.data.shard import Shard
from relatent.fit.presets import PRESETS
from relatent.fit.solvers.als import Als

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

N, K = 14_541, 237  # FB15k-237
SIZES = [
    (N, K, 64),
    (N, K, 128),
    (N, K, 256),
    (N, 24, 512),
    (40_943, 11, 256),
    (2_034, 42, 128),
    (10_000, 4, 128),
    (40_000, 4, 128),
    (160_000, 4, 128),
    (1_000_000, 4, 128),
]
BARS = {128: (0.10, 0.13), 256: (0.18, 0.23)}  # seconds: gradient, objective and gradient
PROTOCOL = "filtered, both directions, all entities; plain fits (calibrate=False)"
PUBLISHED = {  # test MRR, filtered: (LibKGE's RESCAL, RESCAL with DURA)
    "fb15k-237": (0.356, 0.368),
    "wn18rr": (0.467, 0.498),
    "codex-s": (0.404, None),
}


def exact(seed: int) -> dict[str, Any]:
    """Whole evaluations against the card's own matrix rate, errors against float64, memory beyond the inputs."""
    check_gpu()
    moment, kept_up = _matrix_rates()
    rows = []
    for n, k, r in SIZES:
        row = _measured(n, k, r, seed)
        rate = 8.0 * n * n * k * r / row["gradient_seconds"] / 1e12
        rows.append(row | {"tflops": rate, "of_rate_kept_up": rate / kept_up, "of_rate_for_a_moment": rate / moment})
        torch.cuda.empty_cache()
    at = {row["rank"]: row for row in rows if (row["entities"], row["relations"]) == (N, K)}
    bars = {f"gradient, rank {r}": bar(at[r]["gradient_seconds"], most=most) for r, (most, _) in BARS.items()}
    bars |= {
        f"objective and gradient, rank {r}": bar(at[r]["objective_and_gradient_seconds"], most=most)
        for r, (_, most) in BARS.items()
    }
    errors = {f"rank {r}": _errors(r, seed) for r in BARS}
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "matrix_tflops_for_a_moment": moment,
        "matrix_tflops_kept_up": kept_up,
        "sizes": rows,
        "errors": errors,
        "bars": bars,
    }


def _measured(n: int, k: int, r: int, seed: int) -> dict[str, Any]:
    """Seconds and memory of evaluations at one size; at the largest only of the gradient."""
    from relatent.backend.torch_backend import TorchBackend
    from relatent.cells.logistic_gpu import GpuLogisticSum

    A, R, b = _parameters(n, k, r, seed)
    cells = GpuLogisticSum(_facts(n, k, seed), TorchBackend("cuda"))
    large = n > 500_000
    gradient = _seconds(lambda: cells(A, R, b, value=False), 1 if large else 5)
    both = None if large else _seconds(lambda: cells(A, R, b), 5)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    if not large:
        cells(A, R, b)
    else:
        cells(A, R, b, value=False)
    extra = torch.cuda.max_memory_allocated() - before
    return {
        "entities": n,
        "relations": k,
        "rank": r,
        "gradient_seconds": gradient,
        "objective_and_gradient_seconds": both,
        "extra_gb": extra / 1e9,
        "allowed_gb": (3 * 4 * (A.numel() + R.numel() + b.numel()) + (1 << 30)) / 1e9,
    }


def presets(seed: int) -> dict[str, Any]:
    """Every preset, fitted on a GPU without calibration: seconds, filtered ranks of the validation and test facts."""
    return _ranked({name: relatent.preset(name, random_state=seed) for name in PRESETS})


def structures(seed: int) -> dict[str, Any]:
    """Presets with structured relations, and a larger rank beside one: validation decides which becomes the preset."""
    chosen = {name: relatent.preset(name, random_state=seed) for name in ("codex-s-complex", "fb15k-237-blocks")}
    loss = relatent.Softmax(relation_weight=4.0, batch_size=4096)
    one_way = relatent.preset("fb15k-237-blocks", random_state=seed).set_params(penalty=relatent.Dura(0.06), loss=loss)
    return _ranked(chosen | {"fb15k-237-one_matrix_per_relation": one_way})


def _ranked(estimators: dict[str, Any]) -> dict[str, Any]:
    """Fits of named estimators; a name is that of the data set and a last word."""
    check_gpu()
    found, data = {}, {}
    for name, estimator in estimators.items():
        estimator.set_params(calibrate=False)
        dataset = name.rsplit("-", 1)[0]
        if dataset not in data:
            data[dataset] = relatent.load_splits(dataset)
        train, valid, test = data[dataset]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a fit of one round
            first, _ = timed(lambda: clone(estimator).set_params(max_iter=1).fit(train))  # noqa: B023
        model = estimator.fit(train)
        looks = {
            "validation": relatent.evaluate(model.factors_, valid, known=test, protocol="benchmark"),
            "test": relatent.evaluate(model.factors_, test, known=valid, protocol="benchmark"),
        }
        libkge, dura = PUBLISHED[dataset]
        found[name] = {
            "seconds": float(model.trace_.seconds[-1]),
            "seconds_of_one_round_with_compiling": first,
            "objective": float(model.trace_.objective[-1]),
            **{
                which: {"mrr": look.mrr, **{f"hits@{k}": look.hits[k] for k in (1, 3, 10)}}
                for which, look in looks.items()
            },
            "published": {"LibKGE": libkge, "RESCAL-DURA": dura},
            "bar": bar(looks["test"].mrr, least=libkge),
        }
        torch.cuda.empty_cache()
    return {"device": torch.cuda.get_device_name(), "protocol": PROTOCOL, **found}


def als(seed: int) -> dict[str, Any]:
    """Sweeps over FB15k-237 at rank 128 from one start: on the GPU, and on this machine's CPU."""
    check_gpu()
    from relatent.backend.torch_backend import TorchBackend

    train = relatent.load_splits("fb15k-237")[0]
    A = np.random.default_rng(seed).random((train.n_entities, 128))
    lambdas = {"l2_entities": 1.0, "l2_relations": 1.0, "l2_attributes": 1.0}
    with one_blas_thread():
        shard, backend = Shard.of(train), NumpyBackend(np.float32)
        all_rows, non_empty = StreamedLayout(shard, 128, backend.dtype), RowLayout(shard, backend)
        here = _sweeps(Als(train, 128, **lambdas, backend=backend, layout=all_rows), A, 5)
        rows = _sweeps(Als(train, 128, **lambdas, backend=backend, layout=non_empty), A, 5)
    there = _sweeps(Als(train, 128, **lambdas, backend=TorchBackend("cuda")), A, 5)
    return {
        "device": torch.cuda.get_device_name(),
        "cpu_seconds_a_sweep": here[0],
        "cpu_seconds_a_sweep_along_rows": rows[0],
        "gpu_seconds_a_sweep": there[0],
        "ratio": min(here[0], rows[0]) / there[0],
        "objectives": {"cpu": here[1], "gpu": there[1]},
        "relative_difference_of_objectives": max(abs(a - b) / a for a, b in zip(here[1], there[1], strict=True)),
    }


def _sweeps(solver: Any, A: Any, count: int) -> tuple[float, list[float]]:
    """Median seconds of a sweep, and the objectives on the way."""
    state = solver.step(solver.start(A))
    seconds, objectives = [], []
    for _ in range(count):
        took, state = timed(lambda: solver.step(state))  # noqa: B023
        seconds.append(took)
        objectives.append(float(state.objective))
    return float(np.median(seconds)), objectives


def check_gpu() -> None:
    if torch is None or not torch.cuda.is_available():
        raise CannotRunError("this benchmark needs a CUDA device and pip install 'relatent[gpu]'")


def _seconds(run: Callable[[], object], repeats: int) -> float:
    """The median after one call that compiles and plans."""
    run()
    taken = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def _matrix_rates() -> tuple[float, float]:
    """TFLOP/s of float16 products of 8192 × 8192 matrices: for a moment, and for a second, at full power."""
    n = 8192
    x, y = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    moment = _seconds(lambda: x @ y, 5)
    count = round(1.0 / moment)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(count):
        x @ y
    torch.cuda.synchronize()
    kept_up = (time.perf_counter() - started) / count
    return 2 * n**3 / moment / 1e12, 2 * n**3 / kept_up / 1e12


def _facts(n: int, k: int, seed: int) -> Facts:
    """As many facts a relation as FB15k-237 has, at random."""
    rng = np.random.default_rng(seed)
    count = 1_150 * k
    s, o = rng.integers(0, n, (2, count))
    return Facts.from_arrays(s, rng.integers(0, k, count), o, n_entities=n, n_relations=k)


def _parameters(n: int, k: int, r: int, seed: int) -> tuple[Any, Any, Any]:
    """θ spread by 2.5 around −8, about as in a fitted model."""
    torch.manual_seed(seed)
    A = torch.randn(n, r, device="cuda") * r**-0.5
    R = torch.randn(k, r, r, device="cuda") * 2.5
    return A, R, torch.full((k,), -8.0, device="cuda")


def _errors(r: int, seed: int) -> dict[str, float]:
    """Relative errors (norms) at FB15k-237's size on fresh inputs, and whether two calls give the same bits."""
    from relatent.backend.torch_backend import TorchBackend
    from relatent.cells.logistic_gpu import GpuLogisticSum

    facts = _facts(N, K, seed + 1)
    A, R, b = _parameters(N, K, r, seed + 1)
    cells = GpuLogisticSum(facts, TorchBackend("cuda"))
    got, again = cells(A, R, b), cells(A, R, b)
    gradient_only = cells(A, R, b, value=False)
    value, dA, dR, db = _in_float64(facts, A, R, b)

    def off(x: Any, y: Any) -> float:
        return float((x.double() - y).norm() / y.norm())

    return {
        "objective": abs(got.value - value) / abs(value),
        "dA": off(got.dA, dA),
        "dR": off(got.dR, dR),
        "db": off(got.db, db),
        "dA without the objective": off(gradient_only.dA, dA),
        "dR without the objective": off(gradient_only.dR, dR),
        "two calls give the same bits": bool(torch.equal(got.dA, again.dA) and torch.equal(got.dR, again.dR)),
    }


def _in_float64(facts: Facts, A: Any, R: Any, b: Any) -> tuple[float, Any, Any, Any]:
    """Value and gradient, relation by relation, with N × N arrays."""
    A, R, b = A.double(), R.double(), b.double()
    dA, dR, db, value = torch.zeros_like(A), torch.zeros_like(R), torch.zeros_like(b), 0.0
    triples = torch.from_numpy(facts.triples.astype(np.int64)).cuda()
    for k in range(len(R)):
        Q = A @ R[k]
        T = Q @ A.T + b[k]
        s, _, o = triples[triples[:, 1] == k].T
        value += float(torch.nn.functional.softplus(T, threshold=1e4).sum()) - float(T[s, o].sum())
        D = torch.sigmoid(T)
        D[s, o] -= 1
        dA += D @ A @ R[k].T + D.T @ Q
        dR[k] = A.T @ (D @ A)
        db[k] = D.sum()
    return value, dA, dR, db
