"""Where a fit starts: eigenvectors of the facts, random numbers, or other factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

from ..arrays import Matrix, Slices, Vector
from ..backend import gram_matrix as gram
from ..cells.sparse.prefetch import LINE
from ..cells.sparse.streamed import StreamedLayout
from ..data.facts import Facts
from ..data.shard import Shard
from ..errors import InputError
from ..model.factors import Factors
from ..model.structure import FULL, Blocks, is_compact, nearest_parameters, parameter_shape

MAX_DENSE_ENTITIES = 600  # up to this number a dense eigendecomposition is as fast as ARPACK
MAX_ARPACK_ENTITIES = 20_000  # of more entities ARPACK takes longer than the sweeps that follow
TIE_BREAK = 1e-9  # relative to the largest entry: far above rounding, far below the accuracy of a start
PERTURBATION = 0.03  # relative to the root mean square of A: leaves symmetric saddles, keeps the directions
SUBSPACE_ROUNDS = 3  # products with S; more do not change where the sweeps that follow end
OVERSAMPLING = 4  # additional vectors, at least, for the accuracy of the last ones asked for


def eigenvectors(facts: Facts | Shard, rank: int, random_state: int) -> Matrix:
    """The r eigenvectors of Σ_k (X_k + X_kᵀ) with the largest absolute eigenvalues, (N, r); approximate for large N."""
    shard = Shard.of(facts)
    if _is_large(shard.n_entities, rank):
        return _rough_eigenvectors(shard, rank, random_state)
    X = _sum_of_relations(shard)
    if shard.workers.size == 1:
        return _exact_eigenvectors(X + X.T, rank, random_state)
    A = np.empty((shard.n_entities, rank))  # one worker computes them for all: ARPACK's choice depends on rounding
    if shard.workers.rank == 0:
        A[:] = _exact_eigenvectors(X + X.T, rank, random_state)
    return shard.workers.broadcast(A)


def _sum_of_relations(shard: Shard) -> Any:
    """Σ_k X_k, on every worker: with few entities it is small whatever the number of facts."""
    facts, n = shard.facts, shard.n_entities
    # a fact counts by its weight, but at most 1
    ones = np.minimum(facts.confidences, 1)
    X = sp.csr_matrix((ones, (facts.subjects, facts.objects)), shape=(n, n))  # sums the relations
    if shard.workers.size == 1:
        return X
    own = X.tocoo()
    values, rows, columns = (np.concatenate(shard.workers.gather(part)) for part in (own.data, own.row, own.col))
    return sp.csr_matrix((values, (rows, columns)), shape=(n, n))


def _exact_eigenvectors(S: Any, rank: int, random_state: int) -> Matrix:
    n, rng = S.shape[0], np.random.default_rng(random_state)
    if n <= MAX_DENSE_ENTITIES or rank >= n - 1:
        # Tied eigenvalues leave LAPACK, and so the machine, a choice of vectors: a tiny seeded perturbation decides.
        noise = rng.standard_normal((n, n)) * (TIE_BREAK * (abs(S).max() or 1.0))
        values, vectors = scipy.linalg.eigh(S.toarray() + noise + noise.T)
    else:
        # ARPACK restarts at random if S has few distinct eigenvalues.
        values, vectors = scipy.sparse.linalg.eigsh(S, k=rank, v0=rng.random(n), rng=rng)
    return vectors[:, np.argsort(-np.abs(values), kind="stable")[:rank]]  # type: ignore[no-any-return]


def eigenvectors_memory(facts: Facts, rank: int) -> int:
    """Approximate bytes that `eigenvectors` takes beyond the facts, including its result."""
    n = facts.n_entities
    if not _is_large(n, rank):
        # S and what it is built from; the 2r + 1 vectors of ARPACK and its results
        return 45 * len(facts) + 8 * n * (5 * rank + 10)
    width = _n_vectors(rank)
    return 8 * len(facts) + 4 * n * (4 * width + rank)  # facts by object; Q, S Q, their successors, and Q padded


def _is_large(n: int, rank: int) -> bool:
    return n > max(MAX_ARPACK_ENTITIES, rank + 64)  # more entities than vectors


def _rough_eigenvectors(shard: Shard, rank: int, random_state: int) -> Matrix:
    """The eigenvectors to a few digits, by subspace iteration in float32, at the cost of a few sweeps.

    Halko, Martinsson & Tropp (2011), algorithms 4.4 and 5.3. Every fact of positive weight counts as 1.
    """
    if shard.facts.weights is not None:
        shard = shard.map_facts(_with_positive_weight)
    workers, own = shard.workers, shard.entity_range
    rng = np.random.default_rng(random_state)
    n = shard.n_entities
    width = _n_vectors(rank)
    layout = StreamedLayout(shard, width)
    Q: Matrix = rng.standard_normal((n, width), np.float32)
    for last in range(SUBSPACE_ROUNDS, -1, -1):
        Q = Q @ _orthogonaliser(workers.sum(gram.product(Q[own], Q[own])))
        F = np.zeros_like(Q)
        layout.neighbours(layout.prepare(Q), F[own])  # S Q
        if last:
            Q = workers.gather_rows(F)
    values, U = np.linalg.eigh(workers.sum(gram.product(Q[own], F[own])))
    chosen = np.argsort(-np.abs(values), kind="stable")[:rank]
    A: Matrix = Q @ U[:, chosen].astype(np.float32)
    lost = np.abs(values[chosen]) <= np.abs(values).max() * np.finfo(np.float32).eps  # S has fewer than r eigenvalues
    A[:, lost] = rng.standard_normal((n, int(lost.sum())), np.float32) / np.float32(np.sqrt(n))
    return A


def _n_vectors(rank: int) -> int:
    """The vectors of the subspace: in float32 a row fills its cache lines."""
    return -(-4 * (rank + OVERSAMPLING) // LINE) * LINE // 4


def _with_positive_weight(facts: Facts) -> Facts:
    return facts.subset(facts.confidences > 0)


def _orthogonaliser(G: Matrix) -> Matrix:
    """T such that Q T has orthonormal columns, or zero columns where Q is rank-deficient, for G = QᵀQ."""
    values, U = np.linalg.eigh(G)
    usable = values > values.max() * np.finfo(np.float32).eps ** 2
    return (U * np.where(usable, 1 / np.sqrt(np.where(usable, values, 1)), 0)).astype(np.float32)


def uniform(facts: Facts | Shard, rank: int, random_state: int) -> Matrix:
    """Uniform numbers in [0, 1), as in the authors' code, (N, r)."""
    return np.random.default_rng(random_state).random((facts.n_entities, rank))


def normal(
    facts: Facts | Shard, rank: int, random_state: int | list[int], structure: Any = FULL
) -> tuple[Matrix, Slices]:
    """Small normal numbers for A and the parameters of R, so that every θ starts near the bias."""
    rng = np.random.default_rng(random_state)
    A = rng.normal(scale=rank**-0.5, size=(facts.n_entities, rank))
    return A, _random_relations(rng, structure, facts.n_relations, rank)


def _random_relations(rng: np.random.Generator, structure: Any, k: int, rank: int) -> Slices:
    """Parameters at which x R_k is about as long as x."""
    if not is_compact(structure):
        return nearest_parameters(structure, rng.normal(scale=rank**-0.5, size=(k, rank, rank)))  # type: ignore[no-any-return]
    columns = rank if structure == FULL else structure.size if isinstance(structure, Blocks) else 1
    return rng.normal(scale=columns**-0.5, size=parameter_shape(structure, k, rank))


def small(facts: Facts | Shard, rank: int, random_state: int, structure: Any = FULL) -> tuple[Matrix, Slices]:
    """Numbers so small that relations with few facts, which Adam hardly moves, add no noise to θ."""
    A, R = normal(facts, rank, random_state, structure)
    return A, R / 10


def positive(facts: Facts, rank: int, random_state: int) -> tuple[Matrix, Slices]:
    """Uniform numbers for A and R, in the size at which θ has the mean of x."""
    rng = np.random.default_rng(random_state)
    A, R = rng.random((facts.n_entities, rank)), rng.random((facts.n_relations, rank, rank))
    mean = max(len(facts), 1) / max(facts.n_observed().sum(), 1)
    return A, R * (mean / (rank * rank / 8))  # the mean of three uniform numbers' product is 1/8


def ones_and_zeros(facts: Facts | Shard) -> tuple[Vector, Vector]:
    """How many cells of each relation are true, by weight, and how many false, (K,)."""
    shard = Shard.of(facts)
    unobserved = shard.sum_by_relation(shard.facts.unobserved)
    ones = shard.sum_by_relation(shard.facts.triples, shard.facts.confidences)
    return ones, np.maximum(shard.n_entities**2 - unobserved - shard.facts_per_relation, 0)


def centred(A: Matrix, R: Slices, means: Vector, rank: int) -> tuple[Matrix, Slices]:
    """The best factors of a lower rank for a_iᵀ R_k a_j − mean_k: what is left to explain where a bias holds the mean.

    Least squares has no bias and spends a direction on the mean. Kept beside a bias, that direction has nothing to do,
    and L-BFGS ends in a minimum that does not use it. With Q an orthonormal basis of [A, 1], the products are Q T_k Qᵀ;
    the eigenvectors of Σ_k T_k T_kᵀ + T_kᵀ T_k are the directions that explain most (HOSVD).
    """
    n, q = A.shape
    G = np.empty((q + 1, q + 1))
    G[:q, :q], G[q, q] = gram.product(A, A), n
    G[:q, q] = G[q, :q] = A.sum(axis=0, dtype=np.float64)
    g, U = np.linalg.eigh(G)
    usable = g > g[-1] * np.finfo(np.float32).eps  # others are rounding
    scale = np.sqrt(np.where(usable, g, 1))
    L = U * (scale * usable)  # [A, 1] = Q Lᵀ
    T = L[:q].T @ R @ L[:q] - means[:, None, None] * np.outer(L[q], L[q])
    T_t = T.transpose(0, 2, 1)
    directions = np.linalg.eigh((T @ T_t + T_t @ T).sum(axis=0))[1][:, : -rank - 1 : -1]
    basis = (U * (usable / scale) @ directions).astype(A.dtype)  # [A, 1] times this is Q times the directions
    lower = A @ basis[:q] + basis[q]
    # Eigenvectors have either sign; one that rounding cannot change gives every number of workers the same start.
    signs = np.where(np.random.default_rng(0).standard_normal(n) @ lower < 0, -1, 1).astype(A.dtype)
    return lower * signs, directions.T @ T @ directions * np.outer(signs, signs)


def perturbed(A: Matrix, random_state: int) -> Matrix:
    """A with a little seeded noise, so that no symmetry of the facts holds a fit at a saddle."""
    scale = PERTURBATION * np.sqrt(np.mean(A * A, dtype=np.float64))
    return A + A.dtype.type(scale) * np.random.default_rng(random_state).standard_normal(A.shape, A.dtype)


def balanced(A: Matrix, R: Slices, l2_entities: float, l2_relations: float) -> tuple[Matrix, Slices]:
    """The same products a_iᵀ R_k a_j at the least penalty: A grows by s as R shrinks by s²."""
    a, r = l2_entities * float(np.sum(A * A)), l2_relations * float(np.sum(R * R))
    if not (a > 0 and r > 0):
        return A, R
    s = (2 * r / a) ** (1 / 6)
    return A * s, R / s**2


def checked_factors(factors: Factors, facts: Facts | Shard, rank: int | None) -> Factors:
    """Given factors as a start: they must fit the facts."""
    if factors.entities != facts.entities or factors.relations != facts.relations:
        raise InputError("init: the factors' entities and relations must be those of the facts, in the same order")
    if rank is not None and rank != factors.rank:
        raise InputError(f"init: the factors have rank {factors.rank}, but rank={rank} was asked for")
    return factors


def float_type(dtype: Any) -> np.dtype[Any]:
    """float32 or float64, checked."""
    for kind in (np.dtype(np.float32), np.dtype(np.float64)):
        if dtype is not None and dtype in (kind, kind.name, kind.type):  # NumPy takes None for float64
            return kind
    only = " (which is for a GPU)" if dtype == "tf32" else ""
    raise InputError(f"dtype must be 'float32' or 'float64', got {dtype!r}{only}")
