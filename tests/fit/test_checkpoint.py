import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import sklearn.base

import relatent
from interruptions import InterruptedFitError, assert_same_fit, interrupt_at
from relatent.data.heldout import HeldOut
from relatent.errors import CheckpointWarning, InputError, ModelFileError
from relatent.fit import checkpoint
from relatent.fit import init as start
from relatent.fit.checkpoint import Checkpoint
from relatent.fit.early_stopping import BestState
from relatent.fit.estimators import base
from small_graphs import random_facts

TESTS = Path(__file__).resolve().parents[1]
FACTS = random_facts(20, 3, 150, unobserved=60, weighted=True)
MODELS = {
    "als": relatent.RescalALS(4, 0.1, 0.1, max_iter=200, tol=1e-3, init="random", calibrate=False),
    "logit": relatent.RescalLogit(4, 0.1, 0.1, max_iter=200, tol=1e-5, calibrate=False),
    "sampled": relatent.RescalLogit(4, 0.1, 0.1, method="sampled", max_iter=20, calibrate=False),
}
each_model = pytest.mark.parametrize("name", MODELS)

KILLED = """
import functools, os, signal, sys
from relatent.fit.estimators import base
from test_checkpoint import FACTS, MODELS

base.Checkpoint = functools.partial(base.Checkpoint, every=0.0)

def progress(done, *_):
    if done == 8:
        os.kill(os.getpid(), signal.SIGKILL)

MODELS[sys.argv[1]].fit(FACTS, checkpoint=sys.argv[2], progress=progress)
"""


@pytest.fixture
def often(monkeypatch):
    """A checkpoint after every step."""
    monkeypatch.setattr(base, "Checkpoint", functools.partial(Checkpoint, every=0.0))


def clone(name, **settings):
    return sklearn.base.clone(MODELS[name]).set_params(**settings)


@each_model
def test_a_killed_fit_goes_on_to_the_very_same_factors(name, tmp_path):
    path = tmp_path / "fit.checkpoint"
    paths = [str(TESTS), str(TESTS / "fit"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    killed = subprocess.run([sys.executable, "-c", KILLED, name, str(path)], env=environment, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert {each.name for each in tmp_path.iterdir()} == {"fit.checkpoint", ".fit.checkpoint.lock"}
    steps = []
    resumed = clone(name).fit(FACTS, checkpoint=path, progress=lambda done, *_: steps.append(done))
    assert steps[0] == 8, "the seven finished steps are not done again"
    assert [each.name for each in tmp_path.iterdir()] == ["fit.checkpoint"]
    assert_same_fit(resumed, clone(name).fit(FACTS))


@each_model
@pytest.mark.parametrize("step", [1, 2, 14])
def test_an_interrupted_fit_goes_on_to_the_very_same_factors(often, tmp_path, name, step):
    path = tmp_path / "fit.checkpoint"
    whole = clone(name).fit(FACTS)
    with pytest.raises(InterruptedFitError):
        clone(name).fit(FACTS, checkpoint=path, progress=interrupt_at(step))
    assert path.exists() == (step > 1)
    assert_same_fit(clone(name).fit(FACTS, checkpoint=path), whole)


@each_model
def test_the_best_state_on_held_out_cells_survives_too(often, tmp_path, name):
    path = tmp_path / "fit.checkpoint"
    cells = FACTS.triples[::6]
    train, heldout = FACTS.hold_out(cells, masked=True), HeldOut(cells, FACTS.contains(cells))
    model = functools.partial(clone, name, l2_entities=0.001, l2_relations=0.001, tol=0, max_iter=40, patience=3)
    whole = model().fit(train, validation=heldout)
    stop = len(whole.trace_) - 2
    with pytest.raises(InterruptedFitError):
        model().fit(train, validation=heldout, checkpoint=path, progress=interrupt_at(stop))
    assert_same_fit(model().fit(train, validation=heldout, checkpoint=path), whole)


@each_model
def test_a_finished_fit_is_not_done_again(often, tmp_path, name):
    path = tmp_path / "fit.checkpoint"
    whole = clone(name).fit(FACTS, checkpoint=path)
    steps = []
    assert_same_fit(clone(name).fit(FACTS, checkpoint=path, progress=lambda *news: steps.append(news)), whole)
    assert not steps


@each_model
@pytest.mark.parametrize("step", [2, 14, 1000])
def test_a_resumed_fit_has_the_probabilities_of_the_whole_fit(often, tmp_path, name, step):
    """What is learned after the fit is no part of the checkpoint: it may go on with another share of missing facts."""
    path, cells = tmp_path / "fit.checkpoint", FACTS.triples[::7]
    whole = clone(name, calibrate=True, missing=0.3).fit(FACTS)
    with contextlib.suppress(InterruptedFitError):
        clone(name, calibrate=True).fit(FACTS, checkpoint=path, progress=interrupt_at(step))
    resumed = clone(name, calibrate=True, missing=0.3).fit(FACTS, checkpoint=path)
    assert_same_fit(resumed, whole)
    np.testing.assert_array_equal(resumed.factors_.probability(*cells.T), whole.factors_.probability(*cells.T))


@each_model
def test_the_checkpoint_of_another_fit_is_refused(often, tmp_path, name):
    path = tmp_path / "fit.checkpoint"
    clone(name).fit(FACTS, checkpoint=path)
    cells = FACTS.triples[:5]
    others = {
        "settings": lambda: clone(name, l2_entities=0.2).fit(FACTS, checkpoint=path),
        "data": lambda: clone(name).fit(random_facts(20, 3, 150, seed=1), checkpoint=path),
        "validation": lambda: clone(name).fit(FACTS, HeldOut(cells, np.ones(5, bool)), checkpoint=path),
        "start": lambda: clone(name, init=clone(name, rank=4).fit(FACTS).factors_).fit(FACTS, checkpoint=path),
        "model": lambda: clone("als" if name == "logit" else "logit").fit(FACTS, checkpoint=path),
    }
    for fit in others.values():
        with pytest.raises(
            InputError, match=r"fit\.checkpoint is the checkpoint of another fit \(version, settings or data differ\)"
        ):
            fit()


def test_warm_starts_from_other_factors_are_other_fits(often, tmp_path):
    path = tmp_path / "fit.checkpoint"
    first, second = (clone("als", l2_entities=l2).fit(FACTS).factors_ for l2 in (0.1, 0.3))
    clone("als", init=first).fit(FACTS, checkpoint=path)
    with pytest.raises(InputError, match="checkpoint of another fit"):
        clone("als", init=second).fit(FACTS, checkpoint=path)


def test_a_checkpoint_belongs_to_one_fit_at_a_time(often, tmp_path):
    path, refused = tmp_path / "fit.checkpoint", []

    def fit_another(done, *_):
        if done == 3:
            for given in (path, Checkpoint(path)):
                with pytest.raises(InputError, match=r"fit\.checkpoint is the checkpoint of a fit that is running"):
                    clone("als", random_state=1).fit(FACTS, checkpoint=given)
                refused.append(given)

    fitted = clone("als").fit(FACTS, checkpoint=path, progress=fit_another)
    assert len(refused) == 2
    assert_same_fit(fitted, clone("als").fit(FACTS))
    with pytest.raises(InputError, match="checkpoint of another fit"):  # no longer of one that is running
        clone("als", random_state=1).fit(FACTS, checkpoint=path)


def test_a_checkpoint_that_becomes_that_of_another_fit_is_not_loaded(often, tmp_path, monkeypatch):
    """On a file system without locks, or where a file is replaced by hand."""
    path, other = tmp_path / "fit.checkpoint", tmp_path / "other"
    with pytest.raises(InterruptedFitError):
        clone("als", random_state=1).fit(FACTS, checkpoint=other, progress=interrupt_at(3))
    check = Checkpoint.check

    def check_then_replace(self):
        check(self)
        shutil.copy(other, path)

    monkeypatch.setattr(Checkpoint, "check", check_then_replace)
    with pytest.raises(InputError, match="checkpoint of another fit"):
        clone("als").fit(FACTS, checkpoint=path)


def test_a_file_system_without_locks_gives_a_warning(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("relatent.file_lock._lock", refuse)
    with pytest.warns(CheckpointWarning, match="cannot be locked .Operation not supported.; use it for one fit at a"):
        fitted = clone("als").fit(FACTS, checkpoint=tmp_path / "fit.checkpoint")
    assert_same_fit(fitted, clone("als").fit(FACTS))


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_checkpoint_is_refused(often, tmp_path, keep):
    path = tmp_path / "fit.checkpoint"
    clone("als").fit(FACTS, checkpoint=path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelFileError, match=r"fit\.checkpoint is not a checkpoint, or is damaged; give another name"):
        clone("als").fit(FACTS, checkpoint=path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "model.relatent"
    clone("als").fit(FACTS).factors_.save(path)
    with pytest.raises(ModelFileError, match="is not a checkpoint, or is damaged"):
        clone("als").fit(FACTS, checkpoint=path)


def test_a_missing_folder_is_noticed_before_the_work_is_done(tmp_path):
    steps = []
    with pytest.raises(InputError, match=r"the checkpoint's folder .*nowhere does not exist"):
        clone("als").fit(FACTS, checkpoint=tmp_path / "nowhere" / "fit.checkpoint", progress=steps.append)
    assert not steps


def full_disk(_):
    raise OSError("No space left on device")


def test_a_failed_write_is_told_once_and_the_fit_goes_on(often, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    whole = clone("als").fit(FACTS)
    with pytest.raises(InterruptedFitError):
        clone("als").fit(FACTS, checkpoint=path, progress=interrupt_at(5))
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.warns(CheckpointWarning) as said:
        resumed = clone("als").fit(FACTS, checkpoint=path)
    [warning] = said
    assert "fit.checkpoint: the checkpoint could not be written (No space left on device)" in str(warning.message)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["fit.checkpoint"]
    assert_same_fit(resumed, whole)


def test_a_folder_that_goes_away_does_not_end_the_fit(often, tmp_path):
    folder = tmp_path / "states"
    folder.mkdir()
    with pytest.warns(CheckpointWarning, match="could not be written"):
        fitted = clone("als").fit(
            FACTS, checkpoint=folder / "fit.checkpoint", progress=lambda *_: shutil.rmtree(folder, ignore_errors=True)
        )
    assert_same_fit(fitted, clone("als").fit(FACTS))


@pytest.mark.parametrize(("free", "enough"), [(1500, False), (1 << 40, True)])
def test_a_disk_without_room_for_two_is_refused_before_the_first_step(tmp_path, monkeypatch, free, enough):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (1 << 40, 0, free))
    steps = []
    refused = pytest.raises(
        InputError, match=r"the checkpoint fit\.checkpoint needs about .* are free: free some space"
    )
    with contextlib.nullcontext() if enough else refused:
        clone("als").fit(FACTS, checkpoint=tmp_path / "fit.checkpoint", progress=lambda *news: steps.append(news))
    assert bool(steps) == enough


def test_what_a_killed_write_left_behind_is_removed(tmp_path):
    path = tmp_path / "fit[1].checkpoint"
    left, other = tmp_path / f".{path.name}.0123456789abcdef.tmp", tmp_path / ".fit1.checkpoint.0123.tmp"
    left.touch()
    other.touch()
    clone("als").fit(FACTS, checkpoint=path)
    assert list(tmp_path.iterdir()) == [other]


# --- how often


class State(NamedTuple):
    x: np.ndarray
    objective: float


class Clock:
    """Time that passes only where it is told to."""

    def __init__(self, monkeypatch, seconds_to_write=0.0):
        self.now, self.written, self.seconds_to_write = 0.0, [], seconds_to_write
        monkeypatch.setattr(checkpoint.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(checkpoint, "write_tensors", self.write)

    def write(self, *_):
        self.written.append(self.now)
        self.now += self.seconds_to_write

    def run(self, kept, steps, seconds_a_step):
        for step in range(1, steps + 1):
            self.now += seconds_a_step
            kept.maybe_save(State(np.zeros(3), 1.0), [()] * step, BestState())


def kept_at(monkeypatch, tmp_path, count, seconds_a_step, seconds_to_write=0.0, **settings):
    clock = Clock(monkeypatch, seconds_to_write)
    clock.run(Checkpoint(tmp_path / "fit.checkpoint", **settings), count, seconds_a_step)
    return clock.written


def test_the_state_is_kept_every_ten_seconds(monkeypatch, tmp_path):
    assert kept_at(monkeypatch, tmp_path, 100, 0.25) == [10.0, 20.0]


def test_a_long_step_is_kept_as_soon_as_it_ends(monkeypatch, tmp_path):
    assert kept_at(monkeypatch, tmp_path, 3, 60.0) == [60.0, 120.0, 180.0]


def test_slow_writing_takes_a_twentieth_of_the_time_at_most(monkeypatch, tmp_path):
    written = kept_at(monkeypatch, tmp_path, 1000, 1.0, seconds_to_write=5.0)
    assert written[0] == 10.0
    assert np.diff(written).tolist() == [105.0] * (len(written) - 1)
    assert len(written) > 5


def test_the_state_is_kept_after_so_many_steps_if_asked(monkeypatch, tmp_path):
    assert kept_at(monkeypatch, tmp_path, 10, 0.25, steps=4) == [1.0, 2.0]


def test_less_than_one_step_is_refused():
    with pytest.raises(InputError, match="steps of a checkpoint must be at least 1, got 0"):
        Checkpoint("fit.checkpoint", steps=0)


def test_checkpoints_are_not_written_more_often_than_asked(tmp_path):
    clone("als").fit(FACTS, checkpoint=tmp_path / "fit.checkpoint")  # every 10 seconds
    assert not list(tmp_path.iterdir())


def test_a_fit_takes_a_checkpoint_with_its_own_schedule(tmp_path):
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(InterruptedFitError):
        clone("als").fit(FACTS, checkpoint=Checkpoint(path, steps=3), progress=interrupt_at(5))
    steps = []
    resumed = clone("als").fit(FACTS, checkpoint=path, progress=lambda done, *_: steps.append(done))
    assert steps[0] == 4
    assert_same_fit(resumed, clone("als").fit(FACTS))


# --- Ctrl-C


@each_model
def test_after_ctrl_c_the_state_is_kept_and_the_fit_goes_on_to_the_very_same_factors(tmp_path, name):
    path = tmp_path / "fit.checkpoint"
    stopped = clone(name)
    with pytest.raises(KeyboardInterrupt, match="interrupted after 6 steps"):
        stopped.fit(FACTS, checkpoint=path, progress=press_at(6))
    assert stopped.n_iter_ == 6
    steps = []
    resumed = clone(name).fit(FACTS, checkpoint=path, progress=lambda done, *_: steps.append(done))
    assert steps[0] == 7
    assert_same_fit(resumed, clone(name).fit(FACTS))


def press_at(step):
    """A progress report in which Ctrl-C is pressed at this step."""

    def progress(done, *_):
        if done == step:
            signal.raise_signal(signal.SIGINT)

    return progress


# --- memory and time


def peak(work):
    """Bytes that Python and NumPy held more at the most than at the beginning."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_keeping_and_reading_a_state_copies_nothing(tmp_path):
    state = State(np.ones(1 << 20), 1.0)  # 8 MB
    kept = Checkpoint(tmp_path / "fit.checkpoint")
    assert peak(lambda: kept.save(state, [(1.0, 0.1, None)], BestState())) < 1 << 20
    assert peak(lambda: Checkpoint(tmp_path / "fit.checkpoint").load(State)) < 9 << 20


def test_what_the_best_state_shares_with_the_last_is_written_once(tmp_path):
    shared = np.ones(1 << 17)  # 1 MB
    last, best = LbfgsLike(np.full(3, 2.0), shared, 1.0), LbfgsLike(np.full(3, 1.0), shared, 2.0)
    kept = Checkpoint(tmp_path / "fit.checkpoint")
    kept.save(last, [(1.0, 0.1, 0.5)], BestState(best, 0.5, 1, 0))
    assert kept.path.stat().st_size < 3 << 19
    found = kept.load(LbfgsLike)
    for read, wanted in ((found.state, last), (found.best, best)):
        np.testing.assert_array_equal(read.x, wanted.x)
        np.testing.assert_array_equal(read.S, shared)
        assert read.objective == wanted.objective
    assert found.looks == [0.5, 1, 0]


class LbfgsLike(NamedTuple):
    x: np.ndarray
    S: np.ndarray
    objective: float


@each_model
def test_a_resumed_fit_does_not_look_for_a_start_again(often, tmp_path, monkeypatch, name):
    path = tmp_path / "fit.checkpoint"
    model = clone(name, init="eigen")
    whole = clone(name, init="eigen").fit(FACTS)
    with pytest.raises(InterruptedFitError):
        model.fit(FACTS, checkpoint=path, progress=interrupt_at(3))
    monkeypatch.setattr(start, "eigenvectors", None)
    assert_same_fit(model.fit(FACTS, checkpoint=path), whole)
