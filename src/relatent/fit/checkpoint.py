"""Checkpoints: a fit that is killed goes on where it was, to the same answer."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..errors import InputError, ModelFileError
from ..writing import beside


@dataclass
class Checkpoint:
    """Where to keep the state of a fit, how often, and which fit it belongs to.

    The file is written beside and renamed, so that there is always a whole one. `fit_id` ties it to the settings
    and the data: a checkpoint of another fit is refused.
    """

    path: Path
    every: float = 10.0  # seconds
    fit_id: str = ""
    _last: float = field(default_factory=time.monotonic)

    def maybe_save(self, state: Any, steps: list[Any], best: Any) -> None:
        """Write the state if the last one is old enough."""
        if time.monotonic() - self._last >= self.every:
            self._save(state, steps, best)
            self._last = time.monotonic()

    def _save(self, state: Any, steps: list[Any], best: Any) -> None:
        tensors = {f"state.{name}": np.ascontiguousarray(value) for name, value in state._asdict().items()}
        if best.looks:
            tensors |= {f"best.{name}": np.ascontiguousarray(value) for name, value in best.state._asdict().items()}
        note = {
            "fit_id": self.fit_id,
            "steps": [list(step) for step in steps],
            "best": [best.loss, best.looks, best.looks_since],
        }
        with beside(self.path) as part:
            part.write_bytes(save(tensors, {"checkpoint": json.dumps(note)}))

    def resume(self, state: Any, steps: list[Any], best: Any) -> tuple[Any, list[Any], Any]:
        """The kept state where there is one, otherwise what was given."""
        if not self.path.parent.is_dir():  # said now, not when the first state is lost
            raise InputError(f"the checkpoint's folder {self.path.parent} does not exist; make it first")
        if not self.path.exists():
            return state, steps, best
        from .loop import Step

        tensors, note = self._read()
        if note.get("fit_id") != self.fit_id:
            raise InputError(
                f"{self.path} is the checkpoint of another fit: version, settings or data differ; delete it"
            )
        kept = _restore(state, "state", tensors)
        best.loss, best.looks, best.looks_since = note["best"]
        best.state = _restore(state, "best", tensors) if best.looks else kept
        return kept, [Step(*step) for step in note["steps"]], best

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            with safe_open(self.path, framework="numpy") as file:
                note = json.loads((file.metadata() or {})["checkpoint"])
                return {name: file.get_tensor(name) for name in file.keys()}, note  # noqa: SIM118
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise ModelFileError(f"{self.path} is no checkpoint, or is damaged; give another name") from error


def digest(*arrays: NDArray[Any] | None) -> str:
    """A short text that differs where the arrays do."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:16]


def _restore(like: Any, prefix: str, tensors: dict[str, Any]) -> Any:
    """A state with the kept arrays; numbers come back as numbers."""
    values = {}
    for name, old in like._asdict().items():
        array = tensors[f"{prefix}.{name}"]
        values[name] = array if isinstance(old, np.ndarray) else type(old)(array.reshape(-1)[0].item())
    return like._replace(**values)
