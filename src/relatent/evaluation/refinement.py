"""A local search around the best settings: one change at a time, and on from there if it is better."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..data.facts import Facts
from ..fit.automatic_settings import DataSummary
from .neighbours import SIZES, Change, Neighbour, has_schedule, key_of, neighbours, resolved
from .search_space import Candidate

FIRST_FACTOR, MIN_FACTOR = 1.6, 1.1  # between weights of the penalty; its root is taken where no neighbour is better
MOVES_UNTIL_RETRY = 2  # moves of the centre after which a change that did not help is tried again
TIME_MARGIN = 1.1  # seconds that must be left for a fit, relative to those that are predicted
MIN_SCHEDULE_SHARE = 0.6  # of the steps of a larger or longer fit that there must be time for
MIN_FITS = 4  # if the number of trials is given
FITS_AT_ONCE = 2  # likewise, whatever the number of processes, on which the result does not depend


def n_refined(n_trials: int) -> int:
    """The number of fits around the best of so many candidates; none if there are only the defaults."""
    return max(MIN_FITS, n_trials // 4) if n_trials > 1 else 0


class JudgedNeighbour(NamedTuple):
    """A neighbour that was fitted."""

    neighbour: Neighbour
    value: float  # larger is better; NaN if the fit failed
    seconds: float  # of its fit


@dataclass
class LocalSearch:
    """The best settings so far, the centre, and what is known of the changes around it."""

    data: DataSummary
    centre: Candidate
    value: float  # larger is better
    seconds: float  # of a complete fit
    tried: set[Hashable]
    factor: float = FIRST_FACTOR
    n_moves: int = 0
    last: Change | None = None  # the change that led to the centre
    unhelpful: dict[Change, int] = field(default_factory=dict)  # the number of moves when it was tried

    @classmethod
    def around(
        cls, facts: Facts, candidate: Candidate, value: float, seconds: float, tried: Iterable[Candidate]
    ) -> LocalSearch:
        """A search that begins at a candidate; `tried`: candidates that are known."""
        keys = {key_of(resolved(known, facts)) for known in tried}
        centre = resolved(candidate, facts)
        return cls(DataSummary.of(facts), centre, value, seconds, keys | {key_of(centre)})

    def proposals(self, n: int, seconds_left: float | None) -> list[Neighbour]:
        """The next neighbours to try, at most n, that there is time for; none: the search has ended.

        They count as tried. Where no neighbour is left, weights of the penalty change by a smaller factor.
        """
        found = self._untried(seconds_left)
        while not found and self.factor**0.5 >= MIN_FACTOR:
            self.factor **= 0.5
            self.unhelpful.clear()
            found = self._untried(seconds_left)
        found = found[:n]
        self.tried.update(key_of(neighbour.candidate) for neighbour in found)
        return found

    def record(self, results: Sequence[JudgedNeighbour]) -> None:
        """Move to the best of these neighbours if it is better than the centre, and note those that are not."""
        moves = self.n_moves
        self.tried.update(key_of(result.neighbour.candidate) for result in results)
        for result in results:
            if not result.value > self.value:
                self.unhelpful[result.neighbour.change] = moves
        better = [result for result in results if result.value > self.value]
        if not better:
            return
        best = max(better, key=lambda result: result.value)
        self.centre, self.value, self.seconds = best.neighbour.candidate, best.value, best.seconds
        self.last, self.n_moves = best.neighbour.change, moves + 1
        self.unhelpful[self.last.reverse] = moves

    def _untried(self, seconds_left: float | None) -> list[Neighbour]:
        """Neighbours that may help and that there is time for; first the change that helped last."""
        near = [
            neighbour
            for neighbour in neighbours(self.centre, self.data, self.factor)
            if key_of(neighbour.candidate) not in self.tried and self._may_help(neighbour.change)
        ]
        near.sort(key=lambda neighbour: neighbour.change != self.last)
        in_time = (self._in_time(neighbour, seconds_left) for neighbour in near)
        return [neighbour for neighbour in in_time if neighbour and key_of(neighbour.candidate) not in self.tried]

    def _may_help(self, change: Change) -> bool:
        return change not in self.unhelpful or self.n_moves - self.unhelpful[change] >= MOVES_UNTIL_RETRY

    def _in_time(self, neighbour: Neighbour, seconds_left: float | None) -> Neighbour | None:
        """The neighbour, with a shorter schedule if need be; None if there is no time for it.

        A larger or longer fit may be shortened: a complete schedule of fewer steps is far better than the beginning of
        a long one. Other neighbours would be compared with a centre that had more steps.
        """
        needed = TIME_MARGIN * self.seconds * neighbour.cost
        if seconds_left is None or needed <= seconds_left:
            return neighbour
        share, settings = seconds_left / needed, neighbour.candidate.settings
        grows = neighbour.change.setting in SIZES and neighbour.change.direction > 0
        if not grows or share < MIN_SCHEDULE_SHARE or not has_schedule(settings):
            return None
        shorter = neighbour.candidate.changed(max_iter=max(1, int(share * settings["max_iter"])))
        return neighbour._replace(candidate=shorter, cost=share * neighbour.cost)


def climb(
    search: LocalSearch,
    judge: Callable[[list[Neighbour]], Sequence[JudgedNeighbour]],
    at_once: int,
    n_fits: int,
    ends: float | None,
) -> int:
    """Run a search until nothing is left to try, or that many fits are done; returns how many were begun."""
    begun = 0
    while begun < n_fits:
        seconds_left = None if ends is None else ends - clock.monotonic()
        batch = search.proposals(min(at_once, n_fits - begun), seconds_left)
        if not batch:
            break
        search.record(judge(batch))
        begun += len(batch)
    return begun
