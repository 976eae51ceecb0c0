"""The loop of every fit: steps until convergence, the step limit, early stopping or Ctrl-C.

A solver's `step` maps a state to the next one. The loop handles everything else: the limit, non-finite numbers, the
trace, the verdict, progress, the checkpoint, and interruption between two steps.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar, overload

import numpy as np

from ..arrays import Vector
from ..backend.numpy_backend import NUMPY_BACKEND
from ..backend.protocol import Backend
from ..distributed.workers import ALONE, Workers
from ..errors import ConvergenceWarning, FitError, StopFitError
from ..progress import Progress
from ..result_tables import Result
from .checkpoint import Checkpoint, ValueKind, kinds_of
from .early_stopping import BestState, Watch
from .interrupt import Interrupt


class State(Protocol):
    """The state of a solver between steps: a NamedTuple of arrays and numbers."""

    @property
    def objective(self) -> float:
        """The objective before or after the step."""


S = TypeVar("S", bound=State)

MIN_SCALE = 1e-3  # fraction of the objective of zero factors; changes relative to less than that are noise


class Solver(Protocol[S]):
    """A method that improves factors step by step."""

    @property
    def window(self) -> int:
        """Number of steps over which the change of the objective is measured."""

    def step(self, state: S) -> S:
        """The next state."""

    def finished(self, state: S) -> str | None:
        """The reason why no further step is possible, or None."""


class Step(NamedTuple):
    """One entry of a trace."""

    objective: float
    seconds: float
    validation: float | None = None


@dataclass(repr=False)
class Trace(Result, Sequence[Step]):
    """The steps of a fit, and how it ended; `to_pandas` has one row per step."""

    steps: list[Step] = field(default_factory=list)
    converged: bool = False
    verdict: str = "not run"
    stopped: bool = False  # interrupted by Ctrl-C

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        """The step at this index."""
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
        """Held-out loss at each step; NaN where it was not measured."""
        return np.array([np.nan if step.validation is None else step.validation for step in self.steps])

    def _table(self) -> list[Step]:
        """One row per step."""
        return self.steps

    def __repr__(self) -> str:
        last = f", objective {self.steps[-1].objective:.6g}" if self.steps else ""
        return f"Trace({len(self)} steps, {self.verdict}{last})"


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
    """Step until the relative change of the objective per step is at most `tol`; warn if it stays above.

    With `zero_objective`, the objective of zero factors, the change is relative to what the factors explain
    (`zero_objective` − objective) if that is less than the objective itself, and to no less than a thousandth of
    `zero_objective`: where the factors explain almost everything, or almost nothing, smaller changes are rounding.

    `spent`: seconds already spent on the start; they count in the trace. `backend`: that of the state's arrays.

    All `workers` take the same steps: they agree on every number that decides, and the first one reports. If a worker
    has only a part of the state, the solver's `whole` completes it for the checkpoint.

    After Ctrl-C the current step finishes and the checkpoint is written; then KeyboardInterrupt is raised. With
    `anytime`, the state is returned instead, `trace.stopped` is set, and the caller raises. If `progress` raises
    StopFitError, the fit ends like one that reached `max_iter`.
    """
    trace, best, stop = Trace(), BestState(), ""
    whole = getattr(solver, "whole", None)
    progress = progress if workers.rank == 0 else None
    if checkpoint is not None:
        checkpoint.check_disk_space(state, twice=watch is not None)
        if checkpoint.exists():
            kind, wanted, on_gpu = type(state), kinds_of(state, getattr(solver, "growing", ())), _gpu_arrays(state)
            del state  # the state that is loaded may be as large
            state, best, trace.steps = _resumed(checkpoint, kind, wanted, on_gpu, backend, solver)
    started = time.perf_counter() - (trace.steps[-1].seconds if trace.steps else spent)
    with Interrupt(workers) as interrupt:
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
                try:
                    progress(len(trace), max_iter, f"objective {objective:,.6g}")
                except StopFitError as reason:
                    stop = str(reason)
            if checkpoint is not None:
                checkpoint.maybe_save(state, trace.steps, best, whole)
            asked = workers.any(interrupt.asked or bool(stop))
        if asked and checkpoint is not None and trace.steps:
            checkpoint.save(state, trace.steps, best, whole)
    trace.converged, trace.verdict = verdict
    stop = workers.agree_on_text(stop or " ").strip() if asked else ""
    if stop and not trace.converged:
        trace.verdict = f"stopped after {len(trace)} steps: {stop}"
    trace.stopped = asked and not stop
    if trace.stopped and not (anytime and trace.steps):
        raise KeyboardInterrupt(trace.verdict)
    if not trace.converged and not trace.stopped and workers.rank == 0:
        warnings.warn(trace.verdict, ConvergenceWarning, stacklevel=4)
    return (best.state if watch is not None and best.looks else state), trace


def _scale(objective: float, zero_objective: float | None) -> float:
    """The number that a change of the objective is relative to."""
    scale = abs(objective)
    if zero_objective is not None and objective < zero_objective:
        scale = max(min(scale, zero_objective - objective), MIN_SCALE * zero_objective)
    return max(scale, np.finfo(float).tiny)


def _gpu_arrays(state: Any) -> list[str]:
    """The names of a state's arrays that are on a GPU."""
    return [name for name, value in state._asdict().items() if hasattr(value, "cpu")]


def _resumed(
    checkpoint: Checkpoint,
    kind: type[S],
    wanted: Mapping[str, ValueKind],
    on_gpu: list[str],
    backend: Backend,
    solver: Solver[S],
) -> tuple[S, BestState, list[Step]]:
    """The state, the best state and the steps of a checkpoint."""
    saved = checkpoint.load(kind, wanted)
    own_part, is_valid = getattr(solver, "own_part", None), getattr(solver, "is_valid", None)

    def restore(state: Any) -> Any:
        if state is None:
            return None
        arrays = {name: getattr(state, name) for name in on_gpu}
        state = state._replace(
            **{
                name: backend.from_numpy_float64(x) if x.dtype == np.float64 else backend.from_numpy(x)
                for name, x in arrays.items()
            }
        )
        state = state if own_part is None else own_part(state)
        checkpoint.check_state(state, wanted)
        with checkpoint.refusing():
            if is_valid is not None and not is_valid(state):
                raise ValueError("state")
        return state

    return restore(saved.state), BestState(restore(saved.best), *saved.looks), [Step(*step) for step in saved.steps]


def _ending(
    solver: Solver[S],
    state: S,
    trace: Trace,
    max_iter: int,
    tol: float,
    watch: Watch | None,
    best: BestState,
    asked: bool,
    zero_objective: float | None,
) -> tuple[bool, str] | None:
    """(converged, verdict) if the fit ends here."""
    done = len(trace)
    if watch is not None and watch.should_stop(best):
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
        f"relative change {change:.1e} > tol={tol:g}" if np.isfinite(change) else "too few steps to measure the change"
    )
    if done >= max_iter:
        return False, f"stopped at max_iter={max_iter}, {moved}; raise max_iter or tol"
    if asked:
        return False, f"interrupted after {done} steps, {moved}"
    return None
