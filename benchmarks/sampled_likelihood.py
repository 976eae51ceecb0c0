"""The likelihood on samples of the cells: cost and memory at the size of YAGO, and how good what it finds is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import machine
import numpy as np
from als_sweeps import L2, SHARES, YAGO, apart, facts_of, power
from run import CannotRunError
from timing import bar, summary, timed

import relatent
from planted_graphs import Planted, heldout_cells, planted, uniform
from relatent.backend.blas_threads import one_blas_thread
from relatent.backend.numpy_backend import NumpyBackend, dot
from relatent.cells.logistic_sampled import SampledLogisticSum, default_batches
from relatent.cells.logistic_sampled_zeros import SideSizes
from relatent.cells.logistic_tiled import TiledLogisticSum
from relatent.data.cell_keys import cells_of, sorted_unique
from relatent.evaluation.metrics import measure
from relatent.fit import init as start
from relatent.fit import penalties
from relatent.fit.losses import Logistic
from relatent.fit.optimisers import SAMPLED_ADAM
from relatent.fit.penalised_likelihood import Layout, PenalisedLikelihood
from relatent.fit.solvers.adam import STEPS_PER_ROUND, AdamSearch, AdamState

RANK = 32
PLANTED = (300_000, 10, 7_000_000)  # entities, relations, facts
Facts = relatent.Facts


# --- cost: one pass over all facts, each measurement in a process of its own


def logit_yago(seed: int) -> dict[str, Any]:
    """One pass over 70 million facts, with the zeros that go with it."""
    with tempfile.TemporaryDirectory() as folder:
        apart(folder, "world", size=YAGO, seed=seed)
        found = _pass(folder, YAGO, RANK, seed)
    return found | {
        "bars": {
            "seconds_a_pass": bar(found["seconds_a_pass"]["best"], most=60),
            "peak_mb": bar(found["peak_mb"], most=8000),
            "zeros_a_fact": bar(found["zeros_a_fact"], least=32),
        }
    }


def logit_growth(seed: int) -> dict[str, Any]:
    """Entities and facts × 1, 4, 16 up to the size of YAGO; and the rank × 1, 2, 4, 8 at the smallest."""
    by_size: dict[str, Any] = {}
    by_rank: dict[str, Any] = {}
    for share in SHARES:
        size = (YAGO[0] // share, YAGO[1], YAGO[2] // share)
        with tempfile.TemporaryDirectory() as folder:
            apart(folder, "world", size=size, seed=seed)
            by_size[f"{size[2]:,} facts"] = _pass(folder, size, RANK, seed)
            if share == SHARES[0]:
                by_rank = {f"rank {rank}": _pass(folder, size, rank, seed) for rank in (8, 16, 32, 64)}
    exponent = bar(power(by_size, "seconds_a_pass"), most=1.1)
    return {"by size": by_size, "by rank": by_rank, "exponent": exponent}


def _pass(folder: str, size: tuple[int, int, int], rank: int, seed: int) -> dict[str, Any]:
    return apart(folder, "pass", module="sampled_likelihood", size=size, rank=rank, seed=seed, passes=2)


def _one_pass(task: dict[str, Any]) -> dict[str, Any]:
    with one_blas_thread():
        _passes(uniform(2000, 3, 20_000), task["rank"], task["seed"], passes=1)  # compiles, or loads what is compiled
        return _passes(facts_of(task), task["rank"], task["seed"], task["passes"])


def _passes(facts: Facts, rank: int, seed: int, passes: int) -> dict[str, Any]:
    """Seconds of a pass by Adam from random factors, where they go, and the zeros that were summed."""
    layout = Layout(facts.n_entities, facts.n_relations, rank)
    bias = Logistic().bias(*start.ones_and_zeros(facts))
    x = layout.pack(*start.normal(facts, rank, seed), bias, np.float32)
    preparing, cells = timed(lambda: SampledLogisticSum(facts, n_batches=default_batches(facts), random_state=seed))
    backend = NumpyBackend()
    penalty = penalties.L2(L2, L2).bound(facts, backend)
    likelihood = PenalisedLikelihood(cells, layout, penalty, bias=True, backend=backend, sample=cells)
    solver = SAMPLED_ADAM.solver(likelihood, backend, max_iter=1000)
    state, seconds = solver.start(x), []
    del x
    rounds = -(-cells.n_batches // STEPS_PER_ROUND)
    of_a_pass = cells.n_batches / (rounds * STEPS_PER_ROUND)  # a round may reach into the next pass
    for _ in range(passes):
        one, state = timed(lambda: _rounds(solver, state, rounds))  # noqa: B023  (called at once)
        seconds.append(one * of_a_pass)
    parts = _parts(cells, layout, state.x)
    peak = machine.peak_mb()
    return {
        "entities, relations, facts": [facts.n_entities, facts.n_relations, len(facts)],
        "rank": rank,
        "steps_a_pass": cells.n_batches,
        "prepare_seconds": preparing,
        "seconds_a_pass": summary(seconds),
        "of_which_about": parts | {"update, and lists": min(seconds) - sum(parts.values())},
        "zeros_a_fact": _zeros_of_a_pass(cells, facts) / len(facts),
        "listed_zeros": len(state.listed),
        "objective_estimate": state.objective,
        "peak_mb": peak,
    }


def _rounds(solver: AdamSearch, state: AdamState, count: int) -> AdamState:
    for _ in range(count):
        state = solver.step(state)
    return state


def _parts(cells: SampledLogisticSum, layout: Layout, x: Any) -> dict[str, float]:
    """Seconds per pass of the listed cells, and of the blocks: a step with tiny blocks, and the rest of a full step."""
    sizes = cells.sizes
    ones = np.ones_like(sizes.uniform)

    def step() -> None:
        cells.draw(0)
        cells(*layout.views(x))

    whole = min(timed(step)[0] for _ in range(2))
    cells.sizes = SideSizes(ones, ones, sizes.distinct)
    listed = min(timed(step)[0] for _ in range(2))
    cells.sizes = sizes
    return {"listed cells": listed * cells.n_batches, "blocks": (whole - listed) * cells.n_batches}


def _zeros_of_a_pass(cells: SampledLogisticSum, facts: Facts) -> int:
    """Cells of the blocks of the first pass that are neither facts nor unobserved."""
    total = 0
    for t in range(1, cells.n_batches + 1):
        cells.draw(t)
        rows, columns = cells.drawn
        for k in range(cells.k):
            known = slice(facts.starts[k], facts.starts[k + 1])
            inside = np.zeros((2, facts.n_entities), bool)
            for side, drawn in enumerate((rows, columns)):
                inside[side, drawn.ids[drawn.starts[k] : drawn.starts[k + 1]]] = True
            hit = inside[0, facts.subjects[known]] & inside[1, facts.objects[known]]
            total += int(np.prod(inside.sum(axis=1))) - int(hit.sum())
    return total


# --- quality: a graph whose truth is known


def planted_truth(seed: int) -> dict[str, Any]:
    """A graph of few, distinct groups: probabilities are nearly of low rank too, and least squares sees the truth."""
    found = _beside_the_truth(seed, n_groups=4, signal=4.0, rounds=150)
    precision = {name: found[name]["average_precision"] for name in ("planted", "als", "logit")}
    return found | {
        "bars": {
            "logit over als": bar(precision["logit"] / precision["als"], least=1),
            "als over planted": bar(precision["als"] / precision["planted"], least=0.9),
            "logit over planted": bar(precision["logit"] / precision["planted"], least=0.9),
        },
    }


def planted_fine(seed: int) -> dict[str, Any]:
    """A graph of many groups: only log-odds are of low rank."""
    return _beside_the_truth(seed, n_groups=256, signal=2.75, rounds=300)


def _beside_the_truth(seed: int, n_groups: int, signal: float, rounds: int) -> dict[str, Any]:
    """Average precision of held-out facts against 50 zeros each: the truth, least squares, the likelihood.

    Fits are plain (calibrate=False).
    """
    n, n_relations, n_facts = PLANTED
    plant = partial(planted, n_groups=n_groups, signal=signal, random_state=seed)
    graph = plant(n, n_relations, n_facts)
    cells, rank = heldout_cells(graph, random_state=seed), graph.factors.rank
    als: Callable[..., Any] = partial(relatent.RescalALS, rank, random_state=seed, calibrate=False)
    logit: Callable[..., Any] = partial(
        relatent.RescalLogit, rank, method="sampled", max_iter=rounds, random_state=seed, calibrate=False
    )
    small = plant(n // 10, n_relations, n_facts // 10)  # as many facts an entity, so λ is alike
    tried = {"als": _tried(als, small, seed), "logit": _tried(logit, small, seed)}
    l2 = {name: float(max(found, key=lambda value: found[value])) for name, found in tried.items()}
    models = {"als": als(l2_entities=l2["als"], l2_relations=l2["als"])}
    models["logit"] = logit(l2_entities=l2["logit"], l2_relations=l2["logit"])
    found: dict[str, Any] = {"planted": judged(graph.factors, cells)}
    for name, model in models.items():
        watch = machine.Watch()
        seconds, fitted = timed(partial(model.fit, graph.train))
        cost = {"iterations": len(model.trace_), "fit_seconds": seconds, "machine": watch.stop()}
        found[name] = judged(fitted.factors_, cells) | cost
    return {
        "entities, relations, facts": list(PLANTED),
        "groups a type": n_groups,
        "signal": signal,
        "rank": rank,
        "validation average precision by l2, a tenth of the size": tried,
        "l2": l2,
        **found,
    }


def _tried(model: Callable[..., Any], graph: Planted, seed: int) -> dict[str, float]:
    """Average precision for each λ on facts held out of the training facts."""
    train, validation = relatent.split(graph.train, test_size=0.05, random_state=seed)
    cells = heldout_cells(graph._replace(train=train, test=validation), random_state=seed + 1)
    fits = {str(l2): model(l2_entities=l2, l2_relations=l2).fit(train) for l2 in (3.0, 10.0, 30.0)}
    return {l2: judged(fitted.factors_, cells)["average_precision"] for l2, fitted in fits.items()}


def judged(factors: relatent.Factors, cells: relatent.HeldOut) -> dict[str, float]:
    scores = np.asarray(factors.score(*cells.cells.T), np.float64)
    probabilities = np.asarray(factors.link.probability(scores, cells.cells[:, 1]), np.float64)
    figures = measure(cells.truth, scores, probabilities)
    return {"auc_pr": figures.auc_pr, "average_precision": figures.average_precision}


# --- the sampled fit beside the exact one


def sampled_exact(seed: int, arxiv: str | None) -> dict[str, Any]:
    """Objective, held-out log loss and seconds of both (calibrate=False), at the λ that validation likes best."""
    file = arxiv or os.environ.get("RELATENT_ARXIV")
    if file is None:
        raise CannotRunError("this benchmark needs the arXiv collaboration graph: --arxiv FILE (TSV of three columns)")
    return {
        "codex-s": _side_by_side(*relatent.load_splits("codex-s"), seed),
        "arxiv": _side_by_side(*_arxiv(file), seed),
    }


def _arxiv(file: str) -> tuple[Facts, Facts, Facts]:
    """Training, validation and test facts of the graph; every edge counts in both directions."""
    edges = relatent.read(file)
    s, k, o = edges.triples.T
    both = (np.concatenate(pair) for pair in ((s, o), (k, k), (o, s)))
    facts = Facts.from_arrays(*both, n_entities=edges.n_entities, n_relations=edges.n_relations)
    rest, test = relatent.split(facts, test_size=0.1, random_state=0)
    train, validation = relatent.split(rest, test_size=0.1, random_state=1)
    return train, validation, test


def _side_by_side(train: Facts, validation: Facts, test: Facts, seed: int) -> dict[str, Any]:
    judges = [_log_loss(validation, train, test), _log_loss(test, train, validation)]
    tried = {}
    for l2 in (0.3, 1.0, 3.0, 10.0, 30.0):
        model = relatent.RescalLogit(RANK, l2, l2, method="sampled", max_iter=250, random_state=seed, calibrate=False)
        tried[str(l2)] = judges[0](model.fit(train).factors_)
    l2 = float(min(tried, key=lambda value: tried[value]))
    compiled = relatent.RescalLogit(RANK, l2, l2, method="exact", max_iter=2, tol=1.0, calibrate=False)
    compiled.fit(train)  # the other has run
    exact_sum = TiledLogisticSum(train)
    found: dict[str, Any] = {}
    for method in ("exact", "sampled"):
        watch = machine.Watch()
        model = relatent.RescalLogit(RANK, l2, l2, method=method, random_state=seed, calibrate=False)
        seconds, _ = timed(partial(model.fit, train))
        factors = model.factors_
        with one_blas_thread():
            value = exact_sum(factors.A, factors.R, factors.bias).value
        found[method] = {
            "objective": value + l2 * (dot(factors.A, factors.A) + dot(factors.R, factors.R)),
            "test_log_loss": judges[1](factors),
            "fit_seconds": seconds,
            "iterations": len(model.trace_),
            "machine": watch.stop(),
        }
    ratio = {key: found["sampled"][key] / found["exact"][key] for key in ("objective", "test_log_loss", "fit_seconds")}
    return {
        "entities, relations, training facts": [train.n_entities, train.n_relations, len(train)],
        "rank": RANK,
        "validation log loss by l2": tried,
        "l2": l2,
        **found,
        "bars": {
            "objective, sampled over exact": bar(ratio["objective"], most=1.05),
            "test log loss, sampled over exact": bar(ratio["test_log_loss"], most=1.02),
            "seconds, sampled over exact": bar(ratio["fit_seconds"], most=1 / 3),
        },
    }


def _log_loss(held: Facts, *others: Facts) -> Callable[[relatent.Factors], float]:
    """The exact mean −log likelihood of all cells but the other facts."""
    known = sorted_unique(np.concatenate([facts.keys for facts in others]))
    facts = replace(held, unobserved=cells_of(known, held.n_entities))
    cells, count = TiledLogisticSum(facts), int(facts.n_observed().sum())

    def judge(factors: relatent.Factors) -> float:
        with one_blas_thread():
            return float(cells(factors.A, factors.R, factors.bias).value / count)

    return judge


TASKS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"pass": _one_pass}


def do(task: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own does."""
    return TASKS[task["what"]](task)
