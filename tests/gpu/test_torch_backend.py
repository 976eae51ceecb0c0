"""Sums along rows, penalties and optimisers in PyTorch give what they give in NumPy; kernels what plain words give."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import interpreted  # noqa: F401  before what it patches is used
import reference_sums as plain
from relatent.backend import torch_backend
from relatent.backend import triton_kernels as kernels
from relatent.backend.device import gpu
from relatent.backend.numpy_backend import NumpyBackend
from relatent.backend.torch_backend import TorchBackend
from relatent.cells.softmax import SoftmaxSum
from relatent.errors import FitError, InputError
from relatent.fit.checkpoint import Checkpoint
from relatent.fit.loop import run
from relatent.fit.penalised_likelihood import Layout, PenalisedLikelihood
from relatent.fit.penalties import L2, N3, Dura
from relatent.fit.solvers.adam import AdamSearch
from relatent.fit.solvers.als import Als
from relatent.fit.solvers.lbfgs import LbfgsSearch
from small_graphs import random_facts, random_parameters, relative_error

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RELATIONS = [(0, 0, 40), (2, 40, 75)]  # of the rows below: relation, first row, end
TOLERANCE = {True: 1e-3, False: 1e-5 if DEVICE == "cpu" else 1e-3}
FACTS = random_facts(40, 5, 300, unobserved=200, weighted=True)


def tensors(backend, *arrays):
    return [backend.from_numpy(array) for array in arrays]


@pytest.mark.parametrize("relation_weight", [0.0, 0.7])
@pytest.mark.parametrize("half", [True, False], ids=["float16", "float32"])
@pytest.mark.parametrize(("n", "k", "r"), [(1, 1, 1), (2, 3, 2), (12, 3, 4), (90, 7, 33)])
def test_softmax_gives_the_reference_sum(n, k, r, half, relation_weight):
    facts = random_facts(n, k, max(1, n * n * k // 10), unobserved=n * n * k // 5, weighted=True)
    backend, parameters = TorchBackend(DEVICE, half=half), random_parameters(facts, r)
    got = SoftmaxSum(facts, backend, relation_weight=relation_weight)(*tensors(backend, *parameters))
    wanted = plain.softmax(facts, *parameters, relation_weight)
    assert float(got.value) == pytest.approx(wanted.value, rel=1e-5, abs=1e-3)
    for name in ("dA", "dR"):
        error = np.abs(backend.to_numpy(getattr(got, name)) - getattr(wanted, name)).max()
        assert error <= TOLERANCE[half] * max(1, np.abs(getattr(wanted, name)).max()), name


@pytest.mark.parametrize("rows_at_once", [1, 7])
def test_scores_in_small_chunks_give_the_same(monkeypatch, rows_at_once):
    monkeypatch.setattr(torch_backend, "MAX_SCORE_BYTES", rows_at_once * 4 * 64)
    backend, parameters = TorchBackend(DEVICE, half=False), random_parameters(FACTS, 4)
    got = SoftmaxSum(FACTS, backend)(*tensors(backend, *parameters))
    assert relative_error(backend.to_numpy(got.dA), plain.softmax(FACTS, *parameters).dA) <= TOLERANCE[False]


@pytest.mark.parametrize("penalty", [L2(0.3, 0.7), Dura(0.2), Dura(0.2, 0.5), N3(0.1)], ids=repr)
def test_penalties_are_those_of_the_host(penalty):
    A, R, _ = random_parameters(FACTS, 4)
    host, backend = NumpyBackend("float64"), TorchBackend(DEVICE)
    dA, dR = np.zeros_like(A), np.zeros_like(R)
    wanted = penalty.bound(FACTS, host)(A, R, dA, dR)
    slopes = tensors(backend, dA * 0, dR * 0)
    got = penalty.bound(FACTS, backend)(*tensors(backend, A, R), *slopes)
    assert float(got) == pytest.approx(wanted, rel=1e-5)
    assert relative_error(backend.to_numpy(slopes[0]), dA) <= 1e-5
    assert relative_error(backend.to_numpy(slopes[1]), dR) <= 1e-5


@pytest.mark.parametrize("facts", [random_facts(40, 5, 300), FACTS], ids=["plain", "weights and masks"])
def test_sweeps_are_those_of_the_host(facts):
    A, backend = np.random.default_rng(0).normal(size=(40, 4)), TorchBackend(DEVICE)
    lambdas = {"l2_entities": 0.5, "l2_relations": 0.3, "l2_attributes": 0.0}
    solvers = (*(Als(facts, 4, **lambdas, backend=other) for other in (NumpyBackend("float64"), backend)),)
    host, there = (solver.start(A) for solver in solvers)
    for _ in range(3):
        assert there.objective == pytest.approx(host.objective, rel=1e-5)
        assert relative_error(backend.to_numpy(there.A), host.A) < 1e-3
        assert relative_error(backend.to_numpy(there.R), host.R) < 1e-3
        host, there = solvers[0].step(host), solvers[1].step(there)


def likelihood(backend, r=4):
    layout = Layout(FACTS.n_entities, FACTS.n_relations, r)
    cells = SoftmaxSum(FACTS, backend)
    x = layout.pack(*random_parameters(FACTS, r), backend.dtype)
    return PenalisedLikelihood(
        cells, layout, Dura(0.05).bound(FACTS, backend), bias=False, backend=backend
    ), backend.from_numpy(x)


@pytest.mark.parametrize("solve", [LbfgsSearch, AdamSearch], ids=["L-BFGS", "Adam"])
def test_optimisers_go_the_way_they_go_on_the_host(solve):
    ends = []
    for backend in (NumpyBackend("float32"), TorchBackend(DEVICE, half=False)):
        objective, x = likelihood(backend)
        solver = (
            LbfgsSearch(objective, backend=backend)
            if solve is LbfgsSearch
            else AdamSearch(objective, lr=0.05, betas=(0.9, 0.99), rounds=8)
        )
        state = solver.start(x)
        for _ in range(8):
            state = solver.step(state)
        ends.append((state.objective, backend.to_numpy(state.x)))
    assert ends[1][0] == pytest.approx(ends[0][0], rel=1e-3)
    assert relative_error(ends[1][1], ends[0][1]) < 0.02


def test_a_state_on_the_device_is_kept_and_taken_up_again(tmp_path):
    backend = TorchBackend(DEVICE, half=False)

    def go(rounds, checkpoint):
        objective, x = likelihood(backend)
        solver = LbfgsSearch(objective, backend=backend)
        with pytest.warns(UserWarning, match="max_iter"):
            return run(solver, solver.start(x), max_iter=rounds, tol=0, checkpoint=checkpoint, backend=backend)[0]

    go(3, Checkpoint(tmp_path / "kept", every=0))
    resumed, whole = go(6, Checkpoint(tmp_path / "kept", every=0)), go(6, None)
    assert torch.equal(resumed.x, whole.x)
    assert resumed.objective == whole.objective


def test_a_device_that_is_not_there_is_refused_with_a_remedy():
    for name in ("abacus", "mps", "cuda:x"):
        with pytest.raises(InputError, match=f"device must be 'cpu', 'cuda' or 'cuda:1', got '{name}'"):
            gpu(name)
    if DEVICE == "cpu":
        with pytest.raises(InputError, match="finds no CUDA device; use device='cpu'"):
            torch_backend.check("cuda")
    else:
        with pytest.raises(InputError, match=r"there are \d+ CUDA devices"):
            torch_backend.check("cuda:99")


def test_a_gpu_without_room_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=8e9))
    told = "the GPU's 8 GB of memory are not enough: lower the rank, or use device='cpu'"
    with pytest.raises(FitError, match=told), TorchBackend(DEVICE).memory_guard():
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")


# --- kernels, by themselves


def place(array):
    return torch.from_numpy(array).to(DEVICE)


def fetch(tensor):
    return tensor.cpu().numpy()


@pytest.fixture
def rows():
    """Rows of three relations, one of them without any."""
    rng = np.random.default_rng(0)
    bounds = np.array([0, 40, 40, 75])
    X, Y, R = (rng.normal(size=shape).astype(np.float32) for shape in ((75, 9), (75, 9), (3, 9, 9)))
    return bounds, X, Y, R


def in_other_order(array):
    """The same array, with its last two axes exchanged in memory."""
    return place(array).swapaxes(-2, -1).contiguous().swapaxes(-2, -1)


@pytest.mark.parametrize("placed", [place, in_other_order])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("height", kernels.TILES)
def test_rows_times_their_relation(rows, turned, placed, height):
    _, X, _, R = rows
    tiles = [(k, low, min(low + height, stop)) for k, start, stop in RELATIONS for low in range(start, stop, height)]
    got = kernels.times(placed(X), placed(R), torch.tensor(tiles, device=DEVICE), turned, height)
    wanted = np.concatenate([X[:40] @ (R[0].T if turned else R[0]), X[40:] @ (R[2].T if turned else R[2])])
    np.testing.assert_allclose(fetch(got), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("placed", [place, in_other_order])
@pytest.mark.parametrize("height", [10, 37, 2048])
def test_outer_products_are_added_by_relation(rows, placed, height):
    bounds, X, Y, R = rows
    got, pieces = place(R.copy()), kernels.OuterPieces.of(bounds, torch.device(DEVICE), height)
    kernels.add_outer(placed(X), placed(Y), pieces, got)
    wanted = R + np.stack([X[:40].T @ Y[:40], 0 * R[1], X[40:].T @ Y[40:]])
    np.testing.assert_allclose(fetch(got), wanted, rtol=1e-4, atol=1e-4)


def test_sums_by_segments_of_an_index(rows):
    _, X, _, _ = rows
    starts, index = np.array([0, 20, 20, 60]), np.random.default_rng(1).integers(0, 75, 60)
    weights = np.random.default_rng(2).random(60).astype(np.float32)
    got = kernels.sums(place(X), place(starts), place(index), place(weights))
    products = weights[:, None] * X[index]
    wanted = np.stack([products[:20].sum(0), 0 * X[0], products[20:].sum(0)])
    np.testing.assert_allclose(fetch(got), wanted, rtol=1e-4, atol=1e-5)


def test_sums_are_added_to_rows_and_empty_segments_leave_them(rows):
    _, X, _, _ = rows
    starts, index = np.array([0, 20, 20, 60]), np.random.default_rng(1).integers(0, 75, 60)
    got, weights = place(X[:3].copy()), place(np.ones(60, np.float32))
    kernels.add_sums(got, place(X), place(starts), place(index), weights, -2.0)
    wanted = X[:3] - 2 * np.stack([X[index[:20]].sum(0), 0 * X[0], X[index[20:]].sum(0)])
    np.testing.assert_allclose(fetch(got), wanted, rtol=1e-4, atol=1e-4)


def test_relations_with_many_rows_get_higher_tiles():
    assert [kernels.tile_rows(np.array([0, n, 2 * n])) for n in (0, 100, 5000)] == [32, 32, 128]


def test_the_softmax_of_a_row_leaves_hidden_cells_and_filling_out():
    S = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32) * 3
    S[1, 2] = -np.inf
    P, logs = kernels.softmax(place(S), 6, 2.0, torch.float32)
    wanted = np.exp(S[:, :6] - np.logaddexp.reduce(S[:, :6], axis=1, keepdims=True))
    np.testing.assert_allclose(fetch(P)[:, :6], 2 * wanted, rtol=1e-5)
    np.testing.assert_allclose(fetch(logs), np.logaddexp.reduce(S[:, :6], axis=1), rtol=1e-5)
    assert not fetch(P)[:, 6:].any()
