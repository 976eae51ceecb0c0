"""The exact sum on a GPU against the reference; without a GPU, in Triton's interpreter."""

import inspect

import numpy as np
import pytest
import torch

import interpreted  # noqa: F401  before what it patches is used
import reference_sums as plain
from relatent.backend.torch_backend import TorchBackend
from relatent.cells.cell_sum import CellSum
from relatent.cells.logistic_gpu import GpuLogisticSum
from relatent.cells.logistic_gpu_corrections import CellsByObject, CellsByRow, PieceFactors, RowCorrections
from relatent.cells.logistic_gpu_kernels import Totals
from relatent.data.facts import Facts
from relatent.model.entity_types import EntityTypes
from small_graphs import random_facts, random_parameters, relative_error, with_types

# The interpreter works out both branches of a `where`, and one may be beyond a float's range.
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GRADIENT, VALUE = 1e-3, 1e-5  # relative, as stated


def on_device(facts, parameters, *, half=True, value=True, **settings):
    backend = TorchBackend(DEVICE, half=half)
    found = GpuLogisticSum(facts, backend, **settings)(*(backend.from_numpy(x) for x in parameters), value=value)
    return found._replace(dA=backend.to_numpy(found.dA), dR=backend.to_numpy(found.dR), db=backend.to_numpy(found.db))


def assert_same(got, wanted, *, value=True):
    if value:
        assert abs(got.value - wanted.value) <= VALUE * (1 + abs(wanted.value))
    for name in ("dA", "dR", "db"):
        assert relative_error(getattr(got, name), getattr(wanted, name)) <= GRADIENT, name


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("half", [True, False], ids=["float16", "tf32"])
@pytest.mark.parametrize(("n", "k", "r"), [(1, 1, 1), (5, 2, 3), (40, 2, 33), (20, 1, 257)])
def test_all_cells_give_the_reference_sum(n, k, r, half, value):
    facts = random_facts(n, k, max(1, n * n * k // 10), unobserved=n * n * k // 5, weighted=True)
    parameters = random_parameters(facts, r)
    got = on_device(facts, parameters, half=half, value=value)
    assert value or np.isnan(got.value)
    assert_same(got, plain.logistic(facts, *parameters), value=value)


def test_work_in_small_pieces_gives_the_same():
    facts = random_facts(130, 2, 400, weighted=True)
    parameters = random_parameters(facts, 8)
    got = on_device(facts, parameters, work_bytes=128 * 16 * 10)
    assert_same(got, plain.logistic(facts, *parameters))


def test_two_ranges_of_rows_add_up_to_all_of_them():
    facts = random_facts(70, 3, 200, unobserved=100)
    parameters = random_parameters(facts, 6)
    first, second = (on_device(facts, parameters, rows=rows) for rows in ((0, 30), (30, 70)))
    both = first._replace(
        value=first.value + second.value, dA=first.dA + second.dA, dR=first.dR + second.dR, db=first.db + second.db
    )
    assert_same(both, plain.logistic(facts, *parameters))


def test_typed_cells_are_those_between_subjects_and_objects_of_the_relation():
    facts = Facts.from_arrays([0, 1, 2, 3], [0, 0, 1, 1], [4, 5, 6, 0], n_entities=8, n_relations=3)
    parameters = random_parameters(facts, 4)
    s, k, o = np.indices((8, 3, 8)).reshape(3, -1)
    allowed = [(facts.triples[facts.triples[:, 1] == r][:, c]).tolist() for r in range(3) for c in (0, 2)]
    outside = np.array(
        [i not in allowed[2 * r] or j not in allowed[2 * r + 1] for i, r, j in zip(s, k, o, strict=True)]
    )
    masked = Facts.from_ids(
        facts.triples, facts.entities, facts.relations, unobserved=np.stack([s, k, o], 1)[outside].astype(np.int32)
    )
    assert_same(on_device(facts, parameters, typed=True), plain.logistic(masked, *parameters))


def test_given_types_say_which_cells_count():
    facts = with_types(Facts.from_arrays([0, 1, 2, 3], [0, 0, 1, 1], [4, 5, 6, 0], n_entities=8, n_relations=3))
    parameters, types = random_parameters(facts, 4), EntityTypes.of(facts, facts.types)
    cells = np.indices((8, 3, 8)).reshape(3, -1).T
    inside = [types.allowed(k, 0)[s] and types.allowed(k, 2)[o] for s, k, o in cells.tolist()]
    outside = cells[~np.array(inside)].astype(np.int32)
    assert len(outside)
    masked = Facts.from_ids(facts.triples, facts.entities, facts.relations, unobserved=outside)
    assert_same(on_device(facts, parameters, typed=True), plain.logistic(masked, *parameters))


def test_steep_and_tiny_factors_are_summed_as_well():
    facts = random_facts(50, 2, 100)
    A, R, b = random_parameters(facts, 5)
    for scale in (1e-3, 5.0):
        parameters = (A * scale, R, b)
        assert_same(on_device(facts, parameters), plain.logistic(facts, *parameters))


def test_two_calls_give_the_same_bits():
    facts = random_facts(60, 3, 200, weighted=True)
    parameters = random_parameters(facts, 7)
    first, second = on_device(facts, parameters), on_device(facts, parameters)
    assert first.value == second.value
    for name in ("dA", "dR", "db"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("kind", [Totals, PieceFactors, CellsByRow, CellsByObject, RowCorrections])
def test_the_fields_that_a_kernel_reads_are_not_hidden_by_members_of_tritons_tuples(kind):
    """The interpreter does not notice: a compiled kernel reads `values` of a tuple as the list of all its values."""
    assert not {"values", "type", "handle", "index", "count"} & set(kind._fields)


def test_the_sum_satisfies_the_protocol():
    for member in ("__call__", "memory"):
        got, wanted = (inspect.signature(getattr(kind, member)) for kind in (GpuLogisticSum, CellSum))
        assert [(p.name, p.kind) for p in got.parameters.values()] == [
            (p.name, p.kind) for p in wanted.parameters.values()
        ]


def test_a_call_on_many_entities_stays_within_the_work_space():
    """The rows worked on at once fit the work space, and the plan covers every row of every relation once."""
    facts = random_facts(3000, 5, 100)
    work_bytes = 1 << 20
    pieces = GpuLogisticSum(facts, TorchBackend(DEVICE), work_bytes=work_bytes).pieces(64)
    rows = np.zeros((5, 3000), int)
    for piece in pieces:
        height = piece.subjects.stop - piece.subjects.start
        assert (piece.high - piece.low) * height * 64 * (8 + 2) <= work_bytes
        rows[piece.low : piece.high, piece.subjects.start : piece.subjects.start + piece.n_subjects] += 1
    assert (rows == 1).all()
