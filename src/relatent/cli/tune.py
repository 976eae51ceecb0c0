"""The command for people who do not want to choose: settings are searched, and the best are fitted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .output import answer, json_option, seed_option

if TYPE_CHECKING:
    from ..data.facts import Facts
    from ..evaluation.tuning_report import Tuned

SHOWN = 15  # trials in the table; --json has them all


@click.command()
@click.argument("data")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Model file to write.")
@click.option(
    "--time",
    "seconds",
    default=120.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For search and fit together; how many settings are tried depends on it, and on the machine.",
)
@click.option(
    "--trials", type=click.IntRange(min=1), help="Begin with so many settings, whatever the time: reproducible by seed."
)
@click.option(
    "--metric",
    type=click.Choice(["auc_pr", "log_loss", "mrr"]),
    default="auc_pr",
    show_default=True,
    help="What the choice is made by; mrr ranks held-out facts among all entities.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Choice(["logit", "als", "categorical", "softmax"]),
    help="Only this model (repeatable).  [default: all that suit data and metric]",
)
@click.option(
    "--validation",
    help="Facts to judge by.  [default: a benchmark's own validation split, otherwise tenths of the cells]",
)
@seed_option
@json_option
def tune(
    data: str,
    output: Path,
    seconds: float,
    trials: int | None,
    metric: str,
    models: Sequence[str],
    validation: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Choose model, rank, λ and bias by held-out cells, then fit the choice to all facts and write it to a file.

    Ctrl-C ends the search: the best so far is fitted and written; a second one ends that fit as well.

    Example: relatent tune kinships -o tuned.relatent --time 60
    """
    from ..evaluation.tuning import search
    from ..model.storage import check_target
    from ..progress import bar
    from .sources import open_facts

    check_target(output)
    facts = open_facts(data, split="train")
    held = _validation(data, validation, facts)
    with bar("searching", at_most=True, note="starting") as progress:
        found = search(
            facts,
            seconds,
            metric=metric,
            models=models or None,
            validation=held,
            trials=trials,
            random_state=seed,
            progress=progress,
        )
    if found.stopped:
        click.echo("the search is stopped, fitting the best so far", err=True)
    stopped = _fit(found, facts)
    found.factors_.save(output)
    document = {"model": str(output), "data": data, **found.to_dict(), "stopped": stopped}
    answer(as_json, document, lambda: _tables(data, output, found))
    if stopped:
        click.echo(f"stopped before the end, the model so far is in {output}", err=True)
        sys.exit(130)


def _validation(data: str, validation: str | None, facts: Facts) -> Facts | None:
    """The facts given to judge by, or the validation split of a benchmark whose training split is learned."""
    from ..data.catalog import datasets
    from .sources import open_facts, over_vocabulary

    name, _, split = data.partition(":")
    if validation is None and not Path(data).exists() and split in ("", "train"):
        validation = next((f"{name}:valid" for entry in datasets() if entry.name == name and entry.splits), None)
    return None if validation is None else over_vocabulary(open_facts(validation, split="valid"), facts)


def _fit(found: Tuned, facts: Facts) -> bool:
    """Fit the choice to all facts; whether search or fit were stopped by Ctrl-C."""
    from ..progress import bar

    try:
        with bar(f"fitting {found.chosen_candidate}", at_most=True, note="looking for a start") as progress:
            found.fit(facts, progress=progress)
    except KeyboardInterrupt:
        if not hasattr(found.estimator_, "factors_"):
            click.echo("there is no model to keep yet", err=True)
            raise
        return True
    return found.stopped


def _tables(data: str, output: Path, found: Tuned) -> list[Any]:
    from ..evaluation.tuning_report import METRICS
    from . import tables as show

    tried = [trial for trial in found.trials if trial.round]
    shown = tried[:SHOWN]
    if found.chosen_trial in tried[SHOWN:]:
        shown[-1] = found.chosen_trial
    rows = [
        (
            str(trial.candidate),
            str(len(trial.scores)),
            show.figure(trial.score, 4),
            show.figure(trial.spread, 4),
            f"{trial.seconds:.1f}",
            "chosen" if trial is found.chosen_trial and trial.judged else trial.note,
        )
        for trial in shown
    ]
    title = f"{len(tried)} setting{'s' if len(tried) > 1 else ''} tried on {data}, the best first"
    title += f" ({len(rows)} shown, all with --json)" if len(rows) < len(tried) else ""
    columns = ("settings", "parts", METRICS[found.metric], "spread", "seconds", "note")
    table = [show.table(title, columns, rows, numbers=(1, 2, 3, 4))] if rows else []
    how = f"{found.protocol}; " if tried else ""  # otherwise the sentence says why there is nothing
    told = f"{how}seed {found.random_state}; {found.seconds:.0f} s. The model is in {output}."
    return [*table, found.sentence, *filter(None, [found.caveat]), told]
