"""What attributes say about the vectors of entities: a linear prediction, A ≈ X W.

X has a row of unit length per entity, of its known values, and a one for each attribute that it has, known value or
not zero: an unobserved value adds nothing. W minimises ‖A − X W‖² + ‖W‖² over the entities with attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..arrays import Ids, Mask, Matrix
from ..data.attribute_table import AttributeColumns, AttributeTable
from ..data.facts import Facts
from .entity_prior import EntityPrior

RIDGE = 1.0  # weight of ‖W‖²
MIN_VARIANCE = 0.01  # of the residuals in every direction, as a fraction of their mean variance


class AttributeFeatures(NamedTuple):
    """The rows X of the entities with attributes, zeros for others, and (XᵀX + RIDGE)⁻¹."""

    X: Matrix  # (N, F)
    inverse: Matrix  # (F, F)
    has_any: Mask  # (N,)

    @classmethod
    def of(cls, facts: Facts) -> AttributeFeatures:
        """The features of the entities of some facts, which have attributes."""
        assert facts.attributes is not None
        known = ~np.isnan(facts.attributes)
        if facts.attribute_table is None:
            scale = np.nanstd(facts.attributes, axis=0, where=known)
            standard = (facts.attributes - np.nanmean(facts.attributes, axis=0, where=known)) / np.where(
                scale, scale, 1
            )
            starts = np.unique(known, axis=1, return_index=True)[1]
            X = np.hstack([np.where(known, standard, 0) / np.sqrt(known.shape[1]), known[:, starts]])
        else:
            X = _features(facts.attributes, _starts(facts.attribute_table.columns(facts.entities)))
        return cls(X, np.linalg.inv(X.T @ X + RIDGE * np.eye(X.shape[1])), np.asarray(known.any(axis=1)))


@dataclass(frozen=True, eq=False, repr=False)
class EntityAttributes:
    """The attributes that a model was fitted with, and how they predict the vector of an entity."""

    columns: tuple[AttributeColumns, ...]
    weights: Matrix  # (F, r), W
    precision: Matrix  # (r, r), of a vector about its prediction

    @classmethod
    def of(cls, A: Matrix, facts: Facts) -> EntityAttributes | None:
        """The prediction of the vectors A; None if the facts have no table of attributes."""
        if facts.attributes is None or facts.attribute_table is None:
            return None
        X, inverse, has_any = AttributeFeatures.of(facts)
        W = inverse @ (X.T @ A.astype(np.float64))
        residuals = (A - X @ W)[has_any]
        n, r = residuals.shape
        scatter = residuals.T @ residuals
        floor = (MIN_VARIANCE * max(np.trace(scatter), 1e-12) / (n * r)) * np.eye(r)
        covariance = (scatter + np.trace(scatter) / n * np.eye(r)) / (n + r) + floor
        columns = tuple(facts.attribute_table.columns(facts.entities))
        return cls(columns, W.astype(A.dtype), np.linalg.inv(covariance).astype(A.dtype))

    @property
    def names(self) -> list[str]:
        """The names of the attributes."""
        return [column.name for column in self.columns]

    def priors(self, table: AttributeTable, entities: Sequence[str]) -> list[EntityPrior | None]:
        """The distribution of the vector of each entity by its attributes; None where no value is known."""
        values = table.encoded(self.columns, entities)
        means = _features(values, _starts(self.columns)) @ self.weights.astype(np.float64)
        precision = self.precision.astype(np.float64)
        has_any: Mask = np.asarray(~np.isnan(values).all(axis=1))
        return [
            EntityPrior(mean[None], np.zeros(1), precision) if known else None
            for mean, known in zip(means, has_any.tolist(), strict=True)
        ]

    def __repr__(self) -> str:
        return f"EntityAttributes({', '.join(self.names)})"


def n_features(columns: Sequence[AttributeColumns]) -> int:
    """The number of features of an entity: its columns, and one per attribute."""
    return sum(column.width for column in columns) + len(columns)


def _starts(columns: Sequence[AttributeColumns]) -> Ids:
    """The first column of each attribute."""
    return np.cumsum([0, *(column.width for column in columns)])[:-1]


def _features(values: Matrix, starts: Ids) -> Matrix:
    known = ~np.isnan(values)
    filled = np.where(known, values, 0)
    size = np.sqrt((filled**2).sum(axis=1, keepdims=True))
    return np.hstack([filled / np.where(size, size, 1), known[:, starts]])
