"""`RescalLogit`: RESCAL by the Bernoulli likelihood."""

from __future__ import annotations

from dataclasses import dataclass, field

from .rescal import Rescal


@dataclass(eq=False, repr=False)
class RescalLogit(Rescal):
    """RESCAL by the Bernoulli likelihood over all observed cells.

    Minimises Σ w [softplus(θ) − x θ] + λ_A ‖A‖² + λ_R Σ ‖R_k‖², θ = a_iᵀ R_k a_j + b_k. Every cell counts: exactly, or
    in unbiased estimates whose cost is linear in the facts; so probabilities are those of the likelihood. It is
    `Rescal(loss="logistic")`.

    Parameters
    ----------
    rank : number of latent components; here and below, None is chosen from the data (`settings_` says what and why)
    l2_entities, l2_relations : λ_A, λ_R
    bias : whether each relation has a bias b_k (not penalised)
    method : "exact"; "sampled"; "auto" is exact where a sample of the cells would cost as much. `method_` says which
        one was used
    max_iter, tol : maximum number of steps; the fit stops when the objective changes by less than tol of itself per
        step, over ten steps. With Adam a step is a round of four updates, the learning rate falls to zero over max_iter
        rounds, and tol has no effect
    init : "als", "eigen", "random", "small" (random, with small R: for Adam), or Factors to start from
    device : "cpu", or "cuda" (needs `pip install 'relatent[gpu]'`): exact sums on a GPU; the factors are NumPy arrays
    dtype : "float32" or "float64"; on a GPU "float32" (scores from float16 factors, sums in float32: gradients are
        exact to 1e-3) or "tf32" (slower, slightly more exact)
    zeros : "all"; or "typed": only cells between entities of types that subjects and objects of the relation have, or
        without a type, count as false, and all others are taken as unobserved; if the facts have no types, only cells
        between entities that have facts as subjects of the relation and as its objects
    patience : validations, one every five steps, without improvement before the fit stops
    penalty : `Dura(weight)`, `N3(weight)` or `L2(…)`, in place of l2_entities and l2_relations
    optimiser : `Lbfgs()` or `Adam(lr)`; None is L-BFGS for exact sums, and Adam with steps relative to the sizes of A
        and R for sampled ones
    structure : the form of R_k: "full" (r² numbers), "complex" (r numbers: ComplEx), "diagonal" (r: DistMult),
        "symmetric", `Blocks(b)`, `Shared(m)`, or an object of one's own (`relatent.model.structure`)
    attribute_weight : how strongly the vectors of entities are drawn to what their attributes predict, if the facts
        have attributes; 0: they are not used
    patterns : what the facts show of a pair, beside the factors: "auto", whatever held-out facts say helps (both ends,
        other relations between them, paths, what those alike have); "mirror", other relations of the pair, also the
        other way round; "paths", these and paths of two steps; "none"; or a list of rules as `rules` finds them, or of
        their texts, of which the weights are learned. Only of calibrated fits that keep their facts, of at most 3·10⁹
        cells
    random_state : seed of the start and of the sample

    >>> import relatent
    >>> facts = relatent.Facts.from_arrays(["Ann", "Bob"], ["likes", "likes"], ["Bob", "Ann"])
    >>> estimator = relatent.RescalLogit(rank=2, l2_entities=0.001, l2_relations=0.001, calibrate=False)
    >>> model = estimator.fit(facts).factors_
    >>> bool(model.probability("Ann", "likes", "Bob") > 0.9)
    True
    """

    loss: str = field(default="logistic", init=False)
