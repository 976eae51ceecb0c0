"""The sampled likelihood on a GPU: a pass at the size of YAGO, and a planted graph beside the CPU."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from als_sweeps import YAGO
from sampled_likelihood import judged
from timing import bar, timed

import relatent
from gpu import check_gpu, torch
from planted_graphs import heldout_cells, planted, uniform
from relatent.cells.logistic_sampled import default_batches
from relatent.data.facts import Facts
from relatent.fit import init as start
from relatent.fit.losses import Logistic
from relatent.fit.optimisers import SAMPLED_ADAM
from relatent.fit.penalised_likelihood import Layout, PenalisedLikelihood
from relatent.fit.solvers.adam import STEPS_PER_ROUND


def sampled(seed: int) -> dict[str, Any]:
    """A pass over 70 million facts with 64 zeros each at rank 64; and a planted graph, fitted on both devices."""
    check_gpu()
    n, k, n_facts = YAGO
    facts = uniform(n, k, n_facts, random_state=seed)
    torch.cuda.reset_peak_memory_stats()
    found = _sampled_passes(facts, 64, seed, passes=3)
    peak = torch.cuda.max_memory_allocated() / 1e9
    torch.cuda.empty_cache()
    precision = {device: _planted_precision(device, seed) for device in ("cpu", "cuda")}
    return {
        "device": torch.cuda.get_device_name(),
        "entities, relations, facts, rank": [n, k, len(facts), 64],
        **found,
        "peak_gb": peak,
        "planted": precision,
        "bars": {
            "seconds per pass": bar(max(found["seconds_per_pass"]), most=5),
            "peak_gb": bar(peak, most=60),
            "average precision on cuda over cpu": bar(
                precision["cuda"]["average_precision"] - precision["cpu"]["average_precision"], least=-0.01
            ),
        },
    }


def _sampled_passes(facts: Facts, rank: int, seed: int, passes: int) -> dict[str, Any]:
    """Seconds of each pass of Adam from random factors."""
    from relatent.backend.torch_backend import TorchBackend
    from relatent.cells.logistic_sampled_gpu import GpuSampledLogisticSum

    backend, layout = TorchBackend("cuda"), Layout(facts.n_entities, facts.n_relations, rank)
    x = layout.pack(*start.normal(facts, rank, seed), Logistic().bias(*start.ones_and_zeros(facts)), np.float32)
    n_batches = default_batches(facts)
    preparing, cells = timed(lambda: GpuSampledLogisticSum(facts, backend, n_batches=n_batches, random_state=seed))
    penalty = relatent.L2(0.1, 0.1).bound(facts, backend)
    likelihood = PenalisedLikelihood(cells, layout, penalty, bias=True, backend=backend, sample=cells)
    solver = SAMPLED_ADAM.solver(likelihood, backend, max_iter=1000)
    state, seconds, objectives = solver.start(backend.from_numpy(x)), [], []
    rounds = -(-n_batches // STEPS_PER_ROUND)
    for _ in range(passes):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(rounds):
            state = solver.step(state)
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - begun) * n_batches / (rounds * STEPS_PER_ROUND))
        objectives.append(state.objective)
    return {
        "steps_per_pass": n_batches,
        "prepare_seconds": preparing,
        "seconds_per_pass": seconds,
        "objective_estimates": objectives,
        "listed_zeros": len(state.listed),
    }


def _planted_precision(device: str, seed: int) -> dict[str, float]:
    """Average precision of held-out facts among 50 zeros each, after the same sampled fit (calibrate=False)."""
    graph = planted(30_000, 10, 700_000, n_groups=4, signal=4.0, random_state=seed)
    model = relatent.RescalLogit(
        graph.factors.rank, 0.3, 0.3, method="sampled", max_iter=60, device=device, random_state=seed, calibrate=False
    )
    seconds, fitted = timed(lambda: model.fit(graph.train))
    return judged(fitted.factors_, heldout_cells(graph, random_state=seed)) | {"fit_seconds": seconds}
