"""Every model by its short name, as used on the command line and in Table 1."""

from __future__ import annotations

from collections.abc import Callable

from ..baselines.irm import IRM
from ..baselines.mln import MarkovLogic
from ..baselines.mrc import MRC
from ..fit.estimators.als import RescalALS
from ..fit.estimators.base import Estimator
from ..fit.estimators.nonnegative import NonnegativeRescal
from ..fit.estimators.rescal import Rescal
from ..fit.estimators.rescal_logit import RescalLogit

MODELS: dict[str, Callable[..., Estimator]] = {
    "als": RescalALS,
    "logit": RescalLogit,
    "rescal": Rescal,
    "nonnegative": NonnegativeRescal,
    "irm": IRM,
    "mrc": MRC,
    "mln": MarkovLogic,
}
