"""Reviewed facts: a CSV file with the columns subject, relation, object and verdict, one line per decision."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..atomic_write import check_writable, replacing
from ..csv_rows import csv_writer
from ..errors import DataError, DataWarning, InputError
from ..file_lock import locked
from .cell_keys import cell_keys, is_in_sorted
from .facts import Facts
from .facts_union import union
from .read.files import FORMATS, identify, named
from .read.reading import MENDING, Reading
from .read.roles import REVIEW as COLUMNS
from .read.roles import other_roles
from .read.sources import open_file

ACCEPTED, REJECTED = "accepted", "rejected"
NamedCell = tuple[str, str, str]  # subject, relation, object
WAIT_SECONDS = 5.0  # for another server that writes into the same file


class Review(NamedTuple):
    """Facts that a person found to be true, and cells found to be false."""

    accepted: Facts
    rejected: Facts

    @classmethod
    def of(cls, verdicts: dict[NamedCell, str]) -> Review:
        """The review with these verdicts."""
        chosen = ([cell for cell, given in verdicts.items() if given == kind] for kind in (ACCEPTED, REJECTED))
        return cls(*(Facts.from_arrays(*zip(*cells, strict=True)) if cells else _no_facts() for cells in chosen))

    def apply(self, facts: Facts) -> Facts:
        """The facts with the accepted ones, and without the rejected ones, which are false and not unobserved."""
        facts = union([facts, self.accepted]) if len(self.accepted) else facts
        rejected = self.rejected.over(facts.entities, facts.relations)
        false = rejected.with_undirected(facts.undirected).triples
        if not len(false):
            return facts
        rest = facts.hold_out(false, masked=False)
        keys = np.sort(cell_keys(false, facts.n_entities))
        kept = ~is_in_sorted(cell_keys(rest.unobserved, facts.n_entities), keys)
        return replace(rest, unobserved=np.asfortranarray(rest.unobserved[kept]))


def read_review(paths: str | Path | Sequence[str | Path]) -> Review:
    """The decisions of one or several files; of several about one fact, the last one counts."""
    verdicts: dict[NamedCell, str] = {}
    for path in [paths] if isinstance(paths, (str, Path)) else paths:
        found = _read(Path(path))
        _warn_of_changes(path, sum(verdicts.get(cell, verdict) != verdict for cell, verdict in found.items()))
        verdicts |= found
    return Review.of(verdicts)


class ReviewFile:
    """A review that grows by one decision at a time; the file is complete after each.

    The file is locked and read again for each decision, so that what others, such as a second server, wrote into it is
    kept.
    """

    def __init__(self, path: str | Path):
        self.path, self._lock = Path(path), threading.Lock()
        check_writable(self.path)
        self.verdicts = self._stored()

    def decide(self, cell: NamedCell, verdict: str | None) -> None:
        """Write down a decision; None takes it back."""
        try:
            with self._lock, locked(self.path, WAIT_SECONDS):
                verdicts = {key: value for key, value in self._stored().items() if key != cell}
                if verdict is not None:
                    verdicts[cell] = verdict
                self._write(verdicts)
                self.verdicts = verdicts
        except OSError as error:
            raise InputError(f"{self.path} could not be written: {error.strerror or error}; try again") from error

    def _write(self, verdicts: dict[NamedCell, str]) -> None:
        with replacing(self.path) as part, part.open("w", encoding="utf-8", newline="") as file:
            rows = csv_writer(file)
            rows.writerow(COLUMNS)
            rows.writerows((*key, value) for key, value in verdicts.items())

    def _stored(self) -> dict[NamedCell, str]:
        return _read(self.path, may_have_more=False) if self.path.exists() else {}


def _read(path: Path, *, may_have_more: bool = True) -> dict[NamedCell, str]:
    """The decisions of a table with these columns; of several in it about one fact, the last one counts."""
    file = identify(path, "csv" if path.suffix not in FORMATS else None)
    table = open_file(file, Reading(strip=False, bad_rows=MENDING, wanted=COLUMNS))
    if not may_have_more and (more := set(table.names) - set(COLUMNS)):
        raise DataError(
            f"{path} has a column {min(more)!r:.80}, which would be lost; give a file without further columns"
        )
    roles = other_roles(table.names, table.names, COLUMNS, None, None, str(path))
    verdicts: dict[NamedCell, str] = {}
    n_changed = 0
    for number, (*cell, verdict) in enumerate(named(table.values(roles.positions), path)):
        if verdict not in (ACCEPTED, REJECTED) or not all(isinstance(name, str) and name for name in cell):
            given = ",".join(str(value or "") for value in (*cell, verdict))
            wanted = f"a fact and {ACCEPTED} or {REJECTED}"
            raise DataError(f"{table.place(number)}: expected {wanted}, got {given!r:.300}; mend the line")
        subject, relation, object_ = cell
        n_changed += verdicts.setdefault((subject, relation, object_), verdict) != verdict
        verdicts[subject, relation, object_] = verdict
    _warn_of_changes(path, n_changed)
    return verdicts


def _warn_of_changes(path: str | Path, n_changed: int) -> None:
    if n_changed:
        message = f"{path}: {n_changed:,} decisions contradict one before them; the last one about each fact counts"
        warnings.warn(message, DataWarning, stacklevel=4)


def _no_facts() -> Facts:
    return Facts.from_arrays([], [], [], entity_names=[], relation_names=[])
