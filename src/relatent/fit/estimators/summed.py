"""`Summed`: several estimators that fit the same facts, and whose models are added.

It is what a sum of models was fitted by, so that `calibrate`, `combine` and `tune` treat it as any other estimator:
fits that lack some facts are sums of such fits of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Self

from ...data.facts import Facts
from ...data.shard import Shard
from ...model.direct_sum import checked_weights, direct_sum
from ...progress import share_of
from ...random_state import RandomState, to_seed
from .. import patterns
from ..loop import Trace
from .base import Estimator, FitArguments


@dataclass(eq=False, repr=False)
class Summed(Estimator):
    """The sum of the models of several estimators.

    Parameters
    ----------
    estimators : of models whose scores can be added; their own probabilities are not learned
    weights : of their scores; None: 1 each
    random_state : seed of the facts that are held out
    """

    estimators: Sequence[Estimator]
    weights: Sequence[float] | None = None
    random_state: RandomState = 0

    _unsupported = ("checkpoint",)

    def _with_chosen_settings(self, facts: Facts | Shard) -> Self:
        chosen, own = copy(self), []
        for estimator in self.estimators:
            part = copy(estimator._with_chosen_settings(facts))
            part.seed_ = to_seed(part.get_params(deep=False)["random_state"])
            part.missing = self.missing
            own.append(part)
        chosen.estimators = own
        return chosen

    def _check_settings(self, facts: Facts) -> None:
        super()._check_settings(facts)
        checked_weights(self.weights, len(self.estimators))
        for part in self.estimators:
            part._check_settings(facts)

    def _check_memory(self, shard: Shard) -> None:
        for part in self.estimators:
            part._check_memory(shard)

    def _for_heldout_facts(self) -> Self:
        twin = super()._for_heldout_facts()
        twin.estimators = [part._for_heldout_facts() for part in self.estimators]
        return twin

    def _fit(self, arguments: FitArguments) -> None:
        shard, validation, progress, _ = arguments
        for number, part in enumerate(self.estimators):
            report = share_of(progress, number, len(self.estimators))
            part._fit(FitArguments(shard, validation, report, None))
        self.factors_ = direct_sum([part.factors_ for part in self.estimators], self.weights)
        self.trace_ = Trace([step for part in self.estimators for step in part.trace_])
        self.n_iter_ = len(self.trace_)

    def _patterns_without(self, facts: Facts, heldout: Sequence[Facts]) -> patterns.PatternsWithout | None:
        found = (part._patterns_without(facts, heldout) for part in self.estimators)
        return next((observed for observed in found if observed is not None), None)


def equal_weights(n: int) -> list[float]:
    """The weights of n models whose sum is their mean, which is on the scale of each."""
    return [1 / n] * n
