"""What several workers do in the tests: `python cases.py CASE FOLDER …` is one of them."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import warnings
from pathlib import Path

import fits
import numpy as np
import sklearn.base

import relatent
from relatent.cells.logistic_sampled import score_above
from relatent.distributed.workers import Workers
from relatent.errors import RelatentError
from relatent.fit.checkpoint import Checkpoint
from relatent.fit.solvers.adam import AdamSearch
from relatent.fit.solvers.als import Als
from relatent.fit.solvers.lbfgs import LbfgsSearch
from small_graphs import random_facts

SOLVERS = {"als": Als, "logit": LbfgsSearch, "sampled": AdamSearch}


def model(name):
    """A fit that is broken off and taken up again, and its facts."""
    estimator, facts = next((estimator, facts) for other, estimator, facts, _ in fits.fits() if other == name)
    start = {"init": "random"} if name == "logit" else {}  # so that no steps are taken to compare starts
    return sklearn.base.clone(estimator).set_params(**start), facts


def collectives(workers, folder):
    """Every collective on small arrays; each worker checks its own answers."""
    rank, size = workers.rank, workers.size
    everyone = np.arange(size)
    for dtype in (np.float32, np.float64, np.int64):
        np.testing.assert_array_equal(workers.sum(np.array([rank, 1], dtype)), [everyone.sum(), size])
    assert workers.sum(np.zeros((0, 3))).shape == (0, 3)
    for n in (size, size + 1, 3 * size - 1):
        whole = np.full((n, 2), -1.0)
        whole[workers.entity_range(n)] = rank
        owners = np.repeat(everyone, np.diff(workers.entity_edges(n)))
        np.testing.assert_array_equal(workers.gather_rows(whole), np.stack([owners, owners], axis=1))
    np.testing.assert_array_equal(
        workers.sum_rows(np.full((size + 1, 2), rank)), np.full((1 + (rank == size - 1), 2), everyone.sum())
    )
    parts = workers.gather(np.full(rank, rank, np.int32))
    assert [part.tolist() for part in parts] == [[other] * other for other in range(size)]
    received = workers.exchange(np.repeat(10 * rank + everyone, everyone), everyone.tolist())
    np.testing.assert_array_equal(received, np.repeat(10 * everyone + rank, rank))
    assert workers.broadcast_from(size - 1, np.arange(rank)).tolist() == list(range(size - 1))
    assert workers.broadcast(np.array([rank]), 1).tolist() == [1]
    assert workers.agree(rank + 0.5, 2.0 * rank) == (0.5, 0.0)
    assert workers.any(rank == size - 1)
    assert not workers.any(False)
    assert (workers.sum_int(rank), workers.max(-rank), workers.sum_float(0.5)) == (everyone.sum(), 0.0, size / 2)
    assert workers.gather_texts("é" * rank) == ["é" * other for other in range(size)]
    assert workers.agree_on_text(f"from {rank}") == "from 0"
    everything = np.random.default_rng(0).normal(size=50).astype(np.float32)
    for most in (0, 7, 49, 50):
        cut = score_above(everything[rank::size], most, workers)
        assert np.count_nonzero(everything > cut) == most
    import torch

    assert workers.sum(torch.full((2,), float(rank))).tolist() == [float(everyone.sum())] * 2


def refusals(workers, folder):
    """What is refused, in whose words."""
    rank, size, als = workers.rank, workers.size, relatent.RescalALS(rank=1, max_iter=2, calibrate=False)
    facts, few = fits.PLAIN, random_facts(2, 1, 2)
    other = dataclasses.replace(facts, entities=random_facts(61, 1, 2).entities.extended(["x"])) if rank else facts
    nothing = facts.subset(np.zeros(len(facts), bool))
    heavier = dataclasses.replace(facts, weights=np.full(len(facts), 1.0 + rank))
    tries = {
        "more workers than entities": lambda: als.fit(few, workers=workers),
        "other vocabularies": lambda: als.fit(other, workers=workers),
        "other settings": lambda: relatent.RescalALS(rank=1 + rank, calibrate=False).fit(facts, workers=workers),
        "other validation": lambda: als.fit(facts, facts.subset(np.arange(500) < 9 + rank), workers=workers),
        "two weights": lambda: als.fit(heavier, workers=workers),
        "no facts": lambda: als.fit(nothing, workers=workers),
        "a setting of one": lambda: relatent.RescalALS(max_iter=size - 1 - rank, calibrate=False).fit(
            facts, workers=workers
        ),
        "no facts file": lambda: relatent.read(folder / "nowhere.tsv", workers=workers),
    }
    said = {}
    for name, attempt in tries.items():
        try:
            attempt()
            said[name] = "nothing"
        except RelatentError as problem:
            said[name] = str(problem)
    (folder / f"{rank}.json").write_text(json.dumps(said))


def reading(workers, folder):
    """Every file of a folder, read together: what each worker has, or what it is told."""
    warnings.simplefilter("ignore")
    said = {}
    for path in sorted((folder / "files").iterdir()):
        try:
            facts = relatent.read(path, workers=workers)
        except RelatentError as problem:
            said[path.name] = {"error": str(problem)}
            continue
        said[path.name] = {
            "facts": facts.named(),
            "triples": facts.triples.tolist(),
            "entities": list(facts.entities),
            "relations": list(facts.relations),
            "weights": None if facts.weights is None else facts.weights.tolist(),
            "times": None if facts.times is None else facts.times.tolist(),
        }
    (folder / f"{workers.rank}.json").write_text(json.dumps(said))


def killed(workers, folder, name, rank, step, how="SIGKILL"):
    """A fit in whose middle one worker is killed, or stopped; the others say what they see."""
    estimator, facts = model(name)
    solver = SOLVERS[name]
    plain, taken = solver.step, []

    def counted(self, state):
        taken.append(1)
        if workers.rank == int(rank) and len(taken) == int(step):
            os.kill(os.getpid(), signal.Signals[how])
        return plain(self, state)

    solver.step = counted
    given = fits.part(facts, workers.rank, workers.size)
    try:
        estimator.fit(given, checkpoint=Checkpoint(folder / "state", every=0.0), workers=workers)
    except RelatentError as problem:
        print(f"{type(problem).__name__}: {problem}")
        sys.exit(1)


def resumed(workers, folder, name):
    """The rest of a fit that was broken off."""
    warnings.simplefilter("ignore")
    estimator, facts = model(name)
    steps = []
    fitted = estimator.fit(
        fits.part(facts, workers.rank, workers.size),
        checkpoint=folder / "state" if workers.rank == 0 else folder / "another machine",
        workers=workers,
        progress=lambda done, *_: steps.append(done),
    )
    f = fitted.factors_
    np.savez(folder / f"{workers.rank}.npz", A=f.A, R=f.R, b=f.bias, objective=fitted.trace_.objective, steps=steps)


if __name__ == "__main__":
    with Workers.join(timeout=20) as joined:
        globals()[sys.argv[1]](joined, Path(sys.argv[2]), *sys.argv[3:])
