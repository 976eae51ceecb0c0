"""The result of cross-validation: metrics with the protocol they were measured under."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Vector
from ..data.heldout import HeldOut
from ..data.names import Names
from ..fit import settings
from ..json_values import to_json_object
from ..result_tables import Result, html_table
from .metrics import Metrics, Predicted, measure, pooled
from .reliability import ABOVE, Reliability, reliability

FIGURES = ("auc_pr", "average_precision", "auc_roc", "brier", "log_loss")


@dataclass(frozen=True, eq=False, repr=False)
class Fold(Result):
    """One fold: its metrics, the settings used, and every prediction.

    >>> import relatent
    >>> model, facts = relatent.RescalALS(5, l2_entities=0.1, l2_relations=0.1), relatent.load_dataset("presidents")
    >>> fold = relatent.cross_validate(model, facts, folds=2).folds[0]
    >>> len(fold.scores) == len(fold.heldout.cells) == fold.to_dict()["n_cells"]
    True
    """

    metrics: Metrics
    baselines: dict[str, Metrics]
    settings: dict[str, Any]
    heldout: HeldOut
    scores: Vector
    probabilities: Vector
    seconds: float
    steps: int
    converged: bool
    vanished: bool = False  # all factors have shrunk to zero

    @property
    def auc_pr(self) -> float:
        """Area under the precision-recall curve, trapezoid."""
        return self.metrics.auc_pr

    @property
    def average_precision(self) -> float:
        """Area under the precision-recall curve, step-wise."""
        return self.metrics.average_precision

    def to_dict(self) -> dict[str, Any]:
        """Everything except the single predictions, as JSON values."""
        fields = {name: getattr(self, name) for name in ("steps", "converged", "vanished", "seconds")}
        return to_json_object({**self.metrics._asdict(), "settings": settings.to_json(self.settings), **fields})

    def __repr__(self) -> str:
        return f"Fold(auc_pr {self.auc_pr:.3f}, average_precision {self.average_precision:.3f}, {self.settings})"


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """Means and spread over folds, baselines, and the protocol; the result of `cross_validate`.

    `to_pandas` has one row per fold.

    >>> import relatent
    >>> facts = relatent.load_dataset("kinships")
    >>> report = relatent.cross_validate(relatent.RescalALS(rank=5), facts, folds=3, n_jobs=1)
    >>> sorted(report.baselines)
    ['base rate', 'relation frequency']
    >>> report.to_pandas().shape
    (3, 12)
    """

    folds: tuple[Fold, ...]
    relations: Names
    heldout: str
    scores: str
    random_state: int
    sampled_zeros: bool
    leaky: bool
    searched: int  # settings tried inside each training fold; 0 without a search
    metric: str

    def _mean(self, figure: str) -> float:
        return _nan_mean([getattr(fold.metrics, figure) for fold in self.folds])

    @property
    def auc_pr(self) -> float:
        """Mean area under the precision-recall curve, trapezoid (the paper's)."""
        return self._mean("auc_pr")

    @property
    def auc_pr_std(self) -> float:
        """Standard deviation of `auc_pr` over the folds."""
        known = [fold.auc_pr for fold in self.folds if not np.isnan(fold.auc_pr)]
        return float(np.std(known)) if known else float("nan")

    @property
    def average_precision(self) -> float:
        """Mean area under the precision-recall curve, step-wise."""
        return self._mean("average_precision")

    @property
    def auc_roc(self) -> float:
        """Mean area under the ROC curve."""
        return self._mean("auc_roc")

    @property
    def brier(self) -> float:
        """Mean squared error of the probabilities."""
        return self._mean("brier")

    @property
    def log_loss(self) -> float:
        """Mean −log likelihood of the truth under the probabilities."""
        return self._mean("log_loss")

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean gap in `reliability`; NaN if no cell has p > 0.05."""
        return self.reliability.error

    @cached_property
    def reliability(self) -> Reliability:
        """Predicted probability and fraction of true cells, over the held-out cells of all folds with p > 0.05."""
        heldout, _, probabilities = self._pooled
        return reliability(heldout.truth, probabilities, heldout.weights, above=ABOVE)

    @cached_property
    def _pooled(self) -> Predicted:
        return pooled([Predicted(fold.heldout, fold.scores, fold.probabilities) for fold in self.folds])

    @property
    def seconds(self) -> float:
        """Total seconds of the fits on the folds, without a search."""
        return sum(fold.seconds for fold in self.folds)

    @cached_property
    def per_relation(self) -> dict[str, Metrics]:
        """Metrics of each relation over the held-out cells of all folds together."""
        heldout, scores, probabilities = self._pooled
        cells, truth, w = heldout.cells, heldout.truth, heldout.weights
        rows = {k: cells[:, 1] == k for k in np.unique(cells[:, 1]).tolist()}
        return {
            self.relations[k]: measure(truth[at], scores[at], probabilities[at], None if w is None else w[at])
            for k, at in rows.items()
        }

    @property
    def baselines(self) -> dict[str, dict[str, float]]:
        """Mean metrics of predictions that need no model."""
        names = self.folds[0].baselines
        return {
            name: {
                figure: _nan_mean([getattr(fold.baselines[name], figure) for fold in self.folds]) for figure in FIGURES
            }
            for name in names
        }

    @property
    def protocol(self) -> str:
        """One line that says how the metrics were measured."""
        parts = [
            f"{len(self.folds)} folds",
            "held-out cells masked" if self.heldout == "masked" else "held-out cells set to zero",
            f"{self.scores} scores",
        ]
        if self.sampled_zeros:
            parts.append("zeros sampled and re-weighted")
        if self.leaky:
            parts.append("LEAKY: a symmetric relation's (i, j) gives away (j, i)")
        if self.searched:
            parts.append(f"best of {self.searched} settings by {self.metric} inside each training fold")
        return ", ".join([*parts, f"seed {self.random_state}"])

    def __repr__(self) -> str:
        return f"Report(auc_pr {self.auc_pr:.3f} ± {self.auc_pr_std:.3f}; {self.protocol})"

    def to_dict(self) -> dict[str, Any]:
        """Everything except the single predictions, as JSON values."""
        found = {
            "protocol": self.protocol,
            "heldout": self.heldout,
            "scores": self.scores,
            "random_state": self.random_state,
            "sampled_zeros": self.sampled_zeros,
            "leaky": self.leaky,
            **{figure: self._mean(figure) for figure in FIGURES},
            "auc_pr_std": self.auc_pr_std,
            "ece": self.ece,
            "reliability": [
                dict(zip(Reliability._fields, row, strict=True)) for row in np.stack(self.reliability, axis=1).tolist()
            ],
            "folds": [fold.to_dict() for fold in self.folds],
            "per_relation": self.per_relation,
            "baselines": self.baselines,
        }
        return to_json_object(found)

    def _table(self) -> list[dict[str, Any]]:
        """One row per fold."""
        return [fold.to_dict() for fold in self.folds]

    def _repr_html_(self) -> str:
        """The mean figures beside those of the baselines."""
        figures = {"model": {figure: self._mean(figure) for figure in FIGURES}, **self.baselines}
        return html_table(repr(self), [{"": name, **row} for name, row in figures.items()])


def _nan_mean(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
