"""One file read by several workers: each parses a part, and ids are the same as if one process had read it all."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...distributed.workers import Workers
from ...errors import DataError
from ..facts import Facts
from ..names import Names
from ..shard import move_to_owners
from .files import File, FilePart, identify, naming_the_source
from .ntriples import NotPlainError, scan
from .rdf import Literals, read_rdf
from .reading import Reading
from .sources import facts_of, open_file, read_file
from .string_table import Spans, StringTable


def read_together(files: Sequence[Any], source: Any, reading: Reading, workers: Workers) -> Facts:
    """This worker's facts: those of the subjects it owns, over the vocabulary of all workers."""
    with workers.raise_together():
        if len(files) != 1 or "://" in str(files[0]):
            raise DataError(
                f"several workers read one file together, got {files or type(source).__name__!r}; pass a path, or read "
                "the facts in each worker without workers="
            )
        file = identify(Path(files[0]), reading.format)
    part = FilePart(workers.rank, workers.size)
    facts: Facts | None = None
    if not workers.any(not _can_be_cut(file, reading, part)):
        facts = _read_part(file, reading, part, workers)
    if facts is None:
        facts = Facts.from_arrays([], [], [], entity_names=(), relation_names=())
        with workers.raise_together():
            if workers.rank == 0:
                facts = read_file(file, reading)
    for count in ("n_stripped", "n_skipped", "n_without_names"):
        setattr(reading, count, workers.sum_int(getattr(reading, count)))
    entities, relations = (_merged_names(names, workers) for names in (facts.entities, facts.relations))
    facts = facts.over(entities, relations)
    if not workers.any(len(facts) > 0):
        raise DataError(f"{file.path}: contains no facts")
    with workers.raise_together():
        workers.entity_range(len(entities))  # raises if there are more workers than entities, before anything is sent
    return move_to_owners(facts, workers)


def _can_be_cut(file: File, reading: Reading, part: FilePart) -> bool:
    """Whether each line of the part is a row; quotes in a CSV file may enclose line breaks."""
    if not file.is_plain or reading.encoding or file.format not in ("tsv", "csv", "edges", "ntriples", "parquet"):
        return False
    if not file.size or file.format in ("ntriples", "parquet"):
        return True
    if file.decoded(None).encoding:
        return False
    with open(file.path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
        low, high = (len(text) * edge // part.n_parts for edge in (part.number, part.number + 1))
        return file.format != "csv" or text.find(b'"', low, high) < 0


def _read_part(file: File, reading: Reading, part: FilePart, workers: Workers) -> Facts | None:
    """The facts of a part of the file; None if pyoxigraph has to read all of it."""
    if file.format == "ntriples":
        return _scan_part(file, reading, part, workers)
    reading.part = part
    with workers.raise_together():
        facts = facts_of(open_file(file, reading), reading, may_be_empty=True)
    return facts


def _scan_part(file: File, reading: Reading, part: FilePart, workers: Workers) -> Facts | None:
    builder, literals = None, Literals(reading.language)
    with workers.raise_together(), naming_the_source(file.path):
        read_rdf(file, reading)  # checks the options
        try:
            builder = scan(file.part(part), reading.report, literals)
        except NotPlainError:
            builder = None
    if workers.any(builder is None):
        return None
    assert builder is not None
    n_literals = workers.sum_int(literals.counts.total())
    if not workers.any(builder.n_facts > 0):
        raise DataError(f"{file.path}: contains no facts; every object is a literal (triples: {n_literals})")
    literals.counts.update({"": n_literals - literals.counts.total()})
    facts = builder.build(drop_unused_names=True)
    literals.attached_to(facts, reading)  # notes how many literals are left out
    return facts


def _merged_names(names: Names, workers: Workers) -> Names:
    """The sorted names of all workers; at most one worker's names are in memory beside the result."""
    table = StringTable()
    text, offsets = names.encoded()
    for source in range(workers.size):
        source_text, source_offsets = workers.broadcast_from(source, text), workers.broadcast_from(source, offsets)
        table.ids(Spans(source_text, source_offsets[:-1], source_offsets[1:]))
    return table.sorted_names(names.what)[0]
