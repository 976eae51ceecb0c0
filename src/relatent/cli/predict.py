"""`relatent predict`: the likeliest answers to a question, or the probability of one fact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from .output import answer, json_option


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--subject", "-s", help="Given subject.")
@click.option("--relation", "-r", help="Given relation.")
@click.option("--object", "-t", "object_", help="Given object.")
@click.option("--top", "k", default=10, show_default=True, type=click.IntRange(min=1), help="How many answers.")
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
    """Answer a question: give two of subject, relation and object; or all three, to see how likely one fact is.

    Example: relatent predict kinships.relatent --subject person0 --relation term4 --known kinships
    """
    from ..model.factors import load
    from . import tables as show
    from .sources import open_facts

    given = {"subject": subject, "relation": relation, "object": object_}
    if sum(value is not None for value in given.values()) < 2:
        raise click.UsageError("give two of --subject, --relation and --object, or all three")
    factors = load(model)
    if factors.loss is not None and factors.loss.name == "softmax" and "calibration" not in factors.about:
        told = "scores of a softmax model rank answers; they are no probabilities unless it is fitted with --calibrate"
        click.echo(told, err=True)
    found = _predictions(factors, given, k, [open_facts(source) for source in known])
    answer(as_json, {"predictions": found}, lambda: [show.predictions(found)])


def _predictions(factors: Any, given: dict[str, str | None], k: int, known: Sequence[Any]) -> list[dict[str, Any]]:
    open_place = next((place for place, value in given.items() if value is None), None)
    if open_place is None:
        cell = (given["subject"], given["relation"], given["object"])
        return [{**given, "score": float(factors.score(*cell)), "probability": float(factors.probability(*cell))}]
    top = factors.top(**given, k=k, exclude=known)
    return [
        {**given, open_place: name, "score": float(score), "probability": float(probability)}
        for name, score, probability in zip(*top, strict=True)
    ]
