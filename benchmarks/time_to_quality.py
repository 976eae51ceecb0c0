"""Filtered MRR against seconds of training on two cores: ours, PyKEEN and a plain ComplEx, side by side.

    python benchmarks/run.py time-to-quality --save

runs all competitors on all data sets, each in a process of its own on two cores of its own, as many side by side as the
machine has pairs of cores (`python benchmarks/time_to_quality.py --help` runs a part of them).

The clock of a competitor counts training only: no imports, compilation, data loading or evaluation. A peer is evaluated
while it trains; ours, whose learning rate falls to zero over a fit, has one whole fit per point. Every point is the MRR
of all validation and all test facts: filtered, both directions, mean of optimistic and pessimistic rank, all entities
as candidates, by `relatent.evaluate` for all competitors. Ours are plain fits (`calibrate=False`). Where a competitor
has several settings, the one with the best validation MRR at any point is reported; the others are in the file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
from time_to_quality_settings import BUDGETS, SETTINGS

HERE = Path(__file__).resolve().parent
MOMENTS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)  # shares of the budget at which peers are evaluated
PROTOCOL = (
    "filtered, both directions, realistic ranks among all entities; relatent.evaluate for every competitor; "
    "fits of relatent without calibration (calibrate=False)"
)
CORES = 2  # per competitor
GRACE = 15.0  # seconds after the time limit, when the points found so far are taken
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class FinishedError(Exception):
    """The budget of a competitor is spent."""


# --- one competitor, in a process of its own


class Clock:
    """Seconds of training, and the points measured so far."""

    def __init__(self, task: dict[str, Any], out: Path):
        import relatent

        self.deadline = time.perf_counter() + task["wall_limit"]
        self.train, self.valid, self.test = relatent.load_splits(task["data"])
        self.task, self.out, self.budget = task, out, task["budget"]
        self.moments = [share * self.budget for share in MOMENTS]
        self.points: list[dict[str, float]] = []
        self.batches, self.evaluation = 0, 0.0
        self.seconds, self.started = 0.0, time.perf_counter()

    def start(self) -> None:
        """Count from now on."""
        self.started = time.perf_counter()

    def after_batch(self, sides: Callable[[], Any]) -> None:
        """Evaluate a peer if it is time; FinishedError after the last moment."""
        self.batches += 1
        if self.batches == 1:  # the first batch loads parts of PyTorch
            self.start()
            return
        now = time.perf_counter()
        seconds = self.seconds + now - self.started
        is_last = now + 1.2 * self.evaluation >= self.deadline
        if seconds < self.moments[0] and not is_last:
            return
        self.seconds = seconds
        self.moments = [moment for moment in self.moments if moment > seconds]
        self.record(seconds, sides(), batches=self.batches)
        if is_last or not self.moments:
            raise FinishedError
        self.start()

    def record(self, seconds: float, sides: Any, **about: float) -> None:
        """Add a point, and remember how long its evaluation took."""
        begun = time.perf_counter()
        of_valid = mrr(sides, self.valid, [self.train, self.test])
        of_test = mrr(sides, self.test, [self.train, self.valid])
        self.points.append({"seconds": seconds, "valid_mrr": of_valid, "test_mrr": of_test, **about})
        self.points.sort(key=lambda point: point["seconds"])
        self.out.write_text(json.dumps({**self.task, "points": self.points}), encoding="utf-8")
        self.evaluation = time.perf_counter() - begun


def mrr(sides: Any, facts: Any, known: list[Any]) -> float:
    """Of the objects by the first factors and of the subjects by the second ones."""
    import relatent

    of_objects, of_subjects = sides
    ranking = relatent.evaluate(of_objects, facts, known=known, protocol="benchmark")
    other = ranking
    if of_subjects is not of_objects:
        other = relatent.evaluate(of_subjects, facts, known=known, protocol="benchmark")
    return (ranking.by_side["object"].mrr + other.by_side["subject"].mrr) / 2


def run_competitor(task: dict[str, Any], out: Path) -> None:
    """Train one competitor with one setting on one data set; `out` has its points from the first one on."""
    warnings.simplefilter("ignore")
    clock = Clock(task, out)
    competitor, settings, seed = task["competitor"], task["settings"], task["seed"]
    if competitor.startswith("relatent"):
        _fit_ours("softmax" if competitor.endswith("softmax") else "logistic", settings, seed, clock)
    else:
        import peer_models
        import torch

        torch.set_num_threads(CORES)
        train = peer_models.train_plain if competitor == "plain ComplEx" else peer_models.train_pykeen
        mrr((_any_factors(clock.train),) * 2, clock.valid.subset(slice(0, 10)), [])  # compiles the evaluator
        clock.start()
        with contextlib.suppress(FinishedError):
            train(clock.train, settings, seed, clock.after_batch)


def _any_factors(train: Any) -> Any:
    import numpy as np

    import relatent

    n, k = train.n_entities, train.n_relations
    A, R = np.zeros((n, 2), np.float32), np.zeros((k, 2, 2), np.float32)
    return relatent.Factors(A, R, np.zeros(k), train.entities, train.relations)


def _fit_ours(loss: str, settings: dict[str, Any], seed: int, clock: Clock) -> None:
    """One whole fit per point, the one of the default length first; the others are left out if time is short."""
    import relatent

    relatent.Rescal(loss=loss, max_iter=1, random_state=seed, calibrate=False).fit(clock.train)  # compiles
    per_round = 0.0
    for rounds in settings["rounds"]:
        remaining = clock.deadline - time.perf_counter() - 1.2 * clock.evaluation
        if min(remaining, clock.budget) < 1.1 * per_round * rounds:
            continue
        estimator = relatent.Rescal(loss=loss, max_iter=rounds, random_state=seed, calibrate=False)
        begun = time.perf_counter()
        estimator.fit(clock.train)
        seconds = time.perf_counter() - begun
        per_round = seconds / rounds
        clock.record(seconds, (estimator.factors_,) * 2, max_iter=rounds)


# --- all competitors, pinned to pairs of cores


def time_to_quality(
    seed: int,
    data: list[str] | None = None,
    competitors: list[str] | None = None,
    pairs: int | None = None,
    wall_limit: float = 1e9,
    budget_share: float = 1.0,
    done: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Start every competitor with every setting that is not done, the longest first, and gather all points."""
    commit = machine.commit(HERE.parent)
    tasks = [
        {"competitor": name, "data": graph, "settings": one, "budget": budget_share * BUDGETS[graph], "seed": seed}
        for graph in data or BUDGETS
        for name in competitors or SETTINGS
        for one in SETTINGS[name][graph]
    ]
    tasks = [task | {"commit": commit} for task in tasks if not any(task.items() <= run.items() for run in done)]
    tasks.sort(key=lambda task: -task["budget"])
    runs = _side_by_side(tasks, _pairs_of_cores(pairs), time.perf_counter() + wall_limit)
    return {"protocol": PROTOCOL, "cores_per_competitor": CORES, "runs": [*done, *runs]}


def _pairs_of_cores(count: int | None) -> list[list[int]]:
    cores = sorted(os.sched_getaffinity(0))
    pairs = [cores[i : i + CORES] for i in range(0, len(cores) - CORES + 1, CORES)]
    return pairs[:count]


def _side_by_side(tasks: list[dict[str, Any]], pairs: list[list[int]], deadline: float) -> list[dict[str, Any]]:
    """As many processes at a time as there are pairs of cores; what does not start before the deadline is left out."""
    waiting, running, found = list(tasks), {}, []
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            for pair in [pair for pair in pairs if tuple(pair) not in running and waiting]:
                task = waiting.pop(0)
                left = deadline - time.perf_counter()
                if left < 0.5 * task["budget"]:
                    print(f"no time left for {task['competitor']} on {task['data']}", file=sys.stderr)
                    continue
                answer = Path(folder, f"{len(tasks) - len(waiting)}.json")
                running[tuple(pair)] = (_start(task | {"wall_limit": left}, pair, answer), task, answer)
            time.sleep(0.2)
            if time.perf_counter() > deadline + GRACE:
                for process, _, _ in running.values():
                    process.kill()
                    process.wait()
            for pair, (process, task, answer) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[pair]
                if process.returncode:
                    print(f"{task['competitor']} on {task['data']} ended by {process.returncode}", file=sys.stderr)
                if answer.exists():
                    found.append(json.loads(answer.read_text(encoding="utf-8")))
                    print(_line(found[-1]), file=sys.stderr, flush=True)
    return found


def _start(task: dict[str, Any], pair: list[int], answer: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | dict.fromkeys(THREADS, str(CORES)) | {"CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(HERE / "time_to_quality.py"), "--task", json.dumps(task), "--out", str(answer)]
    return subprocess.Popen(["taskset", "-c", ",".join(map(str, pair)), *command], env=environment)


def _line(run: dict[str, Any]) -> str:
    points = ", ".join(f"{p['seconds']:.0f} s {p['valid_mrr']:.4f}/{p['test_mrr']:.4f}" for p in run["points"])
    return f"{run['data']} {run['competitor']} {json.dumps(run['settings'])}: {points}"


# --- the command line


def main() -> None:
    parser = argparse.ArgumentParser(description="Run some competitors of time-to-quality, and write their points.")
    parser.add_argument("--data", nargs="+", choices=BUDGETS, help="data sets; all by default")
    parser.add_argument("--competitors", nargs="+", choices=SETTINGS, help="all by default")
    parser.add_argument("--pairs", type=int, help="competitors side by side; all pairs of cores by default")
    parser.add_argument("--wall-limit", type=float, default=1e9, help="seconds after which all stop")
    parser.add_argument("--budget-share", type=float, default=1.0, help="share of the budgets, for a trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="file to write; runs in it are kept, not repeated")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task is not None:
        run_competitor(json.loads(given.task), given.out)
        return
    before = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else None
    done = before["results"]["runs"] if before else []
    watch = machine.Watch()
    results = time_to_quality(
        given.seed, given.data, given.competitors, given.pairs, given.wall_limit, given.budget_share, done
    )
    report = {
        "name": "time-to-quality",
        "machine": machine.describe() | watch.stop(),
        "commit": machine.commit(HERE.parent),
        "command": _command(given.out),
        "seed": given.seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "results": results,
    }
    if before:
        report["command"] = f"{before['command']} && {report['command']}"
    given.out.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _command(out: Path) -> str:
    """As it was given, but for the name of the file."""
    given = shlex.join("FILE" if word == str(out) else word for word in sys.argv[1:])
    return f"python benchmarks/time_to_quality.py {given}"


if __name__ == "__main__":
    main()
