"""What the first values of columns without usual names tell about their roles.

Three columns without a header are facts. Only strong evidence changes that: numbers as names of entities are common
(`u1 likes 5`, `1,2,3`), so a column of numbers alone proves nothing. Dates are no names of entities or relations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from .value_kinds import are_dates, filled, is_number, is_numeric, kind_of

Sample: TypeAlias = Sequence[Sequence[str]]  # the first values of each column

MIN_ROWS = 3  # below a first row, to judge whether it is a header
MIN_ROWS_FOR_DISTINCT = 20  # to judge a column by how few of its values repeat
_ID_SIGN = re.compile(r"[\d/:#]")  # in ids and IRIs, hardly ever in names of columns


def has_few_values(values: Sequence[str]) -> bool:
    """Whether these may be relations: words, most of which occur more than once; some may be blank."""
    given = filled(values)
    return bool(given) and 2 * len(set(given)) <= max(len(given), 2 * MIN_ROWS) and kind_of(given) == "names"


def weighted_edges_evidence(sample: Sample) -> str | None:
    """Why three columns without usual names are subject, object and weight; None if they are facts."""
    first, second, third = sample
    ids = {*first, *second}
    if not is_numeric(third) or not ids.isdisjoint(third) or not _are_nodes(first, second):
        return None
    if all(map(str.isdecimal, ids)) and all(value.strip().isdecimal() for value in third):
        return None  # ids of subjects, relations and objects
    return "column 3 holds numbers and column 2 holds names like those of column 1"


def date_column(sample: Sample) -> int | None:
    """The one of three columns that holds dates, if the other two do not."""
    found = [position for position, values in enumerate(sample) if are_dates(filled(values))]
    return found[0] if len(found) == 1 else None


def are_dated_edges(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two columns beside one of dates are entities, not subject and relation as in `Ann,born,1961-05-30`."""
    n_first, n_second = len(set(first)), len(set(second))
    return (
        _are_nodes(first, second)
        or MIN_ROWS <= len(second) == n_second
        or (n_second >= MIN_ROWS_FOR_DISTINCT and 2 * n_second >= n_first)
    )


def odd_relations(sample: Sample) -> str | None:
    """Why the second column, read as relations, may hold entities."""
    first, second, third = sample[:3]
    distinct, n_rows = len(set(second)), len(second)
    n_entities = max(len(set(first)), len(set(third)))
    is_as_varied = 4 * distinct >= n_rows and n_entities <= 2 * distinct <= 3 * n_entities
    if n_rows >= MIN_ROWS_FOR_DISTINCT and (2 * distinct > n_rows or is_as_varied):
        return f"column 2, read as relations, has {distinct:,} different values in the first {n_rows:,} rows"
    ids = {*first, *second}
    if n_rows < MIN_ROWS or not ids.isdisjoint(third) or not has_few_values(third):
        return None
    is_like_first = 2 * len(set(first) & set(second)) >= distinct
    return "column 2, read as relations, holds names that column 1 holds, too" if is_like_first else None


def header_evidence(first_row: Sequence[str], sample: Sample) -> str | None:
    """Why a first row without usual names must be a header: it has only words, and a column below it no words."""
    if len(sample[0]) < MIN_ROWS or not _are_words(first_row) or occurs_again(first_row, sample):
        return None
    for position, values in enumerate(map(filled, sample)):
        if len(values) >= MIN_ROWS and (is_numeric(values) or are_dates(values)):
            return f"column {position + 1} holds {kind_of(values)} below it"
    return None


def _are_words(row: Sequence[str]) -> bool:
    return not any(is_number(value) or are_dates([value]) for value in row)


def may_be_header(first_row: Sequence[str], sample: Sample) -> bool:
    """Whether a first row of three values is suspicious: other rows share their relations, none shares its values."""
    n_rows = len(sample[0])
    if n_rows < MIN_ROWS or not _are_words(first_row) or occurs_again(first_row, sample):
        return False
    return len(set(sample[1])) < n_rows if len(sample) > 2 else len({*sample[0], *sample[1]}) < 2 * n_rows


def is_like_codes(row: Sequence[str], sample: Sample) -> bool:
    """Whether a row has the form of the rows below it: ids or IRIs, or codes of the same lengths."""
    if any(
        _ID_SIGN.search(value) and any(map(_ID_SIGN.search, below)) for value, below in zip(row, sample, strict=True)
    ):
        return True
    return all({len(row[end])} == set(map(len, sample[end])) for end in (0, -1))


def occurs_again(first_row: Sequence[str], sample: Sample) -> bool:
    """Whether a value of the first row occurs in any column below it."""
    wanted = set(first_row)
    return any(not wanted.isdisjoint(values) for values in sample)


def _are_nodes(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the second column holds entities like the first, not relations."""
    distinct = set(second)
    shared = len(distinct & set(first))
    return (len(distinct) > 1 and 2 * shared >= len(distinct)) or (
        len(second) >= MIN_ROWS_FOR_DISTINCT and 2 * len(distinct) > len(second)
    )
