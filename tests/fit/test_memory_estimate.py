"""What a fit says it needs is what it takes."""

import dataclasses
import tracemalloc

import pytest

import relatent
from relatent.data.names import Names
from small_graphs import random_facts

MANY = random_facts(1000, 8, 60_000)  # most memory goes to facts
WIDE = random_facts(2000, 2, 4_000)  # most goes to vectors of entities
SPARSE = random_facts(2000, 40, 15_000)  # most rows have no facts
SHORT = {"max_iter": 3, "tol": 0, "calibrate": False}
STRUCTURED = {
    "method": "sampled",
    "optimiser": relatent.Adam(0.05),
    "penalty": relatent.Dura(0.05),
    "init": "small",
    "max_iter": 1,
    "calibrate": False,
}
EXACT = STRUCTURED | {"method": "exact"}
BATCHES = relatent.Softmax(relation_weight=0.5, batch_size=1000)


def peak(model, facts):
    """Bytes that a fit held at the most."""
    model.fit(facts)  # compiles the kernels of this size
    assert facts.fingerprint  # the facts keep it
    tracemalloc.start()
    try:
        model.fit(facts)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings(
    "ignore:stopped at max_iter", "ignore:all factors have shrunk to zero", "ignore:the factors explain"
)
@pytest.mark.parametrize(
    ("model", "facts"),
    [
        (relatent.RescalALS(10, **SHORT), MANY),
        (relatent.RescalALS(10, **SHORT), WIDE),
        (relatent.RescalALS(10, init="random", **SHORT), SPARSE),
        (relatent.RescalALS(40, init="random", dtype="float64", **SHORT), SPARSE),
        (relatent.RescalLogit(10, method="exact", **SHORT), MANY),
        (relatent.RescalLogit(10, method="exact", init="random", **SHORT), MANY),
        (relatent.RescalLogit(20, **SHORT), WIDE),
        (relatent.RescalLogit(20, dtype="float64", init="random", **SHORT), MANY),
        (relatent.Rescal(10, "squared", **SHORT), MANY),
        (relatent.Rescal(10, "categorical", **SHORT), MANY),
        (relatent.RescalLogit(200, structure=relatent.Blocks(2), **STRUCTURED), SPARSE),
        (relatent.RescalLogit(200, structure="complex", **EXACT), SPARSE),
        (relatent.RescalLogit(200, structure="diagonal", **{**STRUCTURED, "penalty": relatent.N3(0.1)}), SPARSE),
        (relatent.Rescal(20, "softmax", structure=relatent.Blocks(2), **EXACT), SPARSE),
        (relatent.Rescal(100, BATCHES, structure=relatent.Blocks(2), **STRUCTURED), SPARSE),
        (relatent.Rescal(100, "squared", structure="complex", **EXACT), SPARSE),
        (relatent.NonnegativeRescal(10, **SHORT), MANY),
        (relatent.NonnegativeRescal(20, **SHORT), WIDE),
    ],
    ids=lambda value: repr(value) if hasattr(value, "rank") else f"{value.n_entities} entities",
)
def test_memory_is_told_within_a_third(model, facts):
    assert model.estimate_memory(facts).memory == pytest.approx(peak(model, facts), rel=0.33)


def test_what_is_not_counted_is_nothing():
    assert relatent.IRM().estimate_memory(MANY) == (0, 0, 0)


def test_attributes_count_too():
    assert relatent.RescalALS(4).estimate_memory(random_facts(50, 2, 200, attributes=300)).memory > 4 * 8 * 50 * 300


@pytest.mark.filterwarnings(
    "ignore:stopped at max_iter", "ignore:all factors have shrunk to zero", "ignore:the factors explain"
)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("world", [MANY, WIDE, random_facts(50, 3, 1500, unobserved=2000, weighted=True)])
def test_the_size_of_a_model_file_is_told(tmp_path, named, world):
    names = [f"a name of some length, number {i}" for i in range(world.n_entities)] if named else None
    facts = world if names is None else dataclasses.replace(world, entities=Names(names))
    for settings in ({"calibrate": False}, {"keep_facts": False}, {}):
        model = relatent.RescalALS(10, **{**SHORT, "calibrate": True, **settings}).fit(facts)
        model.factors_.save(tmp_path / "m.relatent")
        size = (tmp_path / "m.relatent").stat().st_size - 4096  # of the header, and the settings in it
        assert model.estimate_memory(facts).file == pytest.approx(size, rel=0.2, abs=4096)


def test_the_numbers_of_the_structure_count_not_those_of_whole_matrices(tmp_path):
    whole, compact = (relatent.RescalLogit(200, structure=s, **STRUCTURED) for s in ("full", relatent.Blocks(2)))
    difference = 4 * SPARSE.n_relations * (200 * 200 - 200 * 2)
    assert whole.estimate_memory(SPARSE).memory - compact.estimate_memory(SPARSE).memory > 5 * difference
    compact.fit(SPARSE).factors_.save(tmp_path / "m.relatent")
    told, size = compact.estimate_memory(SPARSE).file, (tmp_path / "m.relatent").stat().st_size
    assert told == pytest.approx(size, rel=0.2)
    on_gpu = (relatent.RescalLogit(200, structure=s, **STRUCTURED, device="cuda") for s in ("full", "diagonal"))
    whole, compact = (model.estimate_memory(SPARSE).memory for model in on_gpu)
    assert whole - compact == 3 * 8 * SPARSE.n_relations * (200 * 200 - 200)
