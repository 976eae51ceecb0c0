"""What is odd in facts, but legal: `relatent info` shows it in full, a fit in one line. It never changes the facts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...distributed.workers import ALONE, Workers
from ..facts import Facts
from ..names import Names

MARKERS = ("NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None")
LAST_ASCII = 127  # code of the last ASCII character
_IGNORED_AROUND = " .,;:!?\"'()[]_*-"


def missing_markers(facts: Facts, workers: Workers = ALONE) -> str | None:
    """How many facts have a name that often stands for a missing value."""
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
    if not counts:
        return None
    found = ", ".join(f"{marker!r} in {n:,} fact{'s' * (n != 1)}" for marker, n in counts.items())
    return f"{found}: read as a name; if it marks missing values, remove these rows or empty the cells"


def repeated_header(facts: Facts, columns: Sequence[str], relation: str | None = None) -> str | None:
    """Whether a fact consists of the names of its columns, as files that are joined end to end have it."""
    names = [name.strip() for name in columns]
    subject, *middle, object_ = names if relation is None else [names[0], relation, names[1]]
    if subject not in facts.entities or object_ not in facts.entities or middle[0] not in facts.relations:
        return None
    cell = [facts.entities.id(subject), facts.relations.id(middle[0]), facts.entities.id(object_)]
    if not facts.contains(np.array([cell])).any():
        return None
    shown = ", ".join(repr(name[:60]) for name in names)
    return f"the names of the columns ({shown}) stand in a row, too, which was read as a fact; if it is none, remove it"


def similar_names(facts: Facts) -> str | None:
    """How many groups of names differ only by case, accents or punctuation around them, and the first."""
    for names in (facts.entities, facts.relations):
        n_groups, example = _groups(names)
        if n_groups:
            kind = "entities" if names is facts.entities else "relations"
            shown = " and ".join(repr(name[:60]) for name in example)
            more = f", and {n_groups - 1:,} more" if n_groups > 1 else ""
            return (
                f"{shown}{more} differ only by case, accents or punctuation around the name: they are different "
                f"{kind}; if they are not, write them in one way"
            )
    return None


def _groups(names: Names) -> tuple[int, list[str]]:
    """The number of groups of names that are equal but for such differences, and two names of the first."""
    text, offsets = names.encoded()
    found = pa.LargeStringArray.from_buffers(len(names), pa.py_buffer(offsets), pa.py_buffer(text))
    lowered = pc.utf8_lower(found)
    if (text > LAST_ASCII).any():
        decomposed = pc.utf8_normalize(pc.replace_substring(lowered, "ß", "ss"), form="NFKD")
        lowered = pc.replace_substring_regex(decomposed, r"\p{Mn}+", "")
    keys = pc.utf8_trim(lowered, _IGNORED_AROUND).dictionary_encode()
    ids = keys.indices.to_numpy()
    is_repeated = np.bincount(ids, minlength=len(keys.dictionary)) > 1
    is_repeated &= pc.match_substring_regex(keys.dictionary, r"\p{L}").to_numpy(zero_copy_only=False)
    first = np.flatnonzero(is_repeated[ids])[:1]
    return int(is_repeated.sum()), [names[i] for i in np.flatnonzero(ids == ids[first]).tolist()[:2]] if len(
        first
    ) else []
