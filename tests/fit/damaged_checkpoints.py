"""Damage checkpoints at random and resume from them: `python damaged_checkpoints.py [flips] [truncations]`.

Every damaged file must be refused in one line, or lead to the very same model.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import sklearn.base

import relatent
from interruptions import InterruptedFitError, interrupt_at
from relatent.errors import InputError
from relatent.fit.checkpoint import Checkpoint
from small_graphs import random_facts

FACTS = random_facts(12, 2, 40, unobserved=10, weighted=True)
SETTINGS = {"rank": 2, "l2_entities": 0.1, "l2_relations": 0.1, "max_iter": 6, "tol": 0.0, "init": "random"}
MODELS = {
    "als": relatent.RescalALS(**SETTINGS),
    "logit": relatent.RescalLogit(**SETTINGS, method="exact"),
    "sampled": relatent.RescalLogit(**SETTINGS, method="sampled"),
    "irm": relatent.IRM(chains=1, burn_in=3, n_samples=3),
}


def resume(name: str, path: Path, progress=None) -> relatent.Factors:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint = Checkpoint(path, every=1e9, steps=2)
        return sklearn.base.clone(MODELS[name]).fit(FACTS, checkpoint=checkpoint, progress=progress).factors_


def interrupted(name: str, path: Path) -> bytes:
    """The checkpoint of a fit that was stopped after four steps."""
    with contextlib.suppress(InterruptedFitError):
        resume(name, path, interrupt_at(5))
    return path.read_bytes()


def outcome(name: str, path: Path, content: bytes, whole: relatent.Factors) -> str:
    """Whether a file is "refused" or gives the "same" model; AssertionError if it gives another."""
    path.write_bytes(content)
    try:
        found = resume(name, path)
    except InputError as error:
        return "refused in several lines" if "\n" in str(error) else "refused"
    for got, wanted in ((found.A, whole.A), (found.R, whole.R), (found.bias, whole.bias)):
        np.testing.assert_array_equal(got, wanted)
    return "same"


def damage(name: str, folder: Path, flips: int, truncations: int, seed: int = 0) -> dict[str, int]:
    """How many damaged files were refused, and how many gave the same model."""
    path, rng = folder / f"{name}.checkpoint", np.random.default_rng(seed)
    content = interrupted(name, path)
    whole = resume(name, path)
    if outcome(name, path, content, whole) != "same":
        raise AssertionError("the undamaged checkpoint is refused")
    counts = {"refused": 0, "same": 0}
    for place in rng.integers(0, 8 * len(content), flips):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        counts[outcome(name, path, bytes(flipped), whole)] += 1
    for length in rng.integers(0, len(content), truncations):
        counts[outcome(name, path, content[:length], whole)] += 1
    return counts


if __name__ == "__main__":
    n_flips, n_truncations = (int(number) for number in (*sys.argv[1:], 500, 200)[:2])
    with tempfile.TemporaryDirectory() as temporary:
        for model in MODELS:
            print(model, damage(model, Path(temporary), n_flips, n_truncations))
