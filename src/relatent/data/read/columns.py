"""Which column holds the subject, the relation, the object and the weight or count."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ...errors import DataError
from .column_evidence import (
    Sample,
    are_dated_edges,
    date_column,
    has_few_values,
    odd_relations,
    weighted_edges_evidence,
)
from .value_kinds import PLAIN, Notation, filled, is_number, is_numeric, kind_of

Columns: TypeAlias = Mapping[str, "str | int"]  # role → name or position of the column

ROLES = ("subject", "relation", "object", "weight")
EDGE_RELATION = "linked"  # the relation of every edge list for which none is given

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
# Less common names; a first row of them is a header only if its values do not occur again below.
MORE_SUBJECT_AND_OBJECT_NAMES = (
    ("fromnodeid", "tonodeid"),
    ("node1", "node2"),
    ("node_1", "node_2"),
    ("entity1", "entity2"),
    ("id1", "id2"),
    ("u", "v"),
    (":start_id", ":end_id"),  # neo4j-admin
    ("_start", "_end"),  # APOC
)
MORE_RELATION_NAMES = {"relation_type", "relation_name", "relation_id", "rel_type", "edge_type", "interaction", "verb"}
MORE_RELATION_NAMES |= {"predicate_id", "predicate_name", "kind", ":type", "_type"}
EDGE_WEIGHT_NAMES = WEIGHT_NAMES | {"score", "rating", "strength", "similarity", "probability"}
_NEO4J_TYPE = re.compile(r":(int|long|float|double|short|byte|string|boolean)$")
_NEO4J_ROLE = re.compile(r".*(:start_id|:end_id|:type)(\(.*\))?")
MAX_SHOWN_COLUMNS = 10


class ColumnRoles(NamedTuple):
    """Positions of subject, relation, object and perhaps weight or count among the columns of a table."""

    positions: tuple[int, ...]
    is_count: bool = False  # the last column says how often a fact was seen
    edge_relation: str | None = None  # the relation of all rows, if no column holds it
    may_be_nodes: bool = False  # rows without subject, relation and object are nodes, as APOC exports them
    notation: Notation = PLAIN  # of weights or counts that are texts
    dates: int | None = None  # of three columns, the one that holds dates
    note: str = ""  # a decision that the caller may want to change

    @property
    def names(self) -> tuple[str, ...]:
        """The role of each position."""
        roles = ROLES if self.edge_relation is None else (ROLES[0], *ROLES[2:])
        return (*roles[:-1], "count")[: len(self.positions)] if self.is_count else roles[: len(self.positions)]

    @property
    def n_names(self) -> int:
        """How many of the positions hold names, not numbers."""
        return 3 if self.edge_relation is None else 2


def checked_columns(columns: Sequence[str | int] | Mapping[str, str | int] | None) -> Columns | None:
    """The column of each role, from two to four columns or a mapping."""
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        found = dict(columns)
    elif isinstance(columns, (str, bytes)) or not isinstance(columns, Sequence) or len(columns) not in (2, 3, 4):
        found = {}
    else:
        found = dict(zip(ROLES if len(columns) > 2 else ROLES[::2], columns, strict=False))
    is_valid = (
        all(isinstance(column, (str, int)) and not isinstance(column, bool) for column in found.values())
        and {"subject", "object"} <= set(found) <= {*ROLES, "count"}
        and len(set(found.values())) == len(found)
        and not {"weight", "count"} <= set(found)
    )
    if not is_valid:
        raise DataError(
            f"columns must be 2, 3 or 4 different column names (subject, object; subject, relation, object; and "
            f"weight), or a dict with subject, relation, object, weight or count, got {columns!r}"
        )
    return found


def chosen_roles(
    names: Sequence[str], columns: Columns, where: str, n_columns: int, relation: str | None
) -> ColumnRoles:
    """The roles of the columns that the caller named; `relation`: of an edge list, if the caller gave it."""
    by_role = {role: _position(names, column, where, n_columns) for role, column in columns.items()}
    number = by_role.get("weight", by_role.get("count"))
    positions = [by_role[role] for role in ROLES[:3] if role in by_role] + ([] if number is None else [number])
    edge = None if "relation" in columns else relation or EDGE_RELATION
    return ColumnRoles(tuple(positions), "count" in by_role or _is_count(names, number), edge)


def _position(names: Sequence[str], column: str | int, where: str, n_columns: int) -> int:
    if isinstance(column, int) and str(column) not in names:
        if not 0 <= column < n_columns:
            raise DataError(f"{where}: no column at position {column}; positions run from 0 to {n_columns - 1}")
        return column
    column = str(column)
    if names.count(column) != 1:
        problem = "no column" if column not in names else "more than one column"
        raise DataError(f"{where}: {problem} {column!r}; {listed_columns(names, column)}")
    return names.index(column)


def listed_columns(names: Sequence[str], near: str | None = None) -> str:
    """The names of columns, or those near to the one asked for if there are many."""
    if len(names) <= MAX_SHOWN_COLUMNS:
        return f"there are {', '.join(map(_short, names))}"
    close = difflib.get_close_matches(near, names[:10_000], n=3) if near is not None and len(near) < 100 else []
    shown = [*close, *(name for name in names[:MAX_SHOWN_COLUMNS] if name not in close)][:MAX_SHOWN_COLUMNS]
    return f"there are {', '.join(map(_short, shown))}, … ({len(names):,} in all)"


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:60] + "…")


def _normal(name: str) -> str:
    """A column name in the form of the lists above."""
    lowered = _NEO4J_TYPE.sub("", name.strip().lstrip("#%").strip().lower())
    if match := _NEO4J_ROLE.fullmatch(lowered):
        return match[1]
    return re.sub(r"[\s-]+", "_", lowered)


def recognised_roles(names: Sequence[str]) -> ColumnRoles | None:
    """The roles of columns with common names, in any order; None unless subject, relation and object are found."""
    lowered = [name.strip().lower() for name in names]
    return _by_names(names, lowered, SUBJECT_AND_OBJECT_NAMES, RELATION_NAMES)


def possible_roles(names: Sequence[str], sample: Sample) -> ColumnRoles | None:
    """The roles of columns whose names tell at least subject and object; `sample`: values of each column."""
    normal = [_normal(name) for name in names]
    pairs = (*SUBJECT_AND_OBJECT_NAMES, *MORE_SUBJECT_AND_OBJECT_NAMES, *_pairs_of_one_kind(normal))
    relations = RELATION_NAMES | MORE_RELATION_NAMES
    if found := _by_names(names, normal, pairs, relations):
        return found._replace(may_be_nodes="_start" in normal and "_id" in normal)
    pair = next((pair for pair in pairs if normal.count(pair[0]) == normal.count(pair[1]) == 1), None)
    if pair is None:
        return None
    subject, object_ = (normal.index(name) for name in pair)
    others = [position for position in range(len(names)) if position not in (subject, object_)]
    if len([position for position in others if normal[position] in relations]) > 1:
        named = [_short(names[position]) for position in others if normal[position] in relations]
        raise DataError(f"columns {' and '.join(named)} may hold the relation; choose with columns=(…, …, …)")
    return _of_pair(names, normal, subject, object_, others, sample)


def _pairs_of_one_kind(normal: Sequence[str]) -> list[tuple[str, str]]:
    """Names such as from_doctor and to_doctor: common names of a pair, each with the same ending."""
    return [
        (name, f"{object_}{name.removeprefix(subject)}")
        for name in normal
        for subject, object_ in SUBJECT_AND_OBJECT_NAMES
        if len(subject) > 1 and name.startswith(f"{subject}_")
    ]


def _of_pair(
    names: Sequence[str],
    normal: Sequence[str],
    subject: int,
    object_: int,
    others: Sequence[int],
    sample: Sample,
) -> ColumnRoles:
    """The roles where subject and object are known, and no name tells the relation."""
    numbers = [position for position in others if normal[position] in EDGE_WEIGHT_NAMES | COUNT_NAMES]
    rest = [position for position in others if position not in numbers]
    if len(rest) == 1 and (has_few_values(sample[rest[0]]) or _is_relation_between(names, rest[0], sample)):
        return _roles(names, [subject, rest[0], object_, *numbers[:1]])
    note = ""
    if len(others) == 1 and not numbers and is_numeric(sample[others[0]]):
        numbers, rest = list(others), []
        note = (
            f"took column {names[others[0]]!r} as weights of an edge list; columns=({names[subject]!r}, "
            f"{names[object_]!r}) leaves them out, columns={{'subject': {names[subject]!r}, 'object': "
            f"{names[object_]!r}, 'count': {names[others[0]]!r}}} takes them as counts"
        )
    elif len(rest) == 1 and (reason := _reason_to_leave_out(sample[rest[0]])):
        chosen = ", ".join(repr(names[position]) for position in (subject, rest[0], object_))
        note = f"read as an edge list without column {_short(names[rest[0]])}, {reason}; columns=({chosen}) reads it "
        note += "as relations"
    elif rest:
        left_out = ", ".join(_short(names[position]) for position in rest[:MAX_SHOWN_COLUMNS])
        note = f"read as an edge list without columns {left_out}; columns=(…, …, …) chooses the one with the relation"
    found = _roles(names, [subject, object_, *numbers[:1]])
    return found._replace(
        edge_relation=EDGE_RELATION, is_count=_is_count(names, numbers[0] if numbers else None), note=note
    )


def _is_relation_between(names: Sequence[str], position: int, sample: Sample) -> bool:
    """Whether the column between subject and object holds relations: names, or ids that are whole numbers."""
    values = filled(sample[position])
    return len(names) == 3 and position == 1 and (kind_of(values) == "names" or all(map(str.isdecimal, values)))


def _reason_to_leave_out(values: Sequence[str]) -> str | None:
    """Why a column is neither relation nor weight."""
    given = filled(values)
    kind = kind_of(given)
    if kind == "names":
        return None
    n_blank = len(values) - len(given)
    blank = f" and is blank in {n_blank:,} of the first {len(values):,} rows" if n_blank else ""
    return f"which holds {kind} such as {_short(given[0].strip())}{blank}"


def _by_names(
    names: Sequence[str], lowered: Sequence[str], pairs: Sequence[tuple[str, str]], relation_names: set[str]
) -> ColumnRoles | None:
    relations = [position for position, name in enumerate(lowered) if name in relation_names]
    for subject, object_ in pairs:
        if lowered.count(subject) == lowered.count(object_) == len(relations) == 1:
            numbers = [position for position, name in enumerate(lowered) if name in WEIGHT_NAMES | COUNT_NAMES]
            if len({lowered[position] in COUNT_NAMES for position in numbers}) > 1:
                found = " and ".join(repr(names[position]) for position in numbers)
                raise DataError(f"columns {found} hold weights and counts; choose one with columns=(…, …, …, …)")
            return _roles(names, [lowered.index(subject), relations[0], lowered.index(object_), *numbers[:1]])
    return None


def roles_by_position(names: Sequence[str], n_columns: int, sample: Sample) -> ColumnRoles:
    """Subject, relation, object and weight in this order, or an edge list; `names` may be empty."""
    if n_columns == 2:
        return ColumnRoles((0, 1), edge_relation=EDGE_RELATION)
    evidence = (_name_evidence(names, sample) or weighted_edges_evidence(sample)) if n_columns == 3 else None
    if evidence:
        note = f"read as an edge list with weights, because {evidence}; relation='…' says so, "
        note += "columns=(0, 1, 2) reads facts"
        return ColumnRoles((0, 1, 2), _is_count(names, 2), EDGE_RELATION, note=note)
    dates = date_column(sample) if n_columns == 3 else None
    notes = []
    if dates is not None:
        ends, column = [position for position in range(3) if position != dates], column_title(names, dates)
        if dates == 1 or are_dated_edges(*(sample[position] for position in ends)):
            note = f"read as an edge list without column {column}, {_reason_to_leave_out(sample[dates])}; "
            note += f"columns=({ends[0]}, {ends[1]}) says so, columns=(0, 1, 2) reads facts"
            return ColumnRoles((ends[0], ends[1]), edge_relation=EDGE_RELATION, note=note)
        notes.append(
            f"column {column} holds dates, which are read as entities; columns=({ends[0]}, {ends[1]}) "
            "reads an edge list without them, columns=(0, 1, 2) says that they are entities"
        )
    elif odd := odd_relations(sample):
        edges = "" if n_columns != 3 else " columns=(0, 1) reads an edge list, columns=(0, 2, 1) takes column 3 as the "
        edges += "relation," if edges else ""
        notes.append(f"{odd}; if these are entities,{edges} columns=(…, …, …) chooses others")
    if n_columns == 4 and names and _normal(names[3]) not in EDGE_WEIGHT_NAMES | COUNT_NAMES:
        notes.append(f"took column {names[3]!r} as weights; columns=(0, 1, 2) leaves them out")
    return _roles(names, range(n_columns))._replace(note="; ".join(notes), dates=dates)


def column_title(names: Sequence[str], position: int) -> str:
    """The name of a column in quotes, or its number."""
    return _short(names[position]) if names else str(position + 1)


def _may_be_weights(name: str, values: Sequence[str]) -> bool:
    """Whether a fourth column holds numbers; one that is called weight is told apart later, with the row."""
    return is_numeric(values) or name.strip().lower() in WEIGHT_NAMES | COUNT_NAMES


def no_weights(names: Sequence[str], values: Sequence[str], where: str) -> DataError:
    """The error for four columns of which the last does not hold numbers; `names`: the names or the first row."""
    others = [_short(value) for value in values if not is_number(value)][:2]
    held = f"{', '.join(others)}, not numbers" if others else "no values"
    return DataError(
        f"{where}: the fourth column is no weight: it holds {held}; columns=(0, 1, 2) leaves it out; "
        f"{listed_columns(names)}"
    )


def _name_evidence(names: Sequence[str], sample: Sample) -> str | None:
    """Why the third of three columns is a weight, by its name."""
    is_weight = bool(names) and len(names[2]) > 1 and _normal(names[2]) in EDGE_WEIGHT_NAMES | COUNT_NAMES
    return f"column {names[2]!r} holds numbers" if is_weight and is_numeric(sample[2]) else None


def table_roles(
    names: Sequence[str],
    columns: Columns | None,
    where: str,
    sample: Sample,
    relation: str | None,
) -> ColumnRoles:
    """The roles of the columns of a table, whose columns always have names.

    `relation`: of an edge list, if the caller gave it.
    """
    if columns is not None:
        return chosen_roles(names, columns, where, len(names), relation)
    found = recognised_roles(names) or possible_roles(names, sample)
    if found is None and (len(names) in (2, 3) or (len(names) == 4 and _may_be_weights(names[3], sample[3]))):
        found = roles_by_position(names, len(names), sample)
    if found is None and len(names) == 4:
        raise no_weights(names, sample[3], where)
    if found is None:
        raise DataError(
            f"{where}: expected 3 columns, or 4 with a weight, or 2 of an edge list, got {len(names)}; choose with "
            f"columns=(…, …, …); {listed_columns(names)}"
        )
    return as_edges(found, relation, where)


def as_edges(roles: ColumnRoles, relation: str | None, where: str) -> ColumnRoles:
    """The roles, with the relation that the caller gave to the rows of an edge list."""
    if relation is None:
        return roles
    if roles.edge_relation is not None:
        return roles._replace(edge_relation=relation, note="")
    if roles.dates is not None:
        return ColumnRoles(tuple(p for p in range(3) if p != roles.dates), edge_relation=relation)
    if roles.positions == (0, 1, 2) and not roles.is_count:
        return ColumnRoles((0, 1, 2), edge_relation=relation)
    raise DataError(
        f"{where}: relation={relation!r} names the relation of an edge list, but a column holds relations; leave it "
        "out, or choose the columns of subject and object with columns=(…, …)"
    )


def _roles(names: Sequence[str], positions: Sequence[int]) -> ColumnRoles:
    number = positions[3] if len(positions) == 4 else None
    return ColumnRoles(tuple(positions), _is_count(names, number))


def _is_count(names: Sequence[str], position: int | None) -> bool:
    return position is not None and bool(names) and names[position].strip().lower() in COUNT_NAMES
