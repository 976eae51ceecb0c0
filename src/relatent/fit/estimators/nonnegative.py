"""NonnegativeRescal: RESCAL with non-negative factors."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ...arrays import Matrix, Slices
from ...backend.blas_threads import one_blas_thread
from ...data.facts import Facts
from ...errors import InputError
from ...model.factors import Factors
from ...model.links import SmoothLink
from ...model.objective_description import ObjectiveTerm
from ...random_state import RandomState
from .. import init as start
from ..automatic_settings import resolve_rank
from ..loop import run
from ..memory_estimate import nonnegative_memory
from ..solvers.multiplicative import Nonnegative
from .base import FitArguments
from .rescal_base import RescalBase, least_squares_watch


@dataclass(eq=False, repr=False)
class NonnegativeRescal(RescalBase):
    """RESCAL with non-negative factors: entities are sums of parts, relations link parts.

    Minimises Σ w (x − a_iᵀ R_k a_j)² over observed cells + λ_A ‖A‖² + λ_R Σ ‖R_k‖² + μ_A Σ A + μ_R Σ R, A and R ≥ 0.
    Parts are easier to interpret than signed components, but fit less well because terms cannot cancel.

    Parameters
    ----------
    rank : number of parts; None is 50, or the number of entities if that is less
    l2_entities, l2_relations : λ_A, λ_R
    l1_entities, l1_relations : μ_A, μ_R, which drive small entries to zero
    max_iter, tol : maximum number of sweeps; stop when the relative change of the objective is at most tol per sweep,
        measured over ten sweeps
    init : "random", or Factors without negative entries to start from
    dtype : "float32" or "float64", the type of A; sums are in float64
    patience : sweeps without a lower validation loss before the fit stops
    random_state : int, NumPy Generator or None; seeds the start

    >>> import relatent
    >>> facts = relatent.Facts.from_arrays([0, 1, 2], [0, 0, 0], [1, 2, 0])
    >>> model = relatent.NonnegativeRescal(rank=3, l2_entities=0.01, l2_relations=0.01).fit(facts).factors_
    >>> model.score(0, 0, [1, 2]) > 0.5
    array([ True, False])
    >>> bool(model.A.min() >= 0)
    True
    """

    _unsupported = ("workers",)

    rank: int | None = None
    l2_entities: float = 1.0
    l2_relations: float = 1.0
    l1_entities: float = 0.0
    l1_relations: float = 0.0
    max_iter: int = 1000
    tol: float = 1e-4
    init: str | Factors = "random"
    dtype: str = "float32"
    random_state: RandomState = 0
    _: KW_ONLY
    patience: int = 10

    def _fit(self, arguments: FitArguments) -> None:
        shard, validation, progress, _ = arguments
        facts = shard.facts
        rank, dtype = self._size(facts)
        kept = self._checkpoint(arguments)
        with one_blas_thread():
            begin = [self._start(facts)]
            solver = Nonnegative(
                facts,
                rank,
                l2_entities=self.l2_entities,
                l2_relations=self.l2_relations,
                l1_entities=self.l1_entities,
                l1_relations=self.l1_relations,
                dtype=dtype,
            )
            state, trace = run(
                solver,
                solver.start(*begin.pop()),  # popped, so that the start is freed during the run
                max_iter=self.max_iter,
                tol=self.tol,
                watch=least_squares_watch(shard, validation, self.seed_, self.patience),
                progress=progress,
                checkpoint=kept,
                anytime=True,
            )
        self._warn_if_vanished(state.A, state.R)
        names = ("l1_entities", "l1_relations", "l2_entities", "l2_relations")
        loss = ObjectiveTerm("squared")
        penalty = ObjectiveTerm("nonnegative", {name: getattr(self, name) for name in names})
        b = np.zeros(facts.n_relations)
        self._finish(shard, state.A, state.R, b, SmoothLink(), trace, loss=loss, penalty=penalty)

    def _memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        return nonnegative_memory(facts, rank, dtype)

    def _start(self, facts: Facts) -> tuple[Matrix, Slices]:
        if isinstance(self.init, Factors):
            given = start.checked_factors(self.init, facts, self.rank)
            for name, array in (("A", given.A), ("R", given.R)):
                if array.min() < 0:
                    raise InputError(
                        f"init: factors of a non-negative model must not be negative, got {array.min():g} in {name}"
                    )
            return given.A, given.R
        if self.init != "random":
            raise InputError(f"init must be 'random' or Factors, got {self.init!r}")
        rank = resolve_rank(self.rank, facts.n_entities)
        return start.positive(facts, rank, self.seed_)
