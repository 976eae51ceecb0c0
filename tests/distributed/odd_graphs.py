"""Small graphs of unusual shape, which several workers must fit as one process does.

`python odd_graphs.py` compares every method on every graph, with two and with four workers that torchrun starts.
"""

from __future__ import annotations

import dataclasses

import numpy as np

import relatent
from relatent.data.facts import Facts

N = 12


def graph(pairs, n=N, n_relations=1, **more):
    """Facts between pairs of entities, relation i mod K."""
    pairs = np.array(sorted(set(map(tuple, pairs))))
    k = np.arange(len(pairs)) % n_relations
    return Facts.from_arrays(pairs[:, 0], k, pairs[:, 1], n_entities=n, n_relations=n_relations, **more)


def within(rng, parts, n=N, count=30):
    """Random pairs inside consecutive parts of equal size: with as many workers, none crosses their ranges."""
    size = n // parts
    drawn = rng.integers(0, size, (count, 2)) + size * rng.integers(0, parts, (count, 1))
    return [*drawn.tolist(), *([i, i + 1] for i in range(0, n, size))]


def graphs():
    """Name and facts of each."""
    rng = np.random.default_rng(3)
    halves, quarters = within(rng, 2), within(rng, 4)
    ring = [(i, (i + 1) % N) for i in range(N)]
    plain = graph(halves, n_relations=2)
    yield "two components", plain
    yield "two components, one relation", graph(halves)
    yield "four components", graph(quarters, n_relations=2)
    yield "components, weighted", dataclasses.replace(plain, weights=0.5 + np.arange(len(plain)) % 3)
    yield "components, weights of zero", dataclasses.replace(plain, weights=np.arange(len(plain)) % 2 + 0.0)
    unknown = np.array([(s, 0, (s + 2) % 3) for s in range(3)])
    yield "components, unobserved", dataclasses.replace(plain, unobserved=unknown[~plain.contains(unknown)])
    yield "components, many relations", graph(quarters, n_relations=9)
    yield "components, attributes", dataclasses.replace(plain, attributes=rng.normal(size=(N, 2)))
    yield "facts of the first half only", graph([pair for pair in halves if max(pair) < N // 2])
    yield "facts of the last quarter only", graph([pair for pair in quarters if min(pair) >= 3 * N // 4])
    yield "every pair crosses", graph([(i, j) for i in range(6) for j in range(6, 12) if (i + j) % 3])
    yield "chain", graph(ring[:-1])
    yield "ring", graph(ring)
    yield "loops", graph([(i, i) for i in range(N)])
    yield "one subject", graph([(0, i) for i in range(1, N)])
    yield "one object", graph([(i, N - 1) for i in range(N - 1)])
    yield "one fact", graph([(2, 9)])
    yield "three facts", graph([(0, 1), (5, 6), (11, 10)])
    yield "as many entities as workers", graph([(0, 1), (1, 0), (2, 3), (3, 3)], n=4)
    yield "a relation without facts", dataclasses.replace(graph(ring), relations=Facts.from_arrays(
        [0], [0], [0], n_relations=3).relations)  # fmt: skip
    yield "every cell", graph([(i, j) for i in range(6) for j in range(6)], n=6)


SETTINGS = {"rank": 2, "l2_entities": 0.1, "l2_relations": 0.1, "max_iter": 3, "tol": 0.0, "dtype": "float64"}
SETTINGS |= {"calibrate": False}
OTHERS = (  # from a random start: eigenvectors of such graphs are not unique
    relatent.RescalLogit(**SETTINGS, init="random", method="exact"),
    relatent.RescalLogit(**SETTINGS, init="random", method="sampled"),
    relatent.Rescal(loss="softmax", init="random", **SETTINGS),
)
MORE = (
    *(relatent.Rescal(loss=loss, init="random", **SETTINGS) for loss in ("squared", "hinge", "categorical")),
    relatent.Rescal(loss=relatent.Softmax(relation_weight=0.5, batch_size=4), init="random", **SETTINGS),
    relatent.RescalLogit(**SETTINGS, init="random", method="exact", optimiser=relatent.Adam(0.05)),
    relatent.RescalLogit(**SETTINGS, init="random", method="sampled", zeros="typed"),
)


def odd_fits(everything=False):
    """Name, estimator and facts of each fit: least squares of every graph, and the others in turn, or all of them."""
    for number, (name, facts) in enumerate(graphs()):
        yield f"als, {name}", relatent.RescalALS(**SETTINGS), facts
        for place, estimator in enumerate(OTHERS + MORE if everything else OTHERS):
            if facts.attributes is None and (everything or number == 0 or number % len(OTHERS) == place):
                yield f"{place}, {name}", estimator, facts


def objectives(workers=None):
    """The objectives of every fit, by name, or the error that stopped it."""
    found = {}
    for name, estimator, facts in odd_fits(everything=True):
        given = facts if workers is None else part(facts, workers.rank, workers.size)
        fitted = sklearn.base.clone(estimator).fit(given, **({} if workers is None else {"workers": workers}))
        found[name] = fitted.trace_.objective
    return found


def main():
    alone = objectives()
    for size in (2, 4):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/objectives.npz"
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
            subprocess.run([*torchrun, __file__, path], check=True, env={**os.environ, "NUMBA_NUM_THREADS": "1"})
            together = np.load(path)
        for name, wanted in alone.items():
            np.testing.assert_allclose(together[name], wanted, rtol=1e-6, atol=1e-6, err_msg=name)
        print(
            f"{size} workers: {len(alone)} fits of {len(list(graphs()))} graphs, each with the objective of one process"
        )


def work(path):
    with Workers.join(timeout=60) as workers:
        found = objectives(workers)
        if workers.rank == 0:
            np.savez(path, **found)


if __name__ == "__main__":
    import os
    import subprocess
    import sys
    import tempfile
    import warnings

    import sklearn.base
    from fits import part

    from relatent.distributed.workers import Workers

    warnings.simplefilter("ignore")
    work(sys.argv[1]) if len(sys.argv) > 1 else main()
