"""How a model was made: from which data, with which settings, by which fit, and what became of it since.

It is written into the model file as it is (`record`), and every field is checked when a file is read (`read`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..tensor_file import RefusedFileError, checked

SETTING_DEPTH = 5  # of a structure, its list of parts, one of them, and its own structure


@dataclass(frozen=True)
class DataRecord:
    """The data that a model was fitted to."""

    facts: int  # a pair of an undirected relation is one
    unobserved: int  # cells
    fingerprint: str
    base_rates: tuple[float, ...]  # per relation the share of facts among its observed cells
    self_facts: tuple[int, ...]  # per relation the number of facts of an entity with itself


@dataclass(frozen=True)
class FitRecord:
    """How a fit went."""

    steps: int
    converged: bool
    verdict: str
    objective: float
    seconds: float
    objectives: tuple[float, ...]  # after each step
    method: str | None = None  # exact or sampled, of models that can be fitted by either


@dataclass(frozen=True)
class Choice:
    """Settings that were not given, and why they were chosen."""

    settings: Mapping[str, Any]  # as in `Provenance`
    reason: str


@dataclass(frozen=True)
class WeightedClause:
    """A clause of Markov logic."""

    clause: str
    weight: float


@dataclass(frozen=True)
class WeightedPattern:
    """An observed pattern, with its log-odds per standard deviation."""

    relation: str
    pattern: str
    weight: float


@dataclass(frozen=True)
class PatternSummary:
    """Observed patterns."""

    count: int
    strongest: tuple[WeightedPattern, ...]


@dataclass(frozen=True)
class LearnedRecord:
    """What a person can read of a model."""

    clauses: tuple[WeightedClause, ...] = ()
    patterns: PatternSummary | None = None
    n_clusters: tuple[int, ...] = ()  # of the entities, in each of the clusterings
    groups: tuple[tuple[str, ...], ...] = ()  # the entities of each cluster, if they are few


@dataclass(frozen=True)
class UpdateRecord:
    """An update: what it added, and its steps."""

    facts: int
    entities: int
    relations: int
    steps: int
    steps_of_fit: int  # of the fit that the model began with


@dataclass(frozen=True)
class Provenance:
    """How a model was made; empty for factors that no fit has made."""

    model: str | None = None  # the class of the estimator
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the fit, as JSON values (`fit.settings`)
    data: DataRecord | None = None
    fit: FitRecord | None = None  # of the last update, if there was one
    chosen: Choice | None = None
    learned: LearnedRecord = LearnedRecord()
    folded_in: tuple[str, ...] = ()  # names of entities
    updates: tuple[UpdateRecord, ...] = ()

    def summary(self) -> dict[str, Any]:
        """How a model was made, in a few rows: None for what is not known."""
        return {
            "model": self.model,
            "facts": self.data and self.data.facts,
            "chosen": self.chosen and shown_settings(self.chosen.settings),
            "because": self.chosen and self.chosen.reason,
            "fit": self.fit and self.fit.verdict,
            "seconds": self.fit and self.fit.seconds,
        }


UNKNOWN = Provenance()


def read(document: Any, n_relations: int) -> Provenance:
    """The provenance in the header of a model file, which anyone may have written."""
    found: Provenance = checked(Provenance, document, "about")
    for settings in (found.settings, found.chosen.settings if found.chosen else {}):
        if wrong := [name for name, value in settings.items() if not _is_setting(value)]:
            raise RefusedFileError(f"is damaged: its setting {wrong[0]!r:.60} is not one; get a fresh copy")
    for name in () if found.data is None else ("base_rates", "self_facts"):
        if (n := len(getattr(found.data, name))) != n_relations:
            message = f"about.data.{name} must have {n_relations} values, one per relation, got {n}"
            raise RefusedFileError(f"is damaged: {message}; get a fresh copy")
    return found


def _is_setting(value: Any, depth: int = SETTING_DEPTH) -> bool:
    if isinstance(value, Mapping):
        return depth > 0 and all(_is_setting(part, depth - 1) for part in value.values())
    return not isinstance(value, list) or (depth > 0 and all(_is_setting(part, depth - 1) for part in value))


def shown_setting(value: Any) -> str:
    """A setting from its JSON value, as one writes it in Python.

    >>> shown_setting({"type": "N3", "weight": 0.01})
    'N3(weight=0.01)'
    """
    if isinstance(value, Mapping):
        parts = [f"{name}={shown_setting(part)}" for name, part in value.items() if name != "type"]
        return f"{value.get('type', '')}({', '.join(parts)})"
    return str(value)


def shown_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from their JSON values, objects such as a penalty as one writes them in Python."""
    return {name: shown_setting(value) if isinstance(value, Mapping) else value for name, value in settings.items()}
