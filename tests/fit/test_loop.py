import signal
import threading
import weakref
from typing import NamedTuple

import numpy as np
import pytest

from relatent.errors import ConvergenceWarning, FitError, StopFitError
from relatent.fit.early_stopping import Watch
from relatent.fit.loop import Step, Trace, run


class State(NamedTuple):
    number: int
    objective: float


class Script:
    """A solver that plays given objectives, then repeats the last."""

    def __init__(self, *objectives, window=1, ends_at=None):
        self.objectives, self.window, self.ends_at = objectives, window, ends_at

    def step(self, state):
        number = state.number + 1
        return State(number, self.objectives[min(number, len(self.objectives)) - 1])

    def finished(self, state):
        return "nothing is left to do" if state.number == self.ends_at else None


START = State(0, np.inf)


def test_a_small_change_ends_the_fit_and_the_verdict_says_how_small():
    state, trace = run(Script(100.0, 50.0, 49.999), START, max_iter=10, tol=1e-3)
    assert state.number == len(trace) == 3
    assert trace.converged
    assert trace.verdict == "converged after 3 steps: relative change 2.0e-05 ≤ tol=0.001"


def test_a_single_step_is_never_enough_to_judge_by():
    _, trace = run(Script(5.0), START, max_iter=10, tol=1e-3)
    assert len(trace) == 2


def test_the_change_is_judged_over_the_solvers_window():
    """One lame step among good ones does not end a quasi-Newton fit."""
    objectives = [100.0, 80.0, 80.0, 60.0, 50.0, 40.0, 40.0, 40.0, 40.0, 40.0]
    _, trace = run(Script(*objectives, window=3), START, max_iter=50, tol=1e-3)
    assert len(trace) == 9
    assert trace.objective[-4:].tolist() == [40.0] * 4


def test_where_little_can_be_explained_the_change_is_judged_by_that():
    script = (1000.0, 990.0, 989.9, 989.899)  # of 1,000 all but ten stay, and a tenth is 1 % of those
    _, trace = run(Script(*script), START, max_iter=10, tol=1e-3, zero_objective=1000.0)
    assert len(trace) == 4
    assert trace.verdict == "converged after 4 steps: relative change 9.9e-05 ≤ tol=0.001"
    assert len(run(Script(*script), START, max_iter=10, tol=1e-3)[1]) == 3


def test_factors_that_explain_nothing_end_the_fit_all_the_same():
    shrinking = [1000.0 - 2.0**-i for i in range(20)]  # each change is as large as all that is explained
    _, trace = run(Script(*shrinking), START, max_iter=20, tol=1e-3, zero_objective=1000.0)
    assert trace.converged
    assert len(run(Script(1100.0, 1099.9), START, max_iter=10, tol=1e-3, zero_objective=1000.0)[1]) == 2


def test_factors_that_explain_everything_end_the_fit_although_rounding_moves_the_objective():
    rounding = [1e-4 * (1 + i % 2) for i in range(20)]  # changes by half, which is 1e-7 of the facts
    _, trace = run(Script(*rounding), START, max_iter=20, tol=1e-3, zero_objective=1000.0)
    assert (trace.converged, len(trace)) == (True, 2)


def test_running_out_of_steps_warns_with_the_remedy():
    with pytest.warns(
        ConvergenceWarning,
        match=r"^stopped at max_iter=3, relative change 1\.0e\+00 > tol=0\.001; raise max_iter or tol$",
    ):
        state, trace = run(Script(8.0, 4.0, 2.0, 1.0), START, max_iter=3, tol=1e-3)
    assert not trace.converged
    assert trace.verdict.startswith("stopped at max_iter=3")
    assert state.number == 3


def test_converging_at_the_very_last_step_is_converging():
    _, trace = run(Script(8.0, 8.0), START, max_iter=2, tol=1e-3)
    assert trace.converged


def test_a_solver_may_end_the_fit_and_its_reason_is_in_the_verdict():
    _, trace = run(Script(8.0, 4.0, 2.0, ends_at=3), START, max_iter=9, tol=0)
    assert trace.converged
    assert trace.verdict == "ended after 3 steps: nothing is left to do"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_objective_that_is_not_finite_is_an_error(bad):
    with pytest.raises(FitError, match=f"the objective became {bad} at step 2; raise the penalties"):
        run(Script(8.0, bad), START, max_iter=9, tol=1e-3)


def test_an_objective_of_zero_can_converge():
    _, trace = run(Script(1.0, 0.0, 0.0), START, max_iter=9, tol=1e-3)
    assert trace.converged


def test_early_stopping_keeps_the_state_that_did_best_on_held_out_cells():
    losses = [9.0, 7.0, 3.0, 4.0, 5.0, 6.0, 1.0]
    falling = [float(2.0**-step) for step in range(20)]
    watch = Watch(lambda state: losses[state.number - 1], patience=3)
    state, trace = run(Script(*falling), START, max_iter=20, tol=0, watch=watch)
    assert state.number == 3
    assert len(trace) == 6
    assert trace.converged
    assert trace.verdict == "stopped after 6 steps: the held-out loss was lowest at 3"
    assert trace.validation.tolist() == losses[:6]


def test_the_best_state_is_kept_even_if_the_fit_converges_first():
    losses = [9.0, 3.0, 8.0, 8.0]
    watch = Watch(lambda state: losses[state.number - 1], patience=10)
    state, trace = run(Script(8.0, 4.0, 2.0, 2.0), START, max_iter=20, tol=1e-3, watch=watch)
    assert state.number == 2
    assert len(trace) == 4


def test_held_out_cells_are_looked_at_only_every_few_steps():
    seen = []
    watch = Watch(lambda state: seen.append(state.number) or 1.0 / state.number, every=5, patience=3)
    falling = [float(2.0**-step) for step in range(20)]
    with pytest.warns(ConvergenceWarning, match="max_iter=12"):
        state, trace = run(Script(*falling), START, max_iter=12, tol=0, watch=watch)
    assert seen == [5, 10]
    assert state.number == 10
    assert np.flatnonzero(~np.isnan(trace.validation)).tolist() == [4, 9]


def test_without_a_look_the_last_state_is_returned():
    watch = Watch(lambda state: 1.0, every=100)
    state, _ = run(Script(8.0, 4.0, 4.0), START, max_iter=20, tol=1e-3, watch=watch)
    assert state.number == 3


def test_a_held_out_loss_that_is_not_a_number_never_wins():
    losses = [3.0, np.nan, np.nan, np.nan]
    watch = Watch(lambda state: losses[state.number - 1], patience=2)
    state, _ = run(Script(*[float(2.0**-step) for step in range(9)]), START, max_iter=9, tol=0, watch=watch)
    assert state.number == 1


def test_where_no_held_out_loss_is_a_number_there_is_a_state_all_the_same():
    watch = Watch(lambda state: np.nan, patience=2)
    state, trace = run(Script(*[float(2.0**-step) for step in range(9)]), START, max_iter=9, tol=0, watch=watch)
    assert state.number == 1
    assert len(trace) == 2


def test_a_progress_callback_can_end_the_fit_and_keep_the_state():
    def stop_at_two(done, total, note):
        if done == 2:
            raise StopFitError("the time is over")

    with pytest.warns(ConvergenceWarning, match="stopped after 2 steps: the time is over"):
        state, trace = run(Script(9, 8, 7, 6), START, max_iter=9, tol=1e-3, progress=stop_at_two)
    assert (state.objective, len(trace), trace.converged, trace.stopped) == (8, 2, False, False)


def test_progress_is_told_at_every_step():
    said = []
    run(Script(1234.5, 1234.5), START, max_iter=9, tol=1e-3, progress=lambda *news: said.append(news))
    assert said == [(1, 9, "objective 1,234.5"), (2, 9, "objective 1,234.5")]


def test_a_trace_reads_like_a_list_of_steps():
    trace = Trace([Step(3.0, 0.1), Step(2.0, 0.2, 0.7)])
    assert len(trace) == 2
    assert trace[-1] == Step(2.0, 0.2, 0.7)
    assert trace[:1] == [Step(3.0, 0.1)]
    assert trace.objective.tolist() == [3.0, 2.0]
    assert trace.seconds.tolist() == [0.1, 0.2]
    np.testing.assert_array_equal(trace.validation, [np.nan, 0.7])


def test_seconds_never_run_backwards():
    _, trace = run(Script(8.0, 4.0, 2.0, 2.0), START, max_iter=9, tol=1e-3)
    assert (np.diff(trace.seconds) >= 0).all()


# --- Ctrl-C


class Pressed(Script):
    """A solver in whose given steps Ctrl-C is pressed, once or more often."""

    def __init__(self, *objectives, steps, times=1):
        super().__init__(*objectives)
        self.steps, self.times, self.finished_steps = steps, times, 0

    def step(self, state):
        for _ in range(self.times if state.number + 1 in self.steps else 0):
            signal.raise_signal(signal.SIGINT)
        self.finished_steps += 1
        return super().step(state)


FALLING = [float(2.0**-step) for step in range(20)]


def test_ctrl_c_lets_the_step_finish_and_the_state_is_returned(capsys):
    state, trace = run(Pressed(*FALLING, steps=[3]), START, max_iter=9, tol=1e-3, anytime=True)
    assert state.number == len(trace) == 3
    assert trace.stopped
    assert not trace.converged
    assert trace.verdict == "interrupted after 3 steps, relative change 1.0e+00 > tol=0.001"
    assert capsys.readouterr().err == "stopping after this step; press Ctrl-C again to stop at once\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_half_the_work_is_no_answer_ctrl_c_is_raised_after_the_step():
    solver = Pressed(*FALLING, steps=[3])
    with pytest.raises(KeyboardInterrupt, match="interrupted after 3 steps"):
        run(solver, START, max_iter=9, tol=1e-3)
    assert solver.finished_steps == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_stops_at_once():
    solver = Pressed(*FALLING, steps=[3], times=2)
    with pytest.raises(KeyboardInterrupt):
        run(solver, START, max_iter=9, tol=1e-3, anytime=True)
    assert solver.finished_steps == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_the_step_that_converges_is_not_forgotten():
    _, trace = run(Pressed(8.0, 4.0, 4.0, steps=[3]), START, max_iter=9, tol=1e-3, anytime=True)
    assert trace.converged
    assert trace.stopped


def test_ctrl_c_returns_the_state_that_did_best_on_held_out_cells():
    losses = [9.0, 3.0, 8.0, 8.0]
    watch = Watch(lambda state: losses[state.number - 1])
    state, _ = run(Pressed(*FALLING, steps=[4]), START, max_iter=9, tol=0, watch=watch, anytime=True)
    assert state.number == 2


def test_a_handler_of_the_programs_own_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append("Ctrl-C"))
    try:
        _, trace = run(Pressed(4.0, 2.0, 2.0, steps=[1, 2]), START, max_iter=9, tol=1e-3, anytime=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == ["Ctrl-C", "Ctrl-C"]
    assert trace.converged
    assert not trace.stopped


def test_a_run_in_another_thread_touches_no_handler():
    seen = []
    watch = Watch(lambda state: seen.append(signal.getsignal(signal.SIGINT)) or 1.0)
    thread = threading.Thread(
        target=run, args=(Script(4.0, 2.0, 2.0), START), kwargs={"max_iter": 9, "tol": 1e-3, "watch": watch}
    )
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler] * 3


def test_the_state_before_is_not_held():
    """At three million entities a state that nobody needs is a gigabyte."""

    class Large(NamedTuple):
        x: np.ndarray
        objective: float

    states = []

    class Solver(Script):
        def step(self, state):
            states.append(weakref.ref(state.x))
            return Large(np.zeros(3), 1.0 / len(states))

        def finished(self, state):
            return "enough" if len(states) == 5 else None

    state, _ = run(Solver(), Large(np.zeros(3), 1.0), max_iter=9, tol=0)
    assert [reference() is None for reference in states] == [True] * 5
    assert state.objective == 0.2
