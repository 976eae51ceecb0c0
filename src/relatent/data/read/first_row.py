"""Whether the first row of a text file, whose values are no usual column names, is a header or a fact.

The first rows of the file raise the suspicion, and the file as a whole decides: the first row is a header if it is the
only row none of whose values occurs in another row. If it were a fact, and rows come in any order, a row of which there
is only one in n would come first once in n files.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...arrays import Ids
from ...distributed.workers import ALONE, Workers
from ..facts import Facts
from ..names import Names
from .column_evidence import MIN_ROWS_FOR_DISTINCT, is_like_codes, may_be_header
from .reading import FirstRow, Reading
from .text_layout import TextHead, TextLayout

MAX_SHARE_OF_RARE_RELATIONS = 0.01  # facts, other than the first, whose relation occurs once
_ROWS_PER_BLOCK = 1 << 20


def suspicious_first_row(head: TextHead, layout: TextLayout, reading: Reading) -> FirstRow | None:
    """The first row, if it was read as a fact and none of its values occurs again in the first rows."""
    if reading.header is not None or layout.header is not None:
        return None
    fields, *below = (row.fields for row in head.rows(layout.sep, layout.quoted, layout.n_lines_before))
    stripped = [fields[position].strip() for position in layout.roles.positions[: layout.roles.n_names]]
    if not may_be_header(stripped, layout.sample):
        return None
    names = stripped if reading.strip else [fields[position] for position in layout.roles.positions[: len(stripped)]]
    return FirstRow(fields, names, layout.roles, below, is_like_codes(stripped, layout.sample))


def without_header(facts: Facts, first: FirstRow | None, reading: Reading, workers: Workers = ALONE) -> Facts:
    """The facts without the first row if it is a header; a note says what was decided, unless it is surely a fact.

    Several workers must have distinct facts over one vocabulary.
    """
    if first is None or _occurs_again(facts, first, workers):
        return facts
    shown = ", ".join(map(repr, first.names))
    if first.is_like_codes or not _is_the_only_lone_row(facts, first, workers):
        reading.notes.append(
            f"the first row ({shown}) was read as a fact, but none of its values occurs again; header=True reads it as "
            "column names, header=False as a fact"
        )
        return facts
    reading.notes.append(
        f"took the first row ({shown}) as column names, because it is the only row whose values occur in no other; "
        "header=False reads it as a fact"
    )
    reading.understood["header"] = "the first row"
    reading.set_roles(first.roles._replace(note=""), first.fields, first.below)
    return _without_fact(facts, first)


def _ids(facts: Facts, first: FirstRow) -> tuple[int, int, int]:
    """The fact that was made of the first row."""
    relation = facts.relations.id(first.names[1]) if len(first.names) == 3 else 0
    return facts.entities.id(first.names[0]), relation, facts.entities.id(first.names[-1])


def _occurs_again(facts: Facts, first: FirstRow, workers: Workers) -> bool:
    """Whether a value of the first row occurs in another row, in any column."""
    subject, relation, object_ = _ids(facts, first)
    if subject == object_:
        return True
    cells = facts.triples
    n_uses = sum(int((cells[:, column] == entity).sum()) for entity in (subject, object_) for column in (0, 2))
    if len(first.names) == 3:
        if first.names[1] in facts.entities or first.names[0] in facts.relations or first.names[2] in facts.relations:
            return True
        n_uses += int((cells[:, 1] == relation).sum())
    return workers.sum_int(n_uses) > len(first.names)


def _is_the_only_lone_row(facts: Facts, first: FirstRow, workers: Workers) -> bool:
    """Whether every other row shares a name with a further row, and hardly any relation occurs once."""
    n_facts = workers.sum_int(len(facts))
    if n_facts <= MIN_ROWS_FOR_DISTINCT:
        return False
    has_relations = len(first.names) == 3
    uses_of_relation = workers.sum(facts.counts())
    n_rare = int((uses_of_relation == 1).sum()) - 1
    if has_relations and n_rare > MAX_SHARE_OF_RARE_RELATIONS * n_facts:
        return False
    uses = np.zeros(facts.n_entities, np.int64)
    blocks = [facts.triples[at : at + _ROWS_PER_BLOCK] for at in range(0, len(facts), _ROWS_PER_BLOCK)]
    for block in blocks:
        for column in (0, 2):
            uses += np.bincount(block[:, column], minlength=len(uses))
    uses = workers.sum(uses)
    n_lone = 0
    for block in blocks:
        lone = (uses[block[:, 0]] == 1) & (uses[block[:, 2]] == 1)
        n_lone += int((lone & (uses_of_relation[block[:, 1]] == 1) if has_relations else lone).sum())
    return workers.sum_int(n_lone) == 1


def _without_fact(facts: Facts, first: FirstRow) -> Facts:
    """The facts without the first row and its names."""
    subject, relation, object_ = _ids(facts, first)
    kept = facts.subset((facts.triples[:, 0] != subject) | (facts.triples[:, 2] != object_))
    triples = kept.triples.copy(order="F")
    for column in (0, 2):
        triples[:, column] -= np.searchsorted(np.sort([subject, object_]), triples[:, column]).astype(np.int32)
    relations = facts.relations
    if len(first.names) == 3:
        triples[:, 1] -= triples[:, 1] > relation
        relations = _without_names(relations, np.array([relation]))
    entities = _without_names(facts.entities, np.array([subject, object_]))
    return replace(kept, triples=triples, entities=entities, relations=relations)


def _without_names(names: Names, ids: Ids) -> Names:
    text, offsets = names.encoded()
    is_kept = np.ones(len(text), bool)
    for i in ids:
        is_kept[offsets[i] : offsets[i + 1]] = False
    lengths = np.delete(np.diff(offsets), ids)
    return Names.of_sorted(text[is_kept], np.concatenate([[0], np.cumsum(lengths)]), what=names.what)
