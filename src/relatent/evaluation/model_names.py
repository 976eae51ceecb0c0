"""Every model by its short name, as used on the command line and in Table 1, and the estimator of a fitted model.

Nothing is imported before it is used: `relatent fit --help` shows the names without waiting for the models.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..fit.estimators.base import Estimator
    from ..model.factors import Factors

MODEL_CLASSES = {  # as module:class
    "als": "fit.estimators.als:RescalALS",
    "logit": "fit.estimators.rescal_logit:RescalLogit",
    "rescal": "fit.estimators.rescal:Rescal",
    "nonnegative": "fit.estimators.nonnegative:NonnegativeRescal",
    "irm": "baselines.irm:IRM",
    "mrc": "baselines.mrc:MRC",
    "mln": "baselines.mln:MarkovLogic",
}


def import_class(path: str) -> Any:
    """The class at module:class."""
    module, name = path.split(":")
    return getattr(import_module(f"relatent.{module}"), name)


@cache
def estimators() -> dict[str, type[Estimator]]:
    """The class of each model."""
    return {name: import_class(path) for name, path in MODEL_CLASSES.items()}


def stored_estimator(factors: Factors) -> Estimator:
    """An estimator with the settings of the fit, those that it chose included; it starts anew, from no factors.

    That of a sum of models adds the models of their estimators.
    """
    from ..fit.estimators.summed import Summed
    from ..fit.settings import from_json

    if factors.summands:
        weights = [part.weight for part in factors.summands]
        return Summed([stored_estimator(part) for part in factors.parts], weights)

    about = factors.about
    kind = next((kind for kind in estimators().values() if kind.__name__ == about.model), None)
    if kind is None or not about.settings:
        raise InputError("the model does not say how it was fitted; fit it again")
    known = kind().get_params(deep=False)
    given = {name: value for name, value in about.settings.items() if name in known}
    if isinstance(given.get("init"), dict):  # factors, which are not kept
        del given["init"]
    return kind(**from_json(given))
