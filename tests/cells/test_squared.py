import numpy as np
import pytest

import reference_sums as plain
from relatent.cells.sparse import grouped
from relatent.cells.squared import SquaredSum
from small_graphs import random_facts, random_parameters, relative_error

pytestmark = pytest.mark.usefixtures("single_blas")


def loss(x, theta):
    return (x - theta) ** 2, 2 * (theta - x)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-4), ("float64", 1e-9)])
@pytest.mark.parametrize("at_once", [1, 1 << 22])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_closed_form_gives_the_reference_sum(monkeypatch, dtype, tolerance, at_once, weighted):
    monkeypatch.setattr(grouped, "MAX_GROUP_ELEMENTS", at_once)
    facts = random_facts(15, 4, 90, unobserved=70, weighted=weighted)
    parameters = random_parameters(facts, 3)
    got, wanted = SquaredSum(facts, dtype)(*parameters), plain.cellwise(loss, facts, *parameters)
    assert got.value == pytest.approx(wanted.value, rel=tolerance)
    for name in ("dA", "dR", "db"):
        assert relative_error(getattr(got, name), getattr(wanted, name)) <= tolerance, name


def test_the_rank_may_change_between_calls():
    facts = random_facts(10, 2, 30)
    evaluate = SquaredSum(facts, np.float64)
    for rank in (2, 5):
        parameters = random_parameters(facts, rank)
        assert evaluate(*parameters).value == pytest.approx(plain.cellwise(loss, facts, *parameters).value)
