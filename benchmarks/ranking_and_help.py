"""What a user waits for: filtered ranks, and the first answer of the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import machine
import numpy as np
from run import CannotRunError
from timing import bar, default_threads, race, summary, timed

import relatent

Array = np.ndarray[Any, Any]


def ranking(seed: int) -> dict[str, Any]:
    """Both sides of all test facts of WN18RR among 40,943 entities; a sample is ranked again, one by one."""
    train, valid, test = relatent.load_splits("wn18rr")
    rng, rank = np.random.default_rng(seed), 64
    # Small whole numbers: float32 holds every score exactly, so the ranks have to agree to the last one.
    A = rng.integers(-4, 5, (train.n_entities, rank)).astype(np.float32)
    R = rng.integers(-4, 5, (train.n_relations, rank, rank)).astype(np.float32)
    factors = relatent.Factors(A, R, np.zeros(len(R), np.float32), train.entities, train.relations)
    few = relatent.Facts.from_ids(test.triples[:1], test.entities, test.relations)
    relatent.evaluate(factors, few, protocol="benchmark")  # compiles
    before = machine.resident_mb()
    machine.forget_peak()
    seconds = []
    for _ in range(5):
        one, ranks = timed(lambda: relatent.evaluate(factors, test, known=[train, valid], protocol="benchmark").ranks)
        seconds.append(one)
    peak = machine.peak_mb()
    sample = rng.choice(len(test), 100, replace=False)
    known = np.concatenate([facts.triples for facts in (train, valid, test)])
    again = np.array([_ranks_of_one(A, R, test.triples[row], known) for row in sample])
    return {
        "entities": train.n_entities,
        "test_facts": len(test),
        "rank": rank,
        "seconds": summary(seconds),
        "within_seconds": bar(min(seconds), most=3),
        "peak_mb": bar(peak, most=1000),
        "growth_mb": peak - before,
        "ranks_compared": again.size,
        "relative_difference": float(np.max(np.abs(ranks[sample] / again - 1))),
    }


def _ranks_of_one(A: Array, R: Array, fact: Array, known: Array) -> list[float]:
    """Rank of the subject and of the object in float64, by the definition."""
    s, k, o = fact
    left, middle = A.astype(np.float64), R[k].astype(np.float64)
    answers = {
        "subject": (left @ (middle @ left[o]), s, known[(known[:, 1] == k) & (known[:, 2] == o)][:, 0]),
        "object": ((left[s] @ middle) @ left.T, o, known[(known[:, 1] == k) & (known[:, 0] == s)][:, 2]),
    }
    ranks = []
    for scores, target, others in answers.values():
        rivals = np.delete(scores, others)  # the target is among the known
        above, tied = np.sum(rivals > scores[target]), np.sum(rivals == scores[target])
        ranks.append(1 + above + tied / 2)
    return ranks


def help_text(seed: int) -> dict[str, Any]:
    """`relatent --help`, beside a Python that does nothing."""
    script = Path(sys.executable).with_name("relatent")
    command = [str(script), "--help"] if script.exists() else [sys.executable, "-m", "relatent.cli.main", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or "Usage" not in done.stdout:
        raise CannotRunError(f"`relatent --help` gave no help: {(done.stderr.strip() or 'no output').splitlines()[-1]}")
    seconds = race(
        {
            "relatent --help": (lambda: subprocess.run(command, capture_output=True, check=True), default_threads),
            "python -c pass": (
                lambda: subprocess.run([sys.executable, "-c", "pass"], capture_output=True, check=True),
                default_threads,
            ),
        },
        rounds=10,
    )
    return {"seconds": seconds, "lines": len(done.stdout.splitlines())}
