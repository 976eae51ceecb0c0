"""`relatent plot`: a model in figures, PNG or SVG; needs relatent[plot]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputError
from .output import answer, json_option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..analysis.known_facts import KnownFacts
    from ..model.factors import Factors

KINDS = ("objective", "precision-recall", "reliability", "relation", "map")
MEASURED = ("precision-recall", "reliability")  # on facts
TAKEN_BY = {"test": MEASURED, "known": MEASURED, "relation": ("relation",)}


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("kind", type=click.Choice(KINDS))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="FILE.png or FILE.svg.")
@click.option("--test", help="Facts to measure by: for precision-recall and reliability.")
@click.option("--known", multiple=True, help="Facts that are known otherwise, neither right nor wrong (repeatable).")
@click.option("--relation", "-r", help="Whose matrix: for relation.  [default: the first]")
@json_option
def plot(
    model: Path, kind: str, output: Path, test: str | None, known: tuple[str, ...], relation: str | None, as_json: bool
) -> None:
    """Draw how the fit went, how good the model is, a relation's matrix, or a map of the entities.

    Example: relatent plot kinships.relatent map -o map.svg
    """
    from ..model.factors import load
    from ..plots import figures
    from ..plots.style import check_figure_path, write_figure
    from . import tables as show

    for name, given in {"test": test, "known": known, "relation": relation}.items():
        if given and kind not in TAKEN_BY[name]:
            raise click.UsageError(f"{kind} takes no --{name}; that is for {' and '.join(TAKEN_BY[name])}")
    check_figure_path(output)
    factors = load(model)
    measured = kind in MEASURED
    if measured and test is None:
        raise click.UsageError(f"{kind} needs --test DATA, facts to measure by")
    facts = _facts(factors, test, known) if measured else None
    title = f"{factors.about.get('model', 'model')}, rank {factors.rank}: {model.name}"
    draw: dict[str, Callable[[], Figure]] = {
        "objective": lambda: figures.objective(factors, title),
        "precision-recall": lambda: figures.precision_recall(factors, *facts, title=title),  # type: ignore[misc]
        "reliability": lambda: figures.reliability(factors, *facts, title=title),  # type: ignore[misc]
        "relation": lambda: figures.heat_map(factors, relation or factors.relations[0], title),
        "map": lambda: figures.entity_map(factors, title),
    }
    write_figure(output, draw[kind])
    answer(as_json, {"file": str(output), "kind": kind}, lambda: [show.values("drawn", [(kind, output)])])


def _facts(factors: Factors, test: str | None, known: tuple[str, ...]) -> tuple[KnownFacts, KnownFacts | None]:
    from ..analysis.known_facts import KnownFacts
    from .sources import open_facts

    assert test is not None
    found = KnownFacts(open_facts(test, split="test"), factors)
    if not len(found):
        raise InputError(f"the model knows the names of no fact of {test}; give facts of the same data")
    return found, KnownFacts([open_facts(source, split="train") for source in known], factors) if known else None
