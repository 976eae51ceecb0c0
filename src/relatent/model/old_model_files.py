"""Loss and penalty of model files of versions 1 and 2, which have no fields for them.

Those files tell them only by the settings of the estimator, in which objects are written as their `repr`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .objective_description import CATEGORICAL, ObjectiveTerm

LOSS_OF_ESTIMATOR = {
    "RescalALS": "squared",
    "NonnegativeRescal": "squared",
    "RescalLogit": "logistic",
    "IRM": "block-model",
    "MRC": "clustered-relations",
    "MarkovLogic": "pseudo-likelihood",
}
NAME_OF_CLASS = {"SmoothHinge": "hinge"}  # every other loss and penalty is its class name in lower case
NEW_PARAMETERS = {("softmax", "relations"): "relation_weight", ("softmax", "hubs"): "degree_weight"}


def terms_from_settings(
    about: Mapping[str, Any], *, exclusive: bool
) -> tuple[ObjectiveTerm | None, ObjectiveTerm | None]:
    """The loss and the penalty, each None where the settings do not tell it."""
    model, settings = about.get("model"), about.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    loss = _term_from_repr(settings.get("loss") or (LOSS_OF_ESTIMATOR.get(model) if isinstance(model, str) else None))
    if exclusive:
        loss = ObjectiveTerm(CATEGORICAL)
    penalty = _term_from_repr(settings.get("penalty"))
    if model == "NonnegativeRescal":
        weights = {name: value for name, value in settings.items() if name.startswith(("l1_", "l2_"))}
        penalty = ObjectiveTerm("nonnegative", weights)
    elif penalty is None and "l2_entities" in settings:
        weights = {"entities": settings["l2_entities"], "relations": settings.get("l2_relations", 0.0)}
        penalty = ObjectiveTerm("l2", weights)
    return loss, penalty


def _term_from_repr(text: object) -> ObjectiveTerm | None:
    """A term from "logistic", "Logistic()" or "Dura(weight=0.05)"."""
    if not isinstance(text, str):
        return None
    call = re.fullmatch(r"(\w+)\((?:\w+=[^,()=]+(?:, \w+=[^,()=]+)*)?\)", text)
    if call is None:
        return ObjectiveTerm(text)
    numbers = re.findall(r"(\w+)=(-?\d+(?:\.\d*)?(?:e[-+]?\d+)?)", text)
    name = NAME_OF_CLASS.get(call[1], call[1].lower())
    return ObjectiveTerm(name, {NEW_PARAMETERS.get((name, old), old): float(value) for old, value in numbers})
