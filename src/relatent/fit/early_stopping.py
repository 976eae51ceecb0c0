"""Early stopping: when a fit ends because the loss of held-out cells no longer falls, and which state is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class BestState:
    """The state with the lowest held-out loss so far."""

    state: Any = None
    loss: float = np.inf
    looks: int = 0
    looks_since: int = 0

    def consider(self, loss: float, state: Any) -> None:
        """Keep the state if its loss is lower than any before."""
        self.looks += 1
        self.looks_since += 1
        if self.state is None:  # there is a state to return even if the first loss is NaN
            self.state = state
        if loss < self.loss:
            self.state, self.loss, self.looks_since = state, loss, 0


@dataclass(frozen=True)
class Watch:
    """Early stopping: the held-out loss is measured every few steps, and the best state is kept."""

    loss: Callable[[Any], float]
    every: int = 1
    patience: int = 10

    def should_stop(self, best: BestState) -> bool:
        """Whether the loss was measured `patience` times without a new lowest value."""
        return best.looks_since >= self.patience
