"""Settings as JSON values, and back."""

import dataclasses
import json

import numpy as np
import pytest

import relatent
from relatent.errors import InputError
from relatent.fit import settings
from relatent.fit.losses import Logistic, Softmax
from relatent.model.structure import Blocks, DirectSum, Full, Shared


@dataclasses.dataclass(frozen=True)
class Dura(relatent.Dura):
    """Has the name of a known class, and computes something else."""


@pytest.mark.parametrize("kind", settings.CLASSES.values(), ids=settings.CLASSES)
def test_every_known_class_comes_back_through_json(kind):
    it = kind((("complex", 4), (Blocks(2), 6))) if kind is DirectSum else kind()
    written = json.loads(json.dumps(settings.to_json({"it": it})))
    assert written["it"]["type"] == kind.__name__
    assert settings.from_json(written) == {"it": it}


def test_settings_come_back_as_they_were():
    given = {
        "rank": 9,
        "loss": {"type": Softmax(0.5, reciprocal=True), "likes": "hinge", "": Logistic()},
        "relation_weights": {"likes": 2, "type": 0.1 + 0.2},
        "penalty": relatent.Dura(0.02, frequency_power=0.75),
        "optimiser": relatent.Adam(None, beta2=0.95),
        "structure": Blocks(4),
        "tol": None,
        "bias": False,
    }
    assert settings.from_json(json.loads(json.dumps(settings.to_json(given)))) == given
    others = {"optimiser": relatent.Lbfgs(pairs=3), "structure": Shared(7), "dtype": "float32", "init": Full()}
    assert settings.from_json(settings.to_json(others)) == others


def test_numbers_of_numpy_are_plain_numbers():
    written = settings.to_json({"rank": np.int64(5), "penalty": relatent.N3(np.float32(0.5)), "bias": np.bool_(True)})
    assert json.dumps(written) == '{"rank": 5, "penalty": {"type": "N3", "weight": 0.5}, "bias": true}'


def test_of_an_object_of_ones_own_the_name_remains():
    written = settings.to_json({"penalty": Dura(3.0), "random_state": np.random.default_rng(0)})
    assert written["penalty"] == {"type": f"{__name__}.Dura"}
    assert written["random_state"] == {"type": "numpy.random._generator.Generator"}
    with pytest.raises(InputError, match=f"fitted with penalty of '{__name__}.Dura', which its file does not"):
        settings.from_json(written)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "loss of an object, which its file does not hold"),
        ({"type": None}, "loss of an object, which its file does not hold"),
        ({"type": "os\nsystem"}, r"loss of 'os\\nsystem', which its file does not hold"),
        ({"type": "Softmax", "temperature": 2}, "loss of 'Softmax', which its file does not hold"),
        ({"type": "Softmax", "reciprocal": 1}, "loss.reciprocal must be true or false, got 1"),
        ({"type": "Softmax", "batch_size": 10**400}, "loss.batch_size must be a whole number, got 1000"),
        ({"type": "by relation", "values": [1]}, "loss of 'by relation', which its file does not hold"),
        ({"type": "by relation", "values": {"a": {"type": "by relation", "values": {}}}}, "loss of 'by relation'"),
    ],
)
def test_settings_that_no_fit_had_are_refused_in_one_line(value, message):
    with pytest.raises(InputError, match=message) as refused:
        settings.from_json({"loss": value})
    assert "\n" not in str(refused.value)
