"""`relatent rules`: rules that facts follow."""

from __future__ import annotations

from pathlib import Path

import click

from .output import print_result
from .reading_options import data_argument, reading_options
from .shared_options import json_option, seed_option, top_option
from .table_file import check_table_target, table_output_option, table_writer


@click.command()
@data_argument
@top_option(25, "rules")
@click.option("--head", "heads", multiple=True, help="Only rules that predict this relation (repeatable).")
@click.option(
    "--min-support", default=5, show_default=True, type=click.IntRange(min=1), help="Least support of a rule."
)
@table_output_option
@reading_options()
@seed_option
@json_option
def rules(
    data: tuple[str, ...],
    k: int,
    heads: tuple[str, ...],
    min_support: int,
    output: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """List the rules of one or two steps that facts follow, by confidence. No model is needed.

    The support is the number of facts that a rule predicts; the confidence is its share of the pairs (x, y) of the body
    whose x has any fact of the head (partial completeness).

    Example: relatent rules people.tsv --top 10
    """
    from ..analysis.rules import Rule
    from ..analysis.rules import rules as find
    from . import tables
    from .data_argument import open_facts

    if output is not None:
        check_table_target(output)
    found = find(
        open_facts(data, split="train"), relations=heads or None, k=k, min_support=min_support, random_state=seed
    )
    if output is None:
        print_result(as_json, {"rules": found}, lambda: [tables.rules(found)])
        return
    with table_writer(output, {"body": str, "head": str, "support": int, "confidence": float}) as write:
        write({name: [getattr(rule, name) for rule in found] for name in Rule._fields})
