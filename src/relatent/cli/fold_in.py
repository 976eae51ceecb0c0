"""`relatent fold-in`: add new entities to a model."""

from __future__ import annotations

from pathlib import Path

import click

from .output import answer, json_option, seed_option


@click.command("fold-in")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Model file to write.")
@click.option("--entity", "entities", multiple=True, help="Whose vector to find (repeatable).  [default: all new ones]")
@click.option(
    "--others",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="How much a cell that DATA does not list counts as false; 0: it is unknown.",
)
@seed_option
@json_option
def fold_in(
    model: Path, data: str, output: Path, entities: tuple[str, ...], others: float, seed: int, as_json: bool
) -> None:
    """Add new entities to a model from a few facts about each, without fitting again.

    Example: relatent fold-in kinships.relatent newcomers.tsv -o larger.relatent
    """
    from ..model.factors import load
    from ..model.storage import check_target
    from . import tables as show
    from .sources import open_facts

    check_target(output)
    factors = load(model)
    grown = factors.fold_in(open_facts(data), entities=entities or None, others=others, random_state=seed)
    grown.save(output)
    found = {
        "model": str(output),
        "folded_in": grown.about["folded_in"][len(factors.about.get("folded_in", [])) :],
        "entities": len(grown.entities),
    }
    names = ", ".join(found["folded_in"])
    answer(as_json, found, lambda: [show.values(str(output), [("folded in", names), ("entities", found["entities"])])])
