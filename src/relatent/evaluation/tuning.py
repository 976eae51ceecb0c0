"""The search for settings that somebody else would have to choose: model, rank, λ and bias.

Successive halving. Round one tries many settings, one tenth of the cells held out and few steps each; the best third
goes on to whole fits on two tenths, the best third of those to five. Settings come from a Halton sequence, so that
however many there is time for, they lie evenly; the defaults of every model are among the first. A clock may end a
round: then those further down its list are left out. With `trials` there is no clock, and the seed tells everything.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import time as clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import qmc

from ..data.cell_keys import cell_keys, cells_of
from ..data.facts import Facts
from ..data.heldout import ZEROS_PER_FACT, HeldOut
from ..errors import FitError, InputError, VanishedWarning
from ..fit.optimisers import Adam
from ..fit.penalties import Dura
from ..model.factors import Factors
from ..progress import Progress
from .cross_validation import (
    ALL_CELLS,
    SMALL,
    Protocol,
    deal,
    own_warnings,
    processes,
    results_of,
    sampled_folds,
    threads,
)
from .metrics import measure
from .ranking import evaluate
from .tuning_report import METRICS, NOTHING_HELD_OUT, Candidate, Trial, Tuned, sign_of

MODELS = ("logit", "als", "categorical", "softmax")
TENTHS = 10  # parts the cells are dealt into
MOST = 300  # settings of the first round: more would only find what is flattered most
FEW_STEPS = {"als": 15}  # of the first round
FEW = 40  # the same for likelihoods
KEPT = 3  # one of so many goes on
MOST_PARTS = 5  # that settings are judged by
VANISHED = "the factors shrank to nothing"
NOT_TRIED = "no setting was tried to the end"


class Round(NamedTuple):
    """One round of the halving."""

    parts: int  # tenths that are held out, one after the other
    whole: bool  # fits to the end
    until: float  # share of the time by which it ends


ROUNDS = (Round(1, False, 0.35), Round(2, True, 0.7), Round(MOST_PARTS, True, 0.95))


@dataclass(frozen=True)
class Space:
    """What may be chosen for one model; λ and rank are drawn evenly on a logarithmic scale."""

    penalty: tuple[float, float]  # least and largest λ, or weight of DURA
    rank: tuple[int, int] = (4, 100)
    bias: bool = True  # whether there is one to choose


SPACES = {
    "logit": Space((0.05, 12.0)),
    "als": Space((0.1, 30.0), bias=False),
    "categorical": Space((0.05, 12.0), (4, 60)),
    "softmax": Space((0.005, 0.5), (16, 128), bias=False),
}


def tune(
    facts: Facts,
    time: float = 120.0,
    *,
    metric: str = "auc_pr",
    models: Sequence[str] | None = None,
    validation: Facts | HeldOut | None = None,
    trials: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Choose model, rank, λ and bias by held-out cells, then fit the choice to all facts.

    Parameters
    ----------
    time : seconds for search and fit together; a share is kept back for the fit, which is not broken off
    metric : "auc_pr", "log_loss", or "mrr" of held-out facts among all entities (filtered)
    models : some of "logit", "als", "categorical" (pairs have one relation at most), "softmax" (for "mrr"); None:
        all that suit facts and metric
    validation : facts or cells to judge by, over the same vocabulary; None: tenths of the cells, masked in the fit
        (mirrored cells of symmetric relations together; facts beside sampled zeros where there are very many cells;
        for "mrr" the facts alone, which then count as false, as in the usual benchmarks)
    trials : how many settings to begin with; then there is no limit of time, and the seed alone decides
    n_jobs : processes; None chooses

    Ctrl-C ends the search: the best so far is fitted, and `stopped` is true.

    >>> import relatent
    >>> report = relatent.tune(relatent.load_dataset("presidents"), trials=1, models=["als"])
    >>> report.chosen.model, report.factors_.rank > 0
    ('als', True)
    """
    return search(
        facts,
        time,
        metric=metric,
        models=models,
        validation=validation,
        trials=trials,
        random_state=random_state,
        n_jobs=n_jobs,
        progress=progress,
    ).fit(facts)


def search(
    facts: Facts,
    time: float = 120.0,
    *,
    metric: str = "auc_pr",
    models: Sequence[str] | None = None,
    validation: Facts | HeldOut | None = None,
    trials: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """The search of `tune`, without the fit to all facts."""
    began = clock.time()
    chosen = check(facts, time, metric, models, trials)
    judge = _judge(facts, metric, validation, random_state)
    queue = candidates(facts, chosen, random_state)
    found = [Trial(candidate) for candidate in itertools.islice(queue, trials or MOST)]
    board = _Board(found, metric, began, None if trials else time, progress)
    jobs = processes(n_jobs, facts)
    stopped = False
    try:
        for number in range(1, len(ROUNDS) + 1):
            if judge.parts >= 1 and (number < 3 or judge.parts > ROUNDS[1].parts):
                _play(number, board, judge, random_state, jobs)
    except KeyboardInterrupt:
        stopped = True
    protocol = judge.protocol(max(len(trial.scores) for trial in found))
    return Tuned(board.ranked(), metric, protocol, random_state, clock.time() - began, stopped)


def check(facts: Facts, time: float, metric: str, models: Sequence[str] | None, trials: int | None) -> list[str]:
    """The models to try, everything asked for being possible."""
    if not isinstance(facts, Facts):
        raise InputError(f"tune takes Facts, got {type(facts).__name__}; see relatent.read and Facts.from_arrays")
    if not len(facts):
        raise InputError("there are no facts to learn from")
    if metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not time > 0:
        raise InputError(f"time must be a number of seconds above 0, got {time!r}")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise InputError(f"trials must be a whole number of at least 1, got {trials!r}")
    for name in models or ():
        if name not in MODELS:
            raise InputError(f"models must be among {', '.join(MODELS)}, got {name!r}")
        if why := _unsuitable(name, facts, metric, asked=True):
            raise InputError(f"{name} cannot be tried: {why}")
    return list(dict.fromkeys(models or [name for name in MODELS if not _unsuitable(name, facts, metric, asked=False)]))


def _unsuitable(model: str, facts: Facts, metric: str, *, asked: bool) -> str:
    """Why a model is no candidate, or nothing."""
    if model == "softmax" and metric != "mrr":
        return "softmax gives no probabilities; take metric 'mrr'"
    if model == "categorical" and not one_relation_a_pair(facts):
        return "there are pairs with several relations"
    if model == "categorical" and not asked and (facts.n_relations == 1 or facts.n_cells > ALL_CELLS):
        return "it would not differ, or take long"
    return ""


def one_relation_a_pair(facts: Facts) -> bool:
    """Whether no two facts have subject and object in common."""
    pairs = facts.subjects.astype(np.int64) * facts.n_entities + facts.objects
    return len(np.unique(pairs)) == len(pairs)


# --- what is tried


def candidates(facts: Facts, models: Sequence[str], random_state: int) -> Iterator[Candidate]:
    """Settings without end, the models taking turns, the defaults of each first."""
    for model in models:
        yield Candidate(model, _fixed(model))
    draws = [_drawn(model, facts.n_entities, random_state) for model in models]
    yield from itertools.chain.from_iterable(zip(*draws, strict=True))


def _fixed(model: str) -> dict[str, Any]:
    """What is not searched. Softmax ranks well with DURA and Adam (docs/guide.md), not with λ."""
    if model != "softmax":
        return {}
    return {"penalty": Dura(0.05), "optimiser": Adam(0.03), "init": "small", "max_iter": 60, "bias": False}


def _drawn(model: str, n_entities: int, random_state: int) -> Iterator[Candidate]:
    """Settings of one model that lie evenly in its space."""
    space = SPACES[model]
    most = min(space.rank[1], n_entities)
    ranks = (min(space.rank[0], most), most)
    halton = qmc.Halton(3, rng=np.random.default_rng([random_state, MODELS.index(model)]))
    while True:
        u_rank, u_penalty, u_bias = halton.random(1)[0].tolist()
        settings = {**_fixed(model), "rank": round(_between(ranks, u_rank))}
        weight = float(f"{_between(space.penalty, u_penalty):.2g}")
        if model == "softmax":
            settings["penalty"] = Dura(weight)
        else:
            settings |= {"l2_entities": weight, "l2_relations": weight}
        if space.bias:
            settings["bias"] = u_bias < 0.5
        yield Candidate(model, settings)


def _between(limits: tuple[float, float], u: float) -> float:
    """The point a share u of the way along, on a logarithmic scale."""
    return float(limits[0] * (limits[1] / limits[0]) ** u)


# --- how it is judged


@dataclass(frozen=True)
class _Judge:
    """Held-out parts, and what a fit may know that is judged by one."""

    facts: Facts
    metric: str
    cuts: tuple[HeldOut, ...]
    given: bool  # as validation data, which the facts do not hold

    @property
    def parts(self) -> int:
        return len(self.cuts)

    def protocol(self, used: int) -> str:
        """How settings were judged, by so many parts at most."""
        if not self.cuts:
            return NOTHING_HELD_OUT
        if not used:
            return NOT_TRIED
        if self.given:
            return "judged by validation data"
        of = f"{'up to ' if used > 1 else ''}{used} of {self.parts} parts of the"
        if self.metric == "mrr":
            return f"{of} facts held out"
        sampled = ", zeros sampled and re-weighted" if self.cuts[0].weights is not None else ""
        return f"{of} cells held out, masked{sampled}"

    def training(self, part: int) -> Facts:
        if self.given:
            return self.facts
        protocol = Protocol(self.facts, masked=self.metric != "mrr", scores="raw", with_mirrors=True)
        return protocol.training([self.cuts[part]])

    def figure(self, factors: Factors, part: int) -> float:
        """What the model has on a part, in the metric's own direction."""
        cut = self.cuts[part]
        if self.metric == "mrr":
            test = cut.facts(self.facts)
            return evaluate(factors, test, known=[self.facts, test]).mrr if len(test) else float("nan")
        theta = np.asarray(factors.score(*cut.cells.T), np.float64)
        probabilities = np.asarray(factors.link.probability(theta), np.float64)
        return float(getattr(measure(cut.truth, theta, probabilities, cut.weights), self.metric))


def _judge(facts: Facts, metric: str, validation: Facts | HeldOut | None, random_state: int) -> _Judge:
    if validation is not None:
        return _Judge(facts, metric, (HeldOut.of(validation, facts, random_state),), given=True)
    return _Judge(facts, metric, tuple(held_out_parts(facts, metric, random_state)), given=False)


def held_out_parts(facts: Facts, metric: str, random_state: int) -> list[HeldOut]:
    """Tenths of the cells, or fewer parts where there are fewer facts; none for a single fact.

    Facts and zeros are dealt apart, so that every part has its share of both.
    """
    n, rng = facts.n_entities, np.random.default_rng(random_state)
    parts = min(TENTHS, len(facts))
    if parts < 2:
        return []
    if metric == "mrr":
        dealt = deal(facts, facts.keys, parts, rng, False)
        return [HeldOut(cells_of(keys, n), np.ones(len(keys), bool)) for keys in dealt if len(keys)]
    if facts.n_cells > ALL_CELLS:
        return sampled_folds(facts, parts, random_state, False, ZEROS_PER_FACT)
    zeros = np.setdiff1d(np.arange(facts.n_cells), facts.keys, assume_unique=True)
    zeros = np.setdiff1d(zeros, cell_keys(facts.unobserved, n), assume_unique=True)
    both = zip(deal(facts, facts.keys, parts, rng, False), deal(facts, zeros, parts, rng, False), strict=True)
    cells = [cells_of(np.sort(np.concatenate(keys)), n) for keys in both if len(keys[0])]
    return [HeldOut(part, facts.contains(part)) for part in cells]


# --- rounds


@dataclass
class _Board:
    """All trials, the clock, and who tells of the progress."""

    trials: list[Trial]
    metric: str
    began: float
    time: float | None
    progress: Progress | None
    done: int = 0

    def deadline(self, share: float, kept_back: float = 0.0) -> float | None:
        return None if self.time is None else self.began + max(0.0, min(share * self.time, self.time - kept_back))

    def ranked(self) -> list[Trial]:
        """Farthest round first, then the best figure; what could not be judged last, in the order of the draw."""
        judged = [trial for trial in self.trials if trial.judged]
        others = [trial for trial in self.trials if not trial.judged]
        return sorted(judged, key=lambda trial: (-trial.round, -sign_of(self.metric) * trial.score)) + others

    def tell(self) -> None:
        self.done += 1
        if self.progress is None:
            return
        best = self.ranked()[0]
        note = f"{self.done} fits, best {best.candidate}: {best.score:.4f}" if best.judged else f"{self.done} fits"
        if self.time is None:
            self.progress(self.done, _fits(len(self.trials)), note)
        else:
            self.progress(min(int(clock.time() - self.began), int(self.time)), max(1, int(self.time)), note)


def _fits(n: int) -> int:
    """How many fits n settings lead to, at most."""
    second = -(-n // KEPT)
    return n + second * ROUNDS[1].parts + -(-second // KEPT) * (ROUNDS[2].parts - ROUNDS[1].parts)


def _play(number: int, board: _Board, judge: _Judge, random_state: int, jobs: int) -> None:
    """One round: those that go on, each on the held-out parts it has not been judged by."""
    play = ROUNDS[number - 1]
    parts = min(play.parts, judge.parts)
    entered = [trial for trial in board.ranked() if trial.round == number - 1 and (number == 1 or trial.judged)]
    playing = entered if number == 1 else entered[: -(-len(entered) // KEPT)]
    longest = max((trial.longest for trial in playing), default=0.0)
    deadline = board.deadline(play.until, kept_back=1.5 * longest if number == len(ROUNDS) else 0.0)
    open_parts = {id(trial): list(range(parts)) for trial in playing}
    got: dict[int, dict[int, float]] = {id(trial): {} for trial in playing}
    if number > 2:  # whole fits of the round before count on
        for trial in playing:
            got[id(trial)] = dict(trial.scores)
            open_parts[id(trial)] = [part for part in range(parts) if part not in trial.scores]
    tasks = [(place, part) for place, trial in enumerate(playing) for part in open_parts[id(trial)]]
    work = ((place, part, playing[place].candidate, play.whole, judge, random_state, deadline) for place, part in tasks)
    for place, part, outcome in results_of(_try, work, min(jobs, max(1, len(tasks))), in_order=False):
        trial = playing[place]
        if outcome is None:
            continue
        value, seconds, note = outcome
        trial.seconds += seconds
        trial.longest = max(trial.longest, seconds)
        trial.note = note or trial.note
        got[id(trial)][part] = value
        if len(got[id(trial)]) == parts:
            trial.round, trial.scores = number, dict(sorted(got[id(trial)].items()))
        board.tell()


class _OutOfTimeError(Exception):
    """Raised in the middle of a fit when its time is over."""


def _try(
    place: int, part: int, candidate: Candidate, whole: bool, judge: _Judge, random_state: int, deadline: float | None
) -> tuple[int, int, tuple[float, float, str] | None]:
    """One fit and its figure, seconds and what went wrong; nothing if the time was over before it ended."""
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    started = clock.time()

    def in_time(*_: Any) -> None:
        if deadline is not None and clock.time() > deadline:
            raise _OutOfTimeError

    estimator = candidate.estimator(random_state)
    if not whole:
        estimator.set_params(max_iter=min(estimator.max_iter, FEW_STEPS.get(candidate.model, FEW)))
    try:
        in_time()
        with own_warnings() as said, threads(1 if judge.facts.n_entities <= SMALL else None):
            estimator.fit(judge.training(part), progress=in_time)
            value, note = judge.figure(estimator.factors_, part), ""
        if judge.metric != "log_loss" and any(issubclass(kind, VanishedWarning) for kind in said):
            value, note = float("nan"), VANISHED  # a constant, whose ties the trapezoid would reward
    except _OutOfTimeError:
        return place, part, None
    except (FitError, InputError, MemoryError) as problem:  # this setting is of no use; others may be
        value, note = float("nan"), " ".join(str(problem).split())
    return place, part, (value, clock.time() - started, note)
