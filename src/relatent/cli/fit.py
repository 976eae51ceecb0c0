"""`relatent fit`: learn a model and write it to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import calibrate_option, is_given, make_estimator, model_option, settings_options
from .output import answer, json_option, seed_option

if TYPE_CHECKING:
    from ..distributed.workers import Workers


@click.command()
@click.argument("data")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Model file to write.")
@model_option
@settings_options
@click.option("--preset", help="Settings for a known benchmark, such as fb15k-237-softmax; other options change them.")
@click.option("--validation", help="Facts to stop by: the fit that predicts these best is kept.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="File for the state, kept every 10 seconds (less often where writing is slow): after a kill or Ctrl-C the "
    "same command goes on from it.",
)
@click.option(
    "--checkpoint-steps", type=click.IntRange(min=1), metavar="N", help="Keep the state after every N steps as well."
)
@calibrate_option
@click.option(
    "--distributed",
    is_flag=True,
    help="Be one of several processes that fit together: torchrun --nproc-per-node 4 -m relatent fit … --distributed.",
)
@seed_option
@json_option
def fit(
    data: str,
    output: Path,
    model: str,
    calibrate: str | None,
    preset: str | None,
    validation: str | None,
    checkpoint: Path | None,
    checkpoint_steps: int | None,
    distributed: bool,
    seed: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Learn a model from facts and write it to a file. A benchmark's bare name means its training split.

    Ctrl-C ends the fit after the step under way and writes the model learned so far; a second one stops at once.

    Example: relatent fit kinships -o kinships.relatent --rank 50
    """
    from ..fit.checkpoint import Checkpoint
    from ..model.storage import check_target
    from . import tables as show
    from .distributed import check_launch, joined

    if checkpoint is not None and checkpoint.resolve() == output.resolve():
        raise click.UsageError("--checkpoint and --output must be different files")
    if checkpoint is None and checkpoint_steps is not None:
        raise click.UsageError("--checkpoint-steps needs --checkpoint FILE")
    if distributed and (model not in SEVERAL or calibrate):
        raise click.UsageError(f"--distributed is for --model {', '.join(SEVERAL)}, without --calibrate")
    check_launch(distributed)
    if preset is not None and is_given("model"):
        raise click.UsageError("--preset chooses the model itself; leave --model out")
    estimator = make_estimator(model, settings, seed, calibrate, preset)
    kept = None if checkpoint is None else Checkpoint(checkpoint, steps=checkpoint_steps)
    with joined(distributed, getattr(estimator, "device", "cpu")) as workers:
        with workers.raise_together():
            if workers.rank == 0:
                check_target(output)
        try:
            _learn(estimator, model, data, validation, output, kept, workers)
        except KeyboardInterrupt:
            if workers.rank == 0:
                _keep_what_there_is(estimator, output, checkpoint)
            raise
        if workers.rank > 0:
            return
        estimator.factors_.save(output)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)  # the model is kept, the state has done its duty
    trace, factors = estimator.trace_, estimator.factors_
    found = {
        "model": str(output),
        "data": {
            "facts": factors.about["data"]["facts"],
            "entities": len(factors.entities),
            "relations": len(factors.relations),
        },
        "rank": factors.rank,
        **({"method": factors.about["fit"]["method"]} if "method" in factors.about["fit"] else {}),
        "objective": float(trace.objective[-1]),
        "steps": len(trace),
        "seconds": float(trace.seconds[-1]),
        "converged": trace.converged,
        "verdict": trace.verdict,
        "settings": factors.about["settings"],
    }
    learned = {key: factors.about[key] for key in ("learned", "calibration") if key in factors.about}
    title = f"{factors.about['model']} on {data}"
    answer(as_json, found | learned, lambda: [show.values(title, show.details(found)), *show.learned(factors.about)])


def _learn(
    estimator: Any,
    model: str,
    data: str,
    validation: str | None,
    output: Path,
    kept: Any,
    workers: Workers,
) -> None:
    """Read and fit; of several workers, the first says what there is to say."""
    from ..progress import bar
    from .sources import open_part, open_whole, over_vocabulary

    facts = open_part(data, workers, split="train")
    held = None if validation is None else open_whole(validation, workers, split="valid")
    with workers.raise_together():
        held = None if held is None else over_vocabulary(held, facts)
        if workers.rank == 0:
            _check_room(estimator, facts, output)
            _tell_method(estimator, facts)
    if workers.rank > 0:
        estimator.fit(facts, held, checkpoint=kept, workers=workers)
        return
    if kept is not None and kept.exists():
        click.echo(f"going on from {kept.path}", err=True)
    with bar(f"fitting {model}", at_most=True, note="looking for a start") as progress:
        together = None if workers.size == 1 else workers
        estimator.fit(facts, held, progress=progress, checkpoint=kept, workers=together)


SEVERAL = ("als", "logit", "rescal")  # models that several workers fit together


def _check_room(estimator: Any, facts: Any, output: Path) -> None:
    """Refuse a model the disk has no room for, and say what a large fit takes; one too large the fit itself refuses."""
    from ..backend import memory as room

    needs = estimator.estimate_memory(facts)
    room.check_disk(output.resolve().parent, needs.file, f"the model {output.name}")
    if needs.memory > TELL and (free := room.available()) is not None and free >= needs.memory:
        click.echo(f"needs about {room.size(needs.memory)} of memory, {room.size(free)} are free", err=True)


def _tell_method(estimator: Any, facts: Any) -> None:
    """Say what "auto" does where it matters: samples give an estimate, and exact sums of so many cells take long."""
    from ..fit import losses
    from ..fit.estimators.rescal import Rescal

    if not isinstance(estimator, Rescal) or estimator.method != "auto" or estimator.device != "cpu":
        return
    if estimator.method_for(facts) == "sampled":
        click.echo(f"zeros are sampled: there are {facts.n_cells:.1e} cells (--method exact sums them all)", err=True)
    elif facts.n_cells > MANY_CELLS and type(losses.resolve(estimator.loss)) is losses.Logistic:
        told = "--method sampled is about as good in a fraction of the time"
        click.echo(f"all {facts.n_cells:.1e} cells are summed at every step ({told})", err=True)


TELL = 1 << 30  # bytes: a fit that takes more says so
MANY_CELLS = 5e7  # from here on an exact fit takes a minute and more


def _keep_what_there_is(estimator: Any, output: Path, checkpoint: Path | None) -> None:
    """After Ctrl-C: write the model learned so far, say where, and end; without a step there is nothing to write."""
    if not hasattr(estimator, "factors_"):
        click.echo("there is no model to keep yet", err=True)
        return
    estimator.factors_.save(output)
    on = "give --checkpoint next time to be able to go on"
    if checkpoint is not None and checkpoint.exists():
        on = f"the same command goes on from {checkpoint}"
    click.echo(f"stopped after {estimator.n_iter_} steps, the model so far is in {output}; {on}", err=True)
    sys.exit(130)
