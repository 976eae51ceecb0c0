"""relatent learns from facts (subject, relation, object) and predicts which other facts are true.

Public names are imported on first use, so that `import relatent` and `relatent --help` are fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .compile_cache import ensure_cache_folder

__version__ = "0.1.0"

ensure_cache_folder()

if TYPE_CHECKING:
    from .analysis.answers import Answer, Answers, answers
    from .analysis.doubt import DoubtfulFact, DoubtfulFacts, doubt
    from .analysis.duplicates import DuplicatePair, Duplicates, Merge, duplicates
    from .analysis.explain import Explanation, LatentComponent, Reason, explain
    from .analysis.groups import EntityGroup, TypicalFact, groups
    from .analysis.missing import MissingFact, MissingFacts, missing
    from .analysis.pattern_reasons import PatternReason
    from .analysis.rules import Rule, RulePath, rules
    from .analysis.similarity import SimilarEntity, similar
    from .baselines.irm import IRM
    from .baselines.mln import MarkovLogic
    from .baselines.mrc import MRC
    from .data.catalog import Dataset, datasets, load_dataset, load_negatives, load_splits
    from .data.facts import Facts
    from .data.facts_summary import NamedFact, RelationCounts
    from .data.heldout import HeldOut
    from .data.read.read import read
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
        PoorFitWarning,
        RelatentError,
        RelatentWarning,
        UnknownNameError,
        VanishedWarning,
    )
    from .evaluation.calibrate import calibrate
    from .evaluation.cell_classifier import CellClassifier
    from .evaluation.combine import combine
    from .evaluation.cross_validation import cross_validate
    from .evaluation.metrics import Metrics
    from .evaluation.rank_summary import RankSummary
    from .evaluation.ranking import Ranking, evaluate
    from .evaluation.reliability import Reliability
    from .evaluation.report import Fold, Report
    from .evaluation.search_space import Candidate
    from .evaluation.truth_test import TruthFigures, TruthTest, truth_test
    from .evaluation.tuning import tune
    from .evaluation.tuning_report import Trial, Tuned
    from .evaluation.update import update
    from .fit.checkpoint import Checkpoint
    from .fit.estimators.als import RescalALS
    from .fit.estimators.nonnegative import NonnegativeRescal
    from .fit.estimators.rescal import Rescal
    from .fit.estimators.rescal_logit import RescalLogit
    from .fit.losses import Softmax
    from .fit.optimisers import Adam, Lbfgs
    from .fit.penalties import L2, N3, Dura
    from .fit.presets import preset
    from .model.factors import Factors, load
    from .model.structure import Blocks, Shared
    from .model.top import Top
    from .plots.figures import plot_reliability
    from .result_tables import ResultList

# fmt: off
__all__ = [
    "Facts", "HeldOut", "read", "datasets", "load_dataset", "load_splits", "split", "presidents_folds", "RescalALS",
    "RescalLogit", "Rescal", "NonnegativeRescal", "preset", "Softmax", "Dura", "N3", "L2", "Adam", "Lbfgs", "IRM",
    "MRC", "MarkovLogic", "Factors", "load", "answers", "duplicates", "similar", "groups", "explain", "cross_validate",
    "evaluate", "plot_reliability", "tune", "CellClassifier", "Workers", "RelatentError",
    "ConvergenceWarning", "DataWarning", "InputError", "UnknownNameError", "DataError", "ModelFileError",
    "DownloadError", "FitError", "LostWorkerError", "RelatentWarning", "VanishedWarning", "PoorFitWarning",
    "CheckpointWarning",
    "Checkpoint", "Top", "SimilarEntity", "EntityGroup", "TypicalFact", "Explanation", "Reason", "LatentComponent",
    "Duplicates", "DuplicatePair", "Merge", "Report", "Fold", "Metrics", "Reliability", "Ranking", "RankSummary",
    "Tuned", "Trial", "Candidate", "load_negatives", "truth_test", "TruthTest", "TruthFigures", "Answers", "Answer",
    "Blocks", "Shared", "ResultList", "NamedFact", "RelationCounts", "Dataset", "missing", "MissingFacts",
    "MissingFact", "update", "doubt", "DoubtfulFacts", "DoubtfulFact", "calibrate", "rules",
    "Rule", "RulePath", "PatternReason", "combine",
]
# fmt: on

_EXPORTS = {  # module: its public names
    ".data.facts": "Facts",
    ".data.facts_summary": "NamedFact RelationCounts",
    ".data.heldout": "HeldOut",
    ".data.read.read": "read",
    ".data.catalog": "Dataset datasets load_dataset load_splits load_negatives",
    ".data.split": "split presidents_folds",
    ".fit.estimators.als": "RescalALS",
    ".fit.estimators.rescal": "Rescal",
    ".fit.estimators.rescal_logit": "RescalLogit",
    ".fit.estimators.nonnegative": "NonnegativeRescal",
    ".fit.presets": "preset",
    ".fit.losses": "Softmax",
    ".fit.penalties": "Dura N3 L2",
    ".fit.optimisers": "Adam Lbfgs",
    ".baselines.irm": "IRM",
    ".baselines.mrc": "MRC",
    ".baselines.mln": "MarkovLogic",
    ".model.factors": "Factors load",
    ".model.top": "Top",
    ".model.structure": "Blocks Shared",
    ".analysis.answers": "answers Answers Answer",
    ".analysis.duplicates": "duplicates Duplicates DuplicatePair Merge",
    ".analysis.doubt": "doubt DoubtfulFacts DoubtfulFact",
    ".analysis.missing": "missing MissingFacts MissingFact",
    ".analysis.pattern_reasons": "PatternReason",
    ".analysis.rules": "rules Rule RulePath",
    ".analysis.similarity": "similar SimilarEntity",
    ".analysis.groups": "groups EntityGroup TypicalFact",
    ".analysis.explain": "explain Explanation Reason LatentComponent",
    ".evaluation.cross_validation": "cross_validate",
    ".evaluation.ranking": "evaluate Ranking",
    ".evaluation.rank_summary": "RankSummary",
    ".evaluation.truth_test": "truth_test TruthTest TruthFigures",
    ".plots.figures": "plot_reliability",
    ".evaluation.tuning": "tune",
    ".evaluation.update": "update",
    ".evaluation.combine": "combine",
    ".evaluation.cell_classifier": "CellClassifier",
    ".evaluation.calibrate": "calibrate",
    ".distributed.workers": "Workers",
    ".errors": "RelatentError ConvergenceWarning DataWarning InputError UnknownNameError DataError "
    "ModelFileError DownloadError FitError LostWorkerError RelatentWarning VanishedWarning PoorFitWarning "
    "CheckpointWarning",
    ".result_tables": "ResultList",
    ".fit.checkpoint": "Checkpoint",
    ".evaluation.report": "Report Fold",
    ".evaluation.metrics": "Metrics",
    ".evaluation.reliability": "Reliability",
    ".evaluation.tuning_report": "Tuned Trial",
    ".evaluation.search_space": "Candidate",
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'relatent' has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
