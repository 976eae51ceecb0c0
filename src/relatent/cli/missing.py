"""`relatent missing` and `relatent doubt`: the likeliest absent facts, and the most doubtful known ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from .output import print_result, probability_note, say
from .reading_options import reading_options
from .shared_options import FILE, further_known_option, json_option, model_argument, seed_option, top_option
from .table_file import check_table_target, table_output_option, write_table

reviewed_option = click.option(
    "--reviewed",
    multiple=True,
    type=FILE,
    help="Reviewed facts, as `relatent serve --review` writes them: accepted and rejected ones are left out "
    "(repeatable).",
)
FACT = {"subject": str, "relation": str, "object": str}
DOUBTFUL = {**FACT, "doubt": float, "score": float, "left_out_score": float, "alternative": str}
MISSING = {
    **FACT,
    "score": float,
    "probability": float,
    "rank": int,
    "lift": float,
}
REASON = {"reason": str}  # with --reasons

WHY = {  # entities that were considered, where these are not all and nobody asked for it
    "roles": "there are too many cells for all entities: only those that share a role with entities of the relation's "
    "known facts were considered; --types all considers all",
    "seen": "there are too many cells: only entities seen in the same place of the relation were considered, so that "
    "first facts of a kind are not found; --relation and --entity make room, --types roles considers more",
}


@click.command()
@model_argument
@further_known_option
@top_option(100, "facts")
@click.option("--relation", "-r", "relations", multiple=True, help="Only facts of this relation (repeatable).")
@click.option("--entity", "-e", "entities", multiple=True, help="Only facts about this entity (repeatable).")
@click.option(
    "--types",
    type=click.Choice(["all", "roles", "seen"]),
    help="Entities that a relation may have: all, those that share a role with entities of its known facts, or only "
    "those seen in the same place.  [default: those of the types of the model; without types, all, or the next that "
    "leaves at most 5·10⁹ cells]",
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
    out. A rank is the place in the complete list. A pair of an undirected relation (relatent fit --undirected) is
    listed once.

    Example: relatent missing kinships.relatent --top 20 -o missing.csv
    """
    from ..analysis.missing import missing as find
    from ..data.result_labels import add_labels, shown
    from ..data.review import read_review
    from ..model.factors import load
    from . import tables
    from .data_argument import open_facts

    if output is not None:
        check_table_target(output)
    factors, review = load(model), read_review(reviewed)
    found = find(
        factors,
        k,
        list(relations) or None,
        list(entities) or None,
        types,
        known=[*(open_facts(source, split="train") for source in known), review.accepted],
        rejected=review.rejected,
        reasons=reasons,
        progress=True,
    )
    note = probability_note(factors)
    if not factors.has_probabilities:
        say(
            f"warning: {note}; scores of different questions cannot be compared, so the order of this list means little"
        )
    else:
        say(f"note: {note}")
    if types is None and found.candidates in WHY:
        say(f"note: {WHY[found.candidates]}")
    if output is not None:
        rows = [row if reasons else {name: row[name] for name in MISSING} for row in found.to_rows()]
        write_table(output, MISSING | REASON if reasons else MISSING, rows, factors)
    if output is None or as_json:
        document = {**add_labels(found.to_dict(), factors), "probabilities": note}
        print_result(as_json, document, lambda: tables.missing(shown(found, factors)))


@click.command()
@model_argument
@further_known_option
@top_option(100, "facts")
@click.option(
    "--prior",
    default=0.02,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of the known facts that is assumed to be wrong; it does not change the order.",
)
@click.option(
    "--refit/--no-refit",
    default=True,
    show_default=True,
    help="Fit the model again with planted errors, to learn the probability that a fact is wrong.",
)
@table_output_option
@reading_options()
@seed_option
@json_option
def doubt(
    model: Path, known: Sequence[str], k: int, prior: float, refit: bool, output: Path | None, seed: int, as_json: bool
) -> None:
    """List the known facts that the rest of the data contradicts most.

    Each fact is left out and predicted from the others, without a fit for each. Its doubt is the probability that it is
    wrong if a share --prior of all is: errors are planted, and one more fit finds out how often facts at that place of
    the list are among them.

    Example: relatent doubt kinships.relatent --top 20
    """
    from ..analysis.doubt import doubt as find
    from ..data.result_labels import add_labels, shown
    from ..model.factors import load
    from . import tables
    from .data_argument import open_facts

    if output is not None:
        check_table_target(output)
    factors, facts = load(model), [open_facts(source, split="train") for source in known]
    found = find(factors, k, known=facts, prior=prior, refit=refit, random_state=seed, progress=True)
    if refit and any(fact.doubt is None for fact in found.doubtful):
        say(
            "note: the list has no doubt: the model, or its facts without attributes, do not say how to fit it again, "
            "or every fact of the same kinds is known, so that no error can be planted"
        )
    if not found.left_out:
        say("note: facts of this kind of model cannot be left out; their own scores are compared, which they raised")
    if output is not None:
        write_table(output, DOUBTFUL, [fact._asdict() for fact in found.doubtful], factors)
    if output is None or as_json:
        document = add_labels(found.to_dict(), factors)
        print_result(as_json, document, lambda: [tables.doubtful(shown(found, factors))])
