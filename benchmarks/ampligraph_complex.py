"""ComplEx by AmpliGraph on CoDEx-S, two cores, ranked by `relatent.evaluate` as the competitors of `time_to_quality`.

AmpliGraph 2.2 needs Python 3.9 to 3.11 and NumPy below 2, relatent NumPy 2: each has an environment of its own.

    pip install ampligraph==2.2.0                                          # in an environment of its own
    python benchmarks/ampligraph_complex.py train FOLDER DATA              # there; DATA: train.txt …
    python benchmarks/ampligraph_complex.py evaluate FOLDER                # where relatent is installed

`train` runs every setting for a time, and writes the vectors at some moments; `evaluate` chooses the setting and the
moment by the validation facts. Seconds are those of training, without imports, the first batch and writing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

MOMENTS = (1 / 8, 1 / 4, 1 / 2, 1.0)  # shares of the time at which vectors are written
COMMON = {"k": 200, "eta": 20, "lr": 5e-3, "l3": 1e-4, "batch_size": 1000}
SETTINGS = [  # AmpliGraph's own for FB15k-237: k 350, eta 30, L3 1e-4, Adam 5e-5 over 4,000 epochs
    COMMON,
    COMMON | {"lr": 1e-2, "l3": 1e-3},
    COMMON | {"k": 350, "eta": 30},
    COMMON | {"lr": 2e-3, "l3": 1e-2},
    COMMON | {"lr": 2e-3, "l3": 1e-1},
    COMMON | {"lr": 2e-3, "l3": 3e-1},
]


def train(folder: Path, data: Path, seconds: float, settings: dict[str, Any], name: str) -> None:
    """One model of AmpliGraph, its vectors written at every moment."""
    import tensorflow as tf
    from ampligraph.evaluation import mrr_score
    from ampligraph.latent_features import ScoringBasedEmbeddingModel
    from ampligraph.latent_features.regularizers import get as regularizer

    splits = {part: np.loadtxt(data / f"{part}.txt", dtype=str, delimiter="\t") for part in ("train", "valid", "test")}
    facts = splits["train"]
    entities, relations = np.unique(facts[:, [0, 2]]), np.unique(facts[:, 1])
    moments = [share * seconds for share in MOMENTS]

    class Watch(tf.keras.callbacks.Callback):  # type: ignore[misc]
        spent, started, batches = 0.0, None, 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.batches += 1
            now = time.perf_counter()
            if self.started is None:  # the first batch compiles
                self.started = now
                return
            spent = self.spent + now - self.started
            if not moments or spent < moments[0]:  # stop_training ends an epoch, not a batch
                return
            moments[:] = [moment for moment in moments if moment > spent]
            vectors = {"A": self.model.get_embeddings(entities, "e"), "R": self.model.get_embeddings(relations, "r")}
            about = json.dumps(settings | {"seconds": spent, "batches": self.batches})
            np.savez(folder / f"{name}-{spent:.0f}.npz", entities=entities, relations=relations, about=about, **vectors)
            self.model.stop_training = not moments
            self.spent, self.started = spent, time.perf_counter()

    model = ScoringBasedEmbeddingModel(settings["eta"], settings["k"], scoring_type="ComplEx", seed=0)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(settings["lr"]),
        loss="multiclass_nll",
        entity_relation_regularizer=regularizer("LP", {"p": 3, "lambda": settings["l3"]}),
    )
    model.fit(facts, batch_size=settings["batch_size"], epochs=100_000, callbacks=[Watch()], verbose=False)
    ranks = model.evaluate(splits["test"], use_filter=splits, corrupt_side="s,o", verbose=False)
    print(name, f"test MRR at the end by AmpliGraph's own evaluator: {mrr_score(ranks):.4f}", flush=True)


def evaluate(folder: Path) -> None:
    """MRR of all vectors in the folder."""
    import relatent
    from relatent.model.relation_matrices import RelationMatrices
    from relatent.model.structure import resolve

    known, valid, test = relatent.load_splits("codex-s")
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as found:
            A, R, about = found["A"], found["R"], json.loads(str(found["about"]))
            places = [np.searchsorted(found[kind], names) for kind, names in _names(known)]
        A, R = A[places[0]], R[places[1]]
        matrices = RelationMatrices.of_parameters(resolve("complex", *R.shape), R, *R.shape)
        factors = relatent.Factors(A, matrices, np.zeros(len(R)), known.entities, known.relations)
        of_valid, of_test = (
            relatent.evaluate(factors, facts, known=[known, other], protocol="benchmark").mrr
            for facts, other in ((valid, test), (test, valid))
        )
        print(path.stem, json.dumps(about), f"validation {of_valid:.4f} test {of_test:.4f}", flush=True)


def _names(facts: Any) -> list[tuple[str, list[str]]]:
    return [("entities", list(facts.entities)), ("relations", list(facts.relations))]


def main() -> None:
    parser = argparse.ArgumentParser(description="ComplEx by AmpliGraph on CoDEx-S.")
    parser.add_argument("what", choices=("train", "evaluate"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settings", type=int, nargs="+", default=range(len(SETTINGS)))
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True, parents=True)
    if given.what == "evaluate":
        evaluate(given.folder)
    else:
        for number in given.settings:
            train(given.folder, given.data, given.seconds, SETTINGS[number], f"setting-{number}")


if __name__ == "__main__":
    main()
