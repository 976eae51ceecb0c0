"""The likeliest missing facts, computed once in the background, and what a person decides about them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ..analysis.missing import MissingFacts, missing
from ..data.facts import Facts
from ..data.review import Review, ReviewFile
from ..model.candidates import Candidates
from ..model.factors import Factors
from ..model.vocabulary import check_shared
from ..progress import Progress
from .background import BackgroundResult, InProgress
from .errors import GIVE_FACTS, NO_FACTS, UnavailableError
from .response_types import MissingPage, OfferedFact, ReviewedFact

N_OFFERED = 1000


class ExplorerMissing:
    """The likeliest missing facts of a model and the reviewed file, if there is one."""

    def __init__(
        self,
        factors: Factors,
        asked: Candidates,
        further: Sequence[Facts],
        review: ReviewFile | None,
        heavy_work: threading.Lock,
    ):
        self.factors, self.asked, self.further, self.review = factors, asked, further, review
        if review is not None and review.verdicts:
            decided = Facts.from_arrays(*zip(*review.verdicts, strict=True))
            check_shared(factors.entities, factors.relations, decided, "reviewed facts")
        self._found: BackgroundResult[MissingFacts] = BackgroundResult(self._compute, heavy_work)

    def page(self, start: int, count: int) -> MissingPage | InProgress:
        """Some of the likeliest missing facts, with what was decided about them."""
        if not len(self.asked.known):
            raise UnavailableError(NO_FACTS, GIVE_FACTS)
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
        decided = Review.of({} if self.review is None else dict(self.review.verdicts))
        asked = self.asked
        if len(decided.accepted):
            asked = self.factors.asked([*self.further, decided.accepted])
        rejected = decided.rejected
        return missing(self.factors, N_OFFERED, known=asked, rejected=rejected, progress=progress)
