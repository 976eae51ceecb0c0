"""How a source is to be read, and how the reader understood it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...errors import DataError
from ...progress import Progress, silent
from .columns import ColumnRoles, Columns, checked_columns

N_SAMPLE_ROWS = 1000  # of a source, to find out what its columns hold
N_SHOWN_ROWS = 3
SKIPPING = "skip_bad_rows=True skips such rows"  # the remedy in messages
SEPARATOR_NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar", " ": "space"}


class FirstRow(NamedTuple):
    """The first row of a file, read as a fact, that may be a header."""

    fields: list[str]
    names: list[str]  # subject, relation and object, or subject and object
    roles: ColumnRoles
    below: list[list[str]]  # the next rows, to be shown
    is_like_codes: bool  # it has ids or codes where the other rows have them


@dataclass
class Reading:
    """The choices of the caller, and what the reader found out by itself."""

    columns: Columns | None = None  # role → column
    header: bool | None = None
    sep: str | None = None
    relation: str | None = None  # of an edge list
    encoding: str | None = None
    strip: bool = True
    language: str | None = None  # of labels in RDF
    attributes: bool = False  # literals and extra columns are attributes
    skip_bad_rows: bool = False  # in place of an error
    report: Progress = silent
    understood: dict[str, Any] = field(default_factory=dict)
    role_columns: dict[str, str] = field(default_factory=dict)  # of a table with column names: the column of each role
    column_names: list[str] = field(default_factory=list)  # empty if there are none
    is_pandas: bool = False  # missing names may be names that pandas takes for missing values
    notes: list[str] = field(default_factory=list)  # decisions that the caller may want to change
    n_stripped: int = 0  # names that had blanks around them
    n_without_names: int = 0  # rows with neither subject, relation nor object
    nodes_without_names: bool = False  # these rows are nodes
    n_skipped: int = 0  # bad rows
    first_skipped: str = ""  # its place, and what is wrong with it
    max_skipped_lines: int = 1  # of a text file, to be listed
    skipped_lines: list[int] = field(default_factory=list)
    first_row: FirstRow | None = None  # of a file of which each worker reads a part: what may be a header

    @classmethod
    def of(
        cls,
        *,
        columns: Sequence[str | int] | Mapping[str, str | int] | None = None,
        header: bool | None = None,
        sep: str | None = None,
        relation: str | None = None,
        encoding: str | None = None,
        strip: bool = True,
        language: str | None = None,
        attributes: bool = False,
        skip_bad_rows: bool = False,
        report: Progress = silent,
    ) -> Reading:
        """The choices after a check."""
        if sep is not None and (not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n' or not sep.isascii()):
            raise DataError(f"sep must be one ASCII character, such as ';', got {sep!r}")
        if relation is not None and (not isinstance(relation, str) or not relation.strip()):
            raise DataError(f"relation must be the name of the relation of an edge list, got {relation!r}")
        if encoding is not None:
            _check_encoding(encoding)
        choices = (checked_columns(columns), header, sep, relation, encoding, strip, language, attributes)
        return cls(*choices, skip_bad_rows, report)

    def set_roles(self, roles: ColumnRoles, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Note which columns have which roles, and the first rows."""
        if roles.note:
            self.notes.append(roles.note)
        for role, position in zip(roles.names, roles.positions, strict=True):
            self.understood[role] = f"column {names[position]!r}" if names else f"column {position + 1}"
            if names:
                self.role_columns[role] = names[position]
        self.column_names = list(names)
        if roles.edge_relation is not None:
            self.understood["relation"] = f"{roles.edge_relation!r} for every row (an edge list)"
        self.understood["first_rows"] = [[row[position] for position in roles.positions] for row in rows[:N_SHOWN_ROWS]]

    def all_notes(self, where: str) -> list[str]:
        """What the caller should know, each with the name of the source."""
        found = list(self.notes)
        if n := self.n_without_names:
            what = "that are nodes, not relationships" if self.nodes_without_names else "without any name"
            found.append(f"left out {n:,} row{'s' * (n > 1)} {what}")
        if self.n_skipped:
            found.append(
                f"skipped {self.n_skipped:,} bad row{'s' * (self.n_skipped > 1)}; the first: {self.first_skipped}"
            )
        if self.n_stripped:
            found.append(f"removed the blanks around {self.n_stripped:,} names; strip=False keeps them")
        return [f"{where}: {note}" if where else note for note in found]


def _check_encoding(encoding: str) -> None:
    try:
        b"a".decode(encoding)
    except UnicodeError:  # it exists, but one byte is no text
        return
    except (LookupError, TypeError):
        raise DataError(f"unknown encoding {encoding!r}; use utf-8, latin-1, cp1252, utf-16, …") from None
