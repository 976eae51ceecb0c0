"""Kernels for complex and block-diagonal matrices, and those on single numbers, give what plain PyTorch gives."""

import numpy as np
import pytest
import torch

from relatent.backend import compact_kernels, compact_matrices
from relatent.backend import triton_kernels as kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = {"complex": (12,), "blocks of 3": (4, 3, 3), "blocks of 1": (12, 1, 1), "one block": (1, 12, 12)}
BOUNDS = np.array([0, 7, 7, 30])  # the second of three relations has no rows


def random(*shape, seed=0):
    numbers = np.random.default_rng([seed, *shape]).normal(size=shape)
    return torch.tensor(numbers, dtype=torch.float32, device=DEVICE)


@pytest.fixture(params=SHAPES)
def parameters(request):
    return random(3, *SHAPES[request.param])


@pytest.mark.parametrize("back", [False, True])
def test_rows_times_the_matrix_of_their_relation(parameters, back):
    X, relation = random(30, 12), torch.tensor(np.repeat([0, 2], [7, 23]), device=DEVICE)
    got = compact_kernels.rows_times(X, parameters, relation, back=back)
    wanted = compact_matrices.rows_times(X, parameters[relation], back=back)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("back", [False, True])
def test_rows_times_a_matrix_of_their_own(parameters, back):
    X, own = random(5, 12), random(5, *parameters.shape[1:])
    got = compact_kernels.rows_times(X, own, None, back=back)
    torch.testing.assert_close(got, compact_matrices.rows_times(X, own, back=back), rtol=1e-5, atol=1e-5)


def test_outer_products_are_added_by_relation(parameters):
    X, Y, got = random(30, 12), random(30, 12, seed=1), parameters.clone()
    compact_kernels.add_outer(X, Y, torch.tensor(BOUNDS, device=DEVICE), got)
    wanted = parameters.clone()
    for k, rows in ((0, slice(0, 7)), (2, slice(7, 30))):
        wanted[k] += compact_matrices.outer(X[rows], Y[rows], parameters[k])
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def test_views_in_another_order_give_the_same():
    X, P = random(12, 30).T, random(12, 3).T
    relation = torch.zeros(30, dtype=torch.int64, device=DEVICE)
    got = compact_kernels.rows_times(X, P, relation, back=False)
    torch.testing.assert_close(got, compact_matrices.rows_times(X, P[relation]), rtol=1e-5, atol=1e-5)


def test_products_of_pairs_of_rows():
    X, Y = random(9, 260), random(9, 260, seed=1)
    got = compact_kernels.complex_products(X, Y)
    torch.testing.assert_close(got, compact_matrices.row_products(X, Y, X[0]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 1000, 20_000])
def test_dot_products_are_in_float64(n):
    a, b = 1e4 * random(n), random(n, seed=1)
    assert float(kernels.dot(a, b)) == pytest.approx(float(torch.dot(a.double(), b.double())), rel=1e-12, abs=1e-9)


def test_a_step_of_adam_is_that_of_pytorch():
    x, g = random(1500), random(1500, seed=1)
    mean, square = torch.zeros_like(x), torch.zeros_like(x)
    wanted = x.clone().requires_grad_()
    optimiser = torch.optim.Adam([wanted], lr=0.1, betas=(0.9, 0.99))
    for t in (1, 2, 3):
        wanted.grad = t * g
        optimiser.step()
        rate = 0.1 * np.sqrt(1 - 0.99**t) / (1 - 0.9**t)
        kernels.adam_step(x, mean, square, t * g, float(rate), (0.9, 0.99), 1e-8)
    torch.testing.assert_close(x, wanted.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("shape", [(1, 2), (9, 260)])
def test_cubes_and_their_derivatives(shape, paired):
    x, counts = random(*shape).requires_grad_(), random(shape[0], 1, seed=1).abs()
    size = (x[:, : shape[1] // 2] ** 2 + x[:, shape[1] // 2 :] ** 2).sqrt() if paired else x.abs()
    wanted = 0.3 * (counts * size**3).sum()
    wanted.backward()
    got = torch.ones(shape, device=DEVICE)
    value = kernels.add_cubes(x.detach(), counts, 0.3, got, paired)
    assert float(value) == pytest.approx(float(wanted.detach()), rel=1e-5)
    torch.testing.assert_close(got, 1 + x.grad, rtol=1e-4, atol=1e-5)
