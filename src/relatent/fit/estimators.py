"""The estimators: how factors are found. Parameters in the constructor, everything learned ends in `_`."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..arrays import Matrix, Slices, Vector
from ..cells.sampled import Sampled
from ..data.facts import Facts
from ..data.heldout import HeldOut
from ..data.share import Share
from ..errors import InputError
from ..host import Host
from ..model.factors import Factors
from ..model.links import Smooth
from ..progress import Progress
from ..room import Needs, check_memory
from ..threads import one_blas_thread
from ..workers import ALONE, Workers
from . import adam, als, als_rows, losses, needs, optimisers, penalties, start
from .adam import AdamState, SampledAdam
from .als import AlsState
from .checkpoint import Checkpoint
from .contract import Estimator, held_out
from .descent import DescentState
from .lbfgs import LbfgsState
from .loop import Watch, run
from .losses import Loss, is_exclusive
from .nonnegative import Nonnegative, NonnegativeState
from .objective import Layout, Parameters, PenalisedLikelihood
from .optimisers import Lbfgs, Optimiser
from .penalties import Penalty

G = TypeVar("G", bound="Rescal")

EXACT_FLOP = 2e11  # of one sum over all cells: a second or two on two cores


class Ranked(Estimator):
    """What the estimators of a given rank share: their size is known before the work."""

    rank: int | None
    init: str | Factors
    dtype: str

    def needs(self, facts: Facts) -> Needs:
        """What a fit to these facts takes, about: memory beyond the facts, and the model file."""
        rank, dtype = self._size(facts)
        return Needs(self._memory(facts, rank, dtype), needs.model_file(facts, rank, dtype))

    def _size(self, facts: Facts) -> tuple[int, np.dtype[Any]]:
        """The rank and the type of numbers, checked."""
        rank = self.init.rank if isinstance(self.init, Factors) else start.resolve_rank(self.rank, facts.n_entities)
        return rank, start.float_type(self.dtype)

    def _memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        raise NotImplementedError

    def _check_room(self, facts: Facts | Share) -> None:
        """Refuse before the work what would run out of memory in the middle of it."""
        share = Share.of(facts)
        with share.workers.together():
            rank, dtype = self._size(share.facts)
            what = f"{type(self).__name__} of rank {rank} on {share.n_entities:,} entities"
            remedy = "lower the rank" + (", or take dtype='float32'" if dtype == np.float64 else "")
            check_memory(self.needs(share.facts).memory * share.workers.local_size, what, remedy)


class RescalALS(Ranked):
    """RESCAL by alternating least squares: fast, linear in the facts.

    Minimises Σ w (x − a_iᵀ R_k a_j)² over observed cells + λ_A ‖A‖² + λ_R Σ ‖R_k‖². Entity attributes, where the
    facts have them, are factorized along (D ≈ A V) and pull related entities together.

    Parameters
    ----------
    rank : number of latent components; None is 50, or the number of entities if that is less
    l2_entities, l2_relations, l2_attributes : λ_A, λ_R, λ_V
    max_iter, tol : sweeps at most; stop when the objective changes by less than tol of itself, or of what the factors
        explain, if that is less
    init : "eigen", "random", or Factors to start from
    dtype : "float32" or "float64", the type of A; sums are float64
    patience : sweeps without improvement before a fit with validation cells stops
    device : "cpu", or "cuda" (needs `pip install 'relatent[gpu]'`, float32 only); the result is NumPy's
    random_state : seed of the start

    >>> import relatent
    >>> facts = relatent.Facts.from_arrays([0, 1, 2], [0, 0, 0], [1, 2, 0])
    >>> model = relatent.RescalALS(rank=3, l2_entities=0.01, l2_relations=0.01).fit(facts).factors_
    >>> model.score(0, 0, [1, 2]) > 0.5
    array([ True, False])
    """

    def __init__(
        self,
        rank: int | None = None,
        l2_entities: float = 10.0,
        l2_relations: float = 10.0,
        max_iter: int = 500,
        tol: float = 1e-4,
        init: str | Factors = "eigen",
        dtype: str = "float32",
        random_state: int = 0,
        *,
        l2_attributes: float = 10.0,
        patience: int = 10,
        device: str = "cpu",
    ):
        self.rank = rank
        self.l2_entities = l2_entities
        self.l2_relations = l2_relations
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.dtype = dtype
        self.random_state = random_state
        self.l2_attributes = l2_attributes
        self.patience = patience
        self.device = device

    def fit(
        self,
        facts: Facts,
        validation: Facts | HeldOut | None = None,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | Checkpoint | None = None,
        workers: Workers | None = None,
    ) -> RescalALS:
        """Learn factors; with `validation`, keep those that predict it best.

        With several `workers` (docs/scaling.md) each gives its part of the facts, over one vocabulary, and the same
        validation; all end with the same factors.
        """
        self._check_shared(facts, workers or ALONE)
        share = Share.of(facts, workers or ALONE)
        self._check_room(share)
        rank, dtype = self._size(facts)
        kept = self._checkpoint(checkpoint, share, validation)
        began = time.perf_counter()
        on = self._place(dtype)
        with one_blas_thread(), on.guarded():
            begin = [self._start(share) if kept is None or not kept.exists() else (_blank(facts, rank).A, None)]
            lambdas = {name: getattr(self, name) for name in ("l2_entities", "l2_relations", "l2_attributes")}
            solver = als_rows.sweeps(share, rank, lambdas, on)
            state, trace = run(
                solver,
                solver.start(*begin.pop()),  # nothing of it is held while the run lasts
                max_iter=self.max_iter,
                tol=self.tol,
                watch=least_squares_watch(share, validation, self.random_state, self.patience, on),
                progress=progress,
                checkpoint=kept,
                anytime=True,
                nothing=solver.nothing,
                spent=time.perf_counter() - began,
                on=on,
                workers=share.workers,
            )
        A, R = on.fetch(state.A), on.fetch(state.R)
        self.attribute_factors_ = state.V if facts.attributes is not None else None
        self._warn_if_vanished(A, R)
        return self._finish(share, A, R, np.zeros(facts.n_relations), Smooth(), trace)

    def _place(self, dtype: np.dtype[Any]) -> Any:
        """Where the arrays of the fit are."""
        if self.device == "cpu":
            return Host(dtype)
        if dtype != np.float32:
            raise InputError(f"on a GPU dtype must be 'float32', got {self.dtype!r}")
        return gpu(self.device)

    def _memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        begin = start.needs(facts, rank) if self.init == "eigen" else 0
        attributes = 0 if facts.attributes is None else 4 * 8 * facts.attributes.size  # known, filled, fitted, D Vᵀ
        if self.device != "cpu":
            return max(begin, needs.placed(facts, rank) + attributes)
        return max(begin, als_needs(facts, rank, dtype) + attributes)

    def _start(self, facts: Share) -> tuple[Matrix, Slices | None]:
        if isinstance(self.init, Factors):
            given = start.checked_factors(self.init, facts, self.rank)
            return given.A, given.R
        rank = start.resolve_rank(self.rank, facts.n_entities)
        if self.init == "eigen":
            return start.eigenvectors(facts, rank, self.random_state), None
        if self.init == "random":
            return start.uniform(facts, rank, self.random_state), None
        raise InputError(f"init must be 'eigen', 'random' or Factors, got {self.init!r}")


class NonnegativeRescal(Ranked):
    """RESCAL with non-negative factors: entities as sums of parts, relations as links between parts.

    Minimises Σ w (x − a_iᵀ R_k a_j)² over observed cells + λ_A ‖A‖² + λ_R Σ ‖R_k‖² + μ_A Σ A + μ_R Σ R, A and R ≥ 0.
    Parts are easier to read than signed components; the price is fit, as nothing can cancel.

    Parameters
    ----------
    rank : number of parts; None is 50, or the number of entities if that is less
    l2_entities, l2_relations : λ_A, λ_R
    l1_entities, l1_relations : μ_A, μ_R, which drive small entries to zero
    max_iter, tol : sweeps at most; stop when the objective changes by less than tol of itself a sweep, over ten sweeps
    init : "random", or Factors without negative entries to start from
    dtype : "float32" or "float64", the type of A; sums are float64
    patience : sweeps without improvement before a fit with validation cells stops
    random_state : seed of the start

    >>> import relatent
    >>> facts = relatent.Facts.from_arrays([0, 1, 2], [0, 0, 0], [1, 2, 0])
    >>> model = relatent.NonnegativeRescal(rank=3, l2_entities=0.01, l2_relations=0.01).fit(facts).factors_
    >>> model.score(0, 0, [1, 2]) > 0.5
    array([ True, False])
    >>> bool(model.A.min() >= 0)
    True
    """

    def __init__(
        self,
        rank: int | None = None,
        l2_entities: float = 1.0,
        l2_relations: float = 1.0,
        l1_entities: float = 0.0,
        l1_relations: float = 0.0,
        max_iter: int = 1000,
        tol: float = 1e-4,
        init: str | Factors = "random",
        dtype: str = "float32",
        random_state: int = 0,
        *,
        patience: int = 10,
    ):
        self.rank = rank
        self.l2_entities = l2_entities
        self.l2_relations = l2_relations
        self.l1_entities = l1_entities
        self.l1_relations = l1_relations
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.dtype = dtype
        self.random_state = random_state
        self.patience = patience

    def fit(
        self,
        facts: Facts,
        validation: Facts | HeldOut | None = None,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> NonnegativeRescal:
        """Learn factors; with `validation`, keep those that predict it best."""
        self._check_shared(facts)
        self._check_room(facts)
        rank, dtype = self._size(facts)
        kept = self._checkpoint(checkpoint, facts, validation)
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
                solver.start(*begin.pop()),  # nothing of it is held while the run lasts
                max_iter=self.max_iter,
                tol=self.tol,
                watch=least_squares_watch(facts, validation, self.random_state, self.patience),
                progress=progress,
                checkpoint=kept,
                anytime=True,
            )
        self._warn_if_vanished(state.A, state.R)
        return self._finish(facts, state.A, state.R, np.zeros(facts.n_relations), Smooth(), trace)

    def _memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        return needs.nonnegative(facts, rank, dtype)

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
        rank = start.resolve_rank(self.rank, facts.n_entities)
        return start.positive(facts, rank, self.random_state)


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
        random_state: int = 0,
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

    def fit(
        self: G,
        facts: Facts,
        validation: Facts | HeldOut | None = None,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | Checkpoint | None = None,
        workers: Workers | None = None,
    ) -> G:
        """Learn factors; with `validation`, keep those that predict it best.

        With several `workers` (docs/scaling.md) each gives its part of the facts, over one vocabulary, and the same
        validation; all end with the same factors.
        """
        loss = losses.resolve(self.loss)
        self._check_shared(facts, workers or ALONE)
        self._check_own(loss)
        share = Share.of(facts, workers or ALONE)
        self._check_room(share)
        self.method_ = self.method_for(facts)
        rank, dtype = self._size(facts)
        layout = Layout(facts.n_entities, facts.n_relations, rank)
        kept = self._checkpoint(checkpoint, share, validation)
        began = time.perf_counter()
        on = self._place(dtype)
        with one_blas_thread(), on.guarded():
            begin = [self._start(loss, share) if kept is None or not kept.exists() else _blank(facts, rank)]
            solver = self._solver(loss, share, layout, on)
            state, trace = run(
                solver,
                solver.start(on.place(layout.pack(*begin.pop(), on.dtype))),  # nothing of it is held while it lasts
                max_iter=self.max_iter,
                tol=self.tol,
                watch=self._watch(loss, share, validation, layout, on),
                progress=progress,
                checkpoint=kept,
                anytime=True,
                spent=time.perf_counter() - began,
                on=on,
                workers=share.workers,
            )
        A, R, b = (np.array(part) for part in layout.views(on.fetch(state.x)))
        self._warn_if_vanished(A, R)
        return self._finish(share, A, R, b, loss.link, trace, exclusive=is_exclusive(loss), method=self.method_)

    def _memory(self, facts: Facts, rank: int, dtype: np.dtype[Any]) -> int:
        begin = 0
        if self.init in ("als", "eigen"):
            begin = max(start.needs(facts, rank), als_needs(facts, rank, np.float32))
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

    def _check_own(self, loss: Loss) -> None:
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

    def _place(self, dtype: np.dtype[Any]) -> Any:
        """Where the arrays of the fit are."""
        return Host(dtype) if self.device == "cpu" else gpu(self.device, half=self.dtype == "float32")

    def _solver(self, loss: Loss, facts: Share, layout: Layout, on: Any) -> Any:
        """L-BFGS or Adam."""
        if self.method_ == "exact":
            cells = losses.evaluator(loss, facts, on, typed=self.zeros == "typed")
            penalty = penalties.resolve(self.penalty, self.l2_entities, self.l2_relations)
            objective = PenalisedLikelihood(
                cells,
                layout,
                penalty.bound(facts, on),
                bias=self.bias,
                on=on,
                workers=facts.workers,
                divided=penalty.over_facts,
            )
            return (self.optimiser or Lbfgs()).solver(objective, on, self.max_iter)
        return SampledAdam(
            Sampled(facts, on.dtype, n_batches=adam.n_batches(facts), typed=self.zeros == "typed"),
            layout,
            l2_entities=self.l2_entities,
            l2_relations=self.l2_relations,
            bias=self.bias,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )

    def _start(self, loss: Loss, facts: Share) -> tuple[Matrix, Slices, Vector]:
        b = loss.bias(*start.ones_and_zeros(facts)) if self.bias else np.zeros(facts.n_relations)
        if isinstance(self.init, Factors):
            given = start.checked_factors(self.init, facts, self.rank)
            return given.A, given.R, given.bias if self.bias else b
        rank = start.resolve_rank(self.rank, facts.n_entities)
        if self.init in ("random", "small"):
            numbers = start.normal if self.init == "random" else start.small
            return *numbers(facts, rank, self.random_state), b
        if self.init not in ("als", "eigen"):
            raise InputError(f"init must be 'als', 'eigen', 'random', 'small' or Factors, got {self.init!r}")
        A, R = least_squares_start(facts, rank, self.random_state, sweeps=ALS_SWEEPS if self.init == "als" else 0)
        return *start.balanced(A, R * loss.steepness, self.l2_entities, self.l2_relations), b

    def _watch(
        self, loss: Loss, facts: Share, validation: Facts | HeldOut | None, layout: Layout, on: Any
    ) -> Watch | None:
        if validation is None:
            return None
        heldout = held_out(validation, facts, self.random_state)
        if isinstance(loss, losses.Softmax):  # its scores are no log-odds: the loss itself, of the facts held out
            cells = losses.evaluator(loss, heldout.facts(facts.facts), on)
            return Watch(lambda state: cells(*layout.views(state.x)).value, every=5, patience=self.patience)

        def held_out_loss(state: LbfgsState | DescentState | AdamState) -> float:
            names = (facts.entities, facts.relations)
            factors = Factors(*layout.views(on.fetch(state.x)), *names, loss.link, exclusive=is_exclusive(loss))
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
        random_state: int = 0,
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


def gpu(name: str, *, half: bool = True) -> Any:
    """A GPU to work on."""
    if not isinstance(name, str) or re.fullmatch(r"cuda(:\d+)?", name) is None:
        raise InputError(f"device must be 'cpu', 'cuda' or 'cuda:1', got {name!r}")
    try:
        from .. import device
    except ImportError as problem:
        raise InputError(f"device={name!r} needs PyTorch and Triton: pip install 'relatent[gpu]'") from problem
    device.check(name)
    return device.Device(name, half=half)


def _blank(facts: Facts, rank: int) -> Parameters:
    """A start for a fit that is resumed: the kept state takes its place."""
    n, k = facts.n_entities, facts.n_relations
    return Parameters(np.zeros((n, rank)), np.zeros((k, rank, rank)), np.zeros(k))


ALS_SWEEPS = 5  # enough to find the directions; more only fits the wrong loss better


def als_needs(facts: Facts, rank: int, dtype: Any) -> int:
    """Bytes that sweeps of least squares take on a CPU."""
    needed: int = (als_rows if als_rows.occur_rarely(facts) else als).needs(facts, rank, dtype)
    return needed


def least_squares_start(facts: Facts | Share, rank: int, random_state: int, *, sweeps: int) -> tuple[Matrix, Slices]:
    """Factors after a few sweeps of least squares from the eigenvectors."""
    plain = Share.of(facts).each(Facts.without_attributes)
    # Hardly penalised: on small data a real penalty shrinks A to zero, a saddle that no gradient leaves.
    lambdas = {"l2_entities": 0.01, "l2_relations": 0.01, "l2_attributes": 0.0}
    solver = als_rows.sweeps(plain, rank, lambdas, Host(np.float32))
    state = solver.start(start.eigenvectors(plain, rank, random_state))
    for _ in range(sweeps):
        state = solver.step(state)
    return state.A, state.R


def least_squares_watch(
    facts: Facts | Share, validation: Facts | HeldOut | None, random_state: int, patience: int, on: Any = None
) -> Watch | None:
    """A look at the validation cells after every sweep."""
    if validation is None:
        return None
    heldout = held_out(validation, facts, random_state)

    def loss(state: AlsState | NonnegativeState) -> float:
        b = np.zeros(facts.n_relations)
        A, R = (part if on is None else on.fetch(part) for part in (state.A, state.R))
        return heldout.log_loss(Factors(A, R, b, facts.entities, facts.relations, Smooth()))

    return Watch(loss, every=1, patience=patience)
