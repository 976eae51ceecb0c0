"""What the first values of columns without usual names tell about their roles.

Three columns without a header are facts. Only strong evidence changes that: numbers as names of entities are common
(`u1 likes 5`, `1,2,3`), so a column of numbers alone proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

Sample: TypeAlias = Sequence[Sequence[str]]  # the first values of each column

MIN_ROWS = 3  # below a first row, to judge whether it is a header
MIN_ROWS_FOR_DISTINCT = 20  # to judge a column by how few of its values repeat
_ID_SIGN = re.compile(r"[\d/:#]")  # in ids and IRIs, hardly ever in names of columns
NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_NUMBER = re.compile(rf"\s*{NUMBER}\s*")
ANY_NUMBER = re.compile(rf"\s*({NUMBER}|[-+]?nan|[-+]?inf)\s*", re.IGNORECASE)


def is_numeric(values: Sequence[str]) -> bool:
    """Whether there are values, and all are decimal numbers."""
    return bool(values) and all(map(_NUMBER.fullmatch, values))


def has_few_values(values: Sequence[str]) -> bool:
    """Whether these may be relations: words, most of which occur more than once."""
    return bool(values) and not is_numeric(values) and 2 * len(set(values)) <= max(len(values), 2 * MIN_ROWS)


def weighted_edges_evidence(sample: Sample) -> str | None:
    """Why three columns without usual names are subject, object and weight; None if they are facts."""
    first, second, third = sample
    ids = {*first, *second}
    if not is_numeric(third) or not ids.isdisjoint(third) or not _are_nodes(first, second):
        return None
    if all(map(str.isdecimal, ids)) and all(value.strip().isdecimal() for value in third):
        return None  # ids of subjects, relations and objects
    return "column 3 holds numbers and column 2 holds names like those of column 1"


def odd_relations(sample: Sample) -> str | None:
    """Why the second column, read as relations, may hold entities."""
    first, second, third = sample[:3]
    distinct = len(set(second))
    if len(second) >= MIN_ROWS_FOR_DISTINCT and 2 * distinct > len(second):
        return f"column 2, read as relations, has {distinct:,} different values in the first {len(second):,} rows"
    ids = {*first, *second}
    if all(map(str.isdecimal, ids)) or len(first) < MIN_ROWS or not ids.isdisjoint(third) or not has_few_values(third):
        return None
    is_like_first = 2 * len(set(first) & set(second)) >= distinct
    return "column 2, read as relations, holds names that column 1 holds, too" if is_like_first else None


def header_evidence(first_row: Sequence[str], sample: Sample) -> str | None:
    """Why a first row without usual names must be a header: it has no number, and a column below it only numbers."""
    if len(sample[0]) < MIN_ROWS or any(map(_NUMBER.fullmatch, first_row)) or occurs_again(first_row, sample):
        return None
    numeric = next((position for position, values in enumerate(sample) if is_numeric(values)), None)
    return None if numeric is None else f"column {numeric + 1} holds numbers below it"


def may_be_header(first_row: Sequence[str], sample: Sample) -> bool:
    """Whether a first row of three values is suspicious: other rows share their relations, none shares its values."""
    n_rows = len(sample[0])
    if n_rows < MIN_ROWS or any(map(_NUMBER.fullmatch, first_row)) or occurs_again(first_row, sample):
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
