"""Model files whose header says anything at all, with a checksum that fits: their author may be an attacker."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import relatent
from relatent.errors import RelatentError
from relatent.model.model_file import TENSORS, inspect
from relatent.model.patterns import Patterns
from relatent.tensor_file import NO_DIGEST, digest, open_tensors, write_tensors
from relatent.web.explorer import Explorer

ROWS = [(f"{kind}{i}", "likes", f"{kind}{(i + 1) % 4}") for kind in "ab" for i in range(4)]
ATTRIBUTES = {
    f"{kind}{i}": {"age": str(20 + 7 * i), "club": "red" if i % 2 else "blue"} for kind in "ab" for i in range(4)
}
HOSTILE = ["x", "", None, [], {}, [[]], [1, 2], ["b", "a"], -1, 0, True, 10**400, 1e308, 5e-324, 2**31, 2**63, {"a": 1}]
Place = tuple[str | int, ...]


def models(folder: Path) -> list[Path]:
    """Model files with every kind of entry in their headers."""
    facts = relatent.read(ROWS, attributes=ATTRIBUTES)
    fitted = relatent.RescalLogit(2, tol=0.1, penalty=relatent.Dura(0.1)).fit(facts).factors_
    factors = {
        "dura": fitted,
        "l2": relatent.RescalALS(2, 0.1, 0.1, tol=0.1).fit(facts.without_attributes()).factors_,
        "rules": _with_rules(facts),
        "sum": relatent.combine([fitted, fitted], weights=[1, 0.5], calibrate=False),
    }
    for name, model in factors.items():
        model.save(folder / f"{name}.relatent")
    return [folder / f"{name}.relatent" for name in factors]


def _with_rules(facts: relatent.Facts) -> relatent.Factors:
    n, k = len(facts.entities), len(facts.relations)
    rules = Patterns.of_rules(facts.without_attributes(), np.zeros(1, np.int32), [(0, 0)], np.ones(1))
    A, R, bias = np.zeros((n, 0), np.float32), np.zeros((k, 0, 0), np.float32), np.zeros(k, np.float32)
    return relatent.Factors(A, R, bias, facts.entities, facts.relations, patterns=rules)


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """The path of every value inside a JSON document."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def header(path: Path) -> dict[str, Any]:
    """The document of a model file."""
    with open_tensors(path) as file:
        found: dict[str, Any] = json.loads(file.metadata["relatent"])
    return found


def forge(source: Path, target: Path, document: dict[str, Any], arrays: dict[str, Any] | None = None) -> None:
    """Write a model file with another document, and arrays of its own, and the checksum of both."""
    with open_tensors(source) as file:
        kept = {name: file.read(name) for name in file.tensors} | (arrays or {})
    kept = {name: kept[name] for name in TENSORS if kept.get(name) is not None}
    if arrays:
        document["tensors"] = {name: {"dtype": a.dtype.name, "shape": list(a.shape)} for name, a in kept.items()}
    document["sha256"] = NO_DIGEST
    text = json.dumps(document)
    write_tensors(kept, target, {"relatent": text.replace(NO_DIGEST, digest(text, kept.values()), 1)})


def replaced(document: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A copy of the document with another value at a place."""
    copy: Any = json.loads(json.dumps(document))
    inside = copy
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return dict(copy)


@cache
def _graphs() -> tuple[relatent.Facts, relatent.Facts]:
    return relatent.read(ROWS), relatent.read([*ROWS, ("new", "likes", "a0")])


def use(path: Path) -> int:
    """Load a model and ask it everything; how many of the questions were answered, the others refused in one line."""
    known, more, answered, messages = *_graphs(), 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded: list[relatent.Factors] = []
        questions: list[Callable[[], Any]] = [
            lambda: inspect(path),
            lambda: loaded.append(relatent.load(path)),
            lambda: loaded[0].top(subject=loaded[0].entities[0], relation=loaded[0].relations[0], k=2),
            lambda: loaded[0].fold_in(more),
            lambda: loaded[0].fold_in(more, attributes={"new": {"age": "30", "club": "red"}}),
            lambda: relatent.explain(loaded[0], "a0", "likes", "a1", known=known),
            lambda: Explorer(loaded[0]).model(),
            lambda: loaded[0].save(path.with_suffix(".again")),
        ]
        for number, question in enumerate(questions):
            if number > 1 and not loaded:
                break
            try:
                question()
                answered += 1
            except RelatentError as error:
                messages.append(str(error))
    assert not [message for message in messages if "\n" in message or len(message) > 2000]
    return answered


def attack(folder: Path, n_per_place: int, seed: int = 0) -> int:
    """Put some of the hostile values at each place of each header; the number of files."""
    rng, n_files, target = random.Random(seed), 0, folder / "forged.relatent"
    for model in models(folder):
        document = header(model)
        for place in places(document):
            for value in rng.sample(HOSTILE, n_per_place):
                forge(model, target, replaced(document, place, value))
                try:
                    use(target)
                except Exception as error:
                    raise AssertionError(f"{model.stem}, {place}: {str(value)[:20]!r}") from error
                n_files += 1
    return n_files
