import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn.base

import relatent
from interruptions import InterruptedFitError, assert_same_fit, interrupt_at
from relatent.data.heldout import HeldOut
from relatent.errors import InputError, ModelFileError
from relatent.fit import contract
from relatent.fit.checkpoint import Checkpoint
from worlds import random_facts

TESTS = Path(__file__).resolve().parents[1]
FACTS = random_facts(20, 3, 150, unobserved=60, weighted=True)
MODELS = {
    "als": relatent.RescalALS(4, 0.1, 0.1, max_iter=200, tol=1e-3, init="random"),
    "logit": relatent.RescalLogit(4, 0.1, 0.1, max_iter=200, tol=1e-5),
}
each_model = pytest.mark.parametrize("name", MODELS)

KILLED = """
import functools, os, signal, sys
from relatent.fit import contract
from test_checkpoint import FACTS, MODELS

contract.Checkpoint = functools.partial(contract.Checkpoint, every=0.0)

def progress(done, *_):
    if done == 8:
        os.kill(os.getpid(), signal.SIGKILL)

MODELS[sys.argv[1]].fit(FACTS, checkpoint=sys.argv[2], progress=progress)
"""


@pytest.fixture
def often(monkeypatch):
    """A checkpoint after every step."""
    monkeypatch.setattr(contract, "Checkpoint", functools.partial(Checkpoint, every=0.0))


def clone(name, **settings):
    return sklearn.base.clone(MODELS[name]).set_params(**settings)


@each_model
def test_a_killed_fit_goes_on_to_the_very_same_factors(name, tmp_path):
    path = tmp_path / "fit.checkpoint"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "fit")])}
    killed = subprocess.run([sys.executable, "-c", KILLED, name, str(path)], env=environment, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert [each.name for each in tmp_path.iterdir()] == ["fit.checkpoint"]
    steps = []
    resumed = clone(name).fit(FACTS, checkpoint=path, progress=lambda done, *_: steps.append(done))
    assert steps[0] == 8, "the seven finished steps are not done again"
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
            InputError, match=r"fit\.checkpoint is the checkpoint of another fit: version, settings or data differ"
        ):
            fit()


def test_warm_starts_from_other_factors_are_other_fits(often, tmp_path):
    path = tmp_path / "fit.checkpoint"
    first, second = (clone("als", l2_entities=l2).fit(FACTS).factors_ for l2 in (0.1, 0.3))
    clone("als", init=first).fit(FACTS, checkpoint=path)
    with pytest.raises(InputError, match="checkpoint of another fit"):
        clone("als", init=second).fit(FACTS, checkpoint=path)


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_checkpoint_is_refused(often, tmp_path, keep):
    path = tmp_path / "fit.checkpoint"
    clone("als").fit(FACTS, checkpoint=path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelFileError, match=r"fit\.checkpoint is no checkpoint, or is damaged; give another name"):
        clone("als").fit(FACTS, checkpoint=path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "model.relatent"
    clone("als").fit(FACTS).factors_.save(path)
    with pytest.raises(ModelFileError, match="is no checkpoint, or is damaged"):
        clone("als").fit(FACTS, checkpoint=path)


def test_a_missing_folder_is_noticed_before_the_work_is_done(tmp_path):
    steps = []
    with pytest.raises(InputError, match=r"the checkpoint's folder .*nowhere does not exist"):
        clone("als").fit(FACTS, checkpoint=tmp_path / "nowhere" / "fit.checkpoint", progress=steps.append)
    assert not steps


def test_a_failed_write_leaves_the_last_whole_checkpoint(often, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(InterruptedFitError):
        clone("als").fit(FACTS, checkpoint=path, progress=interrupt_at(5))
    before = path.read_bytes()

    def full(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        clone("als").fit(FACTS, checkpoint=path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["fit.checkpoint"]


def test_checkpoints_are_not_written_more_often_than_asked(tmp_path):
    clone("als").fit(FACTS, checkpoint=tmp_path / "fit.checkpoint")  # every 10 seconds
    assert not list(tmp_path.iterdir())
