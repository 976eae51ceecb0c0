"""Checkpoints: a fit that is killed resumes where it stopped, and ends with the same factors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ..atomic_write import replacing
from ..backend.memory import check_disk
from ..distributed.workers import ALONE, Workers
from ..errors import CheckpointWarning, InputError, ModelFileError, RelatentError

MIN_SECONDS_PER_WRITE_SECOND = 20  # writing takes at most 1/20 of the time


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
    writes the file for all; the others need no access to it.
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
        self._remove_temporary_files()
        if not self.path.exists():
            return
        with self._open() as file:
            if _note(file).get("fit_id") != self.fit_id:
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
        except (OSError, SafetensorError) as error:
            if not self._failing:
                message = (
                    f"{self.path}: the checkpoint could not be written ({error}); the fit continues and tries again"
                )
                warnings.warn(message, CheckpointWarning, stacklevel=6)
            self._failing = True
        else:
            self._failing, self._saved_steps = False, len(steps)
        self._wait(time.monotonic() - started)

    def load(self, kind: type[Any]) -> SavedFit:
        """The saved state, of the given type."""
        note: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        with self.workers.raise_together():
            if self.workers.rank == 0:
                with self._open() as file:
                    note, arrays = _note(file), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        note, arrays = _broadcast_contents(note, arrays, self.workers)

        def values(of: str) -> dict[str, Any]:
            found = {name: arrays.pop(f"{of}.{name}") for name in kind._fields if f"{of}.{name}" in arrays}
            return {name: array if array.ndim else array.item() for name, array in found.items()}

        state = kind(**values("state"))
        best = state._replace(**values("best")) if note["best"][1] else None
        self._saved_steps = len(note["steps"])
        return SavedFit(state, best, note["best"], note["steps"])

    def _write(self, state: Any, steps: list[Any], best: Any) -> None:
        tensors = {f"state.{name}": _array(value) for name, value in state._asdict().items()}
        if best.looks:  # arrays that both states share are written once
            pairs = zip(best.state._asdict().items(), state, strict=True)
            tensors |= {f"best.{name}": _array(value) for (name, value), own in pairs if value is not own}
        note = {
            "fit_id": self.fit_id,
            "steps": [list(step) for step in steps],
            "best": [best.loss, best.looks, best.looks_since],
        }
        with replacing(self.path) as part:
            save_file(tensors, part, {"checkpoint": json.dumps(note)})

    def _remove_temporary_files(self) -> None:
        """Remove the temporary files of a killed run; only one fit at a time may use a checkpoint."""
        target = self.path.resolve()
        for part in target.parent.glob(f".{escape(target.name)}.*.tmp"):
            with suppress(OSError):
                part.unlink()

    def _wait(self, took: float) -> None:
        self._due = time.monotonic() + (max(self.every, MIN_SECONDS_PER_WRITE_SECOND * took) if self.every else 0.0)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            with safe_open(self.path, framework="numpy") as file:
                yield file
        except RelatentError:
            raise
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{self.path} is not a checkpoint, or is damaged; give another name") from error


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


def _note(file: Any) -> dict[str, Any]:
    note: dict[str, Any] = json.loads((file.metadata() or {})["checkpoint"])
    return note


def _array(value: Any) -> NDArray[Any]:
    """An array as it is, a number as an array without axes."""
    if hasattr(value, "cpu"):  # on a GPU
        value = value.cpu().numpy()
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else np.asarray(value)
