"""Sampled sums on a GPU: the estimates of the CPU's sum for the same draws, and fits that come to the same model."""

import numpy as np
import pytest
import torch

import relatent
from relatent.backend.torch_backend import TorchBackend
from relatent.cells import logistic_sampled_gpu
from relatent.cells.logistic_sampled import SampledLogisticSum
from relatent.cells.logistic_sampled_gpu import GpuSampledLogisticSum
from relatent.data.facts import Facts
from relatent.model.structure import COMPLEX, FULL, Blocks, parameter_shape
from small_graphs import random_facts, with_types

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BACKEND = TorchBackend(DEVICE, half=False)
EVERYTHING = 1e9  # zeros per fact


def hubs() -> Facts:
    """Most facts share a few objects, and one relation has hardly any."""
    rng = np.random.default_rng(0)
    s, o = rng.integers(0, 300, 4000), np.minimum(rng.geometric(0.05, 4000), 299)
    return Facts.from_arrays(s, (np.arange(4000) > 3990).astype(int), o, n_entities=300, n_relations=3)


WORLDS = {
    "plain": random_facts(60, 3, 500),
    "weighted": random_facts(60, 3, 500, unobserved=100, weighted=True),
    "hubs": hubs(),
    "types": with_types(random_facts(60, 3, 200)),
}


def parameters(facts: Facts, structure=FULL, rank: int = 8):
    rng = np.random.default_rng(1)
    R = rng.normal(size=parameter_shape(structure, facts.n_relations, rank))
    return rng.normal(size=(facts.n_entities, rank)), R, rng.normal(-1, 0.3, facts.n_relations)


def both(facts: Facts, structure=FULL, *, zeros_per_fact: float = 4.0, typed: bool = False, batches: int = 3):
    """The sums on a CPU and on the GPU, and a function that gives their estimates."""
    arrays = parameters(facts, structure)
    settings = {"n_batches": batches, "zeros_per_fact": zeros_per_fact, "typed": typed}
    cpu = SampledLogisticSum(facts, np.float64, **settings)
    gpu = GpuSampledLogisticSum(facts, BACKEND, **settings)

    def estimates(batch: int, uniforms):
        for sampled in (cpu, gpu):
            sampled.draw_by(batch, uniforms)
        on_gpu = gpu(*(BACKEND.from_numpy(x) for x in arrays))
        return cpu(*arrays), (on_gpu.value, *(BACKEND.to_numpy(x) for x in on_gpu[1:]))

    return cpu, gpu, estimates


@pytest.mark.parametrize("structure", [FULL, COMPLEX, Blocks(4)])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("typed", [False, True])
def test_the_same_draws_give_the_same_estimates_as_on_a_cpu(world, structure, typed) -> None:
    _, _, estimates = both(WORLDS[world], structure, typed=typed)
    rng = np.random.default_rng(2)
    for batch in range(3):
        for here, there in zip(*estimates(batch, rng.random((2, 2, WORLDS[world].n_relations))), strict=True):
            size = np.abs(here).max()
            assert np.allclose(here, there, rtol=1e-3, atol=1e-3 * size)


def test_long_lists_and_large_blocks_are_summed_in_pieces(monkeypatch) -> None:
    monkeypatch.setattr(logistic_sampled_gpu, "MAX_PIECE", 7)
    monkeypatch.setattr(logistic_sampled_gpu, "MAX_BLOCK_CELLS", 100)
    _, _, estimates = both(WORLDS["weighted"])
    for here, there in zip(*estimates(1, np.full((2, 2, 3), 0.4)), strict=True):
        assert np.allclose(here, there, rtol=1e-3, atol=1e-3 * np.abs(here).max())


def test_the_same_zeros_are_found_listed_and_summed() -> None:
    facts = WORLDS["plain"]
    cpu, gpu, estimates = both(facts)
    for batch in range(3):
        estimates(batch, np.random.default_rng(batch).random((2, 2, 3)))
    arrays = parameters(facts)
    on_cpu = cpu.update(*arrays)
    on_gpu = gpu.update(*(BACKEND.from_numpy(x) for x in arrays))
    assert len(on_cpu[0]) > 50
    assert len(np.setxor1d(on_cpu[0], on_gpu[0])) <= 2  # a score or a variance next to its limit
    for sampled in (cpu, gpu):
        sampled.restore(on_cpu[0].copy(), np.empty(0, np.int64))
    for here, there in zip(*estimates(0, np.full((2, 2, 3), 0.3)), strict=True):
        assert np.allclose(here, there, rtol=1e-3, atol=1e-3 * np.abs(here).max())


def test_listed_zeros_are_limited(monkeypatch) -> None:
    monkeypatch.setattr(logistic_sampled_gpu, "MAX_ACTIVE_PER_FACT", 0.1)
    _, gpu, estimates = both(WORLDS["plain"])
    estimates(0, np.full((2, 2, 3), 0.3))
    listed, _ = gpu.update(*(BACKEND.from_numpy(x) for x in parameters(WORLDS["plain"])))
    assert 0 < len(listed) <= 50


def test_where_everything_is_drawn_the_estimate_is_the_exact_sum() -> None:
    facts = WORLDS["weighted"]
    _, _, estimates = both(facts, zeros_per_fact=EVERYTHING, batches=1)
    import reference_sums

    exact = reference_sums.logistic(facts, *parameters(facts))
    _, there = estimates(0, np.full((2, 2, 3), 0.5))
    for right, estimate in zip(exact, there, strict=True):
        assert np.allclose(right, estimate, rtol=1e-3, atol=1e-3 * np.abs(right).max())


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU")
def test_a_fit_on_a_gpu_is_reproducible_and_as_good_as_on_a_cpu() -> None:
    facts = relatent.load_dataset("kinships")
    train, test = relatent.split(facts, test_size=0.1, random_state=0)
    settings = {"rank": 20, "method": "sampled", "penalty": relatent.Dura(0.02), "optimiser": relatent.Adam(0.05)}
    found = [
        relatent.RescalLogit(**settings, init="small", max_iter=60, device=device, calibrate=False).fit(train).factors_
        for device in ("cpu", "cuda", "cuda")
    ]
    assert np.array_equal(found[1].A, found[2].A)
    on_cpu, on_gpu, _ = (relatent.evaluate(model, test, known=[train, test]).mrr for model in found)
    assert on_gpu == pytest.approx(on_cpu, abs=0.02)


def test_several_workers_are_refused() -> None:
    from dataclasses import replace
    from types import SimpleNamespace

    from relatent.data.shard import Shard

    two = replace(Shard.of(WORLDS["plain"]), workers=SimpleNamespace(size=2))  # type: ignore[arg-type]
    with pytest.raises(relatent.InputError, match="runs in one process"):
        GpuSampledLogisticSum(two, BACKEND)
