"""The command line: parse, call the library, print. Heavy imports wait until a command needs them."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..errors import DownloadError, InputError, RelatentError, RelatentWarning
from .analysis import COMMANDS
from .options import calibrate_option, is_given, make_estimator, model_option, search_grid, settings_options
from .output import answer, json_option, seed_option
from .plot import plot
from .serve import serve
from .tune import tune

if TYPE_CHECKING:
    from ..distributed.workers import Workers

WAIT = 2.0  # seconds that a worker leaves the first to speak


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="relatent")
def cli() -> None:
    """Learn from facts (subject, relation, object) and predict which others are true.

    DATA is a file (TSV, CSV, Parquet, N-Triples or Turtle; plain, .gz or .zst) or a name that `relatent datasets`
    lists; a benchmark's splits are NAME:train, NAME:valid and NAME:test.
    """


for command in (*COMMANDS, tune, plot, serve):
    cli.add_command(command)


@cli.command()
@json_option
def datasets(as_json: bool) -> None:
    """List the data sets known by name."""
    from dataclasses import asdict

    from ..data.catalog import datasets as catalog
    from . import tables as show

    answer(as_json, {"datasets": [asdict(entry) for entry in catalog()]}, lambda: [show.datasets(catalog())])


@cli.command()
@click.argument("file")
@click.option("--verify", is_flag=True, help="Compute a model file's checksum and compare.")
@json_option
def info(file: str, verify: bool, as_json: bool) -> None:
    """Say what a data file or a model file holds.

    Example: relatent info model.relatent --verify
    """
    from . import tables as show

    found = _describe(file, verify)
    about = found.get("about", {})
    shown = {**found, "about": {k: v for k, v in about.items() if k != "learned"}} if about else {**found}
    if "verified" in shown and not verify:
        shown["verified"] = "not checked (--verify compares the checksum)"
    answer(as_json, found, lambda: [show.values(file, _readable(shown)), *show.learned(about)])


@cli.command()
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
        with workers.together():
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
    answer(as_json, found | learned, lambda: [show.values(title, _readable(found)), *show.learned(factors.about)])


@cli.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--subject", "-s", help="Given subject.")
@click.option("--relation", "-r", help="Given relation.")
@click.option("--object", "-t", "object_", help="Given object.")
@click.option("--top", "k", default=10, show_default=True, type=click.IntRange(min=1), help="How many answers.")
@click.option("--known", multiple=True, help="Facts to leave out of the answers (repeatable).")
@json_option
def predict(
    model: Path,
    subject: str | None,
    relation: str | None,
    object_: str | None,
    k: int,
    known: Sequence[str],
    as_json: bool,
) -> None:
    """Answer a question: give two of subject, relation and object; or all three, to see how likely one fact is.

    Example: relatent predict kinships.relatent --subject person0 --relation term4 --known kinships
    """
    from ..model.storage import load
    from . import tables as show
    from .sources import open_facts

    given = {"subject": subject, "relation": relation, "object": object_}
    if sum(value is not None for value in given.values()) < 2:
        raise click.UsageError("give two of --subject, --relation and --object, or all three")
    factors = load(model)
    loss = str(factors.about.get("settings", {}).get("loss", ""))
    if loss.lower().startswith("softmax") and "calibration" not in factors.about:
        told = "scores of a softmax model rank answers; they are no probabilities unless it is fitted with --calibrate"
        click.echo(told, err=True)
    found = _predictions(factors, given, k, [open_facts(source) for source in known])
    answer(as_json, {"predictions": found}, lambda: [show.predictions(found)])


@cli.command("cross-validate")
@click.argument("data")
@model_option
@settings_options
@click.option("--folds", default=10, show_default=True, type=click.IntRange(min=2))
@click.option("--heldout", type=click.Choice(["masked", "zero"]), default="masked", show_default=True)
@click.option("--scores", type=click.Choice(["raw", "pair-normalised"]), default="raw", show_default=True)
@click.option(
    "--search",
    multiple=True,
    metavar="NAME=V1,V2",
    help="Settings to choose from inside each training fold; l2 sets both.",
)
@click.option("--metric", default="auc_pr", show_default=True, help="What the search maximises.")
@calibrate_option
@click.option(
    "--reliability",
    type=click.Path(path_type=Path),
    help="Draw the reliability diagram: FILE.png or .svg; needs relatent[plot].",
)
@click.option("--leaky", is_flag=True, help="Let a symmetric relation's (i,j) and (j,i) fall into different folds.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: chosen]")
@seed_option
@json_option
def cross_validate(
    data: str,
    model: str,
    folds: int,
    heldout: str,
    scores: str,
    search: Sequence[str],
    metric: str,
    calibrate: str | None,
    reliability: Path | None,
    leaky: bool,
    jobs: int | None,
    seed: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Measure how well a model predicts cells it has not seen.

    Example: relatent cross-validate kinships --rank 50 --search l2=0.5,1,2
    """
    from ..evaluation.cross_validation import cross_validate as run
    from ..progress import bar
    from . import tables as show
    from .sources import open_facts

    if reliability is not None:
        from ..evaluation.reliability import check_picture

        check_picture(reliability)
    estimator = make_estimator(model, settings, seed, calibrate)
    grid = search_grid(search, "estimator__" if calibrate else "")
    facts = open_facts(data)
    with bar(f"cross-validating {model}") as progress:
        report = run(
            estimator,
            facts,
            folds=folds,
            heldout=heldout,
            scores=scores,
            random_state=seed,
            search=grid,
            metric=metric,
            leaky=leaky,
            n_jobs=jobs,
            progress=progress,
        )
    if reliability is not None:
        report.plot_reliability(reliability)
    answer(
        as_json, {"data": data, "model": model, **report.to_dict()}, lambda: show.report(f"{model} on {data}", report)
    )


@cli.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("test")
@click.option(
    "--known", multiple=True, help="True facts left out of the ranking, such as the training facts (repeatable)."
)
@json_option
def evaluate(model: Path, test: str, known: Sequence[str], as_json: bool) -> None:
    """Rank test facts among all entities: filtered MRR and hits@k. A benchmark's bare name means its test split.

    Example: relatent evaluate wn18rr.relatent wn18rr --known wn18rr
    """
    from ..evaluation.ranking import evaluate as rank
    from ..model.storage import load
    from ..progress import bar
    from . import tables as show
    from .sources import open_facts

    factors = load(model)
    facts, others = open_facts(test, split="test"), [open_facts(source) for source in known]
    with bar("ranking") as progress:
        found = rank(factors, facts, known=others, progress=lambda done, total: progress(done, total, ""))
    answer(as_json, {"test": test, **found.as_dict()}, lambda: show.ranking(f"{model} on {test}", found))


@cli.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def export(model: Path, folder: Path, as_json: bool) -> None:
    """Write entity and relation vectors as Parquet and NumPy files.

    Example: relatent export kinships.relatent vectors/
    """
    from ..model.export import export as write
    from ..model.storage import load
    from . import tables as show

    written = [str(path) for path in write(load(model), folder)]
    answer(as_json, {"files": written}, lambda: [show.values("written", [("", path) for path in written])])


@cli.command()
@click.option("--dataset", "only_datasets", multiple=True, help="Only this data (repeatable).")
@click.option("--model", "only_models", multiple=True, help="Only this model (repeatable).")
@click.option("--folds", default=10, show_default=True, type=click.IntRange(min=3))
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: one a core]")
@seed_option
@json_option
def table1(
    only_datasets: Sequence[str], only_models: Sequence[str], folds: int, jobs: int | None, seed: int, as_json: bool
) -> None:
    """Run Table 1 of the paper again and show its figures beside ours.

    Example: relatent table1 --dataset kinships --model logit
    """
    import joblib

    from ..evaluation import table1 as paper
    from ..progress import bar
    from . import tables as show

    experiments = paper.select(only_datasets, only_models)
    rows = []
    for number, experiment in enumerate(experiments, 1):
        title = f"{number}/{len(experiments)} {experiment.title}"
        try:
            with bar(title) as progress:
                jobs = jobs or joblib.cpu_count()
                rows.append(paper.run(experiment, folds=folds, random_state=seed, n_jobs=jobs, progress=progress))
        except DownloadError as problem:
            if only_datasets:
                raise
            click.echo(f"warning: {experiment.title} left out: {problem}", err=True)
            continue
        click.echo(f"{title}: {rows[-1].auc_pr:.3f} in {rows[-1].seconds:.0f} s", err=True)
    answer(as_json, {"rows": [row.to_dict() for row in rows]}, lambda: [show.table1(rows), *TABLE1_NOTES])


TABLE1_NOTES = (
    "* the protocol of the authors' published example, which the paper probably follows; it does not say.",
    "AUC-PR by trapezoid, as the paper's: mean ± sd over folds (Presidents: over 3 or 5 divisions of the persons).",
    "best trivial: AUC-PR / average precision of the best of base rate, relation frequency, copied mirror cell.",
    'mrc, mln: the paper\'s row "MLN" is almost certainly MRC. categorical: one relation a pair.',
    "vote: the share of a person's running mates in each party. ecoli-ppi stands in for Bacteriome: not comparable.",
)


# --- between the options and the library


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
    with workers.together():
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
        several = {} if workers.size == 1 else {"workers": workers}  # not every estimator takes them
        estimator.fit(facts, held, progress=progress, checkpoint=kept, **several)


SEVERAL = ("als", "logit", "rescal")  # models that several workers fit together


def _check_room(estimator: Any, facts: Any, output: Path) -> None:
    """Refuse a model the disk has no room for, and say what a large fit takes; one too large the fit itself refuses."""
    from ..backend import memory as room

    needs = estimator.needs(facts)
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


def _predictions(factors: Any, given: dict[str, str | None], k: int, known: Sequence[Any]) -> list[dict[str, Any]]:
    open_place = next((place for place, value in given.items() if value is None), None)
    if open_place is None:
        cell = (given["subject"], given["relation"], given["object"])
        return [{**given, "score": float(factors.score(*cell)), "probability": float(factors.probability(*cell))}]
    top = factors.top(**given, k=k, exclude=known)
    return [
        {**given, open_place: name, "score": float(score), "probability": float(probability)}
        for name, score, probability in zip(*top, strict=True)
    ]


def _describe(file: str, verify: bool) -> dict[str, Any]:
    from ..model.storage import inspect, looks_like_a_model
    from .sources import open_facts

    if looks_like_a_model(file):
        return {"kind": "model", **inspect(file, verify=verify)}
    if verify:
        raise InputError(f"{file} is not a model file; --verify checks the checksum of a model")
    facts = open_facts(file)
    counts = facts.counts()
    return {
        "kind": "data",
        "facts": len(facts),
        "entities": facts.n_entities,
        "relations": facts.n_relations,
        "unobserved": len(facts.unobserved),
        "weighted": facts.weights is not None,
        "counted": facts.times is not None,
        "attributes": 0 if facts.attributes is None else int(facts.attributes.shape[1]),
        "density": len(facts) / max(facts.n_cells, 1),
        "facts_of_relation": {name: int(count) for name, count in zip(facts.relations, counts, strict=True)},
    }


def _readable(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values, one a line; what is nested deeper than one level gets lines of its own."""
    lines = []
    for name, value in found.items():
        if isinstance(value, dict) and any(inner and isinstance(inner, dict) for inner in value.values()):
            lines += _readable(value)
        else:
            lines.append((name.replace("_", " "), _short(value)))
    return lines


def _short(value: Any) -> str:
    if isinstance(value, dict):
        shown = ", ".join(f"{key} {_short(item)}" for key, item in list(value.items())[:12] if item != {})
        return shown + (f", … ({len(value)} in all)" if len(value) > 12 else "")
    if isinstance(value, list):
        return f"({len(value):,} values)"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    click.echo(f"warning: {message}", err=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; errors are one line on standard error and exit code 1, wrong usage is 2."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RelatentWarning)
            warnings.showwarning = _show_warning
            cli.main(args=arguments, prog_name="relatent", standalone_mode=False)
    except click.ClickException as problem:
        if "--distributed" in (arguments or sys.argv) and os.environ.get("RANK", "0") != "0":
            time.sleep(WAIT)  # the first says what is wrong with the words of all, unless torchrun ends it before
        else:
            problem.show()
        sys.exit(problem.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except RelatentError as problem:
        _fail(str(problem))
    except MemoryError as problem:
        _fail(f"out of memory: {problem}")
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; say nothing
        sys.exit(1)
    except OSError as problem:
        _fail(f"{problem.filename or ''}: {problem.strerror or problem}".lstrip(": "))


def _fail(message: str) -> None:
    click.echo("error: " + " ".join(message.split()), err=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
