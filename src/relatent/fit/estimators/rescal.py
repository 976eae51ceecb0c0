"""Rescal and RescalLogit: RESCAL with a loss of your choice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Matrix, Slices, Vector
from ...backend.blas_threads import one_blas_thread
from ...backend.numpy_backend import NumpyBackend
from ...backend.protocol import Backend
from ...cells.logistic_sampled import Sampled
from ...cells.sparse.layout import layout_bytes
from ...data.facts import Facts
from ...data.heldout import HeldOut
from ...data.shard import Shard
from ...errors import InputError
from ...model.factors import Factors
from ...model.objective_term import ObjectiveTerm
from ...progress import Progress
from ...random_state import RandomState
from .. import init as start
from .. import losses, optimisers, penalties
from .. import memory_estimate as needs
from ..checkpoint import Checkpoint
from ..loop import Watch, run
from ..losses import Loss
from ..objective import Layout, PenalisedLikelihood
from ..optimisers import Lbfgs, Optimiser
from ..penalties import Penalty
from ..solvers import sampled_adam as adam
from ..solvers.adam import DescentState
from ..solvers.lbfgs import LbfgsState
from ..solvers.sampled_adam import AdamState, SampledAdam
from .als import ALS_SWEEPS, least_squares_start
from .base import held_out
from .ranked import Ranked, blank, gpu

EXACT_FLOP = 2e11  # of one sum over all cells: a second or two on two cores


class Rescal(Ranked):
    """RESCAL with a loss of your choice, over all observed cells, with fact weights and masks.

    Minimises Σ w loss(x, θ) + λ_A ‖A‖² + λ_R Σ ‖R_k‖², θ = a_iᵀ R_k a_j + b_k, by L-BFGS or Adam; the logistic loss
    also by Adam on sampled zeros.

    Parameters
    ----------
    rank : number of latent components; None is 50, or the number of entities if that is less
    loss : "logistic" (the Bernoulli likelihood), "squared", "hinge" (smoothed), "poisson" (counts, `Facts.times`),
        "categorical" (a pair has one relation or none), "softmax" (who else could stand there: the best for ranking;
        no bias, and no probabilities but by `Calibrated`), or an object like those in `relatent.fit.losses`
    l2_entities, l2_relations, bias, method, max_iter, tol, init, device, dtype, zeros, patience, penalty, optimiser,
        random_state : as in `RescalLogit`

    >>> import relatent
    >>> facts = relatent.Facts.from_arrays(["Ann", "Bob"], ["likes", "likes"], ["Bob", "Ann"])
    >>> model = relatent.Rescal(rank=2, loss="hinge", l2_entities=0.001, l2_relations=0.001).fit(facts).factors_
    >>> bool(model.score("Ann", "likes", "Bob") > 0.9)
    True
    """

    def __init__(
        self,
        rank: int | None = None,
        loss: str | Loss = "logistic",
        l2_entities: float = 1.0,
        l2_relations: float = 1.0,
        bias: bool = True,
        method: str = "auto",
        max_iter: int = 500,
        tol: float = 1e-5,
        init: str | Factors = "als",
        device: str = "cpu",
        dtype: str = "float32",
        random_state: RandomState = 0,
        *,
        zeros: str = "all",
        patience: int = 10,
        penalty: Penalty | None = None,
        optimiser: Optimiser | None = None,
    ):
        self.rank = rank
        self.loss = loss
        self.l2_entities = l2_entities
        self.l2_relations = l2_relations
        self.bias = bias
        self.method = method
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.zeros = zeros
        self.patience = patience
        self.penalty = penalty
        self.optimiser = optimiser

    def _fit(
        self,
        shard: Shard,
        validation: Facts | HeldOut | None,
        progress: Progress,
        checkpoint: str | Path | Checkpoint | None,
    ) -> None:
        loss = losses.resolve(self.loss)
        facts = shard.facts
        self.method_ = self.method_for(facts)
        rank, dtype = self._size(facts)
        layout = Layout(facts.n_entities, facts.n_relations, rank)
        kept = self._checkpoint(checkpoint, shard, validation)
        began = time.perf_counter()
        backend = self._backend(dtype)
        with one_blas_thread(), backend.memory_guard():
            begin = [self._start(loss, shard) if kept is None or not kept.exists() else blank(facts, rank)]
            solver = self._solver(loss, shard, layout, backend)
            state, trace = run(
                solver,
                solver.start(
                    backend.from_numpy(layout.pack(*begin.pop(), backend.dtype))
                ),  # nothing of it is held while it lasts
                max_iter=self.max_iter,
                tol=self.tol,
                watch=self._watch(loss, shard, validation, layout, backend),
                progress=progress,
                checkpoint=kept,
                anytime=True,
                spent=time.perf_counter() - began,
                backend=backend,
                workers=shard.workers,
            )
        A, R, b = (np.array(part) for part in layout.views(backend.to_numpy(state.x)))
        self._warn_if_vanished(A, R)
        penalty = penalties.resolve(self.penalty, self.l2_entities, self.l2_relations)
        self._finish(
            shard,
            A,
            R,
            b,
            loss.link,
            trace,
            loss=ObjectiveTerm.of(loss, losses.LOSSES),
            penalty=ObjectiveTerm.of(penalty, penalties.PENALTIES),
            method=self.method_,
        )

    def _memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        begin = 0
        if self.init in ("als", "eigen"):
            begin = max(start.needs(facts, rank), layout_bytes(facts, rank, np.float32))
        if self.method_for(facts) == "sampled":
            return max(begin, needs.sampled(facts, rank, dtype))
        if self.device != "cpu":
            return begin + needs.placed(facts, rank)
        return max(begin, needs.likelihood(losses.resolve(self.loss), facts, rank, dtype))

    def method_for(self, facts: Facts) -> str:
        """How these facts are fitted; "auto" is "exact" if one sum over all cells takes a second or two."""
        if self.method != "auto":
            return self.method
        if self.device != "cpu" or self.optimiser is not None or self.penalty is not None:
            return "exact"
        if type(losses.resolve(self.loss)) is not losses.Logistic:
            return "exact"
        flop = 6.0 * facts.n_cells * self._size(facts)[0]
        return "exact" if flop <= EXACT_FLOP and self.zeros == "all" else "sampled"

    def _check_settings(self, facts: Facts) -> None:
        loss = losses.resolve(self.loss)
        super()._check_settings(facts)
        if self.method not in ("auto", "exact", "sampled"):
            raise InputError(f"method must be 'auto', 'exact' or 'sampled', got {self.method!r}")
        if self.zeros not in ("all", "typed"):
            raise InputError(f"zeros must be 'all' or 'typed', got {self.zeros!r}")
        if self.method == "sampled":
            self._check_sampled(loss)
        on_gpu = self.device != "cpu"
        if self.zeros == "typed" and type(loss) is not losses.Logistic:
            raise InputError("zeros='typed' is for the logistic loss")
        if self.zeros == "typed" and self.method == "exact" and not on_gpu:
            raise InputError("zeros='typed' needs method='sampled', or a GPU")
        if on_gpu and type(loss) not in (losses.Logistic, losses.Softmax):
            raise InputError(f"on a GPU the loss must be 'logistic' or 'softmax', got {loss.name!r}; take device='cpu'")
        if not isinstance(self.bias, (bool, np.bool_)):
            raise InputError(f"bias must be True or False, got {self.bias!r}")
        if self.optimiser is not None:
            optimisers.check(self.optimiser)
        penalties.resolve(self.penalty, self.l2_entities, self.l2_relations)

    def _check_sampled(self, loss: Loss) -> None:
        if type(loss) is not losses.Logistic:
            raise InputError(f"method='sampled' is for the logistic loss, got {loss.name!r}; take method='exact'")
        for name in ("penalty", "optimiser"):
            if getattr(self, name) is not None:
                raise InputError(f"method='sampled' has its own {name}; leave {name} out, or take method='exact'")
        if self.device != "cpu":
            raise InputError("method='sampled' is for the CPU: on a GPU all cells are summed; take method='exact'")

    def _size(self, facts: Facts) -> tuple[int, np.dtype[Any]]:
        if self.device == "cpu":
            return super()._size(facts)
        if self.dtype not in ("float32", "tf32"):
            raise InputError(f"on a GPU dtype must be 'float32' or 'tf32', got {self.dtype!r}")
        rank = self.init.rank if isinstance(self.init, Factors) else start.resolve_rank(self.rank, facts.n_entities)
        return rank, np.dtype(np.float32)

    def _backend(self, dtype: np.dtype[Any]) -> Backend:
        """Where the arrays of the fit are."""
        return NumpyBackend(dtype) if self.device == "cpu" else gpu(self.device, half=self.dtype == "float32")

    def _solver(self, loss: Loss, facts: Shard, layout: Layout, backend: Backend) -> Any:
        """L-BFGS or Adam."""
        if self.method_ == "exact":
            cells = losses.evaluator(loss, facts, backend, typed=self.zeros == "typed")
            penalty = penalties.resolve(self.penalty, self.l2_entities, self.l2_relations)
            objective = PenalisedLikelihood(
                cells,
                layout,
                penalty.bound(facts, backend),
                bias=self.bias,
                backend=backend,
                workers=facts.workers,
                divided=penalty.over_facts,
            )
            return (self.optimiser or Lbfgs()).solver(objective, backend, self.max_iter)
        return SampledAdam(
            Sampled(facts, backend.dtype, n_batches=adam.n_batches(facts), typed=self.zeros == "typed"),
            layout,
            l2_entities=self.l2_entities,
            l2_relations=self.l2_relations,
            bias=self.bias,
            max_iter=self.max_iter,
            random_state=self.seed_,
        )

    def _start(self, loss: Loss, facts: Shard) -> tuple[Matrix, Slices, Vector]:
        b = loss.bias(*start.ones_and_zeros(facts)) if self.bias else np.zeros(facts.n_relations)
        if isinstance(self.init, Factors):
            given = start.checked_factors(self.init, facts, self.rank)
            return given.A, given.R, given.bias if self.bias else b
        rank = start.resolve_rank(self.rank, facts.n_entities)
        if self.init in ("random", "small"):
            numbers = start.normal if self.init == "random" else start.small
            return *numbers(facts, rank, self.seed_), b
        if self.init not in ("als", "eigen"):
            raise InputError(f"init must be 'als', 'eigen', 'random', 'small' or Factors, got {self.init!r}")
        A, R = least_squares_start(facts, rank, self.seed_, sweeps=ALS_SWEEPS if self.init == "als" else 0)
        return *start.balanced(A, R * loss.steepness, self.l2_entities, self.l2_relations), b

    def _watch(
        self, loss: Loss, facts: Shard, validation: Facts | HeldOut | None, layout: Layout, backend: Backend
    ) -> Watch | None:
        if validation is None:
            return None
        heldout = held_out(validation, facts, self.seed_)
        if isinstance(loss, losses.Softmax):  # its scores are no log-odds: the loss itself, of the facts held out
            cells = losses.evaluator(loss, heldout.facts(facts.facts), backend)
            return Watch(lambda state: cells(*layout.views(state.x)).value, every=5, patience=self.patience)

        def held_out_loss(state: LbfgsState | DescentState | AdamState) -> float:
            names = (facts.entities, facts.relations)
            term = ObjectiveTerm.of(loss, losses.LOSSES)
            factors = Factors(*layout.views(backend.to_numpy(state.x)), *names, loss.link, loss=term)
            return heldout.log_loss(factors)

        return Watch(held_out_loss, every=5, patience=self.patience)


class RescalLogit(Rescal):
    """RESCAL by the Bernoulli likelihood over all observed cells.

    Minimises Σ w [softplus(θ) − x θ] + λ_A ‖A‖² + λ_R Σ ‖R_k‖², θ = a_iᵀ R_k a_j + b_k. Every cell counts: exactly, by
    L-BFGS, or in unbiased estimates whose cost is linear in the facts, by Adam; so probabilities are those of the
    likelihood. It is `Rescal(loss="logistic")`.

    Parameters
    ----------
    rank : number of latent components; None is 50, or the number of entities if that is less
    l2_entities, l2_relations : λ_A, λ_R
    bias : whether each relation has a bias b_k (not penalised)
    method : "exact"; "sampled"; "auto" is exact where one sum over all cells takes a second or two (`method_` tells)
    max_iter, tol : steps at most; stop when the objective changes by less than tol of itself a step, over ten steps.
        Sampled, and by Adam: rounds of four steps, over which the learning rate falls to zero; tol has no part in it
    init : "als", "eigen", "random", "small" (random, with small R: for Adam), or Factors to start from
    device : "cpu", or "cuda" (needs `pip install 'relatent[gpu]'`): exact sums on a GPU; the result is NumPy's
    dtype : "float32" or "float64"; on a GPU "float32" (scores from float16 factors, sums in float32: gradients good to
        1e-3) or "tf32" (slower, a little finer)
    zeros : "all"; or "typed": only cells between entities that have facts as subjects of the relation and entities that
        have facts as its objects count, and others are taken as unobserved (sampled, or on a GPU)
    patience : looks at the validation cells, one every five steps, without improvement before the fit stops
    penalty : `Dura(weight)`, `N3(weight)` or `L2(…)`, in place of l2_entities and l2_relations
    optimiser : `Lbfgs()` or `Adam(lr)`, for exact sums; None is L-BFGS
    random_state : seed of the start and of what is sampled

    >>> import relatent
    >>> facts = relatent.Facts.from_arrays(["Ann", "Bob"], ["likes", "likes"], ["Bob", "Ann"])
    >>> model = relatent.RescalLogit(rank=2, l2_entities=0.001, l2_relations=0.001).fit(facts).factors_
    >>> bool(model.probability("Ann", "likes", "Bob") > 0.9)
    True
    """

    def __init__(
        self,
        rank: int | None = None,
        l2_entities: float = 1.0,
        l2_relations: float = 1.0,
        bias: bool = True,
        method: str = "auto",
        max_iter: int = 500,
        tol: float = 1e-5,
        init: str | Factors = "als",
        device: str = "cpu",
        dtype: str = "float32",
        random_state: RandomState = 0,
        *,
        zeros: str = "all",
        patience: int = 10,
        penalty: Penalty | None = None,
        optimiser: Optimiser | None = None,
    ):
        super().__init__(
            rank,
            "logistic",
            l2_entities,
            l2_relations,
            bias,
            method,
            max_iter,
            tol,
            init,
            device,
            dtype,
            random_state,
            zeros=zeros,
            patience=patience,
            penalty=penalty,
            optimiser=optimiser,
        )
