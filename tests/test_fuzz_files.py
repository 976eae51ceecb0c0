"""Random files for the readers, the model file and the checkpoint: `make fuzz`.

Whatever a file holds, the answer is a result or one RelatentError of one line. Hypothesis keeps what it found in
.hypothesis, from which the next run begins.
"""

import json
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("hypothesis", reason="needs Hypothesis (make fuzz)")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import relatent
from model.forged_models import HOSTILE, attack
from relatent.errors import RelatentError
from relatent.tensor_file import RefusedFileError, open_tensors

pytestmark = pytest.mark.fuzz
CASES = int(os.environ.get("RELATENT_FUZZ_CASES", "300"))
fuzzed = settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))

NAMES = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ['"', "\t", "\r", "\n", "\0", "\ufeff", ","]
)
TEXTS = st.lists(st.lists(NAMES, max_size=5).map("\t".join) | st.lists(NAMES, max_size=5).map(",".join)).map("\n".join)
ENDINGS = st.sampled_from([".tsv", ".csv", ".nt", ".ttl", ".parquet", ".gz", ".zst", ".txt", ".jsonl", ""])
SECTIONS = ["model", "settings", "data", "fit", "learned", "updates", "chosen", "folded_in", "other"]
ENTRIES = ["objectives", "base_rates", "self_facts", "clauses", "groups", "facts", "steps_of_fit"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture(scope="module")
def model_file(folder):
    """The bytes of a model that holds facts and a calibration."""
    rows = [(f"p{i}", "likes", f"p{(i + 1) % 12}") for i in range(12)]
    facts = relatent.read(rows, attributes={f"p{i}": {"age": str(20 + i)} for i in range(12)})
    relatent.RescalALS(2, 0.1, 0.1, tol=0.1).fit(facts).factors_.save(folder / "whole.relatent")
    return (folder / "whole.relatent").read_bytes()


def refused_in_one_line(read, path):
    """Read a file; the error, if there is one, must be a RelatentError of one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(path)
    except RelatentError as error:
        message = str(error)
    assert "\n" not in message
    return None


@fuzzed
@given(content=TEXTS.map(str.encode) | st.binary(), ending=ENDINGS)
def test_any_data_file_is_read_or_refused(folder, content, ending):
    path = folder / f"data{ending}"
    path.write_bytes(content)
    facts = refused_in_one_line(relatent.read, path)
    assert facts is None or all(len(fact) == 3 for fact in facts.named())


@fuzzed
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1))
def test_any_changed_model_file_is_read_or_refused(folder, model_file, changes):
    content = bytearray(model_file)
    for place, change in changes:
        content[int(place * len(content))] ^= change
    path = folder / "model.relatent"
    path.write_bytes(content)
    factors = refused_in_one_line(lambda path: relatent.load(path, verify=False), path)
    assert factors is None or np.isfinite(factors.A).all()


def test_any_value_in_a_signed_header_is_read_or_refused(folder):
    n_per_place = min(len(HOSTILE), 1 + CASES // 300)
    assert attack(folder, n_per_place) % n_per_place == 0


@fuzzed
@given(header=st.dictionaries(st.text(max_size=4) | st.just("__metadata__"), JSON, max_size=4) | JSON, rest=st.binary())
def test_any_header_is_read_or_refused(folder, header, rest):
    text = json.dumps(header).encode()
    path = folder / "tensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + rest)
    try:
        with open_tensors(path) as file:
            assert sum(file.read(name).nbytes for name in file.tensors) == len(rest)
    except RefusedFileError:
        pass


@fuzzed
@given(about=st.dictionaries(st.sampled_from(SECTIONS), JSON | st.dictionaries(st.sampled_from(ENTRIES), JSON)))
def test_any_record_of_a_model_is_refused_or_can_be_described(about):
    from relatent.cli import tables
    from relatent.model import provenance

    try:
        found = provenance.read(about, 1)
    except RefusedFileError:
        return
    factors = relatent.Factors(np.ones((2, 1)), np.ones((1, 1, 1)), np.zeros(1), ["a", "b"], ["r"], about=found)
    assert factors.probability_note
    assert factors._repr_html_()
    tables.details(factors.to_dict()["about"])
    tables.learned(factors.to_dict()["about"].get("learned", {}))
