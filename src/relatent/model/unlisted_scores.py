"""Scores of the cells that are not listed, per relation, as weighted samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import Ids, Mask, Matrix, Vector
from ..data.cell_keys import cell_keys
from ..data.facts import Facts
from ..data.shard import Shard
from .factors import Factors

MAX_SCORED_CELLS = 1 << 27  # scored per model; of larger data, rows are sampled
MAX_BINNED_CELLS = 1 << 25
BINS_PER_UNIT, MAX_BINNED_SCORE = 32, 40  # bins of the score, which is log-odds; beyond, all probabilities are alike
N_BINS = 2 * MAX_BINNED_SCORE * BINS_PER_UNIT
MIN_ROWS = 32  # scored per relation
CELLS_PER_BLOCK, CELLS_PER_BINNED_BLOCK = 1 << 22, 1 << 17  # scored together; few, to take little memory
MIN_SCORE_RANGE = 1e-6  # smaller differences between scores are rounding errors
N_POINTS = 1000  # of the distribution of the scores of a relation


class UnlistedBlock(NamedTuple):
    """Rows of scores of a relation: those of some subjects with all objects."""

    theta: Matrix  # (m, N)
    is_unlisted: Mask  # (m, N)
    subjects: Ids  # (m,)
    subject_weights: Vector  # (m,) how many subjects each stands for

    @property
    def scores(self) -> Vector:
        """Those of the unlisted cells, (n,)."""
        return self.theta[self.is_unlisted]

    @property
    def weights(self) -> Vector:
        """How many cells each of them stands for, (n,)."""
        return np.repeat(self.subject_weights, self.is_unlisted.sum(axis=1))


class UnlistedScores(NamedTuple):
    """Scores of the unlisted cells of one relation, rising, and how many cells each stands for."""

    scores: Vector  # (m,)
    weights: Vector  # (m,)

    @property
    def ranks(self) -> Vector:
        """The number of cells above each score and half of its own, (m,)."""
        own = self.weights
        return np.cumsum(own[::-1])[::-1] - own / 2

    def summary(self) -> UnlistedScores:
        """The same distribution by fewer points, finest at the top."""
        m = len(self.scores)
        from_top = np.unique(np.geomspace(1, m, N_POINTS).round().astype(np.int64))  # block ends: 1, 2, 3, … m
        starts = (m - from_top)[::-1]
        weights = np.add.reduceat(self.weights, starts)
        return UnlistedScores(np.add.reduceat(self.weights * self.scores, starts) / weights, weights)


def unlisted_scores(factors: Factors, facts: Facts, random_state: int) -> Iterator[UnlistedScores]:
    """Scores of the observed cells without a fact, per relation: of all rows, or of a sample of rows with weights."""
    for blocks in unlisted_blocks(factors, facts, random_state):
        pairs = ((block.scores, block.weights) for block in blocks)
        scores, weights = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        if len(scores) and np.ptp(scores) < MIN_SCORE_RANGE:
            scores = np.zeros_like(scores)
        if (weights == 1).all():  # a plain sort is ten times faster
            yield UnlistedScores(np.sort(scores), weights)
        else:
            order = np.argsort(scores, kind="stable")
            yield UnlistedScores(scores[order], weights[order])


def binned_unlisted_scores(factors: Factors, facts: Facts, random_state: int) -> Iterator[UnlistedScores]:
    """The same, of fewer rows where there are many, and in narrow bins of the score: no cells are sorted."""
    centres = bin_centres(np.arange(N_BINS))
    for blocks in unlisted_blocks(factors, facts, random_state, MAX_BINNED_CELLS, CELLS_PER_BINNED_BLOCK):
        counts = np.zeros(N_BINS)
        for block in blocks:
            counts += np.bincount(bins_of(block.scores), block.weights, minlength=N_BINS)
        filled = counts > 0
        yield UnlistedScores(centres[filled], counts[filled])


def bins_of(scores: Vector) -> Ids:
    """The narrow bin of each score."""
    return np.clip((scores + MAX_BINNED_SCORE) * BINS_PER_UNIT, 0, N_BINS - 1).astype(np.int64)


def bin_centres(bins: Ids) -> Vector:
    """The score in the middle of each bin."""
    centres: Vector = (bins + 0.5) / BINS_PER_UNIT - MAX_BINNED_SCORE
    return centres


def unlisted_blocks(
    factors: Factors,
    facts: Facts,
    random_state: int,
    max_cells: int | None = None,
    block_cells: int = CELLS_PER_BLOCK,
) -> Iterator[Iterator[UnlistedBlock]]:
    """Scores of unlisted cells, some rows at a time, per relation: of all rows, or of a sample of rows.

    Cells of an entity with itself count only where the relation has such a fact, or none at all: no other is an answer,
    and in a homophilous relation their scores are the highest.
    """
    max_cells = MAX_SCORED_CELLS if max_cells is None else max_cells
    n, rng = facts.n_entities, np.random.default_rng(random_state)
    listed = np.sort(np.concatenate([facts.keys, cell_keys(facts.unobserved, n)]))
    n_rows = max(MIN_ROWS, max_cells // (n * facts.n_relations))
    may_be_itself = (Shard.of(facts).self_facts > 0) | (facts.counts() == 0)
    for k in range(facts.n_relations):
        rows, weights = _sample_rows(facts, k, n_rows, rng)
        yield _relation_blocks(factors, listed, k, rows, weights, block_cells, own_cell=bool(may_be_itself[k]))


def _relation_blocks(
    factors: Factors, listed: Ids, k: int, rows: Ids, row_weights: Vector, block_cells: int, *, own_cell: bool
) -> Iterator[UnlistedBlock]:
    n = len(factors.entities)
    for block in np.array_split(np.arange(len(rows)), -(-len(rows) * n // block_cells)):
        first = (k * n + rows[block].astype(np.int64)) * n
        edges = np.searchsorted(listed, np.stack([first, first + n]))
        unlisted = np.ones((len(block), n), bool)
        unlisted[np.arange(len(block)), rows[block]] = own_cell
        for position, (start, stop) in enumerate(edges.T.tolist()):
            unlisted[position, listed[start:stop] - first[position]] = False
        yield UnlistedBlock(factors.scores_of_all(rows[block], k), unlisted, rows[block], row_weights[block])


def _sample_rows(facts: Facts, k: int, n_rows: int, rng: np.random.Generator) -> tuple[Ids, Vector]:
    """Subjects, and how many each stands for: all, or half of the sample from those with facts of the relation."""
    if n_rows >= facts.n_entities:
        return np.arange(facts.n_entities), np.ones(facts.n_entities)
    own = np.unique(facts.subjects[facts.starts[k] : facts.starts[k + 1]])
    others = np.setdiff1d(np.arange(facts.n_entities), own, assume_unique=True)
    n_own = min(len(own), max(n_rows // 2, n_rows - len(others)))
    samples = [
        np.sort(rng.choice(own, n_own, replace=False)),
        np.sort(rng.choice(others, n_rows - n_own, replace=False)),
    ]
    weights = [
        np.full(len(part), len(rows) / max(len(part), 1)) for part, rows in zip(samples, (own, others), strict=True)
    ]
    return np.concatenate(samples), np.concatenate(weights)
