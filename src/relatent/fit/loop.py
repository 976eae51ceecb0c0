"""The only loop: steps until converged, out of budget, no better on held-out cells, or stopped by Ctrl-C.

A solver is a `step` from state to state. The loop owns what every fit needs: the budget, the check for numbers that
are not finite, the trace, the verdict, the report of progress, the checkpoint, and an end between two steps.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple, Protocol, TypeVar, overload

import numpy as np

from ..arrays import Vector
from ..backend.numpy_backend import NUMPY_BACKEND
from ..backend.protocol import Backend
from ..distributed.workers import ALONE, Workers
from ..errors import ConvergenceWarning, FitError
from ..progress import Progress
from .checkpoint import Checkpoint


class State(Protocol):
    """What a solver carries from step to step: a NamedTuple of arrays and numbers."""

    @property
    def objective(self) -> float:
        """The objective of the factors this step started from or ended with."""


S = TypeVar("S", bound=State)


PASSED_ON = 2.0  # seconds in which torchrun has passed a Ctrl-C on to its workers
LEAST_EXPLAINED = 1e-3  # of the objective of zero factors: less would be waiting for noise


class Solver(Protocol[S]):
    """One way to make factors better."""

    @property
    def window(self) -> int:
        """Over how many steps the change of the objective is judged."""

    def step(self, state: S) -> S:
        """The next state."""

    def finished(self, state: S) -> str | None:
        """Why there is no further step to take, or None."""


class Step(NamedTuple):
    """One line of a trace."""

    objective: float
    seconds: float
    validation: float | None = None


@dataclass
class Trace(Sequence[Step]):
    """What happened: a step a line, and how it ended."""

    steps: list[Step] = field(default_factory=list)
    converged: bool = False
    verdict: str = "not run"
    stopped: bool = False  # by Ctrl-C

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        """The step with this number."""
        return self.steps[index]

    @property
    def objective(self) -> Vector:
        """The objective at each step."""
        return np.array([step.objective for step in self.steps])

    @property
    def seconds(self) -> Vector:
        """Seconds since the start at each step."""
        return np.array([step.seconds for step in self.steps])

    @property
    def validation(self) -> Vector:
        """Held-out loss at each step, NaN where it was not measured."""
        return np.array([np.nan if step.validation is None else step.validation for step in self.steps])


@dataclass(frozen=True)
class Watch:
    """A look at held-out cells every few steps; the best state is kept."""

    loss: Callable[[Any], float]
    every: int = 1
    patience: int = 10


def run(
    solver: Solver[S],
    state: S,
    *,
    max_iter: int,
    tol: float,
    watch: Watch | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    anytime: bool = False,
    zero_objective: float | None = None,
    spent: float = 0.0,
    backend: Backend = NUMPY_BACKEND,
    workers: Workers = ALONE,
) -> tuple[S, Trace]:
    """Step until the objective changes by less than `tol` of itself a step; warn if that does not happen.

    With `nothing`, the objective of factors that are zero, a change is judged by how far below it the fit is, if that
    is less: where nearly all of the objective cannot be explained, a thousandth of it may be all there is to learn.

    `spent`: seconds that finding the start took, which count as well. `on`: where a state's arrays belong, if on a GPU.

    Several `workers` take the same steps to the same end: they agree on every number that decides about it, and the
    first of them speaks. Where each has a part of the state only, the solver makes it `whole` for a checkpoint.

    Ctrl-C lets the step under way finish and the checkpoint be written. Then KeyboardInterrupt is raised; but where any
    state is an answer (`anytime`) it is returned, the trace says `stopped`, and to raise is left to the caller.
    """
    trace, best = Trace(), _Best()
    whole, own_part = getattr(solver, "whole", None), getattr(solver, "own_part", None)
    progress = progress if workers.rank == 0 else None
    if checkpoint is not None:
        checkpoint.check_room(state, twice=watch is not None)
        if checkpoint.exists():
            kind, placed = type(state), _placed(state)
            del state  # what is read may be as large
            state, best, trace.steps = _resumed(checkpoint, kind, placed, backend, own_part)
    started = time.perf_counter() - (trace.steps[-1].seconds if trace.steps else spent)
    with _Interrupt(workers) as interrupt:
        asked = workers.any(interrupt.asked)
        while (verdict := _ending(solver, state, trace, max_iter, tol, watch, best, asked, zero_objective)) is None:
            state = solver.step(state)
            (objective,) = workers.agree(float(state.objective))
            if not np.isfinite(objective):
                raise FitError(f"the objective became {objective} at step {len(trace) + 1}; raise the penalties")
            loss = None
            if watch is not None and (len(trace) + 1) % watch.every == 0:
                (loss,) = workers.agree(watch.loss(state))
                best.consider(loss, state)
            trace.steps.append(Step(objective, time.perf_counter() - started, loss))
            if progress is not None:
                progress(len(trace), max_iter, f"objective {objective:,.6g}")
            if checkpoint is not None:
                checkpoint.maybe_save(state, trace.steps, best, whole)
            asked = workers.any(interrupt.asked)
        if asked and checkpoint is not None and trace.steps:
            checkpoint.save(state, trace.steps, best, whole)
    trace.converged, trace.verdict = verdict
    trace.stopped = asked
    if trace.stopped and not (anytime and trace.steps):
        raise KeyboardInterrupt(trace.verdict)
    if not trace.converged and not trace.stopped and workers.rank == 0:
        warnings.warn(trace.verdict, ConvergenceWarning, stacklevel=4)
    return (best.state if watch is not None and best.looks else state), trace


class _Interrupt:
    """Ctrl-C, held back until the step under way has finished; a second one is not.

    Only where Python's own handler would raise KeyboardInterrupt: in the main thread of the first process, and not
    where a program has a handler of its own. Workers get each Ctrl-C twice, from the terminal and from torchrun, which
    passes it on: for a moment another one is the same.
    """

    def __init__(self, workers: Workers):
        self.asked = False
        self._workers, self._since = workers, 0.0

    def __enter__(self) -> _Interrupt:
        self._held = (
            multiprocessing.parent_process() is None
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._held:
            signal.signal(signal.SIGINT, self._hold)
        return self

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            if time.monotonic() - self._since > PASSED_ON:
                signal.default_int_handler(number, frame)
            return
        if self._workers.size == 1:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.asked, self._since = True, time.monotonic()
        if self._workers.rank > 0:
            return
        with suppress(RuntimeError, OSError):  # someone was writing just then
            print("stopping after this step; Ctrl-C once more stops at once", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._held:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass
class _Best:
    """The state that did best on held-out cells so far."""

    state: Any = None
    loss: float = np.inf
    looks: int = 0
    looks_since: int = 0

    def consider(self, loss: float, state: Any) -> None:
        self.looks += 1
        self.looks_since += 1
        if self.state is None:  # even where the first loss is not a number there is a state to return
            self.state = state
        if loss < self.loss:
            self.state, self.loss, self.looks_since = state, loss, 0


def _scale(objective: float, zero_objective: float | None) -> float:
    """What a change of the objective is judged by."""
    scale = abs(objective)
    if zero_objective is not None and objective < zero_objective:
        scale = min(scale, max(zero_objective - objective, LEAST_EXPLAINED * zero_objective))
    return max(scale, np.finfo(float).tiny)


def _placed(state: Any) -> list[str]:
    """Which parts of a state are on a GPU."""
    return [name for name, value in state._asdict().items() if hasattr(value, "cpu")]


def _resumed(
    checkpoint: Checkpoint, kind: type[S], placed: list[str], backend: Backend, own_part: Callable[[S], S] | None
) -> tuple[S, _Best, list[Step]]:
    """The state that was kept, the one that did best, and the steps so far."""
    kept = checkpoint.load(kind)

    def back(state: Any) -> Any:
        if state is None:
            return None
        arrays = {name: getattr(state, name) for name in placed}
        state = state._replace(
            **{
                name: backend.from_numpy_float64(x) if x.dtype == np.float64 else backend.from_numpy(x)
                for name, x in arrays.items()
            }
        )
        return state if own_part is None else own_part(state)

    return back(kept.state), _Best(back(kept.best), *kept.looks), [Step(*step) for step in kept.steps]


def _ending(
    solver: Solver[S],
    state: S,
    trace: Trace,
    max_iter: int,
    tol: float,
    watch: Watch | None,
    best: _Best,
    asked: bool,
    zero_objective: float | None,
) -> tuple[bool, str] | None:
    """Whether and why to stop here: (converged, verdict)."""
    done = len(trace)
    if watch is not None and best.looks_since >= watch.patience:
        return True, f"stopped after {done} steps: the held-out loss was lowest at {best.loss:.6g}"
    if done and (reason := solver.finished(state)) is not None:
        return True, f"ended after {done} steps: {reason}"
    change = np.inf
    if done > solver.window:
        last, before = trace.steps[-1].objective, trace.steps[-1 - solver.window].objective
        change = abs(before - last) / (solver.window * _scale(last, zero_objective))
        if change <= tol:
            return True, f"converged after {done} steps: relative change {change:.1e} ≤ tol={tol:g}"
    moved = (
        f"relative change {change:.1e} > tol={tol:g}"
        if np.isfinite(change)
        else "after too few steps to judge the change"
    )
    if done >= max_iter:
        return False, f"stopped at max_iter={max_iter}, {moved}; raise max_iter or tol"
    if asked:
        return False, f"stopped by you after {done} steps, {moved}"
    return None
