"""The frequency baseline of a ranking: the answers that a relation has most often in that place, whatever is asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids
from ..data.cell_keys import cell_keys, cells_of, is_in_sorted, sorted_unique
from .ranking_questions import OPEN_PLACE, RankingQuestions

Counts = NDArray[np.int64]


class Frequencies:
    """How often each entity is the subject and the object of each relation, in known facts without the test facts."""

    def __init__(self, cells: Sequence[Ids], n: int):
        """Count in all but the first of `cells`, which are the test facts; each is (3, n), over n entities."""
        self.n = n
        test, *known = (cell_keys(part.T, n) for part in cells)
        facts = sorted_unique(np.concatenate([np.empty(0, np.int64), *known]))
        self.facts = cells_of(facts[~is_in_sorted(facts, sorted_unique(test))], n)
        self.n_facts = len(self.facts)

    def count_rivals(self, questions: RankingQuestions, column: int) -> tuple[Counts, Counts]:
        """For each question the numbers of rivals that are more and equally frequent than its answer."""
        n, relation = self.n, questions.relation
        keys = self.facts[:, 1].astype(np.int64) * n + self.facts[:, OPEN_PLACE[column]]
        keys, times = np.unique(keys, return_counts=True)

        def frequency(relations: Ids, entities: Ids) -> Counts:
            wanted = relations * n + entities
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            return np.where(keys[place] == wanted, times[place], 0) if len(keys) else np.zeros(len(wanted), np.int64)

        own = frequency(relation, questions.target)
        better, tied = _above_and_equal(keys // n, times, relation, own)
        tied = np.where(own == 0, n - better, tied)  # entities without facts are not among the keys
        starts, row = np.unique(questions.starts, return_index=True)  # questions that are asked twice share answers
        n_answers = questions.stops[row] - starts
        answer_relations = np.repeat(relation[row], n_answers)
        known_better, known_tied = _above_and_equal(
            np.repeat(starts, n_answers), frequency(answer_relations, questions.answers), questions.starts, own
        )
        return better - known_better, tied - known_tied


def _above_and_equal(groups: Ids, values: Counts, group: Ids, value: Counts) -> tuple[Counts, Counts]:
    """For each (group, value) asked about, how many values of that group are larger and how many are equal."""
    base = 1 + max(values.max(initial=0), value.max(initial=0))
    ordered, asked = np.sort(groups * base + values), group * base + value
    right = np.searchsorted(ordered, asked, "right")
    return np.searchsorted(ordered, (group + 1) * base) - right, right - np.searchsorted(ordered, asked)
