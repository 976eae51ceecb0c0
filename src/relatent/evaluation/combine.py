"""`combine`: several models of the same facts as one, whose scores are added."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ..data.facts import Facts
from ..errors import InputError, RelatentWarning
from ..fit.calibration import check_missing
from ..model.direct_sum import direct_sum
from ..model.factors import Factors
from ..progress import Progress
from ..random_state import RandomState, to_seed
from .calibrate import unseen_facts
from .model_names import stored_estimator


def combine(
    models: Sequence[Factors],
    *,
    weights: Sequence[float] | None = None,
    calibrate: bool | None = None,
    known: Facts | None = None,
    validation: Facts | None = None,
    missing: float | None = None,
    random_state: RandomState = 0,
    progress: bool | Progress | None = None,
) -> Factors:
    """The sum of models of the same facts: one model, whose score by factors is the sum of theirs.

    Fits that differ in structure, rank or seed err in different places, so that their sum often ranks better than the
    best of them. It has the size of its parts together, and does whatever each of them does.

    The patterns and probabilities of the parts are not those of the sum: they are learned anew, from sums of fits of
    the parts without some of the facts, which takes about as long as the fits of the parts took. With `validation` no
    fit is needed.

    Parameters
    ----------
    models : at least two, of the same facts, with losses whose scores have one scale: of one loss, or of logistic and
        softmax losses
    weights : of the scores of each model, above 0; None: 1 each. The order of answers does not change if all weights
        are multiplied by one number
    calibrate : whether the sum gets patterns and probabilities; None: if all the models have probabilities of unlisted
        cells
    known : the facts that the models were fitted to, if they do not hold them
    validation : facts that the models were not fitted to, to learn probabilities from
    missing : share of the true facts that are not listed; None: that of the models
    random_state : seed of the facts that are held out
    progress : True for a progress bar, or a callback (done, total, note)

    >>> import relatent
    >>> facts = relatent.load_dataset("kinships")
    >>> parts = [relatent.RescalALS(rank=5, random_state=seed, calibrate=False).fit(facts).factors_ for seed in (0, 1)]
    >>> relatent.combine(parts).rank
    10
    """
    models = list(models)
    for model in models:
        if not isinstance(model, Factors):
            raise InputError(f"combine takes Factors, got {type(model).__name__}; see relatent.load")
    if len(models) < 2:
        raise InputError(f"a sum needs at least two models, got {len(models)}")
    check_missing(missing)
    found = direct_sum(models, weights)
    if calibrate is None:
        calibrate = validation is not None or all(model.calibration is not None for model in models)
    if not calibrate:
        return found
    facts, seed = found.facts_with(known), to_seed(random_state)
    missing = _missing(models) if missing is None else missing
    estimator = stored_estimator(found)
    estimator.missing = missing
    unseen = None if validation is None else unseen_facts(found, facts, validation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RelatentWarning)  # the fits of the models have said it
        return estimator.completed(found, facts, seed, unseen=unseen, progress=progress)


def _missing(models: Sequence[Factors]) -> float | None:
    """The share of missing facts that the models assume; None if nobody gave it."""
    known = [model.calibration for model in models if model.calibration is not None]
    given = {calibration.missing for calibration in known if not calibration.is_assumed}
    if len(given) > 1:
        shares = " and ".join(f"{share:g}" for share in sorted(given))
        raise InputError(
            f"the models assume that shares of {shares} of the facts are missing; say which, by missing= or --missing"
        )
    return next(iter(given), None)
