"""Every model by its short name, as the command line and Table 1 call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..baselines.irm import IRM
from ..baselines.mln import MarkovLogic
from ..baselines.mrc import MRC
from ..fit.estimators.als import RescalALS
from ..fit.estimators.nonnegative import NonnegativeRescal
from ..fit.estimators.rescal import Rescal, RescalLogit

MODELS: dict[str, Callable[..., Any]] = {
    "als": RescalALS,
    "logit": RescalLogit,
    "rescal": Rescal,
    "nonnegative": NonnegativeRescal,
    "irm": IRM,
    "mrc": MRC,
    "mln": MarkovLogic,
}
