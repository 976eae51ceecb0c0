"""relatent learns from facts (subject, relation, object) and predicts which others are true.

Public names are imported when first used, so that `import relatent` and the command line answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .baselines.irm import IRM
    from .baselines.mln import MarkovLogic
    from .baselines.mrc import MRC
    from .data.catalog import datasets, load_dataset, load_splits
    from .data.facts import Facts
    from .data.heldout import HeldOut
    from .data.read import read
    from .data.split import presidents_folds, split
    from .errors import ConvergenceWarning, DataWarning, RelatentError
    from .evaluation.calibration import Calibrated
    from .evaluation.classifier import CellClassifier
    from .evaluation.folds import cross_validate
    from .evaluation.ranks import evaluate
    from .evaluation.tuning import tune
    from .fit.estimators import NonnegativeRescal, Rescal, RescalALS, RescalLogit
    from .fit.losses import Softmax
    from .fit.optimisers import Adam, Lbfgs
    from .fit.penalties import L2, N3, Dura
    from .fit.presets import preset
    from .model.factors import Factors
    from .model.storage import load
    from .serve.duplicates import duplicates
    from .serve.queries import explain, groups, similar
    from .workers import Workers

_HOME = {
    "Facts": ".data.facts",
    "HeldOut": ".data.heldout",
    "read": ".data.read",
    "datasets": ".data.catalog",
    "load_dataset": ".data.catalog",
    "load_splits": ".data.catalog",
    "split": ".data.split",
    "presidents_folds": ".data.split",
    "RescalALS": ".fit.estimators",
    "RescalLogit": ".fit.estimators",
    "Rescal": ".fit.estimators",
    "NonnegativeRescal": ".fit.estimators",
    "preset": ".fit.presets",
    "Softmax": ".fit.losses",
    "Dura": ".fit.penalties",
    "N3": ".fit.penalties",
    "L2": ".fit.penalties",
    "Adam": ".fit.optimisers",
    "Lbfgs": ".fit.optimisers",
    "IRM": ".baselines.irm",
    "MRC": ".baselines.mrc",
    "MarkovLogic": ".baselines.mln",
    "Factors": ".model.factors",
    "load": ".model.storage",
    "duplicates": ".serve.duplicates",
    "similar": ".serve.queries",
    "groups": ".serve.queries",
    "explain": ".serve.queries",
    "cross_validate": ".evaluation.folds",
    "evaluate": ".evaluation.ranks",
    "tune": ".evaluation.tuning",
    "CellClassifier": ".evaluation.classifier",
    "Calibrated": ".evaluation.calibration",
    "Workers": ".workers",
    "RelatentError": ".errors",
    "ConvergenceWarning": ".errors",
    "DataWarning": ".errors",
}

__all__ = [
    "Facts",
    "HeldOut",
    "read",
    "datasets",
    "load_dataset",
    "load_splits",
    "split",
    "presidents_folds",
    "RescalALS",
    "RescalLogit",
    "Rescal",
    "NonnegativeRescal",
    "preset",
    "Softmax",
    "Dura",
    "N3",
    "L2",
    "Adam",
    "Lbfgs",
    "IRM",
    "MRC",
    "MarkovLogic",
    "Factors",
    "load",
    "duplicates",
    "similar",
    "groups",
    "explain",
    "cross_validate",
    "evaluate",
    "tune",
    "CellClassifier",
    "Calibrated",
    "Workers",
    "RelatentError",
    "ConvergenceWarning",
    "DataWarning",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'relatent' has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
