"""Helpers for tests of the command line."""

import signal

from relatent.cli.main import main


def run(capsys, *arguments):
    """Run a command in this process: its exit code, standard output and standard error."""
    code = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def press_ctrl_c_in_step(monkeypatch, number, solver):
    """Interrupt the process in one of the steps of a solver."""
    steps, step = [], solver.step

    def step_with_ctrl_c(self, state):
        steps.append(None)
        if len(steps) == number:
            signal.raise_signal(signal.SIGINT)
        return step(self, state)

    monkeypatch.setattr(solver, "step", step_with_ctrl_c)
