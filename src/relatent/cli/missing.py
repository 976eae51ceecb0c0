"""`relatent missing`: the likeliest absent facts of the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from .output import print_result, say
from .reading_options import reading_options
from .shared_options import FILE, json_option, model_argument, top_option
from .table_file import check_table_target, table_output_option, table_writer

known_option = click.option(
    "--known",
    multiple=True,
    required=True,
    help="Known facts: those that the model was fitted to, and all others (repeatable).",
)
reviewed_option = click.option(
    "--reviewed",
    multiple=True,
    type=FILE,
    help="Reviewed facts, as `relatent serve --review` writes them: accepted and rejected ones are left out "
    "(repeatable).",
)
KINDS = {
    "subject": str,
    "relation": str,
    "object": str,
    "score": float,
    "probability": float,
    "rank": int,
    "lift": float,
    "reason": str,
}


@click.command()
@model_argument
@known_option
@top_option(100, "facts")
@click.option("--relation", "-r", "relations", multiple=True, help="Only facts of this relation (repeatable).")
@click.option("--entity", "-e", "entities", multiple=True, help="Only facts about this entity (repeatable).")
@click.option(
    "--types",
    type=click.Choice(["seen", "all"]),
    help="Entities that a relation may have: those seen in the same place of its known facts, or all.  [default: those "
    "of the types of the model; without types, seen]",
)
@reviewed_option
@click.option("--reasons", is_flag=True, help="Also find the known fact that supports each result most; this is slow.")
@table_output_option
@reading_options("--edge-relation")
@json_option
def missing(
    model: Path,
    known: Sequence[str],
    k: int,
    relations: Sequence[str],
    entities: Sequence[str],
    types: str | None,
    reviewed: Sequence[Path],
    reasons: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """List the likeliest facts that are not known, of the whole graph, of some relations or of some entities.

    They are ordered by probability, or by score if the model has no probabilities; no fact that is likelier is left
    out. A rank is the place in the complete list.

    Example: relatent missing kinships.relatent --known kinships --top 20 -o missing.csv
    """
    from ..analysis.missing import missing as find
    from ..analysis.probabilities import describe_probabilities
    from ..data.review import read_review
    from ..model.factors import load
    from . import tables
    from .data_argument import open_facts

    if output is not None:
        check_table_target(output)
    factors, review = load(model), read_review(reviewed)
    found = find(
        factors,
        [*(open_facts(source, split="train") for source in known), review.accepted],
        k,
        list(relations) or None,
        list(entities) or None,
        types,
        rejected=review.rejected,
        reasons=reasons,
        progress=True,
    )
    note = describe_probabilities(factors)
    if not factors.has_probabilities or "calibration" in factors.about:
        say(f"note: {note}")
    if output is not None:
        with table_writer(output, KINDS) as write:
            rows = found.to_rows()
            write({name: [row[name] for row in rows] for name in KINDS})
    if output is None or as_json:
        print_result(as_json, {**found.to_dict(), "probabilities": note}, lambda: tables.missing(found))
