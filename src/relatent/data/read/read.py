"""`relatent.read`: facts from a file or a table, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...distributed.workers import ALONE, Workers
from ...progress import Progress, reporting
from ..facts import Facts
from .columns import check_columns
from .file_formats import identify, read_file


def read(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    progress: bool | Progress | None = None,
    workers: Workers | None = None,
) -> Facts:
    """Facts from a file, or from a pandas, polars or Arrow table.

    Names are taken literally: there is no missing-value marker, and quotes in TSV files are part of the name. Ids of
    entities and relations follow the sorted names. RDF triples whose object is a literal are left out, with a
    `DataWarning`.

    Parameters
    ----------
    source : path or table
        TSV (`.tsv`, `.txt`), CSV, Parquet, N-Triples (`.nt`) or Turtle (`.ttl`), plain or compressed (`.gz`, `.zst`,
        `.bz2`). A table is any object that implements the Arrow C stream protocol, or a pandas data frame.
    columns : sequence of str, optional
        Names of the columns that hold subject, relation, object and, if four are given, weight. By default, columns
        with common names (subject, relation, object; head, relation, tail; source, type, target; … and weight) are
        used, in any order, and other columns are ignored; without common names there must be three columns, or four
        with weights. A fourth column named count, counts, times or frequency says how often a fact was seen
        (`Facts.times`).
    header : bool, optional
        Whether the first row of a TSV or CSV file holds column names; by default it does if the names are common ones.
    progress : bool or function (done, total, note), optional
        True shows a progress bar on standard error. A function is called after each block with the bytes read of the
        file as stored on disk (for a table: the rows), their total, and a note with the number of facts.
    workers : Workers, optional
        Processes that read the file together, one part each: a byte range of an uncompressed TSV, CSV or N-Triples
        file, or some row groups of a Parquet file. Other files (compressed, Turtle, CSV with quotes) are read by the
        first worker and sent to the others. Each worker gets the facts of the subjects it owns, over the vocabulary
        of all workers.
    """
    check_columns(columns)
    workers = workers or ALONE
    is_path = isinstance(source, (str, os.PathLike))
    title = f"reading {Path(source).name}" if is_path else "reading the table"
    with reporting(progress if workers.rank == 0 else None, title, in_bytes=is_path) as report:
        if workers.size > 1:
            from .parallel import read_together

            return read_together(source, columns, header, report, workers)
        if is_path:
            return read_file(identify(Path(source)), columns, header, report)
        from .frames import read_frame

        return read_frame(source, columns, report)
