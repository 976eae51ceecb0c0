"""`relatent tune`: search for settings by held-out cells, and fit the best."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .output import print_result, probability_note, save_model, say
from .reading_options import annotation_options, data_argument, reading_options
from .shared_options import json_option, model_output_option, seed_option

if TYPE_CHECKING:
    from ..data.facts import Facts
    from ..evaluation.tuning_report import Trial, Tuned

MIN_SECONDS = 1e-3  # left for the search if reading took all the time
MAX_TRIALS = 15  # shown in the table; --json has all


@click.command()
@data_argument
@model_output_option
@click.option(
    "--time",
    "seconds",
    default=120.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time for everything, including reading and the final fit; it limits the number of settings tried.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    help="Number of settings to start with, whatever the time; makes the search reproducible.",
)
@click.option(
    "--metric",
    type=click.Choice(["auc_pr", "log_loss", "mrr"]),
    help="Metric to choose by; mrr ranks held-out facts among all entities.  [default: mrr for sparse data, otherwise "
    "auc_pr]",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Choice(["logit", "als", "categorical", "softmax"]),
    help="Only this model (repeatable).  [default: all that suit the data and the metric; softmax with --metric mrr]",
)
@click.option("--device", default="cpu", metavar="cpu|cuda", help="Where to fit.  [default: cpu]")
@reading_options()
@annotation_options
@click.option(
    "--validation",
    help="Validation facts to choose by.  [default: the validation split of a benchmark, otherwise tenths of the "
    "cells]",
)
@click.option(
    "--known",
    multiple=True,
    metavar="DATA",
    help="True facts, such as test facts, that are neither learned from nor chosen by; in mrr they do not compete with "
    "held-out facts (repeatable).  [default: the test split of a benchmark]",
)
@seed_option
@json_option
def tune(
    data: tuple[str, ...],
    output: Path,
    seconds: float,
    trials: int | None,
    metric: str | None,
    models: Sequence[str],
    device: str,
    validation: str | None,
    known: Sequence[str],
    seed: int,
    as_json: bool,
) -> None:
    """Choose model, rank, penalty and bias by held-out cells, and write the model of all facts to a file.

    The settings of a fit without options are kept unless others are better by more than noise. In the end the sum of
    the best two or three fits competes with the best. Ctrl-C ends the search; the best settings so far are fitted and
    written. A second Ctrl-C ends that fit, too.

    Example: relatent tune kinships -o tuned.relatent --time 60
    """
    started = time.monotonic()  # imports take seconds on a busy machine
    from ..evaluation.tuning import tune as search
    from ..model.model_file import check_target
    from ..progress import bar
    from .data_argument import annotate, names_of, open_facts

    check_target(output)
    facts = annotate(open_facts(data, split="train"))
    heldout = _validation(data, validation, facts)
    others = [open_facts(source) for source in known or _test_split(data, validation)]
    with bar("searching", at_most=True, note="starting") as progress:
        found = search(
            facts,
            max(seconds - (time.monotonic() - started), MIN_SECONDS),
            metric=metric,
            models=models or None,
            validation=heldout,
            known=others,
            trials=trials,
            random_state=seed,
            progress=progress,
            device=device,
        )
    save_model(found.factors_, output)
    say(f"note: {probability_note(found.factors_)}")
    name = names_of(data)
    document = {"model": str(output), "data": name, **found.to_dict()}
    print_result(as_json, document, lambda: _tables(name, output, found))
    if found.stopped:
        say(f"interrupted before the end; the best model so far is in {output}")
        sys.exit(130)


def _validation(data: Sequence[str], validation: str | None, facts: Facts) -> Facts | None:
    """The given validation facts, or the validation split of a benchmark whose training split is fitted."""
    from .data_argument import open_facts, with_names_of

    if validation is None and (benchmark := _benchmark(data)):
        validation = f"{benchmark}:valid"
    return None if validation is None else with_names_of(open_facts(validation, split="valid"), facts)


def _test_split(data: Sequence[str], validation: str | None) -> list[str]:
    """The test split of a benchmark whose validation split is chosen by: its facts do not compete in the ranking."""
    benchmark = _benchmark(data) if validation is None else None
    return [f"{benchmark}:test"] if benchmark else []


def _benchmark(data: Sequence[str]) -> str | None:
    """The name of the benchmark whose training split is given, if it is one with splits."""
    from ..data.catalog import datasets

    name, _, split = data[0].partition(":")
    if len(data) > 1 or Path(data[0]).exists() or split not in ("", "train"):
        return None
    return next((entry.name for entry in datasets() if entry.name == name and entry.splits), None)


def _note(trial: Trial, found: Tuned) -> str:
    """What to know of a trial: that it is chosen, what went wrong, or that its fits had few steps."""
    if trial is found.chosen_trial and (trial.judged or not trial.round):
        return "chosen"
    return trial.note or ("short fit" if trial.round == 1 else "")


def _tables(data: str, output: Path, found: Tuned) -> list[Any]:
    from ..evaluation.tuning_report import METRICS
    from . import tables

    tried = [trial for trial in found.trials if trial.round]
    shown = tried[:MAX_TRIALS]
    if found.chosen_trial in tried[MAX_TRIALS:]:
        shown[-1] = found.chosen_trial
    if tried and found.chosen_trial not in tried:
        shown = [found.chosen_trial, *shown]
    rows = [
        (
            str(trial.candidate),
            str(len(trial.scores)),
            tables.figure(trial.score, 4),
            tables.figure(trial.spread, 4),
            f"{trial.seconds:.1f}",
            _note(trial, found),
        )
        for trial in shown
    ]
    short = any(trial.round == 1 for trial in shown)
    order = "complete fits first, each kind best first" if short else "best first"
    title = f"{len(tried)} setting{'s' if len(tried) > 1 else ''} tried on {data}, {order}"
    title += f" ({len(rows)} shown, all with --json)" if len(rows) < len(tried) else ""
    columns = ("settings", "held-out parts", METRICS[found.metric], "spread", "seconds", "note")
    trials = [tables.table(title, columns, rows, numbers=(1, 2, 3, 4))] if rows else []
    protocol = f"{found.protocol}; " if tried else ""  # without trials the sentence says why
    summary = f"{protocol}seed {found.random_state}; {found.seconds:.0f} s. The model is in {output}."
    return [*trials, found.sentence, *filter(None, [found.caveat]), summary]
