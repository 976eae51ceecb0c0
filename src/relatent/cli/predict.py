"""`relatent predict`: the most probable answers to a question, or the probability of one fact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .output import json_option, model_argument, print_result, top_option

if TYPE_CHECKING:
    from ..data.facts import Facts
    from ..model.factors import Factors


@click.command()
@model_argument
@click.option("--subject", "-s", help="The subject, if it is given.")
@click.option("--relation", "-r", help="The relation, if it is given.")
@click.option("--object", "-t", "object_", help="The object, if it is given.")
@top_option(10, "answers")
@click.option("--known", multiple=True, help="Facts to leave out of the answers (repeatable).")
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

    With all three given, print the probability of that fact.

    Example: relatent predict kinships.relatent --subject person0 --relation term4 --known kinships
    """
    from ..model.factors import load
    from . import tables
    from .sources import open_facts

    given = {"subject": subject, "relation": relation, "object": object_}
    if sum(value is not None for value in given.values()) < 2:
        raise click.UsageError("give two of --subject, --relation and --object, or all three")
    factors = load(model)
    if factors.loss is not None and factors.loss.name == "softmax" and "calibration" not in factors.about:
        message = (
            "note: scores of a softmax model rank answers but are not probabilities; fit with --calibrate for those"
        )
        click.echo(message, err=True)
    found = _predictions(factors, given, k, [open_facts(source) for source in known])
    print_result(as_json, {"predictions": found}, lambda: [tables.predictions(found)])


def _predictions(
    factors: Factors, given: dict[str, str | None], k: int, known: Sequence[Facts]
) -> list[dict[str, Any]]:
    asked = next((place for place, value in given.items() if value is None), None)
    if asked is None:
        fact = [str(given[place]) for place in ("subject", "relation", "object")]
        return [{**given, "score": float(factors.score(*fact)), "probability": float(factors.probability(*fact))}]
    return [
        {**given, asked: name, "score": float(score), "probability": float(probability)}
        for name, score, probability in zip(*factors.top(**given, k=k, exclude=known), strict=True)
    ]
