"""What every estimator promises: checked settings, factors, a trace; and how it keeps its word."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from ... import __version__
from ...arrays import Matrix, Slices, Vector
from ...backend.memory import Needs
from ...data.facts import Facts
from ...data.heldout import HeldOut
from ...data.shard import Shard
from ...distributed.workers import ALONE, Workers
from ...errors import InputError, VanishedWarning
from ...model.factors import Factors
from ...model.links import Link
from ...model.objective_term import ObjectiveTerm
from ..checkpoint import Checkpoint, digest
from ..loop import Trace

E = TypeVar("E", bound="Estimator")

VANISHED = 1e-4  # products of factors below it: every answer is the same
COUNTS = ("max_iter", "patience")  # settings that are whole numbers of at least 1, where an estimator has them


class Estimator(BaseEstimator):  # type: ignore[misc]
    """What all estimators share: checks, the result, the trace.

    Parameters in the constructor and nothing else; everything learned ends in `_` and only `fit` writes it.
    """

    factors_: Factors
    trace_: Trace
    n_iter_: int
    random_state: int

    def needs(self, facts: Facts) -> Needs:
        """What a fit to these facts takes, about: memory beyond the facts, and the model file."""
        return Needs()

    def _finish(
        self: E,
        facts: Facts | Shard,
        A: Matrix,
        R: Slices,
        b: Vector,
        link: Link,
        trace: Trace,
        learned: dict[str, Any] | None = None,
        *,
        loss: ObjectiveTerm,
        penalty: ObjectiveTerm | None = None,
        method: str | None = None,
    ) -> E:
        """Keep the result; `learned` is what else the model file should tell, as JSON values.

        A fit stopped by Ctrl-C keeps what it has, and then ends as Ctrl-C does: loops around it stop as well.
        """
        shard = Shard.of(facts)
        A, R, b = (shard.workers.broadcast(np.ascontiguousarray(part)) for part in (A, R, b))
        self.trace_ = trace
        self.n_iter_ = len(trace)
        about = {
            "model": type(self).__name__,
            "settings": {name: _plain(value) for name, value in self.get_params(deep=False).items()},
            "data": {"facts": shard.n_facts, "unobserved": shard.n_unobserved, "fingerprint": shard.fingerprint},
            "fit": {
                "steps": len(trace),
                "converged": trace.converged,
                "verdict": trace.verdict,
                "objective": trace[-1].objective,
                "seconds": trace[-1].seconds,
                "objectives": trace.objective.tolist(),
                **({} if method is None else {"method": method}),
            },
        }
        if learned:
            about["learned"] = learned
        arrays = (A, R.astype(A.dtype), b.astype(A.dtype))
        self.factors_ = Factors(*arrays, shard.entities, shard.relations, link, about, loss=loss, penalty=penalty)
        if trace.stopped:
            raise KeyboardInterrupt(trace.verdict)
        return self

    def _warn_if_vanished(self, A: Matrix, R: Slices) -> None:
        if float(np.abs(A).max()) ** 2 * float(np.abs(R).max()) < VANISHED:
            told = f"the factors have shrunk to nothing: {VanishedWarning.REMEDY}"
            warnings.warn(told, VanishedWarning, stacklevel=3)

    def _check_shared(self, facts: Facts, workers: Workers = ALONE) -> None:
        with workers.raise_together():
            self._check_settings(facts)
        if not workers.any(len(facts) > 0):
            raise InputError("there are no facts to learn from")
        if workers.size > 1:
            workers.check_same(str(self._settings()), "the settings of the fit")

    def _settings(self) -> dict[str, Any]:
        return {name: _plain(value) for name, value in sorted(self.get_params(deep=False).items())}

    def _check_settings(self, facts: Facts) -> None:
        if not isinstance(facts, Facts):
            raise InputError(f"fit takes Facts, got {type(facts).__name__}; see relatent.read and Facts.from_arrays")
        for name, value in self.get_params(deep=False).items():
            if name in COUNTS:
                check_count(name, value)
            if name.startswith(("l1_", "l2_")) or name == "tol":
                check_penalty(name, value)
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
            raise InputError(f"random_state must be a whole number of at least 0, got {seed!r}")

    def _checkpoint(
        self, given: str | Path | Checkpoint | None, facts: Facts | Shard, validation: Facts | HeldOut | None
    ) -> Checkpoint | None:
        """The checkpoint of this fit; one that belongs to another, or cannot be written, is refused."""
        shard = Shard.of(facts)
        shard.workers.check_same(str(given is None), "whether there is a checkpoint")
        if given is None:
            return None
        parts = [__version__, type(self).__name__, self._settings(), shard.fingerprint]
        init = getattr(self, "init", None)
        if isinstance(init, Factors):
            parts.append(digest(init.A, init.R, init.bias))
        if validation is not None:
            parts.append(validation_id(validation))
        chosen = Checkpoint(Path(given)) if isinstance(given, (str, Path)) else given
        checkpoint = dataclasses.replace(chosen, fit_id=" ".join(map(str, parts)), workers=shard.workers)
        checkpoint.check()
        return checkpoint


def validation_id(validation: Facts | HeldOut) -> str:
    """A text that differs where validation cells do."""
    if isinstance(validation, Facts):
        return validation.fingerprint
    if isinstance(validation, HeldOut):
        return digest(validation.cells, validation.truth, validation.weights)
    return type(validation).__name__  # it will be refused


def held_out(validation: Facts | HeldOut, facts: Facts | Shard, random_state: int) -> HeldOut:
    """The cells that a fit is watched by; several workers are given the same ones."""
    shard = Shard.of(facts)
    if shard.workers.size > 1:
        shard.workers.check_same(validation_id(validation), "validation facts")
    return HeldOut.of(validation, shard, random_state)


def check_count(name: str, value: object) -> None:
    """A setting that counts something."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")


def check_penalty(name: str, value: object) -> None:
    """A setting that weighs something."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value < 0:  # type: ignore[operator, call-overload]
        raise InputError(f"{name} must be a finite number of at least 0, got {value!r}")


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
