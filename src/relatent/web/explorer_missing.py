"""The likeliest missing facts, computed once in the background, and what a person decides about them."""

from __future__ import annotations

import threading

from ..analysis.known_facts import KnownFacts
from ..analysis.missing import MissingFacts, missing
from ..data.review import Review, ReviewFile
from ..model.factors import Factors
from ..progress import Progress
from .background import BackgroundResult, InProgress
from .errors import UnavailableError
from .response_types import MissingPage, OfferedFact, ReviewedFact

N_OFFERED = 1000


class ExplorerMissing:
    """The likeliest missing facts of a model and the reviewed file, if there is one."""

    def __init__(
        self, factors: Factors, known: KnownFacts | None, review: ReviewFile | None, heavy_work: threading.Lock
    ):
        self.factors, self.known, self.review = factors, known, review
        self._found: BackgroundResult[MissingFacts] = BackgroundResult(self._compute, heavy_work)

    def page(self, start: int, count: int) -> MissingPage | InProgress:
        """Some of the likeliest missing facts, with what was decided about them."""
        if self.known is None:
            raise UnavailableError("the server has no known facts", "start it with --known DATA")
        found = self._found.poll()
        if isinstance(found, InProgress):
            return found
        verdicts = {} if self.review is None else self.review.verdicts
        rows = [OfferedFact(*fact[:7], verdicts.get(fact[:3])) for fact in found.missing[start : start + count]]
        return MissingPage(start, len(found.missing), self.review is not None, rows)

    def decide(self, subject: str, relation: str, object: str, verdict: str | None) -> ReviewedFact:
        """Write a decision into the reviewed file."""
        if self.review is None:
            raise UnavailableError("the server writes no reviewed file", "start it with --review FILE")
        self.review.decide((subject, relation, object), verdict)
        return ReviewedFact(subject, relation, object, verdict)

    def _compute(self, progress: Progress) -> MissingFacts:
        assert self.known is not None
        decided = Review.of({} if self.review is None else dict(self.review.verdicts))
        known = self.known
        if len(decided.accepted):
            known = KnownFacts([known.facts, decided.accepted], self.factors)
        return missing(self.factors, known, N_OFFERED, rejected=decided.rejected, pairs_once=True, progress=progress)
