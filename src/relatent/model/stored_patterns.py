"""The patterns of a model as tensors of its file, and back with every check."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ..data.cell_keys import cells_of
from ..data.facts import Facts
from ..data.names import Names
from ..tensor_file import RefusedFileError
from .patterns import Patterns
from .stored_facts import StoredFacts, packed, unpacked

Arrays = dict[str, NDArray[Any]]
TENSORS = (
    "pattern_codes",
    "pattern_pairs",
    "pattern_facts",
    "pattern_weights",
    "pattern_pair_weights",
    "pattern_bias",
    "pattern_scale",
)
CODE = 4  # numbers


def to_tensors(patterns: Patterns, *, with_facts: bool) -> Arrays:
    """Codes, products and weights; `with_facts`: the facts that they are read from, which are not in the file yet."""
    arrays: Arrays = {
        "pattern_codes": patterns.codes.ravel().astype("<i4"),
        "pattern_pairs": patterns.pairs.ravel().astype("<i4"),
        "pattern_weights": patterns.weights.astype("<f8"),
        "pattern_pair_weights": patterns.pair_weights.astype("<f8"),
        "pattern_bias": patterns.bias.astype("<f8"),
        "pattern_scale": patterns.scale.astype("<f8"),
    }
    if with_facts:
        arrays["pattern_facts"] = packed(patterns.facts.keys[patterns.facts.confidences > 0])
    return arrays


def from_tensors(
    arrays: Arrays, entities: Names, relations: Names, stored: StoredFacts | None, undirected: frozenset[int]
) -> Patterns | None:
    """The patterns, None if there are none; `stored` are the facts in the file."""
    found = [name for name in TENSORS if name in arrays and name != "pattern_facts"]
    if not found:
        return None
    if len(found) < len(TENSORS) - 1 or (stored is None) != ("pattern_facts" in arrays):
        raise RefusedFileError("is damaged: a part of its patterns is missing; get a fresh copy")
    try:
        if stored is not None:
            facts = stored.facts
        else:
            keys = unpacked(arrays["pattern_facts"], len(entities) ** 2 * len(relations))
            facts = Facts.from_ids(cells_of(keys, len(entities)), entities, relations, undirected=undirected)
        return Patterns(
            facts,
            arrays["pattern_codes"].reshape(-1, CODE),
            arrays["pattern_weights"],
            arrays["pattern_pairs"].reshape(-1, 2),
            arrays["pattern_pair_weights"],
            arrays["pattern_bias"],
            arrays["pattern_scale"],
        )
    except ValueError as error:
        raise RefusedFileError(f"is damaged: its patterns are not of this model: {error}; get a fresh copy") from None
