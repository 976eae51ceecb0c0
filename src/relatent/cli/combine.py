"""`relatent combine`: several models of the same facts as one, whose scores are added."""

from __future__ import annotations

from pathlib import Path

import click

from .estimator_options import missing_option
from .output import print_result, probability_note, save_model
from .reading_options import reading_options
from .shared_options import FILE, further_known_option, json_option, model_output_option, seed_option


@click.command()
@click.argument("models", nargs=-1, required=True, type=FILE, metavar="MODEL MODEL...")
@model_output_option
@click.option(
    "--weight",
    "weights",
    multiple=True,
    type=float,
    metavar="X",
    help="Weight of the scores of each model, in their order (repeatable).  [default: 1 each]",
)
@click.option(
    "--calibrate/--no-calibrate",
    default=None,
    help="Learn patterns and probabilities of the sum, which fits the models again without some facts.  [default: if "
    "all models have probabilities of unlisted facts]",
)
@further_known_option
@click.option("--validation", multiple=True, help="Facts that the models were not fitted to (repeatable).")
@missing_option
@reading_options()
@seed_option
@json_option
def combine(
    models: tuple[Path, ...],
    output: Path,
    weights: tuple[float, ...],
    calibrate: bool | None,
    known: tuple[str, ...],
    validation: tuple[str, ...],
    missing: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """Add the scores of models of the same facts: one model that often ranks better than the best of them.

    The sum has patterns and probabilities of its own, which takes about as long as the fits of the models took; with
    --validation no fit is needed.

    Example: relatent combine first.relatent second.relatent -o both.relatent
    """
    from ..evaluation.combine import combine as add
    from ..model.factors import load
    from ..model.model_file import check_target
    from ..progress import bar
    from . import tables
    from .data_argument import open_facts

    check_target(output)
    given = [load(model) for model in models]
    facts = open_facts(known, split="train") if known else None
    unseen = open_facts(validation, split="valid") if validation else None
    with bar("combining", note="held-out facts") as progress:
        found = add(
            given,
            weights=weights or None,
            calibrate=calibrate,
            known=facts,
            validation=unseen,
            missing=missing,
            random_state=seed,
            progress=progress,
        )
    save_model(found, output)
    summands = [
        {"model": part.about.model or "Factors", "rank": part.rank, "weight": summand.weight}
        for part, summand in zip(found.parts, found.summands, strict=True)
    ]
    document = {
        "model": str(output),
        "rank": found.rank,
        "parts": summands,
        "bytes": output.stat().st_size,
        "probabilities": probability_note(found),
    }
    text = ", ".join(f"{part['model']} of rank {part['rank']} times {part['weight']:g}" for part in summands)
    shown = {**document, "parts": text}
    print_result(as_json, document, lambda: [tables.values(str(output), tables.details(shown))])
