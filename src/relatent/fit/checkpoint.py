"""Checkpoints: a fit that is killed resumes where it stopped, and ends with the same factors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..atomic_write import check_writable, remove_leftovers, replacing
from ..backend.memory import check_disk
from ..distributed.workers import ALONE, Workers
from ..errors import CheckpointWarning, InputError, ModelFileError
from ..file_lock import locked
from ..tensor_file import NO_DIGEST, TensorFile, n_not_finite, open_tensors, write_tensors
from ..tensor_file import digest as sha256

MIN_SECONDS_PER_WRITE_SECOND = 20  # writing takes at most 1/20 of the time


class ValueKind(NamedTuple):
    """Type and shape of one value of a state; numbers have no axes."""

    dtype: str
    shape: tuple[int, ...]  # −1: any length


class SavedFit(NamedTuple):
    """The contents of a checkpoint."""

    state: Any
    best: Any  # the state with the lowest held-out loss; None before the first measurement
    looks: list[Any]  # its loss, the number of measurements, and of those since
    steps: list[list[Any]]


@dataclass
class Checkpoint:
    """Where to save the state of a fit, and how often.

    The state is saved after the first step that ends `every` seconds after the last save, less often if writing is
    slow, and after every `steps` steps if given. A temporary file is written and renamed, so that the file is always
    complete; arrays are not copied. A failed write gives one warning, and the fit continues. The first worker reads and
    writes the file for all; the others need no access to it. One fit at a time may use a checkpoint: it holds a lock,
    which ends with its process, and another fit is refused meanwhile.

    >>> import relatent
    >>> facts = relatent.load_dataset("kinships")
    >>> fitted = relatent.RescalALS(rank=5).fit(facts, checkpoint=relatent.Checkpoint("state", every=60))
    >>> relatent.Checkpoint("state").exists()  # it is removed after a complete fit
    False
    """

    path: Path
    every: float = 10.0  # seconds; 0 is after every step
    steps: int | None = None
    fit_id: str = ""  # identifies settings and data; another fit's checkpoint is rejected
    workers: Workers = ALONE
    _due: float = field(default=0.0, init=False)
    _saved_steps: int = field(default=0, init=False)
    _failing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        if self.steps is not None and self.steps < 1:
            raise InputError(f"steps of a checkpoint must be at least 1, got {self.steps!r}")
        self._wait(0.0)

    def exists(self) -> bool:
        """Whether there is a state to resume from."""
        return bool(self.workers.agree(self.path.exists())[0])

    def check(self) -> None:
        """Raise InputError if the folder does not exist or the file belongs to another fit."""
        with self.workers.raise_together():
            if self.workers.rank == 0:
                self._check()

    def _check(self) -> None:
        if not self.path.parent.is_dir():
            raise InputError(f"the checkpoint's folder {self.path.parent} does not exist; create it first")
        remove_leftovers(self.path, min_age_seconds=0.0)  # only one fit at a time may use a checkpoint
        if not self.path.exists():
            check_writable(self.path)
            return
        with self._readable() as file:
            note = _note(file)[1]
        self._check_own(note)

    def _check_own(self, note: Mapping[str, Any]) -> None:
        if note["fit_id"] != self.fit_id:
            raise InputError(
                f"{self.path} is the checkpoint of another fit (version, settings or data differ); delete it"
            )

    def check_disk_space(self, state: Any, *, twice: bool) -> None:
        """Raise InputError unless two checkpoints fit on the disk: the last one stays until the next is complete."""
        size = sum(getattr(value, "nbytes", 8) for value in state) * (2 if twice else 1)
        with self.workers.raise_together():
            if self.workers.rank == 0:
                existing = self.path.stat().st_size if self.path.exists() else 0
                check_disk(self.path.parent, 2 * size - existing, f"the checkpoint {self.path.name}")

    def maybe_save(self, state: Any, steps: list[Any], best: Any, whole: Callable[[Any], Any] | None = None) -> None:
        """Save the state if it is due; `whole` completes a state of which each worker has a part."""
        enough = self.steps is not None and len(steps) - self._saved_steps >= self.steps
        if self.workers.agree(enough or time.monotonic() >= self._due)[0]:
            self.save(state, steps, best, whole)

    def save(self, state: Any, steps: list[Any], best: Any, whole: Callable[[Any], Any] | None = None) -> None:
        """Save the state now, unless it is saved already."""
        if self.workers.agree(self._saved_steps == len(steps))[0]:
            return
        started = time.monotonic()
        if whole is not None:
            part, state = state, whole(state)
            if best.looks:
                best = dataclasses.replace(best, state=state if best.state is part else whole(best.state))
        if self.workers.rank > 0:
            return
        try:
            self._write(state, steps, best)
        except OSError as error:
            if not self._failing:
                message = (
                    f"{self.path}: the checkpoint could not be written ({error}); the fit continues and tries again"
                )
                warnings.warn(message, CheckpointWarning, stacklevel=6)
            self._failing = True
        else:
            self._failing, self._saved_steps = False, len(steps)
        self._wait(time.monotonic() - started)

    def load(self, kind: type[Any], wanted: Mapping[str, ValueKind] | None = None) -> SavedFit:
        """The saved state of the given type; `wanted`: what its values must be, apart from lengths."""
        note: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        with self.workers.raise_together():
            if self.workers.rank == 0:
                with self._readable() as file:
                    note, arrays = _verified(file)
                self._check_own(note)
        note, arrays = _broadcast_contents(note, arrays, self.workers)
        with self.refusing():
            state = kind(**_values(arrays, "state", kind))
            best = state._replace(**_values(arrays, "best", kind)) if note["best"][1] else None
        for part in (state, best):
            self.check_state(part, wanted, lengths=False)
        self._saved_steps = len(note["steps"])
        return SavedFit(state, best, note["best"], note["steps"])

    def check_state(self, state: Any, wanted: Mapping[str, ValueKind] | None, *, lengths: bool = True) -> None:
        """Refuse a state whose types or shapes differ from what is wanted."""
        if state is None or wanted is None:
            return
        for name, found in kinds_of(state).items():
            dtype, shape = wanted[name]
            same = len(found.shape) == len(shape) and found.dtype == dtype
            if not same or (lengths and any(n not in (m, -1) for m, n in zip(found.shape, shape, strict=True))):
                raise self._refusal()

    def _write(self, state: Any, steps: list[Any], best: Any) -> None:
        tensors = {f"state.{name}": _array(value) for name, value in state._asdict().items()}
        if best.looks:  # arrays that both states share are written once
            pairs = zip(best.state._asdict().items(), state, strict=True)
            tensors |= {f"best.{name}": _array(value) for (name, value), own in pairs if value is not own}
        note = {
            "sha256": NO_DIGEST,
            "tensors": {name: [array.dtype.name, array.shape] for name, array in tensors.items()},
            "fit_id": self.fit_id,
            "steps": [list(step) for step in steps],
            "best": [best.loss, best.looks, best.looks_since],
        }
        text = json.dumps(note)
        with replacing(self.path) as part:
            write_tensors(tensors, part, {"checkpoint": text.replace(NO_DIGEST, sha256(text, tensors.values()), 1)})

    def _wait(self, took: float) -> None:
        self._due = time.monotonic() + (max(self.every, MIN_SECONDS_PER_WRITE_SECOND * took) if self.every else 0.0)

    @contextmanager
    def _readable(self) -> Iterator[TensorFile]:
        with self.refusing(), open_tensors(self.path) as file:
            yield file

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Turn every fault of the file's contents into one ModelFileError."""
        try:
            yield
        except (OSError, KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
            raise self._refusal() from error

    def _refusal(self) -> ModelFileError:
        return ModelFileError(f"{self.path} is not a checkpoint, or is damaged; give another name")


@contextmanager
def held(checkpoint: str | Path | Checkpoint | None, workers: Workers) -> Iterator[None]:
    """Keep other fits from a checkpoint while one runs: the first worker locks it for all, until the fit or it ends."""
    with ExitStack() as stack:
        with workers.raise_together():
            if workers.rank == 0 and checkpoint is not None:
                path = checkpoint.path if isinstance(checkpoint, Checkpoint) else Path(checkpoint)
                _lock(path, stack)
        yield


def _lock(path: Path, stack: ExitStack) -> None:
    if not path.parent.is_dir():
        return  # `check` says so
    try:
        stack.enter_context(locked(path))
    except BlockingIOError:
        message = f"{path} is the checkpoint of a fit that is running; wait for it, or give another name"
        raise InputError(message) from None
    except OSError as problem:
        message = f"{path}: the checkpoint cannot be locked ({problem.strerror}); use it for one fit at a time"
        warnings.warn(message, CheckpointWarning, stacklevel=5)


def kinds_of(state: Any, growing: Sequence[str] = ()) -> dict[str, ValueKind]:
    """Type and shape of each value of a state; the fields in `growing` may have any number of rows."""
    kinds = {}
    for name, value in state._asdict().items():
        array = value if hasattr(value, "shape") else np.asarray(value)
        dtype = str(array.dtype).removeprefix("torch.") if len(array.shape) else np.asarray(value).dtype.kind
        kinds[name] = ValueKind(dtype, (-1, *array.shape[1:]) if name in growing else tuple(array.shape))
    return kinds


def digest(*arrays: NDArray[Any] | None) -> str:
    """A short text that differs between different arrays."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:16]


def _broadcast_contents(
    note: dict[str, Any], arrays: dict[str, NDArray[Any]], workers: Workers
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The contents that the first worker has read, on all workers."""
    if workers.size == 1:
        return note, arrays
    kinds = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    note, kinds = json.loads(workers.agree_on_text(json.dumps([note, kinds])))
    received = {name: arrays.get(name, np.empty(shape, dtype)) for name, (dtype, shape) in sorted(kinds.items())}
    for array in received.values():
        workers.broadcast(array.reshape(-1))
    return note, received


def _note(file: TensorFile) -> tuple[str, dict[str, Any]]:
    """The text and the contents of the header; KeyError, TypeError or ValueError if they are not those of a fit."""
    text = file.metadata["checkpoint"]
    note: dict[str, Any] = json.loads(text)
    lowest, looks, since = note["best"]
    steps_fit = all(
        isinstance(objective, float) and math.isfinite(objective) and isinstance(seconds, float) and seconds >= 0
        and (validation is None or isinstance(validation, float))
        for objective, seconds, validation in note["steps"]
    )  # fmt: skip
    tensors = {name: [place.dtype, list(place.shape)] for name, place in file.tensors.items()}
    if not (isinstance(note["fit_id"], str) and steps_fit and note["steps"] and note["tensors"] == tensors):
        raise ValueError("header")
    if not (isinstance(lowest, float) and type(looks) is int and type(since) is int and looks >= since >= 0):
        raise ValueError("header")
    return text, note


def _verified(file: TensorFile) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The contents of a file whose digest is right and whose numbers are finite."""
    text, note = _note(file)
    arrays = {name: file.read(name) for name in note["tensors"]}
    if sha256(text.replace(note["sha256"], NO_DIGEST, 1), arrays.values()) != note["sha256"]:
        raise ValueError("digest")
    if any(n_not_finite(array) for array in arrays.values()):
        raise ValueError("not finite")
    return note, arrays


def _values(arrays: dict[str, NDArray[Any]], of: str, kind: type[Any]) -> dict[str, Any]:
    """The values of a state, or of the best one; arrays without axes become numbers."""
    found = {name: arrays.pop(f"{of}.{name}") for name in kind._fields if f"{of}.{name}" in arrays}
    return {name: array if array.ndim else array.item() for name, array in found.items()}


def _array(value: Any) -> NDArray[Any]:
    """An array as it is, a number as an array without axes."""
    if hasattr(value, "cpu"):  # on a GPU
        value = value.cpu().numpy()
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else np.asarray(value)
