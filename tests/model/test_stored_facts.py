"""Facts in a model file: what is written is what is read, and what is damaged is refused."""

import dataclasses

import numpy as np
import pytest

import relatent
from relatent.data.cell_keys import cell_keys
from relatent.data.facts import Facts
from relatent.model.stored_facts import MAX_BYTES, TENSORS, from_tensors, packed, to_tensors, unpacked
from relatent.tensor_file import RefusedFileError
from small_graphs import random_facts, with_types

PEOPLE = relatent.read(
    [("Ann", "likes", "Bob"), ("Bob", "likes", "Cid")],
    attributes={
        "Ann": {"age": "31", "club": ["red", "blue"]},
        "Bob": {"age": "7", "club": "ré\nd"},
        "Cid": {"age": "9"},
    },
)
WORLDS = {
    "plain": random_facts(),
    "unobserved": random_facts(20, 3, 60, unobserved=40),
    "weights": random_facts(20, 3, 60, unobserved=40, weighted=True),
    "attributes": random_facts(20, 3, 60, attributes=4),
    "attributes by name": PEOPLE,
    "no facts": random_facts().subset(np.zeros(60, bool)),
    "times": dataclasses.replace(random_facts(), times=1.0 + np.arange(60)),
    "one cell": Facts.from_arrays([0], [0], [0]),
    "every cell": Facts.from_tensor(np.ones((7, 7, 3))),
    "the last cell of a large world": Facts.from_arrays(
        [2**20 - 1], [2**12 - 1], [2**20 - 1], n_entities=2**20, n_relations=2**12
    ),
    "types": with_types(random_facts()),
}


def back(facts, arrays=None):
    arrays = to_tensors(facts) if arrays is None else arrays
    return from_tensors(arrays, facts.entities, facts.relations, facts.types).facts


def rising(rng, count, limit):
    return np.sort(rng.choice(limit, count, replace=False)).astype(np.int64)


@pytest.mark.parametrize("seed", range(40))
def test_rising_numbers_are_read_as_they_were_written(seed):
    rng = np.random.default_rng(seed)
    limit = int(2 ** rng.uniform(1, 22))
    keys = rising(rng, int(rng.integers(0, limit + 1)), limit)
    scale = int(2 ** rng.uniform(0, 62 - np.log2(limit)))  # up to 2⁶², with gaps of every length
    keys = keys * scale + rng.integers(0, scale)
    blob = packed(keys)
    np.testing.assert_array_equal(unpacked(blob, int(keys.max(initial=0)) + 1), keys)
    assert len(blob) <= MAX_BYTES * len(keys)
    if len(keys):
        with pytest.raises(RefusedFileError, match="is damaged"):
            unpacked(blob, int(keys.max()))


@pytest.mark.parametrize("gap", [0, 1, 126, 127, 128, 16382, 16383, 16384, 2**21 - 1, 2**21, 2**56 - 1, 2**56])
def test_gaps_at_the_edges_of_a_byte(gap):
    keys = np.cumsum([0, gap + 1, 1, 3 * gap + 1])
    np.testing.assert_array_equal(unpacked(packed(keys), int(keys[-1]) + 1), keys)


@pytest.mark.parametrize("kind", WORLDS)
def test_facts_are_read_as_they_were_written(kind):
    facts = WORLDS[kind]
    found = back(facts)
    assert found.fingerprint == facts.fingerprint
    np.testing.assert_array_equal(found.triples, facts.triples)
    np.testing.assert_array_equal(
        np.sort(cell_keys(found.unobserved, facts.n_entities)), np.sort(cell_keys(facts.unobserved, facts.n_entities))
    )
    for name in ("weights", "times", "attributes"):
        given, read = getattr(facts, name), getattr(found, name)
        assert (given is None) == (read is None)
        if given is not None:
            np.testing.assert_array_equal(read, given)
    if facts.attribute_table is not None:
        assert found.attribute_table.values == facts.attribute_table.values
    assert (found.types is None) == (facts.types is None)
    assert set(to_tensors(facts)) <= set(TENSORS)


@pytest.mark.parametrize(
    ("n", "k", "count"), [(14_541, 237, 272_115), (100_000, 20, 50_000), (104, 26, 10_000), (3_000_000, 800, 1_000_000)]
)
def test_a_fact_takes_at_most_five_bytes(n, k, count):
    keys = np.unique(np.random.default_rng(0).integers(0, n * n * k, count))
    assert packed(keys).nbytes <= 5 * len(keys)


def test_facts_of_popular_entities_take_less():
    rng = np.random.default_rng(0)
    s, o = (np.minimum(rng.zipf(1.3, 100_000), 10_000) - 1 for _ in range(2))
    facts = Facts.from_arrays(s, rng.integers(0, 50, 100_000), o, n_entities=10_000, n_relations=50)
    assert to_tensors(facts)["facts"].nbytes <= 3 * len(facts)


def test_without_facts_there_are_none():
    names = WORLDS["plain"].entities, WORLDS["plain"].relations
    assert from_tensors({}, *names, None) is None
    with pytest.raises(RefusedFileError, match="its facts cannot be read"):
        from_tensors({"unobserved": packed(np.array([3]))}, *names, None)


def damages():
    plain, rich, named = (to_tensors(WORLDS[kind]) for kind in ("plain", "weights", "attributes by name"))
    matrix = to_tensors(WORLDS["attributes"])
    facts = plain["facts"]
    yield "cut", "plain", plain | {"facts": np.append(facts[:-1], np.uint8(200))}
    yield "too long a number", "plain", plain | {"facts": np.append(np.full(12, 255, np.uint8), facts)}
    yield "beyond the last cell", "plain", plain | {"facts": np.append(facts, np.array([255, 255, 127], np.uint8))}
    yield "more facts than cells", "plain", plain | {"facts": np.zeros(20 * 20 * 3 + 1, np.uint8)}
    yield "unobserved facts", "weights", rich | {"unobserved": rich["facts"]}
    yield "unobserved cut", "weights", rich | {"unobserved": np.append(rich["unobserved"], np.uint8(128))}
    yield "a weight too few", "weights", rich | {"fact_weights": rich["fact_weights"][:-1]}
    yield "weights below zero", "weights", rich | {"fact_weights": -1 - rich["fact_weights"]}
    yield "weights that are no numbers", "weights", rich | {"fact_weights": np.full(60, np.nan)}
    yield "times of another length", "plain", plain | {"fact_times": np.ones(3)}
    yield "attributes of another width", "attributes", matrix | {"attribute_matrix": matrix["attribute_matrix"][:-1]}
    yield "infinite attributes", "attributes", matrix | {"attribute_matrix": np.full(80, np.inf)}
    for text in (
        b"",
        b"[]",
        b"3",
        b'{"age": 3}',
        b'{"age": {"Ann": 3}}',
        b'{"age": {"Ann": [3]}}',
        b"\xff\xfe",
        b"[" * 9**5,
    ):
        damaged = named | {"attribute_values": np.frombuffer(text, np.uint8)}
        yield f"values {text[:20]!r}", "attributes by name", damaged


@pytest.mark.parametrize(("kind", "arrays"), [(k, a) for _, k, a in damages()], ids=[name for name, *_ in damages()])
def test_damaged_facts_are_refused(kind, arrays):
    with pytest.raises(RefusedFileError, match="is damaged"):
        back(WORLDS[kind], arrays)


@pytest.mark.parametrize("seed", range(100))
def test_random_bytes_are_facts_or_refused(seed):
    rng = np.random.default_rng(seed)
    facts = WORLDS["weights"]
    arrays = {name: array.copy() for name, array in to_tensors(facts).items()}
    name = sorted(arrays)[seed % len(arrays)]
    blob = arrays[name].view(np.uint8)
    at = rng.integers(0, len(blob), rng.integers(1, 6))
    blob[at] = rng.integers(0, 256, len(at))
    try:
        found = back(facts, arrays)
    except RefusedFileError:
        return
    assert len(found) <= facts.n_cells
    assert not found.contains(found.unobserved).any()
