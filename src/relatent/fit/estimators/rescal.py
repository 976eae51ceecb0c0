"""`Rescal`: RESCAL with a loss of your choice."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from ...arrays import Matrix, Slices, Vector
from ...backend.blas_threads import one_blas_thread
from ...backend.compact_matrices import transposed
from ...backend.device import gpu
from ...backend.numpy_backend import NumpyBackend
from ...backend.protocol import Backend
from ...cells.cell_sum import CellSum, ModelSize, Parameters
from ...cells.softmax_batches import BatchedSoftmaxSum
from ...cells.sparse.layout import layout_bytes
from ...data.facts import Facts
from ...data.heldout import HeldOut, log_loss
from ...data.inverse_facts import with_inverses
from ...data.names import Names
from ...data.shard import Shard
from ...errors import InputError
from ...model.factors import Factors
from ...model.objective_description import ObjectiveTerm
from ...model.relation_matrices import RelationMatrices
from ...model.structure import (
    FULL,
    NAMED,
    STORED,
    Structure,
    is_compact,
    nearest_parameters,
    parameter_shape,
    with_symmetric,
)
from ...model.structure import resolve as resolve_structure
from ...parameter_checks import check_penalty
from ...progress import silent
from ...random_state import RandomState
from .. import automatic_settings as automatic
from .. import calibration, choose, optimisers, penalties, relation_losses, vanishing
from .. import init as start
from ..attribute_prior import AttributePrior
from ..automatic_settings import ChosenSettings, DataSummary, resolve_rank
from ..early_stopping import Watch
from ..loop import run
from ..loss_protocol import Loss, ResolvedLoss
from ..memory_estimate import gpu_fit_memory
from ..multistart import is_tiny, lowest_start
from ..optimisers import SAMPLED_ADAM, Adam, Lbfgs, Optimiser
from ..penalised_likelihood import ExpandedSum, Layout, PenalisedLikelihood
from ..penalties import Penalty
from .als import ALS_SWEEPS, least_squares_start
from .base import FitArguments, Trials, held_out
from .rescal_base import RescalBase, blank

VALIDATION_INTERVAL = 5  # steps


@dataclass(eq=False, repr=False)
class Rescal(RescalBase):
    """RESCAL with a loss of your choice, over all observed cells, with fact weights and masks.

    Minimises Σ w loss(x, θ) + λ_A ‖A‖² + λ_R Σ ‖R_k‖², θ = a_iᵀ R_k a_j + b_k, by L-BFGS or Adam; the logistic loss
    also on sampled zeros.

    Parameters
    ----------
    rank : number of latent components; here and below, None is chosen from the data (`settings_` says what and why)
    loss : "logistic" (the Bernoulli likelihood), "squared", "hinge" (smoothed), "poisson" (counts, `Facts.times`),
        "categorical" (a pair has one relation or none), "softmax" (each answer competes with all entities: the best for
        ranking; no bias, and probabilities only by `calibrate`), or an object like those in `relatent.fit.losses`; a
        dictionary has the losses of single cells by relation, "logistic" for all others
    relation_weights : how much the loss of each relation counts, by name; 1 for all others
    l2_entities, l2_relations, bias, method, max_iter, tol, init, device, dtype, zeros, patience, penalty, optimiser,
        structure, attribute_weight, patterns, random_state : as in `RescalLogit`

    >>> import relatent
    >>> facts = relatent.Facts.from_arrays(["Ann", "Bob"], ["likes", "likes"], ["Bob", "Ann"])
    >>> model = relatent.Rescal(rank=2, loss="hinge", l2_entities=0.001, l2_relations=0.001).fit(facts).factors_
    >>> bool(model.score("Ann", "likes", "Bob") > 0.9)
    True
    """

    # None is replaced before the fit, by `_with_chosen_settings`; hence the types without None.
    rank: int | None = None
    loss: str | Loss | Mapping[str, str | Loss] = "logistic"
    l2_entities: float = None  # type: ignore[assignment]
    l2_relations: float = None  # type: ignore[assignment]
    bias: bool = None  # type: ignore[assignment]
    method: str = "auto"
    max_iter: int = None  # type: ignore[assignment]
    tol: float = 1e-5
    init: str | Factors = None  # type: ignore[assignment]
    device: str = "cpu"
    dtype: str = "float32"
    random_state: RandomState = 0
    _: KW_ONLY
    zeros: str = "all"
    patience: int = 10
    penalty: Penalty | None = None
    optimiser: Optimiser | None = None
    structure: str | Structure = None  # type: ignore[assignment]
    relation_weights: Mapping[str, float] | None = None
    attribute_weight: float = 0.7
    patterns: str | Sequence[object] = "auto"

    def _choose(self, data: DataSummary) -> ChosenSettings:
        return automatic.for_likelihood(self.get_params(deep=False), data, self._resolved_loss())

    def _compared(self, arguments: FitArguments) -> tuple[Self, Trials | None]:
        """The settings under which held-out facts are likeliest, where none were given and more fits are affordable."""
        if not choose.is_open(self.settings_, self.get_params(deep=False)):
            return self, None
        data = DataSummary.of(arguments.shard)
        rivals = choose.rivals(self.settings_, data, self._resolved_loss(), self.device)
        if not rivals:
            return self, None
        facts = arguments.shard.gathered().facts
        heldout = calibration.heldout_facts(facts, self.seed_)
        if not heldout:
            return self, None
        without = self._patterns_without(facts, heldout) if self.calibrate else None

        def fit(settings: ChosenSettings, heldout: Facts) -> calibration.HeldOutFit:
            return self._with_settings(settings)._held_out_fit(heldout, arguments, "comparing settings")

        def judge(fits: list[calibration.HeldOutFit], *, with_patterns: bool) -> tuple[Trials, float]:
            trials = self._weighed(fits, facts, without if with_patterns else None)
            return trials, self._log_likelihood(facts, trials)

        settings, trials = choose.best([self.settings_, *rivals], heldout, fit, judge)
        return self._with_settings(settings), trials

    def _fit(self, arguments: FitArguments) -> None:
        if self._chose_strong_penalty(arguments.shard):
            self._weaken_penalty(arguments.shard)
        self._fit_factors(arguments)

    def _for_heldout_facts(self) -> Self:
        """Half of the rounds of Adam suffice for the places of held-out facts; a start may know them."""
        twin = super()._for_heldout_facts()
        twin.__dict__.pop("settings_", None)  # the penalty is what it was found to be
        if isinstance(self.init, Factors):
            twin.rank, twin.init = self.init.rank, "small"
            twin.max_iter = max(self.max_iter, automatic.SPARSE_ROUNDS)
        if isinstance(self._optimiser(self.method), Adam):
            twin.max_iter = math.ceil(twin.max_iter * automatic.HELDOUT_ROUNDS)
        return twin

    def _fit_factors(self, arguments: FitArguments) -> None:
        given, validation, progress, _ = arguments
        loss, k = self._resolved_loss(given.relations), given.n_relations
        self.method_ = self.method
        rank, dtype = self._size(given.facts)
        undirected = sorted(given.facts.undirected)
        structure = with_symmetric(resolve_structure(self.structure, k, rank), undirected)
        kept = self._checkpoint(arguments)
        shard = with_inverses(given) if loss.reciprocal else given
        if loss.reciprocal:
            undirected += [k + relation for relation in undirected]
        layout = Layout(shard.n_entities, shard.n_relations, rank, structure, tuple(undirected))
        started = time.perf_counter()
        backend = self._backend(dtype)
        with one_blas_thread(), backend.memory_guard():
            resumed = kept is not None and kept.exists()
            # A list that gives its only item away: the arrays of the start are not held during the fit.
            begin = [blank(given.facts, rank, structure) if resumed else self._start(loss, given, structure)]
            if loss.reciprocal:
                begin = [_in_both_directions(*begin.pop())]
            objective = self._objective(loss, shard, layout, backend)
            if not resumed and self.init in ("als", "eigen") and self.method_ == "exact" and is_tiny(layout):
                alone = shard.workers.size == 1  # several workers each try all starts: that is quicker than to talk
                trial = objective if alone else self._objective(loss, shard.gathered(), layout, backend)
                begin = [lowest_start(trial, begin[0], shard, self.seed_)]
            solver = self._optimiser(self.method_).solver(objective, backend, self.max_iter)
            state, trace = run(
                solver,
                solver.start(backend.from_numpy(layout.pack(*begin.pop(), backend.dtype))),
                max_iter=self.max_iter,
                tol=self.tol,
                watch=self._watch(loss, given, validation, layout, backend),
                progress=progress,
                checkpoint=kept,
                anytime=True,
                spent=time.perf_counter() - started,
                backend=backend,
                workers=shard.workers,
            )
        A, R, b = (np.array(part) for part in layout.views(backend.to_numpy(state.x)))
        if loss.reciprocal:
            R, b = (R[:k] + transposed(R[k:])) / 2, b[:k]
        matrices = RelationMatrices.of_parameters(structure, R, k, rank)
        term = relation_losses.describe(self.loss, self.relation_weights)
        penalty = ObjectiveTerm.of(self._penalty(), penalties.PENALTIES)
        self._finish(given, A, matrices, b, loss.link, trace, loss=term, penalty=penalty, method=self.method_)
        self._warn_if_vanished(A, R, flat=vanishing.mean_score(self.factors_, given) < vanishing.VANISHED_MEAN)

    def _chose_strong_penalty(self, shard: Shard) -> bool:
        """Whether a penalty was chosen under which factors may vanish: that of large data is near that limit."""
        chosen = "settings_" in vars(self) and "penalty" in self.settings_.values
        from_small = self.init == "small" and self._resolved_loss(shard.relations).can_be_sampled
        return chosen and from_small and automatic.LARGE_DATA <= shard.n_facts <= automatic.MAX_TRIED_FACTS

    def _weaken_penalty(self, shard: Shard) -> None:
        """Lower the weight of the chosen penalty until the factors of a short fit of few components do not vanish."""

        def short_fit(penalty: Penalty) -> Factors:
            trial = copy(self)
            trial.rank = vanishing.trial_rank(self._size(shard.facts)[0], self.structure)
            trial.max_iter, trial.penalty = vanishing.TRIAL_ROUNDS, penalty
            trial._fit_factors(FitArguments(shard, None, silent, None))
            return trial.factors_

        penalty = vanishing.lasting_penalty(short_fit, self._penalty(), shard)
        if penalty != self.penalty:
            self.penalty, self.settings_ = penalty, self.settings_.with_penalty(penalty)

    def method_for(self, facts: Facts) -> str:
        """How these facts are fitted: "auto" is "exact" where a sample of the cells would cost as much."""
        return self._with_chosen_settings(facts).method

    # --- settings

    def _check_settings(self, facts: Facts) -> None:
        loss = self._resolved_loss(facts.relations)
        super()._check_settings(facts)
        if self.method not in ("auto", "exact", "sampled"):
            raise InputError(f"method must be 'auto', 'exact' or 'sampled', got {self.method!r}")
        if self.zeros not in ("all", "typed"):
            raise InputError(f"zeros must be 'all' or 'typed', got {self.zeros!r}")
        if not isinstance(self.bias, (bool, np.bool_)):
            raise InputError(f"bias must be True or False, got {self.bias!r}")
        check_penalty("attribute_weight", self.attribute_weight)
        self._check_method(loss)
        resolve_structure(self.structure, facts.n_relations, self._size(facts)[0])
        if self.optimiser is not None:
            optimisers.check(self.optimiser)
        self._penalty()

    def _check_method(self, loss: ResolvedLoss) -> None:
        """Refuse combinations of loss, method, zeros and device that do not exist."""
        on_gpu = self.device != "cpu"
        if self.method == "sampled" and not (loss.can_be_sampled or loss.batch_size):
            raise InputError(f"method='sampled' is for logistic and softmax losses, got {loss.name!r}; use 'exact'")
        if self.zeros == "typed" and not loss.can_be_sampled:
            raise InputError(f"zeros='typed' is for the logistic loss, got {loss.name!r}")
        if loss.reciprocal and not is_compact(NAMED.get(str(self.structure), self.structure)):
            raise InputError(
                "reciprocal of Softmax needs structure 'full', 'complex', 'diagonal' or Blocks(b), "
                f"got {self.structure!r}"
            )
        if on_gpu and not loss.runs_on_gpu:
            raise InputError(f"on a GPU the loss must be 'logistic' or 'softmax', got {loss.name!r}; use device='cpu'")

    def _resolved_loss(self, relations: Names | None = None) -> ResolvedLoss:
        return relation_losses.resolve(self.loss, self.relation_weights, relations)

    def _penalty(self) -> Penalty:
        return penalties.resolve(self.penalty, self.l2_entities, self.l2_relations)

    def _optimiser(self, method: str) -> Optimiser:
        return self.optimiser or (SAMPLED_ADAM if method == "sampled" else Lbfgs())

    def _size(self, facts: Facts) -> tuple[int, np.dtype[Any]]:
        if self.device == "cpu":
            return super()._size(facts)
        if self.dtype not in ("float32", "tf32"):
            raise InputError(f"on a GPU dtype must be 'float32' or 'tf32', got {self.dtype!r}")
        return self._checked_rank(facts.n_entities), np.dtype(np.float32)

    def _checked_rank(self, n_entities: int) -> int:
        """The rank; structured R_k express more with more components than entities."""
        if isinstance(self.init, Factors):
            return self.init.rank
        structure = NAMED.get(str(self.structure), self.structure)
        return resolve_rank(self.rank, n_entities, limited=not is_compact(structure) or structure == FULL)

    def _memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        begin = 0
        if self.init in ("als", "eigen"):
            wide = rank + 1  # one direction goes with the mean
            begin = max(start.eigenvectors_memory(facts, wide), layout_bytes(facts, wide, np.float32))
        if self.device == "cpu":
            return max(begin, self._fit_memory(facts, rank, dtype))
        return begin + gpu_fit_memory(facts, rank, self._relation_numbers(facts, rank))

    def _device_memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        return 0 if self.device == "cpu" else self._fit_memory(facts, rank, dtype)

    def _relation_numbers(self, facts: Facts, rank: int) -> int:
        """The numbers of all R_k that are fitted, in both directions if there are two."""
        structure = resolve_structure(self.structure, facts.n_relations, rank)
        directions = 1 + self._resolved_loss(facts.relations).reciprocal
        return math.prod(parameter_shape(structure, facts.n_relations, rank)) * directions

    def _fit_memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        """Bytes at the peak of the fit, after its start, where its arrays are."""
        structure = resolve_structure(self.structure, facts.n_relations, rank)
        loss, relation_numbers = self._resolved_loss(facts.relations), self._relation_numbers(facts, rank)
        k = facts.n_relations * (1 + loss.reciprocal)
        compact = loss.takes_compact and is_compact(structure)
        size = ModelSize(facts.n_entities, k, rank, relation_numbers if compact else k * rank * rank, dtype.itemsize)
        optimiser, numbers = self._optimiser(self.method), facts.n_entities * rank + relation_numbers + k
        # without redraws a sum in batches has one batch of all facts
        sampled = self.method == "sampled" and (loss.can_be_sampled or getattr(optimiser, "redraws", False))
        on_gpu = self.device != "cpu"
        cells = loss.memory(facts, size, sampled=sampled, on_gpu=on_gpu)
        seen = loss.facts_per_step(facts) if sampled else facts
        penalty = penalties.memory(self._penalty(), seen, rank, dtype, structure)
        fit = cells.held + max(cells.call, penalty)
        fit += optimisers.solver_memory(optimiser, numbers, dtype.itemsize)
        fit += 0 if compact or structure == FULL else ExpandedSum.memory(facts, size).held
        return max(cells.building, fit + AttributePrior.memory(facts, rank, dtype.itemsize))

    def _stored_relation_numbers(self, facts: Facts, rank: int) -> int:
        structure = resolve_structure(self.structure, facts.n_relations, rank)
        if not isinstance(structure, tuple(STORED.values())):
            return super()._stored_relation_numbers(facts, rank)
        return math.prod(parameter_shape(structure, facts.n_relations, rank))

    # --- the parts of a fit

    def _backend(self, dtype: np.dtype[Any]) -> Backend:
        """The backend that holds the arrays of the fit."""
        return NumpyBackend(dtype) if self.device == "cpu" else gpu(self.device, half=self.dtype == "float32")

    def _start(self, loss: Loss, shard: Shard, structure: Any) -> Parameters:
        ones, zeros = start.ones_and_zeros(shard)
        b = loss.bias(ones, zeros) if self.bias else np.zeros(shard.n_relations)
        if isinstance(self.init, Factors):
            given = start.checked_factors(self.init, shard, self.rank)
            same = given.relation_matrices.structure == structure
            R = given.relation_matrices.parameters if same else nearest_parameters(structure, given.R)
            return Parameters(given.A, R, given.bias if self.bias else b)
        rank = self._checked_rank(shard.n_entities)
        if self.init in ("random", "small"):
            numbers = start.normal if self.init == "random" else start.small
            return Parameters(*numbers(shard, rank, self.seed_, structure), b)
        if self.init not in ("als", "eigen"):
            raise InputError(f"init must be 'als', 'eigen', 'random', 'small' or Factors, got {self.init!r}")
        if rank > shard.n_entities:
            limit = f"at most {shard.n_entities}, the number of entities"
            raise InputError(f"init={self.init!r} needs a rank of {limit}, got {rank}; use init='small'")
        sweeps = ALS_SWEEPS if self.init == "als" else 0
        means = ones / np.maximum(ones + zeros, 1) if self.bias else None
        A, R = least_squares_start(shard, rank, self.seed_, sweeps=sweeps, means=means)
        A, R = start.balanced(A, R * loss.steepness, self.l2_entities or 1.0, self.l2_relations or 1.0)
        return Parameters(A, R if structure == FULL else nearest_parameters(structure, R), b)

    def _objective(self, loss: ResolvedLoss, shard: Shard, layout: Layout, backend: Backend) -> PenalisedLikelihood:
        """The penalised likelihood, exact or of a sample."""
        penalty, typed, sample = self._penalty(), self.zeros == "typed", None
        if self.method_ == "sampled":
            redraws = getattr(self._optimiser(self.method_), "redraws", False)
            sample = loss.sampled_sum(shard, backend, typed=typed, redraws=redraws, random_state=self.seed_)
            if not redraws:
                sample.draw(0, find=False)
        return PenalisedLikelihood(
            sample or self._exact_sum(loss, shard, backend, layout),
            layout,
            sample.penalty(penalty) if isinstance(sample, BatchedSoftmaxSum) else penalty.bound(shard, backend),
            bias=self.bias,
            backend=backend,
            workers=shard.workers,
            over_facts=penalty.over_facts,
            sample=sample,
            attributes=self._attribute_prior(shard, backend),
        )

    def _attribute_prior(self, shard: Shard, backend: Backend) -> AttributePrior | None:
        if shard.facts.attributes is None or not self.attribute_weight:
            return None
        return AttributePrior(shard.facts, self.attribute_weight, backend)

    def _exact_sum(self, loss: ResolvedLoss, shard: Shard, backend: Backend, layout: Layout) -> CellSum:
        cells = loss.cell_sum(shard, backend, typed=self.zeros == "typed")
        takes = loss.takes_compact or layout.structure == FULL or not is_compact(layout.structure)
        return cells if takes else ExpandedSum(cells, backend)

    def _watch(
        self,
        loss: ResolvedLoss,
        shard: Shard,
        validation: Facts | HeldOut | None,
        layout: Layout,
        backend: Backend,
    ) -> Watch | None:
        """The loss of the validation cells: of their probabilities, or the loss itself if θ has none."""
        if validation is None:
            return None
        heldout = held_out(validation, shard, self.seed_)
        cells = None
        if loss.ranks_only:
            held = Shard.of(heldout.facts(shard.facts))
            cells = self._exact_sum(loss, with_inverses(held) if loss.reciprocal else held, backend, layout)
        term = relation_losses.describe(self.loss, self.relation_weights)

        def validation_loss(state: Any) -> float:
            x: Vector = state.x
            if cells is not None:
                return float(cells(*layout.parameters(x)).value)
            A, P, b = layout.views(backend.to_numpy(x))
            R = RelationMatrices.of_parameters(layout.structure, P, layout.k, layout.r)
            factors = Factors(A, R, b, shard.entities, shard.relations, loss.link, loss=term)
            p = loss.link.probability(factors.score(*heldout.cells.T), heldout.cells[:, 1])
            return log_loss(heldout.truth, p, heldout.weights)

        return Watch(validation_loss, every=VALIDATION_INTERVAL, patience=self.patience)


def _in_both_directions(A: Matrix, P: Slices, b: Vector) -> Parameters:
    """The parameters of K relations and their inverses."""
    return Parameters(A, np.concatenate([P, transposed(P)]), np.tile(b, 2))
