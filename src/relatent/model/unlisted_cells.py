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
BEST_SHARE = 0.25  # of the rows of a sample: those of the subjects that have the highest scores with frequent objects


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
    may_be = None if model.types is None else [model.types.allowed(relation, place) for place in (0, 2)]
    rows, weights = _sample_rows(model, known, relation, n_rows, None if may_be is None else may_be[0], rng)
    unobserved = facts.unobserved[facts.unobserved[:, 1] == relation]
    listed = facts.keys[slice(*facts.starts[relation : relation + 2])]
    if len(unobserved):
        listed = np.sort(np.concatenate([listed, cell_keys(unobserved, n)]))
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


def _sample_rows(
    model: RowScorer, known: KnownFacts, relation: int, n_rows: int, may_be: Mask | None, rng: np.random.Generator
) -> tuple[Ids, Vector]:
    """Subjects, and how many each stands for: all, or a sample of three strata.

    The subjects with the best unlisted cells all belong to it, as far as frequent objects tell: few cells have high
    scores, and nothing would be known of them if they were not drawn. Half of the others have facts of the relation.
    """
    n = known.n
    if n_rows >= n:
        return np.arange(n), np.ones(n)
    best = _best_subjects(model, known, relation, int(BEST_SHARE * n_rows), may_be)
    is_left = np.ones(n, bool)
    is_left[best] = False
    has_facts = known.n_answers(relation, of_objects=False) > 0
    own, others = np.flatnonzero(has_facts & is_left), np.flatnonzero(~has_facts & is_left)
    n_rows -= len(best)
    n_own = min(len(own), max(n_rows // 2, n_rows - len(others)))
    parts = [(best, 1.0)] + [
        (np.sort(rng.choice(ids, count, replace=False)), len(ids) / max(count, 1))
        for ids, count in ((own, n_own), (others, n_rows - n_own))
    ]
    return np.concatenate([ids for ids, _ in parts]), np.repeat([w for _, w in parts], [len(ids) for ids, _ in parts])


def _best_subjects(model: RowScorer, known: KnownFacts, relation: int, count: int, may_be: Mask | None) -> Ids:
    """The subjects that have the highest scores with as many of the most frequent objects, listed facts left out."""
    n_facts = known.n_answers(relation, of_objects=True)
    objects = np.argsort(-n_facts, kind="stable")[:count]
    objects = objects[n_facts[objects] > 0]
    if not len(objects):
        return np.empty(0, np.int64)
    theta = model.scores_of_all(objects, relation, of_objects=True)
    theta[known.partners(relation, objects, of_objects=True)] = -np.inf
    theta[np.arange(len(objects)), objects] = -np.inf
    if may_be is not None:
        theta[:, ~may_be] = -np.inf
    best: Ids = np.sort(np.argpartition(-theta.max(axis=0), count)[:count])
    return best
