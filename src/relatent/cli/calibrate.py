"""`relatent calibrate`: calibrated probabilities for a model that exists."""

from __future__ import annotations

from pathlib import Path

import click

from .estimator_options import missing_option
from .output import print_result, save_model
from .reading_options import reading_options
from .shared_options import json_option, model_argument, model_output_option, seed_option


@click.command()
@model_argument
@click.option("--known", multiple=True, required=True, help="The facts that the model was fitted to (repeatable).")
@click.option("--validation", multiple=True, help="Facts that the model was not fitted to (repeatable).")
@missing_option
@click.option(
    "--method", type=click.Choice(["isotonic", "platt"]), default="isotonic", show_default=True, help="Form of the map."
)
@model_output_option
@reading_options()
@seed_option
@json_option
def calibrate(
    model: Path,
    known: tuple[str, ...],
    validation: tuple[str, ...],
    missing: float | None,
    method: str,
    output: Path,
    seed: int,
    as_json: bool,
) -> None:
    """Give a model calibrated probabilities of cells that are not listed. Scores and rankings do not change.

    With --validation no fit is needed. Without, fits with the settings of the model hold out parts of the known facts,
    which takes as long as `relatent fit --missing` beyond the fit itself. OUTPUT may be MODEL.

    Example: relatent calibrate people.relatent --known people.tsv --missing 0.1 -o people.relatent
    """
    from ..analysis.probabilities import describe_probabilities
    from ..evaluation.calibration import calibrate as learn
    from ..model.factors import load
    from ..model.model_file import check_target
    from ..progress import bar
    from . import tables
    from .data_argument import open_facts

    check_target(output)
    factors, facts = load(model), open_facts(known, split="train")
    unseen = open_facts(validation, split="valid") if validation else None
    with bar("calibrating", note="held-out facts") as progress:
        calibrated = learn(
            factors, facts, validation=unseen, missing=missing, method=method, random_state=seed, progress=progress
        )
    save_model(calibrated, output)
    document = {"model": str(output), "calibration": calibrated.about["calibration"]}
    note = describe_probabilities(calibrated)
    print_result(as_json, document, lambda: [tables.values(str(output), [("probabilities", note)])])
