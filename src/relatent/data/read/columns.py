"""Which column holds the subject, the relation, the object and the weight or count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import DataError

ROLES = ("subject", "relation", "object", "weight")

SUBJECT_AND_OBJECT_NAMES = (
    ("subject", "object"),
    ("subj", "obj"),
    ("s", "o"),
    ("head", "tail"),
    ("h", "t"),
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("start", "end"),
)
RELATION_NAMES = {"relation", "predicate", "rel", "r", "p", "property", "relationship", "edge", "type", "label"}
WEIGHT_NAMES = {"weight", "weights", "confidence", "w"}
COUNT_NAMES = {"count", "counts", "times", "frequency"}


class ColumnRoles(NamedTuple):
    """Positions of subject, relation, object and perhaps weight or count among the columns of a table."""

    positions: tuple[int, ...]
    is_count: bool = False  # the fourth column says how often a fact was seen


def check_columns(columns: Sequence[str] | None) -> None:
    """Raise unless `columns` is None or names three or four different columns."""
    if columns is None:
        return
    if isinstance(columns, str) or len(columns) not in (3, 4) or len(set(columns)) != len(columns):
        raise DataError(f"columns must be 3 or 4 different column names, got {columns!r}")


def chosen_roles(names: Sequence[str], columns: Sequence[str], where: str) -> ColumnRoles:
    """The roles of the columns that the caller named."""
    for column in columns:
        if names.count(column) != 1:
            problem = "no column" if column not in names else "more than one column"
            raise DataError(f"{where}: {problem} {column!r}; there are {', '.join(map(repr, names))}")
    return _roles(names, [names.index(column) for column in columns])


def recognised_roles(names: Sequence[str]) -> ColumnRoles | None:
    """The roles of columns with common names, in any order; None unless subject, relation and object are found."""
    lowered = [name.strip().lower() for name in names]
    relations = [position for position, name in enumerate(lowered) if name in RELATION_NAMES]
    for subject, object_ in SUBJECT_AND_OBJECT_NAMES:
        if lowered.count(subject) == lowered.count(object_) == len(relations) == 1:
            numbers = [position for position, name in enumerate(lowered) if name in WEIGHT_NAMES | COUNT_NAMES]
            if len({lowered[position] in COUNT_NAMES for position in numbers}) > 1:
                found = " and ".join(repr(names[position]) for position in numbers)
                raise DataError(f"columns {found} hold weights and counts; choose one with columns=(…, …, …, …)")
            return _roles(names, [lowered.index(subject), relations[0], lowered.index(object_), *numbers[:1]])
    return None


def roles_by_position(names: Sequence[str], n_columns: int) -> ColumnRoles:
    """Subject, relation, object and weight in this order; `names` may be empty."""
    return _roles(names, range(n_columns))


def table_roles(names: Sequence[str], columns: Sequence[str] | None, where: str) -> ColumnRoles:
    """The roles of the columns of a table, whose columns always have names."""
    if columns is not None:
        return chosen_roles(names, columns, where)
    if recognised := recognised_roles(names):
        return recognised
    if len(names) == 3 or (len(names) == 4 and names[3].strip().lower() in WEIGHT_NAMES | COUNT_NAMES):
        return roles_by_position(names, len(names))
    raise DataError(f"{where}: expected 3 columns, or 4 with a weight, got {len(names)}; choose with columns=(…, …, …)")


def _roles(names: Sequence[str], positions: Sequence[int]) -> ColumnRoles:
    is_count = len(positions) == 4 and bool(names) and names[positions[3]].strip().lower() in COUNT_NAMES
    return ColumnRoles(tuple(positions), is_count)


def weight_fault(weight: float) -> str | None:
    """What is wrong with a weight, if anything."""
    if 0 <= weight < float("inf"):
        return None
    return f"weights are confidences, finite and at least 0, got {weight}"


def count_fault(count: float) -> str | None:
    """What is wrong with a count, if anything."""
    if count >= 1 and float(count).is_integer():
        return None
    return f"counts are whole numbers of at least 1, got {count:g}"
