"""Every way to sum a loss over all cells satisfies the protocol `CellSum` and gives the sum of `reference_sums`."""

import inspect

import numpy as np
import pytest

import reference_sums as reference
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.categorical import CategoricalSum
from relatent.cells.cell_sum import CellMemory, CellSum, ModelSize, SampledSum
from relatent.cells.cellwise_tiled import TiledCellwiseSum
from relatent.cells.logistic_sampled import SampledLogisticSum
from relatent.cells.logistic_tiled import TiledLogisticSum
from relatent.cells.softmax import SoftmaxSum
from relatent.cells.squared import SquaredSum
from small_graphs import assert_same_sums, random_facts, random_parameters

pytestmark = pytest.mark.usefixtures("single_blas")

FACTS = random_facts(13, 3, 60, unobserved=40, weighted=True)
EVERY_CELL = 1e9  # zeros per fact


def squared(x, theta):
    return (x - theta) ** 2, 2 * (theta - x)


def sampled(facts):
    cells = SampledLogisticSum(facts, np.float64, zeros_per_fact=EVERY_CELL)
    cells.draw(1)
    return cells


SUMS = {
    "tiled logistic": (lambda facts: TiledLogisticSum(facts, "float64"), reference.logistic),
    "sampled logistic": (sampled, reference.logistic),
    "tiled cellwise": (
        lambda facts: TiledCellwiseSum(facts, squared, "float64"),
        lambda *arguments: reference.cellwise(squared, *arguments),
    ),
    "squared": (
        lambda facts: SquaredSum(facts, "float64"),
        lambda *arguments: reference.cellwise(squared, *arguments),
    ),
    "categorical": (lambda facts: CategoricalSum(facts, "float64"), reference.categorical),
    "softmax": (lambda facts: SoftmaxSum(facts, NumpyBackend("float64")), reference.softmax),
}
each_sum = pytest.mark.parametrize("name", SUMS)


def signature(function):
    return [(p.name, p.kind) for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]


def assert_satisfies(kind, protocol, *members):
    for member in members:
        assert signature(getattr(kind, member)) == signature(getattr(protocol, member)), member


@each_sum
def test_every_sum_satisfies_the_protocol(name):
    assert_satisfies(type(SUMS[name][0](FACTS)), CellSum, "__call__", "memory")


def test_a_sampled_sum_also_satisfies_its_own_protocol():
    assert_satisfies(SampledLogisticSum, SampledSum, "__call__", "memory", "draw", "restore", "update")


@each_sum
def test_every_sum_gives_the_reference_value_and_gradient(name):
    make, expected = SUMS[name]
    parameters = random_parameters(FACTS, 4)
    assert_same_sums(make(FACTS)(*parameters), expected(FACTS, *parameters), 1e-9)


@each_sum
def test_without_the_value_the_gradient_is_the_same(name):
    cells, parameters = SUMS[name][0](FACTS), random_parameters(FACTS, 4)
    whole = [np.array(part) for part in cells(*parameters)[1:]]
    for part, expected in zip(cells(*parameters, value=False)[1:], whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-12)


@each_sum
def test_memory_is_estimated_without_a_sum_and_grows_with_the_rank_and_the_type(name):
    kind = type(SUMS[name][0](FACTS))
    whole = ModelSize.of(FACTS, 400, "float32")
    sizes = (ModelSize.of(FACTS, 4, "float32"), whole, whole._replace(relation_numbers=3 * 800))
    small, wide, compact = (kind.memory(FACTS, size) for size in sizes)
    double = kind.memory(FACTS, ModelSize.of(FACTS, 4, "float64"))
    assert isinstance(small, CellMemory)
    assert 0 < small.held < compact.held < wide.held
    assert small.held < double.held
