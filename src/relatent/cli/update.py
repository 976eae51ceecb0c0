"""`relatent update`: a model, its facts and new facts make a new model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from .output import print_result, save_model, say
from .reading_options import annotation_choices, attributes_option, reading_options
from .shared_options import further_known_option, json_option, model_argument, model_output_option


@click.command()
@model_argument
@click.argument("new_facts", nargs=-1, required=True, metavar="NEW_FACTS...")
@model_output_option
@further_known_option
@reading_options()
@attributes_option
@json_option
def update(model: Path, new_facts: tuple[str, ...], output: Path, known: tuple[str, ...], as_json: bool) -> None:
    """Continue the fit of a model with new facts, entities and relations, in a fraction of the time of a new fit.

    The facts of the model count as well. Its settings and calibration are kept. OUTPUT may be MODEL.

    Example: relatent update people.relatent today.tsv -o people.relatent
    """
    from ..data.read.annotations import attribute_table
    from ..evaluation.update import update as continue_fit
    from ..model.factors import load
    from ..model.model_file import check_target
    from ..progress import bar
    from . import tables
    from .data_argument import open_facts

    check_target(output)
    factors = load(model)
    old = open_facts(known, split="train") if known else None
    new = open_facts(new_facts)
    if (attributes := annotation_choices().get("attributes")) is not None:
        new = replace(new, attribute_table=attribute_table(attributes))
    if not set(new.relations) & set(factors.relations):
        say(
            f"note: the model has none of the relations of the new facts ({', '.join(new.relations[:5])}); if they are "
            "its own, name them: --relation NAME for an edge list"
        )
    with bar("updating", at_most=True, note="computing the start, the first time also compiling") as progress:
        updated = continue_fit(factors, new, known=old, progress=progress)
    save_model(updated, output)
    done, fit = updated.about.updates[-1], updated.about.fit
    added = {"new_facts": done.facts, "new_entities": done.entities, "new_relations": done.relations}
    summary = {"model": str(output), **added, "steps": done.steps, "seconds": fit and fit.seconds}
    print_result(as_json, summary, lambda: [tables.values(str(output), tables.details(summary))])
