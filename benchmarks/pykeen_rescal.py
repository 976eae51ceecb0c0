"""RESCAL of PyKEEN on the CPU, run by the interpreter that has it: `PYTHON pykeen_rescal.py '{"folder": …}'`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pykeen
import torch
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory


def main() -> None:
    task = json.loads(sys.argv[1])
    train = TriplesFactory.from_path(Path(task["folder"], "train.tsv"))
    ids = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
    valid, test = (TriplesFactory.from_path(Path(task["folder"], f"{name}.tsv"), **ids) for name in ("valid", "test"))
    begun = time.perf_counter()
    found = pipeline(
        training=train,
        validation=valid,
        testing=test,
        model="RESCAL",
        model_kwargs={"embedding_dim": task["rank"]},
        training_kwargs={"num_epochs": task["epochs"], "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=task["seed"],
        device="cpu",
    )
    answer = {
        "optimises": f"{type(found.training_loop).__name__}, {type(found.model.loss).__name__}, as its defaults are",
        "pykeen": pykeen.get_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "epochs": task["epochs"],
        "train_seconds": found.train_seconds,
        "seconds_an_epoch": found.train_seconds / task["epochs"],
        "whole_seconds": time.perf_counter() - begun,
        "filtered_mrr": float(found.get_metric("both.realistic.inverse_harmonic_mean_rank")),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
