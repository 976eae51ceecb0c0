"""Commands that measure models: cross-validate, evaluate, table1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import DownloadError
from .estimator_options import (
    make_estimator,
    missing_option,
    model_option,
    search_grid,
    settings_options,
)
from .output import print_result, say
from .reading_options import attributes_option, data_argument, reading_options, types_option
from .shared_options import OUTPUT, further_known_option, json_option, model_argument, seed_option

if TYPE_CHECKING:
    from ..data.facts import Facts
    from ..evaluation.truth_test import TruthTest
    from ..model.factors import Factors


@click.command("cross-validate")
@data_argument
@model_option
@settings_options
@reading_options()
@attributes_option
@click.option("--folds", default=10, show_default=True, type=click.IntRange(min=2), help="Number of folds.")
@click.option(
    "--heldout",
    type=click.Choice(["masked", "zero"]),
    default="masked",
    show_default=True,
    help="Fit held-out cells as unobserved, or as zeros.",
)
@click.option(
    "--scores",
    type=click.Choice(["raw", "pair-normalised"]),
    default="raw",
    show_default=True,
    help="Divide the scores of a pair of entities by their norm over all relations, or not.",
)
@click.option(
    "--search",
    multiple=True,
    metavar="NAME=V1,V2",
    help="Values of a setting to choose from inside each training fold (repeatable); l2 sets λ_A and λ_R.",
)
@click.option("--metric", default="auc_pr", show_default=True, help="Metric that the search maximises.")
@click.option(
    "--probabilities",
    is_flag=True,
    help="Calibrate each fit, as `relatent fit` does, so that log loss and reliability are those of its probabilities.",
)
@missing_option
@click.option(
    "--reliability",
    type=OUTPUT,
    help="Write the reliability diagram to FILE.png or FILE.svg; needs relatent[plot].",
)
@click.option("--leaky", is_flag=True, help="Allow (i,j) and (j,i) of a symmetric relation in different folds.")
@click.option("--jobs", type=click.IntRange(min=1), help="Number of processes.  [default: chosen]")
@seed_option
@json_option
def cross_validate(
    data: tuple[str, ...],
    model: str,
    folds: int,
    heldout: str,
    scores: str,
    search: Sequence[str],
    metric: str,
    probabilities: bool,
    missing: float | None,
    reliability: Path | None,
    leaky: bool,
    jobs: int | None,
    seed: int,
    as_json: bool,
    **settings: Any,
) -> None:
    """Measure how well a model predicts held-out cells.

    Example: relatent cross-validate kinships --rank 50 --search l2=0.5,1,2
    """
    from ..evaluation.cross_validation import cross_validate as run
    from ..progress import bar
    from . import tables
    from .data_argument import annotate, names_of, open_facts

    if reliability is not None:
        from ..plots.style import check_figure_path

        check_figure_path(reliability)
    estimator = make_estimator(model, settings, seed, missing=missing)
    grid = search_grid(search)
    facts = annotate(open_facts(data))
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
            probabilities=probabilities or missing is not None or reliability is not None,
            n_jobs=jobs,
            progress=progress,
        )
    if reliability is not None:
        from ..plots.figures import plot_reliability

        plot_reliability(report, reliability)
    name = names_of(data)
    document = {"data": name, "model": model, **report.to_dict()}
    print_result(as_json, document, lambda: tables.report(f"{model} on {name}", report))


@click.command()
@model_argument
@click.argument("test")
@further_known_option
@click.option(
    "--protocol",
    type=click.Choice(["answers", "benchmark"]),
    default="answers",
    show_default=True,
    help="Candidates: those that the model offers as answers, or all entities, as in published figures.",
)
@reading_options()
@types_option
@click.option("--negatives", help="False statements of the same kind as the test facts, to tell from them.")
@click.option(
    "--validation",
    help="Validation facts to choose the thresholds by.  [default: those of the benchmark; otherwise two halves of the "
    "statements judge each other]",
)
@click.option("--validation-negatives", help="False statements beside the validation facts.")
@seed_option
@json_option
def evaluate(
    model: Path,
    test: str,
    known: Sequence[str],
    protocol: str,
    negatives: str | None,
    validation: str | None,
    validation_negatives: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Rank test facts among all possible answers: filtered MRR and hits@k, beside those of the most frequent answers.

    The bare name of a benchmark means its test split. True facts that the model knows do not count as rivals, and a
    warning says if it was fitted to test facts. With --negatives, also tell true statements from false ones: accuracy,
    F1, ROC AUC and calibration error.

    Example: relatent evaluate wn18rr.relatent wn18rr --known wn18rr:valid
    """
    from ..data.result_labels import shown_name
    from ..evaluation.ranking import evaluate as rank
    from ..model.factors import load
    from ..progress import bar
    from . import tables
    from .data_argument import names_of, open_facts, with_given_types

    if (validation is None) != (validation_negatives is None):
        raise click.UsageError("--validation and --validation-negatives must be given together")
    if validation is not None and negatives is None:
        raise click.UsageError("--validation needs --negatives FILE, the false statements to tell from the test facts")
    factors = load(model)
    facts, others = open_facts(test, split="test"), [open_facts(source) for source in known]
    factors = with_given_types(factors, others)
    with bar("ranking") as progress:
        found = rank(factors, facts, known=others, protocol=protocol, progress=progress)
    _say_what_is_filtered(factors, known, found.n_known)
    name_of = partial(shown_name, factors.relations)
    title = names_of([test])
    document, shown = {"test": title, **found.to_dict()}, tables.ranking(f"{model} on {title}", found, name_of)
    if negatives is not None:
        truth = _truth_test(factors, facts, test, negatives, validation, validation_negatives, seed)
        document["truth_test"] = truth.to_dict()
        shown += tables.truth_test(f"{model}: facts of {title} and false statements of {names_of([negatives])}", truth)
    print_result(as_json, document, lambda: shown)


def _say_what_is_filtered(factors: Factors, known: Sequence[str], n_known: int) -> None:
    from .data_argument import names_of

    sources = [*([] if factors.facts is None else ["the model"]), *(names_of([source]) for source in known)]
    if n_known:
        say(f"note: filtered by {n_known:,} known fact{'s' * (n_known > 1)} of {' and '.join(sources)}")
    elif sources:
        say(f"note: filtered by the test facts only: {' and '.join(sources)} has no others")
    else:
        say("warning: the model does not hold its facts, so other true answers count as errors; name them with --known")


def _truth_test(
    factors: Factors,
    facts: Facts,
    test: str,
    negatives: str,
    validation: str | None,
    validation_negatives: str | None,
    seed: int,
) -> TruthTest:
    from ..evaluation.truth_test import truth_test
    from .data_argument import open_facts, validation_sources

    if validation is None or validation_negatives is None:
        validation, validation_negatives = validation_sources(test) or (None, None)
    return truth_test(
        factors,
        facts,
        open_facts(negatives, split="test-negatives"),
        validation=None if validation is None else open_facts(validation, split="valid"),
        validation_negatives=None
        if validation_negatives is None
        else open_facts(validation_negatives, split="valid-negatives"),
        random_state=seed,
    )


@click.command()
@click.option("--dataset", "only_datasets", multiple=True, help="Only this data set (repeatable).")
@click.option("--model", "only_models", multiple=True, help="Only this model (repeatable).")
@click.option("--folds", default=10, show_default=True, type=click.IntRange(min=3), help="Number of folds.")
@click.option("--jobs", type=click.IntRange(min=1), help="Number of processes.  [default: one per core]")
@seed_option
@json_option
def table1(
    only_datasets: Sequence[str], only_models: Sequence[str], folds: int, jobs: int | None, seed: int, as_json: bool
) -> None:
    """Repeat the experiments of the paper's Table 1 and print the results beside the paper's.

    Example: relatent table1 --dataset kinships --model logit
    """
    import joblib

    from ..evaluation import table1 as paper
    from ..progress import bar
    from . import tables

    experiments = paper.select(only_datasets, only_models)
    jobs = jobs or joblib.cpu_count()
    rows = []
    for number, experiment in enumerate(experiments, 1):
        title = f"{number}/{len(experiments)} {experiment.title}"
        try:
            with bar(title) as progress:
                rows.append(paper.run(experiment, folds=folds, random_state=seed, n_jobs=jobs, progress=progress))
        except DownloadError as error:
            if only_datasets:
                raise
            say(f"warning: {experiment.title} is left out: {error}")
            continue
        say(f"{title}: {rows[-1].auc_pr:.3f} in {rows[-1].seconds:.0f} s")
    print_result(as_json, {"rows": [row.to_dict() for row in rows]}, lambda: [tables.table1(rows), *TABLE1_NOTES])


TABLE1_NOTES = (
    "* the protocol of the authors' published example; the paper does not state its own.",
    "AUC-PR by the trapezoid rule, as in the paper: mean ± standard deviation over folds (Presidents: 3 or 5 splits).",
    "best trivial: AUC-PR / average precision of the best of base rate, relation frequency, copied mirror cell.",
    'mrc, mln: the paper\'s row "MLN" is almost certainly MRC. categorical: one relation per pair.',
    "vote: the share of a person's running mates in each party. ecoli-ppi replaces Bacteriome: not comparable.",
)
