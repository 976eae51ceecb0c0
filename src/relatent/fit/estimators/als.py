"""RescalALS: RESCAL by alternating least squares."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from ...arrays import Matrix, Slices, Vector
from ...backend.blas_threads import one_blas_thread
from ...backend.device import gpu
from ...backend.numpy_backend import NUMPY_BACKEND, NumpyBackend
from ...backend.protocol import Backend
from ...cells.cell_sum import ModelSize
from ...cells.gpu_memory import least_squares
from ...cells.sparse.layout import layout_bytes
from ...data.facts import Facts
from ...data.shard import Shard
from ...errors import InputError, PoorFitWarning
from ...model.factors import Factors
from ...model.links import SmoothLink
from ...model.objective_description import ObjectiveTerm
from ...random_state import RandomState
from .. import automatic_settings as automatic
from .. import init as start
from ..automatic_settings import ChosenSettings, DataSummary, resolve_rank
from ..loop import run
from ..memory_estimate import gpu_fit_memory
from ..solvers.als import Als
from .base import FitArguments
from .rescal_base import RescalBase, blank, least_squares_watch

MIN_EXPLAINED = 0.5  # share of Σ x² that the factors explain, penalty included
MIN_JUDGED_FACTS = 1000  # of fewer facts the share says little
MAX_DOUBLE_START = 1 << 20  # numbers of A: rough eigenvectors, whose rounding sweeps magnify, are swept in float64


@dataclass(eq=False, repr=False)
class RescalALS(RescalBase):
    """RESCAL by alternating least squares: fast, with cost linear in the number of facts.

    Minimises Σ w (x − a_iᵀ R_k a_j)² over observed cells + λ_A ‖A‖² + λ_R Σ ‖R_k‖². Entity attributes, if
    the facts have them, are factorized along with the relations (D ≈ A V).

    Parameters
    ----------
    rank : number of latent components; None is 50, or the number of entities if that is less
    l2_entities, l2_relations : λ_A, λ_R; None: in proportion to the facts per entity, or as the other one
    l2_attributes : λ_V
    max_iter, tol : maximum number of sweeps; stop when the relative change of the objective, or of the part of it that
        the factors explain, is at most tol per sweep
    init : "eigen", "random", or Factors to start from
    dtype : "float32" or "float64", the type of A; sums are in float64
    patience : sweeps without a lower validation loss before the fit stops
    device : "cpu", or "cuda" (needs `pip install 'relatent[gpu]'`, float32 only); the factors are NumPy arrays
    patterns : what the facts show of a pair, beside the factors: "auto", whatever held-out facts say helps (both ends,
        other relations between them, paths, what those alike have); "mirror", other relations of the pair, also the
        other way round; "paths", these and paths of two steps; "none"; or a list of rules as `rules` finds them, or of
        their texts, of which the weights are learned. Only of calibrated fits that keep their facts, of at most 3·10⁹
        cells
    random_state : int, NumPy Generator or None; seeds the start

    >>> import relatent
    >>> facts = relatent.Facts.from_arrays([0, 1, 2], [0, 0, 0], [1, 2, 0])
    >>> model = relatent.RescalALS(rank=3, l2_entities=0.01, l2_relations=0.01).fit(facts).factors_
    >>> model.score(0, 0, [1, 2]) > 0.5
    array([ True, False])
    """

    rank: int | None = None
    l2_entities: float | None = None
    l2_relations: float | None = None
    max_iter: int = 500
    tol: float = 1e-4
    init: str | Factors = "eigen"
    dtype: str = "float32"
    random_state: RandomState = 0
    _: KW_ONLY
    l2_attributes: float = 10.0
    patience: int = 10
    device: str = "cpu"
    patterns: str | Sequence[object] = "auto"

    def _choose(self, data: DataSummary) -> ChosenSettings:
        return automatic.for_least_squares(self.get_params(deep=False), data)

    def _fit(self, arguments: FitArguments) -> None:
        shard, validation, progress, _ = arguments
        facts = shard.facts
        rank, dtype = self._size(facts)
        kept = self._checkpoint(arguments)
        began = time.perf_counter()
        backend = self._backend(dtype)
        with one_blas_thread(), backend.memory_guard():
            begin = [self._start(shard) if kept is None or not kept.exists() else (blank(facts, rank).A, None)]
            solver = Als(
                shard,
                rank,
                l2_entities=self.l2_entities,  # type: ignore[arg-type]  # None is replaced before the fit
                l2_relations=self.l2_relations,  # type: ignore[arg-type]
                l2_attributes=self.l2_attributes,
                backend=backend,
            )
            state, trace = run(
                solver,
                solver.start(*begin.pop()),  # popped, so that the start is freed during the run
                max_iter=self.max_iter,
                tol=self.tol,
                watch=least_squares_watch(shard, validation, self.seed_, self.patience, backend),
                progress=progress,
                checkpoint=kept,
                anytime=True,
                zero_objective=solver.zero_objective,
                spent=time.perf_counter() - began,
                backend=backend,
                workers=shard.workers,
            )
        A, R = backend.to_numpy(state.A), backend.to_numpy(state.R)
        self.attribute_factors_ = state.V if facts.attributes is not None else None
        self._warn_if_vanished(A, R)
        self._warn_if_poor(1 - trace[-1].objective / max(solver.zero_objective, 1e-300), DataSummary.of(shard))
        loss = ObjectiveTerm("squared")
        penalty = ObjectiveTerm("l2", {"entities": self.l2_entities, "relations": self.l2_relations})
        b = np.zeros(facts.n_relations)
        self._finish(shard, A, R, b, SmoothLink(), trace, loss=loss, penalty=penalty)

    def _warn_if_poor(self, explained: float, data: DataSummary) -> None:
        """Warn if the factors explain little of sparse data: then other entities rank above the right ones."""
        if explained < MIN_EXPLAINED and data.is_sparse and data.facts >= MIN_JUDGED_FACTS:
            message = (
                f"the factors explain {max(explained, 0):.0%} of the facts: least squares suits dense data, and "
                "RescalLogit (--model logit) ranks sparse data far better"
            )
            warnings.warn(message, PoorFitWarning, stacklevel=4)

    def _backend(self, dtype: np.dtype[Any]) -> Backend:
        """The backend of the fit's arrays."""
        if self.device == "cpu":
            return NumpyBackend(dtype)
        if dtype != np.float32:
            raise InputError(f"on a GPU dtype must be 'float32', got {self.dtype!r}")
        return gpu(self.device)

    def _memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        begin = start.eigenvectors_memory(facts, rank) if self.init == "eigen" else 0
        attributes = 0 if facts.attributes is None else 4 * 8 * facts.attributes.size  # known, filled, fitted, D Vᵀ
        if self.device != "cpu":
            return max(begin, gpu_fit_memory(facts, rank, facts.n_relations * rank * rank) + attributes)
        return max(begin, layout_bytes(facts, rank, dtype) + attributes)

    def _device_memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        return 0 if self.device == "cpu" else least_squares(facts, ModelSize.of(facts, rank, dtype))

    def _start(self, facts: Shard) -> tuple[Matrix, Slices | None]:
        if isinstance(self.init, Factors):
            given = start.checked_factors(self.init, facts, self.rank)
            return given.A, given.R
        rank = resolve_rank(self.rank, facts.n_entities)
        if self.init == "eigen":
            return start.eigenvectors(facts, rank, self.seed_), None
        if self.init == "random":
            return start.uniform(facts, rank, self.seed_), None
        raise InputError(f"init must be 'eigen', 'random' or Factors, got {self.init!r}")


ALS_SWEEPS = 5  # as a start for another loss: enough to find the directions


def least_squares_start(
    facts: Facts | Shard, rank: int, random_state: int, *, sweeps: int, means: Vector | None = None
) -> tuple[Matrix, Slices]:
    """Factors after a few sweeps of least squares from the eigenvectors, of x − mean_k if `means` are given."""
    plain = Shard.of(facts).map_facts(Facts.without_attributes)
    wide = rank if means is None else min(rank + 1, facts.n_entities)  # one direction goes with the mean
    in_double = start.MAX_ARPACK_ENTITIES < facts.n_entities <= MAX_DOUBLE_START // wide
    backend = NumpyBackend("float64") if in_double else NUMPY_BACKEND
    # A weak penalty: on small data a stronger one shrinks A to zero, a saddle point that no gradient leaves.
    solver = Als(plain, wide, l2_entities=0.01, l2_relations=0.01, l2_attributes=0.0, backend=backend)
    state = solver.start(start.eigenvectors(plain, wide, random_state))
    for _ in range(sweeps):
        state = solver.step(state)
    A, R = (state.A, state.R) if means is None else start.centred(state.A, state.R, means, rank)
    return start.perturbed(A, random_state), R
