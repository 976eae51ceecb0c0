"""Attributes in a fit by gradients: entity vectors are drawn to what their attributes predict.

    weight · min_W ‖A − X W‖² + ‖W‖²    over the entities with attributes

W has a closed form, so this is a function of A alone, and works with every loss, penalty and optimiser.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Matrix
from ..backend.protocol import Backend
from ..data.facts import Facts
from ..model.entity_attributes import AttributeFeatures


class AttributePrior:
    """The term and its derivative."""

    def __init__(self, facts: Facts, weight: float, backend: Backend):
        X, inverse, has_any = AttributeFeatures.of(facts)
        self.weight, self.backend = weight, backend
        self.X, self.inverse = backend.from_numpy(X), backend.from_numpy(inverse)
        self.has_any = backend.from_numpy(has_any[:, None].astype(np.float64))

    @classmethod
    def memory(cls, facts: Facts, rank: int, itemsize: int) -> int:
        """Bytes of the features, at most as many as twice the columns, and of two arrays like A."""
        if facts.attributes is None:
            return 0
        return 2 * (8 + itemsize) * facts.attributes.size + 2 * itemsize * facts.n_entities * rank

    def __call__(self, A: Matrix, dA: Matrix) -> Any:
        """The term, as `Backend.deferred_dot` gives it; adds its derivative to dA."""
        residuals = self.has_any * A - self.X @ (self.inverse @ (self.X.T @ A))
        self.backend.add_scaled(dA, 2 * self.weight, residuals)
        return self.weight * self.backend.deferred_dot(A, residuals)
