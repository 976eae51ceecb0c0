"""The rules of a model as tensors of its file, and back with every check."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.facts import Facts
from ..data.names import Names
from ..tensor_file import RefusedFileError
from .rule_scores import MAX_STEPS, RuleScores

Arrays = dict[str, NDArray[Any]]
TENSORS = ("rule_steps", "rule_facts", "rule_weights")
EACH_Z = 1  # in the first number of rule_steps: a weight counts for every path


def to_tensors(rules: RuleScores) -> Arrays:
    """Whether each z counts, then head and steps of each rule; subject, relation and object of each fact; weights."""
    steps = np.column_stack([rules.heads, rules.steps]).ravel()
    return {
        "rule_steps": np.append(EACH_Z * rules.each_z, steps).astype("<i4"),
        "rule_facts": np.ascontiguousarray(rules.facts.triples).ravel().astype("<i4"),
        "rule_weights": rules.weights.astype("<f8"),
    }


def from_tensors(arrays: Arrays, n_entities: int, n_relations: int) -> RuleScores | None:
    """The rules, None if there are none."""
    found = [name for name in TENSORS if name in arrays]
    if not found:
        return None
    if len(found) < len(TENSORS) or not len(arrays["rule_steps"]):
        raise RefusedFileError("is damaged: a part of its rules is missing; get a fresh copy")
    first, *_ = steps = arrays["rule_steps"]
    try:
        facts = Facts.from_ids(arrays["rule_facts"].reshape(-1, 3), Names(n_entities), Names(n_relations))
        rules = steps[1:].reshape(-1, 1 + MAX_STEPS)
        return RuleScores(facts, rules[:, 0], rules[:, 1:], arrays["rule_weights"], bool(first & EACH_Z))
    except ValueError as error:
        raise RefusedFileError(f"is damaged: its rules are not of this model: {error}; get a fresh copy") from None
