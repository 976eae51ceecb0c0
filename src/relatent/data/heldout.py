"""Held-out cells with their truth, on which a model is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Mask, Triples, Vector
from ..errors import InputError
from ..result_tables import MAX_ROWS, Result, html_table, import_pandas
from .cell_keys import cells_of, sorted_unique
from .facts import Facts
from .shard import Shard

if TYPE_CHECKING:
    import pandas as pd

ZEROS_PER_FACT = 20
MIN_PROBABILITY = 1e-12  # log loss raises smaller probabilities to this


class HasProbability(Protocol):
    """A model that predicts the probability of cells."""

    def probability(self, subjects: ArrayLike, relations: ArrayLike, objects: ArrayLike) -> Vector:
        """The probability of each cell, for ids or names."""


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut(Result):
    """Cells (subject, relation, object), whether each is true, and how many cells each represents.

    >>> HeldOut(np.array([[0, 0, 1], [1, 0, 0]]), np.array([True, False]))
    HeldOut(2 cells, 1 true)
    """

    cells: Triples  # (n, 3)
    truth: Mask  # (n,)
    weights: Vector | None = None  # (n,), above 1 for sampled zeros; None means 1 for all

    @classmethod
    def of(cls, validation: Facts | HeldOut, training: Facts | Shard, random_state: int) -> HeldOut:
        """Held-out cells from `validation`: cells unchanged, facts together with a sample of zeros."""
        if isinstance(validation, HeldOut):
            return validation
        if not isinstance(validation, Facts):
            raise InputError(f"validation must be Facts or HeldOut, got {type(validation).__name__}")
        if validation.entities != training.entities or validation.relations != training.relations:
            raise InputError(
                "validation must have the vocabulary of the training facts; see relatent.split and Facts.over"
            )
        validation = validation.with_undirected(Shard.of(training).facts.undirected)
        if not len(validation):
            raise InputError("validation must hold at least one fact, got none")
        zeros, weight = sample_zeros(
            [training, validation], ZEROS_PER_FACT * len(validation), np.random.default_rng(random_state)
        )
        return cls(
            np.concatenate([validation.triples, zeros]),
            np.repeat([True, False], [len(validation), len(zeros)]),
            np.repeat([1.0, weight], [len(validation), len(zeros)]),
        )

    def to_pandas(self) -> pd.DataFrame:
        """One row per cell: ids of subject, relation and object, truth, and weight if there are any; needs pandas."""
        pd = import_pandas()
        return pd.DataFrame(self._columns(len(self.cells)))

    def _columns(self, n: int) -> dict[str, Vector]:
        columns = dict(zip(("subject", "relation", "object"), self.cells[:n].T, strict=True)) | {
            "truth": self.truth[:n]
        }
        return columns if self.weights is None else {**columns, "weight": self.weights[:n]}

    def _repr_html_(self) -> str:
        columns = self._columns(MAX_ROWS)
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return html_table(repr(self), rows, len(self.cells))

    def __repr__(self) -> str:
        return f"HeldOut({len(self.cells)} cells, {int(self.truth.sum())} true)"

    def facts(self, like: Facts) -> Facts:
        """The true cells as facts over the vocabulary of `like`."""
        return Facts.from_ids(self.cells[self.truth], like.entities, like.relations, undirected=like.undirected)

    def log_loss(self, factors: HasProbability) -> float:
        """Mean −log likelihood of the truth under a model's probabilities."""
        return log_loss(self.truth, np.asarray(factors.probability(*self.cells.T), np.float64), self.weights)


def log_loss(truth: Mask, probabilities: Vector, weights: Vector | None) -> float:
    """Mean −log likelihood of the truth under these probabilities."""
    likelihood = np.where(truth, probabilities, 1 - probabilities)
    return float(np.average(-np.log(np.maximum(likelihood, MIN_PROBABILITY)), weights=weights))


def sample_zeros(known: Sequence[Facts | Shard], count: int, rng: np.random.Generator) -> tuple[Triples, float]:
    """Distinct cells that are neither a fact nor unobserved in any of `known`, and how many zeros each represents."""
    shards = [Shard.of(facts) for facts in known]
    first = shards[0]
    total = first.n_cells - sum(_n_new(shard, shards[:i]) for i, shard in enumerate(shards))
    if total <= 0:
        return cells_of(np.empty(0, np.int64), first.n_entities), 1.0
    found = np.empty(0, np.int64)
    count = min(count, total // 2 + 1)  # rejection sampling is slow beyond half of all zeros
    while len(found) < count:
        keys = sorted_unique(rng.integers(0, first.n_cells, 2 * count))
        cells = cells_of(keys, first.n_entities)
        free = ~np.any([shard.is_listed(cells) for shard in shards], axis=0)
        found = np.union1d(found, keys[free])
    chosen = np.sort(rng.choice(found, count, replace=False))
    return cells_of(chosen, first.n_entities), total / count


def _n_new(shard: Shard, before: Sequence[Shard]) -> int:
    """Number of listed cells that no earlier shard lists; only the first shard may be one of several workers."""
    if not before:
        return shard.n_listed
    cells = np.concatenate([shard.facts.triples, shard.facts.unobserved])
    return int(np.count_nonzero(~np.any([earlier.is_listed(cells) for earlier in before], axis=0)))
