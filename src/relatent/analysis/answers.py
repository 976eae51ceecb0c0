"""Predictions side by side with known facts: answers to a question, and everything about one entity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..data.facts import Facts
from ..data.result_labels import row_labels
from ..json_values import to_json_object
from ..model.candidates import MARK, ONLY, OPEN, Candidates, Judged
from ..model.factors import PLACES, Factors
from ..result_tables import ResultList, data_frame, html_table, result_record

if TYPE_CHECKING:
    import pandas as pd

MIN_PROBABILITY = 0.5  # of a prediction that moves its section to the front
MAX_KNOWN_SHOWN = 25  # known facts per section


@result_record
class Answer(NamedTuple):
    """An entity or relation that may fill the open place of a question.

    >>> Answer("Al Gore", 2.0, 0.88, False, rank=1, lift=40.0).rank
    1
    """

    name: str
    score: float  # log-odds of the probability; θ of a model that is not calibrated
    probability: float | None  # None if the model has no probabilities; of a known answer, what it would be otherwise
    known: bool
    rank: int | None = None  # among all candidates that are not known; None if it is known
    lift: float | None = None  # probability / share of true cells among those of the relation that are not listed


class Answers(NamedTuple):
    """Answers to a question, best first.

    >>> Answers("object", 0, [Answer("Al Gore", 2.0, 0.88, False, rank=1, lift=40.0)]).to_dict()["open"]
    'object'
    """

    open: str  # "subject", "relation" or "object"
    n_known: int
    answers: list[Answer]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return to_json_object(self)

    def to_pandas(self) -> pd.DataFrame:
        """One row per answer: name, score, probability, known, rank, lift; needs pandas."""
        return data_frame(self.answers, Answer._fields)

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.answers)

    def __repr__(self) -> str:
        best = f", best {self.answers[0].name!r}" if self.answers else ""
        return f"Answers({len(self.answers)} for the {self.open}, {self.n_known} known{best})"


class EntitySection(NamedTuple):
    """One entity in one role of one relation: known and predicted entities at the other end."""

    relation: str
    role: str  # of the entity: "subject" or "object"
    n_known: int
    known: list[Answer]
    predicted: list[Answer]


def answers(
    factors: Factors,
    known: Facts | Sequence[Facts] | Candidates | None = None,
    *,
    subject: str | int | None = None,
    relation: str | int | None = None,
    object: str | int | None = None,
    k: int = 10,
    treat_known: str = MARK,
) -> Answers:
    """The k best answers for the one place left open, likeliest first, however small their probabilities are.

    If the model has types, answers of a wrong type are left out, unless they are known; `factors.without_types()`
    offers all. An entity is no answer to a question about itself, unless the relation has such facts.

    known : further known facts, beside those of the model
    treat_known : "mark" known answers, "omit" them, or give "only" them

    >>> import relatent
    >>> facts = relatent.load_dataset("presidents")
    >>> model = relatent.RescalALS(rank=10, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_
    >>> found = relatent.answers(model, subject="Al Gore", relation="party", k=2)
    >>> sorted((answer.known, answer.rank) for answer in found.answers)
    [(False, 1), (True, None)]
    """
    asked = factors.asked(known)
    place, found = factors.best(asked, subject, relation, object, k=k, treat_known=treat_known)
    named = _named(factors, subject, relation, object)
    n_known = len(asked.known.answers(*(None if name is None else int(names.ids(name)) for name, names in named)))
    return Answers(PLACES[place], n_known, ResultList(as_answers(factors, found, place), row_labels(factors)))


def _named(factors: Factors, *given: str | int | None) -> list[tuple[str | int | None, Any]]:
    return list(zip(given, (factors.entities, factors.relations, factors.entities), strict=True))


def entity_sections(asked: Candidates, factors: Factors, entity: str | int, *, k: int = 5) -> list[EntitySection]:
    """One section with k predictions per relation and role of an entity.

    Sections with a probable new fact come first, then those with known facts, then the others.
    """
    i, K = int(factors.entities.ids(entity)), len(factors.relations)
    questions = np.full((2 * K, 3), OPEN, np.int64)
    questions[:, 1] = np.tile(np.arange(K), 2)
    questions[:K, 0], questions[K:, 2] = i, i
    predicted = asked.answers(questions, k)
    known = asked.answers(questions, MAX_KNOWN_SHOWN, ONLY)
    sections = []
    for row, question in enumerate(questions.tolist()):
        place = 2 if row < K else 0
        n_known = asked.known.n_answers(question[1], of_objects=place == 0)[i]
        parts = [_answers_of(factors, found, row, place) for found in (known, predicted)]
        role = "subject" if place == 2 else "object"
        sections.append(EntitySection(factors.relations[question[1]], role, int(n_known), *parts))
    return sorted(sections, key=_sort_key)


def _answers_of(factors: Factors, found: Judged, row: int, place: int) -> list[Answer]:
    return as_answers(factors, found.at(slice(*np.searchsorted(found.question, [row, row + 1]))), place)


def _sort_key(section: EntitySection) -> tuple[bool, bool, float]:
    best = max(((answer.probability, answer.score) for answer in section.predicted), default=(0.0, 0.0))
    probability, score = best
    is_likely = probability is not None and probability >= MIN_PROBABILITY
    return not is_likely, not section.n_known, -(score if probability is None else probability)


def as_answers(factors: Factors, found: Judged, place: int) -> list[Answer]:
    """Judged cells as answers for the place that was open."""
    names = (factors.entities, factors.relations, factors.entities)[place]
    rows = zip(
        found.cells[:, place].tolist(),
        found.score.tolist(),
        numbers(found.probability),
        found.is_known.tolist(),
        found.rank.tolist(),
        numbers(found.lift),
        strict=True,
    )
    return [Answer(names[i], score, p, known, rank or None, lift) for i, score, p, known, rank, lift in rows]


def numbers(values: Any) -> list[float | None]:
    """A list with None for NaN."""
    return [None if value != value else value for value in np.asarray(values).tolist()]


def one_fact(factors: Factors, asked: Candidates, subject: str | int, relation: str | int, object: str | int) -> Answer:
    """One fact as an answer; its rank is that of the object among those that are not known for this subject."""
    cell = [int(names.ids(name)) for name, names in _named(factors, subject, relation, object)]
    [found] = as_answers(factors, asked.ranked(np.array([cell])), 2)
    return found
