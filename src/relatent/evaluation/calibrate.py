"""`calibrate`: probabilities for a model that exists."""

from __future__ import annotations

import dataclasses
import warnings

from ..data.facts import Facts
from ..errors import InputError, RelatentWarning
from ..fit import calibration
from ..model.factors import Factors
from ..model.vocabulary import check_shared
from ..progress import Progress
from ..random_state import RandomState, to_seed
from .model_names import stored_estimator


def calibrate(
    factors: Factors,
    *,
    known: Facts | None = None,
    validation: Facts | None = None,
    missing: float | None = None,
    random_state: RandomState = 0,
    progress: bool | Progress | None = None,
) -> Factors:
    """A model that exists with calibrated probabilities of unlisted cells; its scores stay as they are.

    The facts that the model was fitted to cannot tell how it ranks others. `validation`, facts that it was not fitted
    to, can, without another fit. Otherwise a fit with the settings of the model holds out a part of its facts, as
    every fit does by itself.

    Parameters
    ----------
    factors : the model
    known : the facts that it was fitted to, if it does not hold them
    validation : facts that it was not fitted to
    missing : share of the true facts that are not listed, the validation facts among them; None assumes a tenth
    random_state : seed of the facts that are held out, and of samples of cells
    progress : True for a progress bar, or a callback (done, total, note)

    >>> import relatent
    >>> train, valid = relatent.split(relatent.load_dataset("kinships"), test_size=0.1)
    >>> model = relatent.RescalALS(rank=10, calibrate=False).fit(train).factors_
    >>> relatent.calibrate(model, validation=valid).calibration.missing
    0.1
    """
    calibration.check_missing(missing)
    seed = to_seed(random_state)
    facts = factors.facts_with(known)
    if validation is None:
        estimator = stored_estimator(factors).set_params(calibrate=True, missing=missing, keep_facts=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RelatentWarning)  # the fit of the model has said it
            found = estimator.calibration_of(factors, facts, seed, progress=progress)
    else:
        trial = calibration.HeldOutFit(factors, unseen_facts(factors, facts, validation))
        found = calibration.learn(factors, facts, [trial], missing=missing, is_listed=False, random_state=seed)
    return dataclasses.replace(factors, R=factors.relation_matrices, calibration=found)


def unseen_facts(factors: Factors, facts: Facts, validation: Facts) -> Facts:
    """The validation facts that a model of these facts has not seen; InputError if there are none."""
    check_shared(factors.entities, factors.relations, validation, "validation facts")
    unseen = factors.as_undirected(validation).over(factors.entities, factors.relations)
    unseen = unseen.subset(~facts.contains(unseen.triples))
    if not len(unseen):
        raise InputError(f"none of the {len(validation):,} validation facts is new to the model; give others")
    return unseen
