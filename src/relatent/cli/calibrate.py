"""`relatent calibrate`: calibrated probabilities for a model that exists."""

from __future__ import annotations

from pathlib import Path

import click

from .estimator_options import missing_option
from .output import calibration_summary, print_result, probability_note, save_model
from .reading_options import reading_options
from .shared_options import further_known_option, json_option, model_argument, model_output_option, seed_option


@click.command()
@model_argument
@further_known_option
@click.option("--validation", multiple=True, help="Facts that the model was not fitted to (repeatable).")
@missing_option
@model_output_option
@reading_options()
@seed_option
@json_option
def calibrate(
    model: Path,
    known: tuple[str, ...],
    validation: tuple[str, ...],
    missing: float | None,
    output: Path,
    seed: int,
    as_json: bool,
) -> None:
    """Learn the probabilities of a model anew: for another share of missing facts, or from validation facts.

    With --validation no fit is needed. Without, a fit with the settings of the model holds out a part of its facts.
    OUTPUT may be MODEL.

    Example: relatent calibrate people.relatent --missing 0.3 -o people.relatent
    """
    from ..evaluation.calibrate import calibrate as learn
    from ..model.factors import load
    from ..model.model_file import check_target
    from ..progress import bar
    from . import tables
    from .data_argument import open_facts

    check_target(output)
    factors = load(model)
    facts = open_facts(known, split="train") if known else None
    unseen = open_facts(validation, split="valid") if validation else None
    with bar("calibrating", note="held-out facts") as progress:
        calibrated = learn(
            factors, known=facts, validation=unseen, missing=missing, random_state=seed, progress=progress
        )
    save_model(calibrated, output)
    document = {"model": str(output), "calibration": calibration_summary(calibrated)}
    note = probability_note(calibrated)
    print_result(as_json, document, lambda: [tables.values(str(output), [("probabilities", note)])])
