"""`torchrun -m relatent fit … --distributed`: as one process, in one voice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="several workers need torch (make test-torch)")

from launcher import PATIENCE
from test_workers import text, world

import relatent
from commands import run as run_alone
from relatent.fit.checkpoint import Checkpoint, _verified

pytestmark = pytest.mark.torch
QUIET = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
SETTINGS = ("--model", "als", "--rank", "4", "--l2-entities", "0.1", "--l2-relations", "0.1")


def torchrun(size, *arguments):
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", size, "-m", "relatent")
    return subprocess.Popen(
        [str(word) for word in (*launch, *arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **QUIET},
        start_new_session=True,
    )


def ended(process):
    """Exit code, standard output, and our own lines of standard error."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    begins = ("error:", "warning:", "stopp", "interrupted", "Error:", "resuming")
    ours = [line for line in err.splitlines() if line.startswith(begins)]
    return process.returncode, out, ours


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "facts.tsv"
    path.write_text(text(world()).replace("é", "ü"))  # names that differ by an accent alone get a warning
    return path


def test_a_fit_of_several_processes_is_written_and_told_once(data, tmp_path, capsys):
    common = ("fit", data, *SETTINGS, "--max-iter", "10", "--tol", "1e-9", "--dtype", "float64", "--json")
    code, out, err = ended(torchrun(2, *common, "-o", tmp_path / "two.relatent", "--distributed"))
    assert code == 0
    assert len(err) == 1, "one warning that it has not converged"
    assert "stopped at max_iter=10" in err[0]
    told = json.loads(out)
    _, alone, _ = run_alone(capsys, *common, "-o", tmp_path / "one.relatent")
    wanted = json.loads(alone)
    assert told["objective"] == pytest.approx(wanted["objective"], rel=1e-7)
    assert told["data"] == wanted["data"]
    one, two = (relatent.load(tmp_path / f"{name}.relatent") for name in ("one", "two"))
    assert list(one.entities) == list(two.entities)
    assert one.about.data == two.about.data
    assert abs(one.A - two.A).max() < 1e-6


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("nowhere.tsv",), 1, "error: 'nowhere.tsv' is neither a file nor a data set of the catalog"),
        (("facts.tsv", "--model", "irm"), 2, "error: --distributed is for --model als, logit, rescal"),
    ],
)
def test_bad_input_is_told_once(data, tmp_path, monkeypatch, arguments, code, line):
    monkeypatch.chdir(data.parent)
    _, out, err = ended(torchrun(2, "fit", *arguments, "-o", tmp_path / "m.relatent", "--distributed"))
    assert not out
    assert len(err) == 1
    assert err[0].startswith(line)
    assert not (tmp_path / "m.relatent").exists()


def test_without_torchrun_the_flag_says_what_is_missing(data, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    code, _, err = run_alone(capsys, "fit", data, "-o", tmp_path / "m.relatent", "--distributed")
    assert code == 1
    assert "started by torchrun, but RANK is not set" in err


def workers_of(process):
    """Ids of the processes that torchrun has started."""
    return [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def endless(data, tmp_path, size=2):
    """A fit that is going on, with a checkpoint."""
    arguments = ("fit", data, *SETTINGS, "--max-iter", "1000000", "--tol", "0", "-o", tmp_path / "m.relatent")
    state = tmp_path / "state"
    process = torchrun(size, *arguments, "--checkpoint", state, "--checkpoint-steps", "1", "--distributed")
    for _ in range(int(PATIENCE / 0.2)):
        if state.exists() or process.poll() is not None:
            break
        time.sleep(0.2)
    return process, state


def test_a_killed_worker_is_told_once_and_the_checkpoint_is_whole(data, tmp_path):
    process, state = endless(data, tmp_path)
    os.kill(workers_of(process)[-1], signal.SIGKILL)
    code, out, err = ended(process)
    assert code != 0
    assert not out
    [line] = err
    assert line.startswith("error: worker ")
    lost, terminated = "start the fit again with any number of workers", "start again, with any number of workers"
    assert lost in line or terminated in line  # the other worker notices first, or torchrun terminates it first
    assert state.exists()
    with Checkpoint(state)._readable() as file:
        assert _verified(file)[0]["steps"]


def test_ctrl_c_ends_all_after_the_step_and_the_model_so_far_is_kept(data, tmp_path):
    process, state = endless(data, tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: torchrun and its workers
    code, out, err = ended(process)
    assert code != 0
    assert not out
    assert sum(line.startswith("stopping after this step") for line in err) == 1, err
    assert sum("the model so far is in" in line for line in err) == 1, err
    assert relatent.load(tmp_path / "m.relatent").rank == 4
    assert state.exists()
