"""Which settings a fit takes where none are given: those under which held-out facts are likeliest.

The rules of `automatic_settings` give the usual settings for data of its kind. Where further fits are affordable,
others compete with them: each is fitted to facts without some, and its score tells the held-out ones from the unlisted
cells by the logistic regression of `calibration`. The log-likelihoods of the same held-out facts are compared; the
usual settings have a prior of 20 to 1. The two best are compared again on further held-out facts and with observed
patterns, and the fits that have compared them also tell how likely unlisted cells are.

Every number here is a candidate, a budget or a prior.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from ..data.facts import Facts
from ..model.structure import Blocks
from .automatic_settings import SAMPLED_CELLS_PER_FACT, ChosenSettings, DataSummary, method_for
from .calibration import HeldOutFit
from .loss_protocol import ResolvedLoss
from .optimisers import Adam
from .penalties import N3

Values = dict[str, Any]
T = TypeVar("T")

# candidates
N3_WEIGHTS = (0.005, 0.02, 0.08)
WIDE: Values = {"structure": "complex", "rank": 200, "optimiser": Adam(0.1), "init": "small", "max_iter": 30}
BLOCKS: Values = {"structure": Blocks(8), "rank": 64, "optimiser": Adam(0.1), "init": "small", "max_iter": 30}
FEW: Values = {"structure": "full", "rank": 8, "l2_entities": 1.5, "l2_relations": 1.5, "init": "als", "max_iter": 500}
# budgets
MAX_OPERATIONS = 2.5e11  # of all fits that are compared: some ten seconds
N_FINAL = 2  # settings that are compared to the end
LBFGS_STEPS = 100  # that a fit usually takes
# the prior
LOG_PRIOR = float(np.log(20))  # of the usual settings against any others

NAMES = ("structure", "rank", "penalty", "l2_entities", "l2_relations", "optimiser", "init", "max_iter", "bias")


@dataclass(frozen=True)
class Compared(Generic[T]):
    """Settings, the log-likelihood of held-out facts under them, and what it was found by."""

    settings: ChosenSettings
    log_likelihood: float
    made: T

    @property
    def evidence(self) -> float:
        """With the prior."""
        return self.log_likelihood + (LOG_PRIOR if self.settings.is_usual else 0.0)


def rivals(usual: ChosenSettings, data: DataSummary, loss: ResolvedLoss, device: str) -> list[ChosenSettings]:
    """The settings that are compared with the usual ones, as far as the budget goes."""
    method = method_for(data, {"device": device}, loss)
    found, spent = [], operations(usual.values, data)
    for candidate in _candidates(data):
        values = {**dict.fromkeys(NAMES), "bias": not loss.ranks_only, "method": method, **candidate}
        cost = operations(values, data)
        if spent + cost <= MAX_OPERATIONS:
            spent += cost
            found.append(ChosenSettings(values, is_usual=False))
    return found


def _candidates(data: DataSummary) -> list[Values]:
    """Many components, which N3 holds together; blocks; few components."""
    return [
        *({**WIDE, "penalty": N3(weight)} for weight in N3_WEIGHTS),
        {**BLOCKS, "penalty": N3(N3_WEIGHTS[1])},
        {**FEW, "rank": min(FEW["rank"], data.entities)},
    ]


def operations(values: Values, data: DataSummary) -> float:
    """About how many multiplications a fit with these settings takes."""
    steps = 4 * values["max_iter"] if isinstance(values.get("optimiser"), Adam) else LBFGS_STEPS
    cells = (
        data.cells * steps if values["method"] == "exact" else SAMPLED_CELLS_PER_FACT * data.facts * values["max_iter"]
    )
    return float(6 * cells * values["rank"])


def is_open(usual: ChosenSettings, given: Values) -> bool:
    """Whether nothing was given that the settings to compare differ in."""
    return all(given[name] is None or name in usual.values for name in NAMES)


def best(
    candidates: Sequence[ChosenSettings],
    heldout: Sequence[Facts],
    fit: Callable[[ChosenSettings, Facts], HeldOutFit],
    judge: Callable[..., tuple[T, float]],
) -> tuple[ChosenSettings, T]:
    """The most probable settings, with the reason, and what `judge` made of their fits.

    `judge`: what is made of the fits with some settings, and the log-likelihood of the facts that they lack.
    """
    first = []
    for settings in candidates:
        fits = [fit(settings, heldout[0])]
        first.append(Compared(settings, judge(fits, with_patterns=False)[1], fits))
    found = []
    for one in _in_order(first)[:N_FINAL]:
        fits = [*one.made, *(fit(one.settings, part) for part in heldout[1:])]
        made, log_likelihood = judge(fits, with_patterns=True)
        found.append(Compared(one.settings, log_likelihood, made))
    chosen, other = _in_order(found)
    n_heldout = sum(map(len, heldout))
    ratio = float(np.exp((chosen.log_likelihood - other.log_likelihood) / n_heldout))
    reason = (
        f"of {len(candidates)} compared by {n_heldout:,} held-out facts, each {ratio:.2f} times as likely, on average, "
        f"as with {_brief(other.settings.values)}"
    )
    return replace(chosen.settings, reason=reason), chosen.made


def _brief(values: Values) -> str:
    penalty = values["penalty"] if values.get("penalty") else f"λ {values['l2_entities']:g}"
    return f"structure {values['structure']}, rank {values['rank']}, {penalty}"


def _in_order(compared: list[Compared[T]]) -> list[Compared[T]]:
    return sorted(compared, key=lambda one: -one.evidence)
