"""Names that differ only by case, accents or punctuation around them: often one entity, written in two ways."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..facts import Facts
from ..names import Names

LAST_ASCII = 127  # code of the last ASCII character
_IGNORED_AROUND = " .,;:!?\"'()[]_*-"


def similar_names_note(facts: Facts) -> str | None:
    """How many groups of such names there are, and the first."""
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
