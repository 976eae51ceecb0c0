"""How a source is to be read, and how it was understood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import DataError
from ...progress import Progress, silent
from .files import WHOLE, FilePart, check_encoding
from .roles import FACTS, Columns, Roles, checked_columns

N_SHOWN_ROWS = 3
SKIPPING = "skip_bad_rows=True skips such rows"  # the remedy in messages
MENDING = "mend the row"  # where no option skips it


@dataclass
class Reading:
    """The choices of the caller, and what the readers found out by themselves."""

    columns: Columns | None = None  # role → column
    header: bool | None = None
    sep: str | None = None
    relation: str | None = None  # of an edge list
    encoding: str | None = None
    strip: bool = True
    language: str | None = None  # of labels in RDF
    attributes: bool = False  # literals and extra columns are attributes
    skip_bad_rows: bool = False  # in place of an error
    format: str | None = None
    sql: str | None = None
    wanted: tuple[str, ...] = FACTS  # the roles of the columns
    part: FilePart = WHOLE  # of a TSV, CSV or Parquet file
    headers: dict[tuple[str, ...], Roles] = field(default_factory=dict)  # of the files of one call
    remedy_of_missing: str = ""  # that a library may have made
    report: Progress = silent
    understood: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # decisions that the caller may want to change
    lints: list[str] = field(default_factory=list)  # what is odd, but was read as it is
    n_stripped: int = 0  # names that had blanks around them
    n_without_names: int = 0  # rows with neither subject, relation nor object
    nodes_without_names: bool = False  # these rows are nodes
    n_skipped: int = 0  # bad rows
    first_skipped: str = ""  # its place, and what is wrong with it
    bad_rows: str = SKIPPING  # what to do about them, in messages
    max_skipped_lines: int = 1  # of a text file, to be listed
    skipped_lines: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, *, columns: Any = None, attributes: Any = False, **choices: Any) -> Reading:
        """The choices after a check; they are arguments of `relatent.read`."""
        found = cls(columns=checked_columns(columns), attributes=attributes is True, **choices)
        sep, relation = found.sep, found.relation
        if sep is not None and (not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n' or not sep.isascii()):
            raise DataError(f"sep must be one ASCII character, such as ';', got {sep!r}")
        if relation is not None and (not isinstance(relation, str) or not relation.strip()):
            raise DataError(f"relation must be the name of the relation of an edge list, got {relation!r}")
        if found.encoding is not None:
            check_encoding(found.encoding)
        return found

    def understand(self, roles: Roles, names: Sequence[str], sample: Sequence[Sequence[str]]) -> None:
        """Note which columns have which roles, and the first rows."""
        self.notes.extend(filter(None, ["; ".join(roles.notes)]))
        for role, position in zip(roles.names, roles.positions, strict=True):
            self.understood[role] = f"column {names[position]!r}" if names else f"column {position + 1}"
        if roles.edge_relation is not None:
            self.understood["relation"] = f"{roles.edge_relation!r} for every row (an edge list)"
        shown = (sample[position][:N_SHOWN_ROWS] for position in roles.positions)
        self.understood["first_rows"] = [list(row) for row in zip(*shown, strict=True)]

    def all_notes(self, where: str) -> list[str]:
        """What the caller should know, each decision in one line and all lints in one, with the name of the source."""
        found, lints = list(self.notes), list(self.lints)
        if n := self.n_without_names:
            what = "that are nodes, not relationships" if self.nodes_without_names else "without any name"
            found.append(f"left out {n:,} row{'s' * (n > 1)} {what}")
        if n := self.n_skipped:
            first = f"; the first: {self.first_skipped}" if self.first_skipped else ""
            found.append(f"skipped {n:,} bad row{'s' * (n > 1)}{first}")
        if self.n_stripped:
            lints.insert(0, f"removed the blanks around {self.n_stripped:,} names; strip=False keeps them")
        found.extend(["; ".join(lints)] if lints and where else lints)
        return [f"{where}: {note}" if where else note for note in found]
