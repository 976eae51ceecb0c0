"""`relatent predict`: the most probable answers to a question, or the probability of one fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .output import print_result, say
from .reading_options import reading_options, types_option
from .shared_options import json_option, model_argument, top_option

if TYPE_CHECKING:
    from ..analysis.answers import Answer
    from ..analysis.known_facts import KnownFacts
    from ..model.factors import Factors


@click.command()
@model_argument
@click.option("--subject", "-s", help="The subject, if it is given.")
@click.option("--relation", "-r", help="The relation, if it is given.")
@click.option("--object", "-t", "object_", help="The object, if it is given.")
@top_option(10, "answers")
@click.option("--known", multiple=True, help="Facts to leave out of the answers (repeatable).")
@reading_options("--edge-relation")
@types_option
@json_option
def predict(
    model: Path,
    subject: str | None,
    relation: str | None,
    object_: str | None,
    k: int,
    known: Sequence[str],
    as_json: bool,
) -> None:
    """Predict the third part of a fact from two of subject, relation and object.

    Answers have a rank among all candidates that are not known, a probability, and its lift over the base rate of the
    relation: facts per observed cell. With all three given, print these of that fact; its rank is that of the object.

    Example: relatent predict kinships.relatent --subject person0 --relation term4 --known kinships
    """
    from ..analysis.known_facts import KnownFacts
    from ..analysis.probabilities import describe_probabilities
    from ..model.factors import load
    from . import tables
    from .data_argument import open_facts, with_given_types

    given = {"subject": subject, "relation": relation, "object": object_}
    if sum(value is not None for value in given.values()) < 2:
        raise click.UsageError("give two of --subject, --relation and --object, or all three")
    factors = load(model)
    sources = [open_facts(source) for source in known]
    factors = with_given_types(factors, sources)
    facts = KnownFacts(sources, factors) if sources else None
    found = _predictions(factors, given, k, facts)
    note = describe_probabilities(factors)
    if not factors.has_probabilities or "calibration" in factors.about:
        say(f"note: {note}")
    for line in _types(factors, given, facts):
        say(f"note: {line}")
    print_result(as_json, {"predictions": found, "probabilities": note}, lambda: [tables.predictions(found)])


def _predictions(
    factors: Factors, given: dict[str, str | None], k: int, known: KnownFacts | None
) -> list[dict[str, Any]]:
    from ..analysis.answers import OMIT, answers, one_fact

    asked = next((place for place, value in given.items() if value is None), None)
    if asked is None:
        rows: list[tuple[dict[str, str], Answer]] = [
            ({}, one_fact(factors, known, *(str(value) for value in given.values())))
        ]
    else:
        best = answers(factors, known, **given, k=k, treat_known=OMIT).answers
        rows = [({asked: answer.name}, answer) for answer in best]
    shown = ("score", "probability", "rank", "lift")
    return [{**given, **answered, **{name: getattr(answer, name) for name in shown}} for answered, answer in rows]


def _types(factors: Factors, given: dict[str, str | None], known: KnownFacts | None) -> Iterator[str]:
    """Say that an entity of the question has no known facts of that kind."""
    if known is None or given["relation"] is None:
        return
    ends = known.ends(int(factors.relations.ids(given["relation"])))
    for place, ids in zip(("subject", "object"), ends, strict=True):
        name = given[place]
        if name is not None and int(factors.entities.ids(name)) not in ids:
            yield f"no known fact has {name!r} as {place} of {given['relation']!r}: it is missing, or of another kind"
