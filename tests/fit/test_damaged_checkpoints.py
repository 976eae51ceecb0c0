import json
import os

import numpy as np
import pytest
from damaged_checkpoints import MODELS, damage, interrupted, resume

from relatent.errors import InputError, ModelFileError
from relatent.tensor_file import NO_DIGEST, digest, open_tensors, write_tensors


@pytest.mark.parametrize("name", MODELS)
def test_damaged_checkpoints_are_refused_or_give_the_same_model(name, tmp_path):
    counts = damage(name, tmp_path, flips=25, truncations=10)
    assert counts["refused"] >= 34  # a flip in the padding of the header changes nothing


def forge(path, arrays=None, **changes):
    """Change what a checkpoint holds, with a digest that fits."""
    with open_tensors(path) as file:
        kept = {name: file.read(name) for name in file.tensors} | (arrays or {})
        note = json.loads(file.metadata["checkpoint"])
    kept = {name: array for name, array in kept.items() if array is not None}
    note["tensors"] = {name: [array.dtype.name, array.shape] for name, array in kept.items()}
    text = json.dumps(note | changes | {"sha256": NO_DIGEST})
    write_tensors(kept, path, {"checkpoint": text.replace(NO_DIGEST, digest(text, kept.values()), 1)})


CRAFTED = {
    "nan": ("logit", {"state.x": np.full(34, np.nan, np.float32)}),
    "longer": ("logit", {"state.x": np.zeros(35, np.float32)}),
    "other type": ("logit", {"state.x": np.zeros(34)}),
    "axes": ("als", {"state.A": np.zeros((24, 1, 1), np.float32)}),
    "number for array": ("als", {"state.A": np.asarray(1.0)}),
    "array for number": ("logit", {"state.kept": np.arange(3)}),
    "negative count": ("logit", {"state.kept": np.asarray(-3)}),
    "negative cell": ("sampled", {"state.listed": np.array([-5, 3])}),
    "cell beyond": ("sampled", {"state.found": np.array([12 * 12 * 2])}),
    "negative cluster": ("irm", {"state.z": np.full((1, 12), -1, np.int32)}),
    "cluster beyond": ("irm", {"state.kept_z": np.full((1, 12), 1 << 30, np.int32)}),
    "no prior": ("irm", {"state.hyper": np.zeros((1, 4))}),
    "negative prior of a sample": ("irm", {"state.kept_hyper": np.full((1, 4), -1.0)}),
    "missing": ("als", {"state.A": None}),
}


@pytest.mark.parametrize(("name", "arrays"), CRAFTED.values(), ids=CRAFTED)
def test_arrays_that_are_no_state_of_the_fit_are_refused(name, arrays, tmp_path):
    path = tmp_path / "fit.checkpoint"
    interrupted(name, path)
    forge(path, arrays)
    with pytest.raises(ModelFileError, match=r"fit\.checkpoint is not a checkpoint, or is damaged; give another name"):
        resume(name, path)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": []},
        {"steps": [[1.0]]},
        {"steps": [["a", "b", "c"]]},
        {"steps": 5},
        {"best": [1.0]},
        {"best": [1.0, 1, 3]},
        {"best": ["x", 0, 0]},
        {"fit_id": 7},
        {"tensors": {}},
        {"tensors": None},
    ],
)
def test_a_header_that_is_not_that_of_a_fit_is_refused(changes, tmp_path):
    path = tmp_path / "fit.checkpoint"
    interrupted("als", path)
    forge(path, **changes)
    with pytest.raises(InputError, match=r"fit\.checkpoint is"):
        resume("als", path)


def test_a_pipe_or_a_loop_as_checkpoint_is_refused_at_once(tmp_path):
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    with pytest.raises(ModelFileError, match="pipe is not a checkpoint"):
        resume("als", pipe)
    with pytest.raises(InputError, match="loop is a symbolic link that leads back to itself; give another name"):
        resume("als", loop)
