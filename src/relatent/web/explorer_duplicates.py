"""Pairs of entities that may be the same, computed once in the background."""

from __future__ import annotations

import threading

from ..analysis.duplicates import Duplicates, duplicates
from ..analysis.known_facts import KnownFacts
from ..model.factors import Factors
from ..progress import Progress
from .background import BackgroundResult, InProgress
from .errors import UnavailableError
from .response_types import DuplicatesPage

N_PAIRS = 1000


class ExplorerDuplicates:
    """The likeliest duplicates of a model and its known facts."""

    def __init__(self, factors: Factors, known: KnownFacts | None, heavy_work: threading.Lock):
        self.factors, self.known = factors, known
        self._found: BackgroundResult[Duplicates] = BackgroundResult(self._compute, heavy_work)

    def page(self, start: int, count: int) -> DuplicatesPage | InProgress:
        """Some of the likeliest pairs."""
        if self.known is None:
            raise UnavailableError("the server has no known facts", "start it with --known DATA")
        found = self._found.poll()
        if isinstance(found, InProgress):
            return found
        return DuplicatesPage(start, len(found.pairs), found.pairs[start : start + count])

    def _compute(self, progress: Progress) -> Duplicates:
        assert self.known is not None
        return duplicates(self.factors, self.known.facts, k=N_PAIRS, progress=progress)
