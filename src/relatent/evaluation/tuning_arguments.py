"""The metric and the models of a search that are not given, and checks of those that are."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.facts import Facts
from ..errors import InputError
from ..fit.automatic_settings import DataSummary
from .search_space import SPACES, why_unsuitable
from .tuning_report import METRICS


def default_metric(facts: Facts) -> str:
    """The metric that users compare: of sparse data the rank of the right answer, of dense data all cells."""
    return "mrr" if DataSummary.of(facts).is_sparse else "auc_pr"


def models_to_try(
    facts: Facts,
    time: float,
    metric: str | None,
    models: Sequence[str] | None,
    trials: int | None,
    device: str = "cpu",
) -> list[str]:
    """Check the arguments of `tune` and return the models to try."""
    if not isinstance(facts, Facts):
        raise InputError(f"tune takes Facts, got {type(facts).__name__}; see relatent.read and Facts.from_arrays")
    if not len(facts):
        raise InputError("there are no facts to learn from")
    if metric is not None and metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not time > 0:
        raise InputError(f"time must be a number of seconds above 0, got {time!r}")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise InputError(f"trials must be a whole number of at least 1, got {trials!r}")
    for model in models or ():
        if model not in SPACES:
            raise InputError(f"models must be among {', '.join(SPACES)}, got {model!r}")
        if reason := why_unsuitable(model, facts, metric or default_metric(facts), requested=True, device=device):
            raise InputError(f"{model} cannot be tried: {reason}")
    suitable = [
        model for model in SPACES if not why_unsuitable(model, facts, metric or "", requested=False, device=device)
    ]
    return list(dict.fromkeys(models or suitable))
