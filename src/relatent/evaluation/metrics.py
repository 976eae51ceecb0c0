"""Metrics of predictions of true and false cells.

The area under the precision-recall curve is given twice. The trapezoid is what the paper reports; it interpolates
between precisions and starts at precision 1, so it rewards ties: a constant score gets (1 + base rate) / 2. Average
precision is the step-wise sum; a constant score gets the base rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn import metrics

from ..arrays import Mask, Vector
from ..data.heldout import HeldOut, log_loss
from ..errors import InputError
from ..result_tables import result_record


class Predicted(NamedTuple):
    """Held-out cells with the scores and probabilities of a fit without them."""

    heldout: HeldOut
    scores: Vector  # (n,) to rank by
    probabilities: Vector  # (n,)


def pooled(parts: Sequence[Predicted]) -> Predicted:
    """The held-out cells of several fits, concatenated."""
    folds = [part.heldout for part in parts]
    weights = [fold.weights for fold in folds if fold.weights is not None]  # zeros are sampled in all folds or in none
    return Predicted(
        HeldOut(
            np.concatenate([fold.cells for fold in folds]),
            np.concatenate([fold.truth for fold in folds]),
            np.concatenate(weights) if weights else None,
        ),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.probabilities for part in parts]),
    )


@result_record
class Metrics(NamedTuple):
    """How well scores and probabilities of cells agree with their truth.

    >>> Metrics(0.9, 0.89, 0.95, 0.05, 0.2, n_cells=100, n_true=10).n_true
    10
    """

    auc_pr: float
    average_precision: float
    auc_roc: float
    brier: float
    log_loss: float
    n_cells: int
    n_true: int


def measure(truth: Mask, scores: Vector, probabilities: Vector, weights: Vector | None = None) -> Metrics:
    """All metrics; NaN for curves without both true and false cells.

    >>> import numpy as np
    >>> from relatent.evaluation.metrics import measure
    >>> p = np.array([0.9, 0.2, 0.6])
    >>> measure(np.array([True, False, True]), p, p).auc_roc
    1.0
    """
    for name, values in (("scores", scores), ("probabilities", probabilities)):
        if not np.isfinite(values).all():
            raise InputError(
                f"{name} must be finite, got {np.sum(~np.isfinite(values))} that are not; did the fit diverge?"
            )
    truth = np.asarray(truth, bool)
    n_true = int(truth.sum())
    brier = float(np.average((probabilities - truth) ** 2, weights=weights)) if len(truth) else np.nan
    loss = log_loss(truth, probabilities, weights) if len(truth) else np.nan
    if n_true in (0, len(truth)):
        return Metrics(np.nan, np.nan, np.nan, brier, loss, len(truth), n_true)
    return Metrics(
        auc_pr=auc_pr(truth, scores, weights),
        average_precision=float(metrics.average_precision_score(truth, scores, sample_weight=weights)),
        auc_roc=float(metrics.roc_auc_score(truth, scores, sample_weight=weights)),
        brier=brier,
        log_loss=loss,
        n_cells=len(truth),
        n_true=n_true,
    )


def auc_pr(truth: Mask, scores: Vector, weights: Vector | None = None) -> float:
    """The area under the precision-recall curve by the trapezoid rule; NaN without both true and false cells.

    >>> import numpy as np
    >>> auc_pr(np.array([True, False]), np.zeros(2))  # (1 + base rate) / 2
    0.75
    """
    if truth.all() or not truth.any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    weight = np.ones(len(truth)) if weights is None else weights[order]
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(truth) - 1)  # of the cells with one score
    true, all_cells = np.cumsum(weight * truth[order])[last], np.cumsum(weight)[last]
    recall, precision = np.append(0.0, true / true[-1]), np.append(1.0, true / all_cells)
    return float(np.sum(np.diff(recall) * (precision[1:] + precision[:-1])) / 2)
