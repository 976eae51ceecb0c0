"""Every model by its short name, as used on the command line and in Table 1, and the estimator of a fitted model."""

from __future__ import annotations

from ..baselines.irm import IRM
from ..baselines.mln import MarkovLogic
from ..baselines.mrc import MRC
from ..errors import InputError
from ..fit import settings
from ..fit.estimators.als import RescalALS
from ..fit.estimators.base import Estimator
from ..fit.estimators.nonnegative import NonnegativeRescal
from ..fit.estimators.rescal import Rescal
from ..fit.estimators.rescal_logit import RescalLogit
from ..model.factors import Factors

MODELS: dict[str, type[Estimator]] = {
    "als": RescalALS,
    "logit": RescalLogit,
    "rescal": Rescal,
    "nonnegative": NonnegativeRescal,
    "irm": IRM,
    "mrc": MRC,
    "mln": MarkovLogic,
}


def stored_estimator(factors: Factors) -> Estimator:
    """An estimator with the settings of the fit, those that it chose included; it starts anew, from no factors."""
    about = factors.about
    kind = next((kind for kind in MODELS.values() if kind.__name__ == about.model), None)
    if kind is None or not about.settings:
        raise InputError("the model does not say how it was fitted; fit it again")
    known = kind().get_params(deep=False)
    given = {name: value for name, value in about.settings.items() if name in known}
    if isinstance(given.get("init"), dict):  # factors, which are not kept
        del given["init"]
    return kind(**settings.from_json(given))
