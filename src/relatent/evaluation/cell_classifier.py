"""An adapter for scikit-learn: cells as rows of X, their truth as y."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..arrays import Mask, Vector
from ..data.array_checks import id_or_name_column, stack, vocabulary
from ..data.cell_keys import cell_keys, cells_of
from ..data.facts import Facts
from ..errors import InputError
from ..fit.estimators.base import Estimator

Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # subjects, relations, objects
MAX_CELLS_UNOBSERVED = 20_000_000  # cells not in X are listed one by one as unobserved


@dataclass(eq=False, repr=False)
class CellClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A relatent estimator as a scikit-learn classifier of cells.

    X is an (n, 3) array or data frame of names or ids (subject, relation, object), y the truth of each cell. Cells that
    are not in X are unobserved in the fit, so `cross_val_score` and `GridSearchCV` mask the cells they hold out.

    Parameters
    ----------
    estimator : RescalALS, RescalLogit, …; its settings are `estimator__rank` and so on
    n_entities, n_relations : size of the graph; None: the largest ids in X, which a fold of X may lack
    entity_names, relation_names : all names, if X has names; None: the names in X, which a fold of X may lack
    unlisted : "unobserved", or "zero": cells not in X are false, for knowledge graphs that list only true cells

    >>> import numpy as np, relatent
    >>> X = np.array([[s, 0, o] for s in range(4) for o in range(4)])
    >>> y = X[:, 0] < X[:, 2]
    >>> model = relatent.CellClassifier(relatent.RescalLogit(rank=4, l2_entities=0.1, l2_relations=0.1))
    >>> bool((model.fit(X, y).predict(X) == y).all())
    True
    >>> named = np.array([["Ann", "likes", "Bob"], ["Bob", "likes", "Ann"], ["Ann", "likes", "Cid"]])
    >>> model.set_params(estimator__rank=2).fit(named, [1, 0, 1]).predict(named).tolist()
    [1, 0, 1]
    """

    estimator: Estimator | None = None
    n_entities: int | None = None
    n_relations: int | None = None
    unlisted: str = "unobserved"
    entity_names: Sequence[str] | None = None
    relation_names: Sequence[str] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> CellClassifier:
        """Fit the estimator to cells and their truth."""
        if self.estimator is None:
            raise InputError("estimator must be given, for example CellClassifier(RescalLogit(rank=10))")
        cells, truth = _checked_cells(X), _checked_truth(y)
        if len(cells[0]) != len(truth):
            raise InputError(f"X and y must be equally long, got {len(cells[0])} and {len(truth)}")
        self.classes_ = np.unique(np.asarray(y))
        self.n_features_in_ = 3
        # Every cell is said to be true or false, so that none is to be calibrated.
        plain = clone(self.estimator).set_params(calibrate=False, keep_facts=False)
        self.estimator_ = plain.fit(self._facts(cells, truth))
        return self

    def _facts(self, cells: Columns, truth: Mask) -> Facts:
        if self.unlisted not in ("unobserved", "zero"):
            raise InputError(f"unlisted must be 'unobserved' or 'zero', got {self.unlisted!r}")
        s, k, o = cells
        entities = vocabulary(self.entity_names, self.n_entities, (s, o), "entity")
        relations = vocabulary(self.relation_names, self.n_relations, (k,), "relation")
        ids = stack(entities.ids(s), relations.ids(k), entities.ids(o))
        facts = Facts.from_ids(ids[truth], entities, relations)
        both = facts.contains(ids) & ~truth
        if both.any():
            named = " | ".join(facts.named(ids[both][:1])[0])
            raise InputError(f"a cell cannot be both true and false, got {named}")
        if self.unlisted == "zero":
            return facts
        if facts.n_cells > MAX_CELLS_UNOBSERVED:
            raise InputError(
                f"{facts.n_cells:,} cells are too many to list those not in X as unobserved; use unlisted='zero'"
            )
        unlisted = np.setdiff1d(np.arange(facts.n_cells), cell_keys(ids, facts.n_entities))
        return facts.hold_out(cells_of(unlisted, facts.n_entities), masked=True)

    def decision_function(self, X: ArrayLike) -> Vector:
        """θ of each cell."""
        check_is_fitted(self)
        return self.estimator_.factors_.score(*_checked_cells(X))  # type: ignore[no-any-return]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probabilities of false and true of each cell, (n, 2)."""
        check_is_fitted(self)
        cells, factors = _checked_cells(X), self.estimator_.factors_
        theta = factors.score(*cells)
        p = np.asarray(factors.link.probability(theta, factors.relations.ids(cells[1])), np.float64)
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more likely truth value of each cell."""
        predicted = (self.predict_proba(X)[:, 1] > 0.5).astype(int)
        return self.classes_[predicted]  # type: ignore[no-any-return]


def _checked_cells(X: ArrayLike) -> Columns:
    """Subjects, relations and objects, each by id or by name."""
    cells = np.asarray(X)
    if cells.ndim != 2 or cells.shape[1] != 3 or not len(cells):
        raise InputError(f"X must be a non-empty (n, 3) array of cells, got shape {cells.shape}")
    if cells.dtype.kind not in "iuUOT":
        raise InputError(f"X must contain names or ids, whole numbers from 0, got values of type {cells.dtype}")
    s, k, o = (id_or_name_column(column, "cells") for column in cells.T)
    return s, k, o


def _checked_truth(y: ArrayLike) -> Mask:
    truth = np.asarray(y)
    if truth.ndim != 1 or not np.isin(truth, (0, 1)).all():
        raise InputError("y must contain the truth of each cell: 0 or 1, False or True")
    if len(np.unique(truth)) < 2:
        raise InputError("y must contain both true and false cells, got only one kind")
    return truth.astype(bool)
