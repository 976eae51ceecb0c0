"""Ctrl-C and kills during a fit: what is written, and how to resume."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import relatent
from commands import press_ctrl_c_in_step, run
from relatent.fit.solvers.lbfgs import LbfgsSearch

LONG_FIT = ("fit", "kinships", "--rank", 5, "--tol", 0, "--max-iter", 300)


def test_ctrl_c_writes_the_model_so_far_and_the_same_command_resumes(capsys, tmp_path, monkeypatch):
    output, state, whole = (tmp_path / name for name in ("m.relatent", "m.state", "whole.relatent"))
    arguments = ("fit", "kinships", "--rank", 5)
    assert run(capsys, *arguments, "-o", whole)[0] == 0
    with monkeypatch.context() as patch:
        press_ctrl_c_in_step(patch, 4, LbfgsSearch)
        code, out, err = run(capsys, *arguments, "-o", output, "--checkpoint", state)
    assert (code, out) == (130, "")
    assert err.splitlines()[1:] == [
        f"interrupted after 4 steps; the model so far is in {output}; the same command resumes from {state}"
    ]
    model = relatent.load(output)
    assert model.about.fit.verdict.startswith("interrupted after 4 steps")
    assert np.isfinite(model.score("person0", "term4", "person1"))
    assert run(capsys, *arguments, "-o", output, "--checkpoint", state)[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["m.relatent", "whole.relatent"]
    np.testing.assert_array_equal(relatent.load(output).A, relatent.load(whole).A)


def test_ctrl_c_without_a_checkpoint_recommends_one(capsys, tmp_path, monkeypatch):
    press_ctrl_c_in_step(monkeypatch, 2, LbfgsSearch)
    code, _, err = run(capsys, *LONG_FIT, "-o", tmp_path / "m.relatent")
    assert code == 130
    assert "use --checkpoint to be able to resume" in err
    assert (tmp_path / "m.relatent").exists()


def test_ctrl_c_before_the_first_step_writes_nothing(capsys, tmp_path, monkeypatch):
    def press_ctrl_c(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LbfgsSearch, "start", press_ctrl_c)
    code, out, err = run(capsys, *LONG_FIT, "-o", tmp_path / "m.relatent", "--checkpoint", tmp_path / "state")
    assert (code, out, err.split("\n")[0]) == (130, "", "interrupted before there was a model to write")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["irm", "mrc", "mln"])
def test_ctrl_c_writes_no_model_for_models_without_intermediate_results(capsys, tmp_path, monkeypatch, model):
    from relatent.baselines.irm import Gibbs
    from relatent.baselines.mln import Search
    from relatent.baselines.mrc import Stagewise

    press_ctrl_c_in_step(monkeypatch, 1, {"irm": Gibbs, "mrc": Stagewise, "mln": Search}[model])
    arguments = ("fit", "presidents", "--model", model, "--checkpoint", tmp_path / "state")
    code, out, err = run(capsys, *arguments, "-o", tmp_path / "m.relatent")
    assert (code, out) == (130, "")
    assert err.endswith("interrupted\n")
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("cross-validate", "presidents", "--rank", 3, "--l2-entities", 0.1, "--folds", 3, "--jobs", 1),
        ("table1", "--dataset", "presidents", "--model", "logit", "--jobs", 1),
    ],
    ids=lambda arguments: arguments[0],
)
def test_ctrl_c_in_one_of_several_fits_ends_all_of_them(capsys, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    press_ctrl_c_in_step(monkeypatch, 3, LbfgsSearch)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (130, "")
    assert err.endswith("interrupted\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("step", "n_steps"), [(3, 3), (9, 6), (1000, 6)])
def test_ctrl_c_in_a_calibrated_fit_writes_the_model_without_calibration(capsys, tmp_path, monkeypatch, step, n_steps):
    if step == 1000:  # after the fits: the first has all facts, the second holds some out

        def interrupted(*arguments, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr("relatent.fit.calibration.learn", interrupted)
    press_ctrl_c_in_step(monkeypatch, step, LbfgsSearch)
    path = tmp_path / "m.relatent"
    code, out, err = run(capsys, "fit", "kinships", "--rank", 5, "--max-iter", 6, "-o", path)
    assert (code, out) == (130, "")
    assert f"interrupted after {n_steps} steps; the model so far is in" in err
    assert relatent.load(path).calibration is None
    assert relatent.load(path).facts is not None


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_or_killed_process_leaves_complete_files_and_can_be_resumed(capsys, tmp_path, kill):
    output, state = tmp_path / "m.relatent", tmp_path / "state"
    arguments = [*LONG_FIT, "-o", output, "--checkpoint", state, "--checkpoint-steps", 1]
    process = subprocess.Popen(
        [sys.executable, "-m", "relatent.cli.main", *map(str, arguments)], stderr=subprocess.PIPE, text=True
    )
    while not state.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(kill)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if kill == signal.SIGINT else -kill), err
    if kill == signal.SIGINT:
        assert relatent.load(output).rank == 5
        assert sorted(os.listdir(tmp_path)) == ["m.relatent", "state"]
        return
    assert not output.exists()
    code, out, err = run(capsys, *arguments[:-2], "--json")
    assert code == 0, err
    assert json.loads(out)["steps"] >= 20
    # A process killed during a write leaves a temporary file whose name starts with a dot.
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == ["m.relatent"]
