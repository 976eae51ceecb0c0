"""Names that often stand for a missing value: they are names here, and the reader is told."""

from __future__ import annotations

from ...distributed.workers import ALONE, Workers
from ..facts import Facts
from .reading import Reading

MARKERS = ("NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None")


def note_missing_markers(facts: Facts, reading: Reading, workers: Workers = ALONE) -> None:
    """Count the facts with such a name."""
    counts = {}
    for marker in MARKERS:  # all workers have the same names
        n_facts = 0
        if marker in facts.entities:
            i = facts.entities.id(marker)
            n_facts += int(((facts.triples[:, 0] == i) | (facts.triples[:, 2] == i)).sum())
        if marker in facts.relations:
            n_facts += int((facts.triples[:, 1] == facts.relations.id(marker)).sum())
        if marker in facts.entities or marker in facts.relations:
            counts[marker] = workers.sum_int(n_facts)
    if counts:
        found = ", ".join(f"{marker!r} in {n:,} fact{'s' * (n != 1)}" for marker, n in counts.items())
        reading.notes.append(
            f"{found}: read as a name; if it marks missing values, remove these rows or empty the cells"
        )
