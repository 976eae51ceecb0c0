"""Cross-validation over cells: true and false alike, held out masked or set to zero."""

from __future__ import annotations

import itertools
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import joblib
import numba
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..arrays import Ids, Triples, Vector
from ..data.cell_keys import cell_keys, cells_of
from ..data.facts import Facts
from ..data.heldout import ZEROS_PER_FACT, HeldOut, sample_zeros
from ..errors import ConvergenceWarning, InputError, RelatentWarning, VanishedWarning
from ..model.factors import Factors
from ..progress import Progress
from .metrics import Metrics, Predicted, measure
from .report import Fold, Report

ALL_CELLS = 20_000_000  # up to so many cells every one is put into a fold; beyond, zeros are sampled
SMALL = 2_000  # up to so many entities fits run on one thread each, side by side; larger ones use all threads in turn

Settings = Mapping[str, Any]
_Prediction = tuple[Vector, Vector]  # scores, probabilities
_Outcome = tuple[list[_Prediction], dict[str, Any]]


def cross_validate(
    estimator: Any,
    facts: Facts,
    folds: int | Sequence[ArrayLike] = 10,
    heldout: str = "masked",
    scores: str = "raw",
    random_state: int = 0,
    *,
    search: Mapping[str, Sequence[Any]] | Sequence[Settings] | None = None,
    metric: str = "auc_pr",
    inner: int = 2,
    leaky: bool = False,
    zeros_per_fact: int = 20,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """How well an estimator predicts cells it has not seen.

    Parameters
    ----------
    folds : how many, or the held-out cells of each as (m, 3) arrays of ids or names
    heldout : "masked", unknown to the fit, or "zero", set to 0 as the paper's authors did
    scores : "raw", or "pair-normalised": the link's output of a pair divided by its norm over all relations
    search : a grid (name → values) or a list of settings; chosen inside each training fold on `metric`: for fold f
        each setting is fitted without f and another fold g and judged on g
    inner : how many other folds g judge the settings for each fold; more are steadier where folds are small
    leaky : let (i, j) and (j, i) of a symmetric relation fall into different folds, so that one tells the other
    zeros_per_fact : where the data has too many cells, zeros sampled for each held-out fact, re-weighted to all
    n_jobs : processes; None chooses, the result is the same for any number
    """
    _check_choices(heldout, scores, metric)
    if not isinstance(facts, Facts):
        raise InputError(f"cross_validate takes Facts, got {type(facts).__name__}; see relatent.load_dataset")
    cuts = _cuts(facts, folds, random_state, leaky, zeros_per_fact)
    dealt = isinstance(folds, (int, np.integer))
    protocol = Protocol(facts, heldout == "masked", scores, with_mirrors=dealt and not leaky)
    settings = _settings(search)
    _check_settings(estimator, settings)
    jobs = processes(n_jobs, facts)
    pairs = _pairs(len(cuts), inner) if len(settings) > 1 else []
    tick = _ticker(progress, len(settings) * len(pairs) + len(cuts))
    chosen = [settings[0]] * len(cuts)
    if pairs:
        chosen = _search(estimator, protocol, cuts, settings, pairs, metric, jobs, tick)
    tasks = [(estimator, chosen[f], protocol, [cuts[f]], [cuts[f]]) for f in range(len(cuts))]
    fitted = _map(_fit_and_predict, tasks, jobs, lambda: tick("folds"))
    results = [_fold(protocol, *one) for one in zip(cuts, fitted, chosen, strict=True)]
    _warn_of_unconverged(results)
    _warn_of_vanished(results)
    return Report(
        folds=tuple(results),
        relations=facts.relations,
        heldout=heldout,
        scores=scores,
        random_state=random_state,
        sampled_zeros=any(cut.weights is not None for cut in cuts),
        leaky=leaky and bool(facts.symmetric.any()) if dealt else any(_splits_mirrors(facts, cut) for cut in cuts),
        searched=len(settings) if len(settings) > 1 else 0,
        metric=metric,
    )


def cross_predict(
    estimator: Any,
    facts: Facts,
    folds: int = 5,
    random_state: int = 0,
    *,
    parts: int | None = None,
    validation: Facts | HeldOut | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Predicted]:
    """Scores and probabilities of observed cells by fits that had them masked.

    One fit for each of the first `parts` folds, or for all; `validation` goes to every fit, to stop it early.
    """
    cuts = _cuts(facts, folds, random_state, leaky=False, zeros_per_fact=ZEROS_PER_FACT)
    parts = len(cuts) if parts is None else parts
    if isinstance(parts, bool) or not isinstance(parts, (int, np.integer)) or not 1 <= parts <= len(cuts):
        raise InputError(f"parts must be between 1 and {len(cuts)}, the number of folds, got {parts!r}")
    protocol = Protocol(facts, masked=True, scores="raw", with_mirrors=True)
    as_it_is: Settings = {}
    tasks = [(estimator, as_it_is, protocol, [cut], [cut], validation) for cut in cuts[:parts]]
    tick = _ticker(progress, len(tasks))
    fitted = _map(_fit_and_predict, tasks, processes(n_jobs, facts), lambda: tick("held-out cells"))
    return [Predicted(cut, *predictions[0]) for cut, (predictions, _) in zip(cuts[:parts], fitted, strict=True)]


def _ticker(progress: Progress | None, n_fits: int) -> Callable[[str], None]:
    count = itertools.count(1)

    def tick(what: str) -> None:
        if progress is not None:
            progress(next(count), n_fits, what)

    return tick


@dataclass(frozen=True)
class Protocol:
    """What is known to a fit that has cells held out, and how its answers are scored."""

    facts: Facts
    masked: bool
    scores: str
    with_mirrors: bool  # of symmetric relations; a sampled zero's mirror is in no fold, and would tell it from a fact

    def training(self, cuts: Sequence[HeldOut]) -> Facts:
        """The facts as a fit may know them that has these cells held out."""
        cells = np.concatenate([cut.cells for cut in cuts])
        if self.with_mirrors:
            cells = np.concatenate([cells, cells[self.facts.symmetric[cells[:, 1]]][:, ::-1]])
        return self.facts.hold_out(cells, masked=self.masked)

    def predictions(self, factors: Factors, cut: HeldOut) -> tuple[Vector, Vector]:
        """Scores to rank by, and probabilities."""
        theta = factors.score(*cut.cells.T)
        probabilities = np.asarray(factors.link.probability(theta), np.float64)
        return (theta if self.scores == "raw" else pair_normalised(factors, cut.cells)), probabilities


def pair_normalised(factors: Factors, cells: Triples) -> Vector:
    """The link's output for each cell, divided by its norm over the pair's relations; a zero norm is left alone."""
    n = len(factors.entities)
    pairs, back = np.unique(cells[:, 0].astype(np.int64) * n + cells[:, 2], return_inverse=True)
    result = np.empty(len(cells))
    order = np.argsort(back, kind="stable")
    at_once = max(1, (1 << 22) // len(factors.relations))
    for low in range(0, len(pairs), at_once):
        chunk = pairs[low : low + at_once]
        theta = factors.score((chunk // n)[:, None], np.arange(len(factors.relations)), (chunk % n)[:, None])
        response = np.asarray(factors.link.response(theta), np.float64)  # (pairs, K)
        norm = np.linalg.norm(response, axis=1)
        edges = np.searchsorted(back[order], [low, low + len(chunk)])
        rows = order[edges[0] : edges[1]]
        pair = back[rows] - low
        result[rows] = response[pair, cells[rows, 1]] / np.where(norm == 0, 1, norm)[pair]
    return result


# --- folds


def cell_folds(facts: Facts, folds: int, random_state: int = 0, *, leaky: bool = False) -> list[Triples]:
    """All observed cells dealt into folds at random; mirrored cells of a symmetric relation together."""
    n = facts.n_entities
    keys = np.arange(facts.n_cells)
    keys = np.setdiff1d(keys, cell_keys(facts.unobserved, n), assume_unique=True)
    return [cells_of(part, n) for part in deal(facts, keys, folds, np.random.default_rng(random_state), leaky)]


def deal(facts: Facts, keys: Ids, folds: int, rng: np.random.Generator, leaky: bool) -> list[Ids]:
    """Cell numbers dealt into folds of equal size; cells that mirror each other go together."""
    units = keys if leaky else _unit_of(facts, keys)
    distinct, unit = np.unique(units, return_inverse=True)
    fold_of_unit = rng.permutation(len(distinct)) % folds
    fold = fold_of_unit[unit]
    return [keys[fold == f] for f in range(folds)]


def _unit_of(facts: Facts, keys: Ids) -> Ids:
    """Each cell's number, or its mirror's if that is smaller and the relation symmetric."""
    if not facts.symmetric.any():
        return keys
    cells = cells_of(keys, facts.n_entities)
    mirrored = cell_keys(cells[:, ::-1], facts.n_entities)
    return np.where(facts.symmetric[cells[:, 1]], np.minimum(keys, mirrored), keys)


def _splits_mirrors(facts: Facts, cut: HeldOut) -> bool:
    """Whether a held-out cell of a symmetric relation has its mirror among the cells a fit may see."""
    mirrors = cut.cells[facts.symmetric[cut.cells[:, 1]]][:, ::-1]
    held = np.isin(cell_keys(mirrors, facts.n_entities), cell_keys(cut.cells, facts.n_entities))
    return not bool((held | facts.is_unobserved(mirrors)).all())


def sampled_folds(facts: Facts, folds: int, random_state: int, leaky: bool, zeros_per_fact: int) -> list[HeldOut]:
    """Facts dealt into folds, each with its own sample of the zeros, weighted to stand for its share of all zeros."""
    if zeros_per_fact < 1:
        raise InputError(f"zeros_per_fact must be at least 1, got {zeros_per_fact}")
    rng = np.random.default_rng(random_state)
    zeros, weight = sample_zeros([facts], zeros_per_fact * len(facts), rng)
    cuts = []
    n = facts.n_entities
    for ones, nulls in zip(
        deal(facts, facts.keys, folds, rng, leaky),
        deal(facts, cell_keys(zeros, n), folds, rng, leaky),
        strict=True,
    ):
        cells = np.concatenate([cells_of(ones, n), cells_of(nulls, n)])
        cuts.append(
            HeldOut(
                cells,
                np.repeat([True, False], [len(ones), len(nulls)]),
                np.repeat([1.0, weight], [len(ones), len(nulls)]),
            )
        )
    return cuts


def _cuts(
    facts: Facts, folds: int | Sequence[ArrayLike], random_state: int, leaky: bool, zeros_per_fact: int
) -> list[HeldOut]:
    if not isinstance(folds, (int, np.integer)):
        if not len(folds):
            raise InputError("folds must be a number, or hold at least one set of cells")
        return [HeldOut(cells, facts.contains(cells)) for cells in (_given_fold(facts, fold) for fold in folds)]
    if isinstance(folds, bool) or folds < 2:
        raise InputError(f"folds must be at least 2, got {folds}")
    if facts.n_cells > ALL_CELLS:
        return sampled_folds(facts, int(folds), random_state, leaky, zeros_per_fact)
    observed = facts.n_cells - len(facts.unobserved)
    if observed < folds:
        raise InputError(f"folds must not exceed the {observed} observed cells, got {folds}")
    return [HeldOut(cells, facts.contains(cells)) for cells in cell_folds(facts, int(folds), random_state, leaky=leaky)]


def _given_fold(facts: Facts, fold: ArrayLike) -> Triples:
    cells = np.asarray(fold)
    if cells.ndim != 2 or cells.shape[1] != 3 or not len(cells):
        raise InputError(f"a fold must be a non-empty (m, 3) array of cells, got shape {cells.shape}")
    ids = np.stack(
        [facts.entities.ids(cells[:, 0]), facts.relations.ids(cells[:, 1]), facts.entities.ids(cells[:, 2])], axis=1
    )
    if facts.is_unobserved(ids).any():
        raise InputError("a fold holds cells whose truth is unobserved; leave them out")
    return ids


# --- search


def _settings(search: Mapping[str, Sequence[Any]] | Sequence[Settings] | None) -> list[Settings]:
    if search is None:
        return [{}]
    if isinstance(search, Mapping):
        settings = [dict(zip(search, values, strict=True)) for values in itertools.product(*search.values())]
    else:
        settings = [dict(setting) for setting in search]
    if not settings:
        raise InputError("search must hold at least one setting")
    return list(settings)


def _check_settings(estimator: Any, settings: list[Settings]) -> None:
    known = estimator.get_params()
    for name in itertools.chain(*settings):
        if name not in known:
            raise InputError(f"search: {type(estimator).__name__} has no setting {name!r}; it has {', '.join(known)}")


def _pairs(n: int, inner: int) -> list[tuple[int, int]]:
    """Pairs of folds, as in a ring: each fold stands in `inner` of them, one more if that cannot be."""
    if n < 3:
        raise InputError(f"search needs at least 3 folds, got {n}: one to judge on, one to hold out, one to learn from")
    if not 1 <= inner < n:
        raise InputError(f"inner must be between 1 and {n - 1}, the number of other folds, got {inner}")
    ring = {frozenset((f, (f + away) % n)) for away in range(1, -(-inner // 2) + 1) for f in range(n)}
    return sorted((min(pair), max(pair)) for pair in ring)


def _search(
    estimator: Any,
    protocol: Protocol,
    cuts: list[HeldOut],
    settings: list[Settings],
    pairs: list[tuple[int, int]],
    metric: str,
    jobs: int,
    tick: Callable[[str], None],
) -> list[Settings]:
    """For each fold the setting that did best on other folds, the fold itself being held out all along.

    The fit without folds f and g serves both: judged on g it speaks for f, judged on f for g.
    """
    tasks = [
        (estimator, setting, protocol, [cuts[f], cuts[g]], [cuts[g], cuts[f]]) for setting in settings for f, g in pairs
    ]
    outcomes = _map(_fit_and_predict, tasks, jobs, lambda: tick("search"))
    marks = np.zeros((len(settings), len(cuts)))
    for (s, (f, g)), (predictions, _) in zip(itertools.product(range(len(settings)), pairs), outcomes, strict=True):
        for fold, judge, prediction in ((f, g, predictions[0]), (g, f, predictions[1])):
            marks[s, fold] += _mark(metric, cuts[judge], prediction)
    return [settings[best] for best in np.argmax(marks, axis=0)]


def _mark(metric: str, cut: HeldOut, prediction: _Prediction) -> float:
    """The metric, turned so that more is better; folds without both kinds of cells say nothing."""
    value = getattr(measure(cut.truth, *prediction, cut.weights), metric)
    value = -value if metric in ("brier", "log_loss") else value
    return float(np.nan_to_num(value))


# --- fits


def _fit_and_predict(
    estimator: Any,
    setting: Settings,
    protocol: Protocol,
    held: list[HeldOut],
    judged: list[HeldOut],
    validation: Facts | HeldOut | None = None,
) -> _Outcome:
    """Fit without the held cells, predict the judged ones."""
    started = time.perf_counter()
    model = clone(estimator).set_params(**setting)
    small = protocol.facts.n_entities <= SMALL
    with own_warnings() as said, threads(1 if small else None):
        known = protocol.training(held)
        model = model.fit(known) if validation is None else model.fit(known, validation)
    predictions = [protocol.predictions(model.factors_, cut) for cut in judged]
    return predictions, {
        "seconds": time.perf_counter() - started,
        "steps": len(model.trace_),
        "converged": model.trace_.converged,
        "vanished": any(issubclass(kind, VanishedWarning) for kind in said),
    }


@contextmanager
def own_warnings() -> Iterator[list[type[Warning]]]:
    """Within it our own warnings are kept back, and their kinds listed when it is over; others go where they went."""
    kinds: list[type[Warning]] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", RelatentWarning)
        yield kinds
    for warning in said:
        if issubclass(warning.category, RelatentWarning):
            kinds.append(warning.category)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


@contextmanager
def threads(n: int | None) -> Iterator[None]:
    """Within it fits run on n threads; None leaves them as many as there are."""
    before = numba.get_num_threads()
    numba.set_num_threads(n or before)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def processes(n_jobs: int | None, facts: Facts) -> int:
    """How many processes fits to these facts are worth, or as many as asked for."""
    if n_jobs is not None:
        if n_jobs < 1:
            raise InputError(f"n_jobs must be at least 1, got {n_jobs}")
        return n_jobs
    if multiprocessing.parent_process() is not None:  # a fit inside a fit: the processes are there already
        return 1
    # Starting processes costs a second or two: not worth it for the smallest data, nor where a fit fills all cores.
    return joblib.cpu_count() if facts.n_cells >= 50_000 and facts.n_entities <= SMALL else 1


def _map(function: Callable[..., Any], tasks: list[tuple[Any, ...]], jobs: int, tick: Callable[[], None]) -> list[Any]:
    """Run tasks, in this process or in several, in order."""
    results = []
    for result in results_of(function, tasks, min(jobs, len(tasks)), in_order=True):
        results.append(result)
        tick()
    return results


def results_of(
    function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], jobs: int, *, in_order: bool
) -> Iterator[Any]:
    """What tasks give, as it comes, from this process or from several."""
    if jobs == 1:
        return (function(*task) for task in tasks)
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        found: Iterator[Any] = joblib.Parallel(
            n_jobs=jobs, return_as="generator" if in_order else "generator_unordered"
        )(joblib.delayed(function)(*task) for task in tasks)
    return found


# --- results


def _fold(protocol: Protocol, cut: HeldOut, outcome: _Outcome, setting: Settings) -> Fold:
    [(scores, probabilities)], fit = outcome
    return Fold(
        metrics=measure(cut.truth, scores, probabilities, cut.weights),
        baselines=_baselines(protocol, cut),
        settings=dict(setting),
        heldout=cut,
        scores=scores,
        probabilities=probabilities,
        **fit,
    )


def _baselines(protocol: Protocol, cut: HeldOut) -> dict[str, Metrics]:
    """What needs no model: the base rate, each relation's frequency, and for symmetric data the mirrored cell."""
    train = protocol.training([cut])
    observed, ones = train.n_observed(), train.counts()
    rate = np.full(len(cut.cells), ones.sum() / max(observed.sum(), 1))
    frequency = (ones / np.maximum(observed, 1))[cut.cells[:, 1]]
    baselines = {"base rate": rate, "relation frequency": frequency}
    if protocol.facts.symmetric.any():
        symmetric = protocol.facts.symmetric[cut.cells[:, 1]]  # the training facts alone may look one-way
        mirrors = cut.cells[:, ::-1]
        seen = symmetric & ~train.is_unobserved(mirrors)
        baselines["copy of the mirrored cell"] = np.where(seen, train.contains(mirrors), frequency)
    return {name: measure(cut.truth, p, p, cut.weights) for name, p in baselines.items()}


def _check_choices(heldout: str, scores: str, metric: str) -> None:
    for what, value, choices in (
        ("heldout", heldout, ("masked", "zero")),
        ("scores", scores, ("raw", "pair-normalised")),
        ("metric", metric, ("auc_pr", "average_precision", "auc_roc", "brier", "log_loss")),
    ):
        if value not in choices:
            raise InputError(f"{what} must be {' or '.join(map(repr, choices))}, got {value!r}")


def _warn_of_vanished(folds: list[Fold]) -> None:
    vanished = sum(fold.vanished for fold in folds)
    if vanished:
        told = f"in {vanished} of {len(folds)} fits all factors have shrunk to zero: {VanishedWarning.REMEDY}"
        warnings.warn(told, VanishedWarning, stacklevel=3)


def _warn_of_unconverged(folds: list[Fold]) -> None:
    stopped = sum(not fold.converged for fold in folds)
    if stopped:
        warnings.warn(
            f"{stopped} of {len(folds)} fits stopped before they converged; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
