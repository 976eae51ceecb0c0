"""What the columns of a table are: subject, relation, object, weight; or id and label; or a verdict.

One table of synonyms decides first, in any order of the columns. Without usual names the positions of exactly two or
three columns decide, and what their first values are. Nothing else is guessed: the error shows what would read them.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias

from ...errors import DataError
from .values import PLAIN, Notation, NotationError, are_dates, filled, is_number, is_numeric, kind_of, notation_of

Columns: TypeAlias = Mapping[str, "str | int"]  # role → name or position of the column
Sample: TypeAlias = Sequence[Sequence[str]]  # the first values of each column

FACTS = ("subject", "relation", "object", "weight")
EDGE_RELATION = "linked"  # the relation of every edge list for which none is given
QUESTION = ("subject", "relation", "object")  # two of them
REVIEW = (*QUESTION, "verdict")
ATTRIBUTES = ("entity", "attributes")

# Names of columns in small letters without accents; those of one pair belong together.
PAIRS = (
    ("subject", "object"), ("subj", "obj"), ("s", "o"), ("head", "tail"), ("h", "t"), ("source", "target"),
    ("src", "dst"), ("from", "to"), ("start", "end"), ("fromnodeid", "tonodeid"), ("node1", "node2"),
    ("node_1", "node_2"), ("entity1", "entity2"), ("id1", "id2"), ("u", "v"), ("subject_id", "object_id"),
    (":start_id", ":end_id"), ("_start", "_end"),  # neo4j-admin and APOC
    ("subjekt", "objekt"), ("quelle", "ziel"), ("von", "nach"), ("sujet", "objet"), ("source", "cible"),
    ("origine", "destination"), ("origine", "destinazione"), ("sujeto", "objeto"), ("origen", "destino"),
    ("desde", "hasta"), ("soggetto", "oggetto"), ("sujeito", "objeto"), ("origem", "destino"), ("bron", "doel"),
    ("van", "naar"), ("onderwerp", "object"), ("fran", "till"), ("zrodło", "cel"), ("podmiot", "obiekt"),
    ("субъект", "объект"), ("источник", "цель"), ("主语", "宾语"), ("头实体", "尾实体"), ("主語", "目的語"),
)  # fmt: skip
_WORDS = {
    "relation": "relation predicate rel r p property relationship edge type label relation_type relation_name "
    "relation_id rel_type edge_type interaction verb predicate_id predicate_name kind :type _type beziehung pradikat "
    "propriete predicat predicado propiedad relacion relazione predicato proprieta relacao relatie relacja predykat "
    "отношение предикат связь 关系 谓语 関係 述語",
    "weight": "weight weights confidence w gewicht poids peso вес 权重",
    "edge weight": "score rating strength similarity probability",  # of an edge list only
    "count": "count counts times frequency anzahl haufigkeit",
    "id": "id entity node iri uri key",
    "type": "type types class kind category",
    "label": "label name title",
    "verdict": "verdict",
}
SYNONYMS = {role: frozenset(words.split()) for role, words in _WORDS.items()}
ENTITY_COLUMNS = SYNONYMS["id"] | {"name", *(subject for subject, _ in PAIRS)}
_NUMBERS = SYNONYMS["weight"] | SYNONYMS["edge weight"] | SYNONYMS["count"]
_NEO4J_TYPE = re.compile(r":(int|long|float|double|short|byte|string|boolean)$")
_NEO4J_ROLE = re.compile(r".*(:start_id|:end_id|:type)(\(.*\))?")
_DIRECTIONS = {"directed", "undirected", "mutual", ""}  # what Gephi calls the type of an edge
_WIKIDATA = ("Label", "AltLabel", "Description")  # endings of the columns that its query service adds
_ID_SIGN = re.compile(r"[\d/:#]")  # in ids and IRIs, hardly ever in names of columns
_IRI = re.compile(r"<?[A-Za-z][A-Za-z0-9+.-]*:\S+")
_CODE = re.compile(r"[^\s\d]*\d\S*")

MAX_SHOWN_COLUMNS = 10
MIN_ROWS = 3  # below a first row, to judge whether it is a header
MIN_ROWS_FOR_DISTINCT = 20  # to judge by how few values repeat: what is one of so many comes first in 5 % of files
MAX_SHARE_OF_LONE_ROWS = 0.05
MAX_SHARE_OF_RARE_RELATIONS = 0.01
MIN_SHARE_OF_BLANKS = 0.05  # in a column, from which on the column is in doubt, not its rows
MIN_BLANKS = 2


class Roles(NamedTuple):
    """Which columns of a table have a role."""

    names: tuple[str, ...]  # subject, relation, object, and weight or count; or subject and object
    positions: tuple[int, ...]  # of these columns
    edge_relation: str | None = None  # the relation of all rows, if no column holds it
    may_be_nodes: bool = False  # rows without subject, relation and object are nodes, as APOC exports them
    notation: Notation = PLAIN  # of weights or counts that are texts
    dates: int | None = None  # of three columns, the one that holds dates
    notes: tuple[str, ...] = ()  # decisions that the caller may want to change

    @property
    def n_names(self) -> int:
        """How many of the columns hold names, not numbers."""
        return len(self.names) - (self.names[-1] in ("weight", "count"))

    @property
    def is_count(self) -> bool:
        """Whether the last column says how often a fact was seen."""
        return self.names[-1] == "count"

    def without_notes(self) -> Roles:
        """The same roles for another file, whose numbers may be written in another way."""
        return self._replace(notes=(), notation=PLAIN)


class Title(Protocol):
    """What a table is called in messages."""

    where: str
    what: str  # its columns
    hint: str  # what to try if there is one column


class HeaderRule(NamedTuple):
    """Whether a first row names the columns, and why."""

    is_header: bool
    note: str = ""  # if the values decided, not the names
    lint: str = ""  # if it may be one, but was read as data


def checked_columns(columns: Sequence[str | int] | Mapping[str, str | int] | None) -> Columns | None:
    """The column of each role, from two to four columns or a mapping."""
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        found = dict(columns)
    elif isinstance(columns, (str, bytes)) or not isinstance(columns, Sequence) or len(columns) not in (2, 3, 4):
        found = {}
    else:
        found = dict(zip(FACTS if len(columns) > 2 else FACTS[::2], columns, strict=False))
    is_valid = (
        all(isinstance(column, (str, int)) and not isinstance(column, bool) for column in found.values())
        and len(set(found) & {"subject", "relation", "object"}) >= 2
        and set(found) <= {*FACTS, "count"}
        and len(set(found.values())) == len(found)
        and not {"weight", "count"} <= set(found)
    )
    if not is_valid:
        raise DataError(
            f"columns must be 2, 3 or 4 different column names (subject, object; subject, relation, object; and "
            f"weight), or a dict with subject, relation, object, weight or count, got {columns!r}"
        )
    return found


# --- the header of a text


def header_rule(first: Sequence[str], below: Sample, wanted: Sequence[str], columns: Columns | None) -> HeaderRule:
    """Whether the first row of a text is a header, by its values and those below it; `wanted`: the roles."""
    normal = [_normal(value) for value in first]
    n_rows = len(below[0])
    chosen = None if columns is None else list(columns.values())
    if chosen is not None and any(isinstance(column, str) for column in chosen):
        return HeaderRule(True)
    if wanted in (REVIEW, ATTRIBUTES):
        return HeaderRule(True)
    found = named_roles(first, wanted)
    if wanted != FACTS:
        return HeaderRule(len(found) > 1 or ("id" in wanted and normal[0] in SYNONYMS["id"]))
    again = _occurs_again(first, below)
    if _pair(normal) and ("relation" in found or (n_rows and not again)):
        return HeaderRule(True)
    are_words = not any(is_number(value) or are_dates([value]) for value in first)
    if n_rows >= MIN_ROWS and are_words and not again and (kind := _kind_below(first, below)):
        shown = ", ".join(map(repr, first[:MAX_SHOWN_COLUMNS]))
        note = f"took the first row ({shown}) as column names, because {kind} below it; header=False reads it as a fact"
        return HeaderRule(True, note)
    if _pair(normal) and again:
        shown = ", ".join(map(repr, first[:MAX_SHOWN_COLUMNS]))
        lint = f"the first row ({shown}) was read as a fact, as its values occur again; header=True reads it as "
        return HeaderRule(False, lint=lint + "column names, header=False as a fact")
    return _lone_row(first, below, chosen)


def _kind_below(first: Sequence[str], below: Sample) -> str:
    """Which values no word of a first row can be among."""
    for position, values in enumerate(map(filled, below)):
        if len(values) < MIN_ROWS:
            continue
        if is_numeric(values) or are_dates(values):
            return f"column {position + 1} holds {kind_of(values)}"
        if all(map(_IRI.fullmatch, values)) and not _IRI.fullmatch(first[position]):
            return f"column {position + 1} holds IRIs"
        is_coded = len(values) >= MIN_ROWS_FOR_DISTINCT and all(map(_CODE.fullmatch, values))
        if is_coded and not any(map(str.isdigit, "".join(first))):
            return f"column {position + 1} holds codes with digits"
    return ""


def _lone_row(first: Sequence[str], below: Sample, chosen: Sequence[str | int] | None) -> HeaderRule:
    """Whether the first row is the only one none of whose values occurs in another row.

    Of a fact that is the only one of its kind among n, one file in n begins with it.
    """
    places = [place for place in chosen or range(len(first)) if isinstance(place, int) and place < len(first)]
    rows = [tuple(row[place].strip() for place in places) for row in zip(*below, strict=True)]
    names = tuple(first[place].strip() for place in places)
    uses = Counter(value for row in rows for value in set(row))
    if len(rows) < MIN_ROWS or any(uses[name] for name in names) or len(set(names)) < len(names):
        return HeaderRule(False)
    if any(is_number(name) or are_dates([name]) for name in names):
        return HeaderRule(False)
    n_lone = sum(all(uses[value] == 1 for value in row) for row in rows)
    if n_lone > MAX_SHARE_OF_LONE_ROWS * len(rows):
        return HeaderRule(False)
    shown = ", ".join(map(repr, names))
    rare = Counter(row[1] for row in rows) if len(names) > 2 else Counter()
    n_rare = sum(count == 1 for count in rare.values())
    if (
        n_lone
        or len(rows) <= MIN_ROWS_FOR_DISTINCT
        or n_rare > MAX_SHARE_OF_RARE_RELATIONS * len(rows)
        or _is_like_codes(names, list(zip(*rows, strict=True)))
    ):
        lint = f"the first row ({shown}) was read as a fact, but none of its values occurs again; header=True reads it "
        return HeaderRule(False, lint=lint + "as column names, header=False as a fact")
    note = f"took the first row ({shown}) as column names, because it is the only one of the "
    note += f"first {len(rows) + 1:,} rows whose values occur in no other"
    return HeaderRule(True, f"{note}; header=False reads it as a fact")


def _is_like_codes(row: Sequence[str], below: Sample) -> bool:
    """Whether a row has the form of the rows below it: ids or IRIs, or codes of the same lengths."""
    if any(_ID_SIGN.search(value) and any(map(_ID_SIGN.search, rest)) for value, rest in zip(row, below, strict=True)):
        return True
    return all({len(row[end])} == set(map(len, below[end])) for end in (0, -1))


def _occurs_again(first: Sequence[str], below: Sample) -> bool:
    """Whether a value of the first row occurs in any column below it."""
    wanted = {value.strip() for value in first}
    return any(value.strip() in wanted for values in below for value in values)


# --- facts


def fact_roles(
    names: Sequence[str],
    sample: Sample,
    columns: Columns | None,
    relation: str | None,
    title: Title,
    *,
    may_be_blank: bool = False,
) -> Roles:
    """The roles of the columns of facts.

    `names` may be empty; `columns` and `relation` are what the caller gave; `may_be_blank`: rows without a number are
    skipped.
    """
    where = title.where
    n_columns = len(names) or len(sample)
    if columns is not None:
        found = _chosen(names, columns, where, n_columns, relation)
    else:
        used = _used(names, sample)
        short = [names[place] for place in used] if names else []
        values = [sample[place] for place in used]
        found = (_named(short, values, where) if names else None) or _by_position(short, values, title, used)
        others = [place for place in range(n_columns) if place not in used]
        left_out = [
            _title_of(names, place) for place in others if any(sample[place]) and (not names or names[place].strip())
        ]
        note = f"left out column{'s' * (len(left_out) > 1)} {_some(', ', left_out)}"
        dates = None if found.dates is None else used[found.dates]
        found = found._replace(positions=tuple(used[place] for place in found.positions), dates=dates)
        found = _as_edges(found, relation, where, n_columns)
        found = found._replace(notes=(*found.notes, note)) if left_out else found
    return with_notation(found, names, sample, where, may_be_blank=may_be_blank)


def named_roles(names: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """The positions of the roles that names tell, of subject and object only by names of one pair."""
    normal = [_normal(name) for name in names]
    found = {
        role: next(place for place, name in enumerate(normal) if name in SYNONYMS[role])
        for role in wanted
        if role in SYNONYMS and any(name in SYNONYMS[role] for name in normal)
    }
    for pair in PAIRS if "subject" in wanted else ():
        ends = {role: normal.index(name) for role, name in zip(FACTS[::2], pair, strict=True) if name in normal}
        if ends and len(ends) + ("relation" in found) >= 2:
            return {**found, **ends}
    return found


def _chosen(names: Sequence[str], columns: Columns, where: str, n_columns: int, relation: str | None) -> Roles:
    """The roles of the columns that the caller named; `relation`: of an edge list, if the caller gave it."""
    if not {"subject", "object"} <= set(columns):
        raise DataError(f"{where}: facts need columns of subject and object, got columns={dict(columns)!r}")
    by_role = {role: position_of(names, column, where, n_columns) for role, column in columns.items()}
    roles = [role for role in (*FACTS, "count") if role in by_role]
    if roles[-1] == "weight" and names and _normal(names[by_role["weight"]]) in SYNONYMS["count"]:
        by_role["count"], roles[-1] = by_role["weight"], "count"
    edge = None if "relation" in columns else relation or EDGE_RELATION
    return Roles(tuple(roles), tuple(by_role[role] for role in roles), edge)


def position_of(names: Sequence[str], column: str | int, where: str, n_columns: int) -> int:
    """The position of a column that the caller named."""
    if isinstance(column, int) and str(column) not in names:
        if not 0 <= column < n_columns:
            raise DataError(f"{where}: no column at position {column}; positions run from 0 to {n_columns - 1}")
        return column
    column = str(column)
    listed = [name.strip() for name in names]
    if listed.count(column) != 1:
        problem = "no column" if column not in listed else "more than one column"
        raise DataError(f"{where}: {problem} {column!r}; {_listed(names, column)}")
    return listed.index(column)


def _listed(names: Sequence[str], near: str | None = None) -> str:
    """The names of columns, or those near to the one asked for if there are many."""
    if len(names) <= MAX_SHOWN_COLUMNS:
        return f"there are {', '.join(map(_short, names))}"
    close = difflib.get_close_matches(near, names[:10_000], n=3) if near is not None and len(near) < 100 else []
    shown = [*close, *(name for name in names[:MAX_SHOWN_COLUMNS] if name not in close)][:MAX_SHOWN_COLUMNS]
    return f"there are {', '.join(map(_short, shown))}, … ({len(names):,} in all)"


def _some(joined_by: str, names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - MAX_SHOWN_COLUMNS:,} more" if len(names) > MAX_SHOWN_COLUMNS else ""
    return joined_by.join(names[:MAX_SHOWN_COLUMNS]) + more


def _short(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:60] + "…")


def _normal(name: str) -> str:
    """A column name in the form of the tables above."""
    lowered = unicodedata.normalize("NFKD", name[:100].strip().lstrip("#%").strip().lower())
    lowered = "".join(filter(lambda character: not unicodedata.combining(character), lowered))
    lowered = _NEO4J_TYPE.sub("", unicodedata.normalize("NFC", lowered))
    if match := _NEO4J_ROLE.fullmatch(lowered):
        return match[1]
    return re.sub(r"[\s-]+", "_", lowered)


def _pair(normal: Sequence[str]) -> tuple[str, str] | None:
    """The names of subject and object: usual ones, or such as from_doctor and to_doctor, with the same ending."""
    alike = [
        (name, f"{object_}{name.removeprefix(subject)}")
        for name in normal[: 10 * MAX_SHOWN_COLUMNS]
        for subject, object_ in PAIRS
        if len(subject) > 1 and name.startswith(f"{subject}_")
    ]
    return next((pair for pair in (*PAIRS, *alike) if normal.count(pair[0]) == normal.count(pair[1]) == 1), None)


def _used(names: Sequence[str], sample: Sample) -> list[int]:
    """The columns that may have a role: not those of a spreadsheet or a query service that say nothing of their own."""

    listed = set(names)

    def is_extra(place: int) -> bool:
        name, values = names[place] if names else "", sample[place]
        if name.strip() and not name.startswith("Unnamed: "):
            return any(name != end and name.endswith(end) and name.removesuffix(end) in listed for end in _WIKIDATA)
        numbers = [int(value) for value in values if value.isdecimal() and len(value) < 18]
        is_index = bool(names) and len(numbers) == len(values) and all(b - a == 1 for a, b in pairwise(numbers))
        return bool(values) and (is_index or not any(map(str.strip, values)))

    data = [place for place in range(len(sample)) if set(sample[place]) != {"{}"}]  # of edges, as networkx writes them
    used = [place for place in data if not is_extra(place)]
    if len(data) < len(sample):
        return used
    return used if len(used) > (1 if names else 2) else list(range(len(sample)))


def _named(names: Sequence[str], sample: Sample, where: str) -> Roles | None:
    """The roles where the names tell at least subject and object."""
    normal = [_normal(name) for name in names]
    pair = _pair(normal)
    if pair is None:
        return None
    subject, object_ = (normal.index(name) for name in pair)
    others = [place for place in range(len(names)) if place not in (subject, object_)]
    relations = [place for place in others if normal[place] in SYNONYMS["relation"]]
    directions = [
        place for place in relations if sample[place] and _DIRECTIONS.issuperset(map(str.lower, sample[place]))
    ]
    notes = []
    if any(value.lower() == "undirected" for place in directions for value in sample[place]):
        notes.append("undirected edges are read in the direction in which they are written")
    if directions:
        relations = [place for place in relations if place not in directions and any(map(str.strip, sample[place]))]
    numbers = [place for place in others if normal[place] in SYNONYMS["weight"] | SYNONYMS["count"]]
    if len({normal[place] in SYNONYMS["count"] for place in numbers}) > 1 and relations:
        shown = _some(" and ", [_short(names[place]) for place in numbers])
        chosen = ", ".join(_short(names[place]) for place in (subject, relations[0], object_, numbers[0]))
        raise DataError(f"{where}: columns {shown} hold weights and counts; choose one, as columns=({chosen}) does")
    if len(relations) > 1:
        shown = _some(" and ", [_short(names[place]) for place in relations])
        chosen = ", ".join(_short(names[place]) for place in (subject, relations[0], object_))
        raise DataError(f"{where}: columns {shown} may hold the relation; choose one, as columns=({chosen}) does")
    if relations:
        found = _roles(normal, (subject, relations[0], object_, *numbers[:1]))
        return found._replace(may_be_nodes="_start" in normal and "_id" in normal, notes=tuple(notes))
    rest = [place for place in others if place not in directions]
    if directions:  # of Gephi, with an Id of each edge
        rest = [place for place in rest if normal[place] not in ("id", "label", "timeset", "interval")]
    found = _of_pair(names, normal, subject, object_, rest, sample)
    return found._replace(notes=(*notes, *found.notes))


def _of_pair(
    names: Sequence[str], normal: Sequence[str], subject: int, object_: int, others: Sequence[int], sample: Sample
) -> Roles:
    """The roles where subject and object are known, and no name tells the relation."""
    numbers = [place for place in others if normal[place] in _NUMBERS]
    rest = [place for place in others if place not in numbers]
    if len(rest) == 1 and (_has_few_values(sample[rest[0]]) or _is_relation_between(names, rest[0], sample)):
        return _roles(normal, (subject, rest[0], object_, *numbers[:1]))
    note = ""
    if len(others) == 1 and not numbers and is_numeric(sample[others[0]]):
        numbers, rest = list(others), []
        note = (
            f"took column {names[others[0]]!r} as weights of an edge list; columns=({names[subject]!r}, "
            f"{names[object_]!r}) leaves them out, columns={{'subject': {names[subject]!r}, 'object': "
            f"{names[object_]!r}, 'count': {names[others[0]]!r}}} takes them as counts"
        )
    elif len(rest) == 1 and (reason := _reason_to_leave_out(sample[rest[0]])):
        chosen = ", ".join(repr(names[place]) for place in (subject, rest[0], object_))
        note = f"read as an edge list without column {_short(names[rest[0]])}, {reason}; columns=({chosen}) reads it "
        note += "as relations"
    elif rest:
        left_out = ", ".join(_short(names[place]) for place in rest[:MAX_SHOWN_COLUMNS])
        note = f"read as an edge list without columns {left_out}; columns=(…, …, …) chooses the one with the relation"
    return _roles(normal, (subject, object_, *numbers[:1]), EDGE_RELATION, (note,) if note else ())


def _roles(
    normal: Sequence[str], positions: Sequence[int], edge_relation: str | None = None, notes: tuple[str, ...] = ()
) -> Roles:
    roles = FACTS if edge_relation is None else (FACTS[0], *FACTS[2:])
    is_count = len(positions) == len(roles) and bool(normal) and normal[positions[-1]] in SYNONYMS["count"]
    named = (*roles[:-1], "count") if is_count else roles[: len(positions)]
    return Roles(named, tuple(positions), edge_relation, notes=notes)


def _has_few_values(values: Sequence[str]) -> bool:
    """Whether these may be relations: words, most of which occur more than once; some may be blank."""
    given = filled(values)
    return bool(given) and 2 * len(set(given)) <= max(len(given), 2 * MIN_ROWS) and kind_of(given) == "names"


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


def _by_position(names: Sequence[str], sample: Sample, title: Title, used: Sequence[int]) -> Roles:
    """Subject, relation, object and weight in this order, or an edge list; `names` may be empty.

    `used`: the positions of these columns in the table, for messages.
    """

    def chosen(*places: int) -> str:
        return f"columns=({', '.join(str(used[place]) for place in places)})"

    n_columns, normal = len(sample), [_normal(name) for name in names]
    if n_columns == 2:
        return _roles(normal, (0, 1), EDGE_RELATION)
    if n_columns == 4:
        _check_fourth(names, sample, title.where)
    elif n_columns != 3:
        message = f"{title.where}: expected 3 {title.what}, or 4 with a weight, or 2 of an edge list, got {n_columns}"
        shown = names or [values[0] for values in sample if values]
        if n_columns > 4:
            three = f"columns=({', '.join(map(_short, shown[:3]))})" if names else chosen(0, 1, 2)
            message += f"; choose with {three}, which takes the first three; {_listed(shown)}"
        elif not title.hint:
            message += "; choose with columns=(…, …, …)"
        raise DataError(message + title.hint)
    reason = _weighted_edges_evidence(normal, names, sample) if n_columns == 3 else None
    if reason:
        note = (
            f"read as an edge list with weights, because {reason}; relation='…' says so, {chosen(0, 1, 2)} reads facts"
        )
        return _roles(normal, (0, 1, 2), EDGE_RELATION, (note,))
    dates = [place for place, values in enumerate(sample) if are_dates(filled(values))] if n_columns == 3 else []
    found = _roles(normal, range(n_columns))
    if len(dates) == 1:
        ends = [place for place in range(3) if place != dates[0]]
        column = _short(names[dates[0]]) if names else used[dates[0]] + 1
        if dates[0] == 1 or _are_dated_edges(*(sample[place] for place in ends)):
            note = f"read as an edge list without column {column}, {_reason_to_leave_out(sample[dates[0]])}; "
            note += f"{chosen(*ends)} says so, {chosen(0, 1, 2)} reads facts"
            return _roles(normal, ends, EDGE_RELATION, (note,))
        note = f"column {column} holds dates, which are read as entities; {chosen(*ends)} reads an edge list without "
        note += f"them, {chosen(0, 1, 2)} says that they are entities"
        return found._replace(notes=(note,), dates=dates[0])
    notes = []
    if odd := _odd_relations(sample):
        edges = f" {chosen(0, 1)} reads an edge list, {chosen(0, 2, 1)} takes column 3 as the relation,"
        notes.append(f"{odd}; if these are entities,{edges if n_columns == 3 else ''} columns=(…, …, …) chooses others")
    if n_columns == 4 and names and normal[3] not in _NUMBERS:
        notes.append(f"took column {names[3]!r} as weights; {chosen(0, 1, 2)} leaves them out")
    return found._replace(notes=tuple(notes))


def _check_fourth(names: Sequence[str], sample: Sample, where: str) -> None:
    """Raise if a fourth column cannot be the weight; beside numbers, the row that holds none is an error."""
    shown = [value[:60] for value in sample[3]]
    is_weight = bool(names) and _normal(names[3]) in SYNONYMS["weight"] | SYNONYMS["count"]
    if is_weight or any(map(_may_be_number, shown)) or not (shown or names):
        return
    others = [_short(value) for value in shown if not is_number(value)][:2]
    held = f"{', '.join(others)}, not numbers" if others else "no values"
    raise DataError(
        f"{where}: the fourth column is no weight: it holds {held}; columns=(0, 1, 2) leaves it out; "
        f"{_listed(names or [values[0] for values in sample])}"
    )


def _may_be_number(value: str) -> bool:
    return is_number(value) or value.strip().lower().lstrip("+-") in ("nan", "inf")


def _title_of(names: Sequence[str], position: int) -> str:
    """The name of a column in quotes, or its number."""
    return _short(names[position]) if names else str(position + 1)


def _weighted_edges_evidence(normal: Sequence[str], names: Sequence[str], sample: Sample) -> str | None:
    """Why three columns without usual names of subject and object are subject, object and weight."""
    first, second, third = sample
    if not is_numeric(third):
        return None
    if names and len(names[2]) > 1 and normal[2] in _NUMBERS:
        return f"column {names[2]!r} holds numbers"
    ids = {*first, *second}
    if not ids.isdisjoint(third) or not _are_nodes(first, second):
        return None
    if all(map(str.isdecimal, ids)) and all(value.strip().isdecimal() for value in third):
        return None  # ids of subjects, relations and objects
    return "column 3 holds numbers and column 2 holds names like those of column 1"


def _are_dated_edges(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two columns beside one of dates are entities, not subject and relation as in `Ann,born,1961-05-30`."""
    n_first, n_second = len(set(first)), len(set(second))
    return (
        _are_nodes(first, second)
        or MIN_ROWS <= len(second) == n_second
        or (n_second >= MIN_ROWS_FOR_DISTINCT and 2 * n_second >= n_first)
    )


def _odd_relations(sample: Sample) -> str | None:
    """Why the second column, read as relations, may hold entities."""
    first, second, third = sample[:3]
    distinct, n_rows = len(set(second)), len(second)
    n_entities = max(len(set(first)), len(set(third)))
    is_as_varied = 4 * distinct >= n_rows and n_entities <= 2 * distinct <= 3 * n_entities
    if n_rows >= MIN_ROWS_FOR_DISTINCT and (2 * distinct > n_rows or is_as_varied):
        return f"column 2, read as relations, has {distinct:,} different values in the first {n_rows:,} rows"
    ids = {*first, *second}
    if n_rows < MIN_ROWS or not ids.isdisjoint(third) or not _has_few_values(third):
        return None
    is_like_first = 2 * len(set(first) & set(second)) >= distinct
    return "column 2, read as relations, holds names that column 1 holds, too" if is_like_first else None


def _are_nodes(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the second column holds entities like the first, not relations."""
    distinct = set(second)
    shared = len(distinct & set(first))
    return (len(distinct) > 1 and 2 * shared >= len(distinct)) or (
        len(second) >= MIN_ROWS_FOR_DISTINCT and 2 * len(distinct) > len(second)
    )


def _as_edges(roles: Roles, relation: str | None, where: str, n_columns: int) -> Roles:
    """The roles, with the relation that the caller gave to the rows of an edge list."""
    if relation is None:
        return roles
    if roles.edge_relation is not None:
        return roles._replace(edge_relation=relation, notes=())
    if roles.dates is not None:
        ends = tuple(place for place in roles.positions if place != roles.dates)
        return Roles(("subject", "object"), ends, relation)
    if roles.positions == (0, 1, 2) and n_columns == 3:
        return Roles(("subject", "object", "weight"), (0, 1, 2), relation)
    raise DataError(
        f"{where}: relation={relation!r} names the relation of an edge list, but a column holds relations; leave it "
        "out, or choose the columns of subject and object with columns=(…, …)"
    )


def are_many_blanks(n_blank: int, n_rows: int) -> bool:
    """Whether so many rows are blank that the choice of the column is in doubt."""
    return n_blank >= max(MIN_BLANKS, MIN_SHARE_OF_BLANKS * n_rows)


def with_notation(roles: Roles, names: Sequence[str], sample: Sample, where: str, *, may_be_blank: bool) -> Roles:
    """The roles, with the notation of the numbers in the first values of the column of weights or counts."""
    if len(roles.positions) == roles.n_names:
        return roles
    position = roles.positions[-1]
    values = filled(sample[position])
    if not is_numeric(values):
        return roles  # the row that is wrong is an error
    column = _title_of(names, position)
    others = ", ".join(repr(names[place]) if names else str(place) for place in roles.positions[:-1])
    without = f"columns=({others}) leaves the column out"
    cells = [cell for cell, subject in zip(sample[position], sample[roles.positions[0]], strict=True) if subject]
    n_blank = len(cells) - len(filled(cells))
    if are_many_blanks(n_blank, len(cells)) and not may_be_blank:
        raise DataError(
            f"{where}: column {column}, the {roles.names[-1]}, is blank in {n_blank:,} of the first {len(cells):,} "
            f"rows; {without}, skip_bad_rows=True skips such rows"
        )
    try:
        notation = notation_of(values)
    except NotationError as problem:
        raise DataError(f"{where}: column {column}: {problem}; write them with decimal points; {without}") from None
    if notation is PLAIN:
        return roles
    note = f"the numbers of column {column} have {notation.title}: {values[0]!r} is {notation.number(values[0]):g}"
    return roles._replace(notation=notation, notes=(*roles.notes, note))


# --- other tables


def other_roles(
    names: Sequence[str],
    first: Sequence[str],
    wanted: Sequence[str],
    columns: Columns | None,
    relation: str | None,
    where: str,
) -> Roles:
    """The roles of the columns of questions (two of subject, relation and object), of pairs and of reviews.

    `first` is the first row, or the names.
    """
    n_columns = len(first)
    found = named_roles(names, wanted)
    if columns is not None:
        found = {
            role: position_of(names, column, where, n_columns) for role, column in columns.items() if role in wanted
        }
    elif wanted == REVIEW:
        for role in REVIEW:
            if role not in found:
                shown = ", ".join(REVIEW)
                raise DataError(f"{where} has no column {role!r}; a reviewed file is CSV with the columns {shown}")
    elif "id" in wanted:
        if len(found) < 2 and n_columns != 2:
            raise DataError(
                f"{where}: expected two columns, id and {wanted[1]}, got {n_columns}; more columns need a header with "
                f"the names id and {wanted[1]}"
            )
        found = found if len(found) == 2 else {"id": 0, wanted[1]: 1}
    elif len(found) < 2 and relation is not None and n_columns == 2:
        found = {"subject": 0, "object": 1}
    elif len(found) < 2:
        if n_columns != 3:
            shown = ", ".join(map(_short, first[:MAX_SHOWN_COLUMNS])) or "none"
            message = "expected columns named subject, relation and object, or two of them, got"
            raise DataError(f"{where}: {message} {shown}")
        found = dict(zip(wanted, range(3), strict=True))
    roles = tuple(role for role in wanted if role in found)
    return Roles(roles, tuple(found[role] for role in roles), None if "relation" in found else relation)
