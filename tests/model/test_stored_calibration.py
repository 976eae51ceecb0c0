"""A calibration in a model file: what is written is what is read, and what is damaged is refused."""

import json

import numpy as np
import pytest

from relatent.model.calibration import Calibration
from relatent.model.stored_calibration import FIELDS, NUMBERS, TENSORS, from_tensors, to_document, to_tensors
from relatent.tensor_file import RefusedFileError


def a_calibration(seed=0):
    """Any calibration of a few relations."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(1, 6))
    lines = []
    for _ in range(K):
        m = int(rng.integers(1, 9))
        lines.append(
            (np.cumsum(rng.random(m) + 1e-3).tolist(), np.cumsum(rng.random(m) * (rng.random() < 0.8)).tolist())
        )
    return Calibration.of_lines(
        lines,
        shifts=rng.normal(size=(K, 4)),
        one_answer=rng.random((K, 2)) < 0.5,
        base_rates=rng.random(K),
        masked=np.stack([rng.normal(size=K), rng.random(K)], axis=1),
        unobserved=float(rng.normal()),
        missing=float(rng.uniform(0.01, 0.99)),
        is_assumed=bool(rng.random() < 0.5),
        heldout_facts=int(rng.integers(0, 1000)),
        expected=float(rng.random() * 100),
    )


def written(calibration):
    """Its tensors, its document as JSON has it, and the number of relations."""
    document = json.loads(json.dumps({"calibration": to_document(calibration)}))
    return to_tensors(calibration), document, len(calibration.scores)


@pytest.mark.parametrize("seed", range(30))
def test_a_calibration_is_read_as_it_was_written(seed):
    wanted = a_calibration(seed)
    found = from_tensors(*written(wanted))
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    for name in (*NUMBERS, "is_assumed"):
        assert getattr(found, name) == getattr(wanted, name)
    assert found.describe() == wanted.describe()
    theta, kinds = np.linspace(-3, 9, 50), np.arange(50) % 4
    for k in range(len(wanted.scores)):
        np.testing.assert_array_equal(found.log_odds(theta, k, kinds), wanted.log_odds(theta, k, kinds))


def test_without_a_calibration_there_is_none():
    assert from_tensors({}, {}, 3) is None
    assert from_tensors({}, {"calibration": None}, 3) is None


@pytest.mark.parametrize("tensor", TENSORS)
def test_a_calibration_that_lacks_a_part_is_refused(tensor):
    arrays, document, k = written(a_calibration())
    with pytest.raises(RefusedFileError, match="its calibration cannot be read"):
        from_tensors(arrays, {}, k)
    with pytest.raises(RefusedFileError, match="its calibration cannot be read"):
        from_tensors({}, document, k)
    del arrays[tensor]
    with pytest.raises(RefusedFileError, match="its calibration cannot be read"):
        from_tensors(arrays, document, k)


@pytest.mark.parametrize("name", [*NUMBERS, "is_assumed"])
@pytest.mark.parametrize(
    "value", ["x", None, [], {}, 10**400, float("nan"), float("inf"), "missing"], ids=lambda value: str(value)[:8]
)
def test_odd_numbers_are_refused(name, value):
    arrays, document, k = written(a_calibration())
    if value == "missing":
        del document["calibration"][name]
    else:
        document["calibration"][name] = value
    with pytest.raises(RefusedFileError, match="its calibration cannot be read"):
        from_tensors(arrays, document, k)


def test_a_calibration_of_another_number_of_relations_is_refused():
    arrays, document, k = written(a_calibration())
    with pytest.raises(RefusedFileError, match=f"it is of {k} relations, the model has {k + 1}"):
        from_tensors(arrays, document, k + 1)


@pytest.mark.parametrize("missing", [0, 1, -1, 2])
def test_a_share_out_of_range_is_refused(missing):
    arrays, document, k = written(a_calibration())
    document["calibration"]["missing"] = missing
    with pytest.raises(RefusedFileError, match="its calibration cannot be read"):
        from_tensors(arrays, document, k)


@pytest.mark.parametrize("tensor", TENSORS)
@pytest.mark.parametrize(
    "damage",
    [
        lambda array: array[:0],
        lambda array: array[:-1],
        lambda array: array.ravel(),
        lambda array: array[None],
        lambda array: np.concatenate([array, array]),
        lambda array: np.full(array.shape, np.nan),
        lambda array: np.full(array.shape, np.inf),
        lambda array: array[:, ::-1] if array.ndim == 2 else np.full(array.shape, -np.inf),
    ],
    ids=["empty", "short", "flat", "deep", "twice", "nan", "inf", "turned"],
)
def test_damaged_tensors_are_refused_or_harmless(tensor, damage):
    """No damage leads to anything but a refusal, or a calibration that gives finite log-odds."""
    arrays, document, k = written(a_calibration(3))
    arrays[tensor] = damage(arrays[tensor])
    try:
        found = from_tensors(arrays, document, k)
    except RefusedFileError:
        return
    for relation in range(k):
        assert np.isfinite(found.log_odds(np.linspace(-5, 5, 20), relation, np.arange(20) % 4)).all()


def test_damaged_knots_are_refused():
    calibration = a_calibration(3)
    for name in ("calibration_scores", "calibration_values"):
        for damage in (np.full_like, lambda array, value: array * value):
            for value in (np.nan, np.inf, -1.0):
                arrays, document, k = written(calibration)
                arrays[name] = damage(arrays[name], value)
                if name == "calibration_values" and damage is np.full_like and value == -1.0:
                    continue  # equal log-odds do not fall
                with pytest.raises(RefusedFileError, match="its calibration cannot be read"):
                    from_tensors(arrays, document, k)
