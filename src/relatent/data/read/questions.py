"""Rows of subject, relation and object of which some may be empty, in the order of a file and block by block."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

from .encode import to_strings
from .files import named
from .reading import Reading
from .roles import QUESTION, other_roles
from .sources import open_table

Row = tuple[str | None, str | None, str | None]


def question_blocks(source: str | Path, reading: Reading) -> Iterator[list[Row]]:
    """Blocks of rows of a table; empty values are None.

    Columns are found by their names; one of them may be missing. Without such names there are three, in this order.
    """
    table = open_table(source, reading, QUESTION)
    first = table.names or [values[0] for values in table.sample if values]
    roles = table.roles or other_roles(table.names, first, QUESTION, reading.columns, reading.relation, table.where)
    for block in named(table.columns(roles.positions, len(roles.positions)), table.source):
        found = {}
        for column, role in zip(block, roles.names, strict=True):
            texts = to_strings(column, role, table.source).to_pylist()
            found[role] = [(text or "").strip() or None for text in texts]
        if roles.edge_relation is not None:
            found["relation"] = [roles.edge_relation] * len(block[0])
        yield list(zip(*(found.get(role, repeat(None, len(block[0]))) for role in QUESTION), strict=True))
