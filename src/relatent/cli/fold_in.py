"""`relatent fold-in`: add new entities to a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.fold_in_defaults import FOLD_IN_OTHERS
from .output import print_result, save_model, say
from .reading_options import annotation_choices, attributes_option, data_argument, reading_options
from .shared_options import json_option, model_argument, model_output_option, seed_option

if TYPE_CHECKING:
    from ..data.facts import Facts


@click.command("fold-in")
@model_argument
@data_argument
@model_output_option
@click.option(
    "--entity", "entities", multiple=True, help="Entity to add (repeatable).  [default: all entities new to the model]"
)
@click.option(
    "--others",
    default=FOLD_IN_OTHERS,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Weight of the cells that DATA does not list, as false: 1 if all true facts are listed, near 0 if few are.",
)
@reading_options()
@attributes_option
@seed_option
@json_option
def fold_in(
    model: Path, data: tuple[str, ...], output: Path, entities: tuple[str, ...], others: float, seed: int, as_json: bool
) -> None:
    """Add new entities to a model from a few facts about each, or attributes, without fitting it again.

    Example: relatent fold-in kinships.relatent newcomers.tsv -o larger.relatent
    """
    from ..data.read.annotations import attribute_table
    from ..model.factors import load
    from ..model.model_file import check_target
    from . import tables
    from .data_argument import open_facts

    check_target(output)
    factors = load(model)
    given = annotation_choices().get("attributes")
    attributes = None if given is None else attribute_table(given)
    facts = open_facts(data)
    larger = factors.fold_in(facts, entities=entities or None, others=others, random_state=seed, attributes=attributes)
    save_model(larger, output)
    added = larger.about.folded_in[len(factors.about.folded_in) :]
    n = len(larger.entities)
    if unused := _between_others(facts, added):
        say(
            f"note: {unused:,} of the {len(facts):,} facts are between known entities and not used; "
            "update learns from them"
        )
    print_result(
        as_json,
        {"model": str(output), "folded_in": added, "entities": n},
        lambda: [tables.values(str(output), [("folded in", ", ".join(added)), ("entities", n)])],
    )


def _between_others(facts: Facts, names: Sequence[str]) -> int:
    """The number of facts that have none of these entities."""
    import numpy as np

    ids = [facts.entities.id(name) for name in names if name in facts.entities]
    return len(facts) - int(np.isin(facts.triples[:, [0, 2]], ids).any(axis=1).sum())
