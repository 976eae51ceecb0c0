"""Cross-validation over cells, true and false ones alike; held-out cells are masked or set to zero."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..arrays import Triples, Vector
from ..data.facts import Facts
from ..data.heldout import HeldOut
from ..data.read.read import read_if_table
from ..errors import ConvergenceWarning, InputError, VanishedWarning
from ..fit.estimators.base import Estimator
from ..model.factors import Factors
from ..progress import Progress, reporting
from ..random_state import RandomState, to_seed
from .folds import make_folds, splits_mirrors
from .metrics import Metrics, measure
from .parallel import captured_warnings, fit_threads, n_processes, run_tasks, threads_for
from .report import FIGURES, Fold, Report

BLOCK_SCORES = 1 << 22  # scores computed at a time
SMALLER_IS_BETTER = ("brier", "log_loss")

Settings = Mapping[str, Any]
Tick = Callable[[str], None]


def cross_validate(
    estimator: Estimator,
    facts: Facts,
    folds: int | Sequence[ArrayLike] = 10,
    heldout: str = "masked",
    scores: str = "raw",
    random_state: RandomState = 0,
    *,
    search: Mapping[str, Sequence[Any]] | Sequence[Settings] | None = None,
    metric: str = "auc_pr",
    inner: int = 2,
    leaky: bool = False,
    zeros_per_fact: int = 20,
    probabilities: bool = False,
    n_jobs: int | None = None,
    progress: bool | Progress | None = None,
) -> Report:
    """Measure how well an estimator predicts cells that it was not fitted to.

    Parameters
    ----------
    folds : their number, or the held-out cells of each as (m, 3) arrays of ids or names
    heldout : "masked": unobserved in the fit; "zero": set to 0, as the paper's authors did
    scores : "raw", or "pair-normalised": the link's output divided by its norm over all relations of the pair
    search : a grid (name → values) or a list of settings. The setting for a fold f is chosen inside its training data,
        by `metric`: each setting is fitted without f and another fold g and measured on g
    inner : the number of other folds g that measure the settings for a fold; more are steadier where folds are small
    leaky : let (i, j) and (j, i) of a symmetric relation fall into different folds, so that one gives away the other
    zeros_per_fact : zeros sampled per held-out fact, and weighted to stand for all, where the data has too many cells
    probabilities : calibrate each fit, so that Brier score, log loss and reliability are those of its probabilities;
        this takes up to twice the time. False: they are those of the loss; the other metrics are the same. Fits have no
        observed patterns
    n_jobs : processes; None chooses, and the result is the same for any number
    progress : True for a bar, or a function called with (fits done, fits, note)

    >>> import relatent
    >>> facts = relatent.load_dataset("kinships")
    >>> report = relatent.cross_validate(relatent.RescalALS(rank=10), facts, folds=3, n_jobs=1)
    >>> len(report.folds), report.auc_pr > report.baselines["base rate"]["auc_pr"]
    (3, True)
    >>> report.protocol
    '3 folds, held-out cells masked, raw scores, seed 0'
    """
    _check_choices(heldout, scores, metric)
    facts = read_if_table(facts)
    if not isinstance(facts, Facts):
        raise InputError(f"cross_validate takes Facts, got {type(facts).__name__}; see relatent.load_dataset")
    seed = to_seed(random_state)
    heldout_cells = make_folds(facts, folds, seed, leaky=leaky, zeros_per_fact=zeros_per_fact)
    is_random = isinstance(folds, (int, np.integer))
    protocol = EvaluationProtocol(facts, heldout == "masked", scores, with_mirrors=is_random and not leaky)
    settings = _settings(search)
    _check_settings(estimator, settings)
    estimator = clone(estimator).set_params(calibrate=probabilities, keep_facts=probabilities)
    if "patterns" in estimator.get_params():  # weighed for unlisted cells, while those held out here are unobserved
        estimator.set_params(patterns="none")
    jobs = n_processes(n_jobs, facts)
    pairs = _fold_pairs(len(heldout_cells), inner) if len(settings) > 1 else []
    with reporting(progress, "cross-validation") as report:
        tick = _counter(report, len(settings) * len(pairs) + len(heldout_cells))
        chosen = [settings[0]] * len(heldout_cells)
        if pairs:
            chosen = _search(estimator, protocol, heldout_cells, settings, pairs, metric, jobs, tick)
        tasks = [
            (estimator, setting, protocol, [fold], [fold]) for setting, fold in zip(chosen, heldout_cells, strict=True)
        ]
        outcomes = _run(tasks, jobs, tick, "folds")
    results = [_fold(protocol, *row) for row in zip(heldout_cells, outcomes, chosen, strict=True)]
    _warn_if_unconverged(results)
    _warn_if_vanished(results)
    if is_random:
        leaks = leaky and bool(facts.symmetric.any())
    else:
        leaks = any(splits_mirrors(facts, fold) for fold in heldout_cells)
    return Report(
        folds=tuple(results),
        relations=facts.relations,
        heldout=heldout,
        scores=scores,
        random_state=seed,
        sampled_zeros=any(fold.weights is not None for fold in heldout_cells),
        leaky=leaks,
        searched=len(settings) if len(settings) > 1 else 0,
        metric=metric,
    )


def _counter(report: Progress, n_fits: int) -> Tick:
    count = itertools.count(1)
    return lambda note: report(next(count), n_fits, note)


@dataclass(frozen=True)
class EvaluationProtocol:
    """What a fit knows of the facts while cells are held out, and how its predictions are scored."""

    facts: Facts
    masked: bool
    scores: str
    with_mirrors: bool  # hold out mirrors too: the mirror of a sampled zero is in no fold and would give it away

    def training(self, folds: Sequence[HeldOut]) -> Facts:
        """The facts for a fit with these folds held out."""
        cells = np.concatenate([fold.cells for fold in folds])
        if self.with_mirrors:
            cells = np.concatenate([cells, cells[self.facts.symmetric[cells[:, 1]]][:, ::-1]])
        return self.facts.hold_out(cells, masked=self.masked)

    def predictions(self, factors: Factors, fold: HeldOut) -> tuple[Vector, Vector]:
        """Scores to rank by, and probabilities."""
        theta = factors.score(*fold.cells.T)
        if factors.calibration is None:
            probabilities = np.asarray(factors.link.probability(theta, fold.cells[:, 1]), np.float64)
        else:
            probabilities = np.asarray(factors.probability(*fold.cells.T), np.float64)
        return (theta if self.scores == "raw" else pair_normalised(factors, fold.cells)), probabilities


def pair_normalised(factors: Factors, cells: Triples) -> Vector:
    """The link's output of each cell, divided by its norm over the pair's relations unless that is zero."""
    n = len(factors.entities)
    pairs, pair_of_cell = np.unique(cells[:, 0].astype(np.int64) * n + cells[:, 2], return_inverse=True)
    result = np.empty(len(cells))
    order = np.argsort(pair_of_cell, kind="stable")
    block = max(1, BLOCK_SCORES // len(factors.relations))
    for low in range(0, len(pairs), block):
        chunk = pairs[low : low + block]
        theta = factors.score((chunk // n)[:, None], np.arange(len(factors.relations)), (chunk % n)[:, None])
        response = np.asarray(factors.link.response(theta, np.arange(len(factors.relations))), np.float64)  # (pairs, K)
        norm = np.linalg.norm(response, axis=1)
        edges = np.searchsorted(pair_of_cell[order], [low, low + len(chunk)])
        rows = order[edges[0] : edges[1]]
        pair = pair_of_cell[rows] - low
        result[rows] = response[pair, cells[rows, 1]] / np.where(norm == 0, 1, norm)[pair]
    return result


# --- search


def _settings(search: Mapping[str, Sequence[Any]] | Sequence[Settings] | None) -> list[Settings]:
    if search is None:
        return [{}]
    if isinstance(search, Mapping):
        settings = [dict(zip(search, values, strict=True)) for values in itertools.product(*search.values())]
    else:
        settings = [dict(setting) for setting in search]
    if not settings:
        raise InputError("search must contain at least one setting")
    return list(settings)


def _check_settings(estimator: Estimator, settings: list[Settings]) -> None:
    known = estimator.get_params()
    for name in itertools.chain(*settings):
        if name not in known:
            raise InputError(f"search: {type(estimator).__name__} has no setting {name!r}; it has {', '.join(known)}")


def _fold_pairs(n: int, inner: int) -> list[tuple[int, int]]:
    """Pairs of folds in a ring: each fold is in `inner` of them, in one more if `inner` is odd."""
    if n < 3:
        raise InputError(f"search needs at least 3 folds, got {n}: one to measure on, one to hold out, one to fit")
    if not 1 <= inner < n:
        raise InputError(f"inner must be between 1 and {n - 1}, the number of other folds, got {inner}")
    ring = {frozenset((f, (f + step) % n)) for step in range(1, -(-inner // 2) + 1) for f in range(n)}
    return sorted((min(pair), max(pair)) for pair in ring)


def _search(
    estimator: Estimator,
    protocol: EvaluationProtocol,
    folds: list[HeldOut],
    settings: list[Settings],
    pairs: list[tuple[int, int]],
    metric: str,
    jobs: int,
    tick: Tick,
) -> list[Settings]:
    """For each fold the setting that did best on other folds, with the fold itself held out throughout.

    The fit without folds f and g serves both: measured on g it counts for f, measured on f for g.
    """
    tasks = [
        (estimator, setting, protocol, [folds[f], folds[g]], [folds[g], folds[f]])
        for setting in settings
        for f, g in pairs
    ]
    outcomes = _run(tasks, jobs, tick, "search")
    totals = np.zeros((len(settings), len(folds)))
    for (s, (f, g)), outcome in zip(itertools.product(range(len(settings)), pairs), outcomes, strict=True):
        for fold, judge, prediction in ((f, g, outcome.predictions[0]), (g, f, outcome.predictions[1])):
            totals[s, fold] += _larger_is_better(metric, folds[judge], prediction)
    return [settings[best] for best in np.argmax(totals, axis=0)]


def _larger_is_better(metric: str, fold: HeldOut, prediction: tuple[Vector, Vector]) -> float:
    """The metric, negated if smaller is better; 0 for a fold with only true or only false cells."""
    value = getattr(measure(fold.truth, *prediction, fold.weights), metric)
    return float(np.nan_to_num(-value if metric in SMALLER_IS_BETTER else value))


# --- fits


class FitOutcome(NamedTuple):
    """Predictions of one fit, and how it went."""

    predictions: list[tuple[Vector, Vector]]  # scores, probabilities
    seconds: float
    steps: int
    converged: bool
    vanished: bool


def _fit_and_predict(
    estimator: Estimator,
    settings: Settings,
    protocol: EvaluationProtocol,
    heldout: list[HeldOut],
    predicted: list[HeldOut],
) -> FitOutcome:
    """Fit without the held-out folds, then predict some of them."""
    started = time.perf_counter()
    model = clone(estimator).set_params(**settings)
    with captured_warnings() as categories, fit_threads(threads_for(protocol.facts)):
        model = model.fit(protocol.training(heldout))
    return FitOutcome(
        [protocol.predictions(model.factors_, fold) for fold in predicted],
        time.perf_counter() - started,
        len(model.trace_),
        model.trace_.converged,
        any(issubclass(category, VanishedWarning) for category in categories),
    )


def _run(tasks: Sequence[tuple[Any, ...]], jobs: int, tick: Tick, note: str) -> list[FitOutcome]:
    """The outcomes of all tasks, in order."""
    outcomes = []
    for outcome in run_tasks(_fit_and_predict, tasks, min(jobs, len(tasks)), in_order=True):
        outcomes.append(outcome)
        tick(note)
    return outcomes


# --- results


def _fold(protocol: EvaluationProtocol, fold: HeldOut, outcome: FitOutcome, settings: Settings) -> Fold:
    [(scores, probabilities)] = outcome.predictions
    return Fold(
        metrics=measure(fold.truth, scores, probabilities, fold.weights),
        baselines=_baselines(protocol, fold),
        settings=dict(settings),
        heldout=fold,
        scores=scores,
        probabilities=probabilities,
        seconds=outcome.seconds,
        steps=outcome.steps,
        converged=outcome.converged,
        vanished=outcome.vanished,
    )


def _baselines(protocol: EvaluationProtocol, fold: HeldOut) -> dict[str, Metrics]:
    """Predictions without a model: the base rate, each relation's frequency, and for symmetric data the mirror."""
    train = protocol.training([fold])
    observed, ones = train.n_observed(), train.counts()
    rate = np.full(len(fold.cells), ones.sum() / max(observed.sum(), 1))
    frequency = (ones / np.maximum(observed, 1))[fold.cells[:, 1]]
    baselines = {"base rate": rate, "relation frequency": frequency}
    if protocol.facts.symmetric.any():
        symmetric = protocol.facts.symmetric[fold.cells[:, 1]]  # by all facts: the training facts may look one-way
        mirrors = fold.cells[:, ::-1]
        is_seen = symmetric & ~train.is_unobserved(mirrors)
        baselines["copy of the mirrored cell"] = np.where(is_seen, train.contains(mirrors), frequency)
    return {name: measure(fold.truth, p, p, fold.weights) for name, p in baselines.items()}


def _check_choices(heldout: str, scores: str, metric: str) -> None:
    for name, value, choices in (
        ("heldout", heldout, ("masked", "zero")),
        ("scores", scores, ("raw", "pair-normalised")),
        ("metric", metric, FIGURES),
    ):
        if value not in choices:
            raise InputError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")


def _warn_if_vanished(folds: list[Fold]) -> None:
    if n_vanished := sum(fold.vanished for fold in folds):
        message = f"in {n_vanished} of {len(folds)} fits all factors have shrunk to zero: {VanishedWarning.REMEDY}"
        warnings.warn(message, VanishedWarning, stacklevel=3)


def _warn_if_unconverged(folds: list[Fold]) -> None:
    if n_stopped := sum(not fold.converged for fold in folds):
        message = f"{n_stopped} of {len(folds)} fits stopped before they converged; raise max_iter or tol"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
