"""Reviewed facts: a CSV file with the columns subject, relation, object and verdict, one line per decision."""

from __future__ import annotations

import csv
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..atomic_write import check_writable, replacing
from ..csv_rows import csv_writer
from ..errors import DataError, InputError
from .cell_keys import cell_keys, is_in_sorted
from .facts import Facts
from .facts_union import union

ACCEPTED, REJECTED = "accepted", "rejected"
COLUMNS = ("subject", "relation", "object", "verdict")
NamedCell = tuple[str, str, str]  # subject, relation, object


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
        verdicts |= _read(Path(path))
    return Review.of(verdicts)


class ReviewFile:
    """A review that grows by one decision at a time; the file is complete after each.

    The file is read again before each decision, so that what others wrote into it is kept.
    """

    def __init__(self, path: str | Path):
        self.path, self._lock = Path(path), threading.Lock()
        check_writable(self.path)
        self.verdicts = self._stored()

    def decide(self, cell: NamedCell, verdict: str | None) -> None:
        """Write down a decision; None takes it back."""
        with self._lock:
            verdicts = {key: value for key, value in self._stored().items() if key != cell}
            if verdict is not None:
                verdicts[cell] = verdict
            self._write(verdicts)
            self.verdicts = verdicts

    def _write(self, verdicts: dict[NamedCell, str]) -> None:
        try:
            with replacing(self.path) as part, part.open("w", encoding="utf-8", newline="") as file:
                rows = csv_writer(file)
                rows.writerow(COLUMNS)
                rows.writerows((*key, value) for key, value in verdicts.items())
        except OSError as error:
            raise InputError(f"{self.path} could not be written: {error.strerror or error}; try again") from error

    def _stored(self) -> dict[NamedCell, str]:
        return _read(self.path, may_have_more=False) if self.path.exists() else {}


def _read(path: Path, *, may_have_more: bool = True) -> dict[NamedCell, str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True)
            if not may_have_more and (more := set(rows.fieldnames or ()) - set(COLUMNS)):
                raise DataError(
                    f"{path} has a column {min(more)!r:.80}, which would be lost; give a file without further columns"
                )
            if lacking := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                wanted = ", ".join(COLUMNS)
                raise DataError(
                    f"{path} has no column {lacking[0]!r}; a reviewed file is CSV with the columns {wanted}"
                )
            return {_cell(row): _verdict(row, path, rows.line_num) for row in rows}
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}; give a reviewed file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file in UTF-8: {error}; give a reviewed file") from error


def _cell(row: dict[str, str]) -> NamedCell:
    return row["subject"] or "", row["relation"] or "", row["object"] or ""


def _verdict(row: dict[str, str], path: Path, line: int) -> str:
    if row["verdict"] not in (ACCEPTED, REJECTED) or not all(_cell(row)):
        given = ",".join(row[name] or "" for name in COLUMNS)
        raise DataError(
            f"{path}, line {line}: expected a fact and {ACCEPTED} or {REJECTED}, got {given!r}; mend the line"
        )
    return row["verdict"]


def _no_facts() -> Facts:
    return Facts.from_arrays([], [], [], entity_names=[], relation_names=[])
