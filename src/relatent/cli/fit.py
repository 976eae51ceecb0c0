"""`relatent fit`: fit a model and write it to a file."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .estimator_options import (
    calibrate_option,
    is_given,
    make_estimator,
    missing_option,
    model_option,
    settings_options,
    without_facts_option,
)
from .output import calibration_summary, print_result, probability_note, save_model, say
from .reading_options import annotation_options, data_argument, reading_options
from .shared_options import FILE, OUTPUT, json_option, model_output_option, seed_option

if TYPE_CHECKING:
    from ..data.facts import Facts
    from ..distributed.workers import Workers
    from ..fit.checkpoint import Checkpoint
    from ..fit.estimators.base import Estimator
    from ..model.factors import Factors

DISTRIBUTED_MODELS = ("als", "logit", "rescal")
REPORTED_MEMORY_BYTES = 1 << 30  # the memory of larger fits is reported


@click.command()
@data_argument
@model_output_option
@model_option
@settings_options
@click.option("--preset", help="Settings for a known benchmark, such as fb15k-237-softmax; other options change them.")
@reading_options()
@annotation_options
@click.option(
    "--reviewed",
    type=FILE,
    multiple=True,
    help="Reviewed facts, as `relatent serve --review` writes them: accepted ones are added, rejected ones are false "
    "(repeatable).",
)
@click.option("--validation", help="Validation facts for early stopping; the best iterate is kept.")
@click.option(
    "--checkpoint",
    type=OUTPUT,
    help="File to save the state of the fit to, every 10 seconds or less often if writing is slow; after a kill or "
    "Ctrl-C the same command resumes from it.",
)
@click.option(
    "--checkpoint-steps", type=click.IntRange(min=1), metavar="N", help="Also save the state after every N steps."
)
@calibrate_option
@missing_option
@without_facts_option
@click.option(
    "--distributed",
    is_flag=True,
    help="Run as one of several processes of one fit: torchrun --nproc-per-node 4 -m relatent fit … --distributed.",
)
@seed_option
@json_option
def fit(
    data: tuple[str, ...],
    output: Path,
    model: str,
    calibrate: bool,
    missing: float | None,
    without_facts: bool,
    preset: str | None,
    reviewed: tuple[Path, ...],
    validation: str | None,
    checkpoint: Path | None,
    checkpoint_steps: int | None,
    distributed: bool,
    seed: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Fit a model to facts and write it to a file. The bare name of a benchmark means its training split.

    Ctrl-C ends the fit after the current step and writes the model fitted so far; a second Ctrl-C stops at once.

    Example: relatent fit kinships -o kinships.relatent --rank 50
    """
    from ..data.result_labels import shown
    from ..fit.checkpoint import Checkpoint
    from ..json_values import record
    from ..model.model_file import check_target
    from . import tables
    from .data_argument import names_of
    from .distributed import check_launch, join_workers

    if checkpoint is None and checkpoint_steps is not None:
        raise click.UsageError("--checkpoint-steps needs --checkpoint FILE")
    if distributed and reviewed:
        raise click.UsageError("--reviewed is not for --distributed; apply the decisions to DATA first")
    if distributed and model not in DISTRIBUTED_MODELS:
        raise click.UsageError(f"--distributed is for --model {', '.join(DISTRIBUTED_MODELS)}")
    check_launch(distributed)
    if preset is not None and is_given("model"):
        raise click.UsageError("--preset chooses the model itself; leave --model out")
    if missing is not None and not calibrate:
        raise click.UsageError("--no-calibrate contradicts --missing; leave one out")
    estimator = make_estimator(
        model, settings, seed, preset, calibrate=calibrate, missing=missing, keep_facts=not without_facts
    )
    saved_state = None if checkpoint is None else Checkpoint(checkpoint, steps=checkpoint_steps)
    with join_workers(distributed, getattr(estimator, "device", "cpu")) as workers:
        with workers.raise_together():
            if workers.rank == 0:
                check_target(output)
        try:
            _read_and_fit(estimator, model, data, reviewed, validation, output, saved_state, workers)
        except KeyboardInterrupt:
            if workers.rank == 0:
                _save_interrupted(estimator, output, checkpoint)
            raise
        if workers.rank > 0:
            return
        save_model(estimator.factors_, output)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)  # the model is written, the state is no longer needed
    factors = estimator.factors_
    summary = _summary(factors, output)
    about = factors.about
    learned = {"learned": found} if (found := record(about.learned)) else {}
    if factors.calibration is not None:
        learned["calibration"] = calibration_summary(factors)
    title = f"{about.model} on {names_of(data)}"
    without_patterns = replace(about.learned, patterns=None)  # `info` shows them
    print_result(
        as_json,
        summary | learned,
        lambda: [
            tables.values(
                title,
                [
                    *tables.details(_readable(summary)),
                    ("probabilities", _probabilities_note(factors)),
                    ("facts", _facts_note(factors)),
                ],
            ),
            *tables.learned(shown(record(without_patterns), factors)),
        ],
    )


def _probabilities_note(factors: Factors) -> str:
    """What the probabilities mean and assume, for a reader who decides by them."""
    found = factors.calibration
    if found is None:
        return probability_note(factors)
    if not found.expected:
        return "the data lists every possible fact, so there is none to give a probability to"
    share = f"{100 * found.missing:.3g} % of all true facts, about {max(1, round(found.expected)):,}, are missing in it"
    assumed = f"it is assumed that {share}; if you know better, say so with --missing, here or to `relatent calibrate`"
    said = f"as --missing says, {share}"
    return (
        f"each is the chance that a fact which the data does not list is true; {assumed if found.is_assumed else said}"
    )


def _facts_note(factors: Factors) -> str:
    """Whether the model file holds the facts."""
    if factors.facts is None:
        return "not in the model file: later commands need them with --known"
    return "in the model file: no later command needs the data, and who has the file can read them"


def _summary(factors: Factors, output: Path) -> dict[str, Any]:
    from ..json_values import record

    about, fit = factors.about, factors.about.fit
    assert about.data is not None
    assert fit is not None
    return {
        "model": str(output),
        "data": {
            "facts": about.data.facts,
            "entities": len(factors.entities),
            "relations": len(factors.relations),
            **({} if factors.attributes is None else {"attributes": len(factors.attributes.columns)}),
            **({} if factors.types is None else {"types": len(factors.types.names)}),
            **({"labels": n_labels} if (n_labels := _n_labels(factors)) else {}),
        },
        "rank": factors.rank,
        **({"method": fit.method} if fit.method else {}),
        **{name: getattr(fit, name) for name in ("objective", "steps", "seconds", "converged", "verdict")},
        "settings": dict(about.settings),
        **({"chosen": record(about.chosen)} if about.chosen else {}),
    }


def _n_labels(factors: Factors) -> int:
    return sum(1 for names in (factors.entities, factors.relations) for text in names.labels.texts if text)


def _readable(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary for a table: how the fit ended as the verdict says, and the chosen settings with the reason."""
    from ..model.provenance import shown_settings

    shown = {name: value for name, value in summary.items() if name != "converged"}
    shown["settings"] = shown_settings(summary["settings"])
    if "chosen" in summary:
        values = ", ".join(f"{name} {value}" for name, value in shown_settings(summary["chosen"]["settings"]).items())
        shown["chosen"] = f"{values} ({summary['chosen']['reason']})"
    return shown


def _read_and_fit(
    estimator: Estimator,
    model: str,
    data: tuple[str, ...],
    reviewed: tuple[Path, ...],
    validation: str | None,
    output: Path,
    checkpoint: Checkpoint | None,
    workers: Workers,
) -> None:
    """Read the facts and fit; worker 0 prints the messages of all workers."""
    from ..data.review import read_review
    from ..progress import bar
    from .data_argument import annotate, open_shard, open_whole, warn_of_oddities, with_names_of

    facts = open_shard(data, workers, split="train")
    facts = annotate(read_review(reviewed).apply(facts) if reviewed else facts, workers)
    heldout = None if validation is None else open_whole(validation, workers, split="valid")
    with workers.raise_together():
        heldout = None if heldout is None else with_names_of(heldout, facts)
        if workers.rank == 0:
            warn_of_oddities(facts, data)
            _check_memory_and_disk(estimator, facts, output)
    if workers.rank > 0:
        estimator.fit(facts, heldout, checkpoint=checkpoint, workers=workers)
        return
    if checkpoint is not None and checkpoint.exists():
        say(f"resuming from {checkpoint.path}")
    with bar(f"fitting {model}", at_most=True, note="computing the start, the first time also compiling") as progress:
        together = None if workers.size == 1 else workers
        estimator.fit(facts, heldout, progress=progress, checkpoint=checkpoint, workers=together)


def _check_memory_and_disk(estimator: Estimator, facts: Facts, output: Path) -> None:
    """Refuse a model file too large for the disk, and report the memory of a large fit; the fit checks the memory."""
    from ..backend import memory

    needs = estimator.estimate_memory(facts)
    memory.check_disk(Path(os.path.realpath(output)).parent, needs.file, f"the model {output.name}")
    free = memory.available()
    if needs.memory > REPORTED_MEMORY_BYTES and free is not None and free >= needs.memory:
        say(f"needs about {memory.size(needs.memory)} of memory, {memory.size(free)} are free")


def _save_interrupted(estimator: Estimator, output: Path, checkpoint: Path | None) -> None:
    """Write the model fitted so far, say where it is, and exit; returns if there is no model yet."""
    if not hasattr(estimator, "factors_"):
        say("interrupted before there was a model to write")
        return
    save_model(estimator.factors_, output)
    resume = "use --checkpoint to be able to resume"
    if checkpoint is not None and checkpoint.exists():
        resume = f"the same command resumes from {checkpoint}"
    say(f"interrupted after {estimator.n_iter_} steps; the model so far is in {output}; {resume}")
    sys.exit(130)
