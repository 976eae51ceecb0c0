"""Pairs of entities that may be the same, computed once in the background."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ..analysis.duplicates import Duplicates, duplicates
from ..data.facts import Facts
from ..model.candidates import Candidates
from ..model.factors import Factors
from ..progress import Progress
from .background import BackgroundResult, InProgress
from .errors import GIVE_FACTS, NO_FACTS, UnavailableError
from .response_types import DuplicatesPage

N_PAIRS = 1000


class ExplorerDuplicates:
    """The likeliest duplicates of a model and its known facts."""

    def __init__(self, factors: Factors, asked: Candidates, further: Sequence[Facts], heavy_work: threading.Lock):
        self.factors, self.asked, self.further = factors, asked, further
        self._found: BackgroundResult[Duplicates] = BackgroundResult(self._compute, heavy_work)

    def page(self, start: int, count: int) -> DuplicatesPage | InProgress:
        """Some of the likeliest pairs."""
        if not len(self.asked.known):
            raise UnavailableError(NO_FACTS, GIVE_FACTS)
        found = self._found.poll()
        if isinstance(found, InProgress):
            return found
        return DuplicatesPage(start, len(found.pairs), found.pairs[start : start + count])

    def _compute(self, progress: Progress) -> Duplicates:
        return duplicates(self.factors, known=self.further, k=N_PAIRS, progress=progress)
