"""What a model file says about how the model was made: information, from a file that anyone may have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _are_clauses(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(clause, dict) and isinstance(clause.get("clause"), str) and _is_number(clause.get("weight"))
        for clause in value
    )


def _are_patterns(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("count"), int)
        and isinstance(value.get("strongest"), list)
        and all(
            isinstance(row, dict)
            and isinstance(row.get("relation"), str)
            and isinstance(row.get("pattern"), str)
            and _is_number(row.get("weight"))
            for row in value["strongest"]
        )
    )


def _are_updates(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(record, dict) and _is_number(record.get("steps_of_fit")) for record in value
    )


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


CHECKS: dict[tuple[str, ...], Callable[[Any], bool]] = {  # of the entries that relatent reads
    ("model",): _is_text,
    ("settings",): _is_object,
    ("chosen",): _is_object,
    ("folded_in",): _are_names,
    ("data",): _is_object,
    ("data", "facts"): _is_number,
    ("data", "base_rates"): _are_numbers,
    ("data", "self_facts"): _are_numbers,
    ("fit",): _is_object,
    ("fit", "objectives"): _are_numbers,
    ("fit", "objective"): _is_number,
    ("fit", "seconds"): _is_number,
    ("fit", "steps"): _is_number,
    ("fit", "verdict"): _is_text,
    ("fit", "method"): _is_text,
    ("updates",): _are_updates,
    ("learned",): _is_object,
    ("learned", "clauses"): _are_clauses,
    ("learned", "patterns"): _are_patterns,
    ("learned", "groups"): lambda value: isinstance(value, list) and all(map(_are_names, value)),
}


def readable_about(about: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without the entries that relatent reads but that are not of the kind that it writes."""
    kept = {name: dict(value) if isinstance(value, dict) else value for name, value in about.items()}
    for (section, *inner), is_right in CHECKS.items():
        place, name = (kept.get(section, {}), inner[0]) if inner else (kept, section)
        if name in place and not is_right(place[name]):
            del place[name]
    return kept


def origin(about: Mapping[str, Any]) -> dict[str, Any]:
    """How a model was made, in a few rows: None for what is not known."""
    data, fit, chosen = (about.get(name) or {} for name in ("data", "fit", "chosen"))
    return {
        "model": about.get("model"),
        "facts": data.get("facts"),
        "chosen": chosen.get("settings"),
        "because": chosen.get("reason"),
        "fit": fit.get("verdict"),
        "seconds": fit.get("seconds"),
    }
