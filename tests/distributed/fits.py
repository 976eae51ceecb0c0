"""The fits that workers do together and one process does alone; `python fits.py FOLDER` is one of the workers."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from pathlib import Path

import numpy as np
import sklearn.base
from odd_graphs import odd_fits

import relatent
from relatent.data.heldout import HeldOut
from relatent.distributed.workers import Workers
from small_graphs import random_facts

warnings.simplefilter("ignore")

PLAIN = random_facts(61, 3, 500)
HIDDEN = random_facts(41, 3, 300, unobserved=150, weighted=True)
HEAVY = dataclasses.replace(HIDDEN, weights=3 * HIDDEN.weights)
RICH = random_facts(40, 2, 300, attributes=4)
UNDIRECTED = PLAIN.with_undirected([1])
COUNTED = dataclasses.replace(PLAIN, times=1.0 + np.arange(len(PLAIN)) % 4)
MANY = random_facts(30_000, 2, 60_000)  # by the roads for many entities: streams and rough eigenvectors
DOUBTED = dataclasses.replace(MANY, weights=np.arange(len(MANY)) % 3 / 2)
SPARSE = random_facts(61, 40, 500)  # most rows have no facts
SPARSE_HIDDEN = random_facts(61, 40, 300, unobserved=200, weighted=True)
VALID = HeldOut(HIDDEN.triples[::7], np.ones(len(HIDDEN.triples[::7]), bool))

EXACT = {"rank": 4, "l2_entities": 0.1, "l2_relations": 0.1, "tol": 0.0, "dtype": "float64", "calibrate": False}
ALS, LOGIT = {**EXACT, "max_iter": 15}, {**EXACT, "max_iter": 12}
SAMPLED = {**LOGIT, "method": "sampled", "max_iter": 8}


def fits():
    """Name, estimator, facts and validation of each."""
    yield "als", relatent.RescalALS(**ALS), PLAIN, None
    yield "als single", relatent.RescalALS(**{**ALS, "dtype": "float32", "max_iter": 5}), PLAIN, None
    yield "als weights unobserved", relatent.RescalALS(**ALS), HIDDEN, None
    yield "als heavy", relatent.RescalALS(**ALS), HEAVY, None
    yield "als attributes", relatent.RescalALS(**ALS), RICH, None
    yield "als validation", relatent.RescalALS(**{**ALS, "max_iter": 60}, patience=3), HIDDEN, VALID
    yield "als facts to validate", relatent.RescalALS(**ALS), PLAIN, random_facts(61, 3, 30, seed=5)
    yield "als many relations", relatent.RescalALS(**ALS), SPARSE, None
    yield "als many relations, masked", relatent.RescalALS(**ALS), SPARSE_HIDDEN, None
    yield "als many", relatent.RescalALS(**{**ALS, "rank": 8, "max_iter": 4}), MANY, None
    yield "als many weights", relatent.RescalALS(**{**ALS, "max_iter": 2}), DOUBTED, None
    yield "logit", relatent.RescalLogit(**LOGIT), PLAIN, None
    yield "logit single", relatent.RescalLogit(**{**LOGIT, "dtype": "float32"}), PLAIN, None
    yield "logit weights unobserved", relatent.RescalLogit(**LOGIT), HIDDEN, None
    yield "logit validation", relatent.RescalLogit(**LOGIT, patience=1), HIDDEN, VALID
    yield "logit random", relatent.RescalLogit(**LOGIT, init="random"), PLAIN, None
    for loss in ("squared", "hinge", "categorical"):
        yield loss, relatent.Rescal(loss=loss, **LOGIT), HIDDEN, None
    yield "poisson", relatent.Rescal(loss="poisson", **LOGIT), COUNTED, None
    for relations in (0.0, 0.5):
        loss = relatent.Softmax(relation_weight=relations, degree_weight=0.5)
        yield f"softmax {relations}", relatent.Rescal(loss=loss, **LOGIT), HIDDEN, None
    batches = relatent.Softmax(relation_weight=0.5, batch_size=20)
    yield "softmax batches", relatent.Rescal(loss=batches, **SAMPLED, penalty=relatent.Dura(0.05)), HIDDEN, None
    for penalty in (relatent.Dura(0.05), relatent.Dura(0.05, 0.5), relatent.N3(0.02)):
        yield repr(penalty), relatent.RescalLogit(**LOGIT, penalty=penalty), HIDDEN, None
    yield "adam", relatent.RescalLogit(**{**LOGIT, "max_iter": 5}, optimiser=relatent.Adam(0.05)), PLAIN, None
    yield "sampled", relatent.RescalLogit(**SAMPLED), PLAIN, None
    yield "sampled weights unobserved", relatent.RescalLogit(**SAMPLED), HIDDEN, None
    yield "exact typed", relatent.RescalLogit(**LOGIT, zeros="typed"), PLAIN, None
    yield "sampled typed", relatent.RescalLogit(**SAMPLED, zeros="typed"), PLAIN, None
    yield "als undirected", relatent.RescalALS(**ALS), UNDIRECTED, None
    yield "logit undirected", relatent.RescalLogit(**LOGIT), UNDIRECTED, None
    yield "sampled undirected", relatent.RescalLogit(**SAMPLED), UNDIRECTED, None
    yield "als calibrated", relatent.RescalALS(**{**ALS, "calibrate": True}), PLAIN, None
    yield "sampled calibrated", relatent.RescalLogit(**{**SAMPLED, "calibrate": True}), PLAIN, None
    yield "sampled many", relatent.RescalLogit(**{**SAMPLED, "max_iter": 3}), MANY, None


def part(facts, rank, size):
    """What one worker is given: a share of the rows, and every fifth also by the next worker; the last one has none.

    Counts add up, so facts that have them are given once.
    """
    givers, turn = max(1, size - 1), np.arange(len(facts))
    again = (turn % 5 == 0) & (facts.times is None)
    mine = (turn % givers == rank) | (again & ((turn + 1) % givers == rank))
    return dataclasses.replace(facts.subset(mine & (rank < givers)), unobserved=facts.unobserved[rank::size])


def main(folder: Path) -> None:
    with Workers.join(timeout=60) as workers:
        found = {}
        for name, estimator, facts, validation in fits():
            sent = []
            fitted = estimator.fit(
                part(facts, workers.rank, workers.size),
                validation,
                workers=workers,
                progress=lambda *_, sent=sent: sent.append(workers.bytes_sent),
            )
            f = fitted.factors_
            found |= {f"{name}/{key}": value for key, value in (("A", f.A), ("R", f.R), ("b", f.bias))}
            if f.calibration is not None:
                found[f"{name}/p"] = f.probability(0, 0, np.arange(len(f.entities)))
            found[f"{name}/objective"] = fitted.trace_.objective
            found[f"{name}/sent"] = np.diff(sent)  # a step, by the first worker
            found[f"{name}/fingerprint"] = np.array(f.about.data.fingerprint)
        for name, estimator, facts in odd_fits():
            fitted = sklearn.base.clone(estimator).fit(part(facts, workers.rank, workers.size), workers=workers)
            found[f"odd/{name}"] = fitted.trace_.objective
        np.savez(folder / f"{workers.rank}.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
