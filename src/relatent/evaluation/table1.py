"""Table 1 of the paper, computed again: the published figure, ours, and the protocol of each row.

The paper does not say whether held-out cells were masked or set to zero, nor how Kinships was scored. The authors'
published example sets them to zero and divides the scores of a pair by their norm; the rows "as published" do the
same. Settings are chosen inside each training fold.

The paper quotes MLN and IRM from earlier work. Its "MLN" is almost certainly MRC (Kok & Domingos 2007), a clustering
model in second-order Markov logic; the table has rows of both MRC and clausal Markov logic next to that figure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..arrays import Triples, Vector
from ..data.catalog import load_dataset
from ..data.facts import Facts
from ..data.split import presidents_folds
from ..errors import InputError
from ..fit.estimators.base import Estimator
from ..json_values import to_json, to_json_object
from ..progress import Progress, reporting
from .cross_validation import cross_validate
from .metrics import Metrics, measure
from .model_names import estimators
from .report import Report

PAPER = {
    ("kinships", "als"): 0.966,
    ("kinships", "logit"): 0.981,
    ("nations", "als"): 0.848,
    ("nations", "logit"): 0.851,
    ("presidents", "als"): 0.805,
    ("presidents", "logit"): 0.800,
    ("kinships", "mrc"): 0.85,
    ("nations", "mrc"): 0.75,
    ("kinships", "mln"): 0.85,
    ("nations", "mln"): 0.75,
    ("kinships", "irm"): 0.66,
    ("nations", "irm"): 0.75,
}
N_SEEDS = {"presidents": 5, "vice presidents": 3}  # a fold has four persons: a single partition says little

Settings = dict[str, Any]


def _l2_settings(values: Sequence[float], **fixed: Any) -> list[Settings]:
    """λ_A = λ_R = each value."""
    return [{"l2_entities": value, "l2_relations": value, **fixed} for value in values]


CALIBRATED = "logit+calibration"  # the model whose fits are calibrated


@dataclass(frozen=True)
class Experiment:
    """One row of the table: data, model, protocol, and the settings to choose from."""

    dataset: str
    model: str
    heldout: str
    scores: str
    settings: tuple[Settings, ...]
    task: str = "all cells"
    as_published: bool = False
    note: str = ""
    inner: int = 2  # folds that measure the settings for each fold
    metric: str = "auc_pr"  # by which settings are chosen

    @property
    def paper(self) -> float | None:
        """The published figure, where the paper has one for this data and task."""
        return None if self.task == "party of vice presidents" else PAPER.get((self.dataset, self.model))

    @property
    def title(self) -> str:
        """A few words that identify the row."""
        task = "" if self.task == "all cells" else f", {self.task}"
        return f"{self.dataset}{task}: {self.model}, {self.heldout}, {self.scores}"

    @property
    def estimator(self) -> Estimator:
        """The estimator whose settings are searched."""
        if self.model == "categorical":
            return estimators()["rescal"](loss="categorical")
        if self.model == CALIBRATED:
            return estimators()["logit"](rank=50)
        return estimators()[self.model.removesuffix("+attributes")]()


def _experiments() -> Iterator[Experiment]:
    kinships_als = tuple(_l2_settings((1, 2, 3, 5, 7, 10), rank=100))
    kinships_logit = tuple(_l2_settings((0.5, 1), rank=50) + _l2_settings((0.5, 1), rank=100))
    for heldout, scores, published in (("zero", "pair-normalised", True), ("masked", "raw", False)):
        yield Experiment("kinships", "als", heldout, scores, kinships_als, as_published=published)
        yield Experiment("kinships", "logit", heldout, scores, kinships_logit, as_published=published)
    calibrated = tuple(_l2_settings((1, 2, 3)))
    note = "calibrated on facts held out of the training facts"
    yield Experiment("kinships", CALIBRATED, "masked", "raw", calibrated, note=note, metric="log_loss")
    exclusive = "a pair has one relation: softmax over relations and none"
    kinships_categorical = tuple(_l2_settings((0.5, 1), rank=40))
    for heldout in ("zero", "masked"):
        yield Experiment("kinships", "categorical", heldout, "raw", kinships_categorical, note=exclusive)
    parts = tuple(_l2_settings((0.3, 1), rank=40))
    yield Experiment("kinships", "nonnegative", "masked", "raw", parts)
    others: dict[str, tuple[Settings, ...]] = {
        "mrc": ({},),
        "mln": ({},),
        "irm": ({},),
    }
    for model, grid in others.items():
        yield Experiment("kinships", model, "masked", "raw", grid)
    nations_als = tuple(_l2_settings((1, 2, 3, 5, 8, 10, 12, 15), rank=14))
    nations_logit = tuple(s for bias in (False, True) for s in _l2_settings((1, 3, 6, 10), rank=14, bias=bias))
    attributes = tuple(
        {**s, "l2_attributes": value} for s in _l2_settings((1, 2, 3, 10, 12), rank=14) for value in (1, 10, 100)
    )
    for heldout in ("zero", "masked"):
        published = heldout == "zero"
        yield Experiment("nations", "als", heldout, "raw", nations_als, as_published=published)
        yield Experiment("nations", "logit", heldout, "raw", nations_logit, as_published=published)
        yield Experiment("nations", "als+attributes", heldout, "raw", attributes, note="111 attributes of the nations")
    nations_parts = tuple(s for rank in (4, 5, 7) for s in _l2_settings((0.3, 1, 3), rank=rank))
    yield Experiment("nations", "nonnegative", "masked", "raw", nations_parts)
    others["mln"] = ({"each_z": False}, {"each_z": True})  # where relations are dense it matters
    for model, grid in others.items():
        yield Experiment("nations", model, "masked", "raw", grid)
    presidents_als = tuple(s for rank in (5, 10, 20) for s in _l2_settings((0.1, 1), rank=rank))
    presidents_logit = tuple(s for rank in (5, 10, 20) for s in _l2_settings((1, 2), rank=rank, bias=False))
    for task in ("party of presidents", "party of vice presidents"):
        for heldout in ("zero", "masked"):
            published = heldout == "zero"
            for model, settings in (("als", presidents_als), ("logit", presidents_logit)):
                # A fold has four persons: all other folds together measure the settings.
                yield Experiment("presidents", model, heldout, "raw", settings, task, published, inner=9)
        yield Experiment("presidents", "vote", "zero", "raw", ({},), task, note="no model: the running mates' parties")
    stand_in = "stand-in for Bacteriome (paper .927 and .938): not comparable"
    ecoli_als = tuple(_l2_settings((1, 3, 10), rank=20) + _l2_settings((3, 10), rank=100))
    ecoli_logit = tuple(_l2_settings((2, 5, 10), rank=10) + _l2_settings((5, 10), rank=30))
    for heldout in ("zero", "masked"):
        yield Experiment("ecoli-ppi", "als", heldout, "raw", ecoli_als, note=stand_in)
        yield Experiment("ecoli-ppi", "logit", heldout, "raw", ecoli_logit, note=stand_in)


@dataclass(frozen=True)
class Table1Row:
    """The result of one experiment."""

    experiment: Experiment
    auc_pr: float
    auc_pr_std: float
    average_precision: float
    folds: int
    repeats: int
    seconds: float
    log_loss: float | None = None
    ece: float | None = None
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    chosen: list[Settings] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON values."""
        names = ("dataset", "task", "model", "heldout", "scores", "paper", "as_published", "note")
        found = {name: getattr(self.experiment, name) for name in names}
        found |= {own.name: getattr(self, own.name) for own in fields(self) if own.name != "experiment"}
        return to_json_object({**found, "settings_tried": len(self.experiment.settings)})


def select(datasets: Sequence[str] = (), models: Sequence[str] = ()) -> list[Experiment]:
    """The experiments of the table, all or those of the given data sets and models."""
    experiments = list(_experiments())
    for what, names in (("dataset", datasets), ("model", models)):
        known = dict.fromkeys(getattr(e, what) for e in experiments)
        for name in names:
            if name not in known:
                raise InputError(f"table1 has no {what} {name!r}; it has {', '.join(known)}")
    chosen = [e for e in experiments if (not datasets or e.dataset in datasets) and (not models or e.model in models)]
    if not chosen:
        available = dict.fromkeys(e.model for e in experiments if e.dataset in datasets)
        raise InputError(
            f"table1 has no row of {', '.join(models)} on {', '.join(datasets)}; it has {', '.join(available)}"
        )
    return chosen


def run(
    experiment: Experiment,
    *,
    folds: int = 10,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool | Progress | None = None,
) -> Table1Row:
    """Cross-validate one row."""
    started = time.perf_counter()
    facts = load_dataset(experiment.dataset)
    if experiment.model != "als+attributes":
        facts = facts.without_attributes()
    if experiment.dataset != "presidents":
        seeds = [random_state]
        repeats: list[list[Triples]] = []
    else:
        persons: Any = experiment.task.removeprefix("party of ")
        seeds = [random_state + repeat for repeat in range(N_SEEDS[persons])]
        repeats = [presidents_folds(facts, persons=persons, folds=folds, random_state=seed) for seed in seeds]
    if experiment.model == "vote":
        votes = [(cells, _vote(facts, cells)) for heldout in repeats for cells in heldout]
        metrics = [measure(facts.contains(cells), share, share) for cells, share in votes]
        return _vote_row(experiment, metrics, folds, len(seeds), time.perf_counter() - started)
    with reporting(progress, experiment.title) as report:
        reports = [
            cross_validate(
                experiment.estimator,
                facts,
                folds=repeats[number] if repeats else folds,
                heldout=experiment.heldout,
                scores=experiment.scores,
                random_state=seed,
                search=experiment.settings,
                metric=experiment.metric,
                probabilities=experiment.model == CALIBRATED,
                inner=min(experiment.inner, folds - 1),
                n_jobs=n_jobs,
                progress=_repeat_progress(report, number, len(seeds)),
            )
            for number, seed in enumerate(seeds)
        ]
    return _mean_row(experiment, reports, folds, time.perf_counter() - started)


def _repeat_progress(progress: Progress, number: int, n_repeats: int) -> Progress:
    """Report the progress of one repeat as part of the whole row."""
    return lambda done, total, note: progress(number * total + done, n_repeats * total, note)


def _mean_row(experiment: Experiment, reports: list[Report], folds: int, seconds: float) -> Table1Row:
    """Means over the repeats; the spread is over repeats if there are several, else over folds."""
    means = [report.auc_pr for report in reports]
    baselines = {
        name: {key: float(np.mean([report.baselines[name][key] for report in reports])) for key in figures}
        for name, figures in reports[0].baselines.items()
    }
    return Table1Row(
        experiment=experiment,
        auc_pr=float(np.mean(means)),
        auc_pr_std=float(np.std(means)) if len(reports) > 1 else reports[0].auc_pr_std,
        average_precision=float(np.mean([report.average_precision for report in reports])),
        log_loss=float(np.mean([report.log_loss for report in reports])),
        ece=to_json(float(np.mean([report.ece for report in reports]))),
        folds=folds,
        repeats=len(reports),
        baselines=baselines,
        chosen=[fold.settings for report in reports for fold in report.folds],
        seconds=seconds,
    )


def _vote_row(experiment: Experiment, metrics: list[Metrics], folds: int, repeats: int, seconds: float) -> Table1Row:
    by_repeat = np.array([fold.auc_pr for fold in metrics]).reshape(repeats, -1).mean(axis=1)
    return Table1Row(
        experiment=experiment,
        auc_pr=float(by_repeat.mean()),
        auc_pr_std=float(by_repeat.std()),
        average_precision=float(np.mean([fold.average_precision for fold in metrics])),
        folds=folds,
        repeats=repeats,
        seconds=seconds,
    )


def _vote(facts: Facts, cells: Triples) -> Vector:
    """For each cell (person, party, p): of the person's running mates with a known party, the fraction in p."""
    train = facts.hold_out(cells, masked=False)
    party = facts.relations.id("party")
    X = np.stack([train.matrix(k).toarray() for k in range(facts.n_relations)])  # (K, N, N), small
    mates = sum(X[k] + X[k].T for k in range(facts.n_relations) if k != party) > 0
    votes = mates @ X[party]
    share = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)
    return share[cells[:, 0], cells[:, 2]]  # type: ignore[no-any-return]
