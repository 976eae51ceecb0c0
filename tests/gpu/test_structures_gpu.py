"""The objective of every structure on a GPU is that on a CPU in float64; without a GPU, on PyTorch's CPU device."""

import numpy as np
import pytest
import torch

import interpreted  # noqa: F401  before what it patches is used
from relatent import Blocks, Shared
from relatent.backend import compact_matrices, torch_backend
from relatent.backend.numpy_backend import NumpyBackend
from relatent.backend.torch_backend import TorchBackend
from relatent.cells.sparse import by_row
from relatent.fit.losses import Logistic, Softmax
from relatent.fit.penalised_likelihood import Layout, PenalisedLikelihood
from relatent.fit.penalties import L2, N3, Dura
from relatent.model.structure import parameter_shape, resolve
from small_graphs import random_facts, relative_error

pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, K, RANK = 30, 5, 12
FACTS = random_facts(N, K, 200, unobserved=100, weighted=True)
STRUCTURES = ["full", "complex", "diagonal", Blocks(3), "symmetric", Shared(2)]
LOSSES = [Logistic(), Softmax(), Softmax(relation_weight=2.0)]


def objective(backend, structure, loss, penalty, *, sampled=False):
    layout = Layout(N, K, RANK, resolve(structure, K, RANK))
    if not sampled:
        return PenalisedLikelihood(
            loss.cell_sum(FACTS, backend), layout, penalty.bound(FACTS, backend), bias=True, backend=backend
        )
    sample = loss.sampled_sum(FACTS, backend, typed=False, redraws=True, random_state=0)
    sample.draw(2)
    return PenalisedLikelihood(
        sample, layout, sample.penalty(penalty), bias=False, backend=backend, over_facts=True, sample=sample
    )


def check(structure, loss, penalty, **settings):
    size = N * RANK + int(np.prod(parameter_shape(resolve(structure, K, RANK), K, RANK))) + K
    x = np.random.default_rng(0).normal(scale=0.4, size=size)
    value, gradient = objective(NumpyBackend(np.float64), structure, loss, penalty, **settings)(x)
    device = TorchBackend(DEVICE, half=False)
    got_value, got = objective(device, structure, loss, penalty, **settings)(device.from_numpy(x))
    assert got_value == pytest.approx(value, rel=1e-4)
    assert relative_error(device.to_numpy(got), gradient) <= 1e-3


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_an_objective_on_a_gpu_is_that_of_the_host(structure, loss):
    check(structure, loss, Dura(0.1))


@pytest.mark.parametrize("penalty", [L2(0.3, 0.7), N3(0.1)], ids=repr)
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_penalties_of_structures_are_those_of_the_host(structure, penalty):
    check(structure, Softmax(), penalty)


@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_a_batch_on_a_gpu_is_that_of_the_host(structure):
    check(structure, Softmax(relation_weight=1.0, degree_weight=0.5, batch_size=50), Dura(0.1), sampled=True)


def test_products_in_small_pieces_give_the_same(monkeypatch):
    monkeypatch.setattr(compact_matrices, "MAX_NUMBERS", 200)
    monkeypatch.setattr(by_row, "MAX_ROW_NUMBERS", 1)
    monkeypatch.setattr(torch_backend, "WIDE_NUMBERS", 50)
    check(Blocks(3), Softmax(relation_weight=0.5), Dura(0.1))
