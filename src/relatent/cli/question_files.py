"""Files of questions and of facts, and the tables with what a model says of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.names import Names
from ..data.read.encode import to_strings
from ..data.read.files import named
from ..data.read.reading import Reading
from ..data.read.roles import QUESTION, other_roles
from ..data.read.sources import open_table
from ..errors import DataWarning
from ..model.candidates import OPEN, Candidates, Judged
from ..progress import bar
from .reading_options import reading_choices
from .table_file import table_writer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..model.factors import Factors

Row = tuple[str | None, str | None, str | None]
FIGURES = {"score": float, "probability": float, "rank": int, "lift": float}
INCOMPLETE = -2  # in place of an id that is not given


def answer_file(factors: Factors, asked: Candidates, questions: Path, output: Path, k: int) -> dict[str, int]:
    """Write the k best answers to each question of a file; returns how many there are of each."""

    def answered(ids: NDArray[np.int64], is_open: NDArray[np.bool_]) -> Judged:
        of_questions = np.flatnonzero(is_open.sum(axis=1) == 1)
        given = np.flatnonzero(~is_open.any(axis=1))
        best = asked.answers(np.where(is_open, OPEN, ids)[of_questions], k)
        best = best._replace(question=of_questions[best.question])
        return _joined(best, asked.ranked(ids[given])._replace(question=given))

    kinds = {"question": int, **dict.fromkeys(QUESTION, str), **FIGURES}
    return _written(factors, questions, output, answered, kinds, n_needed=2)


def score_file(factors: Factors, asked: Candidates, facts: Path, output: Path) -> dict[str, int]:
    """Write the score, probability, rank and lift of each fact of a file; returns how many there are."""

    def scored(ids: NDArray[np.int64], is_open: NDArray[np.bool_]) -> Judged:
        given = np.flatnonzero(~is_open.any(axis=1))
        return asked.ranked(ids[given])._replace(question=given)

    kinds = {**dict.fromkeys(QUESTION, str), **FIGURES, "known": bool}
    return _written(factors, facts, output, scored, kinds, n_needed=3)


def question_blocks(source: str | Path, reading: Reading) -> Iterator[list[Row]]:
    """Blocks of rows of a table; empty values are None.

    Columns are found by their names; one of them may be missing. Without such names there are three, in this order.
    """
    reading.wanted = QUESTION
    table = open_table(source, reading)
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
    if reading.n_skipped:
        reading.first_skipped = next((fault or "" for _, fault in table.bad_lines([], 1)), "")


def _joined(best: Judged, facts: Judged) -> Judged:
    """Both, in the order of their questions."""
    columns: list[Any] = [np.concatenate(pair) for pair in zip(best, facts, strict=True)]
    order = np.argsort(columns[Judged._fields.index("question")], kind="stable")
    return Judged(*(column[order] for column in columns))


def _written(
    factors: Factors,
    source: Path,
    output: Path,
    scored: Callable[[NDArray[np.int64], NDArray[np.bool_]], Judged],
    kinds: dict[str, type],
    *,
    n_needed: int,
) -> dict[str, int]:
    """Read, score and write block by block. A row that cannot be answered gets one row with a note."""
    counts = {"rows": 0, "results": 0, "without_result": 0}
    with table_writer(output, {**kinds, "note": str}, factors) as write, bar(f"reading {source}") as progress:
        reading = Reading.of(**reading_choices())
        for block in question_blocks(source, reading):
            ids = _ids(factors, block)
            notes = [_note(row, found, n_needed) for row, found in zip(block, ids.tolist(), strict=True)]
            usable = np.array([not note for note in notes])
            found = scored(ids[usable], ids[usable] == INCOMPLETE)
            rows = np.flatnonzero(usable)[found.question]
            write(_columns(factors, found, rows, block, notes, counts["rows"], kinds))
            counts["rows"] += len(block)
            counts["results"] += len(rows)
            counts["without_result"] += len(block) - len(np.unique(rows))
            progress(counts["rows"], 0, f"{counts['rows']:,} rows")
    for note in reading.all_notes(str(source)):
        warnings.warn(note, DataWarning, stacklevel=2)
    return counts


def _columns(
    factors: Factors,
    found: Judged,
    rows: NDArray[np.int64],
    block: Sequence[Row],
    notes: Sequence[str],
    n_before: int,
    kinds: Mapping[str, type],
) -> dict[str, Any]:
    """The table of a block: the results, and the rows without one, in the order of the rows."""
    without = np.setdiff1d(np.arange(len(block)), rows)
    order = np.argsort(np.concatenate([rows, without]), kind="stable")
    empty = [None] * len(without)
    names = [
        [*(vocabulary[i] for i in ids.tolist()), *(block[row][place] for row in without.tolist())]
        for place, (vocabulary, ids) in enumerate(
            zip((factors.entities, factors.relations, factors.entities), found.cells.T, strict=True)
        )
    ]
    columns: dict[str, Sequence[Any]] = {
        "question": [*(n_before + rows + 1).tolist(), *(n_before + without + 1).tolist()],
        **dict(zip(QUESTION, names, strict=True)),
        "score": [*found.score.tolist(), *empty],
        "probability": [*found.probability.tolist(), *empty],
        "rank": [*(rank or None for rank in found.rank.tolist()), *empty],
        "lift": [*found.lift.tolist(), *empty],
        "known": [*found.is_known.tolist(), *empty],
        "note": [*[None] * len(rows), *(notes[row] or "no candidate is left" for row in without.tolist())],
    }
    return {name: [columns[name][i] for i in order.tolist()] for name in (*kinds, "note")}


def _ids(factors: Factors, block: Sequence[Row]) -> NDArray[np.int64]:
    """The ids of each row, (m, 3): −1 for names that the model does not know, INCOMPLETE where there is no name."""
    ids = np.empty((len(block), 3), np.int64)
    for column, names in enumerate((factors.entities, factors.relations, factors.entities)):
        given = [row[column] for row in block]
        distinct = sorted({name for name in given if name is not None})
        found = dict(zip(distinct, names.translate(Names(distinct)).tolist(), strict=True))
        ids[:, column] = [INCOMPLETE if name is None else found[name] for name in given]
    return ids


def _note(row: Row, ids: Sequence[int], n_needed: int) -> str:
    """Why a row has no answer; empty if it has."""
    if sum(name is not None for name in row) < n_needed:
        return f"give {'two of ' if n_needed == 2 else ''}subject, relation and object"
    return "; ".join(
        f"unknown {place} {name!r}" for place, name, found in zip(QUESTION, row, ids, strict=True) if found == -1
    )
