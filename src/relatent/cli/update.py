"""`relatent update`: a model, its facts and new facts make a new model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .model_reading import load_model, records_of
from .output import print_result, save_model, say
from .reading_options import annotation_choices, attributes_option, reading_options
from .shared_options import json_option, model_argument, model_output_option

if TYPE_CHECKING:
    from ..data.facts import Facts
    from ..model.factors import Factors


@click.command()
@model_argument
@click.argument("new_facts", nargs=-1, required=True, metavar="NEW_FACTS...")
@model_output_option
@click.option(
    "--known",
    multiple=True,
    help="The facts that the model was fitted to (repeatable); by default the data named in that fit, if it is found.",
)
@reading_options()
@attributes_option
@json_option
def update(model: Path, new_facts: tuple[str, ...], output: Path, known: tuple[str, ...], as_json: bool) -> None:
    """Continue the fit of a model with new facts, entities and relations, in a fraction of the time of a new fit.

    All facts count, so the old ones are needed too: what `relatent fit` was given, if it is still there and unchanged,
    or --known. The settings, the scales of the relations and the calibration of
    the model are kept. OUTPUT may be MODEL.

    Example: relatent update people.relatent today.tsv --known people.tsv -o people.relatent
    """
    from ..data.read.annotations import attribute_table
    from ..evaluation.update import update as continue_fit
    from ..model.model_file import check_target
    from ..progress import bar
    from . import tables
    from .data_argument import open_facts

    check_target(output)
    factors = load_model(model)
    old = open_facts(known, split="train") if known else _fitted_facts(factors, model)
    new = open_facts(new_facts)
    if (attributes := annotation_choices().get("attributes")) is not None:
        new = replace(new, attribute_table=attribute_table(attributes))
    if not set(new.relations) & set(factors.relations):
        say(
            f"note: the model has none of the relations of the new facts ({', '.join(new.relations[:5])}); if they are "
            "its own, name them: --relation NAME for an edge list"
        )
    with bar("updating", at_most=True, note="computing the start, the first time also compiling") as progress:
        updated = continue_fit(factors, new, old, progress=progress)
    sources = known or factors.about.get("data", {}).get("sources", ())
    sources = (*sources, *new_facts) if sources else ()
    save_model(updated, output, sources, records_of(sources))
    record, fit = updated.about["updates"][-1], updated.about["fit"]
    added = {f"new_{name}": record[name] for name in ("facts", "entities", "relations")}
    summary = {"model": str(output), **added, "steps": record["steps"], "seconds": fit["seconds"]}
    print_result(as_json, summary, lambda: [tables.values(str(output), tables.details(summary))])


def _fitted_facts(factors: Factors, model: Path) -> Facts:
    """The data named in the fit of the model, found from here or beside the model, with the same facts as then."""
    from ..errors import DataError
    from .data_argument import open_facts

    data = factors.about.get("data", {})
    named = data.get("sources", [])
    remedy = "name the facts that it was fitted to with --known"
    if not named:
        raise DataError(f"{model} does not say what it was fitted to; {remedy}")
    beside = [str(model.parent / name) for name in named]
    found = [
        there if not Path(name).exists() and Path(there).exists() else name
        for name, there in zip(named, beside, strict=True)
    ]
    try:
        facts = open_facts(found, split="train", as_fitted=True)
    except DataError as error:
        raise DataError(f"{model} was fitted to {', '.join(named)}, which cannot be read: {error}; {remedy}") from error
    fitted = facts.over(factors.entities, factors.relations)
    if data.get("fingerprint") != fitted.fingerprint or len(facts) != len(fitted):
        raise DataError(
            f"{', '.join(found)} has other facts than {model} was fitted to, or was read with other options; {remedy}"
        )
    return facts
