"""relatent learns from facts (subject, relation, object) and predicts which others are true.

Public names are imported when first used, so that `import relatent` and the command line answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .analysis.duplicates import DuplicatePair, Duplicates, Merge, duplicates
    from .analysis.explain import Explanation, LatentComponent, Reason, explain
    from .analysis.groups import EntityGroup, TypicalFact, groups
    from .analysis.similarity import SimilarEntity, similar
    from .baselines.irm import IRM
    from .baselines.mln import MarkovLogic
    from .baselines.mrc import MRC
    from .data.catalog import datasets, load_dataset, load_splits
    from .data.facts import Facts
    from .data.heldout import HeldOut
    from .data.read.delimited import read
    from .data.split import presidents_folds, split
    from .distributed.workers import Workers
    from .errors import (
        CheckpointWarning,
        ConvergenceWarning,
        DataError,
        DataWarning,
        DownloadError,
        FitError,
        InputError,
        LostWorkerError,
        ModelFileError,
        RelatentError,
        RelatentWarning,
        UnknownNameError,
        VanishedWarning,
    )
    from .evaluation.calibration import Calibrated
    from .evaluation.cell_classifier import CellClassifier
    from .evaluation.cross_validation import cross_validate
    from .evaluation.metrics import Metrics
    from .evaluation.ranking import Ranking, RankSummary, evaluate
    from .evaluation.reliability import Reliability
    from .evaluation.report import Fold, Report
    from .evaluation.search_space import Candidate
    from .evaluation.tuning import tune
    from .evaluation.tuning_report import Trial, Tuned
    from .fit.checkpoint import Checkpoint
    from .fit.estimators.als import RescalALS
    from .fit.estimators.nonnegative import NonnegativeRescal
    from .fit.estimators.rescal import Rescal, RescalLogit
    from .fit.losses import Softmax
    from .fit.optimisers import Adam, Lbfgs
    from .fit.penalties import L2, N3, Dura
    from .fit.presets import preset
    from .model.factors import Factors, Top, load
    from .plots.figures import plot_reliability

_HOME = {
    "Facts": ".data.facts",
    "HeldOut": ".data.heldout",
    "read": ".data.read.delimited",
    "datasets": ".data.catalog",
    "load_dataset": ".data.catalog",
    "load_splits": ".data.catalog",
    "split": ".data.split",
    "presidents_folds": ".data.split",
    "RescalALS": ".fit.estimators.als",
    "RescalLogit": ".fit.estimators.rescal",
    "Rescal": ".fit.estimators.rescal",
    "NonnegativeRescal": ".fit.estimators.nonnegative",
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
    "load": ".model.factors",
    "duplicates": ".analysis.duplicates",
    "similar": ".analysis.similarity",
    "groups": ".analysis.groups",
    "explain": ".analysis.explain",
    "cross_validate": ".evaluation.cross_validation",
    "evaluate": ".evaluation.ranking",
    "plot_reliability": ".plots.figures",
    "tune": ".evaluation.tuning",
    "CellClassifier": ".evaluation.cell_classifier",
    "Calibrated": ".evaluation.calibration",
    "Workers": ".distributed.workers",
    "RelatentError": ".errors",
    "ConvergenceWarning": ".errors",
    "DataWarning": ".errors",
    "InputError": ".errors",
    "UnknownNameError": ".errors",
    "DataError": ".errors",
    "ModelFileError": ".errors",
    "DownloadError": ".errors",
    "FitError": ".errors",
    "LostWorkerError": ".errors",
    "RelatentWarning": ".errors",
    "VanishedWarning": ".errors",
    "CheckpointWarning": ".errors",
    "Checkpoint": ".fit.checkpoint",
    "Top": ".model.factors",
    "SimilarEntity": ".analysis.similarity",
    "EntityGroup": ".analysis.groups",
    "TypicalFact": ".analysis.groups",
    "Explanation": ".analysis.explain",
    "Reason": ".analysis.explain",
    "LatentComponent": ".analysis.explain",
    "Duplicates": ".analysis.duplicates",
    "DuplicatePair": ".analysis.duplicates",
    "Merge": ".analysis.duplicates",
    "Report": ".evaluation.report",
    "Fold": ".evaluation.report",
    "Metrics": ".evaluation.metrics",
    "Reliability": ".evaluation.reliability",
    "Ranking": ".evaluation.ranking",
    "RankSummary": ".evaluation.ranking",
    "Tuned": ".evaluation.tuning_report",
    "Trial": ".evaluation.tuning_report",
    "Candidate": ".evaluation.search_space",
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
    "plot_reliability",
    "tune",
    "CellClassifier",
    "Calibrated",
    "Workers",
    "RelatentError",
    "ConvergenceWarning",
    "DataWarning",
    "InputError",
    "UnknownNameError",
    "DataError",
    "ModelFileError",
    "DownloadError",
    "FitError",
    "LostWorkerError",
    "RelatentWarning",
    "VanishedWarning",
    "CheckpointWarning",
    "Checkpoint",
    "Top",
    "SimilarEntity",
    "EntityGroup",
    "TypicalFact",
    "Explanation",
    "Reason",
    "LatentComponent",
    "Duplicates",
    "DuplicatePair",
    "Merge",
    "Report",
    "Fold",
    "Metrics",
    "Reliability",
    "Ranking",
    "RankSummary",
    "Tuned",
    "Trial",
    "Candidate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'relatent' has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
