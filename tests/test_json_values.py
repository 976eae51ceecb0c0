"""Values as JSON can hold them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from relatent.json_values import to_json


class Pair(NamedTuple):
    name: str
    score: float


@dataclass
class Row:
    pair: Pair
    values: tuple[int, ...]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (float("nan"), None),
        (np.float64("inf"), None),
        (np.array([[1.0, np.nan]]), [[1.0, None]]),
        (Path("a") / "b", "a/b"),
        (Pair("x", float("nan")), {"name": "x", "score": None}),
        (Row(Pair("x", 1.0), (1, 2)), {"pair": {"name": "x", "score": 1.0}, "values": [1, 2]}),
        ({1: {"a"}}, {"1": ["a"]}),
        (range(2), [0, 1]),
        (Ellipsis, "Ellipsis"),
    ],
)
def test_values_become_plain(value, plain):
    assert to_json(value) == plain
    json.dumps(to_json(value), allow_nan=False)
