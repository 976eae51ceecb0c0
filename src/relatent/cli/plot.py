"""`relatent plot`: figures of a model as PNG or SVG; needs relatent[plot]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .output import print_result, say_if_nothing_is_known
from .reading_options import reading_options
from .shared_options import OUTPUT, json_option, model_argument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..data.facts import Facts
    from ..model.factors import Factors

KINDS = ("objective", "precision-recall", "reliability", "relation", "map")
MEASURED = ("precision-recall", "reliability")  # kinds that need test facts
TAKEN_BY = {"test": MEASURED, "known": MEASURED, "relation": ("relation",)}


@click.command()
@model_argument
@click.argument("kind", type=click.Choice(KINDS))
@click.option("-o", "--output", required=True, type=OUTPUT, help="FILE.png or FILE.svg.")
@click.option("--test", help="Test facts, for precision-recall and reliability.")
@click.option(
    "--known",
    multiple=True,
    metavar="DATA",
    help="Further true facts: like those in the model file, they count neither as hits nor as errors (repeatable).",
)
@click.option("--relation", "-r", help="The relation whose matrix is drawn, for relation.  [default: the first]")
@reading_options("--edge-relation")
@json_option
def plot(
    model: Path, kind: str, output: Path, test: str | None, known: tuple[str, ...], relation: str | None, as_json: bool
) -> None:
    """Draw the objective per step, the quality on test facts, the matrix of a relation, or a map of the entities.

    Example: relatent plot kinships.relatent map -o map.svg
    """
    from ..model.factors import load
    from ..plots import figures
    from ..plots.style import check_figure_path, write_figure
    from . import tables

    for name, given in {"test": test, "known": known, "relation": relation}.items():
        if given and kind not in TAKEN_BY[name]:
            raise click.UsageError(f"{kind} takes no --{name}; that is for {' and '.join(TAKEN_BY[name])}")
    if kind in MEASURED and test is None:
        raise click.UsageError(f"{kind} needs --test DATA, the facts to measure by")
    check_figure_path(output)
    factors = load(model)
    title = f"{factors.about.model or 'model'}, rank {factors.rank}: {model.name}"
    facts = None if test is None else _test_and_known(factors, test, known)
    draw: dict[str, Callable[[], Figure]] = {
        "objective": lambda: figures.objective(factors, title),
        "relation": lambda: figures.heat_map(factors, relation or factors.relations[0], title),
        "map": lambda: figures.entity_map(factors, title),
    }
    if facts is not None:
        draw["precision-recall"] = lambda: figures.precision_recall(factors, *facts, title=title)
        draw["reliability"] = lambda: figures.reliability(factors, *facts, title=title)
    write_figure(output, draw[kind])
    print_result(as_json, {"file": str(output), "kind": kind}, lambda: [tables.values("written", [(kind, output)])])


def _test_and_known(factors: Factors, test: str, known: tuple[str, ...]) -> tuple[Facts, list[Facts]]:
    from ..model.vocabulary import check_shared
    from .data_argument import names_of, open_facts

    found = open_facts(test, split="test")
    check_shared(factors.entities, factors.relations, found, f"facts of {names_of([test])}")
    further = [open_facts(source, split="train") for source in known]
    say_if_nothing_is_known(factors.asked(further))
    return factors.as_undirected(found).over(factors.entities, factors.relations), further
