"""`RescalBase`: the base class of RescalALS, Rescal and NonnegativeRescal, which have a rank and a start."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from ...backend.memory import MemoryEstimate, check_memory
from ...backend.numpy_backend import NUMPY_BACKEND, NumpyBackend
from ...backend.protocol import Backend
from ...cells.cell_sum import Parameters
from ...data.facts import Facts
from ...data.heldout import HeldOut
from ...data.shard import Shard
from ...model.factors import Factors
from ...model.links import SmoothLink
from ...model.structure import FULL, parameter_shape
from .. import calibration, patterns
from .. import init as start
from ..automatic_settings import ChosenSettings, DataSummary, resolve_rank
from ..early_stopping import Watch
from ..memory_estimate import model_file_size
from ..solvers.als import AlsState
from ..solvers.multiplicative import NonnegativeState
from .base import Estimator, held_out


class RescalBase(Estimator):
    """A model with a given rank; memory is checked before the fit."""

    rank: int | None
    init: str | Factors
    dtype: str
    settings_: ChosenSettings

    def estimate_memory(self, facts: Facts) -> MemoryEstimate:
        """Approximate memory of a fit beyond the facts, and size of the model file, in bytes."""
        chosen = self._with_chosen_settings(facts)
        rank, dtype = chosen._size(facts)
        stored = {"keep_facts": chosen.keep_facts, "calibrate": chosen.calibrate}
        file_size = model_file_size(facts, rank, chosen._stored_relation_numbers(facts, rank), dtype, **stored)
        memory, device = (memory(facts, rank, dtype) for memory in (chosen._memory, chosen._device_memory))
        return MemoryEstimate(memory, file_size, device)

    def choose_settings(self, facts: Facts | Shard) -> ChosenSettings | None:
        """What a fit of these facts chooses for the settings that were not given; None if the model chooses nothing."""
        settings = self._choose(DataSummary.of(facts))
        if settings is not None and isinstance(self.init, Factors):
            settings.values.pop("rank", None)
        return settings

    def _with_chosen_settings(self, facts: Facts | Shard) -> Self:
        settings = self.choose_settings(facts)
        return self if settings is None else self._with_settings(settings)

    def _with_settings(self, settings: ChosenSettings) -> Self:
        chosen = copy(self)
        for name, value in settings.values.items():
            setattr(chosen, name, value)
        chosen.settings_ = settings
        return chosen

    def _patterns_without(self, facts: Facts, heldout: Sequence[Facts]) -> patterns.PatternsWithout | None:
        choice = self._pattern_choice(facts)
        enough = len(facts) >= calibration.MIN_FACTS
        if not (choice and enough and self.keep_facts and patterns.is_affordable(facts)):
            return None
        return patterns.PatternsWithout(patterns.learn(facts, self.seed_, choice, heldout), facts, self.seed_)

    def _pattern_choice(self, facts: Facts) -> patterns.PatternChoice:
        return patterns.PatternChoice.of(getattr(self, "patterns", "none"), facts)

    def _check_settings(self, facts: Facts) -> None:
        super()._check_settings(facts)
        self._pattern_choice(facts)

    def _choose(self, data: DataSummary) -> ChosenSettings | None:
        """Values for the settings that were not given; None if the model chooses nothing."""
        return None

    def _size(self, facts: Facts) -> tuple[int, np.dtype[Any]]:
        """The rank and the floating-point type; InputError if they are not valid."""
        return self._checked_rank(facts.n_entities), start.float_type(self.dtype)

    def _checked_rank(self, n_entities: int) -> int:
        """The rank; InputError if it is not valid."""
        return self.init.rank if isinstance(self.init, Factors) else resolve_rank(self.rank, n_entities)

    def _memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        raise NotImplementedError

    def _device_memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        """Bytes on the GPU; 0 if the fit uses none."""
        return 0

    def _backend(self, dtype: np.dtype[Any]) -> Backend:
        """The backend that holds the arrays of the fit."""
        return NumpyBackend(dtype)

    def _stored_relation_numbers(self, facts: Facts, rank: int) -> int:
        """The numbers of all R_k in a model file."""
        return facts.n_relations * rank * rank

    def _check_memory(self, shard: Shard) -> None:
        with shard.workers.raise_together():
            rank, dtype = self._size(shard.facts)
            what = f"{type(self).__name__} of rank {rank} on {shard.n_entities:,} entities"
            remedy = "lower the rank" + (", or use dtype='float32'" if dtype == np.float64 else "")
            estimate = self.estimate_memory(shard.facts)
            check_memory(estimate.memory * shard.workers.local_size, what, remedy)
            if estimate.device:
                free = self._backend(dtype).free_memory()
                check_memory(estimate.device, what, f"{remedy}, or use device='cpu'", free=free, kind="GPU memory")


def blank(facts: Facts, rank: int, structure: Any = FULL) -> Parameters:
    """A placeholder start for a fit that resumes from a checkpoint."""
    n, k = facts.n_entities, facts.n_relations
    return Parameters(np.zeros((n, rank)), np.zeros(parameter_shape(structure, k, rank)), np.zeros(k))


def least_squares_watch(
    shard: Shard,
    validation: Facts | HeldOut | None,
    seed: int,
    patience: int,
    backend: Backend = NUMPY_BACKEND,
) -> Watch | None:
    """Early stopping by the loss of the validation cells after every sweep."""
    if validation is None:
        return None
    heldout = held_out(validation, shard, seed)

    def loss(state: AlsState | NonnegativeState) -> float:
        b = np.zeros(shard.n_relations)
        A, R = (backend.to_numpy(part) for part in (state.A, state.R))
        return heldout.log_loss(Factors(A, R, b, shard.entities, shard.relations, SmoothLink()))

    return Watch(loss, every=1, patience=patience)
