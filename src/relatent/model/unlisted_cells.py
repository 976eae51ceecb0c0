"""Scores of the cells that are not listed, some rows at a time: of all rows, or of a sample of rows with weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from ..arrays import Ids, Mask, Matrix, Vector
from ..data.cell_keys import cell_keys
from .entity_types import EntityTypes
from .known_facts import KnownFacts

MAX_CELLS = 1 << 25  # scored per model; of larger data, rows are sampled
MIN_ROWS, MIN_CELLS = 4, 1 << 19  # scored per relation
CELLS_PER_BLOCK = 1 << 19  # scored together, to stay in the cache


class RowScorer(Protocol):
    """What gives rows of scores."""

    @property
    def types(self) -> EntityTypes | None:
        """Types of the entities."""

    def scores_of_all(self, entities: Ids, relation: int, *, of_objects: bool = False) -> Matrix:
        """θ of some subjects with every object, (m, N)."""


class UnlistedBlock(NamedTuple):
    """Rows of scores of a relation: those of some subjects with all objects."""

    theta: Matrix  # (m, N)
    is_unlisted: Mask  # (m, N) and may be asked for
    subjects: Ids  # (m,)
    weights: Vector  # (m,) how many subjects each stands for


def unlisted_blocks(
    model: RowScorer, known: KnownFacts, relation: int, own_cell: bool, random_state: int
) -> Iterator[UnlistedBlock]:
    """The cells of one relation that are neither a fact nor unobserved, and that may be an answer.

    Cells of a wrong type may not; cells of an entity with itself only if `own_cell`.
    """
    facts, n = known.facts, known.n
    rng = np.random.default_rng([random_state, relation])
    n_rows = max(MIN_ROWS, -(-MIN_CELLS // n), MAX_CELLS // (n * facts.n_relations))
    rows, weights = _sample_rows(known, relation, n_rows, rng)
    unobserved = facts.unobserved[facts.unobserved[:, 1] == relation]
    listed = facts.keys[slice(*facts.starts[relation : relation + 2])]
    if len(unobserved):
        listed = np.sort(np.concatenate([listed, cell_keys(unobserved, n)]))
    may_be = None if model.types is None else [model.types.allowed(relation, place) for place in (0, 2)]
    for block in np.array_split(np.arange(len(rows)), max(1, -(-len(rows) * n // CELLS_PER_BLOCK))):
        subjects = rows[block]
        unlisted = np.ones((len(block), n), bool)
        if may_be is not None:
            unlisted &= may_be[0][subjects][:, None] & may_be[1]
        if not own_cell:
            unlisted[np.arange(len(block)), subjects] = False
        first = (relation * n + subjects.astype(np.int64)) * n
        edges = np.searchsorted(listed, np.stack([first, first + n]))
        for position, (start, stop) in enumerate(edges.T.tolist()):
            unlisted[position, listed[start:stop] - first[position]] = False
        yield UnlistedBlock(model.scores_of_all(subjects, relation), unlisted, subjects, weights[block])


def _sample_rows(known: KnownFacts, relation: int, n_rows: int, rng: np.random.Generator) -> tuple[Ids, Vector]:
    """Subjects, and how many each stands for: all, or half of the sample from those with facts of the relation."""
    n = known.n
    if n_rows >= n:
        return np.arange(n), np.ones(n)
    own = np.flatnonzero(known.n_answers(relation, of_objects=False))
    others = np.setdiff1d(np.arange(n), own, assume_unique=True)
    n_own = min(len(own), max(n_rows // 2, n_rows - len(others)))
    parts = [
        (np.sort(rng.choice(ids, count, replace=False)), len(ids) / max(count, 1))
        for ids, count in ((own, n_own), (others, n_rows - n_own))
    ]
    return np.concatenate([ids for ids, _ in parts]), np.repeat([w for _, w in parts], [len(ids) for ids, _ in parts])
