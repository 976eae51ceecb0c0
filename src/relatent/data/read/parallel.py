"""One file read by several workers: each parses its part, names get the numbers that one alone would give them."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...distributed.workers import Workers
from ...errors import DataError
from ...progress import Progress
from ..facts import Facts
from ..names import Names
from ..shard import move_to_owners
from . import delimited as alone
from .files import File, Part, byte_order_mark, identify, line_cut
from .rdf import read_rdf, tell_of_literals
from .string_table import Interner, Spans


def read_together(
    source: Any, columns: Sequence[str] | None, header: bool | None, report: Progress, workers: Workers
) -> Facts:
    """This worker's facts: those of the subjects it owns, over the vocabulary of all."""
    with workers.raise_together():
        if not isinstance(source, (str, os.PathLike)):
            raise DataError("workers read files; a table is given to fit as it is, each worker its own rows")
        file = identify(Path(source))
        if columns is not None and file.kind in ("nt", "ttl"):
            read_rdf(file, columns, report)  # says that there are none
    report = report if workers.rank == 0 else _silent
    part = Part(workers.rank, workers.size)
    own: Facts | None = None
    if not workers.any(not _can_be_cut(file, part)):
        own = _read_part(file, columns, header, report, part, workers)
    if own is None:
        own = _read_by_first(file, columns, header, report, workers)
    entities, relations = (_merged(names, workers) for names in (own.entities, own.relations))
    facts = own.over(entities, relations)
    if not workers.any(len(facts) > 0):
        raise DataError(f"{file.path}: holds no facts")
    with workers.raise_together():
        workers.entity_range(len(entities))  # refused here, before anything is sent
    return move_to_owners(facts, workers)


def _can_be_cut(file: File, part: Part) -> bool:
    """Whether a line is a row; quotes in a CSV file may hold line breaks."""
    if file.codec or file.kind == "ttl":
        return False
    if file.kind != "csv" or not file.size:
        return True
    with open(file.path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
        low, high = (len(text) * number // part.of for number in (part.number, part.number + 1))
        return text.find(b'"', low, high) < 0


def _read_part(
    file: File, columns: Sequence[str] | None, header: bool | None, report: Progress, part: Part, workers: Workers
) -> Facts | None:
    """The facts of a part of the file; None where pyoxigraph has to read the whole of it."""
    if file.kind == "nt":
        return _scan_part(file, report, part, workers)
    with workers.raise_together(), alone.readable(file):
        if file.kind == "parquet":
            facts = alone.read_parquet(file, columns, report, part)
        else:
            facts = alone.read_text(file, columns, header, report, part)
    return facts


def _scan_part(file: File, report: Progress, part: Part, workers: Workers) -> Facts | None:
    from .ntriples import OddError, scan

    gathering, literals = None, 0
    with workers.raise_together(), alone.readable(file):
        own = file._replace(cut=line_cut(file, byte_order_mark(file), part))
        try:
            gathering, literals = scan(own, report)
        except OddError:
            gathering = None
    if workers.any(gathering is None):
        return None
    assert gathering is not None
    literals, nothing_else = workers.sum_int(literals), not workers.any(gathering.n_facts > 0)
    if nothing_else or workers.rank == 0:  # refused by all, told by one
        tell_of_literals(file, literals, nothing_else)
    return gathering.facts(some_unused=True)


def _read_by_first(
    file: File, columns: Sequence[str] | None, header: bool | None, report: Progress, workers: Workers
) -> Facts:
    """All facts for the first worker, none for the others."""
    facts = Facts.from_arrays([], [], [], entity_names=(), relation_names=())
    with workers.raise_together():
        if workers.rank == 0:
            facts = alone.read(file.path, columns=columns, header=header, progress=report)
    return facts


def _merged(names: Names, workers: Workers) -> Names:
    """The names of all workers in order; those of one worker at a time are held beside them."""
    met = Interner()
    text, offsets = names.encoded()
    for source in range(workers.size):
        there, edges = workers.broadcast_from(source, text), workers.broadcast_from(source, offsets)
        met.numbers(Spans(there, edges[:-1], edges[1:]))
    return met.ranked(names.what)[0]


def _silent(done: int, total: int, note: str) -> None:
    """The first worker reports."""
