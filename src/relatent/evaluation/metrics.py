"""Figures for predictions of true and false cells.

AUC-PR is given twice. The trapezoid is what the paper reports; it interpolates between precisions and starts at
precision 1, so ties are rewarded: a constant score gets (1 + base rate) / 2. Average precision is the step-wise sum;
a constant score gets the base rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn import metrics

from ..arrays import Mask, Vector
from ..data.heldout import HeldOut, log_loss
from ..errors import InputError


class Predicted(NamedTuple):
    """Held-out cells and what a fit without them says of each."""

    heldout: HeldOut
    scores: Vector  # (n,) what to rank by
    probabilities: Vector  # (n,)


def pooled(parts: Sequence[Predicted]) -> Predicted:
    """The held-out cells of several fits, one after the other."""
    cuts = [part.heldout for part in parts]
    weights = [cut.weights for cut in cuts if cut.weights is not None]  # zeros are sampled for all of them or for none
    return Predicted(
        HeldOut(
            np.concatenate([cut.cells for cut in cuts]),
            np.concatenate([cut.truth for cut in cuts]),
            np.concatenate(weights) if weights else None,
        ),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.probabilities for part in parts]),
    )


class Metrics(NamedTuple):
    """How well scores and probabilities of cells agree with their truth."""

    auc_pr: float
    average_precision: float
    auc_roc: float
    brier: float
    log_loss: float
    n_cells: int
    n_true: int


def measure(truth: Mask, scores: Vector, probabilities: Vector, weights: Vector | None = None) -> Metrics:
    """All figures; NaN for those that need both true and false cells where there is only one kind."""
    for what, values in (("scores", scores), ("probabilities", probabilities)):
        if not np.isfinite(values).all():
            raise InputError(
                f"{what} must be finite, got {np.sum(~np.isfinite(values))} that are not; did the fit diverge?"
            )
    truth = np.asarray(truth, bool)
    n_true = int(truth.sum())
    brier = float(np.average((probabilities - truth) ** 2, weights=weights)) if len(truth) else np.nan
    loss = log_loss(truth, probabilities, weights) if len(truth) else np.nan
    if n_true in (0, len(truth)):
        return Metrics(np.nan, np.nan, np.nan, brier, loss, len(truth), n_true)
    precision, recall, _ = metrics.precision_recall_curve(truth, scores, sample_weight=weights)
    return Metrics(
        auc_pr=float(metrics.auc(recall, precision)),
        average_precision=float(metrics.average_precision_score(truth, scores, sample_weight=weights)),
        auc_roc=float(metrics.roc_auc_score(truth, scores, sample_weight=weights)),
        brier=brier,
        log_loss=loss,
        n_cells=len(truth),
        n_true=n_true,
    )
