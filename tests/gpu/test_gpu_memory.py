"""What a fit says it needs on a GPU is what it takes, and a fit that needs more than is free is refused."""

import numpy as np
import pytest
import torch

import relatent
from relatent.backend.torch_backend import TorchBackend
from relatent.errors import InputError
from small_graphs import random_facts

LIKE_FB15K = random_facts(14_541, 237, 272_115)
MANY_FACTS = random_facts(20_000, 4, 1_000_000)
MANY_ENTITIES = random_facts(300_000, 3, 300_000)
ONE_ROUND = {
    "optimiser": relatent.Adam(0.01),
    "penalty": relatent.Dura(0.05),
    "init": "small",
    "calibrate": False,
    "max_iter": 1,
    "device": "cuda",
}
EXACT, SAMPLED = ONE_ROUND | {"method": "exact"}, ONE_ROUND | {"method": "sampled"}
BATCHES = relatent.Softmax(relation_weight=4.0, batch_size=4096, reciprocal=True, group_size=1)
BLOCKS = relatent.Blocks(2)
CASES = {
    "softmax in batches, Blocks(2), rank 2000": (
        relatent.Rescal(2000, BATCHES, structure=BLOCKS, **SAMPLED),
        LIKE_FB15K,
    ),
    "softmax, Blocks(2), rank 2000": (relatent.Rescal(2000, "softmax", structure=BLOCKS, **EXACT), LIKE_FB15K),
    "logistic sampled, Blocks(2), rank 2000": (relatent.RescalLogit(2000, structure=BLOCKS, **SAMPLED), LIKE_FB15K),
    "logistic, Blocks(2), rank 2000": (relatent.RescalLogit(2000, structure=BLOCKS, **EXACT), LIKE_FB15K),
    "softmax in batches, complex": (
        relatent.Rescal(1024, "softmax", structure="complex", **SAMPLED | {"penalty": relatent.N3(0.01)}),
        LIKE_FB15K,
    ),
    "softmax, whole matrices": (relatent.Rescal(256, "softmax", structure="full", **EXACT), LIKE_FB15K),
    "softmax, whole matrices, relations": (
        relatent.Rescal(256, relatent.Softmax(relation_weight=2.0), structure="full", **EXACT),
        LIKE_FB15K,
    ),
    "logistic, whole matrices": (relatent.RescalLogit(256, structure="full", **EXACT), LIKE_FB15K),
    "logistic, complex, rank 512": (relatent.RescalLogit(512, structure="complex", **EXACT), LIKE_FB15K),
    "logistic, many facts": (relatent.RescalLogit(64, structure="full", **EXACT), MANY_FACTS),
    "logistic sampled, many facts": (relatent.RescalLogit(64, structure="full", **SAMPLED), MANY_FACTS),
    "logistic sampled, many entities": (relatent.RescalLogit(64, structure="full", **SAMPLED), MANY_ENTITIES),
    "softmax in batches, many entities": (
        relatent.Rescal(64, "softmax", structure="complex", **SAMPLED),
        MANY_ENTITIES,
    ),
    "L-BFGS": (
        relatent.RescalLogit(64, structure="full", **EXACT | {"optimiser": relatent.Lbfgs(), "max_iter": 3}),
        MANY_FACTS,
    ),
    "least squares": (relatent.RescalALS(64, init="random", max_iter=2, device="cuda", calibrate=False), LIKE_FB15K),
    "least squares, many facts": (
        relatent.RescalALS(20, init="random", max_iter=2, device="cuda", calibrate=False),
        MANY_FACTS,
    ),
}


def peak(model, facts):
    """Bytes on the GPU that a fit held at the most."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    model.fit(facts)
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.gpu
@pytest.mark.filterwarnings(
    "ignore:stopped at max_iter", "ignore:all factors have shrunk to zero", "ignore:the factors explain"
)
@pytest.mark.parametrize("case", CASES)
def test_the_memory_of_a_gpu_is_told(case):
    model, facts = CASES[case]
    told, taken = model.estimate_memory(facts).device, peak(model, facts)
    assert taken <= told <= 2 * taken + (256 << 20)


@pytest.mark.parametrize("model", [relatent.RescalLogit(8, device="cuda"), relatent.RescalALS(8, device="cuda")])
def test_a_fit_larger_than_the_gpu_is_refused(model, monkeypatch):
    monkeypatch.setattr("relatent.backend.torch_backend.check", lambda name: None)
    monkeypatch.setattr(TorchBackend, "free_memory", lambda self: 1 << 20)
    with pytest.raises(InputError, match=r"of rank 8 on 3,000 entities needs about .* of GPU memory, 1\.0 MB are free"):
        model.fit(random_facts(3000, 4, 20_000))


def test_the_gpu_holds_what_the_structure_needs():
    whole, compact = (
        relatent.RescalLogit(1000, structure=structure, **SAMPLED).estimate_memory(LIKE_FB15K).device
        for structure in ("full", BLOCKS)
    )
    assert whole - compact > 4 * 4 * 237 * (1000 * 1000 - 1000 * 2)


def test_a_cpu_needs_no_memory_of_a_gpu():
    assert relatent.RescalLogit(8).estimate_memory(random_facts(30, 2, 100)).device == 0


if __name__ == "__main__":  # the table of docs/design.md
    for name, (model, facts) in CASES.items():
        numbers = facts.n_entities * model.rank
        told, taken = model.estimate_memory(facts).device, peak(model, facts)
        sizes = f"A {4 * numbers / 1e6:6.0f} MB, told {told / 1e6:6.0f}, taken {taken / 1e6:6.0f}"
        print(f"{name:42} {sizes}: {told / taken:.2f}")
        assert np.isfinite(model.factors_.A).all()
