"""An adapter for scikit-learn: cells as rows of X, their truth as y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..arrays import Mask, Triples, Vector
from ..data.cell_keys import cell_keys, cells_of
from ..data.facts import Facts
from ..errors import InputError
from ..fit.estimators.base import Estimator

MAX_CELLS_UNOBSERVED = 20_000_000  # cells not in X are listed one by one as unobserved


@dataclass(eq=False, repr=False)
class CellClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A relatent estimator as a scikit-learn classifier of cells.

    X is an (n, 3) array of ids (subject, relation, object), y the truth of each cell. Cells that are not in X are
    unobserved in the fit, so `cross_val_score` and `GridSearchCV` mask the cells they hold out.

    Parameters
    ----------
    estimator : RescalALS, RescalLogit, …; its settings are `estimator__rank` and so on
    n_entities, n_relations : size of the graph; None: the largest ids in X, which a fold of X may lack
    unlisted : "unobserved", or "zero": cells not in X are false, for knowledge graphs that list only true cells

    >>> import numpy as np, relatent
    >>> X = np.array([[s, 0, o] for s in range(4) for o in range(4)])
    >>> y = X[:, 0] < X[:, 2]
    >>> model = relatent.CellClassifier(relatent.RescalLogit(rank=4, l2_entities=0.1, l2_relations=0.1))
    >>> bool((model.fit(X, y).predict(X) == y).all())
    True
    """

    estimator: Estimator | None = None
    n_entities: int | None = None
    n_relations: int | None = None
    unlisted: str = "unobserved"

    def fit(self, X: ArrayLike, y: ArrayLike) -> CellClassifier:
        """Fit the estimator to cells and their truth."""
        if self.estimator is None:
            raise InputError("estimator must be given, for example CellClassifier(RescalLogit(rank=10))")
        cells, truth = _checked_cells(X), _checked_truth(y)
        if len(cells) != len(truth):
            raise InputError(f"X and y must be equally long, got {len(cells)} and {len(truth)}")
        self.classes_ = np.unique(np.asarray(y))
        self.n_features_in_ = 3
        self.estimator_ = clone(self.estimator).fit(self._facts(cells, truth))
        return self

    def _facts(self, cells: Triples, truth: Mask) -> Facts:
        if self.unlisted not in ("unobserved", "zero"):
            raise InputError(f"unlisted must be 'unobserved' or 'zero', got {self.unlisted!r}")
        facts = Facts.from_arrays(*cells[truth].T, n_entities=self._size(0, cells), n_relations=self._size(1, cells))
        facts.entities.ids(cells[:, [0, 2]]), facts.relations.ids(cells[:, 1])  # false cells must be in range too
        both = facts.contains(cells) & ~truth
        if both.any():
            raise InputError(f"a cell cannot be both true and false, got {cells[both][0].tolist()}")
        if self.unlisted == "zero":
            return facts
        if facts.n_cells > MAX_CELLS_UNOBSERVED:
            raise InputError(
                f"{facts.n_cells:,} cells are too many to list those not in X as unobserved; use unlisted='zero'"
            )
        unlisted = np.setdiff1d(np.arange(facts.n_cells), cell_keys(cells, facts.n_entities))
        return facts.hold_out(cells_of(unlisted, facts.n_entities), masked=True)

    def _size(self, column: int, cells: Triples) -> int:
        given = self.n_relations if column else self.n_entities
        ids = cells[:, 1] if column else cells[:, [0, 2]]
        return given if given is not None else int(ids.max()) + 1

    def decision_function(self, X: ArrayLike) -> Vector:
        """θ of each cell."""
        check_is_fitted(self)
        return self.estimator_.factors_.score(*_checked_cells(X).T)  # type: ignore[no-any-return]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probabilities of false and true of each cell, (n, 2)."""
        check_is_fitted(self)
        p = np.asarray(self.estimator_.factors_.probability(*_checked_cells(X).T), np.float64)
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more likely truth value of each cell."""
        predicted = (self.predict_proba(X)[:, 1] > 0.5).astype(int)
        return self.classes_[predicted]  # type: ignore[no-any-return]


def _checked_cells(X: ArrayLike) -> Triples:
    cells = np.asarray(X)
    if cells.ndim != 2 or cells.shape[1] != 3 or not len(cells):
        raise InputError(f"X must be a non-empty (n, 3) array of cells, got shape {cells.shape}")
    if cells.dtype.kind not in "iu":
        raise InputError(f"X must contain ids, whole numbers from 0, got values of type {cells.dtype}")
    return cells


def _checked_truth(y: ArrayLike) -> Mask:
    truth = np.asarray(y)
    if truth.ndim != 1 or not np.isin(truth, (0, 1)).all():
        raise InputError("y must contain the truth of each cell: 0 or 1, False or True")
    if len(np.unique(truth)) < 2:
        raise InputError("y must contain both true and false cells, got only one kind")
    return truth.astype(bool)
