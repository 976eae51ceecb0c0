"""`relatent rules`: rules that facts follow."""

from __future__ import annotations

from pathlib import Path

import click

from .output import print_result
from .reading_options import data_argument, label_options, reading_options
from .shared_options import json_option, seed_option, top_option
from .table_file import check_table_target, table_output_option, write_table

RULE_COLUMNS = {"body": str, "head": str, "support": int, "confidence": float}


@click.command()
@data_argument
@top_option(25, "rules")
@click.option("--head", "heads", multiple=True, help="Only rules that predict this relation (repeatable).")
@click.option(
    "--min-support", default=5, show_default=True, type=click.IntRange(min=1), help="Least support of a rule."
)
@table_output_option
@reading_options()
@label_options
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
    """List the rules of one or two steps that facts follow, by confidence: of data, or of the facts that a model holds.

    The support is the number of facts that a rule predicts; the confidence is its share of the pairs (x, y) of the body
    whose x has any fact of the head (partial completeness).

    Example: relatent rules people.relatent --top 10
    """
    from ..analysis.rules import rules as find
    from ..data.result_labels import add_labels, shown
    from ..json_values import to_json
    from ..model.factors import load
    from ..model.model_file import looks_like_a_model
    from . import tables
    from .data_argument import open_facts, with_labels

    if output is not None:
        check_table_target(output)
    is_model = len(data) == 1 and looks_like_a_model(data[0])
    facts = load(Path(data[0])).facts_with() if is_model else with_labels(open_facts(data, split="train"))
    found = find(facts, relations=heads or None, k=k, min_support=min_support, random_state=seed)
    if output is not None:
        write_table(output, RULE_COLUMNS, [rule._asdict() for rule in found], facts)
    if output is None or as_json:
        document = {"rules": add_labels(to_json(found), facts)}
        print_result(as_json, document, lambda: [tables.rules(shown(found, facts))])
