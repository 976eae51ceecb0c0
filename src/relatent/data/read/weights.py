"""The column of weights or counts: how its numbers are written, and which are wrong."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import DataError
from .column_evidence import Sample
from .columns import ColumnRoles, column_title
from .value_kinds import PLAIN, NotationError, filled, is_numeric, notation_of

MIN_SHARE_OF_BLANKS = 0.05  # in a column, from which on the column is in doubt, not its rows
MIN_BLANKS = 2


def are_many_blanks(n_blank: int, n_rows: int) -> bool:
    """Whether so many rows are blank that the choice of the column is in doubt."""
    return n_blank >= max(MIN_BLANKS, MIN_SHARE_OF_BLANKS * n_rows)


def with_notation(
    roles: ColumnRoles, names: Sequence[str], sample: Sample, where: str, *, may_be_blank: bool
) -> ColumnRoles:
    """The roles, with the notation of the numbers in the first values of the column of weights or counts.

    `may_be_blank`: rows without a number are skipped.
    """
    if len(roles.positions) == roles.n_names:
        return roles
    position = roles.positions[-1]
    values = filled(sample[position])
    if not is_numeric(values):
        return roles  # the row that is wrong is an error
    column = column_title(names, position)
    others = ", ".join(repr(names[p]) if names else str(p) for p in roles.positions[:-1])
    without = f"columns=({others}) leaves the column out"
    cells = [cell for cell, subject in zip(sample[position], sample[roles.positions[0]], strict=True) if subject]
    n_blank = len(cells) - len(filled(cells))
    if are_many_blanks(n_blank, len(cells)) and not may_be_blank:
        raise DataError(
            f"{where}: column {column}, the {roles.names[-1]}, is blank in {n_blank:,} of the first {len(cells):,} "
            f"rows; {without}, skip_bad_rows=True skips such rows"
        )
    try:
        notation = notation_of(values)
    except NotationError as problem:
        raise DataError(f"{where}: column {column}: {problem}; write them with decimal points; {without}") from None
    if notation is PLAIN:
        return roles
    note = f"the numbers of column {column} have {notation.title}"
    note += f": {values[0]!r} is {notation.number(values[0]):g}"
    return roles._replace(notation=notation, note=f"{roles.note}; {note}" if roles.note else note)


def weight_fault(weight: float) -> str | None:
    """What is wrong with a weight, if anything."""
    if 0 <= weight < float("inf"):
        return None
    return f"weights are confidences, finite and at least 0, got {weight}"


def count_fault(count: float) -> str | None:
    """What is wrong with a count, if anything."""
    if count >= 1 and float(count).is_integer():
        return None
    return f"counts are whole numbers of at least 1, got {count:g}"
