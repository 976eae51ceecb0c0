import hashlib
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from relatent.data.facts import Facts
from relatent.data.names import Names
from relatent.errors import FitError, InputError, ModelFileError
from relatent.model import model_file, stored_calibration, stored_facts
from relatent.model.calibration import Calibration
from relatent.model.factors import Factors, load
from relatent.model.links import CountLink, IdentityLink, LogisticLink, RankingLink, RelationLinks, SmoothLink
from relatent.model.model_file import inspect
from relatent.model.objective_description import ObjectiveTerm
from relatent.model.provenance import (
    Choice,
    DataRecord,
    FitRecord,
    LearnedRecord,
    PatternSummary,
    Provenance,
    UpdateRecord,
    WeightedClause,
    WeightedPattern,
)
from relatent.tensor_file import RefusedFileError

SQUARED = {"name": "squared", "parameters": {}}
RECORD = {
    "data": {"facts": 4, "unobserved": 0, "fingerprint": "f", "base_rates": [0.5, 0.5, 0], "self_facts": [0, 0, 1]},
    "fit": {"steps": 2, "converged": True, "verdict": "", "objective": 1, "seconds": 0.1, "objectives": [2, 1]},
}


def small(dtype: str = "float32", **changes: object) -> Factors:
    rng = np.random.default_rng(0)
    A, R, bias = rng.normal(size=(4, 2)), rng.normal(size=(3, 2, 2)), rng.normal(size=3)
    names = Names(["Ann", "Bjørn", "", "安娜"]), Names(["likes", "knows", "is a"], what="relation")
    factors = Factors(
        *(x.astype(dtype) for x in (A, R, bias)), *names, SmoothLink(0.1), Provenance(settings={"rank": 2})
    )
    return replace(factors, **changes)


def with_facts(**columns: object) -> Facts:
    """Facts and unobserved cells of the small model."""
    given = {"unobserved": np.array([[1, 1, 1], [3, 2, 0]]), **columns}
    model = small()
    return Facts.from_ids(
        np.array([[0, 0, 1], [0, 2, 3], [2, 0, 0], [3, 1, 1]]), model.entities, model.relations, **given
    )


def calibration() -> Calibration:
    lines = [([-1.0, 1 / 3, 2.0], [-4.0, -1.0, -1.0]), ([0.5], [-2.0]), ([0.1, 0.7], [-3.0, 1e-9])]
    return Calibration.of_lines(
        lines,
        shifts=np.arange(12.0).reshape(3, 4) / 7,
        one_answer=np.array([[True, False], [False, False], [True, True]]),
        base_rates=np.array([0.1, 0.02, 1e-7]),
        unobserved=2.5,
        masked=np.array([[0.5, 1.0], [-1.0, 0.0], [1 / 3, 2.0]]),
        missing=0.3,
        is_assumed=False,
        heldout_facts=17,
        expected=12.5,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.relatent"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with every kind of content, as small as it can be."""
    path = tmp_path_factory.mktemp("whole") / "model.relatent"
    small(facts=with_facts(), calibration=calibration()).save(path)
    return path.read_bytes()


def assert_same(one: Factors, other: Factors) -> None:
    for name in ("A", "R", "bias"):
        a, b = getattr(one, name), getattr(other, name)
        assert type(b) is np.ndarray
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert (one.entities, one.relations) == (other.entities, other.relations)
    assert one.entities.are_numbers == other.entities.are_numbers
    assert one.relations.are_numbers == other.relations.are_numbers
    assert (one.link, one.about) == (other.link, other.about)
    assert (one.loss, one.penalty, one.exclusive) == (other.loss, other.penalty, other.exclusive)


def save(factors: Factors, path: str | Path) -> None:
    factors.save(path)


def contents(factors: Factors) -> model_file.ModelContents:
    return model_file.ModelContents(*(getattr(factors, name) for name in model_file.ModelContents._fields))


# --- round trips


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_saved_is_loaded_exactly(path, dtype):
    factors = small(dtype)
    factors.save(path)
    assert_same(factors, load(path))
    assert_same(factors, load(str(path), verify=False))


def test_arrays_may_differ_in_precision_order_and_byte_order(path):
    factors = small()
    mixed = replace(
        factors, A=np.asfortranarray(factors.A), R=factors.R.astype(">f4"), bias=factors.bias.astype(np.float64)[::1]
    )
    save(mixed, path)
    assert_same(replace(factors, bias=mixed.bias), load(path))


def test_numbered_vocabularies_take_no_room(path):
    save(small(entities=Names(4), relations=Names(3), link=LogisticLink()), path)
    with safe_open(path, "np") as file:
        assert set(file.keys()) == {"A", "R", "bias"}
    loaded = load(path)
    assert loaded.entities.are_numbers
    assert loaded.link == LogisticLink()


@pytest.mark.parametrize(
    "link",
    [
        LogisticLink(),
        SmoothLink(0.1 + 0.2),
        IdentityLink(),
        CountLink(),
        RankingLink(),
        RelationLinks(("logistic", "count", "ranking")),
    ],
)
def test_every_link_comes_back_as_it_was(path, link):
    save(small(link=link), path)
    loaded = load(path).link
    assert loaded == link
    assert hash(loaded) == hash(link)
    theta, k = np.linspace(-1, 2, 51), np.arange(51) % 3
    np.testing.assert_array_equal(loaded.probability(theta, k), link.probability(theta, k))


def test_loaded_names_know_what_they_name(path):
    save(small(), path)
    with pytest.raises(InputError, match="unknown relation 'like'; did you mean 'likes'"):
        load(path).score("Ann", "like", "Ann")


def test_saving_twice_gives_the_same_bytes(path, tmp_path):
    save(small(), path)
    save(small(), tmp_path / "again.relatent")
    assert path.read_bytes() == (tmp_path / "again.relatent").read_bytes()


def test_saving_leaves_the_factors_alone(path):
    factors, copy = small(), small()
    save(factors, path)
    assert_same(factors, copy)


def test_how_a_model_was_made_comes_back_as_it_was(path):
    about = Provenance(
        "Rescal",
        {"penalty": {"type": "N3", "weight": 0.01}, "loss": {"type": "by relation", "values": {"type": "hinge"}}},
        DataRecord(9, 2, "ünï \ud800 \x01", (0.5, 0.0, 1e-300), (0, 3, 0)),
        FitRecord(2, True, "converged", -1.5, 0, (0.1 + 0.2, -1.5), "exact"),
        Choice({"rank": None}, "few facts"),
        LearnedRecord(
            (WeightedClause("a ⇒ b", -1.0),), PatternSummary(2, (WeightedPattern("a", "b", 1.0),)), (2,), (("Ann",), ())
        ),
        ("Ann",),
        (UpdateRecord(1, 2, 3, 4, 5),),
    )
    for given in (about, Provenance(), replace(about, learned=LearnedRecord(), chosen=None)):
        save(small(about=given), path)
        assert load(path).about == given


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"settings": 5}, "about.settings must be an object, got 5"),
        ({"settings": {"loss": [[[[[[1]]]]]]}}, "its setting 'loss' is not one"),
        ({"settings": {"loss": {"a": {"b": {"c": {"d": {"e": {}}}}}}}}, "its setting 'loss' is not one"),
        ({"fit": "x\ny"}, r"about.fit must be an object, got 'x\\ny'"),
        ({"fit": {"steps": 3}}, "about.fit has no converged"),
        ({"fit": {**RECORD["fit"], "steps": True}}, "about.fit.steps must be a whole number, got True"),
        ({"fit": {**RECORD["fit"], "steps": 2**63}}, "about.fit.steps must be a whole number, got 9223372036854775808"),
        ({"fit": {**RECORD["fit"], "seconds": 10**400}}, "about.fit.seconds must be a number, got 1000000"),
        ({"fit": {**RECORD["fit"], "objectives": [1, "a"]}}, r"about.fit.objectives\[1\] must be a number, got 'a'"),
        (
            {"data": {**RECORD["data"], "base_rates": [0.5]}},
            "about.data.base_rates must have 3 values, one",
        ),
        ({"learned": {"groups": [["a"], 5]}}, r"about.learned.groups\[1\] must be a list, got 5"),
        ({"model": {}, "folded_in": 9}, "about.model must be a text, got an object"),
        ({"chosen": {"settings": {}, "reason": None}}, "about.chosen.reason must be a text, got None"),
    ],
)
def test_a_record_of_the_fit_that_cannot_be_is_refused(path, about, message):
    for name, part in RECORD.items():
        about = {name: part, **about}
    forged(path, about=about)
    for reader in (load, inspect):
        with pytest.raises(ModelFileError, match=f"is damaged: {message}.*; get a fresh copy$"):
            reader(path)


def test_prefixes_that_are_no_texts_are_refused_in_one_line(path):
    forged(path, prefixes={"a\nb": 3})
    with pytest.raises(
        ModelFileError, match=r"is damaged: prefixes\['a\\nb'\] must be a text, got 3; get a fresh copy"
    ):
        load(path)


def test_what_a_later_version_says_of_the_fit_is_ignored(path):
    forged(path, about={**RECORD, "weather": {"rain": [1]}, "fit": {**RECORD["fit"], "threads": 2}})
    assert load(path, verify=False).about.fit.steps == 2


# --- facts and calibration


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"weights": np.array([0.5, 1.0, 1 / 3, 1e-3])},
        {"times": np.array([1.0, 7.0, 2.0, 1e6])},
        {"attributes": np.arange(12.0).reshape(4, 3)},
        {"unobserved": np.empty((0, 3), np.int64)},
    ],
    ids=lambda columns: "".join(columns),
)
def test_facts_come_back_as_they_were(path, columns):
    facts = with_facts(**columns)
    small(facts=facts).save(path)
    assert inspect(path)["holds_facts"] is True
    found = load(path).facts
    for name in ("triples", "unobserved", "weights", "times"):
        np.testing.assert_array_equal(getattr(found, name), getattr(facts, name))
    wanted = None if facts.attributes is None else np.asarray(facts.attributes)
    np.testing.assert_array_equal(None if found.attributes is None else np.asarray(found.attributes), wanted)
    assert found.named() == facts.named()


def test_facts_are_decoded_when_they_are_asked_for(path, monkeypatch):
    facts = with_facts(unobserved=None)
    small(facts=facts).save(path)
    decoded = []
    unpacked = stored_facts.unpacked
    monkeypatch.setattr(stored_facts, "unpacked", lambda *given: decoded.append(given) or unpacked(*given))
    found = load(path)
    found.score(0, 0, 1)
    assert not decoded
    assert found.facts.named() == facts.named()
    assert found.facts is found.facts
    assert len(decoded) == 1


def test_a_model_without_facts_says_so(path):
    small().save(path)
    assert inspect(path)["holds_facts"] is False
    assert load(path).facts is None


def test_facts_take_few_bytes(path, tmp_path):
    """Sorted cells as gaps of a few bytes: at most two bytes per fact in a graph as dense as this one."""
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, (500, 5, 500), (20_000, 3)), axis=0)
    A, R, bias = np.zeros((500, 1), np.float32), np.zeros((5, 1, 1), np.float32), np.zeros(5, np.float32)
    facts = Facts.from_ids(cells, Names(500), Names(5))
    Factors(A, R, bias, Names(500), Names(5)).save(path)
    Factors(A, R, bias, Names(500), Names(5), facts=facts).save(tmp_path / "facts.relatent")
    assert (tmp_path / "facts.relatent").stat().st_size - path.stat().st_size < 2 * len(facts) + 500
    np.testing.assert_array_equal(load(tmp_path / "facts.relatent").facts.triples, facts.triples)


@pytest.mark.parametrize("size", [1, 127, 128, 2**21, 2**40])
def test_numbers_are_packed_and_unpacked(size):
    keys = np.unique(np.random.default_rng(0).integers(0, size, 300))
    for given in (keys, keys[:0], np.array([0]), np.array([size - 1])):
        np.testing.assert_array_equal(stored_facts.unpacked(stored_facts.packed(given), size), given)
    with pytest.raises(RefusedFileError, match="its facts cannot be read"):
        stored_facts.unpacked(stored_facts.packed(np.array([size])), size)


def test_a_calibration_comes_back_as_it_was(path):
    given = calibration()
    small(calibration=given).save(path)
    found = load(path).calibration
    for part in fields(Calibration):
        np.testing.assert_array_equal(getattr(found, part.name), getattr(given, part.name))
    assert inspect(path)["calibration"] == {
        "unobserved": 2.5, "missing": 0.3, "is_assumed": False, "heldout_facts": 17, "expected": 12.5
    }  # fmt: skip
    small().save(path)
    assert load(path).calibration is inspect(path)["calibration"] is None


def test_a_loaded_model_gives_the_same_answers(path):
    factors = small(facts=with_facts(), calibration=calibration())
    factors.save(path)
    loaded = load(path)
    cells = np.array(list(np.ndindex(4, 3, 4)))
    for one, other in zip(factors.candidates.judge(cells), loaded.candidates.judge(cells), strict=True):
        np.testing.assert_array_equal(one, other)


# --- inspect


def test_inspect_tells_what_a_file_holds_in_json(path):
    save(small(), path)
    told = inspect(path)
    assert told == json.loads(json.dumps(told))
    assert told == {
        "format": "relatent",
        "format_version": 1,
        "relatent_version": told["relatent_version"],
        "n_entities": 4,
        "n_relations": 3,
        "rank": 2,
        "dtype": "float32",
        "link": {"name": "smooth", "parameters": {"epsilon": 0.1}},
        "loss": None,
        "penalty": None,
        "structure": "full",
        "exclusive": False,
        "about": {"settings": {"rank": 2}},
        "holds_facts": False,
        "calibration": None,
        "bytes": path.stat().st_size,
        "sha256": told["sha256"],
        "verified": False,
    }
    assert inspect(path, verify=True) == {**told, "verified": True}


def test_inspect_finds_a_changed_value_only_if_asked(path):
    save(small(), path)
    flip(path, path.stat().st_size - 20)
    assert inspect(path)["verified"] is False
    with pytest.raises(ModelFileError, match="its checksum does not match"):
        inspect(path, verify=True)


# --- damage


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def test_a_file_cut_anywhere_is_refused(path, whole):
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        for reader in (load, inspect):
            with pytest.raises(ModelFileError, match=r"truncated|is empty"):
                reader(path)


def test_a_longer_file_is_refused(path, whole):
    path.write_bytes(whole + b"\0")
    with pytest.raises(ModelFileError, match="truncated or damaged"):
        load(path)


def test_any_flipped_bit_is_refused(path, whole):
    for position in range(len(whole)):
        path.write_bytes(whole)
        flip(path, position, position % 8)
        with pytest.raises(ModelFileError, match=str(path)):
            load(path)


def test_any_flipped_bit_is_read_without_a_crash_if_the_digest_is_not_asked(path, whole):
    for position in range(len(whole)):
        path.write_bytes(whole)
        flip(path, position, 5)
        with suppress(ModelFileError):
            load(path, verify=False)


def test_a_changed_value_is_told_from_other_damage(path):
    save(small(), path)
    flip(path, path.stat().st_size - 20)
    with pytest.raises(ModelFileError, match="was changed after it was written: its checksum does not match"):
        load(path)


def forged(path: Path, arrays: dict | None = None, **changes: object) -> None:
    """A file with a wrong header or wrong tensors whose digest would be found only at the end."""
    whole = contents(small(facts=with_facts(weights=np.ones(4)), calibration=calibration()))
    arrays = {**model_file._arrays_of(whole), **(arrays or {})}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    document = {
        **json.loads(model_file._document_text(whole, model_file._arrays_of(whole))),
        "tensors": {name: {"dtype": a.dtype.name, "shape": list(a.shape)} for name, a in arrays.items()},
        **changes,
    }
    document = {name: value for name, value in document.items() if name not in changes or value is not None}
    save_file(arrays, path, {"relatent": json.dumps(document)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "is not a relatent model; give a file written by Factors.save or relatent fit"),
        (
            {"format_version": 2},
            "has format version 2, this relatent reads 1; upgrade relatent, or fit the model again",
        ),
        ({"format_version": "1"}, "has format version '1', this relatent reads 1"),
        ({"format_version": 0}, "has format version 0, this relatent reads 1"),
        ({"structure": {"name": "cube", "parameters": {}}}, "has a structure this relatent does not know"),
        ({"structure": {"name": "blocks", "parameters": {"size": 3}}}, "has a structure this relatent does not know"),
        ({"loss": {"parameters": {}}}, "is damaged: loss has no name"),
        ({"loss": ["squared"]}, "is damaged: loss must be an object, got a list"),
        ({"loss": SQUARED, "penalty": 1}, "is damaged: penalty must be an object, got 1"),
        ({"about": [1]}, "its header has no about"),
        ({"undirected": [0, "1"]}, r"is damaged: undirected\[1\] must be a whole number, got '1'"),
        ({"undirected": [3]}, "its undirected relations are no ids of relations"),
        ({"sha256": None}, "its header has no sha256"),
        ({"sha256": "abc"}, "its checksum is not a SHA-256"),
        ({"tensors": {}}, "does not hold the tensors of a model"),
        (
            {"link": {"name": "probit", "parameters": {}}},
            "a link this relatent does not know: 'probit'; upgrade relatent",
        ),
        ({"link": {"name": ["smooth"], "parameters": {}}}, "a link this relatent does not know"),
        ({"link": {"name": "smooth", "parameters": {"epsilon": 7}}}, "epsilon must be above 0 and at most 0.5, got 7"),
        ({"link": {"name": "smooth", "parameters": {"epsilon": "x"}}}, "is damaged: smooth link"),
        ({"link": {"name": "smooth", "parameters": {"other": 1}}}, "is damaged: smooth link"),
        ({"link": {"name": "smooth", "parameters": {"epsilon": 1e999}}}, "is damaged: its header is not JSON"),
        ({"link": {"name": "smooth", "parameters": {"epsilon": 10**400}}}, "epsilon must be above 0"),
        ({"link": {"name": "smooth", "parameters": {"epsilon": [1]}}}, "is damaged: smooth link"),
        ({"link": {"name": "per-relation", "parameters": {"links": ["logistic", "probit"]}}}, "got 'probit'"),
        ({"link": {"name": "per-relation", "parameters": {"links": 3}}}, "is damaged: per-relation link"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(path, changes, message):
    forged(path, **changes)
    for reader in (load, inspect):
        with pytest.raises(ModelFileError, match=message):
            reader(path)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"A": None}, "does not hold the tensors of a model"),
        ({"more": np.zeros(1)}, "does not hold the tensors of a model"),
        ({"A": np.zeros((4, 2), np.float16)}, "A is float16"),
        ({"A": np.zeros((4, 2), np.int64)}, "A is int64"),
        ({"A": np.zeros((4, 3))}, r"R is float32 of shape \(3, 2, 2\)"),
        ({"A": np.zeros(8)}, r"A has shape \(8,\)"),
        ({"A": np.zeros((5, 2))}, r"entity_offsets is int64 of shape \(5,\)"),
        ({"A": np.zeros((4, 0)), "R": np.zeros((3, 0, 0))}, "4 entities, 3 relations, rank 0"),
        ({"bias": np.zeros(4)}, r"R is float32 of shape \(3, 2, 2\)"),
        ({"A": np.full((4, 2), np.nan)}, "8 values of A are not finite"),
        ({"R": np.full((3, 2, 2), np.inf)}, "12 values of R are not finite"),
        ({"bias": np.array([0, np.nan, 0])}, "1 values of bias are not finite"),
        ({"entity_offsets": None}, "half of its entity names are missing"),
        ({"relation_names": None}, "half of its relation names are missing"),
        ({"entity_offsets": np.array([0, 3, 2, 9, 15])}, "its entity names do not fit their offsets"),
        ({"entity_offsets": np.array([0, 3, 9, 9, 16])}, "its entity names do not fit their offsets"),
        ({"entity_offsets": np.array([1, 3, 9, 9, 15])}, "its entity names do not fit their offsets"),
        ({"entity_offsets": np.array([0, -(2**63), 9, 9, 15])}, "its entity names do not fit their offsets"),
        ({"entity_offsets": np.array([0, 3, 9, 10, 15])}, "its entity names are not UTF-8"),
        ({"entity_offsets": np.array([0, 0, 0, 9, 15])}, "entity names must be distinct, got ''"),
        ({"entity_names": np.full(15, 0xFF, np.uint8)}, "its entity names are not UTF-8"),
        ({"entity_names": np.zeros((15, 1), np.uint8).view(np.int8)}, "entity_names is int8"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(path, tensors, message):
    forged(path, tensors)
    with pytest.raises(ModelFileError, match=message):
        load(path, verify=False)


CALIBRATED = {"unobserved": 0.0, "missing": 0.1, "is_assumed": True, "heldout_facts": 0, "expected": 0.0}


@pytest.mark.parametrize(
    ("tensors", "changes", "message"),
    [
        ({"facts": np.full(3, 255, np.uint8)}, {}, "its facts cannot be read"),
        ({"facts": np.array([200, 200, 9], np.uint8)}, {}, "its facts cannot be read"),  # beyond the last cell
        ({"facts": np.array([0, 0, 0], np.uint8)}, {}, "its facts cannot be read"),  # three facts, four weights
        ({"facts": None}, {}, "its facts cannot be read"),
        ({"facts": np.zeros(4, np.int32)}, {}, "facts is int32"),
        ({"fact_weights": np.array([1.0, 1.0, np.nan, 1.0])}, {}, "its facts cannot be read"),
        ({"unobserved": np.full(12, 128, np.uint8)}, {}, "its facts cannot be read"),
        ({"attribute_matrix": np.ones(6)}, {}, "its facts cannot be read"),
        ({"attribute_values": np.frombuffer(b"[1]", np.uint8)}, {}, "its facts cannot be read"),
        ({"calibration_scores": None}, {}, "its calibration cannot be read: incomplete"),
        ({}, {"calibration": None}, "its calibration cannot be read: incomplete"),
        ({}, {"calibration": {**CALIBRATED, "missing": 1.0}}, "a share of missing facts between 0 and 1"),
        ({}, {"calibration": {**CALIBRATED, "missing": "0.1"}}, "its calibration cannot be read: numbers"),
        ({}, {"calibration": {**CALIBRATED, "is_assumed": 1}}, "its calibration cannot be read"),
        (
            {"calibration_scores": np.zeros((3, 3)), "calibration_values": np.zeros((3, 3))},
            {},
            "must rise from knot to knot",
        ),
        ({"calibration_values": np.full((3, 3), np.nan)}, {}, "needs knots, which are finite numbers"),
        ({"calibration_shifts": np.zeros((3, 3))}, {}, r"shifts of a calibration must have shape \(3, 4\)"),
        ({"calibration_base_rates": np.full(3, np.inf)}, {}, "shifts and base rates of a calibration must be finite"),
        ({"calibration_one_answer": np.zeros((3, 2))}, {}, "calibration_one_answer is float64"),
    ],
)
def test_facts_and_calibrations_that_do_not_fit_are_refused(path, tensors, changes, message):
    forged(path, tensors, **changes)
    with pytest.raises(ModelFileError, match=message):
        load(path, verify=False)


def test_a_calibration_of_other_relations_is_refused(path):
    other = Calibration.of_lines([([0.0, 1.0], [-1.0, 0.0])] * 2)
    forged(path, stored_calibration.to_tensors(other))
    with pytest.raises(ModelFileError, match="its calibration cannot be read: it is of 2 relations, the model has 3"):
        load(path, verify=False)


def test_a_header_that_disagrees_with_the_tensors_is_refused(path):
    whole = contents(small(facts=with_facts(weights=np.ones(4)), calibration=calibration()))
    described = json.loads(model_file._document_text(whole, model_file._arrays_of(whole)))["tensors"]
    forged(path, {"bias": np.zeros(3)}, tensors=described)
    with pytest.raises(ModelFileError, match=r"bias is float64 of shape \(3,\)"):
        load(path)


def raw(path: Path, header: bytes, length: int | None = None) -> Path:
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a\tknows\tb\nb\tknows\tc\n", "is not a relatent model"),
        (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c", "is not a relatent model"),
        (b"\xff" * 8 + b"{" * 50, "is not a relatent model"),
        ((1 << 22).to_bytes(8, "little") + b"{}", "is truncated: it ends inside its header"),
        ((2).to_bytes(8, "little") + b"{}", "is not a relatent model"),
        ((2).to_bytes(8, "little") + b"{]", "is truncated or damaged"),
    ],
)
def test_another_kind_of_file_is_refused(path, content, message):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        load(path)
    with pytest.raises(ModelFileError, match=message):
        inspect(path, verify=True)


def test_a_header_with_huge_or_deep_claims_is_refused(path):
    huge = '{"A":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,18446744073709551615]}}'
    empty = '{"A":{"dtype":"F32","shape":[9223372036854775807,0],"data_offsets":[0,0]}}'
    deep = "[" * 2_000_000
    nested = json.dumps({"__metadata__": {"relatent": deep}})
    digits = json.dumps({"__metadata__": {"relatent": "[" + "9" * 1_000_000 + "]"}})
    constant = json.dumps({"__metadata__": {"relatent": "NaN"}})
    for header in (huge, empty, '{"a":' + deep, nested, digits, constant):
        with pytest.raises(ModelFileError, match=str(path)) as caught:
            load(raw(path, header.encode()))
        assert len(str(caught.value)) < 500


def test_a_safetensors_file_of_somebody_else_is_refused(path):
    save_file({"A": np.zeros((2, 2))}, path)
    with pytest.raises(ModelFileError, match="is not a relatent model; give a file written by"):
        load(path)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"none\.relatent does not exist; check the path"):
        load(tmp_path / "none.relatent")
    with pytest.raises(ModelFileError, match="is a folder, not a model file"):
        load(tmp_path)
    with pytest.raises(ModelFileError, match="is a device, not a model file"):
        load("/dev/null")


# --- saving safely


def broken_write(*args: object, **keywords: object) -> None:
    Path(args[1]).write_bytes(b"half")
    raise KeyboardInterrupt


def test_an_interrupted_save_leaves_the_old_file_whole_and_nothing_beside_it(path, monkeypatch):
    save(small(), path)
    monkeypatch.setattr(model_file, "write_tensors", broken_write)
    with pytest.raises(KeyboardInterrupt):
        save(small("float64"), path)
    assert os.listdir(path.parent) == [path.name]
    assert load(path).A.dtype == np.float32


def test_a_full_disk_is_told_and_leaves_nothing_behind(path, monkeypatch):
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_file.os, "fsync", full)
    with pytest.raises(ModelFileError, match=r"the model could not be written: .*No space left on device"):
        save(small(), path)
    assert os.listdir(path.parent) == []


def test_a_model_replaces_an_older_one_and_keeps_who_may_read_it(path):
    save(small(), path)
    path.chmod(0o640)
    save(small("float64"), path)
    assert load(path).A.dtype == np.float64
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_model_may_be_read_by_whom_a_new_file_may(path, tmp_path):
    (tmp_path / "plain").touch()
    save(small(), path)
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_to_a_model_stays_a_link(path, tmp_path):
    link = tmp_path / "current.relatent"
    link.symlink_to(path)
    save(small(), link)
    assert link.is_symlink()
    assert_same(small(), load(path))


def test_a_target_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"the folder .*missing does not exist; create it first"):
        save(small(), tmp_path / "missing" / "model.relatent")
    with pytest.raises(ModelFileError, match="is a folder; give the name of a file in it"):
        save(small(), tmp_path)
    with pytest.raises(ModelFileError, match="is not a plain file; give another name"):
        save(small(), "/dev/null")


@dataclass(frozen=True)
class Probit:
    name = "probit"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"A": np.zeros((4, 2), np.float16)}, InputError, "A must be float32 or float64 to be saved, got float16"),
        ({"bias": np.array([0, np.nan, 0])}, FitError, "bias must be finite to be saved, got 1 values that are not"),
        ({"A": np.zeros((4, 0)), "R": np.zeros((3, 0, 0))}, InputError, r"A must not be empty to be saved"),
        (
            {"about": Provenance(settings={"x": np.zeros(2)})},
            InputError,
            "must hold JSON values only to be saved",
        ),
        (
            {"about": Provenance(settings={"x": float("nan")})},
            InputError,
            "must hold JSON values only to be saved",
        ),
        ({"about": Provenance(settings={"x": "y" * (5 << 20)})}, InputError, "about must stay below 4 MB as JSON"),
        ({"link": Probit()}, InputError, "a probit link cannot be saved; known links: logistic, smooth"),
    ],
)
def test_factors_that_cannot_be_kept_are_refused(path, changes, error, message):
    with pytest.raises(error, match=message):
        save(small(**changes), path)
    assert os.listdir(path.parent) == []


def test_the_document_and_the_digest_are_as_the_format_page_says(path):
    save(small(), path)
    with safe_open(path, "np") as file:
        text = file.metadata()["relatent"]
        order = ("A", "R", "bias", "entity_names", "entity_offsets", "relation_names", "relation_offsets")
        content = b"".join(file.get_tensor(name).tobytes() for name in order)
    digest = json.loads(text)["sha256"]
    assert hashlib.sha256(text.replace(digest, "0" * 64).encode() + content).hexdigest() == digest
    assert next(iter(json.loads(text))) == "sha256"
    assert text.isascii()


# --- exclusive relations


def test_exclusive_relations_stay_exclusive(tmp_path):
    f = small(exclusive=True)
    f.save(tmp_path / "one.relatent")
    again = load(tmp_path / "one.relatent")
    assert again.exclusive
    np.testing.assert_array_equal(again.score(0, 0, [0, 1]), f.score(0, 0, [0, 1]))
    assert inspect(tmp_path / "one.relatent")["exclusive"] is True
    small().save(tmp_path / "one.relatent")
    assert inspect(tmp_path / "one.relatent")["exclusive"] is False


@pytest.mark.parametrize("loss", [None, ObjectiveTerm("softmax", {"relation_weight": 2.0, "degree_weight": 0.5})])
@pytest.mark.parametrize("penalty", [None, ObjectiveTerm("dura", {"weight": np.float32(0.5)})])
def test_loss_and_penalty_come_back_as_they_were(path, loss, penalty):
    factors = small(loss=loss, penalty=penalty)
    save(factors, path)
    assert_same(factors, load(path))
    stored = inspect(path)
    assert stored["format_version"] == 1
    assert stored["loss"] == (loss and {"name": "softmax", "parameters": dict(loss.parameters)})
    assert stored["penalty"] == (penalty and {"name": "dura", "parameters": {"weight": 0.5}})


def test_the_loss_decides_whether_relations_are_exclusive():
    assert small(exclusive=True).loss == ObjectiveTerm("categorical")
    assert small(loss=ObjectiveTerm("categorical")).exclusive
    assert not replace(small(exclusive=True), loss=ObjectiveTerm("logistic")).exclusive
